#include "ort/fourier/inputs.h"

#include <algorithm>
#include <functional>
#include <numeric>

#include "base/error.h"
#include "ort/abi/boundary.h"
#include "ort/abi/tensors.h"

namespace ortconv {
namespace {

constexpr int64_t kMost = (int64_t{1} << 61) - 1;

int64_t checked(const char* name, int64_t value, int64_t least, int64_t most, const char* limit) {
  if (value < least || value > most) {
    fail("attribute ", name, " = ", value, " is not allowed; allowed: ", least, " to ", limit, ".");
  }
  return value;
}

std::vector<int64_t> checked_list(const AttributeSource& source, const char* name, size_t count, int64_t least) {
  const std::vector<int64_t> values = source.integers(name);
  const bool fits = std::all_of(values.begin(), values.end(), [=](int64_t v) { return v >= least && v <= kMost; });
  if (values.size() != count || !fits) {
    fail("attribute ", name, " = ", to_string(values), " is not allowed; allowed: ", count,
         count == 1 ? " integer" : " integers", " from ", least, " to 2^61 - 1.");
  }
  return values;
}

bool checked_flag(const AttributeSource& source, const char* name) {
  const int64_t value = source.integer(name);
  if (value != 0 && value != 1) fail("attribute ", name, " = ", value, " is not allowed; allowed: 0 and 1.");
  return value == 1;
}

int64_t taps_of(const Shape& window) {
  if (window.size() != 1 || window[0] < 1) {
    fail("input window has shape ", to_string(window), "; allowed: [K], at least one tap.");
  }
  return window[0];
}

// [batch, 1 or channels, positions or frames].
void check_data(const char* name, const Shape& shape, int64_t channels) {
  if (shape.size() == 3 && shape[1] == channels) return;
  fail("input ", name, " has shape ", to_string(shape), "; allowed: rank 3, with ", channels, " in the second place.");
}

// How many bins the gains are for.
int64_t bins_of(const StftAttributes& attributes, const Shape& gains) {
  const int64_t each = attributes.parts == kernels::SpectralParts::kBoth ? 2 : 1;
  const bool is_list = gains.size() == 1 && gains[0] % each == 0;
  const int64_t bins = is_list ? gains[0] / each : 0;
  if (bins < 1 || bins > attributes.n_fft) {
    fail("input gains has shape ", to_string(gains), "; allowed: ", each, " for each of 1 to ", attributes.n_fft,
         " bins.");
  }
  return bins;
}

// Positions that so many frames reach, where there is one.
int64_t reach_of(int64_t frames, int64_t hop, int64_t taps) {
  if (frames == 0) return std::max<int64_t>(taps - hop, 0);
  if (frames - 1 > (kMost - taps) / hop) fail("the signal has more than 2^61 - 1 positions.");
  return (frames - 1) * hop + taps;
}

}  // namespace

const OrtValue* input_of(const OrtApi* api, const OrtKernelContext* context, size_t index) {
  size_t count = 0;
  invoke<abi::KernelContextGetInputCount>(api, context, &count);
  const OrtValue* value = nullptr;
  if (index < count) invoke<abi::KernelContextGetInput>(api, context, index, &value);
  return value;
}

int64_t integer_of(const OrtApi* api, const OrtValue* input, const char* name, int64_t otherwise) {
  if (input == nullptr) return otherwise;
  const Shape shape = shape_of(api, input);
  if (!shape.empty() && shape != Shape{1}) {
    fail("input ", name, " has shape ", to_string(shape), "; allowed: a scalar.");
  }
  return *static_cast<const int64_t*>(data_of(api, input));
}

size_t FourierIndices::count(FourierOp op) {
  switch (op) {
    case FourierOp::kForward:
      return kGains + 1;
    case FourierOp::kInverse:
      return kSines + 1;
    case FourierOp::kOverlapAdd:
      return kWindow + 1;
    case FourierOp::kTransform:
      break;
  }
  return kLength + 1;
}

bool FourierIndices::is_optional(FourierOp op, size_t index) {
  return (op == FourierOp::kInverse && index == kSines) || (op == FourierOp::kTransform && index == kLength);
}

StftAttributes stft_attributes(FourierOp op, const AttributeSource& source) {
  StftAttributes a;
  a.hop = checked_list(source, "hop", 1, 1)[0];
  const std::vector<int64_t> pads = checked_list(source, "pads", 2, 0);
  a.begin = pads[0], a.end = pads[1];
  if (op != FourierOp::kForward) a.output_padding = checked_list(source, "output_padding", 1, 0)[0];
  if (op != FourierOp::kOverlapAdd) {
    a.n_fft = checked("n_fft", source.integer("n_fft"), 1, kLongestTransform, "2^27");
    a.parts = static_cast<kernels::SpectralParts>(checked("parts", source.integer("parts"), 0, 2, "2"));
  }
  return a;
}

StftRun stft_run(FourierOp op, const StftAttributes& a, const StftShapes& shapes) {
  StftRun run{};
  kernels::StftProblem& p = run.problem;
  p.n_fft = a.n_fft;
  p.parts = a.parts;
  const int64_t taps = taps_of(shapes.window);
  if (a.n_fft > 0 && taps > a.n_fft) {
    fail("input window has ", taps, " taps; allowed: up to n_fft = ", a.n_fft, ".");
  }
  const int64_t bins = a.n_fft == 0 ? taps : bins_of(a, *shapes.gains);
  const int64_t longest = std::max(kAnyTransform, kZeroPadding * std::max(taps, bins));
  if (a.n_fft > longest) {
    fail("attribute n_fft = ", a.n_fft, " is not supported for ", taps, " taps and ", bins, " bins; allowed: up to ",
         longest, ".");
  }
  p.grid = {taps, a.hop, bins, 0, a.begin, 0};
  if (op == FourierOp::kForward) {
    check_data("signal", shapes.data, 1);
    p.grid.length = shapes.data[2];
    const int64_t padded = p.grid.length + a.begin + a.end;  // each is below 2^61
    if (padded < taps) {
      fail("input window has ", taps, " taps; allowed: up to the ", padded, " positions of the padded signal.");
    }
    p.grid.frames = (padded - taps) / a.hop + 1;
    run.y = {shapes.data[0], (*shapes.gains)[0], p.grid.frames};
  } else {
    const char* const name = op == FourierOp::kInverse ? "spectrum" : "frames";
    check_data(name, shapes.data, a.n_fft == 0 ? taps : shapes.sines ? bins : (*shapes.gains)[0]);
    if (shapes.sines && a.parts != kernels::SpectralParts::kBoth) {
      fail("attribute parts = ", static_cast<int>(a.parts), " is not allowed; allowed beside sines: 0.");
    }
    if (shapes.sines && *shapes.sines != shapes.data) {
      fail("input sines has shape ", to_string(*shapes.sines), "; allowed: ", to_string(shapes.data),
           ", as spectrum has.");
    }
    p.grid.frames = shapes.data[2];
    p.grid.length = reach_of(p.grid.frames, a.hop, taps) - a.begin - a.end + a.output_padding;
    if (p.grid.length < 0) {
      fail("the padding leaves ", p.grid.length, " positions; allowed: at least 0.");
    }
    run.y = {shapes.data[0], 1, p.grid.length};
  }
  p.batch = shapes.data[0];
  // With one frame or none, hop has no effect. It may be so large that sums with it overflow.
  if (p.grid.frames <= 1) p.grid.hop = std::min(p.grid.hop, taps);
  return run;
}

TransformAttributes transform_attributes(const AttributeSource& source) {
  return {source.integer("axis"), checked_flag(source, "inverse"), checked_flag(source, "onesided")};
}

TransformRun transform_run(const TransformAttributes& a, const Shape& x, int64_t length) {
  const auto rank = static_cast<int64_t>(x.size());
  if (rank < 2 || x.back() < 1 || x.back() > 2) {
    fail("input X has shape ", to_string(x), "; allowed: two axes or more, the last one 1 or 2.");
  }
  const int64_t axis = a.axis < 0 ? a.axis + rank : a.axis;
  if (a.axis < -rank || axis < 0 || axis >= rank - 1) {
    fail("attribute axis = ", a.axis, " is not allowed; allowed: ", -rank, " to ", rank - 2, " but -1.");
  }
  const bool from_bins = a.is_onesided && a.is_inverse, to_bins = a.is_onesided && !a.is_inverse;
  if (a.is_onesided && x.back() != (from_bins ? 2 : 1)) {
    fail("the last axis of input X has size ", x.back(), "; allowed if onesided: ", from_bins ? 2 : 1, ".");
  }
  TransformRun run{};
  run.size = x[axis];
  if (length < 0) fail("input length is ", length, "; allowed: integers >= 0.");
  run.length = length;
  if (length == 0 && run.size > kLongestTransform) run.length = run.size;
  if (run.length == 0) run.length = from_bins ? 2 * (run.size - 1) : run.size;
  if (run.length < 1 || run.length > kLongestTransform) {
    fail("the length of the transform is ", run.length, "; allowed: 1 to 2^27.");
  }
  const auto product = [&](int64_t first, int64_t last) {
    // Beside a size of 0 the others may be too large to be multiplied.
    if (std::find(x.begin() + first, x.begin() + last, 0) != x.begin() + last) return int64_t{0};
    return std::accumulate(x.begin() + first, x.begin() + last, int64_t{1}, std::multiplies<int64_t>());
  };
  const bool is_empty = std::count(x.begin(), x.end(), 0) > (run.size == 0 ? 1 : 0);
  run.outer = is_empty ? 0 : product(0, axis);
  run.inner = is_empty ? 0 : product(axis + 1, rank - 1);
  run.x_parts = x.back();
  run.count = to_bins ? run.length / 2 + 1 : run.length;
  run.y_parts = from_bins ? 1 : 2;
  run.y = x;
  run.y[axis] = run.count;
  run.y.back() = run.y_parts;
  return run;
}

}  // namespace ortconv

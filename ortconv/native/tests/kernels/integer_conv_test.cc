// Every kernel for convolutions of 8-bit integers this CPU has, against sums by the definition: types, zero points,
// groups, strides, dilations, paddings, extremes. Results are equal to sums that are rounded in the order that
// integer_result.h states. What is read ends, or begins, where the memory does.
#include "kernels/integer_conv/integer_conv.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "base/parallel.h"
#include "kernels/integer_conv/result.h"
#include "kernels/integer_depthwise/channels.h"
#include "kernels/integer_depthwise/integer_depthwise.h"
#include "testing/guarded.h"
#include "testing/on_threads.h"

using namespace ortconv;
using namespace ortconv::kernels;

namespace {

int failures = 0, checked = 0, checked_rows = 0, checked_channels = 0;
int every = 1;  // of so many problems, one is taken

enum class Values { kAny, kExtremes, kLeast, kGreatest };

// So many bytes, in memory of their own; `at_begin` is where it ends.
struct Numbers {
  Guarded memory;
  bool is_signed;

  Numbers(int64_t count, bool has_sign, Values values, bool at_begin, std::mt19937& random)
      : memory(count, at_begin), is_signed(has_sign) {
    const uint8_t least = has_sign ? 0x80 : 0, greatest = has_sign ? 0x7f : 0xff;
    for (int64_t i = 0; i < count; ++i) {
      const bool is_least = values == Values::kLeast || (values == Values::kExtremes && random() % 2 == 0);
      memory.as<uint8_t>()[i] = values == Values::kAny ? static_cast<uint8_t>(random()) : is_least ? least : greatest;
    }
  }

  Bytes bytes() { return {memory.as<uint8_t>(), is_signed}; }
};

struct Shape {
  int64_t batch, groups, inputs, outputs;  // channels of a group
  int ndims;
  std::array<int64_t, 3> src, ker, stride, dilation, begin, end;
};

ConvProblem problem_of(const Shape& s) {
  ConvProblem p;
  p.ndims = s.ndims, p.mb = s.batch, p.g = s.groups, p.ic = s.groups * s.inputs, p.oc = s.groups * s.outputs;
  for (int i = 0; i < s.ndims; ++i) {
    p.src_size[i] = s.src[i], p.ker[i] = s.ker[i], p.stride[i] = s.stride[i], p.pad[i] = s.begin[i];
    p.dilation[i] = s.ker[i] == 1 ? 1 : s.dilation[i];
    const int64_t room = s.src[i] + s.begin[i] + s.end[i] - (p.ker[i] - 1) * p.dilation[i] - 1;
    p.dst_size[i] = room < 0 ? 0 : room / s.stride[i] + 1;
  }
  return p;
}

bool next(std::array<int64_t, 3>* index, const int64_t* sizes, int ndims) {
  for (int i = ndims; i-- > 0;) {
    if (++(*index)[i] < sizes[i]) return true;
    (*index)[i] = 0;
  }
  return false;
}

// Of one output, by the definition.
int64_t sum_at(const ConvProblem& p, Bytes x, int64_t x_zero, Bytes w, int64_t w_zero, int64_t n, int64_t m,
               const std::array<int64_t, 3>& at) {
  const int64_t inputs = p.ic / p.g, first = m / (p.oc / p.g) * inputs;
  int64_t sum = 0;
  for (int64_t c = 0; c < inputs; ++c) {
    std::array<int64_t, 3> tap = {};
    int64_t weight = (m * inputs + c);
    for (int i = 0; i < p.ndims; ++i) weight *= p.ker[i];
    do {
      int64_t source = n * p.ic + first + c;
      bool inside = true;
      for (int i = 0; i < p.ndims; ++i) {
        const int64_t position = at[i] * p.stride[i] + tap[i] * p.dilation[i] - p.pad[i];
        inside = inside && position >= 0 && position < p.src_size[i];
        source = source * p.src_size[i] + position;
      }
      if (inside) sum += (x[source] - x_zero) * (w[weight] - w_zero);
      ++weight;
    } while (next(&tap, p.ker, p.ndims));
  }
  return sum;
}

struct Kind {
  bool x_signed, w_signed, has_bias;
  int64_t zeros, scales;  // numbers for the weights: 0, 1 or one for each channel
  Values values;
};

// Straight from the source where `direct`, or where the problem has no layout.
void check(const IntegerConvKernel& kernel, const Shape& s, const Kind& kind, int threads, bool at_begin,
           bool direct = false) {
  const ConvProblem p = problem_of(s);
  int64_t inputs = p.mb * p.ic, outputs = p.mb * p.oc, weights = p.oc * (p.ic / p.g), pixels = 1;
  for (int i = 0; i < p.ndims; ++i) inputs *= p.src_size[i], pixels *= p.dst_size[i], weights *= p.ker[i];
  outputs *= pixels;
  if (outputs == 0 || (kernel.saturates && is_integer_depthwise(p))) return;
  std::mt19937 random(static_cast<unsigned>(inputs * 7919 + outputs * 31 + weights));
  Numbers x(inputs, kind.x_signed, kind.values, at_begin, random);
  Numbers w(weights, kind.w_signed, kind.values, at_begin, random);
  Numbers x_zero(1, kind.x_signed, Values::kAny, at_begin, random);
  Numbers zeros(kind.zeros == 0 ? 0 : kind.zeros == 1 ? 1 : p.oc, kind.w_signed, Values::kAny, at_begin, random);
  const int64_t zero_count = kind.zeros == 0 ? 0 : kind.zeros == 1 ? 1 : p.oc;
  const int64_t scale_count = kind.scales == 1 ? 1 : p.oc;
  Guarded scales(scale_count * sizeof(float), at_begin), bias(p.oc * sizeof(float), at_begin);
  Guarded y(outputs * sizeof(float), at_begin);
  std::memset(y.as<char>(), 0xff, outputs * sizeof(float));  // NaN
  std::uniform_real_distribution<float> number(-2, 2);
  for (int64_t i = 0; i < scale_count; ++i) scales.as<float>()[i] = number(random);
  for (int64_t i = 0; i < p.oc; ++i) bias.as<float>()[i] = number(random) * 1000;

  const std::optional<IntegerConvLayout> layout = IntegerConvLayout::make(p, kernel);
  const IntegerConvFilter filter{w.bytes(), zeros.memory.as<uint8_t>(), zero_count};
  const IntegerConvWeights packed(kernel, p, filter);
  const size_t bytes = layout ? (integer_conv_scratch_bytes(p, *layout, packed, threads) + 63) / 64 * 64 : 0;
  Guarded scratch(bytes, false);
  std::memset(scratch.as<char>(), 0xff, bytes);
  const Parallel parallel = threads == 1 ? serial() : on_threads(threads);
  const float x_scale = number(random);
  const IntegerConvOperands operands{x.bytes(),          x_zero.bytes()[0], x_scale,
                                     scales.as<float>(), scale_count,       kind.has_bias ? bias.as<float>() : nullptr,
                                     y.as<float>()};
  if (direct || !layout) {
    integer_conv_direct(p, filter, operands, parallel);
  } else {
    integer_conv(p, *layout, packed, operands, scratch.as<void>(), parallel);
  }
  ++checked;
  std::array<int64_t, 3> at = {};
  const float* got = y.as<float>();
  for (int64_t n = 0; n < p.mb; ++n) {
    for (int64_t m = 0; m < p.oc; ++m) {
      const int64_t w_zero = zero_count == 0 ? 0 : zeros.bytes()[zero_count == 1 ? 0 : m];
      const auto scale = static_cast<double>(x_scale * scales.as<float>()[scale_count == 1 ? 0 : m]);
      const double addend = kind.has_bias ? static_cast<double>(bias.as<float>()[m]) : 0;
      do {
        const int64_t sum = sum_at(p, x.bytes(), x_zero.bytes()[0], w.bytes(), w_zero, n, m, at);
        const double product = static_cast<double>(static_cast<float>(sum)) * scale, want = product + addend;
        const double bound = (std::fabs(product) + std::fabs(want)) * 0x1p-24;
        if (std::fabs(static_cast<double>(*got) - want) <= bound) continue;
        ++failures;
        std::printf(
            "FAIL %s %ld x %ld x %ld>%ld, src %ld %ld %ld ker %ld %ld %ld: channel %ld at %ld %ld %ld is %.9g, "
            "not %.9g\n",
            kernel.name, static_cast<long>(s.batch), static_cast<long>(s.groups), static_cast<long>(s.inputs),
            static_cast<long>(s.outputs), static_cast<long>(s.src[0]), static_cast<long>(s.src[1]),
            static_cast<long>(s.src[2]), static_cast<long>(s.ker[0]), static_cast<long>(s.ker[1]),
            static_cast<long>(s.ker[2]), static_cast<long>(m), static_cast<long>(at[0]), static_cast<long>(at[1]),
            static_cast<long>(at[2]), static_cast<double>(*got), want);
        return;
      } while (++got, next(&at, p.dst_size, p.ndims));
    }
  }
}

// As integer_result.h says; no operation is fused with another.
float rounded(volatile float value) { return value; }

double expected(int64_t sum, const IntegerResultArgs& a, float bias, ResultType type) {
  float v = rounded(rounded(static_cast<float>(static_cast<int32_t>(sum)) * a.scale) + bias);
  v = rounded(a.activation(v));
  const HardSigmoid& gate = a.activation.hard_sigmoid;
  if (!gate.is_one()) v = rounded(v * std::clamp(rounded(rounded(v * gate.alpha) + gate.beta), 0.0f, 1.0f));
  v = rounded(rounded(v * a.factor) + a.addend);
  if (type == ResultType::kFloat) return static_cast<double>(v);
  const double least = type == ResultType::kInt8 ? -128 : 0;
  const double integer = std::nearbyint(static_cast<double>(rounded(v / a.y_scale))) + a.y_zero;
  return std::min(std::max(integer, least), least + 255);
}

enum class Way { kTiles, kDirect, kRows, kChannels };

// Straight from the source where the problem has no layout; not at all where it has no rows.
void check_result(const IntegerConvKernel& kernel, const IntegerResultKernel& result,
                  const IntegerDepthwiseKernel* rows, const Shape& s, int turn, Way way) {
  ConvProblem p = problem_of(s);
  int64_t inputs = p.mb * p.ic, pixels = 1, weights = p.oc * (p.ic / p.g);
  for (int i = 0; i < p.ndims; ++i) inputs *= p.src_size[i], pixels *= p.dst_size[i], weights *= p.ker[i];
  const int64_t outputs = p.mb * p.oc * pixels;
  if (outputs == 0 || (kernel.saturates && is_integer_depthwise(p))) return;
  constexpr float kScale = 0.4375f;  // of the result
  const bool is_plain = turn / 4 % 2 == 0;
  if (is_plain && turn % 5 == 0) {
    p.activation = {1, -100 * kScale, 155 * kScale};  // what uint8 takes, less the zero point
  } else if (!is_plain && turn % 3 != 0) {
    p.activation = {turn % 2 == 0 ? 0.125f : 1, turn % 5 == 0 ? 0 : -30.0f, 60};
  }
  if (turn % 7 < 2) p.activation.hard_sigmoid = {1.0f / 6, 0.5f};
  std::mt19937 random(static_cast<unsigned>(turn));
  const bool at_begin = turn % 2 == 0, has_biases = turn % 4 < 2;
  const auto type = static_cast<ResultType>(turn % 3);
  Numbers x(inputs, turn % 5 == 0, Values::kAny, at_begin, random), w(weights, true, Values::kAny, at_begin, random);
  const uint8_t w_zero = turn % 7 == 0 ? 3 : 0;
  Guarded scales(p.oc * sizeof(float), at_begin), factors(p.oc * sizeof(float), at_begin);
  Guarded addends(p.oc * sizeof(float), at_begin), bias(p.oc * (has_biases ? pixels : 1) * sizeof(float), at_begin);
  std::uniform_real_distribution<float> number(-2, 2);
  for (int64_t i = 0; i < p.oc; ++i) {
    scales.as<float>()[i] = number(random) / 64;
    factors.as<float>()[i] = is_plain ? 1 : number(random);
    addends.as<float>()[i] = is_plain ? 0 : 8 * number(random);
  }
  for (int64_t i = 0; i < p.oc * (has_biases ? pixels : 1); ++i) {
    const bool repeats = i % (has_biases ? pixels : 1) % 100 > 3;  // as at the inner positions of an image
    bias.as<float>()[i] = repeats ? bias.as<float>()[i - 1] : 8 * number(random);
  }
  const int64_t size = type == ResultType::kFloat ? sizeof(float) : 1;
  Guarded y(outputs * size, at_begin);
  std::memset(y.as<char>(), 0x5a, outputs * size);
  IntegerResultOperands operands{};
  operands.x = x.bytes(), operands.x_zero = x.is_signed ? -7 : 121, operands.x_scale = 0.25f;
  operands.w_scales = scales.as<float>(), operands.w_scale_count = p.oc;
  (has_biases ? operands.biases : operands.bias) = bias.as<float>();
  operands.factors = factors.as<float>(), operands.addends = addends.as<float>();
  std::vector<int32_t> equal;
  if (has_biases && turn % 8 < 4) {
    equal = find_equal_biases(operands.biases, p.oc, pixels);
    operands.equal_biases = equal.data();
  }
  operands.y = y.as<void>(), operands.type = type, operands.y_scale = kScale;
  operands.y_zero = type == ResultType::kUint8 ? 100 : -5;
  const IntegerConvFilter filter{w.bytes(), &w_zero, 1};
  const std::optional<IntegerConvLayout> layout = IntegerConvLayout::make(p, kernel);
  const int threads = 1 + turn % 3;
  const Parallel parallel = threads == 1 ? serial() : on_threads(threads);
  if (way == Way::kRows) {
    const auto packed = IntegerDepthwiseWeights::make(p, filter);
    if (rows == nullptr || !packed || !packed->supports(p)) return;
    Guarded scratch((integer_depthwise_scratch_bytes(p, threads) + 63) / 64 * 64, false);
    integer_depthwise_result(p, *packed, *rows, operands, scratch.as<void>(), parallel);
    ++checked_rows;
  } else if (way == Way::kChannels) {
    const IntegerChannelsKernel* const by_channels = get_integer_channels_kernel(ArchFlags::host());
    const auto packed = IntegerChannelsWeights::make(p, filter);
    if (by_channels == nullptr || type == ResultType::kFloat || !packed || !packed->supports(p)) return;
    Guarded scratch((integer_channels_scratch_bytes(p, threads) + 63) / 64 * 64, false);
    integer_channels_result(p, *packed, *by_channels, operands, scratch.as<void>(), parallel);
    ++checked_channels;
  } else if (way == Way::kDirect || !layout) {
    integer_conv_result_direct(p, filter, result, operands, parallel);
  } else {
    const IntegerConvWeights packed(kernel, p, filter);
    Guarded scratch((integer_conv_scratch_bytes(p, *layout, packed, threads) + 63) / 64 * 64, false);
    integer_conv_result(p, *layout, packed, result, operands, scratch.as<void>(), parallel);
  }
  ++checked;
  int64_t i = 0;
  for (int64_t n = 0; n < p.mb; ++n) {
    for (int64_t m = 0; m < p.oc; ++m) {
      std::array<int64_t, 3> at = {};
      do {
        const int64_t sum = sum_at(p, x.bytes(), operands.x_zero, w.bytes(), w_zero, n, m, at);
        const float addend = has_biases ? operands.biases[i % (p.oc * pixels)] : operands.bias[m];
        const double want = expected(sum, integer_result_args(p, operands, m), addend, type);
        const double got = type == ResultType::kFloat
                               ? static_cast<double>(y.as<float>()[i])
                               : static_cast<double>(Bytes{y.as<uint8_t>(), type == ResultType::kInt8}[i]);
        ++i;
        if (got == want) continue;
        ++failures;
        std::printf("FAIL result of %s, turn %d%s: element %ld is %g, not %g\n", kernel.name, turn,
                    way == Way::kDirect     ? " (direct)"
                    : way == Way::kRows     ? " (rows)"
                    : way == Way::kChannels ? " (channels)"
                                            : "",
                    static_cast<long>(i - 1), got, want);
        return;
      } while (next(&at, p.dst_size, p.ndims));
    }
  }
}

constexpr Values kValues[] = {Values::kAny, Values::kExtremes, Values::kLeast, Values::kGreatest};

Kind kind_of(int64_t turn) {
  return {turn % 2 == 0, turn / 2 % 2 == 0, turn % 3 != 0, turn % 7 % 3, turn % 5 % 2, kValues[turn % 11 % 4]};
}

void check_all(const IntegerConvKernel& kernel, const IntegerResultKernel& result, const IntegerDepthwiseKernel* rows) {
  int64_t turn = 0;
  const auto one = [&](const Shape& s) {
    if (++turn % every != 0) return;
    check(kernel, s, kind_of(turn), 1 + static_cast<int>(turn % 3), turn % 4 < 2);
    const int half = static_cast<int>(turn / 2);
    if (turn % 2 == 0) check_result(kernel, result, rows, s, half, turn % 16 == 0 ? Way::kDirect : Way::kTiles);
    check_result(kernel, result, rows, s, half, Way::kRows);
    check_result(kernel, result, rows, s, half, Way::kChannels);
    if (turn % 8 == 0) check(kernel, s, kind_of(turn), 1, turn % 4 < 2, true);
  };
  const auto plain = [&](int64_t inputs, int64_t outputs, int64_t height, int64_t width, int64_t k) {
    one({1, 1, inputs, outputs, 2, {height, width}, {k, k}, {1, 1}, {1, 1}, {k / 2, k / 2}, {k / 2, k / 2}});
  };
  // Every kind of numbers, in the general way and in the depthwise one.
  for (int i = 0; i < 1155; i += 7) {
    check(kernel, {1, 1, 5, 6, 2, {4, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, kind_of(i), 1, i % 2 == 0);
    check(kernel, {1, 5, 1, 1, 2, {4, 5}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}}, kind_of(i), 1, i % 2 == 0);
  }
  // The edges of tiles, lanes and vectors.
  for (int64_t outputs = 1; outputs <= 34; ++outputs) plain(3, outputs, 5, 7, 1), plain(5, outputs, 7, 13, 3);
  for (int64_t inputs = 1; inputs <= 18; ++inputs) plain(inputs, 9, 6, 8, 1), plain(inputs, 9, 3, 9, 3);
  for (int64_t width = 1; width <= 70; ++width) plain(4, 8, 2, width, 1), plain(3, 3, 3, width, 3);
  for (int64_t size = 1; size <= 20; ++size) {
    plain(2, 7, size, size, 5);
    one({2, 6, 1, 1 + size % 5, 2, {size, size + 1}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
    one({1, 3, 1, 1, 2, {size, 2 * size}, {5, 7}, {1 + size % 2, 2}, {1, 1}, {2, 3}, {2, 3}});
  }
  // The edges of rows, and rows that are computed some at a time.
  for (int64_t width = 1; width <= 70; ++width) {
    for (int64_t stride = 1; stride <= 2; ++stride) {
      one({1, 2, 1, 1, 2, {4, stride * width}, {3, 1 + width % 5}, {1, stride}, {1, 1}, {1, width % 3}, {1, 1}});
      one({2, 1, 1, 2, 1, {stride * width}, {3}, {stride}, {1 + width % 2}, {1}, {2}});
    }
  }
  one({1, 1, 1, 2, 2, {150, 130}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}});
  one({2, 18, 1, 1, 2, {90, 130}, {5, 5}, {2, 2}, {1, 1}, {2, 2}, {2, 2}});
  // The edges of blocks of channels, and tiles of images.
  for (int64_t groups = 1; groups <= 34; ++groups) {
    const int64_t k = 1 + groups % 9, stride = 1 + groups % 3, dilation = 1 + groups % 5 / 4;
    one({1, groups, 1, 1, 2, {7, 7}, {3, 5}, {1, 1}, {1, 1}, {1, 2}, {1, 2}});
    one({2, groups, 1, 1, 2, {30, 50 + groups}, {3, k}, {stride, stride}, {1, dilation}, {1, k / 2}, {1, k}});
    one({1, groups, 1, 1, 1, {100 + groups}, {k}, {stride}, {dilation}, {k}, {k}});
  }
  // A single output, or one that is left over.
  for (int64_t inputs = 1; inputs <= 80; ++inputs) {
    plain(inputs, 1 + inputs % 19, 1, 1, 1), plain(inputs, 1 + inputs % 19, 1, 1, 3), plain(inputs, 9, 1, 17, 1);
  }
  // Outputs that are worth a plane for each tap of a row.
  for (int64_t size = 1; size <= 22; ++size) {
    const int64_t stride = 1 + size % 3 / 2, dilation = 1 + size % 4 / 3;
    one({1, 1, 3, 64 + size % 3, 2, {size, size}, {3, 3}, {stride, stride}, {1, dilation}, {1, dilation}, {1, 2}});
    one({2, 2, 5, 65, 1, {3 * size}, {4}, {stride}, {dilation}, {size % 5}, {7}});
  }
  // Anything.
  std::mt19937 random(1);
  const auto below = [&](int64_t n) { return static_cast<int64_t>(random() % n); };
  for (int i = 0; i < 800; ++i) {
    Shape s{1 + below(2),
            1 + below(3),
            1 + below(9),
            1 + below(11),
            1 + static_cast<int>(below(3)),
            {},
            {},
            {},
            {},
            {},
            {}};
    if (i % 3 == 0) s.inputs = 1, s.outputs = 1 + below(5);
    for (int axis = 0; axis < s.ndims; ++axis) {
      s.src[axis] = 1 + below(s.ndims == 1 ? 90 : 12), s.ker[axis] = 1 + below(s.ndims == 3 ? 3 : 6);
      s.stride[axis] = 1 + below(4) * below(2), s.dilation[axis] = 1 + below(3) * below(2);
      s.begin[axis] = below(5), s.end[axis] = below(5);
    }
    one(s);
  }
  // Numbers of any size: what is arranged stays small, and so does the time.
  for (int i = 0; i < 600; ++i) {
    Shape s{
        1 + below(2), 1 + below(3), 1 + below(5), 1 + below(5), 1 + static_cast<int>(below(3)), {}, {}, {}, {}, {}, {}};
    if (i % 2 == 0) s.inputs = 1;
    if (i % 8 == 1) s.groups = 1, s.outputs = 65;
    for (int axis = 0; axis < s.ndims; ++axis) {
      const auto about = [&](int64_t number) { return std::max<int64_t>(number + below(9) - 4, 1); };
      const int64_t huge = int64_t{1} << (2 + below(56));
      s.src[axis] = 1 + below(9), s.ker[axis] = 1 + below(5);
      s.dilation[axis] = below(3) == 0 ? 1 + below(3) : about(huge / s.ker[axis]);
      const int64_t reach = s.ker[axis] == 1 ? 0 : (s.ker[axis] - 1) * s.dilation[axis];
      s.begin[axis] = below(4) == 0 ? below(3) : below(2) == 0 ? about(huge) : about(reach / (1 + below(3)));
      s.end[axis] =
          std::max<int64_t>(below(2) == 0 ? below(9) : about(huge), reach - s.src[axis] - s.begin[axis] + below(6));
      const int64_t room = s.src[axis] + s.begin[axis] + s.end[axis] - reach;
      s.stride[axis] = std::max<int64_t>(1 + below(3), below(2) == 0 ? about(s.dilation[axis]) : 1);
      s.stride[axis] = std::max(s.stride[axis], room / (1 + below(7)));
    }
    one(s);
  }
  std::printf("%s\n", kernel.name);
}

// Whose padding would be gigabytes, and whose taps or positions have each a plane that is mostly padding.
void check_memory() {
  const int64_t far = int64_t{1} << 28;
  const Shape shapes[] = {
      {1, 1, 3, 2, 2, {4, 5}, {3, 3}, {1, 1}, {far, far}, {far, far}, {far, far}},
      {1, 4, 1, 1, 2, {4, 5}, {3, 3}, {far, 1}, {far, 1}, {far, 1}, {2 * far, 1}},
      {1, 2, 2, 2, 1, {9}, {2}, {2 * far}, {1}, {far, 0}, {far, 0}},
      {1, 1, 1, 1, 1, {3000}, {3000}, {far}, {far + 1}, {3000 * far}, {3000 * far}},
  };
  for (const Shape& s : shapes) {
    const std::optional<IntegerConvLayout> layout =
        IntegerConvLayout::make(problem_of(s), get_integer_conv_kernel(ArchFlags()));
    size_t lanes = 0;
    if (layout) lanes = static_cast<size_t>(layout->planes * layout->plane);
    if (lanes <= 4096) continue;
    ++failures;
    std::printf("FAIL %zu lanes of padding are arranged\n", lanes);
  }
  // Without a product of sizes that would not fit.
  ConvProblem empty = problem_of({1, 3, 0, 2, 2, {4, 5}, {3, 3}, {1, 1}, {1, 1}, {0, 0}, {0, 0}});
  empty.ker[0] = empty.ker[1] = int64_t{1} << 60;
  const IntegerConvWeights none(get_integer_conv_kernel(ArchFlags()), empty, {});
  empty.ic = 3, empty.oc = 0;
  const IntegerConvWeights without_outputs(get_integer_conv_kernel(ArchFlags()), empty, {});
}

// The kernel that saturates is taken where few weights exceed, and not for depthwise problems.
void check_fastest(const ArchFlags& arch) {
  const auto saturates = [&](const Shape& s, const std::vector<uint8_t>& numbers) {
    const ConvProblem p = problem_of(s);
    std::vector<uint8_t> w;
    for (int64_t i = 0; i < p.oc * (p.ic / p.g) * p.ker[0] * p.ker[1]; ++i) w.push_back(numbers[i % numbers.size()]);
    return IntegerConvWeights::for_fastest(arch, p, {{w.data(), true}, nullptr, 0}).kernel().saturates;
  };
  const Shape whole{1, 1, 8, 8, 2, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  const Shape depthwise{1, 8, 1, 1, 2, {9, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}};
  const std::vector<uint8_t> small = {1, 64, 200, 0, 255}, large = {127};
  checked += 3;
  if (saturates(whole, small) && !saturates(whole, large) && !saturates(depthwise, small)) return;
  ++failures;
  std::printf("FAIL another kernel is taken for the fastest\n");
}

}  // namespace

// One of `every` problems.
int main(int argc, char** argv) {
  if (argc > 1) every = std::atoi(argv[1]);
  const ArchFlags& host = ArchFlags::host();
  ArchFlags neon, avx2, avx_vnni, avx512, avx512_vnni;
  neon.neon = host.neon;
  avx2.avx2_fma = host.avx2_fma;
  avx_vnni.avx_vnni = host.avx_vnni;
  avx512.avx512 = host.avx512;
  avx512_vnni.avx512_vnni = host.avx512_vnni;
  std::vector<const IntegerConvKernel*> seen;
  for (const ArchFlags& arch : {ArchFlags{}, neon, avx2, avx_vnni, avx512, avx512_vnni}) {
    const IntegerConvKernel& kernel = get_integer_conv_kernel(arch);
    if (std::find(seen.begin(), seen.end(), &kernel) != seen.end()) continue;
    seen.push_back(&kernel);
    if (const IntegerConvKernel* const saturating = get_saturating_integer_conv_kernel(arch)) {
      check_all(*saturating, get_integer_result_kernel(arch), nullptr);
      check_fastest(arch);
    }
    check_all(kernel, get_integer_result_kernel(arch), get_integer_depthwise_kernel(arch));
  }
  check_memory();
  if (!host.avx2_fma) std::printf("SKIP avx2: this CPU lacks AVX2 or FMA\n");
  if (!host.avx_vnni) std::printf("SKIP avx_vnni: this CPU lacks AVX-VNNI\n");
  if (!host.avx512) std::printf("SKIP avx512: this CPU lacks AVX-512\n");
  if (!host.avx512_vnni) std::printf("SKIP avx512_vnni: this CPU lacks AVX512-VNNI\n");
  std::printf("%d runs, %d of them by rows, %d by channels, %d failures\n", checked, checked_rows, checked_channels,
              failures);
  return failures == 0 ? 0 : 1;
}

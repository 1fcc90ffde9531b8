// DFT and STFT of real signals, by the kernels of FourierTransform.
#include <algorithm>
#include <cstdint>
#include <memory>

#include "base/arch.h"
#include "base/error.h"
#include "base/recently_used.h"
#include "ep/claims.h"
#include "ep/numbers.h"
#include "kernels/fourier/transform.h"
#include "ops/pool_size.h"
#include "ort/abi/boundary.h"
#include "ort/abi/tensors.h"
#include "ort/fourier/cpu.h"

namespace ortconv::ep {
namespace {

constexpr int64_t kLeastLength = 16;  // of shorter transforms a fast one does not pay
constexpr int kAxisIsInput = 20;      // the version of DFT from which on its axis is an input
constexpr DataType kFloats[] = {DataType::kFloat, DataType::kDouble, DataType::kFloat16, DataType::kBfloat16};

void require_int64(const Value& value, const char* what) {
  if (value && value.type().type != static_cast<int>(DataType::kInt64)) fail("its ", what, " is not of type int64");
}

// The integer that a constant holds; none where it is absent or not constant.
std::optional<int64_t> constant_integer(const Value& value) {
  const auto found = integers_of(value);
  return found && found->size() == 1 ? std::optional<int64_t>(found->front()) : std::nullopt;
}

void require_long(int64_t length) {
  if (length >= 0 && length < kLeastLength) {
    fail("its length is ", length, ", for which a fast Fourier transform does not pay");
  }
}

Decision require_dft(const Session&, const Node& node) {
  const NodeAttributes attributes(node);
  const Value x = node.input(0), length = node.input(1), axis_input = node.input(2);
  const bool is_inverse = attributes.integer("inverse").value_or(0) != 0;
  const bool is_onesided = attributes.integer("onesided").value_or(0) != 0;
  require_int64(length, "dft_length");
  const auto dims = x.type().dims;
  if (!dims) fail("the number of axes of its input is not known");
  if (dims->back() != 1 && dims->back() != 2) fail("its input is not known to be real or complex");
  if (is_onesided && dims->back() != (is_inverse ? 2 : 1)) {
    fail("it is onesided, and its input is ", is_inverse ? "real" : "complex");
  }
  if (is_inverse && is_onesided) return {};  // which older versions of ONNX Runtime compute wrongly
  if (length) {
    require_long(constant_integer(length).value_or(-1));
    return {};
  }
  std::optional<int64_t> axis = -2;
  if (node.since_version() < kAxisIsInput) axis = attributes.integer("axis").value_or(1);
  if (axis_input) axis = constant_integer(axis_input);
  const auto rank = static_cast<int64_t>(dims->size());
  if (axis && *axis >= -rank && *axis < rank) require_long((*dims)[(*axis + rank) % rank]);
  return {};
}

OrtStatus* create_dft(const Claim& claim, const Session& session, const OrtKernelInfo* info, void** kernel) {
  return create_kernel(claim.op_type, session.api, info, kernel, [&](const std::string& subject) {
    const CreationAttributes source(session.api, info);
    TransformAttributes attributes;
    attributes.is_inverse = source.integer("inverse").value_or(0) != 0;
    attributes.is_onesided = source.integer("onesided").value_or(0) != 0;
    attributes.axis = claim.first < kAxisIsInput ? source.integer("axis").value_or(1) : -2;
    const auto x = input_type(session.api, info, 0);
    return make_transform_kernel(session.api, subject, static_cast<DataType>(x->type), attributes);
  });
}

constexpr size_t kSignal = 0, kStep = 1, kWindow = 2, kLength = 3;

Decision require_stft(const Session&, const Node& node) {
  const Value window = node.input(kWindow), length = node.input(kLength);
  require_int64(node.input(kStep), "frame_step");
  require_int64(length, "frame_length");
  const auto dims = node.input(kSignal).type().dims;
  if (!dims || dims->size() < 2 || dims->size() > 3 || (dims->size() == 3 && dims->back() != 1)) {
    fail("its signal is not known to be real");
  }
  if (!window && !length) fail("it has no window and no frame_length");
  const auto window_dims = window ? window.type().dims : std::nullopt;
  require_long(window ? (window_dims ? window_dims->front() : -1) : constant_integer(length).value_or(-1));
  return {};
}

// The result [batch, frames, bins, 2] is that of transforms of windowed frames, which lie one after the other.
template <class T>
class StandardStft : public Kernel {
 public:
  StandardStft(const OrtApi* api, const std::string& subject, bool is_onesided)
      : Kernel(api, subject), is_onesided_(is_onesided), kernel_(kernels::get_fourier_kernel<T>(ArchFlags::host())) {}

  void compute(OrtKernelContext* context) const override;

 private:
  std::shared_ptr<const kernels::FourierPlan> plan_of(int64_t length) const {
    std::shared_ptr<const kernels::FourierPlan> plan = plans_.find(length);
    if (plan == nullptr) plans_.insert(length, plan = kernel_.make_plan(length, kernels::FourierKind::kReal));
    return plan;
  }

  bool is_onesided_;
  const kernels::FourierKernel<T>& kernel_;
  mutable RecentlyUsed<int64_t, kernels::FourierPlan> plans_{2};
  mutable PoolSize pool_size_;
};

template <class T>
void StandardStft<T>::compute(OrtKernelContext* context) const {
  const auto input = [&](size_t index) { return input_of(api(), context, index); };
  const TensorView signal = view_of(api(), input(kSignal));
  const OrtValue* const window = input(kWindow);
  const int64_t hop = integer_of(api(), input(kStep), "frame_step", 0);
  int64_t length = integer_of(api(), input(kLength), "frame_length", -1);
  const T* taps = nullptr;
  if (window != nullptr) {
    const TensorView view = view_of(api(), window);
    if (view.dims.count != 1 || (length >= 0 && view.dims.data[0] != length)) {
      fail("input window has shape ", to_string(view.dims.copy()), "; allowed: one axis, of frame_length if there is.");
    }
    length = view.dims.data[0];
    taps = static_cast<const T*>(view.data);
  }
  if (hop < 1) fail("input frame_step is ", hop, "; allowed: integers >= 1.");
  if (length < 1 || length > kLongestTransform) fail("frames have length ", length, "; allowed: 1 to 2^27.");
  const Numbers dims = signal.dims;
  if (dims.count < 2 || dims.count > 3 || (dims.count == 3 && dims.data[2] != 1)) {
    fail("input signal has shape ", to_string(dims.copy()), "; allowed: [batch, length] and [batch, length, 1].");
  }
  const int64_t batch = dims.data[0], size = dims.data[1];
  if (size < length) fail("input signal has ", size, " positions; allowed: at least ", length, ", a frame.");
  const int64_t frames = (size - length) / hop + 1, bins = is_onesided_ ? length / 2 + 1 : length;
  OrtValue* const y = make_output(api(), context, {batch, frames, bins, 2});
  if (batch == 0) return;

  SessionThreads threads(api(), context);
  Parallel parallel = threads.parallel();
  parallel.threads = pool_size_.threads(parallel);
  constexpr int64_t kChunk = 1 << 19;  // numbers of frames that are transformed together
  const int64_t rows = std::clamp<int64_t>(kChunk / length, 1, frames);
  const size_t own = kernels::fourier_scratch_bytes(kernel_, length, rows, parallel.threads);
  const size_t begin = (own + 63) / 64 * 64;
  const Scratch scratch(api(), context, y, begin + static_cast<size_t>(rows * length) * sizeof(T));
  T* const windowed = reinterpret_cast<T*>(static_cast<unsigned char*>(scratch.data()) + begin);
  const auto plan = plan_of(length);
  for (int64_t n = 0; n < batch; ++n) {
    const T* const source = static_cast<const T*>(signal.data) + n * size;
    for (int64_t first = 0; first < frames; first += rows) {
      const int64_t count = std::min(rows, frames - first);
      for_each(parallel, count, [&](int64_t row) {
        const T* const from = source + (first + row) * hop;
        T* const to = windowed + row * length;
        if (taps == nullptr) {
          std::copy_n(from, length, to);
          return;
        }
        for (int64_t i = 0; i < length; ++i) {
          kernels::round_to(&to[i], kernels::widen(from[i]) * kernels::widen(taps[i]));
        }
      });
      kernels::FourierRows<T> transform{};
      transform.inner = 1;
      transform.size = length;
      transform.count = bins;
      transform.x_parts = 1;
      transform.y_parts = 2;
      transform.x = windowed;
      transform.y = static_cast<T*>(data_of(api(), y)) + (n * frames + first) * bins * 2;
      kernels::fourier_transform(kernel_, *plan, transform, count, scratch.data(), parallel);
    }
  }
}

OrtStatus* create_stft(const Claim& claim, const Session& session, const OrtKernelInfo* info, void** kernel) {
  return create_kernel(claim.op_type, session.api, info, kernel, [&](const std::string& subject) {
    const bool is_onesided = CreationAttributes(session.api, info).integer("onesided").value_or(1) != 0;
    const auto signal = input_type(session.api, info, kSignal);
    return kernels::with_float_type(static_cast<DataType>(signal->type), [&](auto zero) -> std::unique_ptr<Kernel> {
      return std::make_unique<StandardStft<decltype(zero)>>(session.api, subject, is_onesided);
    });
  });
}

}  // namespace

std::vector<Claim> fourier_claims() {
  const std::vector<DataType> floats(std::begin(kFloats), std::end(kFloats));
  return {{"", "DFT", 17, kAxisIsInput - 1, "T1", floats, require_dft, create_dft},
          {"", "DFT", kAxisIsInput, kAxisIsInput, "T1", floats, require_dft, create_dft},
          {"", "STFT", 17, 17, "T1", floats, require_stft, create_stft}};
}

}  // namespace ortconv::ep

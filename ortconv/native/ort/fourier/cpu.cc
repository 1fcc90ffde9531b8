#include "ort/fourier/cpu.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/arch.h"
#include "base/error.h"
#include "base/recently_used.h"
#include "kernels/fourier/stft.h"
#include "kernels/fourier/transform.h"
#include "ops/pool_size.h"
#include "ort/abi/boundary.h"
#include "ort/abi/tensors.h"
#include "ort/fourier/inputs.h"
#include "ort/fourier/op.h"

namespace ortconv {
namespace {

using kernels::FourierKind;
using kernels::FourierPlan;

template <class T>
const T* elements_of(const OrtApi* api, const OrtValue* tensor) {
  return tensor == nullptr ? nullptr : static_cast<const T*>(data_of(api, tensor));
}

// ForwardSTFT, InverseSTFT and OverlapAdd.
template <class T>
class StftKernel : public Kernel {
 public:
  // Without constants, window and gains are inputs.
  StftKernel(const OrtApi* api, const std::string& subject, FourierOp op, const StftAttributes& attributes,
             const StftConstants* constants)
      : Kernel(api, subject),
        op_(op),
        attributes_(attributes),
        kernel_(kernels::get_fourier_kernel<T>(ArchFlags::host())) {
    // Longer ones when a run shows that the window, or the bins, are in proportion.
    if (attributes_.n_fft > 0 && attributes_.n_fft <= kAnyTransform) plan_ = make_plan();
    if (constants == nullptr) return;
    window_ = Constant(constants->window);
    gains_ = Constant(constants->gains);
  }

  void compute(OrtKernelContext* context) const override {
    const auto input = [&](size_t index) {
      const OrtValue* const value = input_of(api(), context, index);
      return value == nullptr ? std::nullopt : std::optional<TensorView>(view_of(api(), value));
    };
    const TensorView data = *input(FourierIndices::kData);
    const TensorView window = window_ ? window_->view() : *input(FourierIndices::kWindow);
    std::optional<TensorView> gains, sines;
    if (op_ != FourierOp::kOverlapAdd) gains = gains_ ? gains_->view() : input(FourierIndices::kGains);
    if (op_ == FourierOp::kInverse && !window_) sines = input(FourierIndices::kSines);
    StftShapes shapes{data.dims.copy(), window.dims.copy(), std::nullopt, std::nullopt};
    if (gains) shapes.gains = gains->dims.copy();
    if (sines) shapes.sines = sines->dims.copy();
    const StftRun run = stft_run(op_, attributes_, shapes);
    OrtValue* const y = make_output(api(), context, run.y);
    if (std::find(run.y.begin(), run.y.end(), 0) != run.y.end()) return;
    const std::shared_ptr<const FourierPlan> plan = plan_of_run();

    SessionThreads threads(api(), context);
    Parallel parallel = threads.parallel();
    parallel.threads = pool_size_.threads(parallel);
    const Scratch scratch(api(), context, y, kernels::stft_scratch_bytes(kernel_, run.problem, parallel.threads));
    const T* const given = static_cast<const T*>(data.data);
    const T* const window_data = static_cast<const T*>(window.data);
    const T* const gain_data = gains ? static_cast<const T*>(gains->data) : nullptr;
    T* const result = static_cast<T*>(data_of(api(), y));
    if (op_ == FourierOp::kForward) {
      kernels::forward_stft(kernel_, *plan, run.problem, given, window_data, gain_data, result, scratch.data(),
                            parallel);
    } else {
      kernels::inverse_stft(kernel_, plan.get(), run.problem, given,
                            sines ? static_cast<const T*>(sines->data) : nullptr, window_data, gain_data, result,
                            scratch.data(), parallel);
    }
  }

 private:
  // A tensor of one axis.
  class Constant {
   public:
    explicit Constant(const std::vector<double>& numbers)
        : elements_(numbers.size()), dims_{static_cast<int64_t>(numbers.size())} {
      for (size_t i = 0; i < numbers.size(); ++i) kernels::round_to(&elements_[i], kernels::Sum<T>(numbers[i]));
    }
    TensorView view() const { return {const_cast<T*>(elements_.data()), {dims_.data(), dims_.size()}}; }

   private:
    std::vector<T> elements_;
    Shape dims_;
  };

  std::shared_ptr<const FourierPlan> make_plan() const {
    return kernel_.make_plan(attributes_.n_fft, FourierKind::kReal);
  }
  std::shared_ptr<const FourierPlan> plan_of_run() const {
    if (plan_ != nullptr || attributes_.n_fft == 0) return plan_;
    std::shared_ptr<const FourierPlan> plan = long_plan_.find(attributes_.n_fft);
    if (plan == nullptr) long_plan_.insert(attributes_.n_fft, plan = make_plan());
    return plan;
  }

  FourierOp op_;
  StftAttributes attributes_;
  const kernels::FourierKernel<T>& kernel_;
  std::shared_ptr<const FourierPlan> plan_;
  std::optional<Constant> window_, gains_;
  mutable RecentlyUsed<int64_t, FourierPlan> long_plan_{1};
  mutable PoolSize pool_size_;
};

template <class T>
class TransformKernel : public Kernel {
 public:
  TransformKernel(const OrtApi* api, const std::string& subject, const TransformAttributes& attributes)
      : Kernel(api, subject), attributes_(attributes), kernel_(kernels::get_fourier_kernel<T>(ArchFlags::host())) {}

  void compute(OrtKernelContext* context) const override {
    const OrtValue* const x = input_of(api(), context, FourierIndices::kData);
    const int64_t length = integer_of(api(), input_of(api(), context, FourierIndices::kLength), "length", 0);
    TransformAttributes attributes = attributes_;
    attributes.axis = integer_of(api(), input_of(api(), context, kAxis), "axis", attributes.axis);
    const TransformRun run = transform_run(attributes, shape_of(api(), x), length);
    OrtValue* const y = make_output(api(), context, run.y);
    const int64_t count = run.outer * run.inner;
    if (count == 0) return;
    const bool is_real = run.x_parts == 1 || run.y_parts == 1;
    const std::shared_ptr<const FourierPlan> plan =
        plan_of(run.length, is_real ? FourierKind::kReal : FourierKind::kComplex);

    SessionThreads threads(api(), context);
    Parallel parallel = threads.parallel();
    parallel.threads = pool_size_.threads(parallel);
    const Scratch scratch(api(), context, y,
                          kernels::fourier_scratch_bytes(kernel_, run.length, count, parallel.threads));
    kernels::FourierRows<T> rows{};
    rows.inner = run.inner;
    rows.size = run.size;
    rows.count = run.count;
    rows.x_parts = run.x_parts;
    rows.y_parts = run.y_parts;
    rows.is_inverse = attributes_.is_inverse;
    rows.x = elements_of<T>(api(), x);
    rows.y = static_cast<T*>(data_of(api(), y));
    kernels::fourier_transform(kernel_, *plan, rows, count, scratch.data(), parallel);
  }

 private:
  std::shared_ptr<const FourierPlan> plan_of(int64_t length, FourierKind kind) const {
    const std::pair<int64_t, FourierKind> key{length, kind};
    std::shared_ptr<const FourierPlan> plan = plans_.find(key);
    if (plan != nullptr) return plan;
    plan = kernel_.make_plan(length, kind);
    plans_.insert(key, plan);
    return plan;
  }

  TransformAttributes attributes_;
  const kernels::FourierKernel<T>& kernel_;
  static constexpr size_t kAxis = 2;  // the input
  static constexpr size_t kPlans = 2;
  mutable RecentlyUsed<std::pair<int64_t, FourierKind>, FourierPlan> plans_{kPlans};
  mutable PoolSize pool_size_;
};

}  // namespace

std::unique_ptr<Kernel> make_stft_kernel(const OrtApi* api, const std::string& subject, DataType dtype, FourierOp op,
                                         const StftAttributes& attributes, const StftConstants& constants) {
  return kernels::with_float_type(dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
    return std::make_unique<StftKernel<decltype(zero)>>(api, subject, op, attributes, &constants);
  });
}

std::unique_ptr<Kernel> make_transform_kernel(const OrtApi* api, const std::string& subject, DataType dtype,
                                              const TransformAttributes& attributes) {
  return kernels::with_float_type(dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
    return std::make_unique<TransformKernel<decltype(zero)>>(api, subject, attributes);
  });
}

std::unique_ptr<Kernel> make_fourier_kernel(const FourierCreation& creation) {
  if (creation.op == FourierOp::kTransform) {
    return make_transform_kernel(creation.api, creation.subject, creation.dtype,
                                 transform_attributes(KernelAttributes(creation.api, creation.info)));
  }
  const StftAttributes attributes = stft_attributes(creation.op, KernelAttributes(creation.api, creation.info));
  return kernels::with_float_type(creation.dtype, [&](auto zero) -> std::unique_ptr<Kernel> {
    return std::make_unique<StftKernel<decltype(zero)>>(creation.api, creation.subject, creation.op, attributes,
                                                        nullptr);
  });
}

}  // namespace ortconv

#include "ort/convolution/cpu.h"

#include <memory>
#include <optional>
#include <utility>

#include "base/parallel.h"
#include "base/recently_used.h"
#include "ops/convolution.h"
#include "ops/pool_size.h"
#include "ort/abi/attributes.h"
#include "ort/abi/boundary.h"
#include "ort/abi/tensors.h"
#include "ort/convolution/inputs.h"
#include "ort/convolution/op.h"

namespace ortconv {
namespace {

// What is known of a run when its sizes are.
struct SizedRun {
  std::shared_ptr<const Convolution> convolution;  // of weights that each run has of its own; else null
  std::shared_ptr<const ConvChoice> choice;
  Shape y;
  bool is_small;
  size_t scratch_bytes;  // where it is small
};

class ConvKernel : public Kernel {
 public:
  ConvKernel(const OrtApi* api, const std::string& subject, CpuConv conv);
  void compute(OrtKernelContext* context) const override;

 private:
  std::shared_ptr<const SizedRun> prepare(const Sizes& sizes, const void* w) const;

  DataType dtype_;
  ConvAttributes attributes_;
  ConvReader reader_;
  ConvOptions options_;

  // Of the last sizes: to find out what is known of one takes half as long as to compute the smallest.
  static constexpr size_t kSizedRuns = 8;
  mutable RecentlyUsed<Sizes, SizedRun> sized_runs_{kSizedRuns};
  mutable PoolSize pool_size_;

  // For constant weights.
  ConvProblem weight_problem_;
  std::optional<Convolution> convolution_;
};

ConvKernel::ConvKernel(const OrtApi* api, const std::string& subject, CpuConv conv)
    : Kernel(api, subject),
      dtype_(conv.dtype),
      attributes_(std::move(conv.attributes)),
      reader_(std::move(conv.reader)),
      options_(std::move(conv.options)) {
  check_attributes(attributes_, dtype_);
  const std::optional<TensorView>& w = reader_.constants().w;
  if (!w) return;
  weight_problem_ = weight_problem(attributes_, w->dims.copy());
  convolution_.emplace(dtype_, direction_of(attributes_.op), weight_problem_, w->data, Weights::kConstant,
                       ArchFlags::host(), options_);
  // Where all sizes are known, the weights are packed now, and not by the first run.
  try {
    if (conv.sizes) prepare(*conv.sizes, w->data);
  } catch (const Error&) {
    // Sizes that no run can have: the run says so.
  }
}

std::shared_ptr<const SizedRun> ConvKernel::prepare(const Sizes& sizes, const void* w) const {
  const ConvProblem problem = problem_of(attributes_, convolution_ ? &weight_problem_ : nullptr, sizes);
  const auto run = std::make_shared<SizedRun>();
  run->y = output_dims(attributes_, problem);
  if (!convolution_) {
    run->convolution = std::make_shared<const Convolution>(dtype_, direction_of(attributes_.op), problem, nullptr,
                                                           Weights::kOfRun, ArchFlags::host(), options_);
  }
  const Convolution& convolution = convolution_ ? *convolution_ : *run->convolution;
  run->choice = convolution.choose(problem, w);
  run->is_small = convolution.is_small(*run->choice);
  run->scratch_bytes = run->is_small ? convolution.scratch_bytes(*run->choice, 1) : 0;
  sized_runs_.insert(sizes, run);
  return run;
}

void ConvKernel::compute(OrtKernelContext* context) const {
  const ConvInputs in = reader_.read(context);
  const void* const w = in.w->data;
  const SizesView sizes = sizes_of(in, convolution_.has_value());
  std::shared_ptr<const SizedRun> run = sized_runs_.find(sizes);
  if (run == nullptr) run = prepare(copy_of(sizes), w);
  const Convolution& convolution = convolution_ ? *convolution_ : *run->convolution;

  OrtValue* const y = make_output(api(), context, run->y);

  SessionThreads threads(api(), context);
  Parallel parallel = run->is_small ? serial() : threads.parallel();
  parallel.threads = pool_size_.threads(parallel);
  const auto optional = [](const std::optional<TensorView>& tensor) { return tensor ? tensor->data : nullptr; };
  if (run->choice->may_improve) {
    const auto better = std::make_shared<SizedRun>(*run);
    better->choice = convolution.measure(*run->choice, in.x->data, w, optional(in.b), data_of(api(), y), parallel);
    better->scratch_bytes = run->is_small ? convolution.scratch_bytes(*better->choice, 1) : 0;
    sized_runs_.insert(copy_of(sizes), better);
    run = better;
  }
  const Scratch scratch(api(), context, y,
                        run->is_small ? run->scratch_bytes : convolution.scratch_bytes(*run->choice, parallel.threads));
  convolution.run(*run->choice, in.x->data, w, optional(in.b), optional(in.residual), data_of(api(), y), scratch.data(),
                  parallel);
}

}  // namespace

std::unique_ptr<Kernel> make_conv_kernel(const OrtApi* api, const std::string& subject, CpuConv conv) {
  return std::make_unique<ConvKernel>(api, subject, std::move(conv));
}

std::unique_ptr<Kernel> make_conv_kernel(const ConvCreation& creation) {
  ConvAttributes attributes = read_attributes(creation.op, KernelAttributes(creation.api, creation.info));
  check_attributes(attributes, creation.dtype);
  ConvReader reader(creation.api, creation.info, creation.op, ConvReader::Constants::kReadOnce);
  std::optional<Sizes> sizes;
  try {
    if (reader.constants().w) sizes = known_sizes(creation.api, creation.info, attributes, true);
  } catch (const Error&) {
    // An output_shape that no run can have: the run says so.
  }
  const Settings& settings = creation.settings;
  return make_conv_kernel(creation.api, creation.subject,
                          {creation.dtype,
                           std::move(attributes),
                           std::move(reader),
                           std::move(sizes),
                           {settings.implementation, settings.choices, settings.tuning, creation.subject}});
}

}  // namespace ortconv

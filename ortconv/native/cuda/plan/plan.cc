#include "cuda/plan/plan.h"

#include <algorithm>
#include <cstddef>

#include "base/math.h"
#include "cuda/plan/depthwise_plan.h"
#include "cuda/plan/describe.h"
#include "cuda/plan/gemm_plan.h"

namespace ortconv::cuda {
namespace {

constexpr uint32_t kThreads = 256;
constexpr int64_t kBlocksPerMultiprocessor = 8;

// The grid for this many outputs.
uint32_t blocks_of(int64_t outputs, const Device& device) {
  return static_cast<uint32_t>(
      std::min(ceil_div(outputs, kThreads), kBlocksPerMultiprocessor * device.multiprocessors));
}

Launch direct(const Elements& elements, kernels::Op op, const ConvProblem& problem, const Device& device,
              const Terms& terms) {
  Launch launch;
  launch.program = program_for("direct", elements, {option("ACTIVATE", !problem.activation.is_identity())});
  launch.function = "direct";
  launch.block[0] = kThreads;
  launch.grid[0] = blocks_of(count_outputs(problem), device);
  set_params(describe(elements, op, problem), &launch);
  add_problem_pointers(0, elements, terms, &launch);
  return launch;
}

// Adds the residual to a Y that is not activated yet, then activates.
Launch add(const Elements& elements, const ConvProblem& problem, const Device& device) {
  Launch launch;
  launch.program = program_for("add", elements, {option("ACTIVATE", !problem.activation.is_identity())});
  launch.function = "add";
  launch.block[0] = kThreads;
  launch.grid[0] = blocks_of(count_outputs(problem), device);
  const Activation& activation = problem.activation;
  set_params(Add{nullptr, nullptr, count_outputs(problem), activation.slope, activation.minimum, activation.maximum},
             &launch);
  launch.pointers.push_back({offsetof(Add, residual), Buffer::kResidual});
  launch.pointers.push_back({offsetof(Add, dst), Buffer::kY});
  return launch;
}

}  // namespace

WeightPlan plan_weights(const Elements& elements, kernels::Op op, const ConvProblem& problem, const Device& device,
                        const Options& options) {
  if (is_depthwise(op, problem)) return {};
  return plan_gemm_weights(elements, op, problem, device, options);
}

Plan plan_run(const Elements& elements, kernels::Op op, const ConvProblem& problem, const Device& device,
              const Options& options, bool packed, const Terms& terms) {
  Plan plan;
  if (count_outputs(problem) == 0) return plan;
  if (terms.residual && !elements.are_quantized()) {
    ConvProblem sums = problem;
    sums.activation = Activation();
    plan = plan_run(elements, op, sums, device, options, packed, {terms.bias});
    plan.launches.push_back(add(elements, problem, device));
    return plan;
  }
  if (is_depthwise(op, problem)) {
    if (const auto launch = plan_depthwise(elements, op, problem, device, terms)) {
      plan.launches.push_back(*launch);
      return plan;
    }
  } else if (plan_gemm(elements, op, problem, device, options, packed, terms, &plan)) {
    return plan;
  }
  plan.launches.push_back(direct(elements, op, problem, device, terms));
  return plan;
}

}  // namespace ortconv::cuda

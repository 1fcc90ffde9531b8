// Which problems, and which runs of them, may be computed tap by tap.
#include "base/math.h"
#include "kernels/conv/bf16_split_stages.h"
#include "kernels/conv/tapwise.h"
#include "kernels/conv/tapwise_layout.h"

namespace ortconv::kernels {
namespace {

using tapwise::kBlockColumns;

// Beyond these one image is too large.
constexpr double kMostSumBytes = 640 << 10, kMostSrcBytes = 1024 << 10;
constexpr int64_t kLeastDepth = 32, kLeastColumns = 32;

}  // namespace

const BasicGemmKernel<BfloatPair>* tapwise_pairs_kernel(DataType dtype, const ArchFlags& arch) {
  return dtype != DataType::kBfloat16 || arch.amx_bf16 ? nullptr : get_gemm_pairs_kernel(arch);  // parts are faster
}

bool takes_tapwise(Op op, const ConvProblem& p, DataType dtype, const void* wei, const ArchFlags& arch) {
  if (op != Op::kConvTranspose || p.ic / p.g < kLeastDepth || p.oc / p.g < kLeastColumns) return false;
  const PlanPtr phases = make_plan(op, p, dtype, nullptr, arch);
  if (phases == nullptr || !all_finite(op, p, dtype, wei)) return false;
  return tapwise_pairs_kernel(dtype, arch) != nullptr || !parts_pay(*phases, arch, wei);
}

bool can_run_tapwise(const Plan& plan, const ConvProblem& p) {
  const auto cell = static_cast<double>(plan.cell_bytes);
  const int64_t columns = ceil_div(plan.oc, kGemmColumns) * kGemmColumns;
  double sums = cell * static_cast<double>(std::min(columns, kBlockColumns));
  double src = cell * static_cast<double>(plan.ic);
  for (int a = 0; a < p.ndims; ++a) {
    sums *= static_cast<double>(ceil_div(p.dst_size[a], p.stride[a]) * p.stride[a]);
    src *= static_cast<double>(p.src_size[a]);
  }
  return sums <= kMostSumBytes && src <= kMostSrcBytes;
}

}  // namespace ortconv::kernels

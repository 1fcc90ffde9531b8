// Decides whether a problem, and a run of it, is computed tap by tap.
#include "base/math.h"
#include "kernels/conv/bf16_split_stages.h"
#include "kernels/conv/tapwise.h"
#include "kernels/conv/tapwise_layout.h"

namespace ortconv::kernels {
namespace {

using tapwise::kBlockColumns;
using tapwise::Reach;

// Beyond these one image is too large.
constexpr double kMostSumBytes = 640 << 10, kMostSrcBytes = 1024 << 10;
constexpr int64_t kLeastDepth = 32, kLeastColumns = 32;
constexpr double kNearBytes = 40 << 10;  // sums of this size stay in L1

}  // namespace

const BasicGemmKernel<BfloatPair>* tapwise_pairs_kernel(DataType dtype, const ArchFlags& arch) {
  return dtype != DataType::kBfloat16 || arch.amx_bf16 ? nullptr : get_gemm_pairs_kernel(arch);  // parts are faster
}

bool may_pack_taps(Op op, const ConvProblem& p, DataType dtype, const void* wei, const ArchFlags& arch) {
  if (op != Op::kConvTranspose || p.ic / p.g < kLeastDepth || p.oc / p.g < kLeastColumns) return false;
  const PlanPtr phases = make_plan(op, p, dtype, nullptr, arch);
  if (phases == nullptr || !all_finite(op, p, dtype, wei)) return false;
  return tapwise_pairs_kernel(dtype, arch) != nullptr || !parts_pay(*phases, arch, wei);
}

bool prefers_taps(const ConvProblem& p, DataType dtype, const ArchFlags& arch) {
  const double cell =
      with_float_type(dtype, [](auto zero) { return static_cast<double>(sizeof(Sum<decltype(zero)>)); });
  const bool in_pairs = tapwise_pairs_kernel(dtype, arch) != nullptr;
  constexpr double kLeastGain = 1.01;  // what the choice has to be worth
  const int64_t columns = ceil_div(p.oc / p.g, kGemmColumns) * kGemmColumns;
  double sums = cell * static_cast<double>(std::min(columns, kBlockColumns));
  double src = cell * static_cast<double>(p.ic / p.g) / (in_pairs ? 2 : 1);
  for (int a = 0; a < p.ndims; ++a) {
    sums *= static_cast<double>(ceil_div(p.dst_size[a], p.stride[a]) * p.stride[a]);
    src *= static_cast<double>(p.src_size[a]);
  }
  if (sums > kMostSumBytes || src > kMostSrcBytes) return false;
  double in_phases = 1, useful = 1;
  for (int a = 0; a < p.ndims; ++a) {
    int64_t met = 0;
    for (int64_t k = 0; k < p.ker[a]; ++k) {
      const Reach reach(p, a, k);
      met += reach.end - reach.begin;
    }
    in_phases *= static_cast<double>(ceil_div(p.dst_size[a], p.stride[a]) * p.ker[a]);
    useful *= static_cast<double>(met);
  }
  // Reading and writing the sums of a tap, in products.
  const double sum_cost = (in_pairs ? 12 : 6) * (sums > kNearBytes ? 1.5 : 1);
  const double depth = static_cast<double>(p.ic / p.g);
  const double padding = static_cast<double>(columns) / static_cast<double>(p.oc / p.g);  // of columns to whole vectors
  return in_phases * depth > kLeastGain * useful * padding * (depth + sum_cost);
}

}  // namespace ortconv::kernels

#include "kernels/winograd/work.h"

#include <algorithm>
#include <cmath>
#include <memory>

#include "base/math.h"

namespace ortconv::kernels::winograd {
namespace {

constexpr double kNearFloats = 1 << 18;  // weights of this size stay in L2
constexpr double kFarFloats = 8 << 20;   // those of more have to come from memory, which takes
constexpr double kFarCost = 1.8;         // so many times as long

double vectors(double floats) { return static_cast<double>(ceil_div(static_cast<int64_t>(floats), kLanes)); }

// Floats read from beyond L2 when weights of this size are read so many times.
double far(double floats, double passes) {
  if (floats <= kNearFloats) return 0;
  return floats * passes / kLanes * (floats > kFarFloats ? kFarCost : 1);
}

}  // namespace

Work work_of(const Plan& plan, const ConvProblem& p) {
  const Geometry geo(plan, p, 1);
  const int last = plan.ndims - 1;
  const double ic = static_cast<double>(plan.ic * plan.g), oc = static_cast<double>(plan.oc);
  const double columns = static_cast<double>(geo.all_columns) / kLanes;
  double blocks = static_cast<double>(geo.num_batch_blocks), src_rows = static_cast<double>(p.mb);
  double dst_rows = static_cast<double>(p.mb);
  for (int a = 0; a <= last; ++a) {
    const AxisPlan& axis = plan.axis[a];
    const AxisFrame& f = geo.axis[a];
    blocks *= static_cast<double>(f.num_blocks);
    const double of_block =
        a < last ? static_cast<double>((f.block - 1) * axis.step + axis.window) : vectors(static_cast<double>(f.block));
    src_rows *= of_block * static_cast<double>(f.num_blocks * axis.dilation);
    if (a < last) dst_rows *= static_cast<double>(p.dst_size[a]);
  }
  Work work;
  for (size_t u = 0; u < plan.units.size(); ++u) {
    const Unit& unit = plan.units[u];
    for (const Family& family : unit.families) {
      const double products = static_cast<double>(family.points * family.num_classes) * columns;
      const int64_t sum = plan.ic * unit.taps, pieces = ceil_div(sum, std::min(plan.piece, sum)) - 1;
      work.products += products * ic * oc * static_cast<double>(unit.taps);
      work.pieces += products * oc * static_cast<double>(plan.g * pieces);
      work.results += products * oc * static_cast<double>(plan.g);
    }
    if (unit.source != u) continue;
    work.source += static_cast<double>(unit.points) * columns * ic;
    work.split += src_rows * ic;
  }
  work.stores = dst_rows * oc * static_cast<double>(plan.g) * (1 + vectors(static_cast<double>(p.dst_size[last])));
  if (plan.axis[last].step * plan.axis[last].num_classes() > kMaxPhases) work.shuffled = work.stores;
  work.weights = far(ic * oc * static_cast<double>(plan.num_weights), blocks);
  return work;
}

PlanPtr make_sizes(Op op, const ConvProblem& static_part, Windows windows, DataType dtype, const ArchFlags& arch) {
  if (arch.winograd == Winograd::kNever) return nullptr;
  const auto sizes = std::make_shared<Plan>();
  if (!plan_sizes(op, static_part, windows, dtype, arch, sizes.get())) return nullptr;
  if (arch.winograd == Winograd::kAlways) return sizes;
  // Few channels of src do not pay for their transforms.
  constexpr int64_t kLeastChannels = 16;
  if (static_part.ic < kLeastChannels * static_part.g) return nullptr;
  if (dtype == DataType::kFloat && !sizes->exact_enough) return nullptr;
  return sizes;
}

bool can_run(const ConvProblem& full) { return full.src_x[full.ndims - 1] == 1 && full.dst_x[full.ndims - 1] == 1; }

}  // namespace ortconv::kernels::winograd

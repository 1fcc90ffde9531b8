#include "kernels/winograd/choice.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>
#include <vector>

#include "base/math.h"
#include "kernels/bf16_split/bf16_split.h"

namespace ortconv::kernels::winograd {
namespace {

constexpr double kNearFloats = 1 << 18;  // weights of this size stay in L2
constexpr double kFarFloats = 8 << 20;   // those of more have to come from memory, which takes
constexpr double kFarCost = 1.8;         // so many times as long

// Nanoseconds of what Work counts, fitted to measurements of 36 shapes; only their ratios matter.
constexpr double kProduct = 0.18, kSource = 1.6, kSplit = 12.8, kResult = 0.75, kStore = 3.5, kWeight = 0.96;
constexpr double kDirectProduct = 0.20, kDirectTile = 0.32, kDirectStore = 4.0, kDirectWeight = 0.65;
// The estimate is worth a tenth; and what it chooses has to be worth its memory.
constexpr double kLeastGain = 1.1;

double cost(const Work& w) {
  return w.products * kProduct + w.source * kSource + w.split * kSplit + w.results * kResult + w.stores * kStore +
         w.weights * kWeight;
}

double direct_cost(const Work& w) {
  return std::min(w.direct_products * kDirectProduct, w.direct_tiles * kDirectTile) + w.stores * kDirectStore +
         w.direct_weights * kDirectWeight;
}

// The cost of the direct way per 16 positions where it multiplies numbers in parts (see kernels/bf16_split), in the
// units of that kernel; infinite where it does not.
double tiles_of(const Plan& plan, const ArchFlags& arch) {
  const Bf16SplitKernel* kernel = get_bf16_split_kernel(arch);
  const int64_t parts = with_float_sum_type(plan.dtype, [](auto zero) { return kNumParts<decltype(zero)>; });
  if (kernel == nullptr || kernel->most_parts < parts) return HUGE_VAL;
  constexpr double kProducts[] = {1, 4, 6}, kSums = 110;  // of parts for one product of numbers; the cost of sums
  const double blocks = static_cast<double>(ceil_div(plan.ic, kPartChannels));
  const double row_tiles = static_cast<double>(ceil_div(plan.oc, kPartRows));
  double taps = 1, classes = 1;
  for (int a = 0; a < plan.ndims; ++a) {
    taps *= static_cast<double>(plan.axis[a].ker);
    classes *= static_cast<double>(plan.axis[a].num_classes());
  }
  return static_cast<double>(plan.g) * row_tiles *
         (kProducts[parts - 1] * kernel->product_cost * taps * blocks + kSums * classes);
}

double vectors(double floats) { return static_cast<double>(ceil_div(static_cast<int64_t>(floats), kLanes)); }

// Floats read from beyond L2 when weights of this size are read so many times.
double far(double floats, double passes) {
  if (floats <= kNearFloats) return 0;
  return floats * passes / kLanes * (floats > kFarFloats ? kFarCost : 1);
}

// Whether an axis has classes of one tap besides classes of more: transforming so much more src never paid.
bool mixes(const Plan& plan) {
  for (const Unit& unit : plan.units) {
    if (unit.families.size() > 1 && !plan.axis[plan.ndims - 1].separate) return true;
  }
  return false;
}

}  // namespace

Work work_of(const Plan& plan, const ConvProblem& p, const ArchFlags& arch) {
  const Geometry geo(plan, p);
  const int last = plan.ndims - 1;
  const double ic = static_cast<double>(plan.ic * plan.g), oc = static_cast<double>(plan.oc);
  const double columns = static_cast<double>(geo.all_columns) / kLanes;
  double blocks = static_cast<double>(geo.num_batch_blocks), src_rows = static_cast<double>(p.mb), taps = 1;
  double positions = static_cast<double>(p.mb), dst_rows = static_cast<double>(p.mb);
  for (int a = 0; a <= last; ++a) {
    const AxisPlan& axis = plan.axis[a];
    const AxisFrame& f = geo.axis[a];
    blocks *= static_cast<double>(f.num_blocks);
    const double of_block =
        a < last ? static_cast<double>((f.block - 1) * axis.step + axis.window) : vectors(static_cast<double>(f.block));
    src_rows *= of_block * static_cast<double>(f.num_blocks * axis.dilation);
    if (a < last) dst_rows *= static_cast<double>(p.dst_size[a]);
    taps *= static_cast<double>(axis.ker);
    // Outputs per class: every tap is multiplied with each.
    positions *= static_cast<double>((p.dst_size[a] + axis.stride - 1) / axis.stride);
  }
  Work work;
  for (const Unit& unit : plan.units) {
    for (const Family& family : unit.families) {
      const double products = static_cast<double>(family.points * family.num_classes) * columns;
      work.products += products * ic * oc;
      work.results += products * oc * static_cast<double>(plan.g);
    }
    work.source += static_cast<double>(unit.points) * columns * ic;
    work.split += src_rows * ic;
  }
  work.stores = dst_rows * oc * static_cast<double>(plan.g) * (1 + vectors(static_cast<double>(p.dst_size[last])));
  const double weights = ic * oc;
  work.weights = far(weights * static_cast<double>(plan.num_weights), blocks);
  work.direct_products = weights * taps * positions / kLanes;
  work.direct_tiles = tiles_of(plan, arch) * positions / kLanes;
  work.direct_weights = far(weights * taps, 1);
  return work;
}

struct Ways {
  struct Way {
    Windows windows;
    Plan sizes;  // without weights
  };
  ArchFlags arch;
  std::vector<Way> ways;
};

WaysPtr make_ways(Op op, const ConvProblem& static_part, DataType dtype, const ArchFlags& arch) {
  if (arch.winograd == Winograd::kNever) return nullptr;
  // A single channel of src does not pay for its transform.
  if (arch.winograd == Winograd::kWhereFaster && static_part.ic == static_part.g) return nullptr;
  const auto ways = std::make_shared<Ways>(Ways{arch, {}});
  for (const Windows windows : {Windows::kShared, Windows::kSeparate}) {
    Ways::Way way{windows, {}};
    if (!plan_sizes(op, static_part, windows, dtype, arch, &way.sizes)) continue;
    if (arch.winograd == Winograd::kWhereFaster && mixes(way.sizes)) continue;
    if (arch.winograd == Winograd::kWhereFaster && dtype == DataType::kFloat && !way.sizes.exact_enough) continue;
    ways->ways.push_back(std::move(way));
  }
  return ways->ways.empty() ? nullptr : ways;
}

bool choose(const Ways& ways, const ConvProblem& full, Windows* windows) {
  // Rows of src and of dst are read and written whole.
  if (full.src_x[full.ndims - 1] != 1 || full.dst_x[full.ndims - 1] != 1) return false;
  double least = 0;
  bool found = false;
  for (const auto& [way, sizes] : ways.ways) {
    const Work work = work_of(sizes, full, ways.arch);
    const double time = cost(work);
    if (found && time >= least) continue;
    // Only those of floats were measured on small images, where the direct way is faster than estimated.
    const bool estimated = sizes.exact_enough || !prefers_taps(full, sizes.dtype, ways.arch);
    if (ways.arch.winograd == Winograd::kWhereFaster && !estimated) continue;
    if (ways.arch.winograd == Winograd::kWhereFaster && time * kLeastGain > direct_cost(work)) continue;
    found = true;
    least = time;
    *windows = way;
  }
  return found;
}

}  // namespace ortconv::kernels::winograd

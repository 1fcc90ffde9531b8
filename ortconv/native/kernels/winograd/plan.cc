#include "kernels/winograd/plan.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/math.h"
#include "kernels/gemm/pieces.h"

namespace ortconv::kernels::winograd {
namespace {

// Rows of a block of dst channels: two panels of the widest microkernel.
constexpr int64_t kBlockRows = 28;

Filter filter_of(int64_t taps, int64_t step) {
  if (taps == 1) return Filter::kCopy;
  if (taps == 3) return Filter::k23;
  return step == 2 ? Filter::k22 : Filter::k32;
}

bool plan_axis(Op op, int64_t ker, int64_t stride, int64_t dilation, Windows windows, bool summed, AxisPlan* axis) {
  const bool forward = op == Op::kConv;
  if (stride > 1 && (forward || dilation > 1 || stride > ker)) return false;
  axis->ker = ker, axis->stride = stride, axis->dilation = dilation;
  axis->reach = ceil_div(ker, stride);
  if (axis->reach > 3) return false;
  axis->summed = summed || axis->reach == 1;
  axis->separate = windows == Windows::kSeparate && !axis->summed && stride > 1 && ker == 2 * stride;
  axis->step = axis->separate ? 2 : axis->summed ? 1 : axis->reach == 2 ? 3 : 2;
  // Separate classes begin at the first or the second element.
  axis->window = axis->step + axis->reach - 1 + (axis->separate ? 1 : 0);
  for (int64_t r = 0; r < stride; ++r) {
    const int64_t taps = ceil_div(ker - r, stride);
    const Filter filter = axis->summed ? Filter::kCopy : filter_of(taps, axis->step);
    AxisClass cls{filter, axis->separate ? r : axis->reach - taps, {}};
    for (int64_t i = 0; i < taps; ++i) cls.taps.push_back(forward ? i : r + stride * (taps - 1 - i));
    axis->classes.push_back(std::move(cls));
  }
  return true;
}

// The units by their filters on the axes before the last.
void plan_outer(Plan& plan) {
  const int last = plan.ndims - 1;
  int64_t num_outer = 1;
  for (int a = 0; a < last; ++a) num_outer *= plan.axis[a].num_classes();
  for (int64_t i = 0; i < num_outer; ++i) {
    int64_t classes[kMaxAxes];
    for (int64_t a = last - 1, rest = i; a >= 0; --a) {
      classes[a] = rest % plan.axis[a].num_classes();
      rest /= plan.axis[a].num_classes();
    }
    const auto is_same = [&](const Unit& unit) {
      for (int a = 0; a < last; ++a) {
        if (!unit.outer[a].same_source(plan.axis[a].classes[classes[a]])) return false;
      }
      return true;
    };
    auto unit = std::find_if(plan.units.begin(), plan.units.end(), is_same);
    if (unit == plan.units.end()) {
      unit = plan.units.insert(unit, Unit{});
      unit->outer_points = unit->taps = 1;
      for (int a = 0; a < last; ++a) {
        unit->outer[a] = plan.axis[a].classes[classes[a]];
        unit->outer_points *= points_of(unit->outer[a].filter, plan.axis[a].step);
        if (plan.axis[a].summed) unit->taps *= unit->outer[a].num_taps();
      }
    }
    unit->outer_classes.insert(unit->outer_classes.end(), classes, classes + last);
    ++unit->num_outer;
  }
  for (Unit& unit : plan.units) {
    const auto has_same_source = [&](const Unit& other) {
      for (int a = 0; a < last; ++a) {
        if (!plan.axis[a].summed && !unit.outer[a].same_source(other.outer[a])) return false;
      }
      return true;
    };
    unit.source = std::find_if(plan.units.begin(), plan.units.end(), has_same_source) - plan.units.begin();
  }
}

// Point p of a family: which weights it has, axis by axis.
int64_t weight_of(const Plan& plan, const Unit& unit, const Family& family, int64_t p) {
  int64_t weight = 0, scale = 1;
  for (int a = plan.ndims - 1; a >= 0; --a) {
    const Filter filter = a == plan.ndims - 1 ? family.last.filter : unit.outer[a].filter;
    const int64_t points = points_of(filter, plan.axis[a].step);
    if (filter != Filter::kCopy) weight += p % points * scale;
    scale *= weights_of(filter);
    p /= points;
  }
  return weight;
}

void plan_families(const Plan& plan, Unit& unit) {
  const int last = plan.ndims - 1;
  const AxisPlan& axis = plan.axis[last];
  for (int64_t r = 0; r < axis.num_classes(); ++r) {
    auto family = std::find_if(unit.families.begin(), unit.families.end(),
                               [&](const Family& f) { return f.last.same_source(axis.classes[r]); });
    if (family == unit.families.end()) {
      family = unit.families.insert(family, Family{});
      family->last = axis.classes[r];
    }
    unit.family_of.push_back(family - unit.families.begin());
    unit.index_in_family.push_back(static_cast<int64_t>(family->last_classes.size()));
    family->last_classes.push_back(r);
  }
  for (Family& family : unit.families) {
    family.points = unit.outer_points * points_of(family.last.filter, axis.step);
    family.num_classes = unit.num_outer * static_cast<int64_t>(family.last_classes.size());
    family.weights = weights_of(family.last.filter);
    for (int a = 0; a < last; ++a) family.weights *= weights_of(unit.outer[a].filter);
    for (int64_t p = 0; p < family.points; ++p) family.weight_of.push_back(weight_of(plan, unit, family, p));
    unit.points += family.points;
  }
  // The points of a unit: those of the axes before the last, then the families, then the points of the last axis.
  int64_t before = 0;
  for (Family& family : unit.families) {
    const int64_t last_points = family.points / unit.outer_points;
    for (int64_t p = 0; p < family.points; ++p) {
      family.source_of.push_back(p / last_points * (unit.points / unit.outer_points) + before + p % last_points);
    }
    before += last_points;
  }
}

// How the sums of products are formed, so that the error is no larger than that of an ordinary sum. The transforms take
// sums apart again, which multiplies the (squared) error of these, and round themselves: as measured, and a little more
// than the coefficients of the filters say. Several calls of the GEMM make three levels of sums: products, pieces,
// calls.
void plan_pieces(Plan& plan) {
  constexpr double kShared = 1.6, kSeparate = 2, kRounding = 16;  // per axis
  constexpr int64_t kCalls[] = {128, 256, 512, 64};               // products, the usual number first
  constexpr double kBelow = 0.9;  // of the error of an ordinary sum: largest errors scatter more than these
  double growth = 1, rounding = 0;
  int64_t taps = 1, summed_taps = 1;
  for (int a = 0; a < plan.ndims; ++a) {
    const AxisPlan& axis = plan.axis[a];
    taps *= axis.reach;
    if (axis.summed) {
      summed_taps *= axis.reach;
    } else {
      growth *= axis.separate ? kSeparate : kShared;
      rounding += kRounding;
    }
  }
  const int64_t channels = std::max<int64_t>(plan.ic, 1);
  const double usual = usual_long_sum_error(plan.op == Op::kConv, plan.ic, taps);
  plan.piece = 0;
  for (const int64_t most : kCalls) {
    const int64_t call = std::min(ceil_div(most, summed_taps), channels), products = call * summed_taps;
    const bool one_call = call == channels;
    const double chain = one_call ? 0 : static_cast<double>(channels) / static_cast<double>(call);
    const double allowed = ((one_call ? 1 : kBelow) * usual - rounding) / growth - chain;
    int64_t piece = longest_piece(products, allowed);
    if (piece > 0) piece = even_piece(products, piece);
    if (piece > plan.piece) plan.piece = piece, plan.call = call;
  }
  plan.exact_enough = plan.piece > 0;
  if (!plan.exact_enough) {
    plan.call = std::min(ceil_div(kCalls[0], summed_taps), channels);
    plan.piece = best_piece(plan.call * summed_taps);
  }
  // Any sum is far more exact than an element of 16 bits.
  if (plan.dtype != DataType::kFloat) plan.piece = std::numeric_limits<int64_t>::max();
}

bool takes_type(DataType dtype) {
  return dtype == DataType::kFloat || dtype == DataType::kFloat16 || dtype == DataType::kBfloat16;
}

}  // namespace

bool plan_sizes(Op op, const ConvProblem& p, Windows windows, int summed, DataType dtype, const ArchFlags& arch,
                Plan* plan) {
  if (p.ndims > kMaxAxes || !takes_type(dtype)) return false;
  *plan = {};
  plan->op = op;
  plan->dtype = dtype;
  plan->ndims = p.ndims;
  plan->g = p.g, plan->ic = p.ic / p.g, plan->oc = p.oc / p.g;
  bool any = false, separate = false;
  for (int a = 0; a < p.ndims; ++a) {
    if (!plan_axis(op, p.ker[a], p.stride[a], p.dilation[a], windows, a < summed, &plan->axis[a])) return false;
    any |= !plan->axis[a].summed;
    separate |= plan->axis[a].separate;
  }
  if (!any || separate != (windows == Windows::kSeparate)) return false;
  plan_outer(*plan);
  int64_t most_classes = 1;
  plan->most_points = plan->most_products = plan->num_weights = 0;
  for (Unit& unit : plan->units) {
    plan_families(*plan, unit);
    if (static_cast<int64_t>(unit.families.size()) > kMaxFamilies) return false;
    unit.weights_before = plan->num_weights;
    int64_t products = 0;
    for (const Family& family : unit.families) {
      products += family.points * family.num_classes;
      plan->num_weights += family.weights * family.num_classes * unit.taps;
      most_classes = std::max(most_classes, family.num_classes);
    }
    plan->most_points = std::max(plan->most_points, unit.points);
    plan->most_products = std::max(plan->most_products, products);
  }
  plan_pieces(*plan);
  const int64_t block_oc = std::clamp<int64_t>(kBlockRows / most_classes, 1, plan->oc);
  plan->num_blocks = (plan->oc + block_oc - 1) / block_oc;
  plan->far_source = !arch.slow_l3;
  plan->gemm = &get_gemm_kernel(arch);
  plan->interleave = &get_interleave_kernel(arch);
  plan->activate = &get_epilogue_kernel(arch);
  plan->widen = &get_to_float_kernel(arch);
  plan->transform = &get_transform_kernels(arch);
  return true;
}

bool plan_sizes(Op op, const ConvProblem& p, Windows windows, DataType dtype, const ArchFlags& arch, Plan* plan) {
  for (int summed = 0; dtype == DataType::kFloat && summed < p.ndims; ++summed) {
    if (plan_sizes(op, p, windows, summed, dtype, arch, plan) && plan->exact_enough) return true;
  }
  return plan_sizes(op, p, windows, 0, dtype, arch, plan);
}

bool takes_weights(Op op, const ConvProblem& p, DataType dtype, const void* wei, const ArchFlags& arch) {
  Plan plan{};
  if (!plan_sizes(op, p, Windows::kShared, dtype, arch, &plan)) return false;
  int64_t taps = 1;
  for (int a = 0; a < p.ndims; ++a) {
    taps *= p.ker[a];
    if (taps > kernels::kMaxTaps) return false;  // the direct way has to take what this one leaves
  }
  const int64_t count = plan.g * plan.ic * plan.oc * taps;
  return with_float_sum_type(dtype, [&](auto zero) {
    const auto* typed = static_cast<const decltype(zero)*>(wei);
    return std::all_of(typed, typed + count, [](auto w) { return std::fabs(widen(w)) <= kMaxMagnitude; });
  });
}

PlanPtr make_plan(Op op, const ConvProblem& p, Windows windows, DataType dtype, const void* wei,
                  const ArchFlags& arch) {
  const auto plan = std::make_shared<Plan>();
  if (!plan_sizes(op, p, windows, dtype, arch, plan.get())) return nullptr;
  pack_weights(p, wei, plan.get());
  return plan;
}

}  // namespace ortconv::kernels::winograd

#include "kernels/conv/plan.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <map>
#include <type_traits>

#include "base/math.h"
#include "kernels/conv/bf16_split_stages.h"
#include "kernels/conv/tapwise.h"
#include "kernels/gemm/pieces.h"

namespace ortconv::kernels {
namespace {

// With fewer dst channels than this, a panel of one class would leave most of the register tile unused.
constexpr int64_t kMergeBelow = 8;
// Products per element of C that one microkernel call should do: the slice of B it walks then stays in L1.
constexpr int64_t kCallDepth = 256;

// The sums of calls are added one after the other. Where a result is large, so are its last partial sums and the errors
// of these additions: the largest errors come from them, while pieces.h is about the mean. ONNX Runtime has one for
// each tap.
constexpr int64_t kMostCallsPerTap = 2;

AxisPlan plan_axis(Op op, int64_t ker, int64_t stride, int64_t dilation, bool merge) {
  AxisPlan axis{ker, stride, dilation, 1, stride, {}};
  if (op == Op::kConv) {
    axis.src_step = stride;
    axis.dst_step = 1;
  }
  std::vector<std::vector<int64_t>> taps(axis.dst_step);
  for (int64_t k = 0; k < ker; ++k) taps[k * dilation % axis.dst_step].push_back(k);
  if (!merge) {
    for (int64_t r = 0; r < axis.dst_step; ++r) axis.groups.push_back({{r}, {taps[r]}});
    return axis;
  }
  std::map<int64_t, std::map<int64_t, int64_t>> at_shift;  // shift q -> class -> k
  for (int64_t r = 0; r < axis.dst_step; ++r) {
    for (const int64_t k : taps[r]) at_shift[k * dilation / stride][r] = k;
  }
  for (const auto& [shift, class_taps] : at_shift) {
    std::vector<int64_t> classes;
    for (const auto& [r, k] : class_taps) classes.push_back(r);
    auto group =
        std::find_if(axis.groups.begin(), axis.groups.end(), [&](const AxisGroup& g) { return g.classes == classes; });
    if (group == axis.groups.end()) {
      group = axis.groups.insert(group, AxisGroup{classes, std::vector<std::vector<int64_t>>(classes.size())});
    }
    for (size_t i = 0; i < classes.size(); ++i) group->taps[i].push_back(class_taps.at(classes[i]));
  }
  return axis;
}

// Offsets into the weights of every (class, tap) of the group, both row-major over the axes.
std::vector<int64_t> wei_offsets(const Plan& plan, const GemmGroup& group, const int64_t* wei_x) {
  std::vector<int64_t> offsets(group.num_classes * group.num_taps);
  for (int64_t i = 0; i < static_cast<int64_t>(offsets.size()); ++i) {
    int64_t cls = i / group.num_taps, tap = i % group.num_taps;
    for (int a = plan.ndims - 1; a >= 0; --a) {
      const AxisGroup& ag = plan.axis[a].groups[group.axis_group[a]];
      offsets[i] += ag.taps[cls % ag.num_classes()][tap % ag.num_taps()] * wei_x[a];
      cls /= ag.num_classes();
      tap /= ag.num_taps();
    }
  }
  return offsets;
}

void plan_groups(Plan& plan, const int64_t* wei_x) {
  const int last = plan.ndims - 1;
  int64_t count = 1, outer_classes = 1;
  for (int a = 0; a <= last; ++a) count *= static_cast<int64_t>(plan.axis[a].groups.size());
  for (int a = 0; a < last; ++a) outer_classes *= plan.axis[a].dst_step;
  const int64_t row_classes = plan.axis[last].dst_step;
  const int64_t per_unit = plan.merged ? count : static_cast<int64_t>(plan.axis[last].groups.size());
  int64_t weights = 0, taps = 0;
  for (int64_t i = 0; i < count; ++i) {
    GemmGroup group{};
    group.num_classes = group.num_taps = 1;
    for (int64_t a = last, rest = i; a >= 0; --a) {
      const int64_t n = static_cast<int64_t>(plan.axis[a].groups.size());
      group.axis_group[a] = rest % n;
      rest /= n;
      group.num_classes *= plan.axis[a].groups[group.axis_group[a]].num_classes();
      group.num_taps *= plan.axis[a].groups[group.axis_group[a]].num_taps();
    }
    for (int64_t cls = 0; cls < group.num_classes; ++cls) {
      int64_t index = 0, scale = 1;
      for (int64_t a = last, rest = cls; a >= (plan.merged ? 0 : last); --a) {
        const AxisGroup& ag = plan.axis[a].groups[group.axis_group[a]];
        index += ag.classes[rest % ag.num_classes()] * scale;
        rest /= ag.num_classes();
        scale *= plan.axis[a].dst_step;
      }
      group.unit_class.push_back(index);
    }
    group.weights_before = weights;
    group.taps_before = taps;
    weights += group.num_classes * group.num_taps;
    taps += group.num_taps;
    if (group.num_taps > 0) group.wei_offset = wei_offsets(plan, group, wei_x);
    if (i % per_unit == 0) {
      const int64_t begin = plan.merged ? 0 : i / per_unit, end = plan.merged ? outer_classes : begin + 1;
      Unit unit{i, per_unit, (end - begin) * row_classes, {}};
      for (int64_t outer = begin; outer < end; ++outer) {
        unit.outer_class.resize(unit.outer_class.size() + last);
        int64_t* classes = unit.outer_class.data() + unit.outer_class.size() - last;
        for (int64_t a = last - 1, rest = outer; a >= 0; --a) {
          classes[a] = rest % plan.axis[a].dst_step;
          rest /= plan.axis[a].dst_step;
        }
      }
      plan.units.push_back(std::move(unit));
    }
    plan.groups.push_back(std::move(group));
  }
}

int64_t choose_k_chunk(const Plan& plan) {
  int64_t taps = 1;
  for (const GemmGroup& group : plan.groups) taps = std::max(taps, group.num_taps);
  const bool exact = plan.op == Op::kConvTranspose && plan.parts == nullptr && plan.element_bytes >= sizeof(float);
  const int64_t depth = exact ? std::max(kCallDepth, plan.ic / kMostCallsPerTap) : kCallDepth;
  const int64_t target = std::max<int64_t>(8, depth / taps);
  const int64_t chunks = std::max<int64_t>(1, (plan.ic + target / 2) / target);
  return std::max<int64_t>(1, ceil_div(plan.ic, chunks));
}

void choose_piece(Plan& plan) {
  // A sum of floats is far more exact than an element of 16 bits.
  plan.piece = std::numeric_limits<int64_t>::max();
  if (plan.element_bytes < sizeof(float)) return;
  int64_t taps = 1, call_taps = 1;  // of the class and of the GEMM that have most of them
  for (int a = 0; a < plan.ndims; ++a) taps *= (plan.axis[a].ker + plan.axis[a].dst_step - 1) / plan.axis[a].dst_step;
  for (const GemmGroup& group : plan.groups) call_taps = std::max(call_taps, group.num_taps);
  if (plan.parts != nullptr) {
    plan.piece = parts_piece_length(plan.ic, taps);
    return;
  }
  const bool one_sum = plan.op == Op::kConv;
  plan.piece = one_sum ? longest_piece(plan.ic * taps, 0.9 * usual_long_sum_error(one_sum, plan.ic, taps))
                       : longest_piece_of_sum(plan.ic, taps);
  const int64_t call = plan.k_chunk * call_taps;
  if (plan.piece == 0) {
    const LongSum sum = long_sum(plan.ic * taps, call, usual_long_sum_error(one_sum, plan.ic, taps));
    plan.piece = sum.piece;
    plan.exact_enough = sum.exact_enough;
  }
  plan.piece = even_piece(call, plan.piece);
}

// Infinities and NaN of T have all of these bits.
constexpr uint32_t exponent_of(float) { return 0x7f800000; }
constexpr uint64_t exponent_of(double) { return 0x7ff0000000000000; }
constexpr uint16_t exponent_of(Float16) { return 0x7c00; }
constexpr uint16_t exponent_of(Bfloat16) { return 0x7f80; }

// As pack_weights(), for weights of T that are not in parts.
template <class T>
void pack_plain(const Plan& plan, const T* wei, int64_t group_index, int64_t block, Sum<T>* packed) {
  const int64_t oc_begin = plan.block_begin(block), oc_count = plan.block_begin(block + 1) - oc_begin;
  const bool transposed = plan.op == Op::kConvTranspose;
  const int64_t oc_stride = transposed ? plan.wei_1 : plan.wei_0;
  const int64_t ic_stride = transposed ? plan.wei_0 : plan.wei_1;
  wei += group_index * (transposed ? plan.ic : plan.oc) * plan.wei_0 + oc_begin * oc_stride;
  for (const GemmGroup& group : plan.groups) {
    Sum<T>* out = packed + plan.packed_offset(group_index, block, group);
    const Panels panels(oc_count * group.num_classes, plan.mr);
    for (int64_t c0 = 0; c0 < plan.ic; c0 += plan.k_chunk) {
      const int64_t c1 = std::min(c0 + plan.k_chunk, plan.ic);
      for (int64_t panel = 0; panel < panels.count; ++panel) {
        const int64_t begin = panels.begin(panel), rows = panels.begin(panel + 1) - begin;
        for (int64_t tap = 0; tap < group.num_taps; ++tap) {
          int64_t offset[kMaxRows];
          for (int64_t row = 0; row < rows; ++row) {
            const int64_t oc = (begin + row) / group.num_classes, cls = (begin + row) % group.num_classes;
            offset[row] = oc * oc_stride + group.wei_offset[cls * group.num_taps + tap];
          }
          for (int64_t c = c0; c < c1; ++c, out += rows) {
            const T* in = wei + c * ic_stride;
            for (int64_t row = 0; row < rows; ++row) out[row] = widen(in[offset[row]]);
          }
        }
      }
    }
  }
}

}  // namespace

PlanPtr make_plan(Op op, const ConvProblem& p, DataType dtype, const void* wei_const, const ArchFlags& arch,
                  Packing packing) {
  int64_t taps = 1, classes = 1;
  for (int a = 0; a < p.ndims; ++a) {
    const int64_t stride = op == Op::kConvTranspose ? p.stride[a] : 1;
    if (stride > kMaxTaps / classes) return nullptr;
    classes *= stride;
    taps *= p.ker[a];
    if (taps > kMaxTaps) return nullptr;
  }
  // A tap that falls outside src meets a zero of the padded copy, which an infinite weight would turn into NaN.
  if (wei_const != nullptr && !all_finite(op, p, dtype, wei_const)) return nullptr;
  PlanPtr plan(new Plan{});
  plan->op = op;
  plan->packing = packing;
  plan->dtype = dtype;
  with_float_type(dtype, [&](auto zero) {
    plan->element_bytes = sizeof(zero);
    plan->cell_bytes = sizeof(Sum<decltype(zero)>);
  });
  plan->ndims = p.ndims;
  plan->g = p.g;
  plan->ic = p.ic / p.g;
  plan->oc = p.oc / p.g;
  plan->num_classes = classes;
  plan->num_taps = taps;
  if (dtype == DataType::kDouble) {
    plan->gemm = &get_gemm_f64_kernel(arch);
  } else {
    plan->gemm = &get_gemm_kernel(arch);
  }
  const auto* pairs = packing == Packing::kTaps ? tapwise_pairs_kernel(dtype, arch) : nullptr;
  if (pairs != nullptr && parts_suit(dtype, wei_const, plan->g * plan->oc * plan->ic * taps)) {
    plan->gemm = pairs;
    plan->in_floats = make_plan(op, p, dtype, nullptr, arch);
  }
  plan->slow_l3 = arch.slow_l3;
  plan->mr = std::visit([](const auto* kernel) { return kernel->mr; }, plan->gemm);
  plan->interleave = &get_interleave_kernel(arch);
  plan->transpose = &get_transpose_kernel(arch);
  plan->widen = &get_to_float_kernel(arch);
  plan->activate = &get_epilogue_kernel(arch);
  plan->depthwise = &get_depthwise_kernel(arch);
  plan->wei_0 = p.wei_0;
  plan->wei_1 = p.wei_1;
  std::copy_n(p.wei_x, p.ndims, plan->wei_x);
  plan->merged = packing == Packing::kPhases && plan->oc < kMergeBelow && classes > 1;
  for (int a = 0; a < p.ndims; ++a) {
    plan->axis[a] = plan_axis(op, p.ker[a], p.stride[a], p.dilation[a], plan->merged);
  }
  plan_groups(*plan, p.wei_x);
  plan->row_granule = 1;
  if (packing == Packing::kPhases && wei_const != nullptr && parts_pay(*plan, arch, wei_const)) {
    plan->parts = get_bf16_split_kernel(arch);
    plan->mr = kMaxPartRows;
    plan->row_granule = kPartRows;
    plan->in_floats = make_plan(op, p, dtype, nullptr, arch);
  }
  plan->num_blocks = plan->merged ? 1 : (plan->oc + plan->mr - 1) / plan->mr;
  if (packing == Packing::kTaps) {
    plan->k_chunk = tapwise_chunk(*plan);
    choose_piece(*plan);
    plan->packed = Buffer(tapwise_packed_size(*plan) * plan->cell_bytes);
    for (int64_t g = 0; g < plan->g; ++g) pack_tapwise(*plan, wei_const, g, plan->packed.as<void>());
    return plan;
  }
  plan->k_chunk = choose_k_chunk(*plan);
  choose_piece(*plan);
  if (wei_const != nullptr) {
    plan->packed = Buffer(plan->parts != nullptr ? parts_packed_size(*plan) * sizeof(uint16_t)
                                                 : plan->packed_size() * plan->cell_bytes);
    for (int64_t g = 0; g < plan->g; ++g) {
      for (int64_t b = 0; b < plan->num_blocks; ++b) pack_weights(*plan, wei_const, g, b, plan->packed.as<void>());
    }
  }
  return plan;
}

void pack_weights(const Plan& plan, const void* wei, int64_t group_index, int64_t block, void* packed) {
  with_float_type(plan.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* typed = static_cast<const T*>(wei);
    if constexpr (kNumParts<T> > 0) {
      if (plan.parts != nullptr) {
        pack_parts(plan, typed, group_index, block, static_cast<uint16_t*>(packed));
        return;
      }
    }
    pack_plain(plan, typed, group_index, block, static_cast<Sum<T>*>(packed));
  });
}

// The weights may be laid out in any order but are dense.
bool all_finite(Op op, const ConvProblem& p, DataType dtype, const void* wei) {
  const int64_t channels = op == Op::kConvTranspose ? p.ic * (p.oc / p.g) : p.oc * (p.ic / p.g);
  const int64_t count = channels * product_of(p.ker, p.ndims);
  return with_float_type(dtype, [&](auto zero) {
    constexpr auto kExponent = exponent_of(decltype(zero)());
    using Bits = std::remove_const_t<decltype(kExponent)>;
    const auto* bytes = static_cast<const unsigned char*>(wei);
    Bits found = 0;  // no early exit, so that the loop vectorizes
    for (int64_t i = 0; i < count; ++i) {
      Bits bits;
      std::memcpy(&bits, bytes + i * sizeof(Bits), sizeof(Bits));
      found |= (bits & kExponent) == kExponent ? 1 : 0;
    }
    return found == 0;
  });
}

}  // namespace ortconv::kernels

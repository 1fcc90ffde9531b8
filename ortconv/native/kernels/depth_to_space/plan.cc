#include "kernels/depth_to_space/plan.h"

#include <type_traits>

#include "kernels/bf16_split/bf16_split.h"
#include "kernels/gemm/pieces.h"

namespace ortconv::kernels::depth_to_space {
namespace {

// With fewer dst channels a run reads more than it multiplies, and src is better read where it is; with fewer src
// channels there is little to multiply.
constexpr int64_t kLeastChannels = 8, kLeastDepth = 2;
// With more src channels than this so few panels of doubles make a block that reading the weights takes the time.
constexpr int64_t kMostDepthOfDoubles = 256;
// Src positions of a run that fill the register tile.
constexpr int64_t kLeastPositions = 16;

int64_t choose_piece(int64_t channels, DataType dtype) {
  // A sum of floats is far more exact than an element of 16 bits, unless it is very long.
  constexpr int64_t kLongest = 256;
  if (dtype == DataType::kFloat16 || dtype == DataType::kBfloat16) return kLongest;
  return piece_length(channels, 1);
}

// The operand that begins with channel c of `wei`, whose channels of a group of channels are `stride` apart.
template <class Operand, class T>
Operand operand(const Plan& plan, const T* wei, int64_t c, int64_t stride) {
  if constexpr (std::is_same_v<Operand, BfloatPair>) {
    return {wei[c * stride], c + 1 < plan.ic ? wei[(c + 1) * stride] : Bfloat16()};
  } else {
    return widen(wei[c * stride]);
  }
}

template <class T, class Operand>
void pack(const Plan& plan, const ConvProblem& p, const T* wei, int64_t group, int64_t panel, Operand* packed) {
  const int64_t begin = plan.panels.begin(panel), count = plan.panels.begin(panel + 1) - begin;
  const int last = p.ndims - 1;
  Operand* out = packed + (group * plan.groups() + begin) * plan.phases * plan.depth;
  wei += group * plan.ic * p.wei_0;
  for (int64_t i = 0; i < count; ++i) {
    const T* in = wei + (begin + i) / plan.outer * p.wei_1 + offset_of((begin + i) % plan.outer, p.ker, p.wei_x, last);
    for (int64_t k = 0; k < plan.depth; ++k) {
      Operand* row = out + (k * count + i) * plan.phases;
      for (int64_t r = 0; r < plan.phases; ++r) {
        row[r] = operand<Operand>(plan, in + r * p.wei_x[last], k * kChannels<Operand>, p.wei_0);
      }
    }
  }
}

}  // namespace

bool takes(const ConvProblem& p, DataType dtype, const ArchFlags& arch) {
  const Kernel* kernel = get_kernel(arch);
  if (kernel == nullptr || p.oc / p.g < kLeastChannels || p.ic / p.g < kLeastDepth) return false;
  if (dtype == DataType::kDouble && p.ic / p.g > kMostDepthOfDoubles) return false;
  if (arch.amx_bf16) return false;  // parts are faster
  int64_t taps = 1;
  for (int a = 0; a < p.ndims; ++a) {
    if (p.ker[a] != p.stride[a] || p.dilation[a] != 1) return false;
    taps *= p.ker[a];
    if (taps > kMaxTaps) return false;
  }
  return kernel->groups(p.ker[p.ndims - 1]) > 0;
}

bool suits(const ConvProblem& p) {
  const int last = p.ndims - 1;
  int64_t positions = p.mb;
  for (int a = 0; a < p.ndims; ++a) {
    if (p.pad[a] != 0 || p.dst_size[a] != p.src_size[a] * p.stride[a]) return false;
    positions *= p.src_size[a];
  }
  return positions >= kLeastPositions && p.src_x[last] == 1 && p.dst_x[last] == 1;
}

Plan::Plan(const ConvProblem& p, DataType dtype, const Kernel* kernel, const PairFunctions* pairs)
    : dtype(dtype),
      element_bytes(with_float_type(dtype, [](auto zero) { return sizeof(zero); })),
      cell_bytes(with_float_type(dtype, [](auto zero) { return sizeof(Sum<decltype(zero)>); })),
      g(p.g),
      ic(p.ic / p.g),
      oc(p.oc / p.g),
      pairs(pairs),
      depth(pairs == nullptr ? ic : depth_of<BfloatPair>(ic)),
      outer(product_of(p.ker, p.ndims - 1)),
      phases(p.ker[p.ndims - 1]),
      piece(choose_piece(ic, dtype)),
      panels(oc * outer, kernel->groups(phases)),
      kernel(kernel) {}

PlanPtr make_plan(const ConvProblem& p, DataType dtype, const void* wei_const, const ArchFlags& arch) {
  const PairFunctions* pairs =
      wei_const == nullptr || dtype != DataType::kBfloat16 ? nullptr : get_pair_functions(arch);
  const int64_t weights = p.ic * (p.oc / p.g) * product_of(p.ker, p.ndims);
  if (pairs != nullptr && !parts_suit(dtype, wei_const, weights)) pairs = nullptr;
  auto plan = std::make_shared<Plan>(p, dtype, get_kernel(arch), pairs);
  if (pairs != nullptr) plan->in_floats = make_plan(p, dtype, nullptr, arch);
  if (wei_const != nullptr) {
    plan->packed = Buffer(static_cast<size_t>(plan->packed_size()) * plan->cell_bytes);
    for (int64_t g = 0; g < plan->g; ++g) {
      for (int64_t i = 0; i < plan->panels.count; ++i) pack_weights(*plan, p, wei_const, g, i, plan->packed.as<void>());
    }
  }
  return plan;
}

void pack_weights(const Plan& plan, const ConvProblem& p, const void* wei, int64_t group, int64_t panel, void* packed) {
  plan.with_types([&](auto element, auto operand) {
    pack(plan, p, static_cast<const decltype(element)*>(wei), group, panel, static_cast<decltype(operand)*>(packed));
  });
}

}  // namespace ortconv::kernels::depth_to_space

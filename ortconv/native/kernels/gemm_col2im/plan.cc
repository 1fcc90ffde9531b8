#include "kernels/gemm_col2im/plan.h"

#include <algorithm>

#include "kernels/im2col/product.h"

namespace ortconv::kernels::gemm_col2im {
namespace {

// Calls fn(Out()) with the type of numbers that were T in panels of that height.
template <class T, class Fn>
void with_packed_type(const Plan& plan, int64_t height, Fn fn) {
  plan.bytes_in(height) == sizeof(T) ? fn(T()) : fn(Sum<T>());
}

// A weight as it is, or widened.
template <class Out, class T>
Out packed_as(T weight) {
  if constexpr (std::is_same_v<Out, T>) {
    return weight;
  } else {
    return widen(weight);
  }
}

template <class T, class Out>
void pack(const Plan& plan, const ConvProblem& p, const T* wei, int64_t height, int64_t group, int64_t panel,
          Out* packed) {
  const int64_t all = plan.rows_in(height);
  const int64_t begin = panel * height, rows = std::min(height, plan.rows() - begin);
  const int64_t pitch = std::min(height, all - begin);
  int64_t offset[im2col::kMostPanelRows];
  bool contiguous = true;
  for (int64_t r = 0, row = begin; r < rows; ++r, ++row) {
    offset[r] = row / plan.taps * p.wei_1 + offset_of(row % plan.taps, p.ker, p.wei_x, p.ndims);
    contiguous &= offset[r] == offset[0] + r;
  }
  const im2col::Kernels<T> kernels(plan.arch);
  const T* in = wei + group * plan.ic * p.wei_0;
  Out* out = packed + (group * all + begin) * plan.ic;
  for (int64_t k = 0; k < plan.ic; ++k, in += p.wei_0, out += pitch) {
    if (!contiguous) {
      for (int64_t r = 0; r < rows; ++r) out[r] = packed_as<Out>(in[offset[r]]);
    } else if constexpr (std::is_same_v<Out, T>) {
      std::copy_n(in + offset[0], rows, out);
    } else {
      kernels.load(in + offset[0], 1, rows, out);
    }
    for (int64_t r = rows; r < pitch; ++r) out[r] = Out();
  }
}

template <class Cell, class Out>
void pack_wide(const Plan& plan, const Cell* packed, int64_t height, Out* out) {
  const int64_t all = plan.rows_in(height);
  for (int64_t group = 0; group < plan.g; ++group) {
    for (int64_t row = 0; row < all; ++row) {
      const int64_t begin = row / height * height, pitch = std::min(height, all - begin);
      Out* to = out + (group * all + begin) * plan.ic + (row - begin);
      const int64_t panel = row / plan.height * plan.height, lda = std::min(plan.height, plan.rows() - panel);
      const Cell* from = packed + (group * plan.rows() + panel) * plan.ic + (row - panel);
      for (int64_t k = 0; k < plan.ic; ++k) round_to(to + k * pitch, row < plan.rows() ? from[k * lda] : Cell());
    }
  }
}

Rounding rounding_to(DataType dtype) {
  if (dtype == DataType::kFloat16) return Rounding::kFloat16;
  return dtype == DataType::kBfloat16 ? Rounding::kBfloat16 : Rounding::kNone;
}

}  // namespace

Plan::Plan(const ConvProblem& p, DataType dtype, const ArchFlags& arch)
    : dtype(dtype), arch(arch), g(p.g), ic(p.ic / p.g), oc(p.oc / p.g), taps(product_of(p.ker, p.ndims)) {
  const GemmKernel& gemm = get_gemm_kernel(arch);
  const BasicGemmKernel<double>& gemm_f64 = get_gemm_f64_kernel(arch);
  mr = dtype == DataType::kDouble ? gemm_f64.mr : gemm.mr;
  takes_strips = dtype == DataType::kDouble ? gemm_f64.takes_strips : gemm.takes_strips;
  height = even_height(rows(), mr);
  widens = (dtype == DataType::kFloat16 && gemm.of<Float16>() != nullptr) ||
           (dtype == DataType::kBfloat16 && gemm.of<Bfloat16>() != nullptr);
  rounding = gemm.rounds() ? rounding_to(dtype) : Rounding::kNone;
}

size_t Plan::bytes_in(int64_t height) const {
  const bool is_b_operand = height > mr;
  return is_b_operand && widens ? size_of(dtype) : sum_size_of(dtype);
}

bool takes(const ConvProblem& p) {
  constexpr int64_t kMost = int64_t{1} << 31;  // so that products of two of them do not overflow
  for (int a = 0; a < p.ndims; ++a) {
    if (p.stride[a] >= kMost || p.dilation[a] >= kMost || p.ker[a] >= kMost) return false;
  }
  return p.ic > 0 && p.oc > 0;
}

PlanPtr make_plan(const ConvProblem& p, DataType dtype, const void* wei_const, const ArchFlags& arch) {
  auto plan = std::make_shared<Plan>(p, dtype, arch);
  if (wei_const == nullptr) return plan;
  plan->packed = Buffer(static_cast<size_t>(plan->packed_size()) * sum_size_of(dtype));
  for (int64_t group = 0; group < plan->g; ++group) {
    for (int64_t i = 0; i < num_panels(*plan, plan->height); ++i) {
      pack_weights(*plan, p, wei_const, plan->height, group, i, plan->packed.as<void>());
    }
  }
  return plan;
}

const void* Plan::wide(int64_t height) const {
  if (packed.empty()) return nullptr;
  Wide& wide = wide_[std::find(kWideHeights, kWideHeights + kNumWide - 1, height) - kWideHeights];
  std::call_once(wide.once, [&] {
    with_float_type(dtype, [&](auto zero) {
      using T = decltype(zero);
      wide.panels = Buffer(static_cast<size_t>(wide_size()) * bytes_in(height));
      with_packed_type<T>(*this, height, [&](auto out) {
        pack_wide(*this, packed.as<const Sum<T>>(), height, wide.panels.as<decltype(out)>());
      });
    });
  });
  return wide.panels.as<const void>();
}

void pack_weights(const Plan& plan, const ConvProblem& p, const void* wei, int64_t height, int64_t group, int64_t panel,
                  void* packed) {
  with_float_type(plan.dtype, [&](auto zero) {
    using T = decltype(zero);
    with_packed_type<T>(plan, height, [&](auto out) {
      pack(plan, p, static_cast<const T*>(wei), height, group, panel, static_cast<decltype(out)*>(packed));
    });
  });
}

}  // namespace ortconv::kernels::gemm_col2im

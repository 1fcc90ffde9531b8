#include "kernels/gemm/gemm_loops_avx512.h"

namespace ortconv::kernels {

namespace {

// Where sums are rounded. Asking for a B that is near takes hardly any time.
template <class Out, class B>
void gemm_rounding(const BasicGemmArgs<float, B>& g) {
  any_rows<Far::kB, Out>(g);
}

// A B of 16 bits: src, or weights in panels. Sums are rounded to its type, if at all.
template <class B>
void gemm_widening(const BasicGemmArgs<float, B>& g) {
  if (g.rounding != Rounding::kNone) return gemm_rounding<B>(g);
  g.far_b ? any_rows<Far::kB, float>(g) : any_rows<Far::kNext, float>(g);
}

}  // namespace

void gemm_f32_14x32_avx512(const GemmArgs& g) {
  if (g.rounding == Rounding::kFloat16) return gemm_rounding<Float16>(g);
  if (g.rounding == Rounding::kBfloat16) return gemm_rounding<Bfloat16>(g);
  gemm(g);
}
void gemm_f32_14x32_avx512(const BasicGemmArgs<float, Float16>& g) { gemm_widening(g); }
void gemm_f32_14x32_avx512(const BasicGemmArgs<float, Bfloat16>& g) { gemm_widening(g); }
void gemm_f64_14x16_avx512(const BasicGemmArgs<double>& g) { gemm(g); }

}  // namespace ortconv::kernels

#include "kernels/gemm/gemm_loops_avx512.h"

namespace ortconv::kernels {

namespace {

// A B of 16 bits: src, or weights in panels.
template <class B>
void gemm_widening(const BasicGemmArgs<float, B>& g) {
  g.far_b ? any_rows<Far::kB>(g) : any_rows<Far::kNext>(g);
}

}  // namespace

void gemm_f32_14x32_avx512(const GemmArgs& g) { gemm(g); }
void gemm_f32_14x32_avx512(const BasicGemmArgs<float, Float16>& g) { gemm_widening(g); }
void gemm_f32_14x32_avx512(const BasicGemmArgs<float, Bfloat16>& g) { gemm_widening(g); }
void gemm_f64_14x16_avx512(const BasicGemmArgs<double>& g) { gemm(g); }

}  // namespace ortconv::kernels

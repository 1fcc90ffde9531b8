#include "kernels/gemm/gemm_loops_avx512.h"

namespace ortconv::kernels {

void gemm_f32_14x32_avx512(const GemmArgs& g) { gemm(g); }
// With 16 bits, B is a tensor, and each of its elements is read about once.
void gemm_f32_14x32_avx512(const BasicGemmArgs<float, Float16>& g) { any_rows<Far::kB>(g); }
void gemm_f32_14x32_avx512(const BasicGemmArgs<float, Bfloat16>& g) { any_rows<Far::kB>(g); }
void gemm_f64_14x16_avx512(const BasicGemmArgs<double>& g) { gemm(g); }

}  // namespace ortconv::kernels

#include "kernels/gemm/gemm_loops_avx512.h"

namespace ortconv::kernels {

void gemm_pairs_14x32_avx512_bf16(const BasicGemmArgs<BfloatPair>& g) { gemm(g); }

}  // namespace ortconv::kernels

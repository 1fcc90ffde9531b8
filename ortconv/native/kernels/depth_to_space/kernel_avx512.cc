#include "kernels/depth_to_space/kernel_loops_avx512.h"

namespace ortconv::kernels::depth_to_space {

int64_t groups_avx512(int64_t phases) { return most_groups(phases); }

void fence_avx512() { _mm_sfence(); }

template <class T>
void gemm_avx512(const GemmArgs<T, Sum<T>>& g) {
  gemm(g);
}

template <class T>
uint32_t pack_avx512(const PackArgs<T, Sum<T>>& args) {
  pack(args);
  return 0;
}

#define INSTANTIATE(T)                                   \
  template void gemm_avx512(const GemmArgs<T, Sum<T>>&); \
  template uint32_t pack_avx512(const PackArgs<T, Sum<T>>&);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels::depth_to_space

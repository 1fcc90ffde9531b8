#include "kernels/epilogue/activated_avx2.h"
#include "kernels/interleave/shuffle_avx2.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels::depth_to_space::vectors {
using namespace avx2;
constexpr int64_t kMostRows = 6;
}  // namespace ortconv::kernels::depth_to_space::vectors

#include "kernels/depth_to_space/kernel_loops.h"

namespace ortconv::kernels::depth_to_space {

int64_t groups_avx2(int64_t phases) { return most_groups(phases); }

void fence_avx2() { _mm_sfence(); }

template <class T>
void gemm_avx2(const GemmArgs<T, Sum<T>>& g) {
  gemm(g);
}

template <class T>
uint32_t pack_avx2(const PackArgs<T, Sum<T>>& args) {
  pack(args);
  return 0;
}

#define INSTANTIATE(T)                                 \
  template void gemm_avx2(const GemmArgs<T, Sum<T>>&); \
  template uint32_t pack_avx2(const PackArgs<T, Sum<T>>&);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels::depth_to_space

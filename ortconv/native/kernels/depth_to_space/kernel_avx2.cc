#include <algorithm>

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
  const T* src = args.src;
  Sum<T>* out = args.out;
  const int64_t ahead = args.ahead * args.channel_stride;
  for (int64_t c = 0; c < args.channels; ++c, src += args.channel_stride, out += args.pitch) {
    for (const Run* run = args.runs; run != args.runs_end; ++run) {
      const T* in = src + run->offset;
      Sum<T>* cells = out + run->cell;
      int64_t left = run->length;
      for (; left >= kLanes<T>; left -= kLanes<T>, in += kLanes<T>, cells += kLanes<T>) {
        _mm_prefetch(reinterpret_cast<const char*>(in + ahead), _MM_HINT_T0);
        avx2::store(cells, avx2::load_widened(in));
      }
      if (left == 0) continue;
      _mm_prefetch(reinterpret_cast<const char*>(in + ahead), _MM_HINT_T0);
      if (run->length >= kLanes<T>) {  // with some of what has been copied
        const int64_t back = kLanes<T> - left;
        avx2::store(cells - back, avx2::load_widened(in - back));
      } else {
        for (int64_t i = 0; i < left; ++i) cells[i] = widen(in[i]);
      }
    }
  }
  return 0;
}

#define INSTANTIATE(T)                                 \
  template void gemm_avx2(const GemmArgs<T, Sum<T>>&); \
  template uint32_t pack_avx2(const PackArgs<T, Sum<T>>&);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels::depth_to_space

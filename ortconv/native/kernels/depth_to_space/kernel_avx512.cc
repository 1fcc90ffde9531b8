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
        avx512::store(cells, avx512::load_widened(avx512::first<T>(kLanes<T>), in));
      }
      if (left == 0) continue;
      _mm_prefetch(reinterpret_cast<const char*>(in + ahead), _MM_HINT_T0);
      const auto rest = avx512::first<T>(left);
      avx512::store(rest, cells, avx512::load_widened(rest, in));
    }
  }
  return 0;
}

#define INSTANTIATE(T)                                   \
  template void gemm_avx512(const GemmArgs<T, Sum<T>>&); \
  template uint32_t pack_avx512(const PackArgs<T, Sum<T>>&);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels::depth_to_space

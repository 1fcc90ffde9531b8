#include <algorithm>

#include "kernels/expand/expand.h"
#include "kernels/vector_avx512.h"

namespace ortconv::kernels {

template <class T>
void expand_generic(const ExpandArgs<T>& args);

template <class T>
void expand_avx512(const ExpandArgs<T>& args) {
  if constexpr (std::is_same_v<T, double>) {
    expand_generic(args);
  } else {
    const __m512 bias = avx512::broadcast(args.bias), gap = avx512::broadcast(args.gap);
    T* out = args.dst;
    T* const end = out + args.size;
    const auto store = [&](__m512 row) {
      if (end - out >= kExpandWidth) {
        avx512::store(out, row);
      } else {
        avx512::store(avx512::first<T>(end - out), out, row);
      }
      out += kExpandWidth;
    };
    __m512 row = gap;
    for (const ExpandStep *step = args.steps, *stop = step + args.num_steps; step != stop && out < end; ++step) {
      if (step->mask == 0) {
        for (int64_t i = 0; i < step->src && out < end; ++i) store(gap);
        continue;
      }
      row = _mm512_mask_expand_ps(row, step->mask, avx512::add(avx512::load(args.src + step->src), bias));
      if (!step->last) continue;
      store(row);
      row = gap;
    }
  }
}

#define INSTANTIATE(T) template void expand_avx512(const ExpandArgs<T>&);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

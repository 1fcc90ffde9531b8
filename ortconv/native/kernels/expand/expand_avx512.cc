#include <algorithm>
#include <cstring>

#include "kernels/expand/expand.h"
#include "kernels/vector_avx512.h"

namespace ortconv::kernels {

template <class T>
void expand_generic(const ExpandArgs<T>& args);

namespace {

inline void store_single(float value, float* out) { *out = value; }
template <class T>
void store_single(float value, T* out) {
  avx512::store(avx512::first<T>(1), out, _mm512_set1_ps(value));
}

// Many zeros are best written by the library, which need not fetch what it overwrites.
template <class T>
void fill(float value, __m512 values, int64_t count, T* out) {
  constexpr int64_t kMany = 512;
  if (count >= kMany && bits_of(value) == 0) {
    std::memset(static_cast<void*>(out), 0, static_cast<size_t>(count) * sizeof(T));
    return;
  }
  int64_t i = 0;
  for (; i + kExpandWidth <= count; i += kExpandWidth) avx512::store(out + i, values);
  if (i < count) avx512::store(avx512::first<T>(count - i), out + i, values);
}

}  // namespace

template <class T>
void expand_avx512(const ExpandArgs<T>& args) {
  if constexpr (std::is_same_v<T, double>) {
    expand_generic(args);
  } else {
    const __m512 bias = avx512::broadcast(args.bias), gap = avx512::broadcast(args.gap);
    T *out = args.dst, *filled = out;
    T* const end = out + args.size;
    const auto store = [&](__m512 row) {
      if (end - out >= kExpandWidth) {
        avx512::store(out, row);
        out += kExpandWidth;
      } else {
        avx512::store(avx512::first<T>(end - out), out, row);
        out = end;
      }
    };
    // A loop for each kind of step: to look at the kind takes as long as a step.
    for (const ExpandStep *step = args.steps, *stop = step + args.num_steps; step != stop;) {
      if (step->kind == ExpandStep::kSingle) {
        const int64_t room = end - filled;
        for (; step != stop && step->kind == ExpandStep::kSingle; ++step) {
          if (step->mask < room) store_single(args.src[step->src] + args.bias, filled + step->mask);
        }
        continue;
      }
      if (out == end) break;
      if (step->kind == ExpandStep::kFill) {
        filled = out;
        const int64_t count = std::min<int64_t>(step->src * kExpandWidth, end - out);
        fill(args.gap, gap, count, out);
        out += count;
        ++step;
        continue;
      }
      __m512 row = gap;
      for (bool is_last = false; !is_last; ++step) {
        row = _mm512_mask_expand_ps(row, step->mask, avx512::add(avx512::load(args.src + step->src), bias));
        is_last = step->kind == ExpandStep::kLast;
      }
      store(row);
    }
  }
}

#define INSTANTIATE(T) template void expand_avx512(const ExpandArgs<T>&);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

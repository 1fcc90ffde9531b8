// Interleaving in AVX-512. Only for files named after it.
#pragma once

#include <immintrin.h>

#include <algorithm>

#include "kernels/interleave/interleave.h"
#include "kernels/interleave/shuffle_avx512.h"
#include "kernels/transpose16_avx512.h"
#include "kernels/unroll.h"
#include "kernels/vector_avx512.h"

namespace ortconv::kernels {

template <class T>
void interleave_generic(const InterleaveArgs<T>& args);

namespace {

using avx512::kLanes;

// Elements [i, i + n), n <= kLanes, of every phase, to dst.
template <int P, class T>
void store_masked(const Sum<T>* const* src, int64_t i, int64_t n, Sum<T> bias, T* dst) {
  constexpr int kWidth = kLanes<T>;
  decltype(avx512::load(src[0])) row[P];
  ORTCONV_UNROLL
  for (int p = 0; p < P; ++p) {
    row[p] = avx512::add(avx512::load(avx512::first<T>(n), src[p] + i), avx512::broadcast(bias));
  }
  avx512::shuffle<P, kWidth>(row);
  ORTCONV_UNROLL
  for (int v = 0; v < P; ++v) {
    const int64_t room = n * P - kWidth * v;
    if (room >= kWidth) {
      avx512::store(dst + kWidth * v, row[v]);
    } else if (room > 0) {
      avx512::store(avx512::first<T>(room), dst + kWidth * v, row[v]);
    }
  }
}

// Past the caches go whole lines only: a line that is written in parts is read and written again.
template <class T>
constexpr int kLine = 64 / static_cast<int>(sizeof(T));

// [elements of dst missing to a whole line]: elements of each phase to write before dst is on one, or -1 if no number
// of them does it.
template <int P, int L>
struct Heads {
  int8_t elements[L];

  constexpr Heads() : elements{} {
    for (int8_t& e : elements) e = -1;
    for (int n = L - 1; n >= 0; --n) elements[n * P % L] = static_cast<int8_t>(n);
  }
};

// Output vectors of the elements [i, i + kWidth) of every phase.
template <int P, class T, class Vector>
ORTCONV_ALWAYS_INLINE inline void shuffled(const Sum<T>* const* src, int64_t i, Vector add, Vector* out) {
  ORTCONV_UNROLL
  for (int p = 0; p < P; ++p) out[p] = avx512::add(avx512::load(src[p] + i), add);
  avx512::shuffle<P, kLanes<T>>(out);
}

// As whole lines, but for an odd one.
template <int P, class T, class Vector>
ORTCONV_ALWAYS_INLINE inline void store_all(const Vector* v, T* dst) {
  constexpr int kWidth = kLanes<T>, kPairs = kLine<T> / kWidth == 2 ? P / 2 : 0;
  ORTCONV_UNROLL
  for (int i = 0; i < kPairs; ++i) {
    if constexpr (kPairs > 0) avx512::store(dst + 2 * kWidth * i, avx512::rounded(T(), v[2 * i], v[2 * i + 1]));
  }
  ORTCONV_UNROLL
  for (int i = 2 * kPairs; i < P; ++i) avx512::store(dst + kWidth * i, v[i]);
}

template <int P, class T>
void interleave(const Sum<T>* const* src, int64_t n, Sum<T> bias, T* dst, Store store) {
  constexpr int kWidth = kLanes<T>;
  const auto add = avx512::broadcast(bias);
  int64_t i = 0;
  if (store == Store::kStream) {
    static constexpr Heads<P, kLine<T>> kHeads;
    const int64_t head = kHeads.elements[(0 - reinterpret_cast<uintptr_t>(dst)) % 64 / sizeof(T)];
    if (head < 0 || head > n) {
      store = Store::kCached;
    } else {
      for (; i < head; i += kWidth) store_masked<P>(src, i, std::min<int64_t>(head - i, kWidth), bias, dst + i * P);
      i = head;
    }
  }
  if (store == Store::kStream) {
    constexpr int kSteps = P * kWidth % kLine<T> == 0 ? 1 : 2;  // until a line is whole
    constexpr int kVectors = kLine<T> / kWidth;                 // of a line
    for (; i + kSteps * kWidth <= n; i += kSteps * kWidth) {
      decltype(avx512::load(src[0])) out[kSteps * P];
      ORTCONV_UNROLL
      for (int step = 0; step < kSteps; ++step) shuffled<P, T>(src, i + step * kWidth, add, out + step * P);
      ORTCONV_UNROLL
      for (int v = 0; v < kSteps * P; v += kVectors) avx512::stream(dst + i * P + kWidth * v, out + v);
    }
  }
  for (; i + kWidth <= n; i += kWidth) {
    decltype(avx512::load(src[0])) out[P];
    shuffled<P, T>(src, i, add, out);
    store_all<P>(out, dst + i * P);
  }
  if (i < n) store_masked<P>(src, i, n - i, bias, dst + i * P);
}

template <int P, class T>
void channels(const InterleaveArgs<T>& args) {
  const Sum<T>* src[P];
  std::copy_n(args.src, P, src);
  T* dst = args.dst;
  for (int64_t c = 0; c < args.channels; ++c, dst += args.dst_stride) {
    interleave<P>(src, args.n, args.bias_of(c), dst, args.store);
    ORTCONV_UNROLL
    for (int p = 0; p < P; ++p) src[p] += args.src_stride;
  }
}

// 16 elements of each of 16 phases at a time. A row of dst that is shorter than a vector is written from the left to
// the right, so that what a vector holds beyond it is overwritten by the next one.
template <class T>
void many_phases(const InterleaveArgs<T>& args) {
  constexpr int64_t kTile = 16;
  const int64_t phases = args.phases, end = args.n * phases;
  const __mmask16 loaded = avx512::first<T>(std::min(phases, kTile));
  for (int64_t c = 0; c < args.channels; ++c) {
    const __m512 bias = avx512::broadcast(args.bias_of(c));
    T* dst = args.dst + c * args.dst_stride;
    for (int64_t i = 0; i < args.n; i += kTile) {
      const int64_t count = std::min(kTile, args.n - i);
      const __mmask16 inside = avx512::first<T>(count);
      for (int64_t p = 0; p < phases; p += kTile) {
        const int64_t first = std::clamp<int64_t>(phases - kTile, 0, p);  // again what the last tile lacks
        __m512 v[kTile];
        ORTCONV_UNROLL
        for (int k = 0; k < kTile; ++k) {
          v[k] = _mm512_setzero_ps();
          if (loaded >> k & 1) {
            v[k] = avx512::add(avx512::load(inside, args.src[first + k] + c * args.src_stride + i), bias);
          }
        }
        avx512::transpose16(v);
        ORTCONV_UNROLL
        for (int k = 0; k < kTile; ++k) {
          if (k >= count) break;
          const int64_t at = (i + k) * phases + first;
          if (at + kTile <= end) {
            avx512::store(dst + at, v[k]);
          } else {
            avx512::store(avx512::first<T>(end - at), dst + at, v[k]);
          }
        }
      }
    }
  }
}

template <class T>
void interleave_vectors(const InterleaveArgs<T>& args) {
  switch (args.phases) {
    case 1:
      return channels<1>(args);
    case 2:
      return channels<2>(args);
    case 3:
      return channels<3>(args);
    case 4:
      return channels<4>(args);
    case 5:
      return channels<5>(args);
    case 6:
      return channels<6>(args);
    case 7:
      return channels<7>(args);
    case 8:
      return channels<8>(args);
    default:
      if constexpr (std::is_same_v<T, double>) {
        return interleave_generic(args);
      } else {
        return many_phases(args);
      }
  }
}

}  // namespace
}  // namespace ortconv::kernels

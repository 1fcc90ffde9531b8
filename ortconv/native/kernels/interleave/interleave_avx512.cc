#if defined(__AVX512F__)

#include <immintrin.h>

#include "kernels/interleave/interleave.h"
#include "kernels/unroll.h"

namespace ortconv::kernels {

void interleave_f32_generic(const float* const* src, int64_t phases, int64_t n, float bias, float* dst, Store store);

namespace {

constexpr int kLanes = 16;

// Lane l of output vector v is element (16v + l) / P of phase (16v + l) % P.
template <int P>
struct Shuffle {
  alignas(64) int32_t index[P][kLanes];
  __mmask16 phase[P][P];  // [v][p]: the lanes of vector v that phase p fills

  constexpr Shuffle() : index{}, phase{} {
    for (int v = 0; v < P; ++v) {
      for (int l = 0; l < kLanes; ++l) {
        index[v][l] = (kLanes * v + l) / P;
        phase[v][(kLanes * v + l) % P] |= static_cast<__mmask16>(1u << l);
      }
    }
  }
};

// Output vector v of the 16 elements in `row`.
template <int P>
__m512 shuffle(const __m512* row, int v) {
  if constexpr (P == 1) return row[0];
  static constexpr Shuffle<P> kShuffle;
  const __m512i index = _mm512_load_si512(kShuffle.index[v]);
  __m512 out = _mm512_maskz_permutexvar_ps(kShuffle.phase[v][0], index, row[0]);
  ORTCONV_UNROLL
  for (int p = 1; p < P; ++p) out = _mm512_mask_permutexvar_ps(out, kShuffle.phase[v][p], index, row[p]);
  return out;
}

// Elements [i, i + n), n <= 16, of every phase, to dst.
template <int P>
void store_masked(const float* const* src, int64_t i, int64_t n, float bias, float* dst) {
  const __mmask16 load = static_cast<__mmask16>((1u << n) - 1);
  __m512 row[P];
  ORTCONV_UNROLL
  for (int p = 0; p < P; ++p) row[p] = _mm512_add_ps(_mm512_maskz_loadu_ps(load, src[p] + i), _mm512_set1_ps(bias));
  ORTCONV_UNROLL
  for (int v = 0; v < P; ++v) {
    const int64_t room = n * P - kLanes * v;
    if (room >= kLanes) {
      _mm512_storeu_ps(dst + kLanes * v, shuffle<P>(row, v));
    } else if (room > 0) {
      _mm512_mask_storeu_ps(dst + kLanes * v, static_cast<__mmask16>((1u << room) - 1), shuffle<P>(row, v));
    }
  }
}

// [floats missing to a cache line]: elements to write before dst is on it, or -1 if no number of them does it.
template <int P>
struct Heads {
  int8_t elements[kLanes];

  constexpr Heads() : elements{} {
    for (int8_t& e : elements) e = -1;
    for (int n = kLanes - 1; n >= 0; --n) elements[n * P % kLanes] = static_cast<int8_t>(n);
  }
};

template <int P>
void interleave(const float* const* src, int64_t n, float bias, float* dst, Store store) {
  const __m512 bias16 = _mm512_set1_ps(bias);
  int64_t i = 0;
  if (store == Store::kStream) {
    static constexpr Heads<P> kHeads;
    const int64_t head = kHeads.elements[(0 - reinterpret_cast<uintptr_t>(dst)) % 64 / sizeof(float)];
    if (head < 0 || head > n) {
      store = Store::kCached;
    } else if (head > 0) {
      store_masked<P>(src, 0, head, bias, dst);
      i = head;
    }
  }
  for (; i + kLanes <= n; i += kLanes) {
    float* out = dst + i * P;
    __m512 row[P];
    ORTCONV_UNROLL
    for (int p = 0; p < P; ++p) row[p] = _mm512_add_ps(_mm512_loadu_ps(src[p] + i), bias16);
    if (store == Store::kStream) {  // only on whole lines: out is aligned here
      ORTCONV_UNROLL
      for (int v = 0; v < P; ++v) _mm512_stream_ps(out + kLanes * v, shuffle<P>(row, v));
    } else {
      ORTCONV_UNROLL
      for (int v = 0; v < P; ++v) _mm512_storeu_ps(out + kLanes * v, shuffle<P>(row, v));
    }
  }
  if (i < n) store_masked<P>(src, i, n - i, bias, dst + i * P);
}

}  // namespace

void interleave_f32_avx512(const float* const* src, int64_t phases, int64_t n, float bias, float* dst, Store store) {
  switch (phases) {
    case 1:
      return interleave<1>(src, n, bias, dst, store);
    case 2:
      return interleave<2>(src, n, bias, dst, store);
    case 3:
      return interleave<3>(src, n, bias, dst, store);
    case 4:
      return interleave<4>(src, n, bias, dst, store);
    case 5:
      return interleave<5>(src, n, bias, dst, store);
    case 6:
      return interleave<6>(src, n, bias, dst, store);
    case 7:
      return interleave<7>(src, n, bias, dst, store);
    case 8:
      return interleave<8>(src, n, bias, dst, store);
    default:
      return interleave_f32_generic(src, phases, n, bias, dst, store);
  }
}

}  // namespace ortconv::kernels

#endif

#include <immintrin.h>

#include <algorithm>

#include "kernels/unroll.h"
#include "kernels/vector_avx512.h"
#include "kernels/winograd/transform_loops.h"

namespace ortconv::kernels::winograd {
namespace {

// Elements of a row, some of which may not be read: they are zero.
struct Row {
  const float* at;
  uint64_t inside;  // bit i: at[i] may be read

  Row(const float* row, int64_t i, int64_t begin, int64_t end) : at(row + i) {
    const int64_t from = std::clamp<int64_t>(begin - i, 0, 63), to = std::clamp<int64_t>(end - i, from, 63);
    inside = (uint64_t{1} << to) - (uint64_t{1} << from);
  }
  __m512 load(int offset) const { return _mm512_maskz_loadu_ps(static_cast<__mmask16>(inside >> offset), at + offset); }
};

template <int E>
__m512 every_second(__m512 a, __m512 b) {
  const __m512i even = _mm512_set_epi32(30, 28, 26, 24, 22, 20, 18, 16, 14, 12, 10, 8, 6, 4, 2, 0);
  return _mm512_permutex2var_ps(a, _mm512_add_epi32(even, _mm512_set1_epi32(E)), b);
}

// Elements E, E + 3, ... of the 48.
template <int E>
__m512 every_third(__m512 a, __m512 b, __m512 c) {
  const __m512i index = _mm512_add_epi32(_mm512_set_epi32(45, 42, 39, 36, 33, 30, 27, 24, 21, 18, 15, 12, 9, 6, 3, 0),
                                         _mm512_set1_epi32(E));
  constexpr int kFirst = (32 - E + 2) / 3;  // lanes that a and b fill
  const __m512 low = _mm512_permutex2var_ps(a, index, b);
  return _mm512_mask_permutexvar_ps(low, static_cast<__mmask16>(0xffffu << kFirst), index, c);
}

__m512i magnitude(__m512 x) { return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff)); }

template <int S>
uint32_t split_by(const Cut* cuts, int64_t num_cuts, const float* from, int64_t begin, int64_t end, int64_t tiles,
                  float* out, int64_t stride) {
  __m512i most = _mm512_setzero_si512();
  for (int64_t t = 0; t < tiles; t += kLanes, out += kLanes) {
    const Row row(from, t * S, begin, end);
    __m512 d[4];
    if constexpr (S == 1) {
      d[0] = row.load(0);
      most = _mm512_max_epu32(most, magnitude(d[0]));
      d[1] = d[2] = d[3] = d[0];
    } else if constexpr (S == 2) {
      const __m512 a = row.load(0), b = row.load(16), c = row.load(2), e = row.load(18);
      d[0] = every_second<0>(a, b), d[1] = every_second<1>(a, b);
      d[2] = every_second<0>(c, e), d[3] = every_second<1>(c, e);
      most = _mm512_max_epu32(most, _mm512_max_epu32(magnitude(a), _mm512_max_epu32(magnitude(b), magnitude(e))));
    } else {
      const __m512 a = row.load(0), b = row.load(16), c = row.load(32);
      const __m512 e = row.load(3), f = row.load(19), g = row.load(35);
      d[0] = every_third<0>(a, b, c), d[1] = every_third<1>(a, b, c), d[2] = every_third<2>(a, b, c);
      d[3] = every_third<0>(e, f, g);
      most = _mm512_max_epu32(most, _mm512_max_epu32(magnitude(a), _mm512_max_epu32(magnitude(b), magnitude(c))));
      most = _mm512_max_epu32(most, magnitude(g));
    }
    float* to = out;
    for (const Cut* cut = cuts; cut != cuts + num_cuts; ++cut) {
      put_points<avx512::Vectors<float>>(cut->filter, S, d + cut->skip, to, stride);
      to += points_of(cut->filter, S) * stride;
    }
  }
  return _mm512_reduce_max_epu32(most);
}

uint32_t split(const Cut* cuts, int64_t num_cuts, int64_t step, const float* row, int64_t begin, int64_t end,
               int64_t tiles, float* out, int64_t stride) {
  return with_step(step, [&](auto s) { return split_by<s>(cuts, num_cuts, row, begin, end, tiles, out, stride); });
}

// Pairs of 64 bits: lane l of output vector v is element (8v + l) / H of pair (8v + l) % H, of the 8 elements in which
// v begins.
template <int H>
struct Pairs {
  alignas(64) int64_t index[H][8];  // for _mm512_permutex2var_pd over pairs 0 and 1
  __mmask8 third[H];                // the lanes of pair 2

  constexpr Pairs() : index{}, third{} {
    for (int v = 0; v < H; ++v) {
      for (int l = 0; l < 8; ++l) {
        const int element = (8 * v + l) / H, pair = (8 * v + l) % H;
        index[v][l] = element + (pair == 1 ? 8 : 0);
        if (pair == 2) third[v] |= static_cast<__mmask8>(1u << l);
      }
    }
  }
};

template <int H, class T>
void interleave(const float* src, int64_t src_stride, int64_t n, int64_t begin, int64_t end, float bias, T* dst) {
  static constexpr Pairs<H> kPairs;
  const __m512i low = _mm512_set_epi32(23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
  const __m512 bias16 = _mm512_set1_ps(bias);
  for (int64_t i = 0; i < n; i += kLanes) {
    const __mmask16 inside = avx512::first<float>(std::min<int64_t>(n - i, kLanes));
    __m512d half[2][H];
    ORTCONV_UNROLL
    for (int h = 0; h < H; ++h) {
      const __m512 a = avx512::add(avx512::load(inside, src + 2 * h * src_stride + i), bias16);
      const __m512 b = avx512::add(avx512::load(inside, src + (2 * h + 1) * src_stride + i), bias16);
      half[0][h] = _mm512_castps_pd(_mm512_permutex2var_ps(a, low, b));
      half[1][h] = _mm512_castps_pd(_mm512_permutex2var_ps(a, high, b));
    }
    ORTCONV_UNROLL
    for (int v = 0; v < 2 * H; ++v) {
      const int64_t first = (2 * H) * i + kLanes * v;
      const __m512d* pair = half[v / H];
      __m512d out = pair[0];
      if constexpr (H > 1) {
        const __m512i index = _mm512_load_si512(kPairs.index[v % H]);
        out = _mm512_permutex2var_pd(pair[0], index, pair[1]);
        if constexpr (H > 2) out = _mm512_mask_permutexvar_pd(out, kPairs.third[v % H], index, pair[2]);
      }
      if (first >= begin && first + kLanes <= end) {
        avx512::store(dst + first, _mm512_castpd_ps(out));
      } else {
        const int64_t from = std::clamp<int64_t>(begin - first, 0, kLanes);
        const int64_t to = std::clamp<int64_t>(end - first, from, kLanes);
        avx512::store(static_cast<__mmask16>((1u << to) - (1u << from)), dst + first, _mm512_castpd_ps(out));
      }
    }
  }
}

template <class T>
constexpr TransformKernels::Interleaves<T> kInterleaves = {nullptr,          nullptr, interleave<1, T>, nullptr,
                                                           interleave<2, T>, nullptr, interleave<3, T>};

}  // namespace

extern const TransformKernels kTransforms_avx512;
const TransformKernels kTransforms_avx512 = {"winograd_avx512",
                                             split,
                                             source_loops,
                                             result_loops,
                                             {kInterleaves<float>, kInterleaves<Float16>, kInterleaves<Bfloat16>}};

}  // namespace ortconv::kernels::winograd

#include <immintrin.h>

#include <algorithm>

#include "kernels/interleave/shuffle_avx2.h"
#include "kernels/vector_avx2.h"
#include "kernels/winograd/transform_loops.h"

namespace ortconv::kernels::winograd {
namespace {

// Elements of a row, all of which may be read.
struct Inside {
  const float* at;
  __m256 load(int offset) const { return _mm256_loadu_ps(at + offset); }
};

// Elements of a row. Those outside [from, to) must not be read, and are zero.
struct Masked {
  const float* at;
  __m256i from, to;

  Masked(const float* row, int64_t i, int64_t begin, int64_t end)
      : at(row + i),
        from(_mm256_set1_epi32(static_cast<int>(std::clamp<int64_t>(begin - i, 0, kVector * kVector)))),
        to(_mm256_set1_epi32(static_cast<int>(std::clamp<int64_t>(end - i, 0, kVector * kVector)))) {}
  __m256 load(int offset) const {
    const __m256i lanes = _mm256_add_epi32(_mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0), _mm256_set1_epi32(offset));
    return _mm256_maskload_ps(at + offset,
                              _mm256_andnot_si256(_mm256_cmpgt_epi32(from, lanes), _mm256_cmpgt_epi32(to, lanes)));
  }
};

__m256i magnitude(__m256 x) { return _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff)); }

// Elements 0, 2, ... (E = 0) or 1, 3, ... (E = 1) of the 16.
template <int E>
__m256 every_second(__m256 a, __m256 b) {
  constexpr int kHalves = E == 0 ? 0x88 : 0xdd;
  const __m256 halves = _mm256_shuffle_ps(a, b, kHalves);
  return _mm256_castpd_ps(_mm256_permute4x64_pd(_mm256_castps_pd(halves), 0xd8));
}

// Every third of the 24 elements, from element E on. These eight are in different lanes, so blends collect them.
template <int E>
__m256 every_third(__m256 a, __m256 b, __m256 c) {
  constexpr int kAllOfB[] = {0x92, 0x24, 0x49}, kAllOfC[] = {0x24, 0x49, 0x92};
  constexpr int kLanesOfB = kAllOfB[E], kLanesOfC = kAllOfC[E];
  const __m256 all = _mm256_blend_ps(_mm256_blend_ps(a, b, kLanesOfB), c, kLanesOfC);
  const __m256i first = _mm256_set_epi32(21, 18, 15, 12, 9, 6, 3, 0);
  return _mm256_permutevar8x32_ps(all, _mm256_add_epi32(first, _mm256_set1_epi32(E)));
}

// Lanes 1 to 7, and the first one of `next`.
__m256 moved_on(__m256 lanes, __m256 next) {
  return _mm256_permutevar8x32_ps(_mm256_blend_ps(lanes, next, 1), _mm256_set_epi32(0, 7, 6, 5, 4, 3, 2, 1));
}

// The elements d[0..3] of eight windows. Returns the largest magnitudes of what was read, and `most`.
template <int S, class Elements>
ORTCONV_ALWAYS_INLINE inline __m256i windows(const Elements& row, __m256i most, __m256* d) {
  const auto greatest = [](__m256i m, __m256 x) { return _mm256_max_epu32(m, magnitude(x)); };
  const __m256 a = row.load(0);
  most = greatest(most, a);
  if constexpr (S == 1) {
    d[0] = d[1] = d[2] = d[3] = a;
  } else if constexpr (S == 2) {
    const __m256 b = row.load(8), next = row.load(16);
    d[0] = every_second<0>(a, b), d[1] = every_second<1>(a, b);
    d[2] = moved_on(d[0], next), d[3] = moved_on(d[1], _mm256_movehdup_ps(next));
    most = greatest(greatest(most, b), next);
  } else {
    const __m256 b = row.load(8), c = row.load(16), next = row.load(24);
    d[0] = every_third<0>(a, b, c), d[1] = every_third<1>(a, b, c), d[2] = every_third<2>(a, b, c);
    d[3] = moved_on(d[0], next);
    most = greatest(greatest(greatest(most, b), c), next);
  }
  return most;
}

template <int S>
uint32_t split_by(const Cut* cuts, int64_t num_cuts, const float* from, int64_t begin, int64_t end, int64_t tiles,
                  float* out, int64_t stride) {
  constexpr int64_t kReads = (S == 1 ? 1 : S + 1) * kVector;  // elements, for the windows of a vector
  __m256i most = _mm256_setzero_si256();
  for (int64_t t = 0, i = 0; t < tiles; t += kVector, i += kVector * S, out += kVector) {
    __m256 d[4];
    most = i >= begin && i + kReads <= end ? windows<S>(Inside{from + i}, most, d)
                                           : windows<S>(Masked(from, i, begin, end), most, d);
    float* to = out;
    for (const Cut* cut = cuts; cut != cuts + num_cuts; ++cut) {
      put_points<avx2::Vectors<float>>(cut->filter, S, d + cut->skip, to, stride);
      to += points_of(cut->filter, S) * stride;
    }
  }
  alignas(32) uint32_t lanes[kVector];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), most);
  return *std::max_element(lanes, lanes + kVector);
}

uint32_t split(const Cut* cuts, int64_t num_cuts, int64_t step, const float* row, int64_t begin, int64_t end,
               int64_t tiles, float* out, int64_t stride) {
  return with_step(step, [&](auto s) { return split_by<s>(cuts, num_cuts, row, begin, end, tiles, out, stride); });
}

// Lanes i to i + 7 of two vectors, 0 < i < 8.
__m256 lanes_from(int64_t i, __m256 low, __m256 high) {
  const __m256i lanes = _mm256_set_epi32(7, 6, 5, 4, 3, 2, 1, 0), begin = _mm256_set1_epi32(static_cast<int>(i));
  const __m256 is_high = _mm256_castsi256_ps(_mm256_cmpgt_epi32(begin, lanes));
  return _mm256_permutevar8x32_ps(_mm256_blendv_ps(low, high, is_high), _mm256_add_epi32(lanes, begin));
}

template <int P, class T>
void interleave(const float* src, int64_t src_stride, int64_t n, int64_t begin, int64_t end, float bias, T* dst) {
  const __m256 bias8 = _mm256_set1_ps(bias);
  const bool is_short = end - begin < kVector;
  __m256 before = bias8;  // the vector before this one
  for (int64_t i = 0; i < n; i += kVector) {
    __m256 row[P];
    ORTCONV_UNROLL
    for (int p = 0; p < P; ++p) row[p] = _mm256_add_ps(_mm256_loadu_ps(src + p * src_stride + i), bias8);
    avx2::shuffle<P, kVector>(row);
    ORTCONV_UNROLL
    for (int v = 0; v < P; ++v) {
      const int64_t first = P * i + kVector * v, stop = first + kVector;
      if (first >= begin && stop <= end) {
        avx2::store(dst + first, row[v]);
      } else if (stop > begin && first < end) {
        if (is_short) {
          const int64_t from = std::max<int64_t>(begin - first, 0), to = std::min<int64_t>(end - first, kVector);
          T values[kVector];
          avx2::store(values, row[v]);
          avx2::copy(values + from, to - from, dst + first + from);
        } else if (stop > end) {
          avx2::store(dst + end - kVector, lanes_from(end - first, before, row[v]));
        } else {  // the next vector overwrites what this one has no lanes for
          avx2::store(dst + begin, lanes_from(begin - first, row[v], row[v]));
        }
      }
      before = row[v];
    }
  }
}

template <class T>
constexpr TransformKernels::Interleaves<T> kInterleaves = {
    nullptr, nullptr, interleave<2, T>, interleave<3, T>, interleave<4, T>, nullptr, interleave<6, T>};

}  // namespace

extern const TransformKernels kTransforms_avx2;
const TransformKernels kTransforms_avx2 = {"winograd_avx2",
                                           split,
                                           source_loops,
                                           result_loops,
                                           {kInterleaves<float>, kInterleaves<Float16>, kInterleaves<Bfloat16>}};

}  // namespace ortconv::kernels::winograd

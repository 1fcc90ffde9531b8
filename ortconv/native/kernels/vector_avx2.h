// Vectors of sums in AVX2: how they are computed with and rounded into memory. Only for files named after it.
#pragma once

#include <immintrin.h>

#include "kernels/element.h"

namespace ortconv::kernels::avx2 {

inline __m256 load(const float* in) { return _mm256_loadu_ps(in); }
inline __m256d load(const double* in) { return _mm256_loadu_pd(in); }
inline __m256 broadcast(float value) { return _mm256_set1_ps(value); }
inline __m256d broadcast(double value) { return _mm256_set1_pd(value); }
inline __m256 add(__m256 a, __m256 b) { return _mm256_add_ps(a, b); }
inline __m256d add(__m256d a, __m256d b) { return _mm256_add_pd(a, b); }
inline __m256 multiply_add(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
inline __m256d multiply_add(__m256d a, __m256d b, __m256d c) { return _mm256_fmadd_pd(a, b, c); }

// To nearest even, subnormals included, whatever the thread's flush modes; NaN stays NaN.
inline __m128i rounded(Float16, __m256 v) { return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
inline __m128i rounded(Bfloat16, __m256 v) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i nearest = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  const __m256i high = _mm256_srli_epi32(_mm256_blendv_epi8(nearest, quiet, is_nan), 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
}

inline __m256 widened(Float16, __m128i bits) { return _mm256_cvtph_ps(bits); }
inline __m256 widened(Bfloat16, __m128i bits) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

inline void store(float* out, __m256 v) { _mm256_storeu_ps(out, v); }
inline void store(double* out, __m256d v) { _mm256_storeu_pd(out, v); }
template <class T>
void store(T* out, __m256 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), rounded(T(), v));
}

}  // namespace ortconv::kernels::avx2

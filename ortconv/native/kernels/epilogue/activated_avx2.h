// The activation of a vector of sums, in AVX2. Only for files named after it.
#pragma once

#include <immintrin.h>

#include <type_traits>

#include "base/activation.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels::avx2 {

// Of v rounded to T.
template <class T>
__m256 activated(const Activation& activation, __m256 v) {
  if constexpr (!std::is_same_v<T, float>) v = widened(T(), rounded(T(), v));
  const __m256 below = _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_LT_OQ);
  const __m256 sloped = _mm256_blendv_ps(v, _mm256_mul_ps(v, _mm256_set1_ps(activation.slope)), below);
  // Where an operand is NaN, minimum and maximum are the second one.
  return _mm256_min_ps(_mm256_set1_ps(activation.maximum), _mm256_max_ps(_mm256_set1_ps(activation.minimum), sloped));
}

}  // namespace ortconv::kernels::avx2

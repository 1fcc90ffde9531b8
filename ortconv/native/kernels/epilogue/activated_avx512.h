// The activation of a vector of sums, in AVX-512. Only for files named after it.
#pragma once

#include <immintrin.h>

#include <type_traits>

#include "base/activation.h"
#include "kernels/vector_avx512.h"

namespace ortconv::kernels::avx512 {
#if defined(__AVX512BF16__)
inline namespace with_bf16 {  // as in vector_avx512.h
#endif

// Of v rounded to T.
template <class T>
__m512 activated(const Activation& activation, __m512 v) {
  if constexpr (!std::is_same_v<T, float>) v = widened(T(), rounded(T(), v));
  const __mmask16 below = _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ);
  const __m512 sloped = _mm512_mask_mul_ps(v, below, v, _mm512_set1_ps(activation.slope));
  // Where an operand is NaN, minimum and maximum are the second one.
  return _mm512_min_ps(_mm512_set1_ps(activation.maximum), _mm512_max_ps(_mm512_set1_ps(activation.minimum), sloped));
}

#if defined(__AVX512BF16__)
}  // namespace with_bf16
#endif
}  // namespace ortconv::kernels::avx512

// The results of vectors of sixteen sums, as integer_result.h says, but for residuals. Only for files named after it
// that are compiled without contraction of products and sums.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/integer_result/integer_result.h"
#include "kernels/unroll.h"

namespace ortconv::kernels::avx512 {
#if defined(__AVX512VNNI__)
inline namespace with_vnni {  // not the same code as in files for plain AVX-512
#endif

// Each step is left out where it has no effect, for all vectors at once.
template <int kCount>
ORTCONV_ALWAYS_INLINE inline void activate(const Activation& a, __m512 (&values)[kCount]) {
  if (a.slope != 1) {
    const __m512 slope = _mm512_set1_ps(a.slope);
    ORTCONV_UNROLL
    for (__m512& v : values)
      v = _mm512_mask_mul_ps(v, _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ), v, slope);
  }
  if (a.has_bounds()) {
    const __m512 minimum = _mm512_set1_ps(a.minimum), maximum = _mm512_set1_ps(a.maximum);
    ORTCONV_UNROLL
    for (__m512& v : values) v = _mm512_min_ps(maximum, _mm512_max_ps(minimum, v));  // what is no number stays so
  }
  if (!a.hard_sigmoid.is_one()) {
    const __m512 alpha = _mm512_set1_ps(a.hard_sigmoid.alpha), beta = _mm512_set1_ps(a.hard_sigmoid.beta);
    ORTCONV_UNROLL
    for (__m512& v : values) {
      const __m512 line = _mm512_add_ps(_mm512_mul_ps(v, alpha), beta);
      v = _mm512_mul_ps(v, _mm512_min_ps(_mm512_set1_ps(1), _mm512_max_ps(_mm512_setzero_ps(), line)));
    }
  }
}

// Quantizes real numbers.
class QuantizedVector {
 public:
  QuantizedVector(float y_scale, int32_t y_zero, ResultType type)
      : y_scale_(_mm512_set1_ps(y_scale)),
        zero_(_mm512_set1_epi32(y_zero - (type == ResultType::kInt8 ? 0 : 128))),
        flip_(_mm_set1_epi8(type == ResultType::kInt8 ? 0 : -128)) {}

  // uint8 is less 128 where it saturates. What is no number becomes the least integer, as what is too small.
  __m128i operator()(__m512 v) const {
    // The second operand is the result where one is no number.
    const __m512 above = _mm512_max_ps(_mm512_div_ps(v, y_scale_), _mm512_set1_ps(-kBeyond));
    const __m512i integers = _mm512_cvtps_epi32(_mm512_min_ps(above, _mm512_set1_ps(kBeyond)));
    return _mm_xor_si128(_mm512_cvtsepi32_epi8(_mm512_add_epi32(integers, zero_)), flip_);
  }

 private:
  static constexpr float kBeyond = 1 << 16;  // what saturates

  const __m512 y_scale_;
  const __m512i zero_;
  const __m128i flip_;
};

#if defined(__AVX512VNNI__)
}  // namespace with_vnni
#endif
}  // namespace ortconv::kernels::avx512

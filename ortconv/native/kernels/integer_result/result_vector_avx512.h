// The results of sixteen sums at a time, as integer_result.h says, but for residuals. Only for files named after it
// that are compiled without contraction of products and sums.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/integer_result/integer_result.h"

namespace ortconv::kernels::avx512 {
#if defined(__AVX512VNNI__)
inline namespace with_vnni {  // not the same code as in files for plain AVX-512
#endif

// The real numbers of a channel. Where kIsPlain, they end with the bias, as IntegerResultArgs::is_plain() tells.
template <bool kIsPlain>
class RealVector {
 public:
  explicit RealVector(const IntegerResultArgs& a)
      : scale_(_mm512_set1_ps(a.scale)),
        slope_(_mm512_set1_ps(a.activation.slope)),
        minimum_(_mm512_set1_ps(a.activation.minimum)),
        maximum_(_mm512_set1_ps(a.activation.maximum)),
        alpha_(_mm512_set1_ps(a.activation.hard_sigmoid.alpha)),
        beta_(_mm512_set1_ps(a.activation.hard_sigmoid.beta)),
        factor_(_mm512_set1_ps(a.is_affine ? a.factor : 1)),
        addend_(_mm512_set1_ps(a.is_affine ? a.addend : 0)),
        has_slope_(a.activation.slope != 1),
        has_hard_sigmoid_(!a.activation.hard_sigmoid.is_one()),
        is_affine_(a.is_affine) {}

  __m512 operator()(__m512i sums, __m512 bias) const {
    const __m512 v = _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sums), scale_), bias);
    if (kIsPlain) return v;
    const __m512 result = activated(v);
    return is_affine_ ? _mm512_add_ps(_mm512_mul_ps(result, factor_), addend_) : result;
  }

  bool is_affine() const { return is_affine_; }
  __m512 activated(__m512 v) const {
    if (has_slope_) v = _mm512_mask_mul_ps(v, _mm512_cmp_ps_mask(v, _mm512_setzero_ps(), _CMP_LT_OQ), v, slope_);
    // The second operand is the result where one is no number.
    v = _mm512_min_ps(maximum_, _mm512_max_ps(minimum_, v));
    if (has_hard_sigmoid_) {
      const __m512 line = _mm512_add_ps(_mm512_mul_ps(v, alpha_), beta_);
      v = _mm512_mul_ps(v, _mm512_min_ps(_mm512_set1_ps(1), _mm512_max_ps(_mm512_setzero_ps(), line)));
    }
    return v;
  }

 private:
  const __m512 scale_, slope_, minimum_, maximum_, alpha_, beta_, factor_, addend_;
  const bool has_slope_, has_hard_sigmoid_, is_affine_;
};

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

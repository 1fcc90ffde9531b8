// The results of eight sums at a time, as integer_result.h says, but for residuals. Only for files named after it that
// are compiled without contraction of products and sums.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/integer_result/integer_result.h"

namespace ortconv::kernels::avx2 {
#if defined(__AVXVNNI__)
inline namespace with_vnni {  // not the same code as in files for plain AVX2
#endif

// The real numbers of a channel. Where kIsPlain, they end with the bias, as IntegerResultArgs::is_plain() tells.
template <bool kIsPlain>
class RealVector {
 public:
  explicit RealVector(const IntegerResultArgs& a)
      : scale_(_mm256_set1_ps(a.scale)),
        slope_(_mm256_set1_ps(a.activation.slope)),
        minimum_(_mm256_set1_ps(a.activation.minimum)),
        maximum_(_mm256_set1_ps(a.activation.maximum)),
        alpha_(_mm256_set1_ps(a.activation.hard_sigmoid.alpha)),
        beta_(_mm256_set1_ps(a.activation.hard_sigmoid.beta)),
        factor_(_mm256_set1_ps(a.is_affine ? a.factor : 1)),
        addend_(_mm256_set1_ps(a.is_affine ? a.addend : 0)),
        has_slope_(a.activation.slope != 1),
        has_hard_sigmoid_(!a.activation.hard_sigmoid.is_one()),
        is_affine_(a.is_affine) {}

  __m256 operator()(__m256i sums, __m256 bias) const { return (*this)(_mm256_cvtepi32_ps(sums), bias); }
  __m256 operator()(__m256 sums, __m256 bias) const {
    __m256 v = _mm256_add_ps(_mm256_mul_ps(sums, scale_), bias);
    if (kIsPlain) return v;
    if (has_slope_) {
      v = _mm256_blendv_ps(v, _mm256_mul_ps(v, slope_), _mm256_cmp_ps(v, _mm256_setzero_ps(), _CMP_LT_OQ));
    }
    // The second operand is the result where one is no number.
    v = _mm256_min_ps(maximum_, _mm256_max_ps(minimum_, v));
    if (has_hard_sigmoid_) {
      const __m256 line = _mm256_add_ps(_mm256_mul_ps(v, alpha_), beta_);
      v = _mm256_mul_ps(v, _mm256_min_ps(_mm256_set1_ps(1), _mm256_max_ps(_mm256_setzero_ps(), line)));
    }
    return is_affine_ ? _mm256_add_ps(_mm256_mul_ps(v, factor_), addend_) : v;
  }

 private:
  const __m256 scale_, slope_, minimum_, maximum_, alpha_, beta_, factor_, addend_;
  const bool has_slope_, has_hard_sigmoid_, is_affine_;
};

// Quantizes real numbers.
class QuantizedVector {
 public:
  QuantizedVector(float y_scale, int32_t y_zero, ResultType type)
      : y_scale_(_mm256_set1_ps(y_scale)),
        zero_(_mm256_set1_epi16(static_cast<int16_t>(y_zero - (type == ResultType::kInt8 ? 0 : 128)))),
        flip_(_mm256_set1_epi8(type == ResultType::kInt8 ? 0 : -128)) {}

  // Two vectors, and four.
  __m128i operator()(__m256 a, __m256 b) const {
    const __m256i words = halves(a, b), all = _mm256_packs_epi16(words, words);
    const __m256i ordered = _mm256_permutevar8x32_epi32(all, _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5));
    return _mm_xor_si128(_mm256_castsi256_si128(ordered), _mm256_castsi256_si128(flip_));
  }
  __m256i operator()(__m256 a, __m256 b, __m256 c, __m256 d) const {
    const __m256i all = _mm256_packs_epi16(halves(a, b), halves(c, d));
    const __m256i ordered = _mm256_permutevar8x32_epi32(all, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
    return _mm256_xor_si256(ordered, flip_);
  }

 private:
  // Signed 16-bit integers, which saturate where the type does; uint8 is less 128. What is no number becomes the least
  // integer, as what is too small.
  __m256i halves(__m256 a, __m256 b) const {
    return _mm256_adds_epi16(_mm256_packs_epi32(quotient(a), quotient(b)), zero_);
  }
  __m256i quotient(__m256 v) const {
    return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_set1_ps(1 << 16), _mm256_div_ps(v, y_scale_)));
  }

  const __m256 y_scale_;
  const __m256i zero_, flip_;
};

#if defined(__AVXVNNI__)
}  // namespace with_vnni
#endif
}  // namespace ortconv::kernels::avx2

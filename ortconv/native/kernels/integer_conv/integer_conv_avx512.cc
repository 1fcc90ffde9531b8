#if defined(__AVX512F__)

#include <immintrin.h>

#include "kernels/integer_conv/loops.h"
#include "kernels/integer_conv/vector_avx512.h"

namespace ortconv::kernels {
namespace {

struct Avx512 : avx512::IntegerVector {
  static constexpr int kDepth = 2;
  using Number = int16_t;

  static Int dot(Int sum, Int x, Int w) { return _mm512_add_epi32(sum, _mm512_madd_epi16(x, w)); }

  // The upper half of a lane has the sign, and meets a weight of 0.
  static Int spread(const int16_t* p) {
    return _mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }

  static void interleave(const uint8_t* const* rows, int64_t n, const IntegerShift& shift, uint32_t* out) {
    for (int64_t i = 0; i < n; i += kLanes) {
      const __mmask16 lanes = first(n - i);
      const Int low = _mm512_and_si512(number(lanes, rows[0] + i, shift), _mm512_set1_epi32(0xffff));
      const Int high = _mm512_slli_epi32(number(lanes, rows[1] + i, shift), 16);
      _mm512_mask_storeu_epi32(out + i, lanes, _mm512_or_si512(low, high));
    }
  }

  static void widen(const uint8_t* row, int64_t n, const IntegerShift& shift, void* out) {
    auto* const numbers = static_cast<int16_t*>(out);
    for (int64_t i = 0; i < n; i += kLanes) {
      const __mmask16 lanes = first(n - i);
      _mm256_mask_storeu_epi16(numbers + i, lanes, _mm512_cvtepi32_epi16(number(lanes, row + i, shift)));
    }
  }

 private:
  static Int number(__mmask16 lanes, const uint8_t* row, const IntegerShift& shift) {
    const Int bytes = _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(lanes, row));
    return _mm512_sub_epi32(_mm512_xor_si512(bytes, _mm512_set1_epi32(shift.flip)), _mm512_set1_epi32(shift.zero));
  }
};

}  // namespace

extern const IntegerConvKernel k_integer_conv_avx512;
const IntegerConvKernel k_integer_conv_avx512 = integer_conv_kernel<Avx512>("integer_conv_avx512");

}  // namespace ortconv::kernels

#endif

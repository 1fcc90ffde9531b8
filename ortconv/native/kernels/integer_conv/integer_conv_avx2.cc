#if defined(__AVX2__)

#include <immintrin.h>

#include "kernels/integer_conv/loops.h"
#include "kernels/integer_conv/rest.h"
#include "kernels/integer_conv/vector_avx2.h"

namespace ortconv::kernels {
namespace {

struct Avx2 : avx2::IntegerVector {
  static constexpr int kDepth = 2;
  using Number = int16_t;

  static Int dot(Int sum, Int x, Int w) { return _mm256_add_epi32(sum, _mm256_madd_epi16(x, w)); }

  // The upper half of a lane has the sign, and meets a weight of 0.
  static Int spread(const int16_t* p) {
    return _mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }

  static void interleave(const uint8_t* const* rows, int64_t n, const IntegerShift& shift, uint32_t* out) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const Int low = _mm256_and_si256(number(rows[0] + i, shift), _mm256_set1_epi32(0xffff));
      const Int both = _mm256_or_si256(low, _mm256_slli_epi32(number(rows[1] + i, shift), 16));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), both);
    }
    for (; i < n; ++i) out[i] = pair_of(shifted(rows[0][i], shift), shifted(rows[1][i], shift));
  }

  static void widen(const uint8_t* row, int64_t n, const IntegerShift& shift, void* out) {
    auto* const numbers = static_cast<int16_t*>(out);
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const Int wide = number(row + i, shift);
      const __m128i narrow = _mm_packs_epi32(_mm256_castsi256_si128(wide), _mm256_extracti128_si256(wide, 1));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(numbers + i), narrow);
    }
    for (; i < n; ++i) numbers[i] = shifted(row[i], shift);
  }

 private:
  static Int number(const uint8_t* p, const IntegerShift& shift) {
    return _mm256_sub_epi32(_mm256_xor_si256(bytes(p), _mm256_set1_epi32(shift.flip)), _mm256_set1_epi32(shift.zero));
  }
};

}  // namespace

extern const IntegerConvKernel k_integer_conv_avx2;
const IntegerConvKernel k_integer_conv_avx2 = integer_conv_kernel<Avx2>("integer_conv_avx2");

}  // namespace ortconv::kernels

#endif

#if defined(__AVXVNNI__)

#include <immintrin.h>

#include "kernels/integer_conv/loops.h"
#include "kernels/integer_conv/vector_avx2.h"

namespace ortconv::kernels {
namespace {

struct AvxVnni : avx2::IntegerVector {
  static constexpr int kDepth = 4;
  using Number = uint8_t;

  static Int dot(Int sum, Int x, Int w) { return _mm256_dpbusd_avx_epi32(sum, x, w); }

  // The upper four lanes want bytes from the fifth on.
  static Int spread(const uint8_t* p) {
    const __m128i from = _mm_setr_epi8(0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6);
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const Int both = _mm256_inserti128_si256(_mm256_castsi128_si256(bytes), _mm_srli_si128(bytes, 4), 1);
    return _mm256_shuffle_epi8(both, _mm256_broadcastsi128_si256(from));
  }

  static void interleave(const uint8_t* const* rows, int64_t n, const IntegerShift& shift, uint32_t* out) {
    const Int flip = _mm256_set1_epi8(static_cast<char>(shift.flip));
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      const Int low = _mm256_or_si256(bytes(rows[0] + i), _mm256_slli_epi32(bytes(rows[1] + i), 8));
      const Int high = _mm256_or_si256(bytes(rows[2] + i), _mm256_slli_epi32(bytes(rows[3] + i), 8));
      const Int all = _mm256_or_si256(low, _mm256_slli_epi32(high, 16));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), _mm256_xor_si256(all, flip));
    }
    for (; i < n; ++i) {
      uint32_t lane = 0;
      for (int r = kDepth; r-- > 0;) lane = lane << 8 | static_cast<uint8_t>(rows[r][i] ^ shift.flip);
      out[i] = lane;
    }
  }

  static void widen(const uint8_t* row, int64_t n, const IntegerShift& shift, void* out) {
    auto* const numbers = static_cast<uint8_t*>(out);
    for (int64_t i = 0; i < n; ++i) numbers[i] = row[i] ^ shift.flip;
  }
};

}  // namespace

extern const IntegerConvKernel k_integer_conv_avx_vnni;
const IntegerConvKernel k_integer_conv_avx_vnni = integer_conv_kernel<AvxVnni>("integer_conv_avx_vnni");

}  // namespace ortconv::kernels

#endif

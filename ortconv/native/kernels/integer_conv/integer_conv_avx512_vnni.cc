#if defined(__AVX512VNNI__)

#include <immintrin.h>

#include "kernels/integer_conv/loops.h"
#include "kernels/integer_conv/vector_avx512.h"

namespace ortconv::kernels {
namespace {

struct Avx512Vnni : avx512::IntegerVector {
  static constexpr int kDepth = 4;
  using Number = uint8_t;

  static Int dot(Int sum, Int x, Int w) { return _mm512_dpbusd_epi32(sum, x, w); }

  // Every 128 bits get the two dwords that their lanes want bytes of.
  static Int spread(const uint8_t* p) {
    const Int dwords = _mm512_set_epi32(4, 4, 4, 3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0);
    const Int from = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6));
    const Int bytes = _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return _mm512_shuffle_epi8(_mm512_permutexvar_epi32(dwords, bytes), from);
  }

  static void interleave(const uint8_t* const* rows, int64_t n, const IntegerShift& shift, uint32_t* out) {
    const Int flip = _mm512_set1_epi8(static_cast<char>(shift.flip));
    for (int64_t i = 0; i < n; i += kLanes) {
      const __mmask16 lanes = first(n - i);
      const auto row = [&](int r) { return _mm512_cvtepu8_epi32(_mm_maskz_loadu_epi8(lanes, rows[r] + i)); };
      const Int low = _mm512_or_si512(row(0), _mm512_slli_epi32(row(1), 8));
      const Int high = _mm512_or_si512(_mm512_slli_epi32(row(2), 16), _mm512_slli_epi32(row(3), 24));
      _mm512_mask_storeu_epi32(out + i, lanes, _mm512_xor_si512(_mm512_or_si512(low, high), flip));
    }
  }

  static void widen(const uint8_t* row, int64_t n, const IntegerShift& shift, void* out) {
    const Int flip = _mm512_set1_epi8(static_cast<char>(shift.flip));
    auto* const bytes = static_cast<uint8_t*>(out);
    for (int64_t i = 0; i < n; i += 64) {
      const __mmask64 lanes = n - i >= 64 ? ~__mmask64{0} : (__mmask64{1} << (n - i)) - 1;
      _mm512_mask_storeu_epi8(bytes + i, lanes, _mm512_xor_si512(_mm512_maskz_loadu_epi8(lanes, row + i), flip));
    }
  }
};

}  // namespace

extern const IntegerConvKernel k_integer_conv_avx512_vnni;
const IntegerConvKernel k_integer_conv_avx512_vnni = integer_conv_kernel<Avx512Vnni>("integer_conv_avx512_vnni");

}  // namespace ortconv::kernels

#endif

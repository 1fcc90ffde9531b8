#include <immintrin.h>

#include "kernels/integer_conv/loops.h"
#include "kernels/integer_conv/vector_avx512.h"

namespace ortconv::kernels {
namespace {

struct Avx512Vnni : avx512::IntegerVector {
  static constexpr int kDepth = 4;
  using Number = uint8_t;

  static Int dot(Int sum, Int x, Int w) { return _mm512_dpbusd_epi32(sum, x, w); }

  template <int kStep>
  static Int spread(const uint8_t* p) {
    if constexpr (kStep == 2) {
      const Int words = _mm512_set_epi16(16, 15, 15, 14, 14, 13, 13, 12, 12, 11, 11, 10, 10, 9, 9, 8, 8, 7, 7, 6, 6, 5,
                                         5, 4, 4, 3, 3, 2, 2, 1, 1, 0);
      return _mm512_permutexvar_epi16(words, _mm512_loadu_si512(p));
    }
    // Every 128 bits get the two dwords that their lanes want bytes of.
    const Int dwords = _mm512_set_epi32(4, 4, 4, 3, 3, 3, 3, 2, 2, 2, 2, 1, 1, 1, 1, 0);
    const Int from = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6));
    const Int bytes = _mm512_castsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return _mm512_shuffle_epi8(_mm512_permutexvar_epi32(dwords, bytes), from);
  }

  static void interleave(const IntegerCopyArgs& args) {
    const Int flip = _mm512_set1_epi8(static_cast<char>(args.shift.flip));
    const Int padding = _mm512_set1_epi8(static_cast<char>(args.shift.zero));
    with_stride(args.stride, [&](auto stride) {
      for (int64_t i = 0; i < args.count; ++i) {
        const IntegerCopy& copy = args.copies[i];
        const auto bytes = [&](int c) { return take<decltype(stride)::value>(args.channels[c], copy, args.stride); };
        const Int low = _mm512_inserti32x4(_mm512_castsi128_si512(bytes(0)), bytes(1), 1);
        const Int all = lanes_of(_mm512_inserti32x4(_mm512_inserti32x4(low, bytes(2), 2), bytes(3), 3));
        put(args, copy, spaced(copy, _mm512_xor_si512(all, flip), padding));
      }
    });
  }

  static void widen(const IntegerCopyArgs& args) {
    const __m128i flip = _mm_set1_epi8(static_cast<char>(args.shift.flip));
    const Int padding = _mm512_set1_epi32(args.shift.zero);
    with_stride(args.stride, [&](auto stride) {
      for (int64_t i = 0; i < args.count; ++i) {
        const IntegerCopy& copy = args.copies[i];
        __m128i bytes = _mm_xor_si128(take<decltype(stride)::value>(args.channels[0], copy, args.stride), flip);
        if (copy.count != kLanes) bytes = _mm512_cvtepi32_epi8(spaced(copy, widened(bytes), padding));
        _mm_storeu_si128(reinterpret_cast<__m128i*>(static_cast<uint8_t*>(args.out) + copy.dst), bytes);
      }
    });
  }
};

}  // namespace

extern const IntegerConvKernel k_integer_conv_avx512_vnni;
const IntegerConvKernel k_integer_conv_avx512_vnni = integer_conv_kernel<Avx512Vnni>("integer_conv_avx512_vnni");

}  // namespace ortconv::kernels

#include <immintrin.h>

#include "kernels/integer_conv/loops.h"
#include "kernels/integer_conv/rest.h"
#include "kernels/integer_conv/vector_avx2.h"

namespace ortconv::kernels {
namespace {

struct AvxVnni : avx2::IntegerVector {
  static constexpr int kDepth = 4;
  using Number = uint8_t;

  static Int dot(Int sum, Int x, Int w) { return _mm256_dpbusd_avx_epi32(sum, x, w); }

  template <int kStep>
  static Int spread(const uint8_t* p) {
    const __m128i from = kStep == 1 ? _mm_setr_epi8(0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6)
                                    : _mm_setr_epi8(0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7, 8, 9);
    // The upper four lanes begin there.
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 4 * kStep));
    return _mm256_shuffle_epi8(_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1),
                               _mm256_broadcastsi128_si256(from));
  }

  static void interleave(const IntegerCopyArgs& args) {
    const Int flip = _mm256_set1_epi8(static_cast<char>(args.shift.flip));
    const uint32_t padding = static_cast<uint32_t>(args.shift.zero) * 0x01010101u;
    auto* const out = static_cast<uint32_t*>(args.out);
    for (int64_t i = 0; i < args.count; ++i) {
      const IntegerCopy& copy = args.copies[i];
      if (!is_whole(args, copy)) {
        copy_numbers(copy, args.stride, padding, out, [&](int64_t at) {
          uint32_t lane = 0;
          for (int c = kDepth; c-- > 0;) lane = lane << 8 | flipped(args, c, at);
          return lane;
        });
        continue;
      }
      const Int low = _mm256_or_si256(bytes(args, 0, copy), _mm256_slli_epi32(bytes(args, 1, copy), 8));
      const Int high = _mm256_or_si256(bytes(args, 2, copy), _mm256_slli_epi32(bytes(args, 3, copy), 8));
      const Int all = _mm256_xor_si256(_mm256_or_si256(low, _mm256_slli_epi32(high, 16)), flip);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + copy.dst), padded(copy, all, broadcast(padding)));
    }
  }

  static void widen(const IntegerCopyArgs& args) {
    const Int flip = _mm256_set1_epi32(args.shift.flip), padding = _mm256_set1_epi32(args.shift.zero);
    auto* const out = static_cast<uint8_t*>(args.out);
    for (int64_t i = 0; i < args.count; ++i) {
      const IntegerCopy& copy = args.copies[i];
      if (!is_whole(args, copy)) {
        copy_numbers(copy, args.stride, static_cast<uint8_t>(args.shift.zero), out,
                     [&](int64_t at) { return flipped(args, 0, at); });
        continue;
      }
      const Int numbers = padded(copy, _mm256_xor_si256(bytes(args, 0, copy), flip), padding);
      const __m128i words = narrow(numbers);
      _mm_storel_epi64(reinterpret_cast<__m128i*>(out + copy.dst), _mm_packus_epi16(words, words));
    }
  }

 private:
  static uint8_t flipped(const IntegerCopyArgs& args, int channel, int64_t at) {
    return static_cast<uint8_t>(args.channels[channel][at] ^ args.shift.flip);
  }
};

}  // namespace

extern const IntegerConvKernel k_integer_conv_avx_vnni;
const IntegerConvKernel k_integer_conv_avx_vnni = integer_conv_kernel<AvxVnni>("integer_conv_avx_vnni");

}  // namespace ortconv::kernels

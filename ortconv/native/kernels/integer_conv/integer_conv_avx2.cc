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

  // The upper half of a lane has the sign, or a neighbour, and meets a weight of 0.
  template <int kStep>
  static Int spread(const int16_t* p) {
    if constexpr (kStep == 2) return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
    return _mm256_cvtepi16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }

  static void interleave(const IntegerCopyArgs& args) {
    for (int64_t i = 0; i < args.count; ++i) {
      const IntegerCopy& copy = args.copies[i];
      if (!is_whole(args, copy)) {
        interleave_pairs(args, copy);
        continue;
      }
      const Int low = _mm256_and_si256(numbers(args, 0, copy), _mm256_set1_epi32(0xffff));
      const Int both = _mm256_or_si256(low, _mm256_slli_epi32(numbers(args, 1, copy), 16));
      auto* const out = reinterpret_cast<__m256i*>(static_cast<uint32_t*>(args.out) + copy.dst);
      _mm256_storeu_si256(out, padded(copy, both, zero()));
    }
  }

  static void widen(const IntegerCopyArgs& args) {
    for (int64_t i = 0; i < args.count; ++i) {
      const IntegerCopy& copy = args.copies[i];
      if (!is_whole(args, copy)) {
        widen_numbers(args, copy);
        continue;
      }
      auto* const out = reinterpret_cast<__m128i*>(static_cast<int16_t*>(args.out) + copy.dst);
      _mm_storeu_si128(out, narrow(padded(copy, numbers(args, 0, copy), zero())));
    }
  }

 private:
  static Int numbers(const IntegerCopyArgs& args, int channel, const IntegerCopy& copy) {
    const Int flipped = _mm256_xor_si256(bytes(args, channel, copy), _mm256_set1_epi32(args.shift.flip));
    return _mm256_sub_epi32(flipped, _mm256_set1_epi32(args.shift.zero));
  }
};

}  // namespace

extern const IntegerConvKernel k_integer_conv_avx2;
const IntegerConvKernel k_integer_conv_avx2 = integer_conv_kernel<Avx2>("integer_conv_avx2");

}  // namespace ortconv::kernels

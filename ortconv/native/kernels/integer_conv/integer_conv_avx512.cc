#include <immintrin.h>

#include "kernels/integer_conv/loops.h"
#include "kernels/integer_conv/vector_avx512.h"

namespace ortconv::kernels {
namespace {

struct Avx512 : avx512::IntegerVector {
  static constexpr int kDepth = 2;
  using Number = int16_t;

  static Int dot(Int sum, Int x, Int w) { return _mm512_add_epi32(sum, _mm512_madd_epi16(x, w)); }

  // The upper half of a lane has the sign, or a neighbour, and meets a weight of 0.
  template <int kStep>
  static Int spread(const int16_t* p) {
    if constexpr (kStep == 2) return _mm512_loadu_si512(p);
    return _mm512_cvtepi16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }

  static void interleave(const IntegerCopyArgs& args) {
    with_stride(args.stride, [&](auto stride) {
      for (int64_t i = 0; i < args.count; ++i) {
        const IntegerCopy& copy = args.copies[i];
        const auto numbers = [&](int c) {
          return shifted(take<decltype(stride)::value>(args.channels[c], copy, args.stride), args.shift);
        };
        const Int low = _mm512_and_si512(numbers(0), _mm512_set1_epi32(0xffff));
        const Int both = _mm512_or_si512(low, _mm512_slli_epi32(numbers(1), 16));
        put(args, copy, spaced(copy, both, zero()));
      }
    });
  }

  static void widen(const IntegerCopyArgs& args) {
    with_stride(args.stride, [&](auto stride) {
      for (int64_t i = 0; i < args.count; ++i) {
        const IntegerCopy& copy = args.copies[i];
        const Int numbers = shifted(take<decltype(stride)::value>(args.channels[0], copy, args.stride), args.shift);
        _mm256_storeu_si256(reinterpret_cast<__m256i*>(static_cast<int16_t*>(args.out) + copy.dst),
                            _mm512_cvtepi32_epi16(spaced(copy, numbers, zero())));
      }
    });
  }

 private:
  static Int shifted(__m128i bytes, const IntegerShift& shift) {
    const Int flipped = _mm512_xor_si512(widened(bytes), _mm512_set1_epi32(shift.flip));
    return _mm512_sub_epi32(flipped, _mm512_set1_epi32(shift.zero));
  }
};

}  // namespace

extern const IntegerConvKernel k_integer_conv_avx512;
const IntegerConvKernel k_integer_conv_avx512 = integer_conv_kernel<Avx512>("integer_conv_avx512");

}  // namespace ortconv::kernels

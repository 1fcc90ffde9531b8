#include <immintrin.h>

#include "kernels/integer_conv/loops.h"
#include "kernels/integer_conv/vector_avx2.h"

namespace ortconv::kernels {
namespace {

struct Pairs : avx2::ByteVector {
  static constexpr bool kSaturates = true;

  static Int dot(Int sum, Int x, Int w) {
    return _mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(x, w), _mm256_set1_epi16(1)));
  }
};

}  // namespace

extern const IntegerConvKernel k_integer_conv_pairs_avx2;
const IntegerConvKernel k_integer_conv_pairs_avx2 = integer_conv_kernel<Pairs>("integer_conv_pairs_avx2");

}  // namespace ortconv::kernels

#include <immintrin.h>

#include "kernels/integer_conv/loops.h"
#include "kernels/integer_conv/vector_avx2.h"

namespace ortconv::kernels {
namespace {

struct AvxVnni : avx2::ByteVector {
  static Int dot(Int sum, Int x, Int w) { return _mm256_dpbusd_avx_epi32(sum, x, w); }
};

}  // namespace

extern const IntegerConvKernel k_integer_conv_avx_vnni;
const IntegerConvKernel k_integer_conv_avx_vnni = integer_conv_kernel<AvxVnni>("integer_conv_avx_vnni");

}  // namespace ortconv::kernels

#include "kernels/integer_result/integer_result_loops.h"

namespace ortconv::kernels {

extern const IntegerResultKernel k_integer_result_avx2;
const IntegerResultKernel k_integer_result_avx2 = integer_result_kernel("integer_result_avx2");

}  // namespace ortconv::kernels

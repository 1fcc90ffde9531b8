#include "kernels/integer_result/integer_result_loops.h"

namespace ortconv::kernels {

extern const IntegerResultKernel k_integer_result_avx512;
const IntegerResultKernel k_integer_result_avx512 = integer_result_kernel("integer_result_avx512");

}  // namespace ortconv::kernels

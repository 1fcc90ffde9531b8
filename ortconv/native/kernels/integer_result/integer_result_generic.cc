#include "kernels/integer_result/integer_result_loops.h"

namespace ortconv::kernels {

extern const IntegerResultKernel k_integer_result_generic;
const IntegerResultKernel k_integer_result_generic = integer_result_kernel("integer_result_generic");

}  // namespace ortconv::kernels

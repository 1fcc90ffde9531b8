#include "kernels/to_float/to_float.h"

namespace ortconv::kernels {

void to_float_generic(const Float16* src, int64_t n, float* dst) {
  for (int64_t i = 0; i < n; ++i) dst[i] = to_float(src[i]);
}

void to_float_generic(const Bfloat16* src, int64_t n, float* dst) {
  for (int64_t i = 0; i < n; ++i) dst[i] = to_float(src[i]);
}

}  // namespace ortconv::kernels

#include <immintrin.h>

#include "kernels/to_float/to_float.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kLanes = 8;

template <class T>
void widen(const T* src, int64_t n, float* dst) {
  if (n >= kLanes) {
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) avx2::store(dst + i, avx2::load_widened(src + i));
    if (i < n) avx2::store(dst + n - kLanes, avx2::load_widened(src + n - kLanes));  // some of them once more
  } else if (n > 0) {
    _mm256_maskstore_ps(dst, avx2::first_words(n), avx2::widened(T(), avx2::load_first_bits(n, src)));
  }
}

}  // namespace

void to_float_avx2(const Float16* src, int64_t n, float* dst) { widen(src, n, dst); }
void to_float_avx2(const Bfloat16* src, int64_t n, float* dst) { widen(src, n, dst); }

}  // namespace ortconv::kernels

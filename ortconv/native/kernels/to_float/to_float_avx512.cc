#include <immintrin.h>

#include "kernels/to_float/to_float.h"
#include "kernels/vector_avx512.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kLanes = 16;

template <class T>
void widen(const T* src, int64_t n, float* dst) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    _mm512_storeu_ps(dst + i, avx512::widened(T(), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(src + i))));
  }
  if (i == n) return;
  const __mmask16 rest = static_cast<__mmask16>((1u << (n - i)) - 1);
  _mm512_mask_storeu_ps(dst + i, rest, avx512::widened(T(), _mm256_maskz_loadu_epi16(rest, src + i)));
}

}  // namespace

void to_float_avx512(const Float16* src, int64_t n, float* dst) { widen(src, n, dst); }
void to_float_avx512(const Bfloat16* src, int64_t n, float* dst) { widen(src, n, dst); }

}  // namespace ortconv::kernels

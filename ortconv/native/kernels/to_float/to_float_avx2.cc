#include <immintrin.h>

#include <cstring>

#include "kernels/to_float/to_float.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kLanes = 8;

template <class T>
void widen(const T* src, int64_t n, float* dst) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    _mm256_storeu_ps(dst + i, avx2::widened(T(), _mm_loadu_si128(reinterpret_cast<const __m128i*>(src + i))));
  }
  if (i == n) return;
  __m128i bits = _mm_setzero_si128();
  std::memcpy(&bits, src + i, (n - i) * sizeof(T));
  const __m256 last = avx2::widened(T(), bits);
  std::memcpy(dst + i, &last, (n - i) * sizeof(float));
}

}  // namespace

void to_float_avx2(const Float16* src, int64_t n, float* dst) { widen(src, n, dst); }
void to_float_avx2(const Bfloat16* src, int64_t n, float* dst) { widen(src, n, dst); }

}  // namespace ortconv::kernels

#include <immintrin.h>

#include <type_traits>

#include "kernels/integer_result/integer_result_loops.h"
#include "kernels/integer_result/result_vector_avx2.h"
#include "kernels/unroll.h"

namespace ortconv::kernels {
namespace {

struct Avx2 {
  template <class T>
  static int64_t finish(const IntegerResultArgs& a, const float* sums, int64_t n, T* out) {
    constexpr ResultType kType = std::is_same_v<T, int8_t> ? ResultType::kInt8 : ResultType::kUint8;
    return a.is_plain(kType) ? finish_as<true>(a, sums, n, out, kType) : finish_as<false>(a, sums, n, out, kType);
  }

 private:
  template <bool kIsPlain, class T>
  static int64_t finish_as(const IntegerResultArgs& a, const float* sums, int64_t n, T* out, ResultType type) {
    constexpr int kLanes = 8, kCount = 4;
    const avx2::RealVector<kIsPlain> real_of(a);
    const avx2::QuantizedVector bytes_of(a.y_scale, a.y_zero, type);
    const __m256 bias = _mm256_set1_ps(a.bias);
    int64_t i = 0;
    for (; i + kCount * kLanes <= n; i += kCount * kLanes) {
      __m256 real[kCount];
      ORTCONV_UNROLL
      for (int j = 0; j < kCount; ++j) real[j] = real_of(_mm256_loadu_ps(sums + i + j * kLanes), bias);
      const __m256i bytes = bytes_of(real[0], real[1], real[2], real[3]);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), bytes);
    }
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
      const __m256 first = real_of(_mm256_loadu_ps(sums + i), bias);
      const __m128i bytes = bytes_of(first, real_of(_mm256_loadu_ps(sums + i + kLanes), bias));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), bytes);
    }
    return i;
  }
};

}  // namespace

extern const IntegerResultKernel k_integer_result_avx2;
const IntegerResultKernel k_integer_result_avx2 = integer_result_kernel<Avx2>("integer_result_avx2");

}  // namespace ortconv::kernels

#include <immintrin.h>

#include <type_traits>

#include "kernels/integer_result/integer_result_loops.h"
#include "kernels/integer_result/result_vector_avx512.h"
#include "kernels/unroll.h"

namespace ortconv::kernels {
namespace {

struct Avx512 {
  template <class T>
  static int64_t finish(const IntegerResultArgs& a, const float* sums, int64_t n, T* out) {
    constexpr ResultType kType = std::is_same_v<T, int8_t> ? ResultType::kInt8 : ResultType::kUint8;
    const avx512::QuantizedVector bytes_of(a.y_scale, a.y_zero, kType);
    const bool is_plain = a.is_plain(kType);
    int64_t i = 0;
    for (; i + 4 * kLanes <= n; i += 4 * kLanes) vectors<4>(a, is_plain, bytes_of, sums + i, out + i);
    for (; i + kLanes <= n; i += kLanes) vectors<1>(a, is_plain, bytes_of, sums + i, out + i);
    return i;
  }

 private:
  static constexpr int kLanes = 16;

  template <int kCount, class T>
  ORTCONV_ALWAYS_INLINE static void vectors(const IntegerResultArgs& a, bool is_plain,
                                            const avx512::QuantizedVector& bytes_of, const float* sums, T* out) {
    const __m512 scale = _mm512_set1_ps(a.scale), bias = _mm512_set1_ps(a.bias);
    __m512 values[kCount];
    ORTCONV_UNROLL
    for (int j = 0; j < kCount; ++j) {
      values[j] = _mm512_add_ps(_mm512_mul_ps(_mm512_loadu_ps(sums + j * kLanes), scale), bias);
    }
    if (!is_plain) avx512::activate(a.activation, values);
    ORTCONV_UNROLL
    for (int j = 0; j < kCount; ++j) {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out + j * kLanes), bytes_of(values[j]));
    }
  }
};

}  // namespace

extern const IntegerResultKernel k_integer_result_avx512;
const IntegerResultKernel k_integer_result_avx512 = integer_result_kernel<Avx512>("integer_result_avx512");

}  // namespace ortconv::kernels

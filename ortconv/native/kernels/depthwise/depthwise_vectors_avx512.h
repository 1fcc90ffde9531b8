// The vectors of depthwise_loops.h in AVX-512. Only for files named after it.
#pragma once

#include "kernels/depthwise/depthwise_loops.h"
#include "kernels/vector_avx512.h"

namespace ortconv::kernels {
namespace {

#if defined(__AVX512BF16__)
// Stores bf16 numbers of sums none of which is subnormal.
struct NormalStores {
  static void store(Bfloat16* to, __m512 v) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to), avx512::rounded_normal(v));
  }
  static void store_first(int64_t n, Bfloat16* to, __m512 v) {
    _mm256_mask_storeu_epi16(to, avx512::first<float>(n), avx512::rounded_normal(v));
  }
  static void stream(Bfloat16* to, __m512 v) { store(to, v); }  // half a line
};

inline __mmask16 subnormals(__m512 v, __m512 bias) { return avx512::subnormals(avx512::add(v, bias)); }
template <class Vectors, size_t N>
__mmask16 subnormals(const Vectors (&v)[N], __m512 bias) {
  __mmask16 lanes = 0;
  ORTCONV_UNROLL
  for (size_t i = 0; i < N; ++i) lanes |= subnormals(v[i], bias);
  return lanes;
}
#endif

template <class T>
struct Vectors {
#if defined(__AVX512BF16__)
  using Normal = NormalStores;
  template <class Sums>
  static bool are_normal(const Sums& sums, __m512 bias) {
    return avx512::are_none(subnormals(sums, bias));
  }
#else
  using Normal = void;
#endif
  using Cell = T;
  using Vector = decltype(avx512::zero<T>());
  static constexpr int64_t kLanes = avx512::kLanes<T>;
  static constexpr int kRegisters = 32;

  static Vector zero() { return avx512::zero<T>(); }
  static Vector broadcast(T value) { return avx512::broadcast(value); }
  static Vector load(const T* from) { return avx512::load(from); }
  using Index = __m512i;
  static Index load_index(const int32_t* index) {
    if constexpr (std::is_same_v<T, float>) {
      return _mm512_loadu_si512(index);
    } else {
      return _mm512_cvtepi32_epi64(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(index)));
    }
  }
  static __m512 pick(const float* from, Index lanes) { return _mm512_permutexvar_ps(lanes, avx512::load(from)); }
  static __m512d pick(const double* from, Index lanes) { return _mm512_permutexvar_pd(lanes, avx512::load(from)); }
  static __m512 pick(const float* from, const int32_t* index) {
    const Index lanes = load_index(index);
    return _mm512_maskz_permutexvar_ps(_mm512_cmpge_epi32_mask(lanes, _mm512_setzero_si512()), lanes,
                                       avx512::load(from));
  }
  static __m512d pick(const double* from, const int32_t* index) {
    const Index lanes = load_index(index);
    return _mm512_maskz_permutexvar_pd(_mm512_cmpge_epi64_mask(lanes, _mm512_setzero_si512()), lanes,
                                       avx512::load(from));
  }
  static Vector add(Vector a, Vector b) { return avx512::add(a, b); }
  static Vector multiply_add(Vector a, Vector b, Vector c) { return avx512::multiply_add(a, b, c); }
  template <class Element>
  static void store(Element* to, Vector v) {
    avx512::store(to, v);
  }
  template <class Element>
  static void store_first(int64_t n, Element* to, Vector v) {
    avx512::store(avx512::first<T>(n), to, v);
  }
  template <class Element>
  static void stream(Element* to, Vector v) {
    if constexpr (sizeof(Element) == sizeof(T)) {
      avx512::stream(to, &v);
    } else {
      avx512::store(to, v);  // half a line
    }
  }
};

}  // namespace
}  // namespace ortconv::kernels

// Vectors of sums in AVX-512: how many, how they are computed with and rounded into memory. Only for files named after
// it.
#pragma once

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/element.h"

namespace ortconv::kernels::avx512 {
#if defined(__AVX512BF16__)
inline namespace with_bf16 {  // not the same code as in files for plain AVX-512
#endif

// Lanes that a vector of sums of T has, and a mask of the first n of them.
template <class T>
constexpr int kLanes = 64 / static_cast<int>(sizeof(Sum<T>));

template <class T>
using Mask = std::conditional_t<sizeof(Sum<T>) == 8, __mmask8, __mmask16>;

template <class T>
Mask<T> first(int64_t n) {
  return static_cast<Mask<T>>((1u << n) - 1);
}

inline __m512 load(const float* in) { return _mm512_loadu_ps(in); }
inline __m512d load(const double* in) { return _mm512_loadu_pd(in); }
inline __m512 load(__mmask16 lanes, const float* in) { return _mm512_maskz_loadu_ps(lanes, in); }
inline __m512d load(__mmask8 lanes, const double* in) { return _mm512_maskz_loadu_pd(lanes, in); }
inline __m512 broadcast(float value) { return _mm512_set1_ps(value); }
inline __m512d broadcast(double value) { return _mm512_set1_pd(value); }
inline __m512 add(__m512 a, __m512 b) { return _mm512_add_ps(a, b); }
inline __m512d add(__m512d a, __m512d b) { return _mm512_add_pd(a, b); }
inline __m512 subtract(__m512 a, __m512 b) { return _mm512_sub_ps(a, b); }
inline __m512d subtract(__m512d a, __m512d b) { return _mm512_sub_pd(a, b); }
inline __m512 multiply_add(__m512 a, __m512 b, __m512 c) { return _mm512_fmadd_ps(a, b, c); }
inline __m512d multiply_add(__m512d a, __m512d b, __m512d c) { return _mm512_fmadd_pd(a, b, c); }
#if defined(__AVX512BF16__)
// Takes numbers and sums below 2^-126 for zero, whatever the thread's flush modes.
inline __m512bh load(const BfloatPair* in) { return reinterpret_cast<__m512bh>(_mm512_loadu_si512(in)); }
inline __m512bh load(__mmask16 lanes, const BfloatPair* in) {
  return reinterpret_cast<__m512bh>(_mm512_maskz_loadu_epi32(lanes, in));
}
inline __m512bh broadcast(BfloatPair value) {
  int32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return reinterpret_cast<__m512bh>(_mm512_set1_epi32(bits));
}
inline __m512 multiply_add(__m512bh a, __m512bh b, __m512 c) { return _mm512_dpbf16_ps(c, a, b); }
#endif

template <class T>
auto zero() {
  return broadcast(Sum<T>());
}

#if defined(__AVX512BF16__)
// Subnormals, which instructions that round to bf16 take for zero, and whether there are none.
inline __mmask16 subnormals(__m512 v) { return _mm512_fpclass_ps_mask(v, 0x20); }
inline bool are_none(__mmask16 lanes) { return __builtin_expect(lanes == 0, 1); }
inline __m256i rounded_normal(__m512 v) { return reinterpret_cast<__m256i>(_mm512_cvtneps_pbh(v)); }
#endif

// To nearest even, subnormals included, whatever the thread's flush modes; NaN stays NaN.
inline __m256i rounded(Float16, __m512 v) { return _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
// Here the upper halves of the lanes are the result.
inline __m512i rounded_in_place(__m512 v) {
  const __m512i bits = _mm512_castps_si512(v);
  const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
  const __m512i nearest = _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7fff)), odd);
  const __mmask16 is_nan = _mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q);
  return _mm512_mask_or_epi32(nearest, is_nan, bits, _mm512_set1_epi32(0x00400000));  // NaN: quiet
}
inline __m256i rounded(Bfloat16, __m512 v) {
#if defined(__AVX512BF16__)
  if (are_none(subnormals(v))) return rounded_normal(v);
#endif
  const __m512i upper_halves = _mm512_set_epi16(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  //
                                                31, 29, 27, 25, 23, 21, 19, 17, 15, 13, 11, 9, 7, 5, 3, 1);
  return _mm512_castsi512_si256(_mm512_permutexvar_epi16(upper_halves, rounded_in_place(v)));
}

// Two vectors, one after the other.
template <class T>
__m512i rounded(T, __m512 low, __m512 high) {
  return _mm512_inserti64x4(_mm512_castsi256_si512(rounded(T(), low)), rounded(T(), high), 1);
}

#if defined(__AVX512BF16__)
inline __m512i rounded(Bfloat16, __m512 low, __m512 high) {
  if (are_none(subnormals(low) | subnormals(high))) {
    return reinterpret_cast<__m512i>(_mm512_cvtne2ps_pbh(high, low));
  }
  return _mm512_inserti64x4(_mm512_castsi256_si512(rounded(Bfloat16(), low)), rounded(Bfloat16(), high), 1);
}
#endif

// As pairs of bf16 numbers.
inline __m512 rounded_pairs(__m512 first, __m512 second) {
  constexpr __mmask32 kOdd = 0xaaaaaaaa;
  const __m512i low = _mm512_srli_epi32(rounded_in_place(first), 16);
  return _mm512_castsi512_ps(_mm512_mask_blend_epi16(kOdd, low, rounded_in_place(second)));
}

inline __m512 widened(Float16, __m256i bits) { return _mm512_cvtph_ps(bits); }
inline __m512 widened(Bfloat16, __m256i bits) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
}

inline __m512 load_widened(const float* in) { return load(in); }
inline __m512d load_widened(const double* in) { return load(in); }
template <class T>
__m512 load_widened(const T* in) {
  return widened(T(), _mm256_loadu_si256(reinterpret_cast<const __m256i*>(in)));
}

// Of the lanes only; zeros in the others.
inline __m512 load_widened(__mmask16 lanes, const float* in) { return load(lanes, in); }
inline __m512d load_widened(__mmask8 lanes, const double* in) { return load(lanes, in); }
template <class T>
__m512 load_widened(__mmask16 lanes, const T* in) {
  return widened(T(), _mm256_maskz_loadu_epi16(lanes, in));
}

inline void store(float* out, __m512 v) { _mm512_storeu_ps(out, v); }
inline void store(double* out, __m512d v) { _mm512_storeu_pd(out, v); }
template <class T>
void store(T* out, __m512 v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), rounded(T(), v));
}

inline void store(__mmask16 lanes, float* out, __m512 v) { _mm512_mask_storeu_ps(out, lanes, v); }
inline void store(__mmask8 lanes, double* out, __m512d v) { _mm512_mask_storeu_pd(out, lanes, v); }
template <class T>
void store(__mmask16 lanes, T* out, __m512 v) {
  _mm256_mask_storeu_epi16(out, lanes, rounded(T(), v));
}

// 64 bytes of elements.
template <class T>
auto zero_line() {
  if constexpr (sizeof(T) == 2) {
    return _mm512_setzero_si512();
  } else {
    return zero<T>();
  }
}
template <class T>
using Line = decltype(zero_line<T>());
template <class T>
void store(T* out, __m512i line) {
  _mm512_storeu_si512(out, line);
}

// Fewer elements than a vector has.
template <class T>
void widen_first(int64_t n, const T* in, Sum<T>* out) {
  const auto lanes = first<T>(n);
  store(lanes, out, load_widened(lanes, in));
}

inline __m512i bits_of(__m512 v) { return _mm512_castps_si512(v); }

template <class T>
void copy(const T* from, int64_t count, T* to) {
  const auto* in = reinterpret_cast<const char*>(from);
  auto* out = reinterpret_cast<char*>(to);
  int64_t bytes = count * static_cast<int64_t>(sizeof(T));
  for (; bytes >= 64; bytes -= 64, in += 64, out += 64) _mm512_storeu_si512(out, _mm512_loadu_si512(in));
  const __mmask64 rest = (uint64_t{1} << bytes) - 1;
  _mm512_mask_storeu_epi8(out, rest, _mm512_maskz_loadu_epi8(rest, in));
}

// A whole cache line, past the caches.
inline void stream(float* out, const __m512* v) { _mm512_stream_ps(out, v[0]); }
inline void stream(double* out, const __m512d* v) { _mm512_stream_pd(out, v[0]); }
template <class T>
void stream(T* out, const __m512i* line) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(out), *line);
}
template <class T>
void stream(T* out, const __m512* v) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(out), rounded(T(), v[0], v[1]));
}

inline float sum(__m512 v) { return _mm512_reduce_add_ps(v); }
inline double sum(__m512d v) { return _mm512_reduce_add_pd(v); }

// The same for loops that are written once for all instruction sets.
template <class T>
struct Vectors {
  using Cell = T;
  using Vector = decltype(avx512::zero<T>());
  static constexpr int64_t kLanes = avx512::kLanes<T>;

  static Vector zero() { return avx512::zero<T>(); }
  static Vector broadcast(T value) { return avx512::broadcast(value); }
  static Vector load(const T* from) { return avx512::load(from); }
  static Vector load_first(int64_t n, const T* from) { return avx512::load(first<T>(n), from); }
  template <class Out>
  static void store(Out* to, Vector v) {
    avx512::store(to, v);
  }
  template <class Out>
  static void store_first(int64_t n, Out* to, Vector v) {
    avx512::store(first<T>(n), to, v);
  }
  static Vector add(Vector a, Vector b) { return avx512::add(a, b); }
  static Vector subtract(Vector a, Vector b) { return avx512::subtract(a, b); }
  static Vector multiply_add(Vector a, Vector b, Vector c) { return avx512::multiply_add(a, b, c); }
  static T sum(Vector v) { return avx512::sum(v); }
};

#if defined(__AVX512BF16__)
}  // namespace with_bf16
#endif
}  // namespace ortconv::kernels::avx512

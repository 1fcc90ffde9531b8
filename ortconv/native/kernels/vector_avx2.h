// Vectors of sums in AVX2: how they are computed with and rounded into memory. Only for files named after it.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "kernels/element.h"

namespace ortconv::kernels::avx2 {

// Lanes that a vector of sums of T has.
template <class T>
constexpr int kLanes = 32 / static_cast<int>(sizeof(Sum<T>));

inline __m256 load(const float* in) { return _mm256_loadu_ps(in); }
inline __m256d load(const double* in) { return _mm256_loadu_pd(in); }
// A mask of the first n of eight 32-bit words.
inline __m256i first_words(int64_t n) {
  alignas(32) static constexpr int32_t kWords[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(kWords + 8 - n));
}
// Loads n elements, at most as many as a vector has, into its first lanes; the other lanes are zero.
inline __m256 load_first(int64_t n, const float* in) { return _mm256_maskload_ps(in, first_words(n)); }
inline __m256d load_first(int64_t n, const double* in) { return _mm256_maskload_pd(in, first_words(2 * n)); }
inline __m256 broadcast(float value) { return _mm256_set1_ps(value); }
inline __m256d broadcast(double value) { return _mm256_set1_pd(value); }
inline __m256 add(__m256 a, __m256 b) { return _mm256_add_ps(a, b); }
inline __m256d add(__m256d a, __m256d b) { return _mm256_add_pd(a, b); }
inline __m256 subtract(__m256 a, __m256 b) { return _mm256_sub_ps(a, b); }
inline __m256d subtract(__m256d a, __m256d b) { return _mm256_sub_pd(a, b); }
inline __m256 multiply_add(__m256 a, __m256 b, __m256 c) { return _mm256_fmadd_ps(a, b, c); }
inline __m256d multiply_add(__m256d a, __m256d b, __m256d c) { return _mm256_fmadd_pd(a, b, c); }

template <class T>
auto zero() {
  return broadcast(Sum<T>());
}

// To nearest even, subnormals included, whatever the thread's flush modes; NaN stays NaN.
inline __m128i rounded(Float16, __m256 v) { return _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
// Here the upper halves of the lanes are the result.
inline __m256i rounded_in_place(__m256 v) {
  const __m256i bits = _mm256_castps_si256(v);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i nearest = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7fff)), odd);
  const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x00400000));
  const __m256i is_nan = _mm256_castps_si256(_mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  return _mm256_blendv_epi8(nearest, quiet, is_nan);
}
inline __m128i rounded(Bfloat16, __m256 v) {
  const __m256i high = _mm256_srli_epi32(rounded_in_place(v), 16);
  return _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1));
}

// Two vectors, one after the other.
template <class T>
__m256i rounded(T, __m256 low, __m256 high) {
  return _mm256_inserti128_si256(_mm256_castsi128_si256(rounded(T(), low)), rounded(T(), high), 1);
}

// As pairs of bf16 numbers.
inline __m256 rounded_pairs(__m256 first, __m256 second) {
  constexpr int kOdd = 0xaa;
  const __m256i low = _mm256_srli_epi32(rounded_in_place(first), 16);
  return _mm256_castsi256_ps(_mm256_blend_epi16(low, rounded_in_place(second), kOdd));
}

inline __m256 widened(Float16, __m128i bits) { return _mm256_cvtph_ps(bits); }
inline __m256 widened(Bfloat16, __m128i bits) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
}

inline __m256 load_widened(const float* in) { return load(in); }
inline __m256d load_widened(const double* in) { return load(in); }
template <class T>
__m256 load_widened(const T* in) {
  return widened(T(), _mm_loadu_si128(reinterpret_cast<const __m128i*>(in)));
}

// The first n of eight elements of 16 bits, 0 < n < 8, and zeros.
template <class T>
__m128i load_first_bits(int64_t n, const T* in) {
  // Two numbers that may overlap, the second one without what the first one has.
  if (n >= 4) {
    const __m128i low = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(in));
    const __m128i high = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(in + n - 4));
    return _mm_unpacklo_epi64(low, _mm_srl_epi64(high, _mm_cvtsi64_si128(16 * (8 - n))));
  }
  uint64_t bits = 0;
  for (int64_t i = 0; i < n; ++i) {
    uint16_t element;
    std::memcpy(&element, in + i, sizeof(element));
    bits |= uint64_t{element} << 16 * i;
  }
  return _mm_cvtsi64_si128(static_cast<int64_t>(bits));
}

// Widens the first n of eight elements; the other lanes are zero. has_before: the eight that end with these may be
// read.
template <class T>
__m256 load_first_widened(int64_t n, const T* in, bool has_before) {
  if (!has_before && n < 8) return widened(T(), load_first_bits(n, in));
  // Bytes from 2 (8 - n) on; those beyond the last are zero.
  alignas(16) static constexpr int8_t kBytes[32] = {0,  1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 11, 12, 13, 14, 15,
                                                    -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
  const auto* from = reinterpret_cast<const __m128i*>(kBytes + 2 * (8 - n));
  const __m128i last = _mm_loadu_si128(reinterpret_cast<const __m128i*>(in + n - 8));
  return widened(T(), _mm_shuffle_epi8(last, _mm_loadu_si128(from)));
}

inline void store(float* out, __m256 v) { _mm256_storeu_ps(out, v); }
inline void store(double* out, __m256d v) { _mm256_storeu_pd(out, v); }
template <class T>
void store(T* out, __m256 v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), rounded(T(), v));
}

// 32 bytes of elements.
template <class T>
auto zero_line() {
  if constexpr (sizeof(T) == 2) {
    return _mm256_setzero_si256();
  } else {
    return zero<T>();
  }
}
template <class T>
using Line = decltype(zero_line<T>());
template <class T>
void store(T* out, __m256i line) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), line);
}

// Fewer elements than a vector has.
template <class T>
void widen_first(int64_t n, const T* in, Sum<T>* out) {
  T elements[kLanes<T>] = {};
  Sum<T> sums[kLanes<T>];
  std::copy_n(in, n, elements);
  store(sums, load_widened(elements));
  std::copy_n(sums, n, out);
}

inline __m256i bits_of(__m256 v) { return _mm256_castps_si256(v); }

// So many bytes: two numbers, which may overlap.
template <class Number>
void copy_both_ends(const char* from, int64_t bytes, char* to) {
  Number first, last;
  const int64_t end = bytes - static_cast<int64_t>(sizeof(Number));
  std::memcpy(&first, from, sizeof(Number));
  std::memcpy(&last, from + end, sizeof(Number));
  std::memcpy(to, &first, sizeof(Number));
  std::memcpy(to + end, &last, sizeof(Number));
}

template <class T>
void copy(const T* elements, int64_t count, T* out) {
  const auto* from = reinterpret_cast<const char*>(elements);
  auto* to = reinterpret_cast<char*>(out);
  int64_t bytes = count * static_cast<int64_t>(sizeof(T));
  for (; bytes > 32; bytes -= 32, from += 32, to += 32) std::memcpy(to, from, 32);
  if (bytes >= 16) {
    copy_both_ends<__m128i>(from, bytes, to);
  } else if (bytes >= 8) {
    copy_both_ends<uint64_t>(from, bytes, to);
  } else if (bytes >= 4) {
    copy_both_ends<uint32_t>(from, bytes, to);
  } else if (bytes > 0) {
    copy_both_ends<uint16_t>(from, bytes, to);
  }
}

// A whole line, past the caches.
inline void stream(float* out, const __m256* v) { _mm256_stream_ps(out, v[0]); }
inline void stream(double* out, const __m256d* v) { _mm256_stream_pd(out, v[0]); }
template <class T>
void stream(T* out, const __m256i* line) {
  _mm256_stream_si256(reinterpret_cast<__m256i*>(out), *line);
}

inline float sum(__m256 v) {
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}
inline double sum(__m256d v) {
  const __m128d half = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
  return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
}

// The same for loops that are written once for all instruction sets.
template <class T>
struct Vectors {
  using Cell = T;
  using Vector = decltype(avx2::zero<T>());
  static constexpr int64_t kLanes = avx2::kLanes<T>;

  static Vector zero() { return avx2::zero<T>(); }
  static Vector broadcast(T value) { return avx2::broadcast(value); }
  static Vector load(const T* from) { return avx2::load(from); }
  static Vector load_first(int64_t n, const T* from) { return avx2::load_first(n, from); }
  template <class Out>
  static void store(Out* to, Vector v) {
    avx2::store(to, v);
  }
  template <class Out>
  static void store_first(int64_t n, Out* to, Vector v) {
    Out lanes[kLanes];
    avx2::store(lanes, v);
    std::copy_n(lanes, n, to);
  }
  static Vector add(Vector a, Vector b) { return avx2::add(a, b); }
  static Vector subtract(Vector a, Vector b) { return avx2::subtract(a, b); }
  static Vector multiply_add(Vector a, Vector b, Vector c) { return avx2::multiply_add(a, b, c); }
  static T sum(Vector v) { return avx2::sum(v); }
};

}  // namespace ortconv::kernels::avx2

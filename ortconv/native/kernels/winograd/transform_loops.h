// The transforms as loops that a compiler vectorizes for whatever ISA the including file is compiled for.
#pragma once

#include <cstring>
#include <type_traits>

#include "base/math.h"
#include "kernels/unroll.h"
#include "kernels/winograd/transform.h"

#if defined(_MSC_VER)
#define ORTCONV_RESTRICT __restrict
#else
#define ORTCONV_RESTRICT __restrict__
#endif

namespace ortconv::kernels::winograd {
namespace {

// Lanes of the vectors that the GEMM writes: products beyond are none.
#if defined(__AVX512F__)
constexpr int kVector = 16;
#else
constexpr int kVector = 8;
#endif

// The functions that follow give every array so many elements at a time, which is what vectorizes without a tail.
constexpr int64_t rounded(int64_t count) { return align_up(count, kVector); }

inline void source_of_3(const float* ORTCONV_RESTRICT d0, const float* ORTCONV_RESTRICT d1,
                        const float* ORTCONV_RESTRICT d2, int64_t n, float* ORTCONV_RESTRICT out, int64_t stride) {
  float *ORTCONV_RESTRICT o1 = out + stride, *ORTCONV_RESTRICT o2 = out + 2 * stride;
  for (int64_t i = 0; i < n; ++i) {
    out[i] = d0[i] - d1[i];
    o1[i] = d1[i];
    o2[i] = d2[i] - d1[i];
  }
}

inline void source_of_4(const float* ORTCONV_RESTRICT d0, const float* ORTCONV_RESTRICT d1,
                        const float* ORTCONV_RESTRICT d2, const float* ORTCONV_RESTRICT d3, int64_t n,
                        float* ORTCONV_RESTRICT out, int64_t stride) {
  float *ORTCONV_RESTRICT o1 = out + stride, *ORTCONV_RESTRICT o2 = out + 2 * stride,
                          *ORTCONV_RESTRICT o3 = out + 3 * stride;
  for (int64_t i = 0; i < n; ++i) {
    out[i] = d0[i] - d2[i];
    o1[i] = d1[i] + d2[i];
    o2[i] = d2[i] - d1[i];
    o3[i] = d3[i] - d1[i];
  }
}

void source_loops(Filter filter, int64_t step, const float* const* in, int64_t count, float* out, int64_t stride) {
  const int64_t n = rounded(count);
  switch (filter) {
    case Filter::kCopy:
      for (int64_t j = 0; j < step; ++j) std::memcpy(out + j * stride, in[j], n * sizeof(float));
      return;
    case Filter::k22:
      return source_of_3(in[0], in[1], in[2], n, out, stride);
    case Filter::k32:
    case Filter::k23:
      return source_of_4(in[0], in[1], in[2], in[3], n, out, stride);
  }
}

inline void result_22(const float* ORTCONV_RESTRICT m, int64_t in, int64_t n, float* ORTCONV_RESTRICT out,
                      int64_t stride) {
  const float *ORTCONV_RESTRICT m1 = m + in, *ORTCONV_RESTRICT m2 = m + 2 * in;
  float* ORTCONV_RESTRICT o1 = out + stride;
  for (int64_t i = 0; i < n; ++i) {
    out[i] = m[i] + m1[i];
    o1[i] = m1[i] + m2[i];
  }
}

inline void result_23(const float* ORTCONV_RESTRICT m, int64_t in, int64_t n, float* ORTCONV_RESTRICT out,
                      int64_t stride) {
  const float *ORTCONV_RESTRICT m1 = m + in, *ORTCONV_RESTRICT m2 = m + 2 * in, *ORTCONV_RESTRICT m3 = m + 3 * in;
  float* ORTCONV_RESTRICT o1 = out + stride;
  for (int64_t i = 0; i < n; ++i) {
    out[i] = m[i] + (m1[i] + m2[i]);
    o1[i] = (m1[i] - m2[i]) + m3[i];
  }
}

inline void result_32(const float* ORTCONV_RESTRICT m, int64_t in, int64_t n, float* ORTCONV_RESTRICT out,
                      int64_t stride) {
  const float *ORTCONV_RESTRICT m1 = m + in, *ORTCONV_RESTRICT m2 = m + 2 * in, *ORTCONV_RESTRICT m3 = m + 3 * in;
  float *ORTCONV_RESTRICT o1 = out + stride, *ORTCONV_RESTRICT o2 = out + 2 * stride;
  for (int64_t i = 0; i < n; ++i) {
    const float sum = m1[i] + m2[i];
    out[i] = m[i] + sum;
    o1[i] = m1[i] - m2[i];
    o2[i] = sum + m3[i];
  }
}

void result_loops(Filter filter, int64_t step, const float* in, int64_t in_stride, int64_t count, float* out,
                  int64_t stride) {
  const int64_t n = rounded(count);
  switch (filter) {
    case Filter::kCopy:
      for (int64_t j = 0; j < step; ++j) std::memcpy(out + j * stride, in + j * in_stride, n * sizeof(float));
      return;
    case Filter::k22:
      return result_22(in, in_stride, n, out, stride);
    case Filter::k32:
      return result_32(in, in_stride, n, out, stride);
    case Filter::k23:
      return result_23(in, in_stride, n, out, stride);
  }
}

// Points of the windows whose elements are the vectors d[0..3], of the type that V describes (see vector_avx2.h).
template <class V>
ORTCONV_ALWAYS_INLINE inline void put_points(Filter filter, int step, const typename V::Vector* d, float* out,
                                             int64_t stride) {
  switch (filter) {
    case Filter::kCopy:
      for (int j = 0; j < step; ++j) V::store(out + j * stride, d[j]);
      return;
    case Filter::k22:
      V::store(out, V::subtract(d[0], d[1]));
      V::store(out + stride, d[1]);
      V::store(out + 2 * stride, V::subtract(d[2], d[1]));
      return;
    case Filter::k32:
    case Filter::k23:
      V::store(out, V::subtract(d[0], d[2]));
      V::store(out + stride, V::add(d[1], d[2]));
      V::store(out + 2 * stride, V::subtract(d[2], d[1]));
      V::store(out + 3 * stride, V::subtract(d[3], d[1]));
      return;
  }
}

// Calls fn with the step, 1 to 3, as a type.
template <class Fn>
uint32_t with_step(int64_t step, Fn fn) {
  if (step == 1) return fn(std::integral_constant<int, 1>());
  if (step == 2) return fn(std::integral_constant<int, 2>());
  return fn(std::integral_constant<int, 3>());
}

}  // namespace
}  // namespace ortconv::kernels::winograd

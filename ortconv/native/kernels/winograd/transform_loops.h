// The transforms as loops that a compiler vectorizes for whatever ISA the including file is compiled for.
#pragma once

#include <algorithm>
#include <cstring>

#include "base/math.h"
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

inline uint32_t largest(const float* values, int64_t count) {
  uint32_t most = 0;
  for (int64_t i = 0; i < count; ++i) {
    uint32_t bits;
    std::memcpy(&bits, values + i, sizeof bits);
    bits &= 0x7fffffffu;
    most = bits > most ? bits : most;
  }
  return most;
}

template <int kStep>
uint32_t split_loops_by(const Cut* cuts, int64_t num_cuts, const float* row, int64_t begin, int64_t end, int64_t tiles,
                        float* out, int64_t stride) {
  constexpr int64_t kLine = kLanes * kStep + 4;
  float e[4][kLanes], line[kLine];
  uint32_t most = 0;
  for (int64_t t = 0; t < tiles; t += kLanes, out += kLanes) {
    const int64_t at = t * kStep;
    const int64_t from = std::clamp<int64_t>(begin - at, 0, kLine), to = std::clamp<int64_t>(end - at, from, kLine);
    std::fill(line, line + from, 0.0f);
    std::copy(row + at + from, row + at + to, line + from);
    std::fill(line + to, line + kLine, 0.0f);
    most = std::max(most, largest(line, kLine));
    for (int64_t w = 0; w < 4; ++w) {
      for (int64_t l = 0; l < kLanes; ++l) e[w][l] = line[l * kStep + w];
    }
    float* to_point = out;
    for (const Cut* cut = cuts; cut != cuts + num_cuts; ++cut) {
      const float* const rows[] = {e[cut->skip], e[(cut->skip + 1) % 4], e[(cut->skip + 2) % 4],
                                   e[(cut->skip + 3) % 4]};
      source_loops(cut->filter, kStep, rows, kLanes, to_point, stride);
      to_point += points_of(cut->filter, kStep) * stride;
    }
  }
  return most;
}

[[maybe_unused]] uint32_t split_loops(const Cut* cuts, int64_t num_cuts, int64_t step, const float* row, int64_t begin,
                                      int64_t end, int64_t tiles, float* out, int64_t stride) {
  switch (step) {
    case 1:
      return split_loops_by<1>(cuts, num_cuts, row, begin, end, tiles, out, stride);
    case 2:
      return split_loops_by<2>(cuts, num_cuts, row, begin, end, tiles, out, stride);
    default:
      return split_loops_by<3>(cuts, num_cuts, row, begin, end, tiles, out, stride);
  }
}

}  // namespace
}  // namespace ortconv::kernels::winograd

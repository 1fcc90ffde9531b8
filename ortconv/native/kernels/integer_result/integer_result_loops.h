// The loops of all kernels, which compilers turn into vectors. Included by files that are compiled for one ISA each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>

#include "kernels/integer_result/integer_result.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kBlock = 128;

// Elements first, first + 1, ... of the interleaved sums.
inline const float* interleaved(const IntegerResultArgs& a, int64_t first, int64_t count, float* memory) {
  if (a.phases == 1) return a.sums[0] + first;
  if (a.phases == 2) {  // first is even
    const float *const even = a.sums[0] + first / 2, *const odd = a.sums[1] + first / 2;
    const int64_t pairs = count / 2;
    for (int64_t i = 0; i < pairs; ++i) {
      memory[2 * i] = even[i];
      memory[2 * i + 1] = odd[i];
    }
    if (count % 2 != 0) memory[count - 1] = even[pairs];
    return memory;
  }
  int64_t position = first / a.phases, phase = first % a.phases;
  for (int64_t i = 0; i < count; ++i) {
    memory[i] = a.sums[phase][position];
    if (++phase == a.phases) phase = 0, ++position;
  }
  return memory;
}

// Numbers of less than 2^22 to the nearest integer, ties to even: a float of 1.5 * 2^23 and more has no fraction.
inline int32_t rounded(float value) {
  constexpr float kShift = 12582912;
  const float shifted = value + kShift;
  int32_t bits, zero;
  std::memcpy(&bits, &shifted, sizeof(bits));
  std::memcpy(&zero, &kShift, sizeof(zero));
  return bits - zero;
}

template <class T>
void integer_result(const IntegerResultArgs& a) {
  constexpr auto kLeast = static_cast<float>(std::numeric_limits<T>::lowest());
  constexpr auto kMost = static_cast<float>(std::numeric_limits<T>::max());
  float gathered[kBlock], values[kBlock];
  const float scale = a.scale, bias = a.bias;
  const Activation activation = a.activation;
  for (int64_t first = 0; first < a.count; first += kBlock) {
    const int64_t n = std::min(kBlock, a.count - first);
    const float* const sums = interleaved(a, first, n, gathered);
    for (int64_t i = 0; i < n; ++i) values[i] = sums[i] * scale + bias;
    if constexpr (!std::is_same_v<T, float>) {
      if (a.residual != nullptr) {
        const T* const residual = static_cast<const T*>(a.residual) + first;
        const float residual_scale = a.residual_scale;
        const int32_t zero = a.residual_zero;
        for (int64_t i = 0; i < n; ++i) {
          values[i] = values[i] + static_cast<float>(static_cast<int32_t>(residual[i]) - zero) * residual_scale;
        }
      }
    }
    if (activation.slope != 1) {
      for (int64_t i = 0; i < n; ++i) {
        const float sloped = values[i] * activation.slope;
        values[i] = values[i] < 0 ? sloped : values[i];
      }
    }
    if (activation.minimum > -std::numeric_limits<float>::infinity() ||
        activation.maximum < std::numeric_limits<float>::infinity()) {
      for (int64_t i = 0; i < n; ++i) {
        const float above = values[i] < activation.minimum ? activation.minimum : values[i];
        values[i] = above > activation.maximum ? activation.maximum : above;
      }
    }
    T* const y = static_cast<T*>(a.y) + first;
    if constexpr (std::is_same_v<T, float>) {
      std::copy_n(values, n, y);
    } else {
      const float y_scale = a.y_scale, least = kLeast - static_cast<float>(a.y_zero);
      const float most = kMost - static_cast<float>(a.y_zero);
      const int32_t zero = a.y_zero;
      for (int64_t i = 0; i < n; ++i) {
        const float quotient = values[i] / y_scale;
        const float above = quotient > least ? quotient : least;  // also where it is no number
        y[i] = static_cast<T>(rounded(above < most ? above : most) + zero);
      }
    }
  }
}

template <class T>
void widen_as(const T* x, int32_t zero, int64_t count, float* out) {
  for (int64_t i = 0; i < count; ++i) out[i] = static_cast<float>(static_cast<int32_t>(x[i]) - zero);
}

inline void widen(const uint8_t* x, bool is_signed, int32_t zero, int64_t count, float* out) {
  if (is_signed) return widen_as(reinterpret_cast<const int8_t*>(x), zero, count, out);
  widen_as(x, zero, count, out);
}

constexpr IntegerResultKernel integer_result_kernel(const char* name) {
  return {name, {integer_result<float>, integer_result<uint8_t>, integer_result<int8_t>}, widen};
}

}  // namespace
}  // namespace ortconv::kernels

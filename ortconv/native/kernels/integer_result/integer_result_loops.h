// The loops of all kernels, which compilers turn into vectors, for a struct V of an instruction set:
//
//   finish(a, sums, n, out)  stores results of a row that has no residual and is not affine, in whole vectors from the
//                            first on, and returns how many; the loops here do the rest
//
// Included by files that are compiled for one ISA each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "base/math.h"
#include "kernels/integer_result/integer_result.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kBlock = 128;  // elements at a time, of a phase
constexpr int64_t kFewPhases = 8, kReadBeyond = IntegerResultArgs::kReadBeyond;
static_assert(kBlock % kReadBeyond == 0);

// Numbers of less than 2^22 to the nearest integer, ties to even: a float of 1.5 * 2^23 and more has no fraction.
inline int32_t rounded(float value) {
  constexpr float kShift = 12582912;
  const float shifted = value + kShift;
  int32_t bits, zero;
  std::memcpy(&bits, &shifted, sizeof(bits));
  std::memcpy(&zero, &kShift, sizeof(zero));
  return bits - zero;
}

// What there is besides scale, bias, activation and quantization.
enum class Terms { kNone, kResidual, kAffine, kAffineWithBiases };

// The result of sums that follow each other; `residual` as well. Without branches in the loop, so that it becomes
// vectors: bounds that are infinite change nothing.
template <class V, class T, Terms kTerms, bool kHasSlope, bool kHasHardSigmoid>
void finish(const IntegerResultArgs& a, const float* sums, const T* residual, int64_t n, T* out) {
  constexpr bool kIsAffine = kTerms == Terms::kAffine || kTerms == Terms::kAffineWithBiases;
  const float scale = a.scale, bias = a.bias, residual_scale = a.residual_scale, y_scale = a.y_scale;
  [[maybe_unused]] const float slope = a.activation.slope;
  const float minimum = a.activation.minimum, maximum = a.activation.maximum;
  [[maybe_unused]] const float alpha = a.activation.hard_sigmoid.alpha, beta = a.activation.hard_sigmoid.beta;
  const float factor = a.factor, addend = a.addend;
  const float* const biases = a.biases;
  const auto zero = static_cast<float>(a.y_zero);
  const float least = static_cast<float>(std::numeric_limits<T>::lowest()) - zero;
  const float most = static_cast<float>(std::numeric_limits<T>::max()) - zero;
  const int32_t y_zero = a.y_zero, residual_zero = a.residual_zero;
  int64_t i = 0;
  if constexpr (kTerms == Terms::kNone && !std::is_same_v<T, float>) i = V::finish(a, sums, n, out);
  for (; i < n; ++i) {
    float v = sums[i] * scale + (kTerms == Terms::kAffineWithBiases ? biases[i] : bias);
    if constexpr (kTerms == Terms::kResidual) {
      v = v + static_cast<float>(static_cast<int32_t>(residual[i]) - residual_zero) * residual_scale;
    }
    if constexpr (kHasSlope) {
      const float sloped = v * slope;
      v = v < 0 ? sloped : v;
    }
    v = v < minimum ? minimum : v;
    v = v > maximum ? maximum : v;
    if constexpr (kHasHardSigmoid) {
      const float line = v * alpha + beta, above = line < 0 ? 0 : line;
      v = v * (above > 1 ? 1 : above);
    }
    if constexpr (kIsAffine) v = v * factor + addend;
    if constexpr (std::is_same_v<T, float>) {
      out[i] = v;
    } else {
      const float quotient = v / y_scale;
      const float above = quotient > least ? quotient : least;  // also where it is no number
      out[i] = static_cast<T>(rounded(above < most ? above : most) + y_zero);
    }
  }
}

template <class V, class T, Terms kTerms>
void finish(const IntegerResultArgs& a, const float* sums, const T* residual, int64_t n, T* out) {
  if (!a.activation.hard_sigmoid.is_one()) return finish<V, T, kTerms, true, true>(a, sums, residual, n, out);
  if (a.activation.slope == 1) return finish<V, T, kTerms, false, false>(a, sums, residual, n, out);
  finish<V, T, kTerms, true, false>(a, sums, residual, n, out);
}

// out[2 * i] = a[i], out[2 * i + 1] = b[i].
template <class T>
void zip(const T* a, const T* b, int64_t n, T* out) {
  for (int64_t i = 0; i < n; ++i) {
    out[2 * i] = a[i];
    out[2 * i + 1] = b[i];
  }
}

// Interleaves n elements of each of the phases, which lie kBlock apart in `rows`; overwrites these.
template <class T>
void interleave(T* rows, int64_t phases, int64_t n, T* out) {
  if ((phases & (phases - 1)) != 0) {
    for (int64_t phase = 0; phase < phases; ++phase) {
      for (int64_t i = 0; i < n; ++i) out[i * phases + phase] = rows[phase * kBlock + i];
    }
    return;
  }
  // Row r and row r + half, for all halves: in the end, row r is where it belongs.
  T other[kFewPhases * kBlock];
  T *from = rows, *to = other;
  int64_t stride = kBlock, length = n;
  for (int64_t half = phases / 2; half > 0; half /= 2, length *= 2, stride *= 2, std::swap(from, to)) {
    for (int64_t r = 0; r < half; ++r) {
      zip(from + r * stride, from + (r + half) * stride, length, half == 1 ? out : to + r * 2 * stride);
    }
  }
}

// A few phases without residual, each on its own: what is interleaved then are results, which are smaller than sums.
template <class V, class T>
void few_phases(const IntegerResultArgs& a) {
  T rows[kFewPhases * kBlock];
  T* const y = static_cast<T*>(a.y);
  const int64_t positions = (a.count + a.phases - 1) / a.phases;
  for (int64_t first = 0; first < positions; first += kBlock) {
    const int64_t n = std::min(kBlock, positions - first);
    const int64_t whole = std::min(n, a.count / a.phases - first);  // positions that have all phases
    T* const out = y + first * a.phases;
    for (int64_t phase = 0; phase < a.phases; ++phase) {
      finish<V, T, Terms::kNone>(a, a.sums[phase] + first, nullptr, align_up(n, kReadBeyond), rows + phase * kBlock);
    }
    T rest[kFewPhases];
    for (int64_t phase = 0; phase < a.phases && whole < n; ++phase) rest[phase] = rows[phase * kBlock + whole];
    interleave(rows, a.phases, whole, out);
    for (int64_t i = whole * a.phases; i < std::min(n * a.phases, a.count - first * a.phases); ++i) {
      out[i] = rest[i % a.phases];
    }
  }
}

template <class V, class T>
void integer_result(const IntegerResultArgs& a) {
  T* const y = static_cast<T*>(a.y);
  const T* const residual = static_cast<const T*>(a.residual);
  if (a.is_affine && a.biases == nullptr) return finish<V, T, Terms::kAffine>(a, a.sums[0], nullptr, a.count, y);
  if (a.is_affine) return finish<V, T, Terms::kAffineWithBiases>(a, a.sums[0], nullptr, a.count, y);
  if (a.phases == 1 && residual == nullptr) return finish<V, T, Terms::kNone>(a, a.sums[0], nullptr, a.count, y);
  if (a.phases <= kFewPhases && residual == nullptr) return few_phases<V, T>(a);
  float gathered[kBlock];
  int64_t position = 0, phase = 0;
  for (int64_t first = 0; first < a.count; first += kBlock) {
    const int64_t n = std::min(kBlock, a.count - first);
    for (int64_t i = 0; i < n; ++i) {
      gathered[i] = a.sums[phase][position];
      if (++phase == a.phases) phase = 0, ++position;
    }
    if (residual == nullptr) {
      finish<V, T, Terms::kNone>(a, gathered, nullptr, n, y + first);
    } else {
      finish<V, T, Terms::kResidual>(a, gathered, residual + first, n, y + first);
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

template <class V>
constexpr IntegerResultKernel integer_result_kernel(const char* name) {
  return {name, {integer_result<V, float>, integer_result<V, uint8_t>, integer_result<V, int8_t>}, widen};
}

}  // namespace
}  // namespace ortconv::kernels

// Element types as the kernels see them. A tensor stores T; the kernels sum in Sum<T> and round once, while storing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "base/dtype.h"
#include "base/float16.h"

namespace ortconv::kernels {

template <class T>
struct SumOf {
  using Type = float;
};
template <>
struct SumOf<double> {
  using Type = double;
};
template <class T>
using Sum = typename SumOf<T>::Type;

inline float widen(float value) { return value; }
inline double widen(double value) { return value; }
inline float widen(Float16 value) { return to_float(value); }
inline float widen(Bfloat16 value) { return to_float(value); }

inline void round_to(float* out, float sum) { *out = sum; }
inline void round_to(double* out, double sum) { *out = sum; }
inline void round_to(Float16* out, float sum) { *out = to_float16(sum); }
inline void round_to(Bfloat16* out, float sum) { *out = to_bfloat16(sum); }

inline DataType sum_type_of(DataType dtype) { return dtype == DataType::kDouble ? dtype : DataType::kFloat; }
inline size_t sum_size_of(DataType dtype) { return dtype == DataType::kDouble ? sizeof(double) : sizeof(float); }

// What is stored for a number: a sum with its bias. Numbers of 16 bits were rounded with theirs.
template <class T>
T with_bias(T value, [[maybe_unused]] Sum<T> bias) {
  if constexpr (std::is_same_v<T, Sum<T>>) {
    return value + bias;
  } else {
    return value;
  }
}

// Two neighbouring channels of bf16 numbers, an operand where the CPU adds up the products of such pairs.
struct BfloatPair {
  Bfloat16 first, second;
};
static_assert(sizeof(BfloatPair) == 4);

// Channels of one operand of a product.
template <class Operand>
constexpr int64_t kChannels = 1;
template <>
inline constexpr int64_t kChannels<BfloatPair> = 2;

// Operands of so many channels: rows of B.
template <class Operand>
constexpr int64_t depth_of(int64_t channels) {
  return (channels + kChannels<Operand> - 1) / kChannels<Operand>;
}

// Calls fn(T()) with the type that holds an element; only for the floating-point types that are summed in float.
template <class Fn>
auto with_float_sum_type(DataType dtype, Fn&& fn) {
  switch (dtype) {
    case DataType::kFloat16:
      return fn(Float16());
    case DataType::kBfloat16:
      return fn(Bfloat16());
    default:
      return fn(float());
  }
}

// The same for these and double.
template <class Fn>
auto with_float_type(DataType dtype, Fn&& fn) {
  return dtype == DataType::kDouble ? fn(double()) : with_float_sum_type(dtype, fn);
}

}  // namespace ortconv::kernels

// Expand macro(T) for the types of with_float_sum_type() and of with_float_type(), to instantiate templates.
#define ORTCONV_FLOAT_SUM_TYPES(macro) macro(float) macro(Float16) macro(Bfloat16)
#define ORTCONV_FLOAT_TYPES(macro) macro(float) macro(double) macro(Float16) macro(Bfloat16)

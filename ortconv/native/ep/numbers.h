// Elements of constant tensors as numbers.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/dtype.h"
#include "base/float16.h"
#include "ep/graph.h"

namespace ortconv::ep {

template <class T>
double to_double(T value) {
  return static_cast<double>(value);
}
inline double to_double(Float16 value) { return to_float(value); }
inline double to_double(Bfloat16 value) { return to_float(value); }

// Rounded to the type.
template <class T>
T rounded_to(double value) {
  return static_cast<T>(value);
}
template <>
inline Float16 rounded_to<Float16>(double value) {
  return to_float16(static_cast<float>(value));
}
template <>
inline Bfloat16 rounded_to<Bfloat16>(double value) {
  return to_bfloat16(static_cast<float>(value));
}

// Of a tensor of floating-point numbers or integers of 8 bits and more; none where the value is not constant.
std::optional<std::vector<double>> numbers_of(const Value& value);
std::optional<std::vector<int64_t>> integers_of(const Value& value);

}  // namespace ortconv::ep

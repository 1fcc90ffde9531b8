// Element types, numbered as in ONNX's TensorProto.DataType.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/float16.h"

namespace ortconv {

enum class DataType {
  kFloat = 1,
  kUint8 = 2,
  kInt8 = 3,
  kUint16 = 4,
  kInt16 = 5,
  kInt32 = 6,
  kInt64 = 7,
  kFloat16 = 10,
  kDouble = 11,
  kUint32 = 12,
  kUint64 = 13,
  kBfloat16 = 16,
};

// Every type the ops take for X, W, B and Y.
constexpr DataType kDataTypes[] = {DataType::kFloat, DataType::kFloat16, DataType::kBfloat16, DataType::kDouble,
                                   DataType::kInt8,  DataType::kUint8,   DataType::kInt16,    DataType::kUint16,
                                   DataType::kInt32, DataType::kUint32,  DataType::kInt64,    DataType::kUint64};

// Calls fn(T()) with the C++ type that holds an element of `dtype`, and returns what it returns.
template <class Fn>
auto with_type(DataType dtype, Fn&& fn) {
  switch (dtype) {
    case DataType::kUint8:
      return fn(uint8_t());
    case DataType::kInt8:
      return fn(int8_t());
    case DataType::kUint16:
      return fn(uint16_t());
    case DataType::kInt16:
      return fn(int16_t());
    case DataType::kInt32:
      return fn(int32_t());
    case DataType::kInt64:
      return fn(int64_t());
    case DataType::kFloat16:
      return fn(Float16());
    case DataType::kDouble:
      return fn(double());
    case DataType::kUint32:
      return fn(uint32_t());
    case DataType::kUint64:
      return fn(uint64_t());
    case DataType::kBfloat16:
      return fn(Bfloat16());
    case DataType::kFloat:
      break;
  }
  return fn(float());
}

inline size_t size_of(DataType dtype) {
  return with_type(dtype, [](auto zero) { return sizeof(zero); });
}

// The type in which products of `dtype` are formed and summed: the one legal value of the ops' accumulation_type.
inline DataType accumulation_type(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat:
    case DataType::kFloat16:
    case DataType::kBfloat16:
      return DataType::kFloat;
    case DataType::kInt8:
    case DataType::kUint8:
    case DataType::kInt16:
    case DataType::kUint16:
    case DataType::kInt32:
      return DataType::kInt32;
    case DataType::kDouble:
    case DataType::kUint32:
    case DataType::kInt64:
    case DataType::kUint64:
      break;
  }
  return dtype;
}

}  // namespace ortconv

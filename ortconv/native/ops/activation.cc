#include "ops/activation.h"

#include <algorithm>

#include "base/float16.h"
#include "ops/parallel.h"
#include "ops/problem.h"

namespace ortconv {
namespace {

constexpr int64_t kPiece = 1 << 14;

inline float widened(float value) { return value; }
inline float widened(Float16 value) { return to_float(value); }
inline float widened(Bfloat16 value) { return to_float(value); }

inline void assign(float value, float* to) { *to = value; }
inline void assign(float value, Float16* to) { *to = to_float16(value); }
inline void assign(float value, Bfloat16* to) { *to = to_bfloat16(value); }

template <class T>
void activate_all(Activation activation, void* data, int64_t count, const Parallel& parallel) {
  T* values = static_cast<T*>(data);
  for_each(parallel, (count + kPiece - 1) / kPiece, [&](int64_t piece) {
    const int64_t end = std::min(count, (piece + 1) * kPiece);
    for (int64_t i = piece * kPiece; i < end; ++i) assign(activation(widened(values[i])), &values[i]);
  });
}

}  // namespace

void activate(DataType dtype, const Activation& activation, void* data, int64_t count, const Parallel& parallel) {
  if (activation.is_identity()) return;
  switch (dtype) {
    case DataType::kFloat16:
      return activate_all<Float16>(activation, data, count, parallel);
    case DataType::kBfloat16:
      return activate_all<Bfloat16>(activation, data, count, parallel);
    default:
      return activate_all<float>(activation, data, count, parallel);
  }
}

}  // namespace ortconv

#include "ops/epilogue.h"

#include <algorithm>
#include <type_traits>

#include "base/math.h"
#include "base/parallel.h"
#include "kernels/element.h"

namespace ortconv {
namespace {

constexpr int64_t kPiece = 1 << 14;

template <class T>
void activate_all(Activation activation, T* values, int64_t count, const Parallel& parallel) {
  for_each(parallel, ceil_div(count, kPiece), [&](int64_t piece) {
    const int64_t end = std::min(count, (piece + 1) * kPiece);
    for (int64_t i = piece * kPiece; i < end; ++i) kernels::round_to(&values[i], activation(kernels::widen(values[i])));
  });
}

template <class T>
void add(const kernels::EpilogueKernel& kernel, const Activation* activation, int64_t n, const T* residual, T* dst) {
  if constexpr (std::is_integral_v<T>) {
    for (int64_t i = 0; i < n; ++i) {
      dst[i] = static_cast<T>(static_cast<uint64_t>(dst[i]) + static_cast<uint64_t>(residual[i]));
    }
  } else {
    kernel.add_residual(activation, n, residual, dst);
  }
}

}  // namespace

void activate(DataType dtype, const Activation& activation, void* data, int64_t count, const Parallel& parallel) {
  if (activation.is_identity()) return;
  kernels::with_float_sum_type(
      dtype, [&](auto zero) { activate_all(activation, static_cast<decltype(zero)*>(data), count, parallel); });
}

void add_residual(const kernels::EpilogueKernel& kernel, DataType dtype, const Activation& activation,
                  const void* residual, void* dst, int64_t count, const Parallel& parallel) {
  const Activation* applied = activation.is_identity() ? nullptr : &activation;
  with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each(parallel, ceil_div(count, kPiece), [&](int64_t piece) {
      const int64_t begin = piece * kPiece, n = std::min(kPiece, count - begin);
      add(kernel, applied, n, static_cast<const T*>(residual) + begin, static_cast<T*>(dst) + begin);
    });
  });
}

}  // namespace ortconv

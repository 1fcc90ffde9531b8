#include "ops/residual.h"

#include <algorithm>
#include <type_traits>

#include "ops/parallel.h"

namespace ortconv {
namespace {

constexpr int64_t kPiece = 1 << 14;

template <class T>
void add(const kernels::ResidualKernel& kernel, const Activation* activation, int64_t n, const T* residual, T* dst) {
  if constexpr (std::is_integral_v<T>) {
    for (int64_t i = 0; i < n; ++i) {
      dst[i] = static_cast<T>(static_cast<uint64_t>(dst[i]) + static_cast<uint64_t>(residual[i]));
    }
  } else {
    kernel.to<T>()(activation, n, residual, dst);
  }
}

}  // namespace

void add_residual(const kernels::ResidualKernel& kernel, DataType dtype, const Activation& activation,
                  const void* residual, void* dst, int64_t count, const Parallel& parallel) {
  const Activation* applied = activation.is_identity() ? nullptr : &activation;
  with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    for_each(parallel, (count + kPiece - 1) / kPiece, [&](int64_t piece) {
      const int64_t begin = piece * kPiece, n = std::min(kPiece, count - begin);
      add(kernel, applied, n, static_cast<const T*>(residual) + begin, static_cast<T*>(dst) + begin);
    });
  });
}

}  // namespace ortconv

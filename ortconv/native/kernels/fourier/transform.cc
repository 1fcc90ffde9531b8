#include "kernels/fourier/transform.h"

#include <algorithm>

#include "base/math.h"
#include "base/ranges.h"

namespace ortconv::kernels {
namespace {

// Elements of rows that are worth a work item.
constexpr int64_t kItemElements = 1 << 14;

}  // namespace

template <class T>
size_t fourier_scratch_bytes(const FourierKernel<T>& kernel, int64_t length, int threads) {
  return static_cast<size_t>(std::max(threads, 1)) * align64(kernel.row_scratch(length));
}

template <class T>
void fourier_transform(const FourierKernel<T>& kernel, const FourierPlan& plan, const FourierRows<T>& rows,
                       int64_t count, void* scratch, const Parallel& parallel) {
  if (count == 0) return;
  // Blocks of as many rows as there are lanes, wherever an item begins.
  const int64_t size = align_up(std::max<int64_t>(kItemElements / plan.length, 1), kernel.lanes);
  const int64_t items = ceil_div(count, size);
  const int64_t threads = std::clamp<int64_t>(items, 1, std::max(parallel.threads, 1));
  const size_t bytes = align64(kernel.row_scratch(plan.length));
  Ranges ranges(items, 1, 1, threads);
  for_each(parallel, threads, [&](int64_t thread) {
    FourierRows<T> part = rows;
    ranges.for_each_item([&](int64_t item) {
      part.first = item * size;
      part.last = std::min(part.first + size, count);
      kernel.transform(plan, part, static_cast<char*>(scratch) + static_cast<size_t>(thread) * bytes);
    });
  });
}

#define INSTANTIATE(T)                                                                                                \
  template size_t fourier_scratch_bytes(const FourierKernel<T>&, int64_t, int);                                       \
  template void fourier_transform(const FourierKernel<T>&, const FourierPlan&, const FourierRows<T>&, int64_t, void*, \
                                  const Parallel&);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

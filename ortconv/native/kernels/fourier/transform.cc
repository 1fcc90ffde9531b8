#include "kernels/fourier/transform.h"

#include <algorithm>

#include "base/math.h"
#include "base/ranges.h"

namespace ortconv::kernels {
namespace {

// Elements of rows that are worth a work item.
constexpr int64_t kItemElements = 1 << 14;

// How the rows are shared out: in blocks of as many as there are lanes, wherever an item begins.
struct Shares {
  int64_t size, items, threads;
  size_t bytes;  // of a thread

  template <class T>
  Shares(const FourierKernel<T>& kernel, int64_t length, int64_t count, int pool)
      : size(align_up(std::max<int64_t>(kItemElements / length, 1), kernel.lanes)),
        items(ceil_div(count, size)),
        threads(std::clamp<int64_t>(items, 1, std::max(pool, 1))),
        bytes(align64(kernel.row_scratch(length, std::min(size, count)))) {}
};

}  // namespace

template <class T>
size_t fourier_scratch_bytes(const FourierKernel<T>& kernel, int64_t length, int64_t count, int threads) {
  const Shares shares(kernel, length, count, threads);
  return static_cast<size_t>(shares.threads) * shares.bytes;
}

template <class T>
void fourier_transform(const FourierKernel<T>& kernel, const FourierPlan& plan, const FourierRows<T>& rows,
                       int64_t count, void* scratch, const Parallel& parallel) {
  const Shares shares(kernel, plan.length, count, parallel.threads);
  Ranges ranges(shares.items, 1, 1, shares.threads);
  const auto run = [&](int64_t thread) {
    FourierRows<T> part = rows;
    ranges.for_each_item([&](int64_t item) {
      part.first = item * shares.size;
      part.last = std::min(part.first + shares.size, count);
      kernel.transform(plan, part, static_cast<char*>(scratch) + static_cast<size_t>(thread) * shares.bytes);
    });
  };
  if (shares.threads == 1) {
    run(0);
  } else {
    for_each(parallel, shares.threads, run);
  }
}

#define INSTANTIATE(T)                                                                                                \
  template size_t fourier_scratch_bytes(const FourierKernel<T>&, int64_t, int64_t, int);                              \
  template void fourier_transform(const FourierKernel<T>&, const FourierPlan&, const FourierRows<T>&, int64_t, void*, \
                                  const Parallel&);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

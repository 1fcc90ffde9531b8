#include "base/ranges.h"
#include "kernels/im2col/col2im.h"
#include "kernels/im2col/im2col.h"
#include "kernels/im2col/im2col_gemm.h"

namespace ortconv::kernels::im2col {
namespace {

// Calls fn(tiles, zero) with what computes tiles of the type of `zero`.
template <class Fn>
auto with_tiles(Way way, Op op, const ConvProblem& p, DataType dtype, const ArchFlags& arch, int threads, Fn fn) {
  return with_float_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    if (way == Way::kPatches) return fn(Im2col<T>(op, p, arch, threads), zero);
    return fn(Col2im<T>(p, arch, threads), zero);
  });
}

int64_t slices_of(const Work& work, int threads) { return std::min<int64_t>(std::max(threads, 1), work.items); }

}  // namespace

// A transposed convolution without strides is a convolution, which adds nothing up in memory, but copies src for every
// tap.
bool can_run(Way way, Op op, const ConvProblem& p) {
  if (way == Way::kColumns) return op == Op::kConvTranspose;
  const auto is_one = [](int64_t stride) { return stride == 1; };
  return op == Op::kConv || std::all_of(p.stride, p.stride + p.ndims, is_one);
}

size_t scratch_bytes(Way way, Op op, const ConvProblem& problem, DataType dtype, const ArchFlags& arch, int threads) {
  return with_tiles(way, op, problem, dtype, arch, threads, [&](const auto& tiles, auto) {
    const Work work = tiles.work();
    return static_cast<size_t>(slices_of(work, threads)) * work.slice_bytes;
  });
}

void run(Way way, Op op, const ConvProblem& problem, DataType dtype, const ArchFlags& arch, const void* src,
         const void* wei, const void* bias, void* dst, void* scratch, const Parallel& parallel) {
  with_tiles(way, op, problem, dtype, arch, parallel.threads, [&](const auto& tiles, auto zero) {
    using T = decltype(zero);
    const Work work = tiles.work();
    const int64_t slices = slices_of(work, parallel.threads);
    const Data<T> data{static_cast<const T*>(src), static_cast<const T*>(wei), static_cast<const T*>(bias),
                       static_cast<T*>(dst)};
    Ranges ranges(work.items, 1, 1, slices);
    for_each(parallel, slices, [&](int64_t i) {
      char* slice = static_cast<char*>(scratch) + static_cast<size_t>(i) * work.slice_bytes;
      ranges.for_each_item([&](int64_t item) { tiles.run(item, data, slice); });
    });
  });
}

}  // namespace ortconv::kernels::im2col

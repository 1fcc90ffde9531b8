// The kernels of a GEMM program: gemm or, with TOTAL, gemm_total, which adds up split-K sums. Included last by the
// program, which defines SUMS, the kSums sums of a thread.

namespace ortconv {
namespace cuda {

// The first of the sums of this thread.
__device__ inline Sum* partial_sums(const Gemm& p, const Tile& tile, int split, int thread) {
  const long long tiles = static_cast<long long>(p.tiles_m) * p.tiles_n * p.lists * p.groups;
  return static_cast<Sum*>(p.partial) + (split * tiles + tile.number) * (kSums * kThreads) + thread;
}

}  // namespace cuda
}  // namespace ortconv

#if TOTAL

KERNEL(gemm_total, ortconv::cuda::Gemm, ortconv::cuda::kThreads, 1) {
  using namespace ortconv::cuda;
  if (is_misaligned(params) || is_unsuitable(params)) return;
  const Tile tile = tile_of(params, blockIdx.x);
  Sums sums = {};
  for (int split = 0; split < params.splits; ++split) {
    const Sum* const from = partial_sums(params, tile, split, threadIdx.x);
#pragma unroll
    for (int i = 0; i < kSums; ++i) SUMS[i] += from[i * kThreads];
  }
  write_sums(params, tile, sums, threadIdx.x);
}

#else

KERNEL(gemm, ortconv::cuda::Gemm, ortconv::cuda::kThreads, BLOCKS) {
  using namespace ortconv::cuda;
  const Tile tile = tile_of(params, blockIdx.x);
  Sums sums = {};
  if (!is_misaligned(params)) sum_products(params, tile, sums, threadIdx.x);
  // Tested after the products to hide the latency of the load.
  if (is_misaligned(params) || is_unsuitable(params)) {
    convolve(params.problem, static_cast<long long>(blockIdx.x) * kThreads + threadIdx.x,
             static_cast<long long>(gridDim.x) * kThreads);
    return;
  }
  if (params.splits == 1) {
    write_sums(params, tile, sums, threadIdx.x);
    return;
  }
  Sum* const to = partial_sums(params, tile, tile.split, threadIdx.x);
#pragma unroll
  for (int i = 0; i < kSums; ++i) to[i * kThreads] = SUMS[i];
}

#endif

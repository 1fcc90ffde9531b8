// MatMulNBits for many rows: dequantizes the weights into packed weights for the GEMM. FLOATS and TF32 are as in
// packed.h. A block writes a panel and four steps at a time, each thread a chunk.

#include "cuda/device/codes.h"
#include "cuda/device/packed.h"
#include "cuda/params/convolution.h"

namespace ortconv {
namespace cuda {

constexpr int kSteps = 4;  // that a block writes at a time
constexpr int kCodeBytes = kPerChunk * kBits / 8;
constexpr int kCodeWords = (kCodeBytes + 3) / 4;

// Loads the quantized values of a chunk, zeros beyond the row.
__device__ inline void load_codes(const Unpack& p, long long column, int k, unsigned (&words)[kCodeWords]) {
  const CompressedWeights& w = p.weights;
  const long long first = column * w.depth + k;
  const unsigned char* const from = static_cast<const unsigned char*>(w.codes) + first * kBits / 8;
#pragma unroll
  for (int i = 0; i < kCodeWords; ++i) words[i] = 0;
  if (p.whole == 0) {
#pragma unroll
    for (int i = 0; i < kPerChunk; ++i) {
      if (k + i < w.depth) words[i / kPerWord] |= code_at(w.codes, first + i, w.flip) << i % kPerWord * kBits;
    }
    return;
  }
  if (kCodeBytes == 2) {
    words[0] = *reinterpret_cast<const unsigned short*>(from);
  } else {
    load_words(words, from);
  }
#pragma unroll
  for (int i = 0; i < kCodeWords; ++i) words[i] ^= w.flip;
}

// Converts a weight for packing: to the element type for tensor cores, otherwise float.
__device__ inline Packed packed_of_weight(float value) {
#if FLOATS
  return value;
#else
  return packed_of(to_element(value));
#endif
}

}  // namespace cuda
}  // namespace ortconv

KERNEL(unpack, ortconv::cuda::Unpack, 256, 4) {
  using namespace ortconv::cuda;
  const Unpack& p = params;
  const CompressedWeights& w = p.weights;
  const int thread = threadIdx.x, panel = blockIdx.x;
  float* const table = reinterpret_cast<float*>(shared_memory());
  if (kHasTable) {
    copy_table(w, table, thread);
    __syncthreads();
  }
  if (panel == 0 && blockIdx.y == 0 && thread == 0) {
    PackedHeader* const header = reinterpret_cast<PackedHeader*>(p.packed);
    header->is_unsuitable = 0;  // there is no padding
    Shift* const shift = reinterpret_cast<Shift*>(header + 1);
    for (int a = 0; a < kMaxAxes; ++a) shift->delta[a] = 0;
    shift->phases = ~0u;
  }
  // Neighbouring threads write adjacent chunks.
#if FLOATS
  const int row = thread % kPanelRows, chunk = thread / kPanelRows % kChunks;
#else
  const int row = thread / kChunks % kPanelRows, chunk = thread % kChunks ^ (row >> 1 & 3);
#endif
  const long long column = static_cast<long long>(panel) * kPanelRows + row;
  for (int step = blockIdx.y * kSteps + thread / (kPanelRows * kChunks); step < p.steps; step += gridDim.y * kSteps) {
    Packed values[kPerChunk];
#pragma unroll
    for (int i = 0; i < kPerChunk; ++i) values[i] = Packed();
    const int k = (step * kChunks + chunk) * kPerChunk;
    if (column < w.columns && k < w.depth) {
      unsigned words[kCodeWords];
      load_codes(p, column, k, words);
      BlockCounter block(w, column, k);
#pragma unroll
      for (int i = 0; i < kPerChunk; ++i) {
        if (k + i >= w.depth) continue;
        if (i > 0) block.next(w);
        values[i] = packed_of_weight(block.value(words[i / kPerWord] >> i % kPerWord * kBits & kCodeMask, table));
      }
    }
    unsigned char* const block_of_row =
        p.packed + p.offset + (static_cast<long long>(panel) * p.steps + step) * kBlockBytes;
    put_chunk(block_of_row, row, chunk, values);
  }
}

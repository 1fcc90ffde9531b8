// Copies src to a channels-last layout with channels padded to whole chunks. A block copies 64 positions of up to 4
// chunks through shared memory. The copy of integers includes the padding, see params/convolution.h.

#include "cuda/device/device.h"
#include "cuda/device/words.h"
#include "cuda/params/convolution.h"

namespace ortconv {
namespace cuda {

constexpr int kPerChunk = kChunkBytes / sizeof(SrcElement);
constexpr int kPerWord = 4 / sizeof(SrcElement);
constexpr int kTilePositions = 64;
constexpr int kTileChunks = 4;
constexpr int kTileWords = kTileChunks * kChunkBytes / 4;
// The pitch of a position in the tile, in words; odd, so that neither reads nor writes have bank conflicts.
constexpr int kTileRow = kTileWords + 1;

// The value of padding, and of the elements beyond the channels, which meet zero weights.
__device__ inline SrcElement filling(const Gather& p) {
#if ELEMENT == 3
  if (p.x_zero != nullptr) return *static_cast<const SrcElement*>(p.x_zero);
#endif
  return SrcElement();
}

}  // namespace cuda
}  // namespace ortconv

KERNEL(gather, ortconv::cuda::Gather, 256, 4) {
  using namespace ortconv::cuda;
  const Gather& p = params;
  unsigned* const tile = reinterpret_cast<unsigned*>(shared_memory());
  const SrcElement* const src = static_cast<const SrcElement*>(p.src);
  const SrcElement fill = filling(p);
  const int thread = threadIdx.x;
  const long long first = static_cast<long long>(blockIdx.x) * kTilePositions;

  // A thread copies one position and every fourth word of channels, so that the loads of a warp are coalesced.
  const int column = thread % kTilePositions;
  const long long position = first + column;
  long long rest = position, from = 0;
  bool inside = position < p.positions;
  for (int a = p.ndims - 1; a >= 0; --a) {
    const long long at = rest % p.size[a] - p.pad[a];
    inside = inside && at >= 0 && at < p.src_size[a];
    from += at * p.src_step[a];
    rest /= p.size[a];
  }
  from += rest * p.src_n;
  const int tiles = (p.chunks + kTileChunks - 1) / kTileChunks;
  for (int i = blockIdx.y; i < tiles * p.groups; i += gridDim.y) {
    const int group = i / tiles, chunk = i % tiles * kTileChunks;
    const SrcElement* const source = src + from + static_cast<long long>(group) * p.icg * p.src_c;
    for (int word = thread / kTilePositions; word < kTileWords; word += 256 / kTilePositions) {
      SrcElement values[kPerWord];
#pragma unroll
      for (int e = 0; e < kPerWord; ++e) {
        const int channel = chunk * kPerChunk + word * kPerWord + e;
        values[e] = inside && channel < p.icg ? source[channel * p.src_c] : fill;
      }
      tile[column * kTileRow + word] = word_of(values);
    }
    __syncthreads();
    {
      const int row = thread / kTileChunks, part = thread % kTileChunks;
      if (first + row < p.positions && chunk + part < p.chunks) {
        const long long to = ((first + row) * p.groups + group) * p.chunks + chunk + part;
        const unsigned* const words = tile + row * kTileRow + part * (kChunkBytes / 4);
        store_chunk(p.dst + to * kChunkBytes, words[0], words[1], words[2], words[3]);
      }
    }
    __syncthreads();
  }
}

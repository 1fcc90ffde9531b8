// Copies src so that the channels of a position are together, filled up with zeros to whole chunks. A block copies 64
// positions of up to 32 channels through shared memory.

#include "cuda/device.h"
#include "cuda/params.h"

namespace ortconv {
namespace cuda {

constexpr int kPerChunk = kChunkBytes / sizeof(Element);
constexpr int kTilePositions = 64;
constexpr int kTileChunks = 4;
constexpr int kTileChannels = kTileChunks * kPerChunk;
// A row of the tile is a position. An odd number of words, so that neither way of walking meets a bank twice.
constexpr int kTileRow = kTileChannels + 4 / sizeof(Element);

}  // namespace cuda
}  // namespace ortconv

KERNEL(gather, ortconv::cuda::Gather, 256, 4) {
  using namespace ortconv::cuda;
  const Gather& p = params;
  Element* const tile = reinterpret_cast<Element*>(shared_memory());
  const Element* const src = static_cast<const Element*>(p.src);
  const int thread = threadIdx.x;
  const long long first = static_cast<long long>(blockIdx.x) * kTilePositions;

  // One position and every fourth channel for a thread, so that a warp reads neighbours.
  const int column = thread % kTilePositions;
  const long long position = first + column;
  long long rest = position, from = 0;
  for (int a = p.ndims - 1; a >= 0; --a) {
    from += rest % p.size[a] * p.src_step[a];
    rest /= p.size[a];
  }
  from += rest * p.src_n;
  const int tiles = (p.chunks + kTileChunks - 1) / kTileChunks;
  for (int i = blockIdx.y; i < tiles * p.groups; i += gridDim.y) {
    const int group = i / tiles, chunk = i % tiles * kTileChunks;
    const Element* const source = src + from + static_cast<long long>(group) * p.icg * p.src_c;
    for (int c = thread / kTilePositions; c < kTileChannels; c += 256 / kTilePositions) {
      const int channel = chunk * kPerChunk + c;
      const bool present = position < p.positions && channel < p.icg;
      tile[column * kTileRow + c] = present ? source[channel * p.src_c] : Element();
    }
    __syncthreads();
    {
      const int row = thread / kTileChunks, part = thread % kTileChunks;
      if (first + row < p.positions && chunk + part < p.chunks) {
        const long long to = ((first + row) * p.groups + group) * p.chunks + chunk + part;
        const unsigned* const words = reinterpret_cast<const unsigned*>(tile + row * kTileRow + part * kPerChunk);
        store_chunk(p.dst + to * kChunkBytes, words[0], words[1], words[2], words[3]);
      }
    }
    __syncthreads();
  }
}

// Arguments of the MatMulNBits kernels (weight-only quantization, see compressed_plan.h), shared by host and device.
// NVRTC compiles this header without any other, so it includes nothing.
#pragma once

namespace ortconv {
namespace cuda {

constexpr int kTableNumbers = 16;

// Quantized weights: (codes[column][k] - zeros[column][k / block]) * scales[column][k / block], or with a codebook
// (TABLE) table[codes[column][k]] * scales[column][k / block].
struct CompressedWeights {
  const void* codes;
  const void* scales;
  const void* zeros;   // of the same type as codes; null: all are 0
  const float* table;  // kTableNumbers
  long long columns, depth, block, blocks;
  unsigned flip;  // XORed into every word, which makes signed codes unsigned; code - zero does not change
};

// dst[row][column] = sum over k of src[row][k] * weights[column][k].
//
// With an expert index, row `row` of dst multiplies row `row / sharing` of src by matrix index[row] of `matrices`,
// which lie one after the other. A row whose index is out of range is zeros.
struct CompressedDots {
  CompressedWeights weights;
  const void* src;
  void* dst;
  long long rows;
  // Distance from a lane's elements of one step to those of the next, in blocks and remaining elements.
  long long step_blocks, step_rest;
  const long long* index;
  long long matrices, sharing;
};

// Dequantizes the matrix into packed weights of one shift, see params/convolution.h.
struct Unpack {
  CompressedWeights weights;
  unsigned char* packed;
  long long offset;  // of the blocks in `packed`
  int panels, steps;
  int whole;  // each chunk of codes is aligned and ends within its row
};

// Shared memory of compressed_dots: a step of src for each warp along the depth, by lanes; the sums of every warp; the
// codebook. The pitch of each four elements avoids bank conflicts.
constexpr int kDotThreads = 256;
constexpr int kFourPitch = 32 * 4 + 4;

// Shared memory of compressed_mma: padding between the rows of a step of src, in bytes, and the pitch of sums, in
// floats.
constexpr int kMmaColumns = 16;
constexpr int kMmaRowPadding = 64;
constexpr int kMmaSumPitch = kMmaColumns + 4;

}  // namespace cuda
}  // namespace ortconv

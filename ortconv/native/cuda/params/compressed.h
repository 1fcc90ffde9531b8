// The arguments of the kernels for products by compressed weights, see compressed_plan.h. Part of the text of their
// programs, so it includes nothing.
#pragma once

namespace ortconv {
namespace cuda {

constexpr int kTableNumbers = 16;

// A matrix of (codes[column][k] - zeros[column][k / block]) * scales[column][k / block] or, where a program has a
// TABLE, of table[codes[column][k]] * scales[column][k / block].
struct CompressedWeights {
  const void* codes;
  const void* scales;
  const void* zeros;   // codes as well; null: all are 0
  const float* table;  // kTableNumbers
  long long columns, depth, block, blocks;
  unsigned flip;  // the bits that are flipped in every byte, so that codes are unsigned; the difference is the same
};

// dst[row][column] = sum over k of src[row][k] * weights[column][k].
//
// With an index, that of rows of src [row / sharing] and weights [index[row] * columns + column], which are as many
// matrices one after the other; zeros where the index is negative, or that many or more.
struct CompressedDots {
  CompressedWeights weights;
  const void* src;
  void* dst;
  long long rows;
  // How far it is, in blocks and elements, from what a lane has of a step to what it has of the next one.
  long long step_blocks, step_rest;
  const long long* index;
  long long matrices, sharing;
};

// Writes the matrix as packed weights, see params.h, of one shift.
struct Unpack {
  CompressedWeights weights;
  unsigned char* packed;
  long long offset;  // of the blocks in `packed`
  int granules, steps;
  int whole;  // every chunk begins where the codes of a chunk can be read at once, and ends within the row
};

// Shared memory of a block that computes dots: a step of src for each of the warps that share a sum, by lanes, then a
// sum of every warp, and the table. Fours of elements are a few banks apart.
constexpr int kDotThreads = 256;
constexpr int kFourPitch = 32 * 4 + 4;

// The same on tensor cores: what is between the rows of a step of src, in bytes, and then the sums of a row, in floats.
constexpr int kMmaColumns = 16;
constexpr int kMmaRowPadding = 64;
constexpr int kMmaSumPitch = kMmaColumns + 4;

}  // namespace cuda
}  // namespace ortconv

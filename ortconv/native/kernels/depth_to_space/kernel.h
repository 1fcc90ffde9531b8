// GEMM microkernels that write their result as sub-pixel convolution does: from the registers to where it belongs.
//
// Rows of C come in groups of `phases`, whose elements alternate in memory. Element phases * n + p of a group is
//     sum over k of a[k][group][p] * b[k][n] + bias[group]     for 0 <= p < phases, 0 <= n < columns,
// activated. The operands are sums, to which numbers are widened, or pairs of bf16 numbers, two channels each, where k
// counts the pairs. The elements of a group go to dst + offset[group], in pieces that are the same for every group. A
// line is as many elements as a vector has bytes for.
//
// A new kernel supplies function templates for every T of Kernel, instantiated in a file named after its ISA, and one
// row in kernels.inc; one of pairs those for Bfloat16, and a row in kernels_pairs.inc.
#pragma once

#include <cstdint>
#include <tuple>

#include "base/activation.h"
#include "base/arch.h"
#include "kernels/element.h"

namespace ortconv::kernels::depth_to_space {

// Elements [begin, end) of a group, which go to the same row of dst: element e to offset + e.
struct Piece {
  int64_t offset;
  int32_t begin, end;
};

// What pieces there are: any; one for every line; the same, which fill whole cache lines, so that they may go past the
// caches.
enum class Pieces { kAny, kWhole, kWholeLines };

template <class T, class Operand>
struct GemmArgs {
  int64_t phases, groups;
  int64_t columns;  // 1..kVectors vectors; b has room for all of them
  int64_t k;        // at least 1
  int64_t piece;    // that many products are summed one after the other (see kernels/gemm/pieces.h)
  const Operand* a;
  const Operand* b;
  T* dst;
  const int64_t* offset;         // [group]
  const Sum<T>* bias;            // [group]
  const Activation* activation;  // of what is rounded to T; null: none
  const Piece* pieces;           // of all elements, in their order
  int64_t num_pieces;
  Pieces store;
};

// Columns whose src is contiguous.
struct Run {
  int64_t cell, length, offset;
};

// out[c * pitch + run.cell + i] = src[c * channel_stride + run.offset + i], widened   for 0 <= i < run.length;
// pairs hold channels 2 * c and 2 * c + 1, or zero in place of the latter if there is none.
template <class T, class Operand>
struct PackArgs {
  const T* src;
  int64_t channels, channel_stride;
  int64_t ahead;  // how far behind each channel is the one that is asked for meanwhile
  const Run *runs, *runs_end;
  Operand* out;
  int64_t pitch;
};

template <class T, class Operand = Sum<T>>
struct Functions {
  void (*gemm)(const GemmArgs<T, Operand>&);
  uint32_t (*pack)(const PackArgs<T, Operand>&);  // returns the bits of the largest magnitude, of pairs; else zero
};

struct Kernel {
  const char* name;
  int64_t bytes;                      // of a vector of sums and of a line
  int64_t (*groups)(int64_t phases);  // most of one call; zero where the kernel does not take so many phases
  std::tuple<Functions<float>, Functions<double>, Functions<Float16>, Functions<Bfloat16>> functions;
  void (*fence)();  // after a thread's last call that may have written past the caches

  template <class T>
  const Functions<T>& to() const {
    return std::get<Functions<T>>(functions);
  }
};

constexpr int64_t kVectors = 2;  // of columns: one or two

// Null where there is none for these flags.
const Kernel* get_kernel(const ArchFlags& arch);

// For sizes as those of get_kernel(). Null where pairs are not multiplied faster than their numbers in floats.
using PairFunctions = Functions<Bfloat16, BfloatPair>;
const PairFunctions* get_pair_functions(const ArchFlags& arch);

}  // namespace ortconv::kernels::depth_to_space

// GEMM on bf16 units for floats that are held as sums of bf16 numbers, their parts.
//
// A float is exactly the sum of three parts: the nearest bf16 number, the nearest one to what is then left, and the
// rest. Of the nine products of two such sums six are computed; the other three are together below 2^-25 of the whole,
// less than the rounding of one product. A float of 16 bits has two parts, all of whose products are computed. Sums of
// 32 products are added up at a time, so the result is, if anything, nearer to the true one than a sum of float
// products.
//
// The units take numbers below 2^-126 for zero, and parts of what is near infinity would overflow. So the scheme holds
// for magnitudes in a range only (kSmallest ... kLargest); whoever splits the operands sees to that.
//
// A new kernel supplies the functions of Bf16SplitKernel in files named after its ISA and one row in kernels.inc.
#pragma once

#include <cstdint>

#include "base/arch.h"
#include "base/dtype.h"
#include "base/float16.h"

namespace ortconv::kernels {

// Parts that are exactly a number of T; none: there is no such number of them.
template <class T>
constexpr int64_t kNumParts = 0;
template <>
inline constexpr int64_t kNumParts<float> = 3;
template <>
inline constexpr int64_t kNumParts<Float16> = 2;
template <>
inline constexpr int64_t kNumParts<Bfloat16> = 1;

constexpr int64_t kPartChannels = 32;  // channels of one cell, padded with zeros
constexpr int64_t kPartRows = 16;      // rows of C that one tile of weights holds
constexpr int64_t kPartColumns = 16;   // columns of C that one tile of cells holds
constexpr int64_t kMaxPartRows = 32;   // of one call

// The largest magnitude of an operand. If it is in this range or zero, then what the units take for zero is in sum
// below 2^-40 of the largest product.
constexpr float kSmallestLargest = 0x1p-40f, kLargest = 0x1p40f;

// The channel of a block of kPartChannels that the i-th bf16 number of a cell belongs to.
constexpr int64_t part_channel(int64_t i) { return i / 2 + i % 2 * 16; }

// c[r][n] (+)= sum over k, tap, channel of a[k][tap][channel][r] * b[k][n + tap_offset[tap]][channel]
//
// rows: 1..kMaxPartRows. a: [k][tap][part][tile of kPartRows rows][pair of numbers][row][2], 64-byte aligned.
// cols: a positive multiple of kPartColumns. b: cells of kPartChannels numbers, 64-byte aligned, those of the next
// part `part_stride` numbers on, and those of the next k after the last part.
// accumulate: add to what c holds; otherwise c is overwritten. c needs no alignment.
// Every element is summed in the same order whatever rows and cols are.
struct SplitGemmArgs {
  int64_t parts;  // 1..3, of a and of b
  int64_t rows, cols;
  int64_t taps, k;
  const uint16_t* a;
  const uint16_t* b;
  const int64_t* tap_offset;  // in cells
  int64_t part_stride;
  float* const* c;  // one pointer per row
  bool accumulate;
};

// Splits `cells` cells of up to kPartChannels channels; the numbers of channels that are not there are zero.
//
// The value of channel i at cell x is src[i * channel_stride + x * cell_stride]. Cell x goes to out + x *
// kPartChannels, its next part `part_stride` numbers on. Returns the bits of the largest magnitude, as a float.
template <class T>
struct SplitArgs {
  const T* src;
  int64_t channels, channel_stride;
  int64_t cells, cell_stride;
  uint16_t* out;
  int64_t part_stride;
};

struct Bf16SplitKernel {
  const char* name;
  int64_t most_parts;                                       // that numbers may have
  double product_cost;                                      // of two tiles, where 256 products of floats cost 10
  void (*gemm)(const SplitGemmArgs* calls, int64_t count);  // one after the other
  uint32_t (*split_f32)(const SplitArgs<float>&);
  uint32_t (*split_f16)(const SplitArgs<Float16>&);
  uint32_t (*split_bf16)(const SplitArgs<Bfloat16>&);

  uint32_t split(const SplitArgs<float>& args) const { return split_f32(args); }
  uint32_t split(const SplitArgs<Float16>& args) const { return split_f16(args); }
  uint32_t split(const SplitArgs<Bfloat16>& args) const { return split_bf16(args); }
};

// Null where the CPU has nothing of the kind.
const Bf16SplitKernel* get_bf16_split_kernel(const ArchFlags& arch);

// Whether all of these numbers together are of a magnitude that parts stand for well enough.
bool parts_suit(DataType dtype, const void* numbers, int64_t count);

// The first `count` parts of a finite number, as bf16 bits.
void split_number(float value, int64_t count, uint16_t* parts);

}  // namespace ortconv::kernels

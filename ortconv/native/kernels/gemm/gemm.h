// Register-blocked GEMM microkernels over a shifted-row B.
//
// The B operand is never materialised per tap: row (tap, k) of B starts at b + tap_offset[tap] + k * ldb, so the
// shifted copies that a convolution multiplies are views of one buffer.
//
// A new kernel supplies one function of type BasicGemmFn in a file named after its ISA and one row in kernels.inc, in
// kernels_f64.inc or, for pairs of bf16 numbers, in kernels_pairs.inc. One for floats may also supply functions for a B
// of 16 bits, which is widened as it is read; all of its functions then round sums to 16 bits if told to.
#pragma once

#include <cstdint>
#include <type_traits>

#include "base/arch.h"
#include "kernels/element.h"

namespace ortconv::kernels {

// What sums are rounded to.
enum class Rounding : char { kNone, kFloat16, kBfloat16 };

// c[r][n] (+)= sum over tap, k of a[tap][k][r] * b[tap_offset[tap] + k * ldb + n]   for r < rows, n < cols.
//
// rows: 1..mr of the kernel; a is packed [taps][k][lda], of which the first rows are used.
// cols: at least 1. No other columns of b are read. In every row c is writable up to the next multiple of kGemmColumns:
// what a call leaves there beyond cols has no meaning. b and c need no alignment.
// piece: that many products are summed one after the other, then added to the sum of the previous ones of this call:
// summing in pieces makes the error smaller (see pieces.h).
// accumulate: add the sum of the call to what c holds; otherwise c is overwritten.
// Every element is summed in the same order (tap, then k) whatever rows and cols are.
// T: float, double or BfloatPair.
template <class T, class B = T>
struct BasicGemmArgs {
  int64_t rows, cols;
  int64_t taps, k;  // both at least 1
  const T* a;
  const B* b;
  const int64_t* tap_offset;
  int64_t ldb;
  Sum<T>* const* c;  // one pointer per row
  int64_t piece;     // at least 1
  bool accumulate;
  // Prefetch hints, which kernels may ignore: A is cold; B is cold and read once; `next` is read soon. Of `next`, a
  // call may prefetch one cache line per product of a sum.
  bool far_a = false, far_b = false;
  const void* next = nullptr;
  int64_t lda = rows;
  // For kernels that take strips, of B of one tap. Strips are kGemmColumns columns whose rows follow each other.
  // copy_of_b: where the strips of a far B are copied to as it is read, cols in whole multiples of kGemmColumns; or
  // null. strip_step: from the beginning of a strip of the copy to that of the next one; without a copy B lies in such
  // strips, and ldb is kGemmColumns. Or zero.
  T* copy_of_b = nullptr;
  int64_t strip_step = 0;
  // For kernels that round: the rows of c are of numbers of 16 bits, of B's type if that has 16 bits, which sums are
  // rounded to, with the bias of their row; null: none. Nothing is accumulated then.
  Rounding rounding = Rounding::kNone;
  const Sum<T>* bias = nullptr;
};
template <class T, class B = T>
using BasicGemmFn = void (*)(const BasicGemmArgs<T, B>&);

constexpr int64_t kGemmColumns = 16;
constexpr int64_t kMaxRows = 16;  // no kernel has a larger mr

template <class T>
struct BasicGemmKernel {
  const char* name;
  int64_t mr;  // most rows of one call
  BasicGemmFn<T> run;
  BasicGemmFn<T, Float16> run_f16 = nullptr;
  BasicGemmFn<T, Bfloat16> run_bf16 = nullptr;
  bool takes_strips = false;  // whether it reads them, and writes copy_of_b

  // Whether it rounds sums if told to.
  bool rounds() const { return run_f16 != nullptr; }

  // The function for such a B; null where there is none.
  template <class B>
  BasicGemmFn<T, B> of() const {
    if constexpr (std::is_same_v<B, Float16>) {
      return run_f16;
    } else if constexpr (std::is_same_v<B, Bfloat16>) {
      return run_bf16;
    } else {
      return run;
    }
  }
};

using GemmArgs = BasicGemmArgs<float>;
using GemmKernel = BasicGemmKernel<float>;

// The best kernels for these flags; the portable ones when no others fit.
const GemmKernel& get_gemm_kernel(const ArchFlags& arch);
const BasicGemmKernel<double>& get_gemm_f64_kernel(const ArchFlags& arch);

// Of pairs of channels: a product is the sum of the products of both. Numbers below 2^-126 count as zero. Null where
// multiplying pairs is no faster than multiplying floats.
const BasicGemmKernel<BfloatPair>* get_gemm_pairs_kernel(const ArchFlags& arch);

}  // namespace ortconv::kernels

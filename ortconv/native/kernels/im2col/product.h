// What both directions share: the kernels, the product of two tiles, writing tiles to dst.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "base/math.h"
#include "kernels/add_rows/add_rows.h"
#include "kernels/conv/conv.h"
#include "kernels/conv/plan.h"
#include "kernels/dots/dots.h"
#include "kernels/element.h"
#include "kernels/epilogue/epilogue.h"
#include "kernels/expand/expand.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/pieces.h"
#include "kernels/interleave/interleave.h"
#include "kernels/sum_parts/sum_parts.h"
#include "kernels/to_float/to_float.h"
#include "kernels/transpose/transpose.h"
#include "kernels/write_lines/write_lines.h"

namespace ortconv::kernels::im2col {

constexpr int64_t kMostDepth = 256;  // products of one sum that one call of the kernel adds up
constexpr int64_t kMostCalls = 64;   // whose results are added one after the other, before they are added to the totals
constexpr int64_t kRowBytes = 2048;  // of sums in a tile
template <class Cell>
constexpr int64_t kTileColumns = kRowBytes / static_cast<int64_t>(sizeof(Cell));
constexpr int64_t kTileRows = 256;

inline int64_t whole_vectors(int64_t columns) { return ceil_div(columns, kGemmColumns) * kGemmColumns; }
// The distance between rows of so many columns: an odd number of cache lines, or rows would evict each other.
inline int64_t pitch_of(int64_t columns) { return whole_vectors(columns) + kGemmColumns; }

// Rows of a panel of weights that are the B operand: a vector, so that all its channels are next to each other, or more
// where few channels make a call short; an odd number of vectors, or the rows of B would evict each other.
constexpr int64_t kMostPanelRows = 112;
inline int64_t panel_rows(int64_t channels) {
  constexpr int64_t kFewChannels = 128;
  return channels <= kFewChannels ? kMostPanelRows : kGemmColumns;
}

constexpr int64_t kFew = 24;  // numbers

template <class Cell>
void zero(Cell* out, int64_t n) {
  if (n < kFew) {
    for (int64_t i = 0; i < n; ++i) out[i] = 0;
  } else {
    std::fill_n(out, n, Cell());
  }
}

// No early exit, so that the loop vectorizes.
template <class Cell>
bool are_finite(const Cell* cells, int64_t count) {
  int found = 0;
  for (int64_t i = 0; i < count; ++i) found |= std::fabs(cells[i]) <= std::numeric_limits<Cell>::max() ? 0 : 1;
  return found == 0;
}

template <class T>
struct Kernels {
  const BasicGemmKernel<Sum<T>>& gemm;
  const InterleaveKernel& interleave;
  const ExpandKernel& expand;
  const DotsKernel& dots;
  const TransposeKernel& transpose;
  const ToFloatKernel& widen;
  const AddRowsKernel& add_rows;
  const SumPartsKernel& sum_parts;
  const EpilogueKernel& activate;
  const WriteLinesKernel& write_lines;

  explicit Kernels(const ArchFlags& arch)
      : gemm(gemm_for(arch)),
        interleave(get_interleave_kernel(arch)),
        expand(get_expand_kernel(arch)),
        dots(get_dots_kernel(arch)),
        transpose(get_transpose_kernel(arch)),
        widen(get_to_float_kernel(arch)),
        add_rows(get_add_rows_kernel(arch)),
        sum_parts(get_sum_parts_kernel(arch)),
        activate(get_epilogue_kernel(arch)),
        write_lines(get_write_lines_kernel(arch)) {}

  // out[i] = in[i * step], without a library call for a few numbers, which it would slow down.
  void load(const T* in, int64_t step, int64_t n, Sum<T>* out) const {
    if (step != 1) {
      for (int64_t i = 0; i < n; ++i) out[i] = kernels::widen(in[i * step]);
    } else if constexpr (std::is_same_v<T, Sum<T>>) {
      if (n < kFew) {
        for (int64_t i = 0; i < n; ++i) out[i] = in[i];
      } else {
        std::copy_n(in, n, out);
      }
    } else {
      widen.run(in, n, out);
    }
  }

 private:
  static const BasicGemmKernel<Sum<T>>& gemm_for(const ArchFlags& arch) {
    if constexpr (std::is_same_v<T, double>) {
      return get_gemm_f64_kernel(arch);
    } else {
      return get_gemm_kernel(arch);
    }
  }
};

// How many products are summed one after the other, and how many a tile holds.
inline Pieces pieces_of(int64_t products) {
  Pieces pieces = best_pieces(products);
  pieces.call = std::min(pieces.call, kMostDepth);
  return pieces;
}

// c[row][column] (+)= sum over k of a[k][row] * b[offsets[k] + column] for rows of one panel, which are `pitch` apart.
template <class Cell>
void multiply(const BasicGemmKernel<Cell>& gemm, int64_t rows, int64_t columns, int64_t depth, const Cell* a,
              const Cell* b, const int64_t* offsets, Cell* c, int64_t pitch, int64_t piece, bool accumulate) {
  Cell* out[kMaxRows];
  for (int64_t r = 0; r < rows; ++r) out[r] = c + r * pitch;
  gemm.run({rows, columns, depth, 1, a, b, offsets, 0, out, piece, accumulate});
}

// Adds to the totals of sums that are too long for a single chain of calls.
template <class Cell>
void add_to_totals(bool first, const Cell* sums, int64_t count, Cell* totals) {
  if (first) {
    std::copy_n(sums, count, totals);
  } else {
    for (int64_t i = 0; i < count; ++i) totals[i] += sums[i];
  }
}
inline bool has_totals(int64_t products) { return products > kMostDepth * kMostCalls; }

// Writes sums of `channels` dst channels, rows that are `pitch` apart, to `length` positions of the last axis. `bias`
// is null, or one number for each.
template <class T>
void store(const Kernels<T>& kernels, const ConvProblem& p, const Sum<T>* sums, int64_t pitch, int64_t channels,
           int64_t length, const Sum<T>* bias, T* dst) {
  const int64_t step = p.dst_x[p.ndims - 1];
  if (step == 1) {
    const InterleaveArgs<T> args{&sums, pitch, channels, length, 1, bias, dst, p.dst_c, Store::kCached};
    kernels.interleave.template to<T>()(args.joined());
  } else if (p.dst_c == 1) {
    kernels.transpose.template to<T>()(sums, pitch, channels, length, bias, dst, step);
  } else {
    for (int64_t c = 0; c < channels; ++c) {
      const Sum<T> add = bias == nullptr ? -Sum<T>() : bias[c];
      for (int64_t i = 0; i < length; ++i) round_to(dst + c * p.dst_c + i * step, sums[c * pitch + i] + add);
    }
  }
}

// Applies the activation, if there is one, to rows of sums, after adding the bias. Returns the bias that is left to
// add.
template <class T>
const Sum<T>* activate(const Kernels<T>& kernels, const ConvProblem& p, Sum<T>* sums, int64_t pitch, int64_t channels,
                       int64_t length, const Sum<T>* bias) {
  if constexpr (!std::is_same_v<T, double>) {  // which has none
    if (!p.activation.is_identity()) {
      for (int64_t c = 0; c < channels; ++c) {
        kernels.activate.template run<T>(p.activation, bias == nullptr ? 0.0f : bias[c], length, sums + c * pitch);
      }
      return nullptr;
    }
  }
  return bias;
}

// Lays out the parts of a buffer, each aligned to 64 bytes.
class Parts {
 public:
  template <class T>
  size_t add(int64_t count) {
    const size_t at = bytes_;
    bytes_ += align64(static_cast<size_t>(count) * sizeof(T));
    return at;
  }
  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_ = 0;
};

// One slice of scratch per thread, and work items [0, items).
struct Work {
  size_t slice_bytes;
  int64_t items;
};

// What a run reads and writes; bias may be null.
template <class T>
struct Data {
  const T *src, *wei, *bias;
  T* dst;
};

}  // namespace ortconv::kernels::im2col

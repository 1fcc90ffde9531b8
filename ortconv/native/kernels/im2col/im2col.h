// dst[channel][position] = sum over k of weights[channel][k] * patches[k][position], where k counts src channels and
// taps.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/im2col/product.h"

namespace ortconv::kernels::im2col {

// Output y reads, by tap k, what is at y * stride + k * dilation + offset, if that is inside src.
struct Im2colAxis {
  int64_t ker, stride, dilation, offset, src_size, dst_size;
};

// A convolution; or a transposed one without strides, whose taps count backwards.
template <class T>
class Im2col {
 public:
  using Cell = Sum<T>;

  Im2col(Op op, const ConvProblem& p, const ArchFlags& arch, int threads);

  Work work() const { return {slice_bytes_, p_.g * num_tiles_ * num_blocks_}; }
  void run(int64_t item, const Data<T>& data, char* slice) const;

 private:
  // Positions of a tile in one row of dst.
  struct Segment {
    int64_t column, length, image, y[kMaxSpatial];
  };
  // Consecutive taps of the last axis, of one channel.
  struct TapRun {
    int64_t row, count, channel, tap[kMaxSpatial];
  };
  // The taps of each axis that meet src somewhere in a tile.
  struct Box {
    int64_t first[kMaxSpatial], count[kMaxSpatial], products;
  };
  struct Tile;

  int64_t list_segments(int64_t begin, int64_t end, Segment* segments) const;
  Box meeting(int64_t begin, int64_t end) const;
  int64_t list_runs(const Box& box, int64_t begin, int64_t end, TapRun* runs, int64_t* weights) const;
  const T* row_of(const TapRun& run, const Segment& segment, const T* src) const;
  bool read_in_place(const TapRun& run, const Tile& tile, const T* row) const;
  void fill(const TapRun& run, const Tile& tile, const T* src) const;
  void fill_columns(const Segment& segment, const T* row, int64_t tap, int64_t begin, int64_t end, Cell* out) const;
  bool pack(const T* wei, int64_t rows, const int64_t* weights, int64_t depth, const Tile& tile) const;
  void add_infinite(const T* wei, int64_t rows, int64_t begin, int64_t end, const Tile& tile, const T* src,
                    Cell* sums) const;
  void prefetch(const T* wei, int64_t rows, const int64_t* weights, int64_t count) const;
  bool gather_columns(int64_t products, const Tile& tile) const;
  bool multiply_few(const T* wei, int64_t rows, int64_t products, const Tile& tile, bool accumulate, Cell* sums) const;
  void multiply_chunk(const T* src, const T* wei, int64_t channels, int64_t products, const Pieces& pieces,
                      const Tile& tile, bool accumulate) const;

  const ConvProblem& p_;
  const Kernels<T> kernels_;
  Im2colAxis axis_[kMaxSpatial];
  int64_t ic_, oc_;  // of a group
  int64_t ic_stride_, oc_stride_, group_stride_;
  int64_t positions_, columns_, num_tiles_;
  int64_t rows_, num_blocks_;  // of dst channels
  int64_t depth_;              // products whose operands exist at a time
  size_t segments_, runs_, weights_, offsets_, patches_, packed_, lines_, sums_, totals_, bias_, slice_bytes_;
};

}  // namespace ortconv::kernels::im2col

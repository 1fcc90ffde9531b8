// columns[position of src][dst channel, tap] = sum over src channels of src * weights, each added into dst where its
// tap lands.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/im2col/product.h"

namespace ortconv::kernels::im2col {

// A transposed convolution.
template <class T>
class Col2im {
 public:
  using Cell = Sum<T>;

  Col2im(const ConvProblem& p, const ArchFlags& arch, int threads);

  Work work() const { return {slice_bytes_, p_.mb * p_.g * num_blocks_ * num_slabs_}; }
  void run(int64_t item, const Data<T>& data, char* slice) const;

 private:
  struct Range {
    int64_t begin, end;
    int64_t count() const { return end - begin; }
  };
  // A position of src: its offset there, and where in dst its tap 0 lands.
  struct Position {
    int64_t src, y[kMaxSpatial];
  };
  // Consecutive taps of the last axis, of one dst channel.
  struct TapRun {
    int64_t column, count, channel, weight, tap[kMaxSpatial];
  };
  // What an item writes: an image, some channels of a group, and a slab along the first axis.
  struct Part {
    int64_t image, group, channel, channels;
    Range slab;
  };
  struct Tile;

  Range sources(int a, Range y) const;
  Range taps(int a, Range y, Range x) const;
  int64_t list_runs(const Part& part, Range channels, Range taps, TapRun* runs) const;
  void pack_positions(const T* src, const Tile& tile, int64_t depth) const;
  bool is_dense(const Tile& tile) const;
  const Cell* weights(const T* wei, const Tile& tile, int64_t depth, int64_t* pitch) const;
  const Cell* multiply_tile(const T* src, const T* wei, const Tile& tile) const;
  void add(const Part& part, const Tile& tile, const Cell* all_columns, Cell* sums) const;
  void finish(const Part& part, const Data<T>& data, Cell* sums, Cell* bias) const;

  const ConvProblem& p_;
  const Kernels<T> kernels_;
  int64_t ic_, oc_;                             // of a group
  Range inner_x_[kMaxSpatial];                  // positions of the axes after the first that reach dst
  Range inner_taps_[kMaxSpatial];               // and the taps by which they do
  int64_t inner_positions_, inner_taps_count_;  // how many
  int64_t inner_dst_;                           // positions of dst for one of the first axis
  bool few_positions_;                          // of src
  int64_t tile_channels_;                       // of dst in the columns of a tile
  int64_t block_channels_, num_blocks_;
  int64_t slab_, num_slabs_;
  size_t positions_, runs_, packed_, weights_, columns_, totals_, sums_, bias_, slice_bytes_;
};

}  // namespace ortconv::kernels::im2col

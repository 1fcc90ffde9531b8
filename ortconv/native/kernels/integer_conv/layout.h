// The layout of the arranged source of a convolution of 8-bit integers.
//
// The source is copied with its padding and split into planes, one per phase of the stride: positions that are a stride
// apart become neighbours. So a tap reads neighbours for neighbouring outputs, and one row further for an output in the
// next row: each tap is one constant offset.
//
// A row of a plane is as long as the taps of the last axis reach, so lanes between rows are computed in vain. Where
// they would be many (is_dense), each tap of the last axis has a plane of its own, without gaps between rows.
//
// Where a tap reads nothing but its output's position, all that a tile reads lies together: the lanes of all channels
// for as many positions as it has.
//
// Depthwise convolutions have a single plane, and their kernels handle strides of 2: there is too little to compute to
// pay for more copies.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/problem.h"
#include "kernels/integer_conv/kernel.h"

namespace ortconv::kernels {

struct IntegerAxis {
  int64_t src, grid;  // positions in the source, and of a plane
  int64_t stride, pad;
  std::vector<int64_t> reaches;  // of each tap, from the first position that any of them reads; ascending
  std::vector<int64_t> phases;   // that some tap reads, ascending
  int64_t step;                  // from an output to the next, in a plane
  bool is_dense = false;         // each tap has a phase

  int64_t phase_of(int64_t reach) const { return is_dense ? reach : reach % stride; }
};

struct IntegerConvLayout {
  // For a problem with outputs. None where there is nothing to arrange, or where the arranged source would take far
  // more memory than the source and the result.
  static std::optional<IntegerConvLayout> make(const ConvProblem& problem, const IntegerConvKernel& kernel);

  std::vector<IntegerAxis> axes;
  int64_t planes = 0, plane = 0;  // how many, and positions in one
  int64_t block_stride = 0;       // from a position of some channels to the same one of the next channels
  int64_t inputs, outputs;        // positions of a channel
  std::vector<int64_t> taps;      // the offset of each, in the order of the weights
  std::vector<PositionVector> positions;
  std::vector<std::vector<IntegerCopy>> copies;  // of each plane

 private:
  IntegerConvLayout(const ConvProblem& problem, bool is_dense);
  bool is_proportionate(const ConvProblem& problem, const IntegerConvKernel& kernel) const;
  void find(const ConvProblem& problem, const IntegerConvKernel& kernel);
  void put_together(int64_t blocks, int64_t count);
  double cost(const IntegerConvKernel& kernel) const;
  void find_taps(const ConvProblem& problem);
  void find_positions(const ConvProblem& problem, int lanes);
  void find_copies(int lanes);
  void copy_row(int64_t plane, int64_t row, int lanes, bool is_flat);
};

// Whether all taps of a channel are summed on their own, with few outputs for each channel.
bool is_integer_depthwise(const ConvProblem& problem);

// Neighbouring taps that one lane holds; -1 where there is none.
using IntegerWindow = std::array<int64_t, 4>;
std::vector<IntegerWindow> integer_windows(const ConvProblem& problem, const IntegerConvKernel& kernel);

}  // namespace ortconv::kernels

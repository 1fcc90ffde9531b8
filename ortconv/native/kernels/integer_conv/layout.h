// Where everything of a convolution of 8-bit integers lies once its source is arranged.
//
// The source is copied with its padding, and its positions are dealt out: those that a stride apart lie side by side,
// in a plane of their own for each phase of the stride. So what a tap reads for neighbouring outputs are neighbours,
// and for an output in the next row it is one row on: to change the tap is to move all of it by an offset.
//
// A row of a plane is as long as what the taps of the last axis reach, so lanes stay empty between rows. Where these
// would be many, each such tap has a plane of its own, in which rows follow each other without a gap.
//
// Depthwise layers, which have little to compute, leave strides of 2 to their kernels: they have a single plane.
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
  // Of a problem with outputs. None where there is nothing to arrange, or where it would take far more memory than the
  // source and the result do.
  static std::optional<IntegerConvLayout> make(const ConvProblem& problem, const IntegerConvKernel& kernel);

  std::vector<IntegerAxis> axes;
  int64_t planes = 0, plane = 0;  // how many, and positions in one
  int64_t inputs, outputs;        // positions of a channel
  std::vector<int64_t> taps;      // the offset of each, in the order of the weights
  std::vector<PositionVector> positions;
  std::vector<std::vector<IntegerCopy>> copies;  // of each plane

 private:
  IntegerConvLayout(const ConvProblem& problem, bool is_dense);
  bool is_proportionate(const ConvProblem& problem, const IntegerConvKernel& kernel) const;
  void find(const ConvProblem& problem, const IntegerConvKernel& kernel);
  double cost(const IntegerConvKernel& kernel) const;
  void find_taps(const ConvProblem& problem);
  void find_positions(const ConvProblem& problem, int lanes);
  void find_copies(int lanes);
  void copy_row(int64_t plane, int64_t row, int lanes, bool is_flat);
};

// Whether all taps of a channel are summed on their own, with few outputs for each channel.
bool is_integer_depthwise(const ConvProblem& problem);

// Taps that a lane takes at once, as their numbers are neighbours; -1 where there is none.
using IntegerWindow = std::array<int64_t, 4>;
std::vector<IntegerWindow> integer_windows(const ConvProblem& problem, const IntegerConvKernel& kernel);

}  // namespace ortconv::kernels

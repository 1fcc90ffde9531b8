// How the sums of a run are written to dst.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm_col2im/axes.h"

namespace ortconv::kernels::gemm_col2im {

// Phases that are interleaved; j of each, at least.
constexpr int64_t kMostPhases = 64, kLeastInterleaved = 8;
// Slots in order between gaps that are transposed, at least.
constexpr int64_t kLeastInRun = 4;

struct Writing : Axes {
  bool takes_steps, in_steps;     // channels of dst can be written in steps, see steps.h; they are
  int first_in_steps;             // the first axis that the steps are about; one before it has the images
  int64_t inner_dst;              // numbers of dst of one position of that axis
  int64_t channels_in_steps = 1;  // most channels of dst that are written together
  bool has_gaps;                  // there are positions of dst that no tap reaches
  int64_t most_phases_in_gaps;    // zeros among them, that are interleaved
  bool lies_far, gaps_lie_far;    // dst, see kernels/fill.h
  // The axis of the lines that are next to each other in dst, as far as any are. The axes after it have no strides:
  // their positions, so many, go together.
  int line;
  int64_t line_unit;
  bool stages_lines;   // puts lines together in a cache and writes them past the others
  int64_t num_staged;  // so many numbers at a time

  Writing(const Plan& plan, const ConvProblem& p);
  // Channels that are written together: where there is a bias, what lies in gaps differs between channels.
  int64_t together(bool has_bias) const { return has_bias && has_gaps ? 1 : channels_in_steps; }
  // Whether the slots of an axis may be interleaved, in rows of some length, with zeros for residues that no tap has.
  bool interleaves(const Axis& a) const { return a.stride <= (a.has_gaps() ? most_phases_in_gaps : kMostPhases); }
  bool has_long_lines(size_t element_bytes) const;
  // Whether interleaved lines are written channel by channel, many at once: those of each slot of the axes before.
  bool writes_by_slots(int64_t channels, size_t element_bytes) const;
  // Whether steps write dst past the caches.
  bool writes_past_caches() const { return in_steps && lies_far; }

 private:
  bool measure_dst(const ConvProblem& p);
  void find_lines();
  bool should_stage_lines(const ConvProblem& p, size_t element_bytes) const;
  bool prefers_steps(const ArchFlags& arch) const;
  void crop(const Plan& plan);
};

}  // namespace ortconv::kernels::gemm_col2im

// The axes of a run.
//
// On an axis  y = x * s + k * d - pad.  With  k * d - pad = q * s + r  (0 <= r < s) this is  y = (x + q) * s + r: the
// sums of a dst channel are arrays over j = x + q, one for each combination of residues that taps have: the slots.
// Where no two taps or positions meet and dst is written in steps, these are over x, and what is cropped is not
// written.
#pragma once

#include <cstdint>

#include "base/math.h"
#include "kernels/gemm_col2im/plan.h"

namespace ortconv::kernels::gemm_col2im {

constexpr int kMaxAxes = kMaxSpatial + 1;
// Whether there are so few panels of rows that a copy of src does not pay in any case.
inline bool has_few_panels(const Plan& plan) {
  constexpr int64_t kFew = 4;
  return plan.rows() <= kFew * plan.mr;
}

struct Axis {
  int64_t ker, stride, dilation, pad, src_size, dst_size, src_x, dst_x;
  int64_t step, inverse, period;  // greatest common divisor g of s and d; of d / g modulo the period; s / g
  int64_t offset;                 // the pad modulo the stride
  int64_t slots;                  // least of the taps, the period, and the residues of dst that taps may have
  bool by_tap;                    // the slot of tap k is k; else it is r / g, where taps have every such residue
  bool by_position;               // j counts the positions of src that are multiplied
  int64_t x_begin, x_count;       // these
  int64_t j_count;

  // Whether the residues of the slots count up by one, but for where they begin again.
  bool in_order() const { return by_tap ? dilation == 1 : step == 1; }
  // Whether there may be residues that no tap has.
  bool has_gaps() const { return by_tap ? slots < stride : step > 1; }
  // Of the products of a tap, from a position of src to their j.
  int64_t shift_of(int64_t tap) const { return floor_div(tap * dilation - pad, stride); }
  // The slot of a residue of dst; -1 where no tap has it.
  int64_t slot_of(int64_t residue) const;
  // The residue of a slot.
  int64_t residue_of(int64_t slot) const;
  // The first position of dst of j and of those after it.
  int64_t dst_of(int64_t j) const;
  // Whether every sum of the axis is of one tap and one position.
  bool is_plain() const;
  // Whether every tap has a slot, and no two of them reach the same position of dst from any position.
  bool is_disjoint() const { return slots == ker && (ker - 1) * dilation < stride; }
};

// The tap of one axis, which advances without divisions.
struct Tap {
  int64_t k, q, residue, slot;
};

struct Axes {
  int ndims = 0;
  Axis axis[kMaxAxes];
  int64_t images;   // 1 where the first axis is the batch: of images so small that several share a tile
  int64_t src_end;  // elements of src from the first to the last
  bool dense;       // the positions that are multiplied are next to each other in src, and those after each

  Axes(const Plan& plan, const ConvProblem& p);
};

}  // namespace ortconv::kernels::gemm_col2im

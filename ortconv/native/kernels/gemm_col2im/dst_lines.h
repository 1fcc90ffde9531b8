// The lines of dst that an item writes, and where their sums lie.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/math.h"
#include "kernels/gemm_col2im/item.h"

namespace ortconv::kernels::gemm_col2im {

// Lines along an axis that are evenly spaced, from the first slot of the axis on: offsets into the sums of a channel
// and into dst.
struct Lines {
  int64_t sums, dst;
  int64_t count, sums_step, dst_step;
};

// The positions of dst of a part, in lines along one of its axes. Those of the first axis count from the first of the
// part.
class DstLines {
 public:
  DstLines(const Geometry& geo, const Part& part);

  // Positions of dst and j of the part.
  int64_t length(int a) const { return dst_length(geo_, part_, a); }
  int64_t j_count(int a) const { return a == 0 ? part_.j_count : geo_.axis[a].j_count; }
  // From the sums of a j to those of the next one.
  int64_t j_stride(int a) const { return j_stride_[a]; }

  // Calls fn(sums, line) with where the lines along an axis begin, in the order of dst, from its first slot and the
  // first position of the part: an offset into the sums, -1 where no tap reaches the line, and one into dst.
  template <class Fn>
  void for_each(int along, Fn fn) const;
  // Calls fn(lines) for the lines that taps reach: those of the slots of each other axis.
  template <class Fn>
  void for_each_reached(int along, Fn fn) const;

  // Computes the residues of the first kMostPhases slots of an axis, for residue() and for_each_slot().
  void list_slots(int along);
  int64_t residue(int64_t slot) const { return residue_[slot]; }
  // Calls fn(lines, count) for each slot of that axis with those of the j [begin, end) that are in dst.
  template <class Fn>
  void for_each_slot(int along, const Lines& lines, int64_t begin, int64_t end, Fn fn) const;

 private:
  // A position of dst on one axis.
  struct Place {
    int64_t y, j, residue, slot;
  };

  const Geometry& geo_;
  const Part& part_;
  int64_t slot_stride_[kMaxAxes], j_stride_[kMaxAxes];
  const int last_;  // axis of lines
  int64_t residue_[kMostPhases], count_[kMostPhases];
};

template <class Fn>
void DstLines::for_each(int along, Fn fn) const {
  Place place[kMaxAxes];
  const auto start = [&](int a) { place[a] = {0, 0, 0, a == along ? 0 : geo_.axis[a].slot_of(0)}; };
  for (int a = 0; a <= last_; ++a) start(a);
  for (;;) {
    int64_t sums = 0, line = 0;
    for (int a = 0; a <= last_; ++a) {
      if (place[a].slot < 0) sums = -1;
      if (sums >= 0) sums += place[a].slot * slot_stride_[a] + place[a].j * j_stride_[a];
      line += place[a].y * geo_.axis[a].dst_x;
    }
    fn(sums, line);
    int a = last_;
    for (; a >= 0; --a) {
      if (a == along) continue;
      const Axis& axis = geo_.axis[a];
      if (place[a].y + 1 == length(a)) {
        start(a);
        continue;
      }
      ++place[a].y;
      if (++place[a].residue == axis.stride) place[a].residue = 0, ++place[a].j;
      if (axis.stride > 1) place[a].slot = axis.slot_of(place[a].residue);
      break;
    }
    if (a < 0) return;
  }
}

template <class Fn>
void DstLines::for_each_reached(int along, Fn fn) const {
  const int inner = along == last_ ? last_ - 1 : last_;  // its lines are taken together
  int64_t slot[kMaxAxes] = {}, j[kMaxAxes], count[kMaxAxes];
  for (;;) {
    Lines lines{0, 0, 1, 0, 0};
    bool any = true;
    for (int a = 0; a <= last_; ++a) {
      if (a == along) continue;
      const Axis& axis = geo_.axis[a];
      const int64_t residue = axis.residue_of(slot[a]);
      count[a] = residue < length(a) ? (length(a) - residue - 1) / axis.stride + 1 : 0;
      any &= count[a] > 0;
      lines.sums += slot[a] * slot_stride_[a], lines.dst += residue * axis.dst_x;
      j[a] = 0;
    }
    if (inner >= 0) {
      lines.count = count[inner], lines.sums_step = j_stride_[inner];
      lines.dst_step = geo_.axis[inner].stride * geo_.axis[inner].dst_x;
    }
    for (int a = any ? last_ : -1; a >= 0;) {
      fn(lines);
      for (a = last_; a >= 0; --a) {
        if (a == along || a == inner) continue;
        const int64_t step = geo_.axis[a].stride * geo_.axis[a].dst_x;
        lines.sums += j_stride_[a], lines.dst += step;
        if (++j[a] < count[a]) break;
        lines.sums -= count[a] * j_stride_[a], lines.dst -= count[a] * step;
        j[a] = 0;
      }
    }
    int a = last_;
    for (; a >= 0; --a) {
      if (a == along) continue;
      if (++slot[a] < geo_.axis[a].slots) break;
      slot[a] = 0;
    }
    if (a < 0) return;
  }
}

template <class Fn>
void DstLines::for_each_slot(int along, const Lines& lines, int64_t begin, int64_t end, Fn fn) const {
  const Axis& axis = geo_.axis[along];
  for (int64_t slot = 0; slot < axis.slots; ++slot) {
    const bool known = slot < kMostPhases;
    const int64_t residue = known ? residue_[slot] : axis.residue_of(slot);
    const int64_t all = known ? count_[slot] : ceil_div(length(along) - residue, axis.stride);
    const int64_t count = std::min(end, all) - begin;
    if (count <= 0) continue;
    Lines of_slot = lines;
    of_slot.sums += slot * slot_stride_[along] + begin * j_stride_[along];
    of_slot.dst += (begin * axis.stride + residue) * axis.dst_x;
    fn(of_slot, count);
  }
}

}  // namespace ortconv::kernels::gemm_col2im

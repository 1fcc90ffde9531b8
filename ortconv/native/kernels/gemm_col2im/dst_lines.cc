#include "kernels/gemm_col2im/dst_lines.h"

namespace ortconv::kernels::gemm_col2im {

DstLines::DstLines(const Geometry& geo, const Part& part) : geo_(geo), part_(part), last_(geo.line) {
  int64_t slots = geo.slot_size, j = geo.j_step;
  for (int a = geo.ndims - 1; a >= 0; --a) {
    slot_stride_[a] = slots, j_stride_[a] = j;
    slots *= geo.axis[a].slots, j *= geo.axis[a].j_count;
  }
}

void DstLines::list_slots(int along) {
  const Axis& axis = geo_.axis[along];
  for (int64_t slot = 0; slot < std::min(axis.slots, kMostPhases); ++slot) {
    residue_[slot] = axis.residue_of(slot);
    count_[slot] = ceil_div(length(along) - residue_[slot], axis.stride);
  }
}

}  // namespace ortconv::kernels::gemm_col2im

#include "kernels/gemm_col2im/steps.h"

#include <algorithm>
#include <utility>

#include "base/math.h"

namespace ortconv::kernels::gemm_col2im {
namespace {

class Lister {
 public:
  Lister(const Geometry& geo, int64_t slab) : geo_(geo), begin_(slab * geo.slab) {
    count_ = std::min(geo.slab, geo.axis[0].j_count - begin_);
    int64_t slots = geo.slot_size, j = geo.j_step, dst = 1;
    for (int a = geo.ndims - 1; a >= 0; --a) {
      const Axis& axis = geo.axis[a];
      length_[a] = a > 0 ? axis.dst_size : axis.dst_of(begin_ + count_) - axis.dst_of(begin_);
      slot_[a] = slots, j_[a] = j, dst_[a] = dst;
      slots *= geo.axis[a].slots, j *= geo.axis[a].j_count, dst *= geo.axis[a].dst_size;
    }
  }

  std::vector<ExpandPart> list(int64_t channels) {
    const int64_t numbers = length_[geo_.first_in_steps] * dst_[geo_.first_in_steps];
    for (int64_t c = 0; c < channels; ++c) add(geo_.first_in_steps, c * numbers, c * geo_.channel_size);
    std::vector<ExpandStep> steps = steps_.finish(channels * numbers);
    if (geo_.writes_past_caches()) return cut_steps(steps);
    return {{std::move(steps), ceil_div(channels * numbers, kExpandWidth)}};
  }

 private:
  // Adds the positions of an axis and of those after it.
  void add(int a, int64_t at, int64_t sum) {
    if (a == geo_.ndims) return steps_.add(at, sum, 1);
    const Axis& axis = geo_.axis[a];
    const int64_t length = length_[a];
    if (axis.stride == 1 && !axis.by_position && a + 1 == geo_.ndims) return steps_.add(at, sum, length);
    const int64_t first = a == 0 ? axis.dst_of(begin_) : 0, count = a == 0 ? count_ : axis.j_count;
    int64_t residue = first % axis.stride, j = 0;
    if (axis.by_position) j = floor_div(first + axis.pad, axis.stride) - axis.x_begin - (a == 0 ? begin_ : 0);
    const int64_t carry = axis.by_position ? (axis.stride - axis.offset) % axis.stride : 0;  // where the next j begins
    for (int64_t y = 0; y < length; ++y, at += dst_[a]) {
      const int64_t slot = j < 0 || j >= count ? -1 : axis.slot_of(residue);
      if (slot >= 0) add(a + 1, at, sum + slot * slot_[a] + j * j_[a]);
      if (++residue == axis.stride) residue = 0;
      if (residue == carry) ++j;
    }
  }

  const Geometry& geo_;
  int64_t begin_, count_;                                 // j of the slab
  int64_t length_[kMaxAxes];                              // of dst
  int64_t slot_[kMaxAxes], j_[kMaxAxes], dst_[kMaxAxes];  // distances in the sums, and in dst
  ExpandSteps steps_;
};

}  // namespace

StepLists::Key StepLists::key_of(const Geometry& geo, int64_t channels) {
  Key key{channels,      geo.ndims,        geo.slab,   geo.first_in_steps,
          geo.slot_size, geo.channel_size, geo.j_step, int64_t{geo.writes_past_caches()}};
  size_t i = kCommon;
  for (int a = 0; a < geo.ndims; ++a) {
    const Axis& axis = geo.axis[a];
    for (const int64_t number : {axis.stride, axis.pad, axis.dst_size, axis.j_count, axis.x_begin, axis.slots,
                                 int64_t{axis.by_position}, int64_t{axis.by_tap}}) {
      key[i++] = number;
    }
  }
  return key;
}

StepLists::StepLists(const Geometry& geo, int64_t channels) : key(key_of(geo, channels)) {
  for (int64_t slab = 0; slab < geo.num_slabs; ++slab) of_slab.push_back(Lister(geo, slab).list(channels));
}

std::shared_ptr<const StepLists> Plan::steps(const Geometry& geometry, int64_t channels) const {
  const std::lock_guard<std::mutex> lock(listing_);
  if (steps_ == nullptr || steps_->key != StepLists::key_of(geometry, channels)) {
    steps_ = std::make_shared<const StepLists>(geometry, channels);
  }
  return steps_;
}

}  // namespace ortconv::kernels::gemm_col2im

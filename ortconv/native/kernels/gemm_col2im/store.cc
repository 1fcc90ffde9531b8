#include <algorithm>

#include "kernels/gemm_col2im/item.h"

namespace ortconv::kernels::gemm_col2im {
namespace {

// Positions of dst of one axis.
struct Place {
  int64_t y, j, residue, slot;
};

template <class T>
class Store {
 public:
  using Cell = Sum<T>;

  Store(const Run<T>& run, const Part& part, char* slice);
  void store_all();

 private:
  // Whether there may be residues that no tap has.
  bool has_gaps(int a) const {
    const Axis& axis = geo_.axis[a];
    return axis.by_tap ? axis.slots < axis.stride : axis.step > 1;
  }
  int64_t y_begin(int a) const { return a == 0 ? part_.j_begin * geo_.axis[0].stride : 0; }
  int64_t y_end(int a) const {
    const Axis& axis = geo_.axis[a];
    return a == 0 ? std::min((part_.j_begin + part_.j_count) * axis.stride, axis.dst_size) : axis.dst_size;
  }
  template <class Fn>
  void for_each_line(int along, Fn fn) const;
  void fill_gaps() const;
  void store_rows(int64_t begin, int64_t end, const Cell* zeros) const;
  void store_strided(int along) const;

  const Run<T>& run_;
  const Geometry& geo_;
  const Part& part_;
  Cell *sums_, *bias_, *gap_;
  const Cell** phases_;
  const Cell* left_;  // bias that is left to add
  T* dst_;
  int64_t slot_stride_[kMaxSpatial], j_stride_[kMaxSpatial];
};

template <class T>
Store<T>::Store(const Run<T>& run, const Part& part, char* slice)
    : run_(run),
      geo_(run.geometry),
      part_(part),
      sums_(at<Cell>(slice, geo_.sums)),
      bias_(at<Cell>(slice, geo_.bias)),
      gap_(at<Cell>(slice, geo_.gap)),
      phases_(at<const Cell*>(slice, geo_.phases)),
      left_(nullptr) {
  const ConvProblem& p = run.problem;
  const int64_t channel = part.group * run.plan.oc + part.channel;
  dst_ = run.data.dst + part.image * p.dst_n + channel * p.dst_c;
  if (run.data.bias != nullptr) {
    run.kernels.load(run.data.bias + channel, 1, part.channels, bias_);
    left_ = bias_;
  }
  int64_t slots = geo_.slot_size, j = 1;
  for (int a = geo_.ndims - 1; a >= 0; --a) {
    slot_stride_[a] = slots, j_stride_[a] = j;
    slots *= geo_.axis[a].slots, j *= geo_.axis[a].j_count;
  }
}

// Calls fn(sums, dst) with where the lines along an axis begin, from its first slot and the first position of the part:
// an offset into the sums, -1 where no tap reaches the line, and one into dst.
template <class T>
template <class Fn>
void Store<T>::for_each_line(int along, Fn fn) const {
  Place place[kMaxSpatial];
  const auto start = [&](int a) { place[a] = {y_begin(a), 0, 0, a == along ? 0 : geo_.axis[a].slot_of(0)}; };
  for (int a = 0; a < geo_.ndims; ++a) start(a);
  for (;;) {
    int64_t sums = 0, dst = 0;
    for (int a = 0; a < geo_.ndims; ++a) {
      if (place[a].slot < 0) sums = -1;
      if (sums >= 0) sums += place[a].slot * slot_stride_[a] + place[a].j * j_stride_[a];
      dst += place[a].y * geo_.axis[a].dst_x;
    }
    fn(sums, dst);
    int a = geo_.ndims - 1;
    for (; a >= 0; --a) {
      if (a == along) continue;
      const Axis& axis = geo_.axis[a];
      if (place[a].y + 1 == y_end(a)) {
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

// Writes what no tap reaches, and more.
template <class T>
void Store<T>::fill_gaps() const {
  const int last = geo_.ndims - 1;
  const int64_t length = y_end(last) - y_begin(last), step = geo_.axis[last].dst_x, dst_c = run_.problem.dst_c;
  for_each_line(last, [&](int64_t, int64_t dst) {
    T* out = dst_ + dst;
    if (dst_c == 1) {
      for (int64_t y = 0; y < length; ++y) {
        for (int64_t c = 0; c < part_.channels; ++c) round_to(out + y * step + c, gap_[c]);
      }
      return;
    }
    for (int64_t c = 0; c < part_.channels; ++c, out += dst_c) {
      T value;
      round_to(&value, gap_[c]);
      if (step == 1) {
        std::fill_n(out, length, value);
      } else {
        for (int64_t y = 0; y < length; ++y) out[y * step] = value;
      }
    }
  });
}

// Interleaves the slots of the last axis, of the channels [begin, end). `zeros` stands for residues without one.
template <class T>
void Store<T>::store_rows(int64_t begin, int64_t end, const Cell* zeros) const {
  const int last = geo_.ndims - 1;
  const Axis& axis = geo_.axis[last];
  const int64_t length = y_end(last) - y_begin(last), whole = length / axis.stride, rest = length % axis.stride;
  const int64_t dst_c = run_.problem.dst_c;
  int64_t residue[kMostPhases];
  for (int64_t slot = 0; slot < axis.slots; ++slot) residue[slot] = axis.residue_of(slot);
  std::fill_n(phases_, axis.stride, zeros);
  const Cell* bias = left_ == nullptr ? nullptr : left_ + begin;
  for_each_line(last, [&](int64_t sums, int64_t dst) {
    T* out = dst_ + dst + begin * dst_c;
    if (sums < 0) {
      for (int64_t c = begin; c < end; ++c, out += dst_c) {
        T value;
        round_to(&value, gap_[c]);
        std::fill_n(out, length, value);
      }
      return;
    }
    const Cell* in = sums_ + begin * geo_.channel_size + sums;
    for (int64_t slot = 0; slot < axis.slots; ++slot) phases_[residue[slot]] = in + slot * geo_.slot_size;
    const InterleaveArgs<T> args{phases_, geo_.channel_size,      end - begin, whole, axis.stride, bias, out,
                                 dst_c,   kernels::Store::kCached};
    if (whole > 0) run_.kernels.interleave.template to<T>()(args);
    for (int64_t c = 0; c < end - begin && rest > 0; ++c) {
      T* tail = out + c * dst_c + whole * axis.stride;
      for (int64_t r = 0; r < rest; ++r) {
        const Cell* row = phases_[r];
        round_to(tail + r, (row == zeros ? row[0] : row[c * geo_.channel_size + whole]) + args.bias_of(c));
      }
    }
  });
}

// Writes the sums of lines along any axis, slot by slot.
template <class T>
void Store<T>::store_strided(int along) const {
  const Axis& axis = geo_.axis[along];
  const int64_t j_begin = along == 0 ? part_.j_begin : 0, j_count = along == 0 ? part_.j_count : axis.j_count;
  const int64_t from = j_stride_[along], to = axis.stride * axis.dst_x, dst_c = run_.problem.dst_c;
  for_each_line(along, [&](int64_t sums, int64_t dst) {
    if (sums < 0) return;
    for (int64_t slot = 0; slot < axis.slots; ++slot) {
      const int64_t residue = axis.residue_of(slot);
      const int64_t count = std::min(j_count, ceil_div(axis.dst_size - residue, axis.stride) - j_begin);
      if (count <= 0) continue;
      const Cell* in = sums_ + sums + slot * slot_stride_[along];
      T* out = dst_ + dst + residue * axis.dst_x;
      if (dst_c == 1 && from == 1) {
        run_.kernels.transpose.template to<T>()(in, geo_.channel_size, part_.channels, count, left_, out, to);
        continue;
      }
      for (int64_t c = 0; c < part_.channels; ++c, in += geo_.channel_size, out += dst_c) {
        const Cell add = left_ == nullptr ? -Cell() : left_[c];
        for (int64_t i = 0; i < count; ++i) round_to(out + i * to, in[i * from] + add);
      }
    }
  });
}

template <class T>
void Store<T>::store_all() {
  const ConvProblem& p = run_.problem;
  const int last = geo_.ndims - 1;
  const Axis& axis = geo_.axis[last];
  int longest = last;
  bool gaps = false;
  for (int a = last; a >= 0; --a) {
    if (geo_.axis[a].j_count > geo_.axis[longest].j_count) longest = a;
    gaps |= has_gaps(a);
  }
  if (gaps) {
    for (int64_t c = 0; c < part_.channels; ++c) gap_[c] = left_ == nullptr ? Cell() : left_[c];
  }
  if constexpr (!std::is_same_v<T, double>) {
    if (gaps && !p.activation.is_identity()) {
      run_.kernels.activate.template run<T>(p.activation, 0.0f, part_.channels, gap_);
    }
  }
  const int64_t size = geo_.channel_size;
  const bool activated = !p.activation.is_identity();
  left_ = im2col::activate(run_.kernels, p, sums_, size, part_.channels, size, left_);

  constexpr int64_t kFewGroups = 4;  // of phases: interleaving them costs more than writing with a stride
  const bool rows = axis.dst_x == 1 && axis.stride <= kMostPhases && 2 * axis.slots > axis.stride &&
                    (axis.j_count >= kFewGroups || geo_.axis[longest].j_count < kFewGroups);
  if (!rows) {
    if (gaps) fill_gaps();
    store_strided(geo_.axis[last].j_count >= kFewGroups ? last : longest);
  } else if (!has_gaps(last)) {
    store_rows(0, part_.channels, nullptr);
  } else {
    Cell* zeros = gap_ + geo_.block_channels;
    for (int64_t c = 0; c < part_.channels; ++c) {
      std::fill_n(zeros, axis.j_count, activated ? gap_[c] : Cell());
      store_rows(c, c + 1, zeros);
    }
  }
}

}  // namespace

template <class T>
void store_sums(const Run<T>& run, const Part& part, char* slice) {
  Store<T>(run, part, slice).store_all();
}

#define INSTANTIATE(T) template void store_sums(const Run<T>&, const Part&, char*);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels::gemm_col2im

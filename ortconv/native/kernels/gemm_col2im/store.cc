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
  void fill_line(int64_t line, int64_t begin, int64_t end, int64_t first, int64_t last) const;
  void store_units(int64_t channel) const;
  bool transposes_rows() const;
  void transpose_row(const Cell* in, int64_t count, Cell bias, T* out) const;
  void fill(int64_t first, int64_t last) const;
  void store_rows(int64_t begin, int64_t end, const Cell* zeros) const;
  void store_slot(int along, const Cell* in, T* out, int64_t count, int64_t first, int64_t last) const;
  void store_strided(int along, bool gaps, int64_t first, int64_t last) const;

  const Run<T>& run_;
  const Geometry& geo_;
  const Part& part_;
  Cell *sums_, *bias_, *gap_;
  const Cell** phases_;
  const Cell* left_;  // bias that is left to add
  T* dst_;
  int64_t slot_stride_[kMaxSpatial], j_stride_[kMaxSpatial];
  // The axes after this one have neither kernel nor stride: their positions, so many, go together.
  int line_;
  int64_t unit_;
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
  line_ = geo_.ndims - 1, unit_ = 1;
  const auto moves_along = [](const Axis& x) { return x.ker == 1 && x.stride == 1 && x.pad == 0; };
  while (line_ > 0 && moves_along(geo_.axis[line_]) && geo_.axis[line_].dst_x == unit_) {
    unit_ *= geo_.axis[line_--].dst_size;
  }
  if (geo_.axis[line_].dst_x != unit_ && unit_ > 1) line_ = geo_.ndims - 1, unit_ = 1;
}

// Calls fn(sums, dst) with where the lines along an axis begin, from its first slot and the first position of the part:
// an offset into the sums, -1 where no tap reaches the line, and one into dst.
template <class T>
template <class Fn>
void Store<T>::for_each_line(int along, Fn fn) const {
  Place place[kMaxSpatial];
  const auto start = [&](int a) { place[a] = {y_begin(a), 0, 0, a == along ? 0 : geo_.axis[a].slot_of(0)}; };
  for (int a = 0; a <= line_; ++a) start(a);
  for (;;) {
    int64_t sums = 0, dst = 0;
    for (int a = 0; a <= line_; ++a) {
      if (place[a].slot < 0) sums = -1;
      if (sums >= 0) sums += place[a].slot * slot_stride_[a] + place[a].j * j_stride_[a];
      dst += place[a].y * geo_.axis[a].dst_x;
    }
    fn(sums, dst);
    int a = line_;
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

// Fills positions [begin, end) of a line of dst along the last axis, in the channels [first, last), as where no tap
// reaches.
template <class T>
void Store<T>::fill_line(int64_t line, int64_t begin, int64_t end, int64_t first, int64_t last) const {
  const int64_t step = geo_.axis[line_].dst_x / unit_, dst_c = run_.problem.dst_c;
  T* out = dst_ + line + begin * unit_ * step;
  const int64_t length = (end - begin) * unit_;
  if (dst_c == 1) {
    for (int64_t y = 0; y < length; ++y) {
      for (int64_t c = first; c < last; ++c) round_to(out + y * step + c, gap_[c]);
    }
    return;
  }
  for (int64_t c = first; c < last; ++c) {
    T value, *row = out + c * dst_c;
    round_to(&value, gap_[c]);
    if (step == 1) {
      std::fill_n(row, length, value);
    } else {
      for (int64_t y = 0; y < length; ++y) row[y * step] = value;
    }
  }
}

// Fills the whole part likewise.
template <class T>
void Store<T>::fill(int64_t first, int64_t last) const {
  const int64_t length = y_end(line_) - y_begin(line_);
  int64_t lines = 1, step = geo_.axis[line_].dst_x * geo_.axis[line_].dst_size;
  bool contiguous = true;
  for (int a = line_ - 1; a >= 0; --a) {
    contiguous &= geo_.axis[a].dst_x == step;
    step *= geo_.axis[a].dst_size;
    lines *= y_end(a) - y_begin(a);
  }
  if (contiguous) {
    fill_line(y_begin(0) * geo_.axis[0].dst_x, 0, lines * length, first, last);
  } else {
    for_each_line(line_, [&](int64_t, int64_t dst) { fill_line(dst, 0, length, first, last); });
  }
}

// Whether rows are interleaved by the transpose kernel: of many phases in order, where no interleave kernel is faster.
template <class T>
bool Store<T>::transposes_rows() const {
  constexpr int64_t kLeastPhases = 8;
  const Axis& axis = geo_.axis[line_];
  return !std::is_same_v<T, double> && !run_.plan.arch.avx512 && axis.dilation == 1 && axis.slots == axis.stride &&
         axis.stride >= kLeastPhases && axis.j_count >= kLeastPhases;
}

// Interleaves all slots of a line, whose residues count up from that of the first one, and then from zero.
template <class T>
void Store<T>::transpose_row(const Cell* in, int64_t count, Cell bias, T* out) const {
  const Axis& axis = geo_.axis[line_];
  const auto transpose = run_.kernels.transpose.template to<T>();
  Cell add[kMostPhases];
  std::fill_n(add, axis.stride, bias);
  const int64_t first = axis.residue_of(0), after = axis.stride - first;
  transpose(in, geo_.slot_size, after, count, add, out + first, axis.stride);
  if (first > 0) transpose(in + after * geo_.slot_size, geo_.slot_size, first, count, add, out, axis.stride);
}

// Interleaves the slots of lines along the last axis, of the channels [begin, end). `zeros` stands for residues without
// one.
template <class T>
void Store<T>::store_rows(int64_t begin, int64_t end, const Cell* zeros) const {
  const Axis& axis = geo_.axis[line_];
  const int64_t length = (y_end(line_) - y_begin(line_)) * unit_, whole = length / axis.stride,
                rest = length % axis.stride;
  const int64_t dst_c = run_.problem.dst_c;
  int64_t residue[kMostPhases];
  for (int64_t slot = 0; slot < axis.slots; ++slot) residue[slot] = axis.residue_of(slot);
  std::fill_n(phases_, axis.stride, zeros);
  const Cell* bias = left_ == nullptr ? nullptr : left_ + begin;
  const bool transposes = transposes_rows();
  for_each_line(line_, [&](int64_t sums, int64_t dst) {
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
    if (transposes) {
      for (int64_t c = 0; c < end - begin; ++c) {
        transpose_row(in + c * geo_.channel_size, whole, args.bias_of(c), out + c * dst_c);
      }
    } else if (whole > 0) {
      run_.kernels.interleave.template to<T>()(args);
    }
    for (int64_t c = 0; c < end - begin && rest > 0; ++c) {
      T* tail = out + c * dst_c + whole * axis.stride;
      for (int64_t r = 0; r < rest; ++r) {
        const Cell* row = phases_[r];
        round_to(tail + r, (row == zeros ? row[0] : row[c * geo_.channel_size + whole]) + args.bias_of(c));
      }
    }
  });
}

// Writes positions [begin, end) of one slot of a line, counted in j of the axis, in the channels [first, last).
template <class T>
void Store<T>::store_slot(int along, const Cell* in, T* out, int64_t count, int64_t first, int64_t last) const {
  const Axis& axis = geo_.axis[along];
  const int64_t from = j_stride_[along], to = axis.stride * axis.dst_x, dst_c = run_.problem.dst_c;
  if (dst_c == 1 && from == 1) {
    const Cell* bias = left_ == nullptr ? nullptr : left_ + first;
    run_.kernels.transpose.template to<T>()(in + first * geo_.channel_size, geo_.channel_size, last - first, count,
                                            bias, out + first, to);
    return;
  }
  for (int64_t c = first; c < last; ++c) {
    const Cell add = left_ == nullptr ? -Cell() : left_[c];
    const Cell* sums = in + c * geo_.channel_size;
    T* row = out + c * dst_c;
    if (unit_ == 1) {
      for (int64_t i = 0; i < count; ++i) round_to(row + i * to, sums[i * from] + add);
      continue;
    }
    for (int64_t i = 0; i < count; ++i, row += to, sums += from) {
      for (int64_t k = 0; k < unit_; ++k) round_to(row + k, sums[k] + add);
    }
  }
}

// Writes the sums of the channels [first, last) in lines along any axis, slot by slot; also what no tap reaches, if
// `gaps`, in lines along the last axis.
template <class T>
void Store<T>::store_strided(int along, bool gaps, int64_t first, int64_t last) const {
  const Axis& axis = geo_.axis[along];
  const int64_t j_begin = along == 0 ? part_.j_begin : 0, j_end = along == 0 ? j_begin + part_.j_count : axis.j_count;
  // What is filled is still in L1 when the sums are written.
  constexpr int64_t kChunkBytes = 16 << 10;
  const int64_t line_bytes = axis.stride * unit_ * static_cast<int64_t>(sizeof(T));
  const int64_t chunk = gaps ? std::max<int64_t>(1, kChunkBytes / line_bytes) : j_end - j_begin;
  for_each_line(along, [&](int64_t sums, int64_t dst) {
    for (int64_t begin = j_begin; begin < j_end; begin += chunk) {
      const int64_t end = std::min(begin + chunk, j_end), done = begin - j_begin;
      if (gaps) {
        fill_line(dst, done * axis.stride, std::min(end * axis.stride, axis.dst_size) - j_begin * axis.stride, first,
                  last);
      }
      for (int64_t slot = 0; slot < axis.slots && sums >= 0; ++slot) {
        const int64_t residue = axis.residue_of(slot);
        const int64_t count = std::min(end, ceil_div(axis.dst_size - residue, axis.stride)) - begin;
        if (count <= 0) continue;
        store_slot(along, sums_ + sums + slot * slot_stride_[along] + done * j_stride_[along],
                   dst_ + dst + (done * axis.stride + residue) * axis.dst_x, count, first, last);
      }
    }
  });
}

// Writes the sums of a channel in lines without gaps, unit after unit.
template <class T>
void Store<T>::store_units(int64_t channel) const {
  const Axis& axis = geo_.axis[line_];
  const int64_t length = y_end(line_) - y_begin(line_);
  const Cell* slots[kMostPhases];
  const Cell add = left_ == nullptr ? -Cell() : left_[channel];
  for_each_line(line_, [&](int64_t sums, int64_t dst) {
    const Cell* in = sums_ + channel * geo_.channel_size + sums;
    T* out = dst_ + channel * run_.problem.dst_c + dst;
    for (int64_t slot = 0; slot < axis.slots; ++slot) slots[axis.residue_of(slot)] = in + slot * geo_.slot_size;
    int64_t phase = 0, from = 0;
    for (int64_t left = length * unit_; left > 0; left -= unit_, out += unit_) {
      const Cell* unit = slots[phase] + from;
      if (left >= align_up(unit_, kMoved)) {
        // What this writes beyond the unit is written again.
        for (int64_t k = 0; k < unit_; k += kMoved) {
          T moved[kMoved];
          for (int64_t i = 0; i < kMoved; ++i) round_to(moved + i, unit[k + i] + add);
          std::copy_n(moved, kMoved, out + k);
        }
      } else {
        for (int64_t k = 0; k < unit_; ++k) round_to(out + k, unit[k] + add);
      }
      if (++phase == axis.stride) phase = 0, from += unit_;
    }
  });
}

template <class T>
void Store<T>::store_all() {
  const ConvProblem& p = run_.problem;
  const Axis& axis = geo_.axis[line_];
  int longest = line_;
  bool gaps = false;
  for (int a = line_; a >= 0; --a) {
    if (geo_.axis[a].j_count > geo_.axis[longest].j_count) longest = a;
    gaps |= has_gaps(a);
  }
  const bool activated = !p.activation.is_identity();
  if (gaps) {
    for (int64_t c = 0; c < part_.channels; ++c) gap_[c] = left_ == nullptr ? Cell() : left_[c];
    if constexpr (!std::is_same_v<T, double>) {
      if (activated) run_.kernels.activate.template run<T>(p.activation, 0.0f, part_.channels, gap_);
    }
  }
  const int64_t size = geo_.channel_size;
  left_ = im2col::activate(run_.kernels, p, sums_, size, part_.channels, size, left_);

  constexpr int64_t kFewGroups = 4;  // of phases: interleaving them costs more than writing with a stride
  const bool many = axis.j_count >= kFewGroups || geo_.axis[longest].j_count < kFewGroups;
  const bool rows = axis.dst_x == unit_ && axis.stride <= kMostPhases && 2 * axis.slots > axis.stride && many &&
                    (unit_ == 1 || axis.stride == 1);
  if (rows && !has_gaps(line_)) {
    store_rows(0, part_.channels, nullptr);
    return;
  }
  const int along = many ? line_ : longest;
  const int64_t channels = p.dst_c == 1 ? part_.channels : 1;  // at a time
  Cell* zeros = gap_ + geo_.block_channels;
  for (int64_t c = 0; c < part_.channels; c += channels) {
    if (rows) {
      std::fill_n(zeros, axis.j_count, activated ? gap_[c] : Cell());
      store_rows(c, c + 1, zeros);
      continue;
    }
    if (!gaps && unit_ > 1 && along == line_ && axis.dst_x == unit_ && axis.stride <= kMostPhases) {
      store_units(c);
      continue;
    }
    if (gaps && along != line_) fill(c, c + channels);
    store_strided(along, gaps && along == line_, c, c + channels);
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

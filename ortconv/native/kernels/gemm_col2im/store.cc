#include <algorithm>

#include "kernels/fill.h"
#include "kernels/gemm_col2im/item.h"

namespace ortconv::kernels::gemm_col2im {
namespace {

// A position of dst on one axis.
struct Place {
  int64_t y, j, residue, slot;
};

// Lines along an axis that are evenly spaced, from the first slot of the axis on: offsets into the sums and into dst.
struct Lines {
  int64_t sums, dst;
  int64_t count, sums_step, dst_step;
};

template <class T>
class Store {
 public:
  using Cell = Sum<T>;

  Store(const Results<T>& results, const Part& part, char* slice, const std::vector<ExpandPart>* steps);
  void store_all();

 private:
  void finish_in_dst() const;

  // Positions of dst and j of the part; positions of the first axis count from those of the part.
  int64_t length(int a) const {
    const Axis& axis = geo_.axis[a];
    if (a > 0) return axis.dst_size;
    return axis.dst_of(part_.j_begin + part_.j_count) - axis.dst_of(part_.j_begin);
  }
  int64_t j_count(int a) const { return a == 0 ? part_.j_count : geo_.axis[a].j_count; }

  static constexpr bool kRounds = !std::is_same_v<T, Cell>;
  void round_sums();
  template <class Fn>
  void for_each_line(int along, Fn fn) const;
  template <class Fn>
  void for_each_reached(int along, Fn fn) const;
  template <class Fn>
  void for_each_slot(int along, const Lines& lines, int64_t begin, int64_t end, Fn fn) const;

  void store_rows() const;
  bool transposes() const;
  void transpose(const Cell* in, int64_t count, Cell bias, T* out) const;
  void fill(int64_t line, int64_t length, int64_t first, int64_t last, bool past_caches) const;
  template <class Fn>
  void fill_between_lines(int64_t first, int64_t last, Fn fn) const;
  void fill_part(int64_t first, int64_t last) const;
  bool fills_lines() const;
  void store_run(const Cell* in, T* out, int64_t count, int64_t first, int64_t last) const;
  void store_slot(int along, const Lines& lines, int64_t count, int64_t first, int64_t last) const;
  bool goes_by_j(int along) const;
  void store_slots(int64_t sums, int64_t line, int64_t begin, int64_t end, int64_t first, int64_t last) const;
  void store_lines(int along, const Lines& lines, int64_t begin, int64_t end, int64_t first, int64_t last) const;
  void store_strided(int along, int64_t first, int64_t last) const;
  // Calls fn(sums) for each row of channels: of a position, or the only one.
  template <class Fn>
  void for_each_position(Fn fn) const {
    const int64_t positions = geo_.by_rows ? part_.x_count * geo_.inner_x : 1;
    for (int64_t i = 0; i < positions; ++i) fn(sums_ + i * geo_.j_step);
  }
  void add_bias();
  void activate();
  void store_steps();

  const Results<T>& results_;
  const Geometry& geo_;
  const Part& part_;
  const int64_t dst_c_;
  Cell *sums_, *bias_, *gap_, *repeated_;
  const Cell** phases_;
  const std::vector<ExpandPart>* parts_;  // that write a channel; null where it is written otherwise
  const Cell* left_;                      // bias that is left to add
  T* staged_;                             // what is written past the caches
  T* values_;  // what is written number by number: the sums, or the same rounded, with their bias
  T* dst_;
  int64_t slot_stride_[kMaxAxes], j_stride_[kMaxAxes];
  // The axes after this one have no strides: their positions, so many, go together.
  int line_;
  int64_t unit_;
  int64_t residue_[kMostPhases], count_[kMostPhases];  // of the first slots of the axis of lines; their j
};

template <class T>
Store<T>::Store(const Results<T>& results, const Part& part, char* slice, const std::vector<ExpandPart>* steps)
    : results_(results),
      geo_(results.geometry),
      part_(part),
      dst_c_(results.problem.dst_c),
      sums_(at<Cell>(slice, geo_.sums)),
      bias_(at<Cell>(slice, geo_.bias)),
      gap_(at<Cell>(slice, geo_.gap)),
      repeated_(at<Cell>(slice, geo_.repeated)),
      phases_(at<const Cell*>(slice, geo_.phases)),
      parts_(steps),
      left_(nullptr),
      staged_(at<T>(slice, geo_.staged)) {
  if (geo_.by_rows) {
    sums_ = at<Cell>(slice, geo_.transposed) + part.channel * results.plan.taps % geo_.panel_height;
  }
  if constexpr (kRounds) {
    values_ = at<T>(slice, geo_.rounded);
  } else {
    values_ = sums_;
  }
  const int64_t channel = part.group * results.plan.oc + part.channel;
  dst_ = results.dst + part.image * results.problem.dst_n + channel * dst_c_ +
         geo_.axis[0].dst_of(part.j_begin) * geo_.axis[0].dst_x;
  if (results.bias != nullptr) {
    results.kernels.load(results.bias + channel, 1, part.channels, bias_);
    left_ = bias_;
  }
  int64_t slots = geo_.slot_size, j = geo_.j_step;
  for (int a = geo_.ndims - 1; a >= 0; --a) {
    slot_stride_[a] = slots, j_stride_[a] = j;
    slots *= geo_.axis[a].slots, j *= geo_.axis[a].j_count;
  }
  line_ = geo_.ndims - 1, unit_ = 1;
  while (line_ > 0 && geo_.axis[line_].stride == 1 && geo_.axis[line_].dst_x == unit_) {
    unit_ *= geo_.axis[line_--].dst_size;
  }
  if (geo_.axis[line_].dst_x != unit_ && unit_ > 1) line_ = geo_.ndims - 1, unit_ = 1;
}

// Calls fn(sums, line) with where the lines along an axis begin, from its first slot and the first position of the
// part: an offset into the sums, -1 where no tap reaches the line, and one into dst.
template <class T>
template <class Fn>
void Store<T>::for_each_line(int along, Fn fn) const {
  Place place[kMaxAxes];
  const auto start = [&](int a) { place[a] = {0, 0, 0, a == along ? 0 : geo_.axis[a].slot_of(0)}; };
  for (int a = 0; a <= line_; ++a) start(a);
  for (;;) {
    int64_t sums = 0, line = 0;
    for (int a = 0; a <= line_; ++a) {
      if (place[a].slot < 0) sums = -1;
      if (sums >= 0) sums += place[a].slot * slot_stride_[a] + place[a].j * j_stride_[a];
      line += place[a].y * geo_.axis[a].dst_x;
    }
    fn(sums, line);
    int a = line_;
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

// Calls fn(lines) for the lines that taps reach: those of the slots of each other axis.
template <class T>
template <class Fn>
void Store<T>::for_each_reached(int along, Fn fn) const {
  const int inner = along == line_ ? line_ - 1 : line_;  // its lines are taken together
  int64_t slot[kMaxAxes] = {}, j[kMaxAxes], count[kMaxAxes];
  for (;;) {
    Lines lines{0, 0, 1, 0, 0};
    bool any = true;
    for (int a = 0; a <= line_; ++a) {
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
    for (int a = any ? line_ : -1; a >= 0;) {
      fn(lines);
      for (a = line_; a >= 0; --a) {
        if (a == along || a == inner) continue;
        const int64_t step = geo_.axis[a].stride * geo_.axis[a].dst_x;
        lines.sums += j_stride_[a], lines.dst += step;
        if (++j[a] < count[a]) break;
        lines.sums -= count[a] * j_stride_[a], lines.dst -= count[a] * step;
        j[a] = 0;
      }
    }
    int a = line_;
    for (; a >= 0; --a) {
      if (a == along) continue;
      if (++slot[a] < geo_.axis[a].slots) break;
      slot[a] = 0;
    }
    if (a < 0) return;
  }
}

// Fills `length` positions of a line in the channels [first, last) as where no tap reaches.
template <class T>
void Store<T>::fill(int64_t line, int64_t length, int64_t first, int64_t last, bool past_caches) const {
  const int64_t step = geo_.axis[line_].dst_x / unit_;
  length *= unit_;
  T* out = dst_ + line;
  if (dst_c_ == 1) {
    for (int64_t y = 0; y < length; ++y) {
      for (int64_t c = first; c < last; ++c) round_to(out + y * step + c, gap_[c]);
    }
    return;
  }
  for (int64_t c = first; c < last; ++c) {
    T value, *row = out + c * dst_c_;
    round_to(&value, gap_[c]);
    if (step == 1) {
      kernels::fill(row, length, value, past_caches ? &results_.kernels.write_lines : nullptr);
    } else {
      for (int64_t y = 0; y < length; ++y) row[y * step] = value;
    }
  }
}

// Calls fn(sums, line) as for_each_line() does along line_, but for lines that no tap reaches: these are filled in the
// channels [first, last), those that follow each other in dst at once.
template <class T>
template <class Fn>
void Store<T>::fill_between_lines(int64_t first, int64_t last, Fn fn) const {
  const int64_t step = geo_.axis[line_].dst_x;
  int64_t begin = 0, end = 0;  // of what is to be filled
  const auto fill_some = [&] {
    if (begin < end) fill(begin, (end - begin) / step, first, last, geo_.gaps_lie_far);
  };
  for_each_line(line_, [&](int64_t sums, int64_t line) {
    if (sums < 0 && line == end) {
      end += length(line_) * step;
      return;
    }
    fill_some();
    begin = end = line;
    if (sums < 0) {
      end += length(line_) * step;
    } else {
      fn(sums, line);
    }
  });
  fill_some();
}

// Fills all positions of the part: those of the last axes that follow each other in dst at once.
template <class T>
void Store<T>::fill_part(int64_t first, int64_t last) const {
  int64_t positions = length(line_), step = geo_.axis[line_].dst_x * geo_.axis[line_].dst_size;
  int outer = line_;  // axes
  while (outer > 0 && geo_.axis[outer - 1].dst_x == step) {
    --outer;
    step *= geo_.axis[outer].dst_size;
    positions *= length(outer);
  }
  int64_t y[kMaxAxes] = {}, begin = 0;
  for (int a = 0; a >= 0;) {
    fill(begin, positions, first, last, geo_.gaps_lie_far);
    for (a = outer - 1; a >= 0; --a) {
      begin += geo_.axis[a].dst_x;
      if (++y[a] < length(a)) break;
      begin -= y[a] * geo_.axis[a].dst_x;
      y[a] = 0;
    }
  }
}

// Whether a line along the last axis is best written by the transpose kernel: many slots in order, and many j.
template <class T>
bool Store<T>::transposes() const {
  constexpr int64_t kLeast = 8;
  const int64_t least_positions = results_.plan.arch.avx2_fma ? 4 : 16;
  const Axis& axis = geo_.axis[line_];
  return !std::is_same_v<T, double> && axis.in_order() && axis.dst_x == 1 &&
         axis.slots >= (axis.has_gaps() ? kLeastInRun : kLeast) && j_count(line_) >= least_positions;
}

// Writes `count` j of all slots, whose residues count up from that of the first one, and then from zero.
template <class T>
void Store<T>::transpose(const Cell* in, int64_t count, Cell bias, T* out) const {
  const Axis& axis = geo_.axis[line_];
  const auto write = results_.kernels.transpose.template to<T>();
  std::fill_n(repeated_, axis.slots, bias);
  const int64_t first = axis.residue_of(0), before = std::min(axis.slots, axis.stride - first);
  write(in, geo_.slot_size, before, count, repeated_, out + first, axis.stride);
  if (before == axis.slots) return;
  write(in + before * geo_.slot_size, geo_.slot_size, axis.slots - before, count, repeated_, out, axis.stride);
}

// Interleaves the slots of lines along the last axis, those of zeros among them.
template <class T>
void Store<T>::store_rows() const {
  const Axis& axis = geo_.axis[line_];
  const int64_t all = length(line_) * unit_, whole = all / axis.stride, rest = all % axis.stride;
  int64_t residue[kMostPhases];
  for (int64_t slot = 0; slot < axis.slots; ++slot) residue[slot] = axis.residue_of(slot);
  std::fill_n(phases_, axis.stride, sums_ + geo_.zeros);
  // Where no interleave kernel is faster.
  const bool transposes = this->transposes() && !results_.plan.arch.avx512 && !axis.has_gaps();
  const auto write_line = [&](int64_t sums, int64_t line) {
    T* out = dst_ + line;
    const Cell* in = sums_ + sums;
    for (int64_t slot = 0; slot < axis.slots; ++slot) phases_[residue[slot]] = in + slot * geo_.slot_size;
    const InterleaveArgs<T> args{phases_, geo_.channel_size,      part_.channels, whole, axis.stride, left_, out,
                                 dst_c_,  kernels::Store::kCached};
    if (transposes) {
      for (int64_t c = 0; c < part_.channels; ++c) {
        transpose(in + c * geo_.channel_size, whole, args.bias_of(c), out + c * dst_c_);
      }
    } else if (whole > 0) {
      results_.kernels.interleave.template to<T>()(args);
    }
    for (int64_t c = 0; c < part_.channels && rest > 0; ++c) {
      T* tail = out + c * dst_c_ + whole * axis.stride;
      for (int64_t r = 0; r < rest; ++r)
        round_to(tail + r, phases_[r][c * geo_.channel_size + whole] + args.bias_of(c));
    }
  };
  // Of short lines, those that no tap reaches are filled before, together with all others.
  const bool skips = std::any_of(geo_.axis, geo_.axis + line_, [](const Axis& outer) { return outer.has_gaps(); });
  if (skips && !fills_lines()) {
    fill_part(0, part_.channels);
    for_each_reached(line_, [&](const Lines& lines) {
      for (int64_t i = 0; i < lines.count; ++i) {
        write_line(lines.sums + i * lines.sums_step, lines.dst + i * lines.dst_step);
      }
    });
    return;
  }
  fill_between_lines(0, part_.channels, write_line);
}

// Rounds the sums, with their bias, many at a time: one by one it takes longer than all that is done with them.
template <class T>
void Store<T>::round_sums() {
  if constexpr (kRounds) {
    const Cell* in = sums_;
    results_.kernels.interleave.template to<T>()({&in, geo_.channel_size, part_.channels, geo_.zeros, 1, left_, values_,
                                                  geo_.channel_size, kernels::Store::kCached});
  }
}

// Writes sums that are next to each other, as they will be in dst.
template <class T>
void Store<T>::store_run(const Cell* in, T* out, int64_t count, int64_t first, int64_t last) const {
  if (count <= 0) return;
  in += first * geo_.channel_size;
  const Cell* bias = left_ == nullptr ? nullptr : left_ + first;
  results_.kernels.interleave.template to<T>()(
      {&in, geo_.channel_size, last - first, count, 1, bias, out + first * dst_c_, dst_c_, kernels::Store::kCached});
}

// Writes `count` j of one slot of some lines.
template <class T>
void Store<T>::store_slot(int along, const Lines& lines, int64_t count, int64_t first, int64_t last) const {
  const Axis& axis = geo_.axis[along];
  const int64_t from = j_stride_[along], to = axis.stride * axis.dst_x;
  if (dst_c_ == 1 && from == 1) {
    const Cell* bias = left_ == nullptr ? nullptr : left_ + first;
    const Cell* in = sums_ + lines.sums + first * geo_.channel_size;
    T* out = dst_ + lines.dst + first;
    for (int64_t i = 0; i < lines.count; ++i, in += lines.sums_step, out += lines.dst_step) {
      results_.kernels.transpose.template to<T>()(in, geo_.channel_size, last - first, count, bias, out, to);
    }
    return;
  }
  for (int64_t c = first; c < last; ++c) {
    const Cell add = left_ == nullptr ? -Cell() : left_[c];
    const T* line = values_ + lines.sums + c * geo_.channel_size;
    T* row = dst_ + lines.dst + c * dst_c_;
    for (int64_t n = 0; n < lines.count; ++n, line += lines.sums_step, row += lines.dst_step) {
      const T* in = line;
      T* out = row;
      if (unit_ == 1) {
        for (int64_t i = 0; i < count; ++i, in += from, out += to) *out = with_bias<T>(*in, add);
        continue;
      }
      for (int64_t i = 0; i < count; ++i, in += from, out += to) {
        for (int64_t k = 0; k < unit_; ++k) out[k] = with_bias<T>(in[k], add);
      }
    }
  }
}

// Whether lines along an axis are written j by j, not slot by slot: where there are more slots, or where the j of a
// slot lie in a cache line each.
template <class T>
bool Store<T>::goes_by_j(int along) const {
  constexpr int64_t kManySlots = 8, kApart = 64 / sizeof(T);
  const Axis& axis = geo_.axis[along];
  if (along != line_ || unit_ > 1 || dst_c_ == 1) return false;
  return axis.slots > j_count(along) || (axis.slots >= kManySlots && axis.stride >= kApart) || transposes();
}

// Writes the j [begin, end) of a line along the last axis of many slots: j by j.
template <class T>
void Store<T>::store_slots(int64_t sums, int64_t line, int64_t begin, int64_t end, int64_t first, int64_t last) const {
  const Axis& axis = geo_.axis[line_];
  // From slot to slot; of a single one it does not matter.
  const int64_t start = residue_[0];
  const int64_t step = axis.slots == 1 ? axis.stride : axis.by_tap ? axis.dilation % axis.stride : axis.step;
  if (geo_.slot_size == 1 && axis.in_order() && axis.dst_x == 1) {  // a single j
    const int64_t before = std::min(axis.slots, axis.stride - start);
    store_run(sums_ + sums, dst_ + line + start, std::min(before, length(line_) - start), first, last);
    store_run(sums_ + sums + before, dst_ + line, std::min(axis.slots - before, length(line_)), first, last);
    return;
  }
  const int64_t all = length(line_), hop = step * axis.dst_x, slot_size = geo_.slot_size;
  // Runs of slots until the residues begin again: the same for every j, and to divide takes longer than to write some.
  constexpr int kMostRuns = 16;
  int64_t residues[kMostRuns], counts[kMostRuns], listed = 0;
  int runs = 0;
  for (int64_t residue = start; listed < axis.slots && runs < kMostRuns; ++runs) {
    residues[runs] = residue;
    counts[runs] = std::min(axis.slots - listed, ceil_div(axis.stride - residue, step));
    listed += counts[runs];
    residue += counts[runs] * step - axis.stride;
  }
  for (int64_t c = first; c < last; ++c) {
    const Cell add = left_ == nullptr ? -Cell() : left_[c];
    int64_t j = begin;
    if (transposes()) {
      j = all / axis.stride;
      transpose(sums_ + c * geo_.channel_size + sums, j, add, dst_ + c * dst_c_ + line);
    }
    for (; j < end; ++j) {
      const T* in = values_ + c * geo_.channel_size + sums + j;
      const int64_t left = all - j * axis.stride;
      T* out = dst_ + c * dst_c_ + line + j * axis.stride * axis.dst_x;
      const auto write = [&](int64_t residue, int64_t count) {
        T* to = out + residue * axis.dst_x;
        for (int64_t i = 0; i < count; ++i, to += hop) *to = with_bias<T>(in[i * slot_size], add);
      };
      if (left >= axis.stride && listed == axis.slots) {
        for (int run = 0; run < runs; ++run) {
          write(residues[run], counts[run]);
          in += counts[run] * slot_size;
        }
        continue;
      }
      int64_t residue = start;
      for (int64_t slot = 0, count; slot < axis.slots; slot += count) {
        count = std::min(axis.slots - slot, ceil_div(axis.stride - residue, step));
        write(residue, std::clamp<int64_t>(ceil_div(left - residue, step), 0, count));
        in += count * slot_size;
        residue += count * step - axis.stride;
      }
    }
  }
}

// Calls fn(lines, count) for each slot of an axis with those of the j [begin, end) that are in dst.
template <class T>
template <class Fn>
void Store<T>::for_each_slot(int along, const Lines& lines, int64_t begin, int64_t end, Fn fn) const {
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

// Writes the j [begin, end) of some lines, counted from those of the part.
template <class T>
void Store<T>::store_lines(int along, const Lines& lines, int64_t begin, int64_t end, int64_t first,
                           int64_t last) const {
  if (goes_by_j(along)) {
    for (int64_t i = 0; i < lines.count; ++i) {
      store_slots(lines.sums + i * lines.sums_step, lines.dst + i * lines.dst_step, begin, end, first, last);
    }
    return;
  }
  for_each_slot(along, lines, begin, end,
                [&](const Lines& of_slot, int64_t count) { store_slot(along, of_slot, count, first, last); });
}

// Adds the bias to all sums.
template <class T>
void Store<T>::add_bias() {
  for_each_position([&](Cell* sums) {
    for (int64_t c = 0; c < part_.channels; ++c, sums += geo_.channel_size) {
      for (int64_t i = 0; i < geo_.channel_size; ++i) sums[i] += left_[c];
    }
  });
  left_ = nullptr;
}

// Applies the activation to all sums, with the bias.
template <class T>
void Store<T>::activate() {
  const Activation& activation = results_.problem.activation;
  const int64_t size = geo_.channel_size;
  if (!geo_.by_rows || activation.is_identity()) {
    left_ = im2col::activate(results_.kernels, results_.problem, sums_, size, part_.channels, size, left_);
    return;
  }
  if constexpr (!std::is_same_v<T, double>) {
    if (left_ != nullptr) add_bias();
    for_each_position(
        [&](Cell* sums) { results_.kernels.activate.template run<T>(activation, 0.0f, part_.channels * size, sums); });
  }
}

// Writes channels in steps: several together, where they have the same in gaps.
template <class T>
void Store<T>::store_steps() {
  const int first = geo_.first_in_steps;
  const int64_t numbers = length(first) * geo_.inner_dst, images = first == 0 ? 1 : length(0);
  const int64_t together = geo_.together(results_.bias != nullptr);
  const auto expand = results_.kernels.expand.template to<T>();
  ExpandArgs<T> args{nullptr, nullptr, 0, -Cell(), Cell(), nullptr, 0};
  if (left_ != nullptr && together > 1) add_bias();
  const bool far = geo_.writes_past_caches();
  PastCaches<T> past_caches(results_.kernels.write_lines, staged_);
  for (int64_t image = 0; image < images; ++image) {
    for (int64_t c = 0; c < part_.channels; c += together) {
      args.src = sums_ + c * geo_.channel_size + image * j_stride_[0];
      if (left_ != nullptr) args.bias = left_[c];
      if (geo_.has_gaps) args.gap = gap_[c];
      T gap, *out = dst_ + c * dst_c_ + image * geo_.axis[0].dst_x;
      round_to(&gap, args.gap);
      int64_t left = std::min(together, part_.channels - c) * numbers;
      for (auto part = parts_->begin(); left > 0; ++part, out += args.size, left -= args.size) {
        args.size = std::min(left, part->rows * kExpandWidth);
        if (far && part->is_gap()) {
          past_caches.fill(out, args.size, gap);
          continue;
        }
        args.steps = part->steps.data(), args.num_steps = static_cast<int64_t>(part->steps.size());
        args.dst = far ? past_caches.room(out) : out;
        expand(args);
        if (far) past_caches.add(args.size);
      }
    }
  }
  past_caches.finish();
}

// Whether what is not reached is filled line by line, of long lines.
template <class T>
bool Store<T>::fills_lines() const {
  constexpr int64_t kLineBytes = 4 << 10;
  return length(line_) * unit_ * static_cast<int64_t>(sizeof(T)) > kLineBytes;
}

// Writes the sums of the channels [first, last) in lines along any axis, and what no tap reaches.
template <class T>
void Store<T>::store_strided(int along, int64_t first, int64_t last) const {
  if (!geo_.has_gaps || along != line_ || !fills_lines()) {
    if (geo_.has_gaps) fill_part(first, last);
    for_each_reached(along, [&](const Lines& lines) { store_lines(along, lines, 0, j_count(along), first, last); });
    return;
  }
  // What is filled is still in L1 when the sums are written.
  constexpr int64_t kChunkBytes = 16 << 10;
  const Axis& axis = geo_.axis[along];
  int64_t chunk = std::max<int64_t>(1, kChunkBytes / (axis.stride * unit_ * static_cast<int64_t>(sizeof(T))));
  if (axis.slots > j_count(along) || transposes()) chunk = j_count(along);
  fill_between_lines(first, last, [&](int64_t sums, int64_t line) {
    for (int64_t begin = 0, end; begin < j_count(along); begin = end) {
      end = std::min(begin + chunk, j_count(along));
      const int64_t filled = std::min(end * axis.stride, length(along)) - begin * axis.stride;
      fill(line + begin * axis.stride * axis.dst_x, filled, first, last, geo_.line_gaps_lie_far);
      store_lines(along, {sums, line, 1, 0, 0}, begin, end, first, last);
    }
  });
}

// Adds the bias to sums that are in dst, and activates them.
template <class T>
void Store<T>::finish_in_dst() const {
  const int64_t count = part_.j_count * geo_.inner_j;
  for (int64_t c = 0; c < part_.channels; ++c) {
    T* row = dst_ + c * dst_c_;
    if constexpr (std::is_same_v<T, float>) {
      if (!results_.problem.activation.is_identity()) {
        results_.kernels.activate.template run<T>(results_.problem.activation, left_ == nullptr ? 0 : left_[c], count,
                                                  row);
        continue;
      }
    }
    for (int64_t i = 0; left_ != nullptr && i < count; ++i) row[i] = with_bias<T>(row[i], left_[c]);
  }
}

template <class T>
void Store<T>::store_all() {
  if (geo_.in_dst) return finish_in_dst();
  const ConvProblem& p = results_.problem;
  const Axis& axis = geo_.axis[line_];
  int longest = line_;
  for (int a = line_; a >= 0; --a) {
    if (geo_.axis[a].j_count > geo_.axis[longest].j_count) longest = a;
  }
  if (geo_.has_gaps) {
    for (int64_t c = 0; c < part_.channels; ++c) {
      gap_[c] = left_ == nullptr ? Cell() : left_[c];
      std::fill_n(sums_ + c * geo_.channel_size + geo_.zeros, geo_.num_zeros, Cell());
    }
    if constexpr (!std::is_same_v<T, double>) {
      if (!p.activation.is_identity()) {
        results_.kernels.activate.template run<T>(p.activation, 0.0f, part_.channels, gap_);
      }
    }
  }
  activate();
  if (parts_ != nullptr) return store_steps();

  constexpr int64_t kFewGroups = 4;  // of phases
  const bool many = axis.j_count >= kFewGroups || geo_.axis[longest].j_count < kFewGroups;
  const bool interleaves = unit_ == 1 && geo_.interleaves(axis) && axis.j_count >= kLeastInterleaved &&
                           (geo_.num_zeros > 0 || !axis.has_gaps());
  if (axis.dst_x == unit_ && (axis.stride == 1 || interleaves)) {
    store_rows();
    return;
  }
  round_sums();
  const int along = many ? line_ : longest;
  const Axis& lines = geo_.axis[along];
  for (int64_t slot = 0; slot < std::min(lines.slots, kMostPhases); ++slot) {
    residue_[slot] = lines.residue_of(slot);
    count_[slot] = ceil_div(length(along) - residue_[slot], lines.stride);
  }
  int64_t lines_of_channel = 1;
  for (int a = 0; a <= line_; ++a) lines_of_channel *= a == along ? 1 : length(a);
  const bool all = dst_c_ == 1 || lines_of_channel == 1;  // channels at a time
  const int64_t channels = all ? part_.channels : 1;
  for (int64_t c = 0; c < part_.channels; c += channels) {
    store_strided(along, c, c + channels);
  }
}

}  // namespace

template <class T>
void store_sums(const Results<T>& results, const Part& part, char* slice, const std::vector<ExpandPart>* steps) {
  Store<T>(results, part, slice, steps).store_all();
  if (results.geometry.lies_far) finish_past_caches();
}

#define INSTANTIATE(T) template void store_sums(const Results<T>&, const Part&, char*, const std::vector<ExpandPart>*);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels::gemm_col2im

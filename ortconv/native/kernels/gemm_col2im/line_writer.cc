#include "kernels/gemm_col2im/line_writer.h"

#include <algorithm>
#include <type_traits>

#include "kernels/fill.h"
#include "kernels/gemm_col2im/dst_lines.h"

namespace ortconv::kernels::gemm_col2im {
namespace {

// Some channels of a part. The offsets of lines count from `dst`, which belongs to the first of them.
template <class T>
struct Channels {
  int64_t first, last;
  T* dst;
};

// Lines of evenly spaced sums: one of each of some channels, or several of one channel.
template <class T>
struct Rows {
  const Sum<T>* in;
  T* out;
  int64_t count, in_step, out_step;
  const Sum<T>* bias;  // null: none
  int64_t bias_step;
  const Sum<T>* zeros;  // of the first channel; null for lines of one, which are not along an axis with gaps
};

template <class T>
class LineWriter {
 public:
  using Cell = Sum<T>;

  LineWriter(const Results<T>& results, const Part& part, const PartSums<T>& sums, char* slice)
      : results_(results),
        geo_(results.geometry),
        part_(part),
        lines_(geo_, part),
        last_(geo_.line),
        unit_(geo_.line_unit),
        line_size_(lines_.length(last_) * unit_),
        whole_(line_size_ / geo_.axis[last_].stride),
        rest_(line_size_ % geo_.axis[last_].stride),
        transposes_(prefers_transpose()),
        dst_c_(results.problem.dst_c),
        sums_(sums.sums),
        bias_(sums.bias),
        gap_(sums.gap),
        repeated_(at<Cell>(slice, geo_.repeated)),
        staged_(at<T>(slice, geo_.staged)),
        dst_(sums.dst) {
    if constexpr (kRounds) {
      values_ = at<T>(slice, geo_.rounded);
    } else {
      values_ = sums.sums;
    }
  }

  void write();

 private:
  static constexpr bool kRounds = !std::is_same_v<T, Cell>;

  Channels<T> channels(int64_t first, int64_t last) const { return {first, last, dst_ + first * dst_c_}; }
  Cell bias_of(int64_t channel) const { return bias_ == nullptr ? -Cell() : bias_[channel]; }

  void round_sums();
  void fill(int64_t line, int64_t length, const Channels<T>& to, bool past_caches) const;
  template <class Fn>
  void fill_between_lines(const Channels<T>& to, Fn fn) const;
  void fill_part(const Channels<T>& to) const;
  bool fills_lines() const { return geo_.has_long_lines(sizeof(T)); }  // to fill what is not reached

  bool interleaves() const;
  bool prefers_transpose() const;
  void transpose(const Cell* in, int64_t count, Cell bias, T* out) const;
  Rows<T> rows_of(const Channels<T>& to, int64_t sums, int64_t line) const;
  Rows<T> rows_of(int64_t channel, const Lines& lines) const;
  void interleave(const Rows<T>& rows, int64_t begin, int64_t end) const;
  void write_rows() const;

  void write_run(const Cell* in, int64_t line, int64_t count, const Channels<T>& to) const;
  void write_slot(int along, const Lines& lines, int64_t count, const Channels<T>& to) const;
  bool goes_by_j(int along) const;
  void write_slots(int64_t sums, int64_t line, int64_t begin, int64_t end, const Channels<T>& to) const;
  void write_lines(int along, const Lines& lines, int64_t begin, int64_t end, const Channels<T>& to) const;
  void write_strided(int along, const Channels<T>& to) const;

  void write_past_caches() const;

  const Results<T>& results_;
  const Geometry& geo_;
  const Part& part_;
  DstLines lines_;
  const int last_;
  const int64_t unit_;
  const int64_t line_size_, whole_, rest_;  // numbers of a line; whole strides in it; numbers after these
  const bool transposes_;                   // lines along the last axis are best written by the transpose kernel
  const int64_t dst_c_;
  const Cell *sums_, *bias_, *gap_;
  Cell* repeated_;
  T* staged_;  // what is written past the caches
  T* values_;  // what is written number by number: the sums, or the same rounded, with their bias
  T* dst_;
};

// Fills `length` positions of a line as where no tap reaches.
template <class T>
void LineWriter<T>::fill(int64_t line, int64_t length, const Channels<T>& to, bool past_caches) const {
  const int64_t step = geo_.axis[last_].dst_x / unit_;
  length *= unit_;
  T* out = to.dst + line;
  if (dst_c_ == 1) {
    for (int64_t y = 0; y < length; ++y) {
      for (int64_t c = to.first; c < to.last; ++c) round_to(out + y * step + c - to.first, gap_[c]);
    }
    return;
  }
  for (int64_t c = to.first; c < to.last; ++c, out += dst_c_) {
    T value;
    round_to(&value, gap_[c]);
    if (step == 1) {
      kernels::fill(out, length, value, past_caches ? &results_.kernels.write_lines : nullptr);
    } else {
      for (int64_t y = 0; y < length; ++y) out[y * step] = value;
    }
  }
}

// Calls fn(sums, line) as DstLines::for_each() does along the last axis, but for lines that no tap reaches: these are
// filled, those that follow each other in dst at once.
template <class T>
template <class Fn>
void LineWriter<T>::fill_between_lines(const Channels<T>& to, Fn fn) const {
  const int64_t step = geo_.axis[last_].dst_x;
  int64_t begin = 0, end = 0;  // of what is to be filled
  const auto fill_some = [&] {
    if (begin < end) fill(begin, (end - begin) / step, to, geo_.gaps_lie_far);
  };
  lines_.for_each(last_, [&](int64_t sums, int64_t line) {
    if (sums < 0 && line == end) {
      end += lines_.length(last_) * step;
      return;
    }
    fill_some();
    begin = end = line;
    if (sums < 0) {
      end += lines_.length(last_) * step;
    } else {
      fn(sums, line);
    }
  });
  fill_some();
}

// Fills all positions of the part: those of the last axes that follow each other in dst at once.
template <class T>
void LineWriter<T>::fill_part(const Channels<T>& to) const {
  int64_t positions = lines_.length(last_), step = geo_.axis[last_].dst_x * geo_.axis[last_].dst_size;
  int outer = last_;  // axes
  while (outer > 0 && geo_.axis[outer - 1].dst_x == step) {
    --outer;
    step *= geo_.axis[outer].dst_size;
    positions *= lines_.length(outer);
  }
  int64_t y[kMaxAxes] = {}, begin = 0;
  for (int a = 0; a >= 0;) {
    fill(begin, positions, to, geo_.gaps_lie_far);
    for (a = outer - 1; a >= 0; --a) {
      begin += geo_.axis[a].dst_x;
      if (++y[a] < lines_.length(a)) break;
      begin -= y[a] * geo_.axis[a].dst_x;
      y[a] = 0;
    }
  }
}

// Whether the slots of a line are interleaved, those of zeros among them.
template <class T>
bool LineWriter<T>::interleaves() const {
  const Axis& axis = geo_.axis[last_];
  if (axis.dst_x != unit_) return false;
  if (axis.stride == 1) return true;
  return unit_ == 1 && geo_.interleaves(axis) && axis.j_count >= kLeastInterleaved &&
         (geo_.num_zeros > 0 || !axis.has_gaps());
}

// Whether there are many slots in order, and many j.
template <class T>
bool LineWriter<T>::prefers_transpose() const {
  constexpr int64_t kLeast = 8;
  const int64_t least_positions = results_.plan.arch.avx2_fma ? 4 : 16;
  const Axis& axis = geo_.axis[last_];
  return !std::is_same_v<T, double> && axis.in_order() && axis.dst_x == 1 &&
         axis.slots >= (axis.has_gaps() ? kLeastInRun : kLeast) && lines_.j_count(last_) >= least_positions;
}

// Writes `count` j of all slots, whose residues count up from that of the first one, and then from zero.
template <class T>
void LineWriter<T>::transpose(const Cell* in, int64_t count, Cell bias, T* out) const {
  const Axis& axis = geo_.axis[last_];
  const auto write = results_.kernels.transpose.template to<T>();
  std::fill_n(repeated_, axis.slots, bias);
  const int64_t first = axis.residue_of(0), before = std::min(axis.slots, axis.stride - first);
  write(in, geo_.slot_size, before, count, repeated_, out + first, axis.stride);
  if (before == axis.slots) return;
  write(in + before * geo_.slot_size, geo_.slot_size, axis.slots - before, count, repeated_, out, axis.stride);
}

template <class T>
auto LineWriter<T>::rows_of(const Channels<T>& to, int64_t sums, int64_t line) const -> Rows<T> {
  return {sums_ + to.first * geo_.channel_size + sums,
          to.dst + line,
          to.last - to.first,
          geo_.channel_size,
          dst_c_,
          bias_ == nullptr ? nullptr : bias_ + to.first,
          1,
          sums_ + to.first * geo_.channel_size + geo_.zeros};
}

template <class T>
auto LineWriter<T>::rows_of(int64_t channel, const Lines& lines) const -> Rows<T> {
  return {sums_ + channel * geo_.channel_size + lines.sums,
          dst_ + channel * dst_c_ + lines.dst,
          lines.count,
          lines.sums_step,
          lines.dst_step,
          bias_ == nullptr ? nullptr : bias_ + channel,
          0,
          nullptr};
}

// Writes the j [begin, end) of some lines.
template <class T>
void LineWriter<T>::interleave(const Rows<T>& rows, int64_t begin, int64_t end) const {
  const Axis& axis = geo_.axis[last_];
  begin *= unit_, end *= unit_;
  const int64_t whole = std::min(end, whole_) - begin;
  const int64_t rest = begin + whole < end ? rest_ : 0;
  const Cell* in = rows.in + begin;
  T* out = rows.out + begin * axis.stride;
  // Where no interleave kernel is faster.
  const bool transposes = transposes_ && !results_.plan.arch.avx512 && !axis.has_gaps();
  const Cell* phases[kMostPhases];
  if (!transposes || rest > 0) {
    if (axis.has_gaps()) std::fill_n(phases, axis.stride, rows.zeros);
    for (int64_t slot = 0; slot < axis.slots; ++slot) phases[lines_.residue(slot)] = in + slot * geo_.slot_size;
  }
  const InterleaveArgs<T> args{phases,        rows.in_step,  rows.count,
                               whole,         axis.stride,   rows.bias,
                               out,           rows.out_step, kernels::Store::kCached,
                               rows.bias_step};
  if (transposes) {
    for (int64_t i = 0; i < rows.count; ++i) {
      transpose(in + i * rows.in_step, whole, args.bias_of(i), out + i * rows.out_step);
    }
  } else if (whole > 0) {
    results_.kernels.interleave.template to<T>()(args);
  }
  for (int64_t i = 0; i < rows.count && rest > 0; ++i) {
    T* tail = out + i * rows.out_step + whole * axis.stride;
    for (int64_t r = 0; r < rest; ++r) round_to(tail + r, phases[r][i * rows.in_step + whole] + args.bias_of(i));
  }
}

// Writes all lines of interleaved slots.
template <class T>
void LineWriter<T>::write_rows() const {
  const Channels<T> to = channels(0, part_.channels);
  const int64_t all = lines_.j_count(last_);
  const auto write_line = [&](int64_t sums, int64_t line) { interleave(rows_of(to, sums, line), 0, all); };
  // Of short lines, those that no tap reaches are filled before, together with all others.
  const bool skips = std::any_of(geo_.axis, geo_.axis + last_, [](const Axis& outer) { return outer.has_gaps(); });
  const bool by_slots = geo_.writes_by_slots(part_.channels, sizeof(T));
  if (!by_slots && (!skips || fills_lines())) return fill_between_lines(to, write_line);
  if (skips) fill_part(to);
  lines_.for_each_reached(last_, [&](const Lines& lines) {
    if (by_slots) {
      for (int64_t c = 0; c < part_.channels; ++c) interleave(rows_of(c, lines), 0, all);
      return;
    }
    for (int64_t i = 0; i < lines.count; ++i) {
      write_line(lines.sums + i * lines.sums_step, lines.dst + i * lines.dst_step);
    }
  });
}

// Rounds the sums, with their bias, many at a time: one by one it takes longer than all that is done with them.
template <class T>
void LineWriter<T>::round_sums() {
  if constexpr (kRounds) {
    const Cell* in = sums_;
    results_.kernels.interleave.template to<T>()({&in, geo_.channel_size, part_.channels, geo_.zeros, 1, bias_, values_,
                                                  geo_.channel_size, kernels::Store::kCached});
  }
}

// Writes sums that are next to each other, as they will be in dst.
template <class T>
void LineWriter<T>::write_run(const Cell* in, int64_t line, int64_t count, const Channels<T>& to) const {
  if (count <= 0) return;
  in += to.first * geo_.channel_size;
  const Cell* bias = bias_ == nullptr ? nullptr : bias_ + to.first;
  results_.kernels.interleave.template to<T>()(
      {&in, geo_.channel_size, to.last - to.first, count, 1, bias, to.dst + line, dst_c_, kernels::Store::kCached});
}

// Writes `count` j of one slot of some lines.
template <class T>
void LineWriter<T>::write_slot(int along, const Lines& lines, int64_t count, const Channels<T>& to) const {
  const Axis& axis = geo_.axis[along];
  const int64_t from = lines_.j_stride(along), step = axis.stride * axis.dst_x;
  T* first = to.dst + lines.dst;
  if (dst_c_ == 1 && from == 1) {
    const Cell* bias = bias_ == nullptr ? nullptr : bias_ + to.first;
    const Cell* in = sums_ + lines.sums + to.first * geo_.channel_size;
    for (int64_t i = 0; i < lines.count; ++i, in += lines.sums_step, first += lines.dst_step) {
      results_.kernels.transpose.template to<T>()(in, geo_.channel_size, to.last - to.first, count, bias, first, step);
    }
    return;
  }
  for (int64_t c = to.first; c < to.last; ++c, first += dst_c_) {
    const Cell add = bias_of(c);
    const T* line = values_ + lines.sums + c * geo_.channel_size;
    T* row = first;
    for (int64_t n = 0; n < lines.count; ++n, line += lines.sums_step, row += lines.dst_step) {
      const T* in = line;
      T* out = row;
      if (unit_ == 1) {
        for (int64_t i = 0; i < count; ++i, in += from, out += step) *out = with_bias<T>(*in, add);
        continue;
      }
      for (int64_t i = 0; i < count; ++i, in += from, out += step) {
        for (int64_t k = 0; k < unit_; ++k) out[k] = with_bias<T>(in[k], add);
      }
    }
  }
}

// Whether lines along an axis are written j by j, not slot by slot: where there are more slots, or where the j of a
// slot lie in a cache line each.
template <class T>
bool LineWriter<T>::goes_by_j(int along) const {
  constexpr int64_t kManySlots = 8, kApart = 64 / sizeof(T);
  const Axis& axis = geo_.axis[along];
  if (along != last_ || unit_ > 1 || dst_c_ == 1) return false;
  return axis.slots > lines_.j_count(along) || (axis.slots >= kManySlots && axis.stride >= kApart) || transposes_;
}

// Writes the j [begin, end) of a line along the last axis of many slots: j by j.
template <class T>
void LineWriter<T>::write_slots(int64_t sums, int64_t line, int64_t begin, int64_t end, const Channels<T>& to) const {
  const Axis& axis = geo_.axis[last_];
  // From slot to slot; of a single one it does not matter.
  const int64_t start = lines_.residue(0);
  const int64_t step = axis.slots == 1 ? axis.stride : axis.by_tap ? axis.dilation % axis.stride : axis.step;
  const int64_t all = lines_.length(last_), hop = step * axis.dst_x, slot_size = geo_.slot_size;
  if (slot_size == 1 && axis.in_order() && axis.dst_x == 1) {  // a single j
    const int64_t before = std::min(axis.slots, axis.stride - start);
    write_run(sums_ + sums, line + start, std::min(before, all - start), to);
    write_run(sums_ + sums + before, line, std::min(axis.slots - before, all), to);
    return;
  }
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
  const int64_t j_step = axis.stride * axis.dst_x, whole = transposes_ ? std::min(end, whole_) : begin;
  for (int64_t c = to.first; c < to.last; ++c) {
    const Cell add = bias_of(c);
    const int64_t row = line + (c - to.first) * dst_c_;
    if (whole > begin) {
      transpose(sums_ + c * geo_.channel_size + sums + begin, whole - begin, add, to.dst + (row + begin * j_step));
    }
    for (int64_t j = whole; j < end; ++j) {
      const T* in = values_ + c * geo_.channel_size + sums + j;
      const int64_t left = all - j * axis.stride;
      T* out = to.dst + (row + j * j_step);
      const auto write = [&](int64_t residue, int64_t count) {
        T* at = out + residue * axis.dst_x;
        for (int64_t i = 0; i < count; ++i, at += hop) *at = with_bias<T>(in[i * slot_size], add);
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

// Writes the j [begin, end) of some lines, counted from those of the part.
template <class T>
void LineWriter<T>::write_lines(int along, const Lines& lines, int64_t begin, int64_t end,
                                const Channels<T>& to) const {
  if (goes_by_j(along)) {
    for (int64_t i = 0; i < lines.count; ++i) {
      write_slots(lines.sums + i * lines.sums_step, lines.dst + i * lines.dst_step, begin, end, to);
    }
    return;
  }
  lines_.for_each_slot(along, lines, begin, end,
                       [&](const Lines& of_slot, int64_t count) { write_slot(along, of_slot, count, to); });
}

// Writes lines along any axis, and what no tap reaches.
template <class T>
void LineWriter<T>::write_strided(int along, const Channels<T>& to) const {
  const int64_t j_count = lines_.j_count(along);
  if (!geo_.has_gaps || along != last_ || !fills_lines()) {
    if (geo_.has_gaps) fill_part(to);
    lines_.for_each_reached(along, [&](const Lines& lines) { write_lines(along, lines, 0, j_count, to); });
    return;
  }
  // What is filled is still in L1 when the sums are written.
  constexpr int64_t kChunkBytes = 16 << 10;
  const Axis& axis = geo_.axis[along];
  int64_t chunk = std::max<int64_t>(1, kChunkBytes / (axis.stride * unit_ * static_cast<int64_t>(sizeof(T))));
  if (axis.slots > j_count || transposes_) chunk = j_count;
  fill_between_lines(to, [&](int64_t sums, int64_t line) {
    for (int64_t begin = 0, end; begin < j_count; begin = end) {
      end = std::min(begin + chunk, j_count);
      const int64_t filled = std::min(end * axis.stride, lines_.length(along)) - begin * axis.stride;
      fill(line + begin * axis.stride * axis.dst_x, filled, to, geo_.gaps_lie_far);
      write_lines(along, {sums, line, 1, 0, 0}, begin, end, to);
    }
  });
}

// Puts lines together in a cache and writes them past the others.
template <class T>
void LineWriter<T>::write_past_caches() const {
  const Axis& axis = geo_.axis[last_];
  const int64_t chunk = geo_.num_staged / (axis.stride * unit_), length = lines_.length(last_);
  const bool interleaves = this->interleaves();
  PastCaches<T> past_caches(results_.kernels.write_lines, staged_);
  for (int64_t c = 0; c < part_.channels; ++c) {
    T gap{};
    if (geo_.has_gaps) round_to(&gap, gap_[c]);
    lines_.for_each(last_, [&](int64_t sums, int64_t line) {
      T* out = dst_ + c * dst_c_ + line;
      if (sums < 0) return past_caches.fill(out, line_size_, gap);
      for (int64_t begin = 0, end; begin * axis.stride < length; begin = end) {
        end = std::min(begin + chunk, lines_.j_count(last_));
        const int64_t before = begin * axis.stride * unit_;
        const int64_t numbers = std::min(end * axis.stride, length) * unit_ - before;
        const Channels<T> to{c, c + 1, past_caches.room(out)};
        if (interleaves) {
          interleave(rows_of(to, sums, -before), begin, end);
        } else {
          if (geo_.has_gaps) kernels::fill(to.dst, numbers, gap, nullptr);
          write_lines(last_, {sums, -before, 1, 0, 0}, begin, end, to);
        }
        past_caches.add(numbers);
        out += numbers;
      }
    });
  }
  past_caches.finish();
}

template <class T>
void LineWriter<T>::write() {
  const Axis& axis = geo_.axis[last_];
  lines_.list_slots(last_);
  const bool interleaves = this->interleaves();
  if (!interleaves) round_sums();
  if (geo_.stages_lines) return write_past_caches();
  if (interleaves) return write_rows();

  int longest = last_;
  for (int a = last_; a >= 0; --a) {
    if (geo_.axis[a].j_count > geo_.axis[longest].j_count) longest = a;
  }
  constexpr int64_t kFewGroups = 4;  // of phases
  const bool many = axis.j_count >= kFewGroups || geo_.axis[longest].j_count < kFewGroups;
  const int along = many ? last_ : longest;
  if (along != last_) lines_.list_slots(along);
  int64_t lines_of_channel = 1;
  for (int a = 0; a <= last_; ++a) lines_of_channel *= a == along ? 1 : lines_.length(a);
  const bool all = dst_c_ == 1 || lines_of_channel == 1;  // channels at a time
  const int64_t together = all ? part_.channels : 1;
  for (int64_t c = 0; c < part_.channels; c += together) write_strided(along, channels(c, c + together));
}

}  // namespace

template <class T>
void write_lines(const Results<T>& results, const Part& part, const PartSums<T>& sums, char* slice) {
  LineWriter<T>(results, part, sums, slice).write();
}

#define INSTANTIATE(T) template void write_lines(const Results<T>&, const Part&, const PartSums<T>&, char*);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels::gemm_col2im

#include <algorithm>
#include <cstring>
#include <type_traits>

#include "base/ranges.h"
#include "kernels/disjoint_windows/plan.h"
#include "kernels/disjoint_windows/rows.h"
#include "kernels/fill.h"
#include "kernels/im2col/product.h"

namespace ortconv::kernels::disjoint_windows {
namespace {

template <class T>
struct Run {
  const Plan& plan;
  const ConvProblem& problem;
  const Geometry& geometry;
  const im2col::Kernels<T> kernels;
  const T* src;
  const Sum<T>* weights;  // packed
  const T* bias;          // may be null
  T* dst;
};

// Numbers of a channel of dst that are filled before windows are copied to it.
struct Gaps {
  int64_t first, end;  // on the first axis
  int outer;           // the first of the axes that are filled at once
  int64_t length, rows;
};

// The state of a thread.
template <class T>
class Worker {
 public:
  using Cell = Sum<T>;

  Worker(const Run<T>& run, char* slice)
      : run_(run),
        plan_(run.plan),
        p_(run.problem),
        geo_(run.geometry),
        last_(run.problem.ndims - 1),
        src_(reinterpret_cast<Cell*>(slice + geo_.src)),
        line_(reinterpret_cast<Cell*>(slice + geo_.line)),
        products_(reinterpret_cast<Cell*>(slice + geo_.products)),
        bias_(reinterpret_cast<Cell*>(slice + geo_.bias)),
        gap_(reinterpret_cast<Cell*>(slice + geo_.gap)),
        offsets_(reinterpret_cast<int64_t*>(slice + geo_.offsets)),
        places_(reinterpret_cast<int64_t*>(slice + geo_.places)) {
    if constexpr (kRounds) {
      values_ = reinterpret_cast<T*>(slice + geo_.rounded);
    } else {
      values_ = products_;
    }
    for (int64_t row = 0; row < num_rows(); ++row) {
      offsets_[row] = 0;
      int64_t rest = row;
      for (int a = last_ - 1; a >= 0; --a) {
        offsets_[row] += rest % p_.ker[a] * p_.dilation[a] * p_.dst_x[a];
        rest /= p_.ker[a];
      }
    }
  }

  void run_item(int64_t item);

 private:
  static constexpr bool kRounds = !std::is_same_v<T, Cell>;

  int64_t num_rows() const { return plan_.taps / plan_.row; }  // of a window
  int64_t window_begin(int a, int64_t x) const { return x * p_.stride[a] - p_.pad[a]; }

  void prepare_channels(int64_t group, int64_t block);
  void copy_src(const T* src, int64_t count, int64_t depth);
  void multiply(const T* src, int64_t count);
  void finish(int64_t count);
  Gaps gaps(int64_t x_begin, int64_t x_end) const;
  void fill(const Gaps& gaps, int64_t channel);
  void fill_far(int64_t begin, int64_t end, T value, T* out);
  void list_places(int64_t begin, int64_t count);
  void copy_cut(int64_t position, int64_t index);
  void copy_windows(int64_t begin, int64_t count, const int64_t* places, const Gaps& gaps);

  const Run<T>& run_;
  const Plan& plan_;
  const ConvProblem& p_;
  const Geometry& geo_;
  const int last_;
  Cell *src_, *line_, *products_, *bias_, *gap_;
  int64_t *offsets_, *places_;  // see Rows
  int64_t listed_ = -1;         // the position that places_ begin with
  T* values_;                   // what is copied to dst: the products, or the same rounded, with their bias
  int64_t channels_ = 0;
  const Cell* weights_ = nullptr;  // of the block
  const Cell* left_ = nullptr;     // bias that is left to add
  T* dst_ = nullptr;               // of the first channel of the block
};

template <class T>
void Worker<T>::prepare_channels(int64_t group, int64_t block) {
  const int64_t first = block * plan_.block;
  channels_ = std::min(plan_.block, plan_.oc - first);
  weights_ = run_.weights + (group * plan_.num_blocks + block) * plan_.block_size();
  left_ = nullptr;
  if (run_.bias != nullptr) {
    run_.kernels.load(run_.bias + group * plan_.oc + first, 1, channels_, bias_);
    left_ = bias_;
  }
  if (!geo_.gaps) return;
  for (int64_t c = 0; c < channels_; ++c) gap_[c] = left_ == nullptr ? Cell() : left_[c];
  if constexpr (!std::is_same_v<T, double>) {
    if (!p_.activation.is_identity()) {
      run_.kernels.activate.template run<T>(p_.activation, 0.0f, channels_, gap_);
    }
  }
}

// Copies some src channels of some positions: [call][channel][position], as the A operand of each call.
template <class T>
void Worker<T>::copy_src(const T* src, int64_t count, int64_t depth) {
  constexpr int64_t kMoved = 8;  // numbers, though fewer may be meant: the next channel writes the others again
  const int64_t mr = plan_.mr;
  // Channels whose positions follow each other are widened together.
  const int64_t together = p_.src_c == count ? std::max<int64_t>(1, geo_.line_cells / count) : 1;
  for (int64_t k = 0; k < depth; ++k, src += p_.src_c) {
    const Cell* in;
    if constexpr (kRounds) {
      if (k % together == 0) run_.kernels.load(src, 1, std::min(together, depth - k) * count, line_);
      in = line_ + k % together * count;
    } else {
      in = src;
    }
    for (int64_t x = 0; x < count; x += mr) {
      Cell* out = src_ + x * depth + k * mr;
      if (mr <= kMoved && x + kMoved <= count && k + 1 < depth) {
        std::memcpy(out, in + x, kMoved * sizeof(Cell));
        continue;
      }
      const int64_t length = std::min(mr, count - x);
      for (int64_t i = 0; i < length; ++i) out[i] = in[x + i];
    }
  }
}

// Multiplies `count` positions of src by all weights of the block.
template <class T>
void Worker<T>::multiply(const T* src, int64_t count) {
  const int64_t mr = plan_.mr, no_offset = 0;
  for (int64_t k = 0; k < plan_.ic; k += plan_.depth) {
    const int64_t depth = std::min(plan_.depth, plan_.ic - k);
    copy_src(src + k * p_.src_c, count, depth);
    Cell* c[kMaxRows];
    BasicGemmArgs<Cell> args{0, 0, 1, depth, nullptr, nullptr, &no_offset, 0, c, plan_.piece, k > 0};
    args.lda = mr;
    for (int64_t row = 0, all = channels_ * plan_.taps; row < all; row += plan_.panel) {
      args.ldb = std::min(plan_.panel, plan_.block_rows - row);
      args.cols = std::min(args.ldb, all - row);
      args.b = weights_ + row * plan_.ic + k * args.ldb;
      for (int64_t x = 0; x < count; x += mr) {
        args.rows = std::min(mr, count - x);
        args.a = src_ + x * depth;
        for (int64_t i = 0; i < args.rows; ++i) c[i] = products_ + (x + i) * plan_.pitch() + row;
        run_.kernels.gemm.run(args);
      }
    }
  }
}

// Activates and rounds the products, with their bias, where a copy would not do.
template <class T>
void Worker<T>::finish(int64_t count) {
  left_ = run_.bias == nullptr ? nullptr : bias_;
  if constexpr (!std::is_same_v<T, double>) {
    const bool activates = !p_.activation.is_identity();
    if (!kRounds && !activates) return;
    for (int64_t i = 0; i < count && (activates || left_ != nullptr); ++i) {
      Cell* window = products_ + i * plan_.pitch();
      for (int64_t c = 0; c < channels_; ++c, window += plan_.taps) {
        if (activates) {
          run_.kernels.activate.template run<T>(p_.activation, left_ == nullptr ? 0.0f : left_[c], plan_.taps, window);
        } else if (left_ != nullptr) {
          for (int64_t t = 0; t < plan_.taps; ++t) window[t] += left_[c];
        }
      }
    }
    left_ = nullptr;
    if constexpr (kRounds) {
      const Cell* in = products_;
      run_.kernels.interleave.template to<T>()(
          {&in, plan_.pitch(), count, channels_ * plan_.taps, 1, nullptr, values_, plan_.pitch(), Store::kCached});
    }
  }
}

// What belongs to some positions of the first axis: up to where the windows of the next one begin.
template <class T>
Gaps Worker<T>::gaps(int64_t x_begin, int64_t x_end) const {
  Gaps gaps{0, 0, last_, 0, 0};
  if (!geo_.gaps || x_begin == x_end) return gaps;
  gaps.first = std::clamp<int64_t>(window_begin(0, x_begin), 0, p_.dst_size[0]);
  gaps.end = x_end == p_.src_size[0] ? p_.dst_size[0]
                                     : std::clamp<int64_t>(window_begin(0, x_end), gaps.first, p_.dst_size[0]);
  // Axes whose positions follow each other in dst are filled at once.
  const int64_t all = gaps.end - gaps.first;
  int& outer = gaps.outer;
  gaps.length = last_ == 0 ? all : p_.dst_size[last_];
  while (outer > 0 && p_.dst_x[outer - 1] == gaps.length) gaps.length *= --outer == 0 ? all : p_.dst_size[outer];
  gaps.rows = outer == 0 ? 1 : all * product_of(p_.dst_size + 1, outer - 1);
  return gaps;
}

template <class T>
void Worker<T>::fill(const Gaps& gaps, int64_t channel) {
  T value;
  round_to(&value, gap_[channel]);
  for (int64_t row = 0; row < gaps.rows; ++row) {
    int64_t offset = 0, rest = row;
    for (int a = gaps.outer - 1; a > 0; --a) {
      offset += rest % p_.dst_size[a] * p_.dst_x[a];
      rest /= p_.dst_size[a];
    }
    T* const out = dst_ + channel * p_.dst_c + (gaps.first + rest) * p_.dst_x[0] + offset;
    if (geo_.gaps_lie_far && gaps.outer == 0 && last_ > 0) {
      fill_far(gaps.first, gaps.end, value, out);
    } else {
      kernels::fill(out, gaps.length, value, geo_.gaps_lie_far ? &run_.kernels.write_lines : nullptr);
    }
  }
}

// Fills some numbers of dst along the first axis: what windows reach, which is written again soon, and past the caches
// what lies between.
template <class T>
void Worker<T>::fill_far(int64_t begin, int64_t end, T value, T* out) {
  const int64_t extent = kernel_extent(p_, 0), dilation = p_.dilation[0], row = p_.dst_x[0];
  for (int64_t y = begin, count; y < end; y += count, out += count * row) {
    const int64_t beyond = (y + p_.pad[0]) % p_.stride[0];  // the begin of the window before
    const int64_t beyond_tap = beyond < extent ? beyond % dilation : 1;
    const bool is_reached = beyond_tap == 0;
    if (beyond >= extent) {
      count = p_.stride[0] - beyond;
    } else if (dilation == 1) {
      count = extent - beyond;
    } else {
      count = is_reached ? 1 : dilation - beyond_tap;
    }
    count = std::min(count, end - y);
    kernels::fill(out, count * row, value, is_reached ? nullptr : &run_.kernels.write_lines);
  }
}

// Lists where the windows of the positions of a slab begin in dst, those that lie in it whole.
template <class T>
void Worker<T>::list_places(int64_t begin, int64_t count) {
  if (begin == listed_) return;
  listed_ = begin;
  int64_t x[kMaxSpatial];
  for (int64_t a = last_, rest = begin; a >= 0; --a) {
    x[a] = rest % p_.src_size[a];
    rest /= p_.src_size[a];
  }
  for (int64_t i = 0; i < count; ++i) {
    int64_t place = 0;
    for (int a = 0; a <= last_ && place != kCut; ++a) {
      const int64_t y = window_begin(a, x[a]);
      const bool inside = y >= 0 && y + (p_.ker[a] - 1) * p_.dilation[a] < p_.dst_size[a];
      place = inside ? place + y * p_.dst_x[a] : kCut;
    }
    places_[i] = place;
    for (int a = last_; a >= 0 && ++x[a] == p_.src_size[a]; --a) x[a] = 0;
  }
}

// Copies what lies in dst of the windows of a position, the one with this index in the tile.
template <class T>
void Worker<T>::copy_cut(int64_t position, int64_t index) {
  int64_t begin[kMaxSpatial], end[kMaxSpatial], k[kMaxSpatial], place = 0;  // taps of each axis that lie in dst
  for (int64_t a = last_, rest = position; a >= 0; --a) {
    const int64_t y = window_begin(static_cast<int>(a), a == 0 ? rest : rest % p_.src_size[a]);
    if (a > 0) rest /= p_.src_size[a];
    place += y * p_.dst_x[a];
    // To divide takes as long as copying many taps.
    const int64_t left = p_.dst_size[a] - y;
    k[a] = begin[a] = y >= 0 ? 0 : ceil_div(-y, p_.dilation[a]);
    end[a] = (p_.ker[a] - 1) * p_.dilation[a] < left ? p_.ker[a] : std::min(p_.ker[a], ceil_div(left, p_.dilation[a]));
    if (begin[a] >= end[a]) return;
  }
  const int64_t first = begin[last_], length = end[last_] - first, step = p_.dilation[last_];
  const T* in = values_ + index * plan_.pitch() + first;
  T* out = dst_ + place + first * step;
  const auto copy = copies_channels<T>(length, step);
  for (int changed = 0; changed >= 0;) {
    int64_t row = 0;
    for (int a = 0; a < last_; ++a) row = row * p_.ker[a] + k[a];
    copy({in + row * plan_.row, plan_.taps, channels_, length, step, left_, out + offsets_[row], p_.dst_c});
    for (changed = last_ - 1; changed >= 0 && ++k[changed] == end[changed]; --changed) k[changed] = begin[changed];
  }
}

// Copies the windows of some positions, channel by channel: what is filled is still in a cache.
template <class T>
void Worker<T>::copy_windows(int64_t begin, int64_t count, const int64_t* places, const Gaps& gaps) {
  const int64_t step = p_.dilation[last_];
  const auto copy = copies_rows<T>(plan_.row, step);
  for (int64_t c = 0; c < channels_; ++c) {
    if (gaps.rows > 0) fill(gaps, c);
    copy({values_ + c * plan_.taps, plan_.pitch(), count, places, offsets_, num_rows(), plan_.row, step,
          left_ == nullptr ? -Cell() : left_[c], dst_ + c * p_.dst_c});
  }
  for (int64_t i = 0; i < count; ++i) {
    if (places[i] == kCut) copy_cut(begin + i, i);
  }
}

template <class T>
void Worker<T>::run_item(int64_t item) {
  const int64_t slab = item % geo_.num_slabs;
  item /= geo_.num_slabs;
  const int64_t block = item % plan_.num_blocks, group = item / plan_.num_blocks % plan_.g;
  const int64_t image = item / plan_.num_blocks / plan_.g;
  prepare_channels(group, block);
  dst_ = run_.dst + image * p_.dst_n + (group * plan_.oc + block * plan_.block) * p_.dst_c;
  const T* src = run_.src + image * p_.src_n + group * plan_.ic * p_.src_c;
  const int64_t x_begin = slab * geo_.slab, x_end = std::min(x_begin + geo_.slab, p_.src_size[0]);
  const int64_t first = x_begin * geo_.inner, end = x_end * geo_.inner;
  list_places(first, end - first);
  int64_t filled = x_begin;
  for (int64_t begin = first; begin < end; begin += geo_.tile) {
    const int64_t count = std::min(geo_.tile, end - begin);
    multiply(src + begin, count);
    finish(count);
    const int64_t reached = (begin + count - 1) / geo_.inner + 1;
    copy_windows(begin, count, places_ + begin - first, gaps(filled, reached));
    filled = reached;
  }
  if (geo_.gaps_lie_far) finish_past_caches();
}

}  // namespace

size_t scratch_bytes(const Plan& plan, const ConvProblem& full, int threads) {
  const Geometry geometry(plan, full, threads);
  return geometry.slices + static_cast<size_t>(geometry.num_slices(threads)) * geometry.slice_bytes;
}

void run(const Plan& plan, const ConvProblem& full, const void* src, const void* wei, const void* bias, void* dst,
         void* scratch, const Parallel& parallel) {
  const Geometry geo(plan, full, parallel.threads);
  char* const shared = static_cast<char*>(scratch);
  const void* weights = plan.packed.as<const void>();
  if (plan.packed.empty()) {
    weights = shared + geo.packed;
    for_each(parallel, plan.g * plan.num_blocks, [&](int64_t i) {
      pack_weights(plan, full, wei, i / plan.num_blocks, i % plan.num_blocks, shared + geo.packed);
    });
  }
  with_float_type(plan.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Run<T> run{plan,
                     full,
                     geo,
                     im2col::Kernels<T>(plan.arch),
                     static_cast<const T*>(src),
                     static_cast<const Sum<T>*>(weights),
                     static_cast<const T*>(bias),
                     static_cast<T*>(dst)};
    const int64_t slices = geo.num_slices(parallel.threads);
    Ranges ranges(geo.items, 1, 1, slices);
    for_each(parallel, slices, [&](int64_t i) {
      Worker<T> worker(run, shared + geo.slices + static_cast<size_t>(i) * geo.slice_bytes);
      ranges.for_each_item([&](int64_t item) { worker.run_item(item); });
    });
  });
}

}  // namespace ortconv::kernels::disjoint_windows

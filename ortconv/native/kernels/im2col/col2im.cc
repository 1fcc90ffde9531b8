#include "kernels/im2col/col2im.h"

#include "base/math.h"
#include "kernels/unroll.h"

namespace ortconv::kernels::im2col {
namespace {

constexpr int64_t kSumBytes = 512 << 10;  // of an item, so that they stay in L2, if one channel's do
constexpr int64_t kRowsInPlace = 16;      // of weights, read in place: the CPU prefetches so many streams
constexpr int64_t kReachesPerSlab = 2;    // least size of a slab: what crosses its borders is computed twice

// Adds numbers to others that are a step apart. A function of its own, or compilers keep its variables in memory.
template <class Cell>
ORTCONV_NEVER_INLINE void add_run(const Cell* in, int64_t count, int64_t step, Cell* out) {
  if (step == 1) {
    for (int64_t i = 0; i < count; ++i) out[i] += in[i];
  } else {
    for (int64_t i = 0; i < count; ++i) out[i * step] += in[i];
  }
}

}  // namespace

// The operands of a tile of columns.
template <class T>
struct Col2im<T>::Tile {
  Position* positions;
  int64_t rows;
  TapRun* runs;
  int64_t num_runs, columns, pitch;
  Cell *packed, *weights, *products, *totals;
};

// Positions of src with a tap that lands in [y.begin, y.end).
template <class T>
typename Col2im<T>::Range Col2im<T>::sources(int a, Range y) const {
  const int64_t reach = (p_.ker[a] - 1) * p_.dilation[a];
  const int64_t begin = std::max<int64_t>(0, ceil_div(y.begin + p_.pad[a] - reach, p_.stride[a]));
  const int64_t end = std::min(p_.src_size[a], floor_div(y.end - 1 + p_.pad[a], p_.stride[a]) + 1);
  return {begin, std::max(begin, end)};
}

// Taps by which positions [x.begin, x.end), which are some, may land in [y.begin, y.end).
template <class T>
typename Col2im<T>::Range Col2im<T>::taps(int a, Range y, Range x) const {
  const int64_t low = y.begin + p_.pad[a] - (x.end - 1) * p_.stride[a];
  const int64_t high = y.end - 1 + p_.pad[a] - x.begin * p_.stride[a];
  const int64_t begin = std::max<int64_t>(0, ceil_div(low, p_.dilation[a]));
  const int64_t end = std::min(p_.ker[a], floor_div(high, p_.dilation[a]) + 1);
  return {begin, std::max(begin, end)};
}

template <class T>
Col2im<T>::Col2im(const ConvProblem& p, const ArchFlags& arch, int threads)
    : p_(p),
      kernels_(arch),
      ic_(p.ic / p.g),
      oc_(p.oc / p.g),
      inner_positions_(1),
      inner_taps_count_(1),
      inner_dst_(1) {
  for (int a = 1; a < p.ndims; ++a) {
    inner_x_[a] = sources(a, {0, p.dst_size[a]});
    inner_taps_[a] = inner_x_[a].count() == 0 ? Range{0, 0} : taps(a, {0, p.dst_size[a]}, inner_x_[a]);
    inner_positions_ *= inner_x_[a].count();
    inner_taps_count_ *= inner_taps_[a].count();
    inner_dst_ *= p.dst_size[a];
  }
  // Of all slabs together: sums must not depend on these, and so on the number of threads.
  few_positions_ = p.src_size[0] * inner_positions_ <= 2 * kernels_.gemm.mr;
  const int64_t most_columns = kTileColumns<Cell>;
  const int64_t all_taps = std::max<int64_t>(1, inner_taps_count_ * p.ker[0]);
  tile_channels_ = std::clamp<int64_t>(most_columns / all_taps, 1, oc_);
  const int64_t channel_bytes = inner_dst_ * p.dst_size[0] * static_cast<int64_t>(sizeof(Cell));
  block_channels_ = std::clamp<int64_t>(kSumBytes / channel_bytes, tile_channels_, oc_);
  const int64_t wanted = threads > 1 ? 4 * threads : 1;
  while (block_channels_ > tile_channels_ && p.mb * p.g * ceil_div(oc_, block_channels_) < wanted) {
    block_channels_ = std::max(tile_channels_, ceil_div(block_channels_, 2));
  }
  num_blocks_ = ceil_div(oc_, block_channels_);
  const int64_t reach = (p.ker[0] - 1) * p.dilation[0] + 1;
  const int64_t most_slabs = std::max<int64_t>(1, p.dst_size[0] / kReachesPerSlab / reach);
  num_slabs_ = std::min(ceil_div(wanted, p.mb * p.g * num_blocks_), most_slabs);
  slab_ = ceil_div(p.dst_size[0], num_slabs_);
  num_slabs_ = ceil_div(p.dst_size[0], slab_);

  const int64_t most_rows = std::min(kTileRows, p.src_size[0] * std::max<int64_t>(1, inner_positions_));
  const int64_t tile_columns = std::min(most_columns, tile_channels_ * all_taps);
  Parts parts;
  positions_ = parts.add<Position>(most_rows);
  runs_ = parts.add<TapRun>(tile_columns);
  packed_ = parts.add<Cell>(most_rows * std::min(ic_, kMostDepth));
  weights_ = parts.add<Cell>(std::min(ic_, kMostDepth) * pitch_of(tile_columns));
  columns_ = parts.add<Cell>(most_rows * pitch_of(tile_columns));
  totals_ = parts.add<Cell>(has_totals(ic_) ? most_rows * pitch_of(tile_columns) : 0);
  sums_ = parts.add<Cell>(block_channels_ * slab_ * inner_dst_);
  bias_ = parts.add<Cell>(block_channels_);
  slice_bytes_ = parts.bytes();
}

// The columns of some channels of a part and of some taps, which count along the first axis first.
template <class T>
int64_t Col2im<T>::list_runs(const Part& part, Range channels, Range taps, TapRun* runs) const {
  const int last = p_.ndims - 1;
  int64_t count = 0, column = 0;
  for (int64_t channel = channels.begin; channel < channels.end; ++channel) {
    for (int64_t at = taps.begin; at < taps.end; ++count) {
      TapRun& run = runs[count];
      run.weight = (part.channel + channel) * p_.wei_1;
      int64_t rest = at;
      for (int a = last; a >= 0; --a) {
        run.tap[a] = a == 0 ? rest : inner_taps_[a].begin + rest % inner_taps_[a].count();
        if (a > 0) rest /= inner_taps_[a].count();
        run.weight += run.tap[a] * p_.wei_x[a];
      }
      run.column = column;
      run.channel = channel;
      run.count = last == 0 ? taps.end - at : std::min(taps.end - at, inner_taps_[last].end - run.tap[last]);
      at += run.count;
      column += run.count;
    }
  }
  return count;
}

// Packs some src channels, from `src` on, as the A operand: [panel][channel][position].
template <class T>
void Col2im<T>::pack_positions(const T* src, const Tile& tile, int64_t depth) const {
  const Panels panels(tile.rows, kernels_.gemm.mr);
  for (int64_t panel = 0; panel < panels.count; ++panel) {
    const int64_t begin = panels.begin(panel), rows = panels.begin(panel + 1) - begin;
    const Position* at = tile.positions + begin;
    Cell* out = tile.packed + begin * depth;
    const int64_t step = rows > 1 ? at[1].src - at[0].src : 1;
    bool even = true;
    for (int64_t r = 1; r < rows; ++r) even &= at[r].src == at[0].src + r * step;
    if (even && step == 1) {
      for (int64_t k = 0; k < depth; ++k) kernels_.load(src + at->src + k * p_.src_c, 1, rows, out + k * rows);
      continue;
    }
    if (even && p_.src_c == 1) {
      kernels_.transpose.template from<T>()(src + at->src, step, rows, depth, out, rows);
      continue;
    }
    const auto gather = [&](T* to) {
      for (int64_t k = 0; k < depth; ++k) {
        for (int64_t r = 0; r < rows; ++r) to[k * rows + r] = src[at[r].src + k * p_.src_c];
      }
    };
    if constexpr (std::is_same_v<T, Cell>) {
      gather(out);
    } else {
      T gathered[kMostDepth * kMaxRows];
      gather(gathered);
      kernels_.load(gathered, 1, depth * rows, out);
    }
  }
}

// Whether the columns of a tile are contiguous in the weights.
template <class T>
bool Col2im<T>::is_dense(const Tile& tile) const {
  if (p_.wei_x[p_.ndims - 1] != 1) return false;
  for (int64_t i = 1; i < tile.num_runs; ++i) {
    if (tile.runs[i].weight != tile.runs[i - 1].weight + tile.runs[i - 1].count) return false;
  }
  return true;
}

// Some src channels of the weights, from `wei` on, as the B operand: a copy, or in place where they fill whole vectors
// and are used for so few positions that a copy would not pay.
template <class T>
const Sum<T>* Col2im<T>::weights(const T* wei, const Tile& tile, int64_t depth, int64_t* pitch) const {
  const int64_t tap_step = p_.wei_x[p_.ndims - 1];
  const bool dense = is_dense(tile);
  if constexpr (std::is_same_v<T, Cell>) {
    if (dense && tile.columns % kGemmColumns == 0 && few_positions_) {
      *pitch = p_.wei_0;
      return wei + tile.runs[0].weight;
    }
  }
  *pitch = tile.pitch;
  for (int64_t k = 0; k < depth; ++k, wei += p_.wei_0) {
    Cell* out = tile.weights + k * tile.pitch;
    if (dense) {
      kernels_.load(wei + tile.runs[0].weight, 1, tile.columns, out);
    } else if constexpr (std::is_same_v<T, Cell>) {
      for (const TapRun* run = tile.runs; run != tile.runs + tile.num_runs; ++run) {
        kernels_.load(wei + run->weight, run->count == 1 ? 1 : tap_step, run->count, out + run->column);
      }
    } else {
      T gathered[kTileColumns<Cell>];
      for (const TapRun* run = tile.runs; run != tile.runs + tile.num_runs; ++run) {
        for (int64_t i = 0; i < run->count; ++i) gathered[run->column + i] = wei[run->weight + i * tap_step];
      }
      kernels_.load(gathered, 1, tile.columns, out);
    }
  }
  return tile.weights;
}

// Computes the columns of a tile.
template <class T>
const Sum<T>* Col2im<T>::multiply_tile(const T* src, const T* wei, const Tile& tile) const {
  const Pieces pieces = pieces_of(ic_);
  const Panels panels(tile.rows, kernels_.gemm.mr);
  int64_t calls = 0;
  bool first_total = true;
  const int64_t call = few_positions_ ? std::min(pieces.call, kRowsInPlace) : pieces.call;
  for (int64_t k = 0; k < ic_; k += call) {
    const int64_t depth = std::min(call, ic_ - k);
    int64_t pitch, offsets[kMostDepth];
    const Cell* b = weights(wei + k * p_.wei_0, tile, depth, &pitch);
    for (int64_t i = 0; i < depth; ++i) offsets[i] = i * pitch;
    pack_positions(src + k * p_.src_c, tile, depth);
    for (int64_t panel = 0; panel < panels.count; ++panel) {
      const int64_t begin = panels.begin(panel), rows = panels.begin(panel + 1) - begin;
      multiply(kernels_.gemm, rows, tile.columns, depth, tile.packed + begin * depth, b, offsets,
               tile.products + begin * tile.pitch, tile.pitch, pieces.piece, calls > 0);
    }
    ++calls;
    if (!has_totals(ic_) || (calls < kMostCalls && k + depth < ic_)) continue;
    add_to_totals(first_total, tile.products, tile.rows * tile.pitch, tile.totals);
    first_total = false;
    calls = 0;
  }
  return first_total ? tile.products : tile.totals;
}

// Adds the columns into the sums of a part, [channel][position].
template <class T>
void Col2im<T>::add(const Part& part, const Tile& tile, const Cell* all_columns, Cell* sums) const {
  const int last = p_.ndims - 1;
  const int64_t channel_stride = part.slab.count() * inner_dst_, step = p_.dilation[last];
  const auto range = [&](int a) { return a == 0 ? part.slab : Range{0, p_.dst_size[a]}; };
  const Range row = range(last);
  for (int64_t r = 0; r < tile.rows; ++r) {
    const Position& x = tile.positions[r];
    const Cell* columns = all_columns + r * tile.pitch;
    for (const TapRun* run = tile.runs; run != tile.runs + tile.num_runs; ++run) {
      bool inside = true;
      int64_t offset = 0;
      for (int a = 0; a < last; ++a) {
        const int64_t y = x.y[a] + run->tap[a] * p_.dilation[a];
        const Range whole = range(a);
        inside &= y >= whole.begin && y < whole.end;
        offset = (offset + y - whole.begin) * (a + 1 == last ? row.count() : p_.dst_size[a + 1]);
      }
      if (!inside) continue;
      const int64_t first = x.y[last] + run->tap[last] * step - row.begin;
      int64_t begin = 0, end = run->count;
      if (first < 0) begin = std::min(end, ceil_div(-first, step));
      if (first + (end - 1) * step >= row.count()) end = std::max(begin, ceil_div(row.count() - first, step));
      if (begin == end) continue;
      Cell* out = sums + run->channel * channel_stride + offset + first + begin * step;
      const Cell* in = columns + run->column + begin;
      add_run(in, end - begin, step, out);
    }
  }
}

// Writes the sums of a part to dst.
template <class T>
void Col2im<T>::finish(const Part& part, const Data<T>& data, Cell* sums, Cell* bias) const {
  const int last = p_.ndims - 1;
  const int64_t positions = part.slab.count() * inner_dst_, channel = part.group * oc_ + part.channel;
  if (data.bias != nullptr) kernels_.load(data.bias + channel, 1, part.channels, bias);
  const Cell* left =
      activate(kernels_, p_, sums, positions, part.channels, positions, data.bias == nullptr ? nullptr : bias);
  const int64_t length = last == 0 ? part.slab.count() : p_.dst_size[last];
  T* dst = data.dst + part.image * p_.dst_n + channel * p_.dst_c + part.slab.begin * p_.dst_x[0];
  for (int64_t line = 0; line < positions / length; ++line) {
    int64_t offset = 0;
    for (int64_t a = last - 1, rest = line; a >= 0; --a) {
      offset += (a == 0 ? rest : rest % p_.dst_size[a]) * p_.dst_x[a];
      rest /= p_.dst_size[a];
    }
    store(kernels_, p_, sums + line * length, positions, part.channels, length, left, dst + offset);
  }
}

template <class T>
void Col2im<T>::run(int64_t item, const Data<T>& data, char* slice) const {
  Part part;
  const int64_t slab = item % num_slabs_, block = item / num_slabs_ % num_blocks_;
  part.slab = {slab * slab_, std::min((slab + 1) * slab_, p_.dst_size[0])};
  part.channel = block * block_channels_;
  part.channels = std::min(block_channels_, oc_ - part.channel);
  part.group = item / num_slabs_ / num_blocks_ % p_.g;
  part.image = item / num_slabs_ / num_blocks_ / p_.g;
  auto* sums = reinterpret_cast<Cell*>(slice + sums_);
  std::fill_n(sums, part.channels * part.slab.count() * inner_dst_, Cell());

  Tile tile{};
  tile.positions = reinterpret_cast<Position*>(slice + positions_);
  tile.runs = reinterpret_cast<TapRun*>(slice + runs_);
  tile.packed = reinterpret_cast<Cell*>(slice + packed_);
  tile.weights = reinterpret_cast<Cell*>(slice + weights_);
  tile.products = reinterpret_cast<Cell*>(slice + columns_);
  tile.totals = reinterpret_cast<Cell*>(slice + totals_);
  const T* src = data.src + part.image * p_.src_n + part.group * ic_ * p_.src_c;
  const T* wei = data.wei + part.group * ic_ * p_.wei_0;
  const Range x = sources(0, part.slab);
  const Range all{x.begin * inner_positions_, x.end * inner_positions_};
  // Tiles begin where they would in any slab, so that what is added to a sum does not depend on the slabs.
  for (int64_t begin = all.begin, end; begin < all.end; begin = end) {
    end = std::min((begin / kTileRows + 1) * kTileRows, all.end);
    tile.rows = end - begin;
    for (int64_t i = 0; i < tile.rows; ++i) {
      Position& position = tile.positions[i];
      position.src = 0;
      int64_t rest = begin + i;
      for (int a = p_.ndims - 1; a >= 0; --a) {
        const int64_t at = a == 0 ? rest : inner_x_[a].begin + rest % inner_x_[a].count();
        if (a > 0) rest /= inner_x_[a].count();
        position.y[a] = at * p_.stride[a] - p_.pad[a];
        position.src += at * p_.src_x[a];
      }
    }
    const Range meeting = taps(0, part.slab, {begin / inner_positions_, (end - 1) / inner_positions_ + 1});
    const Range taps{meeting.begin * inner_taps_count_, meeting.end * inner_taps_count_};
    for (int64_t channel = 0; channel < part.channels; channel += tile_channels_) {
      const Range channels{channel, std::min(channel + tile_channels_, part.channels)};
      for (int64_t tap = taps.begin, tap_end; tap < taps.end; tap = tap_end) {
        tap_end = std::min((tap / kTileColumns<Cell> + 1) * kTileColumns<Cell>, taps.end);
        tile.num_runs = list_runs(part, channels, {tap, tap_end}, tile.runs);
        tile.columns = channels.count() * (tap_end - tap);
        tile.pitch = pitch_of(tile.columns);
        add(part, tile, multiply_tile(src, wei, tile), sums);
      }
    }
  }
  finish(part, data, sums, reinterpret_cast<Cell*>(slice + bias_));
}

#define INSTANTIATE(T) template class Col2im<T>;
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels::im2col

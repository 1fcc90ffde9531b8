#include "kernels/im2col/im2col.h"

#include <cmath>
#include <limits>

#include "base/math.h"

namespace ortconv::kernels::im2col {
namespace {

constexpr int64_t kLeastColumns = 64, kLeastRows = 64;
constexpr int64_t kWantedItems = 16;       // not the number of threads, on which results must not depend
constexpr int64_t kShortRun = 4;           // fewer taps or positions are not transposed
constexpr int64_t kTileBytes = 512 << 10;  // of patches or of sums, meant to stay in L2
constexpr int64_t kMostTiles = 8;          // of the usual width or depth, where the other is small
constexpr int64_t kFewColumns = 4;         // for so few columns, weights are multiplied in place

// The positions i in [begin, end) for which first + i * step is inside [0, size); step > 0.
struct Inside {
  int64_t begin, end;

  Inside(int64_t first, int64_t step, int64_t size, int64_t begin, int64_t end) : begin(begin), end(end) {
    if (first + begin * step < 0) this->begin = std::min(end, ceil_div(-first, step));
    if (first + (end - 1) * step >= size) this->end = std::max(this->begin, ceil_div(size - first, step));
  }
};

}  // namespace

// The operands and the segments of a tile of dst.
template <class T>
struct Im2col<T>::Tile {
  const Segment* segments;
  int64_t num_segments, columns, pitch;
  TapRun* runs;
  int64_t num_runs, *weights;  // what a chunk of products is made of
  int64_t* offsets;            // where they read, from `patches`, for the first column
  Cell *patches, *packed, *lines, *sums;
};

template <class T>
Im2col<T>::Im2col(Op op, const ConvProblem& p, const ArchFlags& arch, int threads)
    : p_(p), kernels_(arch), ic_(p.ic / p.g), oc_(p.oc / p.g), positions_(p.mb) {
  const bool transposed = op == Op::kConvTranspose;
  ic_stride_ = transposed ? p.wei_0 : p.wei_1;
  oc_stride_ = transposed ? p.wei_1 : p.wei_0;
  group_stride_ = p.wei_0 * (transposed ? ic_ : oc_);
  for (int a = 0; a < p.ndims; ++a) {
    const int64_t sign = transposed ? -1 : 1;
    axis_[a] = {p.ker[a], p.stride[a], sign * p.dilation[a], -sign * p.pad[a], p.src_size[a], p.dst_size[a]};
    positions_ *= p.dst_size[a];
  }
  const int64_t products = ic_ * product_of(p.ker, p.ndims);
  const int64_t most_blocks = p.g * ceil_div(oc_, kLeastRows);
  const int64_t cells = kTileBytes / static_cast<int64_t>(sizeof(Cell));
  columns_ = std::clamp(cells / std::max(std::min(products, kMostDepth), std::min(oc_, kTileRows)), kTileColumns<Cell>,
                        kMostTiles * kTileColumns<Cell>);
  while (columns_ > kLeastColumns && ceil_div(positions_, columns_) * most_blocks < kWantedItems) columns_ /= 2;
  columns_ = whole_vectors(ceil_div(positions_, ceil_div(positions_, columns_)));
  num_tiles_ = ceil_div(positions_, columns_);
  rows_ = std::min(oc_, kTileRows);
  while (threads > 1 && rows_ > kLeastRows && p.g * num_tiles_ * ceil_div(oc_, rows_) < 4 * threads) {
    rows_ = ceil_div(rows_, 2);
  }
  num_blocks_ = ceil_div(oc_, rows_);
  rows_ = ceil_div(oc_, num_blocks_);

  depth_ = std::min(std::clamp(cells / pitch_of(columns_), kMostDepth, kMostTiles * kMostDepth), products);

  Parts parts;
  segments_ = parts.add<Segment>(std::min(columns_, positions_));
  runs_ = parts.add<TapRun>(depth_);
  weights_ = parts.add<int64_t>(depth_);
  offsets_ = parts.add<int64_t>(depth_);
  patches_ = parts.add<Cell>(depth_ * pitch_of(columns_));
  packed_ = parts.add<Cell>(kMostDepth * kMaxRows);
  lines_ = parts.add<Cell>(std::is_same_v<T, Cell> ? kFewColumns * depth_ : 0);
  sums_ = parts.add<Cell>(rows_ * pitch_of(columns_));
  totals_ = parts.add<Cell>(has_totals(products) ? rows_ * pitch_of(columns_) : 0);
  bias_ = parts.add<Cell>(rows_);
  slice_bytes_ = parts.bytes();
}

template <class T>
int64_t Im2col<T>::list_segments(int64_t begin, int64_t end, Segment* segments) const {
  const int last = p_.ndims - 1;
  int64_t count = 0;
  for (int64_t at = begin; at < end; ++count) {
    Segment& segment = segments[count];
    int64_t rest = at;
    for (int a = last; a >= 0; --a) {
      segment.y[a] = rest % p_.dst_size[a];
      rest /= p_.dst_size[a];
    }
    segment.image = rest;
    segment.column = at - begin;
    segment.length = std::min(end - at, p_.dst_size[last] - segment.y[last]);
    at += segment.length;
  }
  return count;
}

template <class T>
typename Im2col<T>::Box Im2col<T>::meeting(int64_t begin, int64_t end) const {
  Box box{};
  box.products = ic_;
  int64_t first = begin, last = end - 1;
  for (int a = p_.ndims - 1; a >= 0; --a) {
    const Im2colAxis& axis = axis_[a];
    const int64_t size = p_.dst_size[a];
    // A tile that goes on to another row, plane or image has any index of this axis, for all that is known.
    const bool one = first / size == last / size;
    const int64_t low = one ? first % size : 0, high = one ? last % size : size - 1;
    first /= size, last /= size;
    // Taps for which y * stride + k * dilation + offset is inside src for a y in [low, high].
    int64_t from = -(high * axis.stride + axis.offset), to = axis.src_size - 1 - (low * axis.stride + axis.offset);
    if (axis.dilation < 0) {
      std::swap(from, to);
      from = -from, to = -to;
    }
    const int64_t step = std::abs(axis.dilation);
    box.first[a] = from <= 0 ? 0 : ceil_div(from, step);
    box.count[a] = std::max<int64_t>(0, std::min(axis.ker - 1, floor_div(to, step)) + 1 - box.first[a]);
    box.products *= box.count[a];
  }
  return box;
}

// Products [begin, end) of the box as runs; and for each the offset of its weight.
template <class T>
int64_t Im2col<T>::list_runs(const Box& box, int64_t begin, int64_t end, TapRun* runs, int64_t* weights) const {
  const int last = p_.ndims - 1;
  int64_t count = 0;
  for (int64_t at = begin; at < end; ++count) {
    TapRun& run = runs[count];
    int64_t rest = at, offset = 0;
    for (int a = last; a >= 0; --a) {
      run.tap[a] = box.first[a] + rest % box.count[a];
      rest /= box.count[a];
      offset += run.tap[a] * p_.wei_x[a];
    }
    run.channel = rest;
    run.row = at - begin;
    run.count = std::min(end - at, box.first[last] + box.count[last] - run.tap[last]);
    offset += rest * ic_stride_;
    for (int64_t i = 0; i < run.count; ++i) weights[run.row + i] = offset + i * p_.wei_x[last];
    at += run.count;
  }
  return count;
}

// The row of src, from index 0 of the last axis, that a run reads for a segment; null where it is outside src.
template <class T>
const T* Im2col<T>::row_of(const TapRun& run, const Segment& segment, const T* src) const {
  const T* row = src + segment.image * p_.src_n + run.channel * p_.src_c;
  for (int a = 0; a < p_.ndims - 1; ++a) {
    const int64_t x = segment.y[a] * axis_[a].stride + run.tap[a] * axis_[a].dilation + axis_[a].offset;
    if (x < 0 || x >= axis_[a].src_size) return nullptr;
    row += x * p_.src_x[a];
  }
  return row;
}

// What one tap reads for the columns [begin, end) of a segment.
template <class T>
void Im2col<T>::fill_columns(const Segment& segment, const T* row, int64_t tap, int64_t begin, int64_t end,
                             Cell* out) const {
  if (begin == end) return;
  const Im2colAxis& axis = axis_[p_.ndims - 1];
  const int64_t step = p_.src_x[p_.ndims - 1];
  const int64_t first = segment.y[p_.ndims - 1] * axis.stride + tap * axis.dilation + axis.offset;
  const Inside inside(first, axis.stride, axis.src_size, begin, end);
  zero(out + begin, inside.begin - begin);
  if (inside.begin < inside.end) {
    kernels_.load(row + (first + inside.begin * axis.stride) * step,
                  inside.end - inside.begin == 1 ? 1 : axis.stride * step, inside.end - inside.begin,
                  out + inside.begin);
  }
  zero(out + inside.end, end - inside.end);
}

// Lets the kernel read src in place, if all columns of a run are inside src and contiguous, and it is read only once.
template <class T>
bool Im2col<T>::read_in_place(const TapRun& run, const Tile& tile, const T* row) const {
  const Im2colAxis& axis = axis_[p_.ndims - 1];
  if constexpr (!std::is_same_v<T, Cell>) return false;
  if (tile.num_segments > 1 || rows_ > kernels_.gemm.mr || axis.stride != 1 || p_.src_x[p_.ndims - 1] != 1)
    return false;
  const int64_t first = tile.segments->y[p_.ndims - 1] + run.tap[p_.ndims - 1] * axis.dilation + axis.offset;
  const int64_t last = first + (run.count - 1) * axis.dilation;
  const int64_t low = std::min(first, last), high = std::max(first, last) + tile.columns;
  if (low < 0 || high > axis.src_size) return false;
  const int64_t at =
      (reinterpret_cast<intptr_t>(row) - reinterpret_cast<intptr_t>(tile.patches)) / static_cast<int64_t>(sizeof(Cell));
  for (int64_t i = 0; i < run.count; ++i) tile.offsets[run.row + i] = at + first + i * axis.dilation;
  return true;
}

template <class T>
void Im2col<T>::fill(const TapRun& run, const Tile& tile, const T* src) const {
  const int last = p_.ndims - 1;
  const Im2colAxis& axis = axis_[last];
  const bool transposes = axis.stride > 1 && axis.dilation == 1 && p_.src_x[last] == 1 && run.count >= kShortRun;
  for (int64_t i = 0; i < run.count; ++i) tile.offsets[run.row + i] = (run.row + i) * tile.pitch;
  for (const Segment* s = tile.segments; s != tile.segments + tile.num_segments; ++s) {
    Cell* out = tile.patches + run.row * tile.pitch + s->column;
    const T* row = row_of(run, *s, src);
    if (row != nullptr && read_in_place(run, tile, row)) return;
    if (row == nullptr) {
      for (int64_t i = 0; i < run.count; ++i) zero(out + i * tile.pitch, s->length);
      continue;
    }
    int64_t begin = s->length, end = s->length;  // of the columns that every tap of the run finds inside
    if (transposes) {
      const int64_t first = s->y[last] * axis.stride + run.tap[last] + axis.offset;
      const Inside inside(first, axis.stride, axis.src_size - run.count + 1, 0, s->length);
      if (inside.end - inside.begin >= kShortRun) {
        begin = inside.begin, end = inside.end;
        kernels_.transpose.template from<T>()(row + first + begin * axis.stride, axis.stride, end - begin, run.count,
                                              out + begin, tile.pitch);
      }
    }
    for (int64_t i = 0; i < run.count; ++i) {
      fill_columns(*s, row, run.tap[last] + i, 0, begin, out + i * tile.pitch);
      fill_columns(*s, row, run.tap[last] + i, end, s->length, out + i * tile.pitch);
    }
  }
}

// Packs the weights of some dst channels as the A operand: [product][channel]. False: some are infinite or NaN; they
// are replaced by finite ones of the same sign.
template <class T>
bool Im2col<T>::pack(const T* wei, int64_t rows, const int64_t* weights, int64_t depth, const Tile& tile) const {
  const auto transpose = kernels_.transpose.template from<T>();
  for (int64_t k = 0, next; k < depth; k = next) {
    next = k + 1;
    while (next < depth && weights[next] == weights[next - 1] + 1) ++next;
    Cell* out = tile.packed + k * rows;
    const T* in = wei + weights[k];
    if (next - k < kShortRun) {
      next = k + 1;
      for (int64_t r = 0; r < rows; ++r) out[r] = widen(in[r * oc_stride_]);
    } else {
      transpose(in, oc_stride_, rows, next - k, out, rows);
    }
  }
  if (are_finite(tile.packed, depth * rows)) return true;
  for (int64_t i = 0; i < depth * rows; ++i) {
    if (!std::isfinite(tile.packed[i])) tile.packed[i] = std::signbit(tile.packed[i]) ? -1 : 1;
  }
  return false;
}

// Adds the products [begin, end) of the chunk whose weights are infinite or NaN, which pack() replaced: only products
// with elements inside src. Sums that are NaN stay so.
template <class T>
void Im2col<T>::add_infinite(const T* wei, int64_t rows, int64_t begin, int64_t end, const Tile& tile, const T* src,
                             Cell* sums) const {
  const int last = p_.ndims - 1;
  const Im2colAxis& axis = axis_[last];
  const auto is_nan = [](Cell value) { return std::isnan(value); };
  for (int64_t r = 0; r < rows; ++r, sums += tile.pitch) {
    const TapRun* run = tile.runs;
    for (int64_t k = begin; k < end; ++k) {
      while (k >= run->row + run->count) ++run;
      const Cell weight = widen(wei[tile.weights[k] + r * oc_stride_]);
      if (std::isfinite(weight)) continue;
      if (std::all_of(sums, sums + tile.columns, is_nan)) break;
      for (const Segment* s = tile.segments; s != tile.segments + tile.num_segments; ++s) {
        const T* row = row_of(*run, *s, src);
        if (row == nullptr) continue;
        const int64_t tap = run->tap[last] + k - run->row;
        const int64_t first = s->y[last] * axis.stride + tap * axis.dilation + axis.offset;
        const Inside inside(first, axis.stride, axis.src_size, 0, s->length);
        for (int64_t j = inside.begin; j < inside.end; ++j) {
          sums[s->column + j] += weight * widen(row[(first + j * axis.stride) * p_.src_x[last]]);
        }
      }
    }
  }
}

// Prefetches the weights that are packed next: the CPU's own prefetcher does not follow rows that are far apart.
template <class T>
void Im2col<T>::prefetch([[maybe_unused]] const T* wei, [[maybe_unused]] int64_t rows,
                         [[maybe_unused]] const int64_t* weights, [[maybe_unused]] int64_t count) const {
#if defined(__GNUC__)
  constexpr int64_t kLine = 64 / sizeof(T);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t k = 0; k < count; k += kLine) __builtin_prefetch(wei + weights[k] + r * oc_stride_);
  }
#endif
}

// Transposes the patches of few positions, if rows of weights are contiguous: multiplying such a row in place is faster
// than packing it.
template <class T>
bool Im2col<T>::gather_columns(int64_t products, const Tile& tile) const {
  if (!std::is_same_v<T, Cell> || tile.columns > kFewColumns) return false;
  if (tile.weights[products - 1] != tile.weights[0] + products - 1) return false;
  for (int64_t k = 1; k < products; ++k) {
    if (tile.weights[k] != tile.weights[0] + k) return false;
  }
  for (int64_t column = 0; column < tile.columns; ++column) {
    for (int64_t k = 0; k < products; ++k) {
      tile.lines[column * depth_ + k] = tile.patches[tile.offsets[k] + column];
    }
  }
  return true;
}

// Multiplies some dst channels in place. False: a sum is not finite, and nothing is done.
template <class T>
bool Im2col<T>::multiply_few(const T* wei, int64_t rows, int64_t products, const Tile& tile, bool accumulate,
                             Cell* sums) const {
  if constexpr (std::is_same_v<T, Cell>) {
    const auto dots = kernels_.dots.template to<Cell>();
    Cell found[kMaxRows * kFewColumns] = {};
    for (int64_t r = 0; r < rows; ++r) {
      const T* row = wei + tile.weights[0] + r * oc_stride_;
      const T* next = r + 1 < rows ? row + oc_stride_ : row;
      dots({row, tile.lines, depth_, products, tile.columns, found + r * tile.columns, next});
    }
    if (!are_finite(found, rows * tile.columns)) return false;
    for (int64_t r = 0; r < rows; ++r) {
      for (int64_t column = 0; column < tile.columns; ++column) {
        Cell& sum = sums[r * tile.pitch + column];
        sum = accumulate ? sum + found[r * tile.columns + column] : found[r * tile.columns + column];
      }
    }
    return true;
  }
  return false;
}

// Sums a chunk of products, whose patches are filled.
template <class T>
void Im2col<T>::multiply_chunk(const T* src, const T* wei, int64_t channels, int64_t products, const Pieces& pieces,
                               const Tile& tile, bool accumulate) const {
  const Panels panels(channels, kernels_.gemm.mr);
  const bool few = gather_columns(products, tile);
  for (int64_t panel = 0; panel < panels.count; ++panel) {
    const int64_t first = panels.begin(panel), rows = panels.begin(panel + 1) - first;
    const T* from = wei + first * oc_stride_;
    Cell* to = tile.sums + first * tile.pitch;
    if (few && multiply_few(from, rows, products, tile, accumulate, to)) continue;
    for (int64_t k = 0; k < products; k += pieces.call) {
      const int64_t depth = std::min(pieces.call, products - k);
      prefetch(from, rows, tile.weights + k + depth, std::min(pieces.call, products - k - depth));
      const bool finite = pack(from, rows, tile.weights + k, depth, tile);
      multiply(kernels_.gemm, rows, tile.columns, depth, tile.packed, tile.patches, tile.offsets + k, to, tile.pitch,
               pieces.piece, accumulate || k > 0);
      if (!finite) add_infinite(from, rows, k, k + depth, tile, src, to);
    }
  }
}

template <class T>
void Im2col<T>::run(int64_t item, const Data<T>& data, char* slice) const {
  const int64_t block = item % num_blocks_, position_tile = item / num_blocks_ % num_tiles_;
  const int64_t group = item / num_blocks_ / num_tiles_;
  const int64_t begin = position_tile * columns_, end = std::min(begin + columns_, positions_);
  const int64_t channel = block * rows_, channels = std::min(rows_, oc_ - channel);
  const T* src = data.src + group * ic_ * p_.src_c;
  const T* wei = data.wei + group * group_stride_ + channel * oc_stride_;

  const auto cells = [&](size_t at) { return reinterpret_cast<Cell*>(slice + at); };
  auto* segments = reinterpret_cast<Segment*>(slice + segments_);
  Tile tile{};
  tile.num_segments = list_segments(begin, end, segments);
  tile.segments = segments;
  tile.columns = end - begin;
  tile.pitch = pitch_of(columns_);
  tile.runs = reinterpret_cast<TapRun*>(slice + runs_);
  tile.weights = reinterpret_cast<int64_t*>(slice + weights_);
  tile.offsets = reinterpret_cast<int64_t*>(slice + offsets_);
  tile.patches = cells(patches_), tile.packed = cells(packed_), tile.lines = cells(lines_), tile.sums = cells(sums_);

  const Box box = meeting(begin, end);
  const Pieces pieces = pieces_of(box.products);
  const int64_t chunk = std::max<int64_t>(1, depth_ / std::max<int64_t>(pieces.call, 1)) * pieces.call;
  const int64_t count = channels * tile.pitch;
  if (box.products == 0) std::fill_n(tile.sums, count, Cell());
  int64_t calls = 0;
  bool first_total = true;
  for (int64_t k = 0; k < box.products; k += chunk) {
    const int64_t products = std::min(chunk, box.products - k);
    tile.num_runs = list_runs(box, k, k + products, tile.runs, tile.weights);
    for (int64_t i = 0; i < tile.num_runs; ++i) fill(tile.runs[i], tile, src);
    multiply_chunk(src, wei, channels, products, pieces, tile, calls > 0);
    calls += ceil_div(products, pieces.call);
    if (!has_totals(box.products) || (calls < kMostCalls && k + chunk < box.products)) continue;
    add_to_totals(first_total, tile.sums, count, cells(totals_));
    first_total = false;
    calls = 0;
  }

  Cell* sums = first_total ? tile.sums : cells(totals_);
  const int64_t dst_channel = group * oc_ + channel;
  const Cell* bias = nullptr;
  if (data.bias != nullptr) {
    kernels_.load(data.bias + dst_channel, 1, channels, cells(bias_));
    bias = cells(bias_);
  }
  bias = activate(kernels_, p_, sums, tile.pitch, channels, tile.columns, bias);
  for (const Segment* s = segments; s != segments + tile.num_segments; ++s) {
    T* dst = data.dst + s->image * p_.dst_n + dst_channel * p_.dst_c;
    for (int a = 0; a < p_.ndims; ++a) dst += s->y[a] * p_.dst_x[a];
    store(kernels_, p_, sums + s->column, tile.pitch, channels, s->length, bias, dst);
  }
}

#define INSTANTIATE(T) template class Im2col<T>;
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels::im2col

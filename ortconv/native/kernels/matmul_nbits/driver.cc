// Shares a product by a compressed matrix among threads. A few rows of x are multiplied by dot products with the codes;
// for more rows, panels of the matrix are dequantized for the microkernel of the dense product. This is decided for
// each group of rows.
#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/math.h"
#include "base/parallel.h"
#include "base/ranges.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/pieces.h"
#include "kernels/matmul_nbits/matmul_nbits.h"
#include "kernels/matmul_nbits/stages.h"
#include "kernels/to_float/to_float.h"
#include "kernels/transpose/transpose.h"

namespace ortconv::kernels {
namespace {

// Fewest products that a thread is worth.
constexpr int64_t kLeastWork = 1 << 17;
// The same for arranging x: fewest numbers of x.
constexpr int64_t kLeastOperand = 1 << 16;
// A wave takes groups with up to so many numbers of x together, which stay in a cache.
constexpr int64_t kWaveOperand = 1 << 18;
// Most rows of x whose sums a worker keeps, where the elements of y are not floats.
constexpr int64_t kMostSums = 1 << 12;
constexpr int64_t kLine = 16;  // floats of a cache line

int64_t lines(int64_t floats) { return align_up(floats, kLine); }

template <class T>
constexpr bool kIsFloat = std::is_same_v<T, float>;

// Tiles of rows of x, of nearly equal size.
struct RowTiles {
  RowTiles(int64_t m, int64_t mr) : rows(m), count(ceil_div(m, mr)), most(ceil_div(m, count)) {}
  int64_t begin(int64_t tile) const { return std::min(tile * most, rows); }
  int64_t rows, count, most;
};

// A group of a wave.
struct Part {
  RowGroup group;
  bool dots;
  bool arranged;  // already, for the part before, which has the same row of x
  RowTiles tiles;
  int64_t operand;  // where its rows of x are, arranged
};

// Groups whose rows of x are arranged together, and then multiplied.
struct Wave {
  int64_t first, last;  // of the parts
  int64_t rows, operand;
};

// Groups in waves, and offsets into the scratch, in floats.
struct Layout {
  Layout(const MatMulNbitsKernel& kernel, const GemmKernel& gemm, const QuantizedMatrix& matrix, const RowGroups& rows,
         bool is_float, int64_t threads) {
    const int64_t most_dots = kernel.most_dots(matrix);
    int64_t operand = 0, most = 0;
    bool unpacks = false;
    for (const RowGroup& group : pieces_of(rows.groups, is_float)) {
      const int64_t m = group.end - group.begin;
      const bool dots = m <= most_dots;
      const auto source = [&](const RowGroup& of) { return rows.row(of.begin) / rows.sharing; };
      const bool repeats = !parts.empty() && m == 1 && parts.back().tiles.rows == 1 && dots &&
                           source(group) == source(parts.back().group);
      const int64_t size = repeats ? 0 : lines(m * (dots ? arranged_depth(matrix.k) : matrix.k));
      if (waves.empty() || (!repeats && waves.back().operand + size > kWaveOperand)) {
        const auto next = static_cast<int64_t>(parts.size());
        waves.push_back({next, next, 0, 0});
      }
      Wave& wave = waves.back();
      const int64_t at = repeats ? parts.back().operand : wave.operand;
      parts.push_back({group, dots, repeats, RowTiles(m, dots ? kernel.dot_rows : gemm.mr), at});
      ++wave.last, wave.rows += m, wave.operand += size;
      operand = std::max(operand, wave.operand), most = std::max(most, m);
      unpacks = unpacks || !dots;
    }
    const bool as_they_are = is_float && rows.order.empty() && rows.sharing == 1;
    tile = as_they_are ? 0 : lines(std::min(most, kMaxRows) * matrix.k);
    sums = tile + (unpacks ? kPanelColumns * (kPanelDepth + kMaxRows) : 0);
    worker = sums + (is_float ? 0 : most * kPanelColumns);
    const int64_t panels = ceil_div(rows.width, kPanelColumns);
    for (const Wave& wave : waves) {
      int64_t tiles = 0;
      for (int64_t p = wave.first; p < wave.last; ++p) tiles += parts[p].tiles.count;
      most_workers = std::max({most_workers, tiles, (wave.last - wave.first) * panels});
    }
    most_workers = std::min(most_workers, threads);
    workers = operand;
    size = workers + most_workers * worker;
  }

  static std::vector<RowGroup> pieces_of(const std::vector<RowGroup>& groups, bool is_float) {
    std::vector<RowGroup> pieces;
    for (const RowGroup& group : groups) {
      const int64_t step = is_float ? std::max<int64_t>(group.end - group.begin, 1) : kMostSums;
      for (int64_t begin = group.begin; begin < group.end; begin += step) {
        pieces.push_back({group.first, begin, std::min(begin + step, group.end)});
      }
    }
    return pieces;
  }

  std::vector<Part> parts;
  std::vector<Wave> waves;
  // Scratch of a worker: rows of x, a panel, the columns of it that fill no vector, and sums to be rounded.
  int64_t workers, worker, tile, sums, size;
  int64_t most_workers = 1;  // that have something to do
};

template <class T>
class Driver {
 public:
  Driver(const ArchFlags& arch, const QuantizedMatrix& matrix, const RowGroups& rows, const T* x, T* y, float* scratch,
         const Parallel& parallel)
      : arch_(arch),
        kernel_(get_matmul_nbits_kernel(arch)),
        gemm_(get_gemm_kernel(arch)),
        matrix_(matrix),
        rows_(rows),
        x_(x),
        y_(y),
        scratch_(scratch),
        parallel_(parallel),
        layout_(kernel_, gemm_, matrix, rows, kIsFloat<T>, parallel.threads) {}

  void run() const {
    for (const Wave& wave : layout_.waves) {
      arrange(wave);
      multiply(wave);
    }
  }

 private:
  void arrange(const Wave& wave) const;
  void arrange_tile(const Part& part, int64_t tile, float* memory) const;
  const float* gathered(const Part& part, int64_t row, int64_t count, float* memory) const;
  void multiply(const Wave& wave) const;
  void multiply_dots(const Part& part, int64_t first, int64_t last, float* memory) const;
  void multiply_panel(const Part& part, int64_t first, int64_t last, float* memory) const;
  void round_sums(const Part& part, int64_t first, int64_t last, const float* memory) const;

  float* memory_of(int64_t worker) const { return scratch_ + layout_.workers + worker * layout_.worker; }

  // Where the sums of a row, from column `first` on, are: in y, or in the worker's memory where y is not of floats.
  float* sums_of(const Part& part, int64_t row, int64_t first, float* memory) const {
    if constexpr (kIsFloat<T>) {
      return y_ + rows_.row(part.group.begin + row) * rows_.width + first;
    } else {
      return memory + layout_.sums + row * kPanelColumns;
    }
  }

  const ArchFlags& arch_;
  const MatMulNbitsKernel& kernel_;
  const GemmKernel& gemm_;
  const QuantizedMatrix& matrix_;
  const RowGroups& rows_;
  const T* x_;
  T* y_;
  float* scratch_;
  const Parallel& parallel_;
  Layout layout_;
};

// Some rows of x as contiguous floats: in x itself if they are, else copied to `memory`.
template <class T>
const float* Driver<T>::gathered(const Part& part, int64_t row, int64_t count, float* memory) const {
  const auto source = [&](int64_t i) { return rows_.row(part.group.begin + row + i) / rows_.sharing; };
  if constexpr (kIsFloat<T>) {
    int64_t same = 1;
    while (same < count && source(same) == source(0) + same) ++same;
    if (same == count) return x_ + source(0) * matrix_.k;
  }
  for (int64_t i = 0; i < count; ++i) {
    const T* const from = x_ + source(i) * matrix_.k;
    if constexpr (kIsFloat<T>) {
      std::copy_n(from, matrix_.k, memory + i * matrix_.k);
    } else {
      get_to_float_kernel(arch_).run(from, matrix_.k, memory + i * matrix_.k);
    }
  }
  return memory;
}

template <class T>
void Driver<T>::arrange_tile(const Part& part, int64_t tile, float* memory) const {
  const int64_t row = part.tiles.begin(tile), rows = part.tiles.begin(tile + 1) - row;
  const float* const source = gathered(part, row, rows, memory);
  float* const operand = scratch_ + part.operand;
  if (part.dots) {
    kernel_.arrange(matrix_, rows, source, operand + row * arranged_depth(matrix_.k));
  } else {
    get_transpose_kernel(arch_).to<float>()(source, matrix_.k, rows, matrix_.k, nullptr, operand + row * matrix_.k,
                                            rows);
  }
}

template <class T>
void Driver<T>::arrange(const Wave& wave) const {
  std::vector<std::pair<const Part*, int64_t>> tiles;
  for (int64_t p = wave.first; p < wave.last; ++p) {
    const Part& part = layout_.parts[p];
    for (int64_t tile = 0; tile < part.tiles.count && !part.arranged; ++tile) tiles.emplace_back(&part, tile);
  }
  const int64_t workers = std::clamp<int64_t>(wave.operand / kLeastOperand, 1, layout_.most_workers);
  Ranges ranges(static_cast<int64_t>(tiles.size()), 1, 1, workers);
  const auto work = [&](int64_t worker) {
    int64_t begin, end;
    while (ranges.take(&begin, &end)) {
      for (int64_t i = begin; i < end; ++i) {
        arrange_tile(*tiles[i].first, tiles[i].second, memory_of(worker));
      }
    }
  };
  if (workers == 1) {
    work(0);
  } else {
    for_each(parallel_, workers, work);
  }
}

// Computes columns [first, last) of y by dot products, with as much of x at a time as stays in L1.
template <class T>
void Driver<T>::multiply_dots(const Part& part, int64_t first, int64_t last, float* memory) const {
  constexpr int64_t kOperand = 6144;  // numbers of x
  const int64_t depth = arranged_depth(matrix_.k), at = part.group.first;
  const int64_t step = arranged_depth(ceil_div(matrix_.k, ceil_div(part.tiles.most * matrix_.k, kOperand)));
  for (int64_t tile = 0; tile < part.tiles.count; ++tile) {
    const int64_t row = part.tiles.begin(tile), rows = part.tiles.begin(tile + 1) - row;
    float* y[kMaxRows];
    for (int64_t r = 0; r < rows; ++r) y[r] = sums_of(part, row + r, first, memory);
    for (int64_t begin = 0; begin < matrix_.k; begin += step) {
      kernel_.dots({&matrix_, at + first, at + last, begin, std::min(begin + step, matrix_.k), rows,
                    scratch_ + part.operand + row * depth, y});
    }
  }
}

// Computes columns [first, last) of y, at most kPanelColumns, from unpacked panels.
template <class T>
void Driver<T>::multiply_panel(const Part& part, int64_t first, int64_t last, float* memory) const {
  float *const panel = memory + layout_.tile, *const edge = panel + kPanelColumns * kPanelDepth;
  const int64_t no_offset = 0, cols = align_up(last - first, kGemmColumns);
  const bool is_whole = !kIsFloat<T> || last - first == cols;
  const int64_t piece = piece_length(matrix_.k, 1);
  for (int64_t begin = 0; begin < matrix_.k; begin += kPanelDepth) {
    const int64_t end = std::min(begin + kPanelDepth, matrix_.k);
    kernel_.unpack({&matrix_, part.group.first + first, part.group.first + last, begin, end, panel});
    for (int64_t tile = 0; tile < part.tiles.count; ++tile) {
      const int64_t row = part.tiles.begin(tile), rows = part.tiles.begin(tile + 1) - row;
      float *out[kMaxRows], *c[kMaxRows];
      for (int64_t r = 0; r < rows; ++r) {
        out[r] = sums_of(part, row + r, first, memory);
        c[r] = is_whole ? out[r] : edge + r * kPanelColumns;
        if (!is_whole && begin > 0) std::copy_n(out[r], last - first, c[r]);
      }
      gemm_.run({rows, cols, 1, end - begin, scratch_ + part.operand + row * matrix_.k + begin * rows, panel,
                 &no_offset, kPanelColumns, c, piece, begin > 0});
      for (int64_t r = 0; r < rows && !is_whole; ++r) std::copy_n(c[r], last - first, out[r]);
    }
  }
}

// Rounds the sums to y, where its elements are not floats.
template <class T>
void Driver<T>::round_sums(const Part& part, int64_t first, int64_t last, const float* memory) const {
  for (int64_t i = 0; i < part.tiles.rows; ++i) {
    T* const out = y_ + rows_.row(part.group.begin + i) * rows_.width;
    const float* const sums = memory + layout_.sums + i * kPanelColumns;
    for (int64_t n = first; n < last; ++n) round_to(out + n, sums[n - first]);
  }
}

// A work item is one panel of columns for one part.
template <class T>
void Driver<T>::multiply(const Wave& wave) const {
  const int64_t panels = ceil_div(rows_.width, kPanelColumns), items = (wave.last - wave.first) * panels;
  const int64_t panel_work = kPanelColumns * matrix_.k * wave.rows / (wave.last - wave.first);
  const int64_t workers = std::clamp<int64_t>(items * panel_work / kLeastWork, 1, layout_.most_workers);
  Ranges ranges(items, 1, ceil_div(kLeastWork, panel_work), workers);
  for_each(parallel_, workers, [&](int64_t worker) {
    float* const memory = memory_of(worker);
    int64_t begin, end;
    while (ranges.take(&begin, &end)) {
      for (int64_t item = begin; item < end; ++item) {
        const Part& part = layout_.parts[wave.first + item / panels];
        const int64_t first = item % panels * kPanelColumns, last = std::min(first + kPanelColumns, rows_.width);
        if (part.dots) {
          multiply_dots(part, first, last, memory);
        } else {
          multiply_panel(part, first, last, memory);
        }
        if constexpr (!kIsFloat<T>) round_sums(part, first, last, memory);
      }
    }
  });
}

}  // namespace

template <class T>
size_t matmul_nbits_scratch_bytes(const ArchFlags& arch, const QuantizedMatrix& matrix, const RowGroups& rows,
                                  int threads) {
  if (rows.width == 0 || matrix.k == 0) return 0;
  const Layout layout(get_matmul_nbits_kernel(arch), get_gemm_kernel(arch), matrix, rows, kIsFloat<T>, threads);
  return static_cast<size_t>(layout.size) * sizeof(float);
}

template <class T>
void matmul_nbits(const ArchFlags& arch, const QuantizedMatrix& matrix, const RowGroups& rows, const T* x, T* y,
                  void* scratch, const Parallel& parallel) {
  if (rows.width == 0) return;
  if (matrix.k == 0) {
    for (const RowGroup& group : rows.groups) {
      for (int64_t i = group.begin; i < group.end; ++i) std::fill_n(y + rows.row(i) * rows.width, rows.width, T());
    }
    return;
  }
  Driver<T>(arch, matrix, rows, x, y, static_cast<float*>(scratch), parallel).run();
}

#define INSTANTIATE(T)                                                                                            \
  template size_t matmul_nbits_scratch_bytes<T>(const ArchFlags&, const QuantizedMatrix&, const RowGroups&, int); \
  template void matmul_nbits(const ArchFlags&, const QuantizedMatrix&, const RowGroups&, const T*, T*, void*,     \
                             const Parallel&);
ORTCONV_FLOAT_SUM_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

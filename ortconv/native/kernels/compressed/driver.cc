// How a product by a compressed matrix is shared among threads, and which of two ways it takes: a few rows of x by dot
// products with the codes as they are, more of them by unpacking a panel of the matrix at a time for the microkernel of
// the dense product.
#include <algorithm>
#include <type_traits>

#include "kernels/compressed/compressed.h"
#include "kernels/compressed/stages.h"
#include "kernels/gemm/gemm.h"
#include "kernels/gemm/pieces.h"
#include "kernels/transpose/transpose.h"
#include "kernels/widen/widen.h"
#include "ops/parallel.h"
#include "ops/ranges.h"

namespace ortconv::kernels {
namespace {

// Products that are worth a thread of their own.
constexpr int64_t kLeastWork = 1 << 17;
constexpr int64_t kLine = 16;  // floats of a cache line

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
int64_t lines(int64_t floats) { return ceil_div(floats, kLine) * kLine; }

template <class T>
constexpr bool kIsFloat = std::is_same_v<T, float>;

// Rows of x that are taken at a time, as even as can be.
struct RowTiles {
  RowTiles(int64_t m, int64_t mr) : rows(m), count(ceil_div(m, mr)), most(ceil_div(m, count)) {}
  int64_t begin(int64_t tile) const { return std::min(tile * most, rows); }
  int64_t rows, count, most;
};

// Where everything is in the scratch, in floats.
struct Layout {
  Layout(const CompressedKernel& kernel, const CompressedMatrix& matrix, bool is_float, int64_t m, int64_t threads)
      : dots(m <= kernel.most_dots(matrix)) {
    const int64_t panel = kPanelColumns * kPanelDepth, edge = kMaxRows * kPanelColumns;
    worker = panel + edge;
    operand = m * (dots ? arranged_depth(matrix.k) : matrix.k);
    widened = lines(operand);
    result = widened + (is_float ? 0 : lines(m * matrix.k));
    workers = result + (is_float ? 0 : lines(m * matrix.n));
    size = workers + (dots ? 0 : threads * worker);
  }

  bool dots;
  int64_t operand, widened, result, workers, worker, size;
};

// Columns [first, last) of y, by dot products. So much of x is taken at a time that it stays in the fastest cache.
void multiply_dots(const CompressedKernel& kernel, const CompressedMatrix& matrix, const RowTiles& tiles,
                   const float* arranged, int64_t first, int64_t last, float* y) {
  constexpr int64_t kOperand = 6144;  // numbers of x
  const int64_t depth = arranged_depth(matrix.k);
  const int64_t step = arranged_depth(ceil_div(matrix.k, ceil_div(tiles.most * matrix.k, kOperand)));
  for (int64_t tile = 0; tile < tiles.count; ++tile) {
    const int64_t row = tiles.begin(tile), rows = tiles.begin(tile + 1) - row;
    for (int64_t begin = 0; begin < matrix.k; begin += step) {
      kernel.dots({&matrix, first, last, begin, std::min(begin + step, matrix.k), rows, arranged + row * depth,
                   y + row * matrix.n, matrix.n});
    }
  }
}

// Columns [first, last) of y, at most kPanelColumns of them, from unpacked panels.
void multiply_panel(const CompressedKernel& kernel, const GemmKernel& gemm, const CompressedMatrix& matrix,
                    const RowTiles& tiles, const float* packed, int64_t first, int64_t last, float* y, float* panel,
                    float* edge) {
  const int64_t no_offset = 0, cols = ceil_div(last - first, kGemmColumns) * kGemmColumns;
  const bool is_whole = last - first == cols;
  const int64_t piece = piece_length(matrix.k, 1);
  for (int64_t begin = 0; begin < matrix.k; begin += kPanelDepth) {
    const int64_t end = std::min(begin + kPanelDepth, matrix.k);
    kernel.unpack({&matrix, first, last, begin, end, panel});
    for (int64_t tile = 0; tile < tiles.count; ++tile) {
      const int64_t row = tiles.begin(tile), rows = tiles.begin(tile + 1) - row;
      float* c[kMaxRows];
      for (int64_t r = 0; r < rows; ++r) {
        float* out = y + (row + r) * matrix.n + first;
        c[r] = is_whole ? out : edge + r * kPanelColumns;
        if (!is_whole && begin > 0) std::copy_n(out, last - first, c[r]);
      }
      gemm.run({rows, cols, 1, end - begin, packed + row * matrix.k + begin * rows, panel, &no_offset, kPanelColumns, c,
                piece, begin > 0});
      for (int64_t r = 0; r < rows && !is_whole; ++r) {
        std::copy_n(c[r], last - first, y + (row + r) * matrix.n + first);
      }
    }
  }
}

}  // namespace

template <class T>
size_t compressed_scratch_bytes(const ArchFlags& arch, const CompressedMatrix& matrix, int64_t m, int threads) {
  return static_cast<size_t>(Layout(get_compressed_kernel(arch), matrix, kIsFloat<T>, m, threads).size) * sizeof(float);
}

template <class T>
void multiply_compressed(const ArchFlags& arch, const CompressedMatrix& matrix, int64_t m, const T* x, T* y,
                         void* scratch, const Parallel& parallel) {
  if (m == 0 || matrix.n == 0) return;
  if (matrix.k == 0) {
    std::fill_n(y, m * matrix.n, T());
    return;
  }
  const CompressedKernel& kernel = get_compressed_kernel(arch);
  const GemmKernel& gemm = get_gemm_kernel(arch);
  const Layout layout(kernel, matrix, kIsFloat<T>, m, parallel.threads);
  float* const memory = static_cast<float*>(scratch);
  const float* source;
  float* result;
  if constexpr (kIsFloat<T>) {
    source = x, result = y;
  } else {
    get_widen_kernel(arch).run(x, m * matrix.k, memory + layout.widened);
    source = memory + layout.widened, result = memory + layout.result;
  }

  const RowTiles tiles(m, layout.dots ? kernel.dot_rows : gemm.mr);
  const int64_t depth = arranged_depth(matrix.k);
  if (layout.dots) {
    for (int64_t tile = 0; tile < tiles.count; ++tile) {
      const int64_t row = tiles.begin(tile);
      kernel.arrange(matrix, tiles.begin(tile + 1) - row, source + row * matrix.k, memory + row * depth);
    }
  } else {
    for_each(parallel, tiles.count, [&](int64_t tile) {
      const int64_t row = tiles.begin(tile), rows = tiles.begin(tile + 1) - row;
      get_transpose_kernel(arch).to<float>()(source + row * matrix.k, matrix.k, rows, matrix.k, nullptr,
                                             memory + row * matrix.k, rows);
    });
  }

  const int64_t panels = ceil_div(matrix.n, kPanelColumns), panel_work = kPanelColumns * matrix.k * m;
  const int64_t workers = std::clamp<int64_t>(panels * panel_work / kLeastWork, 1, parallel.threads);
  Ranges ranges(panels, 1, ceil_div(kLeastWork, panel_work), workers);
  for_each(parallel, workers, [&](int64_t worker) {
    float* const panel = memory + layout.workers + worker * layout.worker;
    int64_t begin, end;
    while (ranges.take(&begin, &end)) {
      const int64_t first = begin * kPanelColumns, last = std::min(end * kPanelColumns, matrix.n);
      for (int64_t n = first; n < last; n += kPanelColumns) {
        const int64_t stop = std::min(n + kPanelColumns, last);
        if (layout.dots) {
          multiply_dots(kernel, matrix, tiles, memory, n, stop, result);
        } else {
          multiply_panel(kernel, gemm, matrix, tiles, memory, n, stop, result, panel,
                         panel + kPanelColumns * kPanelDepth);
        }
      }
      if constexpr (!kIsFloat<T>) {
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t n = first; n < last; ++n) round_to(y + i * matrix.n + n, result[i * matrix.n + n]);
        }
      }
    }
  });
}

#define INSTANTIATE(T)                                                                                       \
  template size_t compressed_scratch_bytes<T>(const ArchFlags&, const CompressedMatrix&, int64_t, int);      \
  template void multiply_compressed(const ArchFlags&, const CompressedMatrix&, int64_t, const T*, T*, void*, \
                                    const Parallel&);
INSTANTIATE(float)
INSTANTIATE(Float16)
INSTANTIATE(Bfloat16)
#undef INSTANTIATE

}  // namespace ortconv::kernels

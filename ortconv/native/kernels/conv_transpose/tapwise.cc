#include "kernels/conv_transpose/tapwise.h"

#include <algorithm>

#include "kernels/conv_transpose/cells.h"
#include "kernels/conv_transpose/parts_stages.h"
#include "kernels/conv_transpose/stages.h"
#include "kernels/gemm/pieces.h"
#include "ops/ranges.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kBlockColumns = 48;     // dst channels of a block
constexpr int64_t kPanelRows = 9;         // positions of a panel: the widest of which AVX-512 sums 48 columns at a time
constexpr int64_t kSumBytes = 256 << 10;  // sums of a block for some images, meant to stay in L2
constexpr int64_t kSrcBytes = 512 << 10;  // copy of these images, likewise
constexpr int64_t kChunk = 256;           // most src channels of a chunk
// Beyond these one image is too large.
constexpr double kMostSumBytes = 640 << 10, kMostSrcBytes = 1024 << 10;
constexpr int64_t kLeastDepth = 64, kLeastColumns = 32;
constexpr int64_t kTileBytes = 24 << 10;  // of transposed sums, meant to stay in L1
constexpr int64_t kMostTileColumns = 128;

int64_t ceil_div(int64_t a, int64_t b) { return -floor_div(-a, b); }
size_t align64(int64_t bytes) { return (static_cast<size_t>(bytes) + 63) & ~size_t{63}; }

// Some images of a batch, which are computed together.
struct Images {
  int64_t begin, count;
};

// Blocks of the columns of a group: dst channels, as many as make whole vectors.
struct Blocks {
  int64_t vectors, count;
  explicit Blocks(const Plan& plan)
      : vectors(ceil_div(plan.oc, kGemmColumns)), count(ceil_div(vectors * kGemmColumns, kBlockColumns)) {}
  int64_t columns() const { return vectors * kGemmColumns; }
  int64_t begin(int64_t block) const { return even_begin(vectors, block, count, 1) * kGemmColumns; }
  // Of a vector, the one with which its block begins.
  int64_t start_of(int64_t vector) const {
    int64_t block = vector * count / vectors;
    while (begin(block + 1) <= vector * kGemmColumns) ++block;
    return begin(block) / kGemmColumns;
  }
};

// What is computed at a time: some images, and columns [begin, begin + count) of a group, of one block.
struct Piece {
  Images images;
  int64_t group, block, begin, count;
};

// What tap k of an axis does: position j of its class is src position j - shift, for those in [begin, end).
struct Reach {
  int64_t cls, shift, begin, end;

  Reach() = default;
  Reach(const ConvProblem& p, int64_t a, int64_t k) {
    const int64_t stride = p.stride[a], at = k * p.dilation[a] - p.pad[a];  // dst position of src position 0
    cls = k * p.dilation[a] % stride;
    shift = floor_div(at, stride);
    begin = std::clamp<int64_t>(ceil_div(-at, stride), 0, p.src_size[a]);
    end = std::clamp<int64_t>(floor_div(p.dst_size[a] - 1 - at, stride) + 1, begin, p.src_size[a]);
  }
};

// Src positions that make the rows of panels: along the last axis or, where that is shorter, along the batch.
struct Line {
  int64_t image, at[kMaxSpatial];  // of the first of them
  int64_t src;                     // likewise, the offset into src, without the channel
};

struct Layout {
  Geometry geometry;   // its grid is the positions, end to end
  int64_t positions;   // of src, of one image
  int64_t sums;        // positions of a class, of one image
  int64_t num_blocks;  // of images
  int64_t images;      // of a block
  bool along_batch;
  // Byte offsets into the scratch: phases, widened bias, src as the A operand, then one slice per thread.
  size_t phases, bias, src, slices, slice_size;
  // Inside a slice, which begins with the sums.
  size_t slice_tile, slice_rows, slice_segments;

  Layout(const Plan& plan, const ConvProblem& p, int threads) : geometry(plan, p, threads), positions(1), sums(1) {
    const int last = plan.ndims - 1;
    const auto cell = static_cast<int64_t>(plan.cell_bytes);
    for (int a = 0; a <= last; ++a) {
      geometry.axis[a].grid = geometry.axis[a].positions;
      positions *= p.src_size[a];
      sums *= geometry.axis[a].positions;
    }
    const int64_t image_sums = plan.num_classes * sums * kBlockColumns * cell;
    const int64_t most = std::min(kSumBytes / image_sums, kSrcBytes / (positions * plan.ic * cell));
    num_blocks = ceil_div(p.mb, std::max<int64_t>(most, 1));
    images = ceil_div(p.mb, num_blocks);
    along_batch = p.src_size[last] < std::min(images, kPanelRows);
    const int64_t row_classes = plan.axis[last].dst_step;
    geometry.columns = std::clamp<int64_t>(kTileBytes / (kBlockColumns * row_classes * cell) / kGemmColumns, 1,
                                           kMostTileColumns / kGemmColumns) *
                       kGemmColumns;

    slice_tile = align64(images * image_sums);
    slice_rows = slice_tile + align64(kBlockColumns * row_classes * geometry.columns * cell);
    slice_segments = slice_rows + align64(row_classes * static_cast<int64_t>(sizeof(void*)));
    slice_size = slice_segments +
                 align64((geometry.columns / geometry.axis[last].grid + 2) * static_cast<int64_t>(sizeof(Segment)));
    phases = 0;
    int64_t num_phases = 0;
    for (int a = 0; a <= last; ++a) num_phases += plan.axis[a].dst_step;
    bias = phases + align64(num_phases * 8);
    src = bias + align64(p.oc * cell);
    slices = src + align64(p.mb * p.ic * positions * cell);
  }
};

// How products are summed. Where src is so small that no position meets all taps of a class, sums are shorter than the
// plan assumes.
Pieces pieces_of(const Plan& plan, const ConvProblem& p) {
  int64_t products = plan.ic;
  bool meets_all = true;
  for (int a = 0; a < plan.ndims; ++a) {
    const int64_t taps = ceil_div(p.ker[a], p.stride[a]);
    meets_all &= p.src_size[a] >= taps;
    products *= std::min(p.src_size[a], taps);
  }
  if (meets_all || plan.element_bytes < sizeof(float)) return {plan.piece, plan.k_chunk};
  const Pieces best = best_pieces(products);
  return {std::min(plan.piece, best.piece), best.call};
}

template <class T>
struct Run {
  const Plan& plan;
  const ConvProblem& problem;
  const Layout layout;
  const Blocks blocks;
  const Pieces pieces;
  const T* src;
  const Sum<T>* bias;
  T* dst;
  char* scratch;
  int64_t num_slices;

  Images images(int64_t block) const {
    const int64_t begin = block * layout.images;
    return {begin, std::min(layout.images, problem.mb - begin)};
  }
  // The A operand of a group and some images: [chunk][line][panel][src channel][row].
  Sum<T>* packed_src(int64_t group, const Images& some) const {
    return reinterpret_cast<Sum<T>*>(scratch + layout.src) +
           (some.begin * plan.g + group * some.count) * plan.ic * layout.positions;
  }
  int64_t line_length(const Images& some) const {
    return layout.along_batch ? some.count : problem.src_size[plan.ndims - 1];
  }
  int64_t lines(const Images& some) const { return some.count * layout.positions / line_length(some); }
  int64_t line_step() const { return layout.along_batch ? problem.src_n : problem.src_x[plan.ndims - 1]; }

  Line line(const Images& some, int64_t index) const {
    Line line{};
    for (int a = plan.ndims - 1; a >= 0; --a) {
      if (a == plan.ndims - 1 && !layout.along_batch) continue;
      line.at[a] = index % problem.src_size[a];
      line.src += line.at[a] * problem.src_x[a];
      index /= problem.src_size[a];
    }
    line.image = index;
    line.src += (some.begin + index) * problem.src_n;
    return line;
  }
};

// Packs one line of src, all chunks.
template <class T>
void pack_src(const Run<T>& run, int64_t group, const Images& some, int64_t index) {
  const Plan& plan = run.plan;
  const int64_t length = run.line_length(some), step = run.line_step(), src_c = run.problem.src_c;
  const Panels panels(length, std::min(plan.mr, kPanelRows));
  const T* line = run.src + group * plan.ic * src_c + run.line(some, index).src;
  for (int64_t c0 = 0; c0 < plan.ic; c0 += plan.k_chunk) {
    const int64_t c1 = std::min(c0 + plan.k_chunk, plan.ic);
    Sum<T>* out = run.packed_src(group, some) + length * (run.lines(some) * c0 + index * (c1 - c0));
    for (int64_t panel = 0; panel < panels.count; ++panel) {
      const int64_t begin = panels.begin(panel), rows = panels.begin(panel + 1) - begin;
      const T* in = line + begin * step + c0 * src_c;
      for (int64_t c = c0; c < c1; ++c, in += src_c, out += rows) {
        if (step == 1) {
          load_cells(*plan.widen, in, rows, out);
        } else {
          for (int64_t row = 0; row < rows; ++row) out[row] = widen(in[row * step]);
        }
      }
    }
  }
}

// Adds what the tap of all lines gives for `depth` src channels. `a` is their A operand, `b` their weights for the
// block of columns, and what follows these in memory is needed next.
template <class T>
void multiply_tap(const Run<T>& run, const Piece& piece, int64_t tap, int64_t depth, const Sum<T>* a, const Sum<T>* b,
                  Sum<T>* sums) {
  const Plan& plan = run.plan;
  const int last = plan.ndims - 1;
  const Images& some = piece.images;
  const bool along_batch = run.layout.along_batch;
  const int64_t length = run.line_length(some), lines = run.lines(some);
  const int64_t ldb = run.blocks.begin(piece.block + 1) - run.blocks.begin(piece.block);
  const Panels panels(length, std::min(plan.mr, kPanelRows));
  const BasicGemmKernel<Sum<T>>& gemm = plan.template gemm_kernel<Sum<T>>();
  Reach reach[kMaxSpatial];
  int64_t first = 0, scale = some.count * run.layout.sums, stride[kMaxSpatial], pitch = 1;  // of the sums
  for (int64_t axis = last, rest = tap; axis >= 0; --axis) {
    reach[axis] = Reach(run.problem, axis, rest % plan.axis[axis].ker);
    rest /= plan.axis[axis].ker;
    first += reach[axis].cls * scale + reach[axis].shift * pitch;
    scale *= plan.axis[axis].dst_step;
    stride[axis] = pitch;
    pitch *= run.layout.geometry.axis[axis].positions;
  }
  const int64_t row_begin = along_batch ? 0 : reach[last].begin, row_end = along_batch ? length : reach[last].end;
  const int64_t row_step = along_batch ? run.layout.sums : 1;
  const int fixed_axes = along_batch ? plan.ndims : last;
  const int64_t no_offset = 0, line_cells = 64 / static_cast<int64_t>(sizeof(Sum<T>));
  const Sum<T>* next = b + depth * ldb;
  const Sum<T>* const next_end = next + depth * ldb;
  b += piece.begin - run.blocks.begin(piece.block);
  for (int64_t i = 0; i < lines; ++i, a += length * depth) {
    const Line line = run.line(some, i);
    int64_t at = first + line.image * run.layout.sums;
    bool inside = true;
    for (int axis = 0; axis < fixed_axes; ++axis) {
      inside &= line.at[axis] >= reach[axis].begin && line.at[axis] < reach[axis].end;
      at += line.at[axis] * stride[axis];
    }
    if (!inside) continue;
    for (int64_t panel = 0; panel < panels.count; ++panel) {
      const int64_t panel_begin = panels.begin(panel), panel_end = panels.begin(panel + 1);
      const int64_t begin = std::max(panel_begin, row_begin), end = std::min(panel_end, row_end);
      if (begin >= end) continue;
      Sum<T>* c[kMaxRows];
      for (int64_t row = begin; row < end; ++row) c[row - begin] = sums + (at + row * row_step) * piece.count;
      const int64_t panel_rows = panel_end - panel_begin;
      const Sum<T>* from = a + panel_begin * depth + begin - panel_begin;
      for (int64_t k = 0; k < depth; k += run.pieces.call) {
        const int64_t count = std::min(run.pieces.call, depth - k);
        BasicGemmArgs<Sum<T>> args{end - begin, piece.count, 1,   count, from + k * panel_rows,
                                   b + k * ldb, &no_offset,  ldb, c,     run.pieces.piece,
                                   true};
        args.lda = panel_rows;
        if (next < next_end) {
          args.next = next;
          next += count * line_cells;
        }
        gemm.run(args);
      }
    }
  }
}

// Writes the sums of a piece.
template <class T>
void write_sums(const Run<T>& run, const Piece& piece, const Sum<T>* sums, char* slice) {
  using Cell = Sum<T>;
  const Plan& plan = run.plan;
  const Layout& layout = run.layout;
  const int64_t width = layout.geometry.columns, count = piece.images.count * layout.sums;
  const int64_t channels = std::min(piece.count, plan.oc - piece.begin);
  Cell* tile = reinterpret_cast<Cell*>(slice + layout.slice_tile);
  Segment* segments = reinterpret_cast<Segment*>(slice + layout.slice_segments);
  const Scatter<T> stage{plan, layout.geometry, run.problem,
                         reinterpret_cast<const int64_t*>(run.scratch + layout.phases),
                         reinterpret_cast<const Cell**>(slice + layout.slice_rows)};
  Block positions{};
  positions.batch_begin = piece.images.begin, positions.batch_count = piece.images.count;
  for (int a = 0; a < plan.ndims; ++a) positions.count[a] = layout.geometry.axis[a].positions;
  const auto transpose = plan.transpose->to<Cell>();
  for (const Unit& unit : plan.units) {
    for (int64_t begin = 0; begin < count; begin += width) {
      const int64_t end = std::min(begin + width, count);
      for (int64_t cls = 0; cls < unit.num_classes; ++cls) {
        transpose(sums + (cls * count + begin) * piece.count, piece.count, end - begin, channels, nullptr,
                  tile + cls * width, unit.num_classes * width);
      }
      const int64_t num_segments = list_segments(plan, layout.geometry, positions, begin, end, segments);
      write_tile(stage, unit, segments, num_segments, end - begin, tile, piece.group * plan.oc + piece.begin, channels,
                 run.bias, run.dst);
    }
    sums += unit.num_classes * count * piece.count;
  }
}

template <class T>
void run_piece(const Run<T>& run, const Piece& piece, char* slice) {
  using Cell = Sum<T>;
  const Plan& plan = run.plan;
  const Blocks& blocks = run.blocks;
  Cell* sums = reinterpret_cast<Cell*>(slice);
  std::fill_n(sums, plan.num_classes * piece.images.count * run.layout.sums * piece.count, Cell());
  const Cell* a = run.packed_src(piece.group, piece.images);
  const int64_t begin = blocks.begin(piece.block), columns = blocks.begin(piece.block + 1) - begin;
  const Cell* b = plan.packed.as<const Cell>() + (piece.group * blocks.columns() + begin) * plan.ic * plan.num_taps;
  for (int64_t c0 = 0; c0 < plan.ic; c0 += plan.k_chunk) {
    const int64_t depth = std::min(plan.k_chunk, plan.ic - c0);
    for (int64_t tap = 0; tap < plan.num_taps; ++tap, b += depth * columns) {
      multiply_tap(run, piece, tap, depth, a, b, sums);
    }
    a += piece.images.count * run.layout.positions * depth;
  }
  write_sums(run, piece, sums, slice);
}

// The vectors of columns [begin, end), whose order is images, group, vector.
template <class T>
void run_vectors(const Run<T>& run, char* slice, int64_t begin, int64_t end) {
  const Blocks& blocks = run.blocks;
  for (int64_t outer = begin / blocks.vectors; outer * blocks.vectors < end; ++outer) {
    const int64_t from = (begin - outer * blocks.vectors) * kGemmColumns;
    const int64_t to = (end - outer * blocks.vectors) * kGemmColumns;
    for (int64_t block = 0; block < blocks.count; ++block) {
      const int64_t first = std::max(blocks.begin(block), from);
      const int64_t count = std::min(blocks.begin(block + 1), to) - first;
      if (count > 0) run_piece(run, {run.images(outer / run.plan.g), outer % run.plan.g, block, first, count}, slice);
    }
  }
  if (run.layout.geometry.store == Store::kStream) run.plan.interleave->fence();
}

template <class T>
void run_typed(Run<T> run, const Parallel& parallel) {
  const int64_t outer = run.plan.g * run.layout.num_blocks, vectors = outer * run.blocks.vectors;
  run.num_slices = std::min<int64_t>(std::max(parallel.threads, 1), vectors);
  parallel.run(
      parallel.context, outer * run.lines(run.images(0)),
      [](void* arg, int64_t i) {
        const Run<T>& r = *static_cast<const Run<T>*>(arg);
        const int64_t lines = r.lines(r.images(0)), index = i / lines;
        const Images some = r.images(index / r.plan.g);  // the last have fewer lines
        if (i % lines < r.lines(some)) pack_src(r, index % r.plan.g, some, i % lines);
      },
      &run);
  struct Task {
    const Run<T>& run;
    Ranges ranges;
  } task{run, {vectors, 1, kBlockColumns / kGemmColumns / 2 + 1, run.num_slices}};
  parallel.run(
      parallel.context, run.num_slices,
      [](void* arg, int64_t i) {
        Task& t = *static_cast<Task*>(arg);
        const Run<T>& r = t.run;
        const auto start_of = [&r](int64_t vector) {
          const int64_t rest = vector % r.blocks.vectors;
          return vector - rest + r.blocks.start_of(rest);
        };
        char* slice = r.scratch + r.layout.slices + i * r.layout.slice_size;
        for (int64_t begin, end; t.ranges.take(&begin, &end, start_of);) run_vectors(r, slice, begin, end);
      },
      &task);
}

}  // namespace

bool may_pack_taps(Op op, const ConvProblem& p, DataType dtype, const void* wei, const ArchFlags& arch) {
  if (op != Op::kConvTranspose || p.ic / p.g < kLeastDepth || p.oc / p.g < kLeastColumns) return false;
  const PlanPtr phases = make_plan(op, p, dtype, nullptr, arch);
  return phases != nullptr && all_finite(op, p, dtype, wei) && !parts_pay(*phases, arch, wei);
}

bool prefers_taps(const ConvProblem& p, DataType dtype) {
  const double cell =
      with_float_type(dtype, [](auto zero) { return static_cast<double>(sizeof(Sum<decltype(zero)>)); });
  // Reading and writing the sums of a tap, in products; and what the choice has to be worth.
  constexpr double kSumCost = 6, kLeastGain = 1.02;
  double sums = cell * kBlockColumns, src = cell * static_cast<double>(p.ic / p.g);
  for (int a = 0; a < p.ndims; ++a) {
    sums *= static_cast<double>(ceil_div(p.dst_size[a], p.stride[a]) * p.stride[a]);
    src *= static_cast<double>(p.src_size[a]);
  }
  if (sums > kMostSumBytes || src > kMostSrcBytes) return false;
  double in_phases = 1, useful = 1;
  for (int a = 0; a < p.ndims; ++a) {
    int64_t met = 0;
    for (int64_t k = 0; k < p.ker[a]; ++k) {
      const Reach reach(p, a, k);
      met += reach.end - reach.begin;
    }
    in_phases *= static_cast<double>(ceil_div(p.dst_size[a], p.stride[a]) * p.ker[a]);
    useful *= static_cast<double>(met);
  }
  const double depth = static_cast<double>(p.ic / p.g);
  return in_phases * depth > kLeastGain * useful * (depth + kSumCost);
}

int64_t tapwise_chunk(const Plan& plan) {
  const int64_t chunks = ceil_div(plan.ic, kChunk);
  return ceil_div(ceil_div(plan.ic, chunks), 16) * 16;
}

int64_t tapwise_packed_size(const Plan& plan) { return plan.g * Blocks(plan).columns() * plan.ic * plan.num_taps; }

void pack_tapwise(const Plan& plan, const void* wei, int64_t group, void* packed) {
  const Blocks blocks(plan);
  with_float_type(plan.dtype, [&](auto zero) {
    using T = decltype(zero);
    const T* in = static_cast<const T*>(wei) + group * plan.ic * plan.wei_0;
    auto* out = static_cast<Sum<T>*>(packed) + group * (tapwise_packed_size(plan) / plan.g);
    for (int64_t block = 0; block < blocks.count; ++block) {
      for (int64_t c0 = 0; c0 < plan.ic; c0 += plan.k_chunk) {
        for (int64_t tap = 0; tap < plan.num_taps; ++tap) {
          int64_t offset = 0;
          for (int64_t a = plan.ndims - 1, rest = tap; a >= 0; --a) {
            offset += rest % plan.axis[a].ker * plan.wei_x[a];
            rest /= plan.axis[a].ker;
          }
          for (int64_t c = c0; c < std::min(c0 + plan.k_chunk, plan.ic); ++c) {
            for (int64_t oc = blocks.begin(block); oc < blocks.begin(block + 1); ++oc) {
              *out++ = oc < plan.oc ? widen(in[c * plan.wei_0 + oc * plan.wei_1 + offset]) : Sum<T>();
            }
          }
        }
      }
    }
  });
}

size_t tapwise_scratch_bytes(const Plan& plan, const ConvProblem& problem, int threads) {
  const Layout layout(plan, problem, threads);
  return layout.slices + static_cast<size_t>(threads) * layout.slice_size;
}

void run_tapwise(const Plan& plan, const ConvProblem& problem, const void* src, const void* bias, void* dst,
                 void* scratch, const Parallel& parallel) {
  with_float_type(plan.dtype, [&](auto zero) {
    using T = decltype(zero);
    const Layout layout(plan, problem, std::max(parallel.threads, 1));
    auto* bytes = static_cast<char*>(scratch);
    fill_phases(plan, layout.geometry, problem, reinterpret_cast<int64_t*>(bytes + layout.phases));
    const Sum<T>* sum_bias =
        widened_bias(static_cast<const T*>(bias), problem.oc, reinterpret_cast<Sum<T>*>(bytes + layout.bias));
    run_typed(Run<T>{plan, problem, layout, Blocks(plan), pieces_of(plan, problem), static_cast<const T*>(src),
                     sum_bias, static_cast<T*>(dst), bytes, 0},
              parallel);
  });
}

}  // namespace ortconv::kernels

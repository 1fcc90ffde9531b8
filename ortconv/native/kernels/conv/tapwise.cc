#include "kernels/conv/tapwise.h"

#include <algorithm>
#include <new>
#include <type_traits>

#include "base/math.h"
#include "base/ranges.h"
#include "kernels/bf16_split/magnitude.h"
#include "kernels/conv/cells.h"
#include "kernels/conv/stages.h"
#include "kernels/conv/tapwise_layout.h"
#include "kernels/gemm/pieces.h"

namespace ortconv::kernels {
namespace {

using namespace tapwise;

// Some images of a batch, which are computed together.
struct Images {
  int64_t begin, count;
};

// What is computed at a time: some images, and columns [begin, begin + count) of a group, of one block.
struct Piece {
  Images images;
  int64_t group, block, begin, count;
};

// Src positions that make the rows of panels: along the last axis or, where that is shorter, along the batch.
struct Line {
  int64_t image, at[kMaxSpatial];  // of the first of them
  int64_t src;                     // likewise, the offset into src, without the channel
};

// How products are summed. Sums are shorter than the plan assumes where src is so small that no position meets all taps
// of a class.
Pieces pieces_of(const Plan& plan, const ConvProblem& p) {
  if (plan.element_bytes < sizeof(float)) return {plan.piece, plan.k_chunk};
  const MetTaps met = met_taps(p);
  const int64_t products = plan.ic * met.most;
  if (met.all) {
    return {has_short_sums(p) ? std::min(plan.piece, best_piece(products)) : plan.piece, plan.k_chunk};
  }
  const Pieces best = best_pieces(products);
  return {std::min(plan.piece, best.piece), best.call};
}

template <class T, class Operand>
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

  Images images(int64_t block) const {
    const int64_t begin = block * layout.images;
    return {begin, std::min(layout.images, problem.mb - begin)};
  }
  // The A operand of a group and some images: [chunk][line][panel][operand of src channels][row].
  Operand* packed_src(int64_t group, const Images& some) const {
    return reinterpret_cast<Operand*>(scratch + layout.src) +
           (some.begin * plan.g + group * some.count) * layout.depth * layout.positions;
  }
  Magnitude* largest() const { return reinterpret_cast<Magnitude*>(scratch + layout.largest); }
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

// Rows of an operand, `step` apart in src, widened or paired with those of the next channel, if there is any.
template <class T>
void load_rows(const Plan& plan, const T* in, int64_t rows, int64_t step, Sum<T>* out) {
  if (step == 1) {
    load_cells(*plan.widen, in, rows, out);
  } else {
    for (int64_t row = 0; row < rows; ++row) out[row] = widen(in[row * step]);
  }
}

// Returns the bits of the largest magnitude.
uint16_t load_pairs(const Bfloat16* first, const Bfloat16* second, int64_t rows, int64_t step, BfloatPair* out) {
  uint16_t largest = 0;
  for (int64_t row = 0; row < rows; ++row) {
    out[row] = {first[row * step], second == nullptr ? Bfloat16() : second[row * step]};
    for (const Bfloat16 x : {out[row].first, out[row].second}) {
      largest = std::max(largest, static_cast<uint16_t>(x.bits & 0x7fff));
    }
  }
  return largest;
}

// Packs one line of src, all chunks.
template <class T, class Operand>
void pack_src(const Run<T, Operand>& run, int64_t group, const Images& some, int64_t index) {
  constexpr int64_t kEach = kChannels<Operand>;
  const Plan& plan = run.plan;
  const int64_t length = run.line_length(some), step = run.line_step(), src_c = run.problem.src_c;
  const Panels panels(length, plan.mr);
  const T* line = run.src + group * plan.ic * src_c + run.line(some, index).src;
  [[maybe_unused]] uint16_t largest = 0;
  for (int64_t c0 = 0; c0 < plan.ic; c0 += plan.k_chunk) {
    const int64_t c1 = std::min(c0 + plan.k_chunk, plan.ic);
    Operand* out =
        run.packed_src(group, some) + length * (run.lines(some) * depth_of(plan, c0) + index * depth_of(plan, c1 - c0));
    for (int64_t panel = 0; panel < panels.count; ++panel) {
      const int64_t begin = panels.begin(panel), rows = panels.begin(panel + 1) - begin;
      const T* in = line + begin * step + c0 * src_c;
      for (int64_t c = c0; c < c1; c += kEach, in += kEach * src_c, out += rows) {
        if constexpr (std::is_same_v<Operand, BfloatPair>) {
          largest = std::max(largest, load_pairs(in, c + 1 < c1 ? in + src_c : nullptr, rows, step, out));
        } else {
          load_rows(plan, in, rows, step, out);
        }
      }
    }
  }
  if constexpr (std::is_same_v<Operand, BfloatPair>) run.largest()->see(static_cast<uint32_t>(largest) << 16);
}

// Adds the products of a tap, for all lines and `depth` operands of src channels, to `sums`. `a` is their A operand,
// `b` their weights for the block of columns; the weights that follow in memory are needed next.
template <class T, class Operand>
void multiply_tap(const Run<T, Operand>& run, const Piece& piece, int64_t tap, int64_t depth, const Operand* a,
                  const Operand* b, Sum<T>* sums) {
  const Plan& plan = run.plan;
  const int last = plan.ndims - 1;
  const Images& some = piece.images;
  const bool along_batch = run.layout.along_batch;
  const int64_t length = run.line_length(some), lines = run.lines(some);
  const int64_t ldb = run.blocks.begin(piece.block + 1) - run.blocks.begin(piece.block);
  const Panels panels(length, plan.mr);
  const BasicGemmKernel<Operand>& gemm = plan.template gemm_kernel<Operand>();
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
  const int64_t no_offset = 0, line_operands = 64 / static_cast<int64_t>(sizeof(Operand));
  const Operand* next = b + depth * ldb;
  const Operand* const next_end = next + depth * ldb;
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
      const Operand* from = a + panel_begin * depth + begin - panel_begin;
      for (int64_t k = 0; k < depth; k += run.pieces.call) {
        const int64_t count = std::min(run.pieces.call, depth - k);
        BasicGemmArgs<Operand> args{end - begin, piece.count, 1,   count, from + k * panel_rows,
                                    b + k * ldb, &no_offset,  ldb, c,     run.pieces.piece,
                                    true};
        args.lda = panel_rows;
        if (next < next_end) {
          args.next = next;
          next += count * line_operands;
        }
        gemm.run(args);
      }
    }
  }
}

// Writes the sums of a piece.
template <class T, class Operand>
void write_sums(const Run<T, Operand>& run, const Piece& piece, const Sum<T>* sums, char* slice) {
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

template <class T, class Operand>
void run_piece(const Run<T, Operand>& run, const Piece& piece, char* slice) {
  using Cell = Sum<T>;
  const Plan& plan = run.plan;
  const Blocks& blocks = run.blocks;
  Cell* sums = reinterpret_cast<Cell*>(slice);
  std::fill_n(sums, plan.num_classes * piece.images.count * run.layout.sums * piece.count, Cell());
  const Operand* a = run.packed_src(piece.group, piece.images);
  const int64_t begin = blocks.begin(piece.block), columns = blocks.begin(piece.block + 1) - begin;
  const Operand* b =
      plan.packed.as<const Operand>() + (piece.group * blocks.columns() + begin) * run.layout.depth * plan.num_taps;
  for (int64_t c0 = 0; c0 < plan.ic; c0 += plan.k_chunk) {
    const int64_t depth = depth_of(plan, std::min(plan.k_chunk, plan.ic - c0));
    for (int64_t tap = 0; tap < plan.num_taps; ++tap, b += depth * columns) {
      multiply_tap(run, piece, tap, depth, a, b, sums);
    }
    a += piece.images.count * run.layout.positions * depth;
  }
  write_sums(run, piece, sums, slice);
}

// The vectors of columns [begin, end), whose order is images, group, vector.
template <class T, class Operand>
void run_vectors(const Run<T, Operand>& run, char* slice, int64_t begin, int64_t end) {
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

template <class T, class Operand>
void run_typed(const Run<T, Operand>& run, const Parallel& parallel) {
  const int64_t outer = run.plan.g * run.layout.num_blocks, vectors = outer * run.blocks.vectors;
  const int64_t slices = std::min<int64_t>(std::max(parallel.threads, 1), vectors);
  const int64_t lines = run.lines(run.images(0));
  const int64_t of_line = run.plan.ic * run.line_length(run.images(0));
  for_each_range(parallel, outer * lines, ceil_div(kManyCopied, of_line), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t index = i / lines;
      const Images some = run.images(index / run.plan.g);  // the last have fewer lines
      if (i % lines < run.lines(some)) pack_src(run, index % run.plan.g, some, i % lines);
    }
  });
  // A single vector takes more than half as long as a block of two, but where a thread would have no block, less time
  // in all.
  const int64_t least = outer * run.blocks.count < slices ? 1 : kBlockColumns / kGemmColumns / 2 + 1;
  Ranges ranges(vectors, 1, least, slices);
  const auto start_of = [&](int64_t vector) {
    const int64_t rest = vector % run.blocks.vectors;
    return vector - rest + run.blocks.start_of(rest);
  };
  for_each(parallel, slices, [&](int64_t i) {
    char* slice = run.scratch + run.layout.slices + i * run.layout.slice_size;
    for (int64_t begin, end; ranges.take(&begin, &end, start_of);) run_vectors(run, slice, begin, end);
  });
}

}  // namespace

size_t tapwise_scratch_bytes(const Plan& plan, const ConvProblem& problem, int threads) {
  const Layout layout(plan, problem, threads);
  return layout.slices + static_cast<size_t>(threads) * layout.slice_size;
}

bool run_tapwise(const Plan& plan, const ConvProblem& problem, const void* src, const void* bias, void* dst,
                 void* scratch, const Parallel& parallel) {
  const Layout layout(plan, problem, std::max(parallel.threads, 1));
  auto* bytes = static_cast<char*>(scratch);
  fill_phases(plan, layout.geometry, problem, reinterpret_cast<int64_t*>(bytes + layout.phases));
  const auto* largest = new (bytes + layout.largest) Magnitude;
  with_types(plan, [&](auto element, auto operand) {
    using T = decltype(element);
    using Operand = decltype(operand);
    const Sum<T>* sum_bias =
        widened_bias(static_cast<const T*>(bias), problem.oc, reinterpret_cast<Sum<T>*>(bytes + layout.bias));
    const Run<T, Operand> run{plan,
                              problem,
                              layout,
                              Blocks(plan),
                              pieces_of(plan, problem),
                              static_cast<const T*>(src),
                              sum_bias,
                              static_cast<T*>(dst),
                              bytes};
    run_typed(run, parallel);
  });
  return !plan.in_pairs() || largest->suits_parts();
}

}  // namespace ortconv::kernels

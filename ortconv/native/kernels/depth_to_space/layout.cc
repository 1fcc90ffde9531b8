#include "kernels/depth_to_space/layout.h"

#include <algorithm>

#include "base/math.h"
#include "kernels/bf16_split/magnitude.h"
#include "kernels/conv/geometry.h"

namespace ortconv::kernels::depth_to_space {
namespace {

constexpr int64_t kBlockBytes = 192 << 10;  // packed columns of a block; the next one is packed beside it
constexpr int64_t kStreamBytes = 2 << 20;   // a dst beyond this would only evict what is still needed

// The columns [begin, end), whose packed cells begin at `cells`. Returns the end of their runs.
Run* list_panel(const Plan& plan, const Layout& layout, const ConvProblem& p, int64_t begin, int64_t end, int64_t cells,
                Run* const first, Piece* const pieces, Panel* panel) {
  const int last = p.ndims - 1;
  const int64_t line = layout.line;
  int64_t at[kMaxSpatial], image = begin;
  for (int a = last; a >= 0; --a) {
    at[a] = image % p.src_size[a];
    image /= p.src_size[a];
  }
  Run* run = first;
  Piece* piece = pieces;
  for (int64_t column = 0; column < end - begin;) {
    const int64_t length = std::min(p.src_size[last] - at[last], end - begin - column);
    int64_t src = image * p.src_n, dst = image * p.dst_n;
    for (int a = 0; a <= last; ++a) {
      src += at[a] * p.src_x[a];
      dst += at[a] * p.stride[a] * p.dst_x[a];
    }
    if (run != first && run[-1].offset + run[-1].length == src) {
      run[-1].length += length;
    } else {
      *run++ = {cells + column, length, src};
    }
    const int64_t element = column * plan.phases, elements = length * plan.phases;
    if (piece != pieces && piece[-1].offset == dst - element) {
      piece[-1].end += static_cast<int32_t>(elements);
    } else {
      *piece++ = {dst - element, static_cast<int32_t>(element), static_cast<int32_t>(element + elements)};
    }
    column += length;
    at[last] = 0;
    int a = last - 1;
    while (a >= 0 && ++at[a] == p.src_size[a]) at[a--] = 0;
    if (a < 0) ++image;
  }
  const bool whole = std::all_of(pieces, piece, [=](const Piece& each) { return each.end % line == 0; });
  // A vector after the last column is computed in vain.
  const int64_t computed = align_up(end - begin, layout.lanes) * plan.phases;
  *panel = {end - begin, piece - pieces, whole && pieces[piece - pieces - 1].end == computed};
  if (panel->whole) {  // piece by piece, the last first
    for (Piece* out = pieces + computed / line; piece != pieces;) {
      const Piece all = *--piece;
      for (int64_t at_end = all.end; at_end > all.begin; at_end -= line) {
        *--out = {all.offset, static_cast<int32_t>(at_end - line), static_cast<int32_t>(at_end)};
      }
    }
    panel->num_pieces = computed / line;
  }
  return run;
}

}  // namespace

Layout::Layout(const Plan& plan, const ConvProblem& p, int threads) {
  const auto cell_bytes = static_cast<int64_t>(plan.cell_bytes);
  lanes = plan.kernel->bytes / cell_bytes;
  line = plan.kernel->bytes / static_cast<int64_t>(plan.element_bytes);
  panel_columns = kVectors * lanes;
  positions = p.mb * product_of(p.src_size, p.ndims);
  const int64_t num_panels = ceil_div(positions, panel_columns), panel_bytes = plan.depth * panel_columns * cell_bytes;
  num_blocks = ceil_div(num_panels, std::clamp<int64_t>(kBlockBytes / panel_bytes, 1, num_panels));
  block_panels = ceil_div(num_panels, num_blocks);
  num_blocks = ceil_div(num_panels, block_panels);
  stream = store_of(plan.element_bytes, p, kStreamBytes) == Store::kStream;

  const int64_t rows = (panel_columns - 1) / p.src_size[p.ndims - 1] + 2;  // of src that have a part in a panel
  panel_pieces = rows + kVectors * plan.phases;
  bias = align64(plan.g * plan.groups() * static_cast<int64_t>(sizeof(int64_t)));
  largest = bias + align64(plan.g * plan.groups() * cell_bytes);
  packed = largest + align64(sizeof(Magnitude));
  slices = packed + (plan.packed.empty() ? align64(plan.packed_size() * cell_bytes) : 0);
  cells_size = align64(block_panels * panel_bytes);
  panels_size = align64(block_panels * static_cast<int64_t>(sizeof(Panel)));
  runs_size = align64(block_panels * rows * static_cast<int64_t>(sizeof(Run)));
  pieces_size = align64(block_panels * panel_pieces * static_cast<int64_t>(sizeof(Piece)));
  slice_panels = 2 * cells_size;
  slice_runs = slice_panels + 2 * panels_size;
  slice_pieces = slice_runs + 2 * runs_size;
  slice_size = slice_pieces + 2 * pieces_size;
  total = slices + static_cast<size_t>(threads) * slice_size;
}

void list_block(const Plan& plan, const Layout& layout, const ConvProblem& p, int64_t index, Block* block) {
  const int64_t begin = index * layout.block_panels * layout.panel_columns;
  const int64_t end = std::min(begin + layout.block_panels * layout.panel_columns, layout.positions);
  block->num_panels = ceil_div(end - begin, layout.panel_columns);
  block->runs_end = block->runs;
  for (int64_t i = 0; i < block->num_panels; ++i) {
    const int64_t column = begin + i * layout.panel_columns;
    block->runs_end = list_panel(plan, layout, p, column, std::min(column + layout.panel_columns, end),
                                 i * layout.panel_columns * plan.depth, block->runs_end,
                                 block->pieces + i * layout.panel_pieces, block->panels + i);
  }
}

}  // namespace ortconv::kernels::depth_to_space

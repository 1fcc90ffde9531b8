#include <algorithm>
#include <new>
#include <type_traits>
#include <utility>

#include "base/math.h"
#include "base/ranges.h"
#include "kernels/bf16_split/magnitude.h"
#include "kernels/depth_to_space/layout.h"

namespace ortconv::kernels::depth_to_space {
namespace {

struct Job {
  const Plan& plan;
  const ConvProblem& problem;
  const Layout layout;
  const void* src;
  const void* bias;
  void* dst;
  char* scratch;
  int64_t num_slices;

  // A panel of weights times a block of columns is a work item; their order is group, block, panel.
  int64_t num_items() const { return plan.g * layout.num_blocks * plan.panels.count; }
  Magnitude* largest() const { return reinterpret_cast<Magnitude*>(scratch + layout.largest); }
};

// Where each group of dst begins, and its bias.
template <class T>
void fill_groups(const Job& job) {
  const ConvProblem& p = job.problem;
  const T* bias = static_cast<const T*>(job.bias);
  int64_t* offset = reinterpret_cast<int64_t*>(job.scratch);
  Sum<T>* widened = reinterpret_cast<Sum<T>*>(job.scratch + job.layout.bias);
  for (int64_t oc = 0; oc < p.oc; ++oc) {
    for (int64_t outer = 0; outer < job.plan.outer; ++outer) {
      *offset++ = oc * p.dst_c + offset_of(outer, p.ker, p.dst_x, p.ndims - 1);
      *widened++ = bias == nullptr ? -Sum<T>() : widen(bias[oc]);  // what changes nothing, zeros included
    }
  }
}

// Whether the lines of dst that are written whole fill cache lines.
template <class T>
bool has_whole_lines(const Job& job) {
  constexpr int64_t kLine = 64 / sizeof(T);
  const ConvProblem& p = job.problem;
  int64_t odd = static_cast<int64_t>(reinterpret_cast<uintptr_t>(job.dst) / sizeof(T)) | p.dst_n | p.dst_c;
  for (int a = 0; a < p.ndims; ++a) odd |= a < p.ndims - 1 ? p.dst_x[a] : p.dst_size[a];
  return odd % kLine == 0;
}

template <class T, class Operand>
const Functions<T, Operand>& functions_of(const Plan& plan) {
  if constexpr (std::is_same_v<Operand, BfloatPair>) {
    return *plan.pairs;
  } else {
    return plan.kernel->to<T>();
  }
}

// One thread's part of a run.
template <class T, class Operand>
class Worker {
 public:
  Worker(const Job& job, char* slice);
  void run(int64_t begin, int64_t end) const;  // the work items [begin, end)

 private:
  struct Packed {
    Block block;
    const T* src;
    Operand* cells;
  };

  void list(int64_t item, Packed* packed) const;
  uint32_t pack(const Packed& packed, int64_t begin, int64_t end, int64_t ahead) const;
  void multiply(const Packed& packed, int64_t group, int64_t row_panel) const;

  const Job& job_;
  const Plan& plan_;
  const Layout& layout_;
  const Functions<T, Operand>& functions_;
  const Pieces whole_;  // what panels of whole pieces are
  const Activation* activation_;
  const Operand* weights_;
  Packed blocks_[2];
};

template <class T, class Operand>
Worker<T, Operand>::Worker(const Job& job, char* slice)
    : job_(job),
      plan_(job.plan),
      layout_(job.layout),
      functions_(functions_of<T, Operand>(job.plan)),
      whole_(job.layout.stream && has_whole_lines<T>(job) ? Pieces::kWholeLines : Pieces::kWhole),
      activation_(job.problem.activation.is_identity() ? nullptr : &job.problem.activation),
      weights_(plan_.packed.empty() ? reinterpret_cast<const Operand*>(job.scratch + layout_.packed)
                                    : plan_.packed.template as<const Operand>()) {
  for (int i = 0; i < 2; ++i) {
    blocks_[i].cells = reinterpret_cast<Operand*>(slice + i * layout_.cells_size);
    blocks_[i].block.panels = reinterpret_cast<Panel*>(slice + layout_.slice_panels + i * layout_.panels_size);
    blocks_[i].block.runs = reinterpret_cast<Run*>(slice + layout_.slice_runs + i * layout_.runs_size);
    blocks_[i].block.pieces = reinterpret_cast<Piece*>(slice + layout_.slice_pieces + i * layout_.pieces_size);
  }
}

// The block that the item multiplies.
template <class T, class Operand>
void Worker<T, Operand>::list(int64_t item, Packed* packed) const {
  const int64_t block = item / plan_.panels.count, group = block / layout_.num_blocks;
  packed->src = static_cast<const T*>(job_.src) + group * plan_.ic * job_.problem.src_c;
  list_block(plan_, layout_, job_.problem, block % layout_.num_blocks, &packed->block);
  // Columns that are computed in vain are of zeros: products of what memory held can take a hundred times as long.
  const int64_t last = packed->block.num_panels - 1, columns = packed->block.panels[last].columns;
  Operand* cells = packed->cells + last * layout_.panel_columns * plan_.depth + columns;
  const int64_t in_vain = align_up(columns, layout_.lanes) - columns;
  for (int64_t k = 0; k < plan_.depth; ++k, cells += layout_.panel_columns) std::fill_n(cells, in_vain, Operand());
}

// Of the operands [begin, end); asks for those `ahead` of them. Returns what the kernel does.
template <class T, class Operand>
uint32_t Worker<T, Operand>::pack(const Packed& packed, int64_t begin, int64_t end, int64_t ahead) const {
  constexpr int64_t kEach = kChannels<Operand>;
  const int64_t stride = job_.problem.src_c, first = begin * kEach, last = std::min(end * kEach, plan_.ic);
  return functions_.pack({packed.src + first * stride, last - first, stride, ahead * kEach, packed.block.runs,
                          packed.block.runs_end, packed.cells + begin * layout_.panel_columns, layout_.panel_columns});
}

template <class T, class Operand>
void Worker<T, Operand>::multiply(const Packed& packed, int64_t group, int64_t row_panel) const {
  const int64_t begin = plan_.panels.begin(row_panel), count = plan_.panels.begin(row_panel + 1) - begin;
  const int64_t first = group * plan_.groups() + begin;
  const int64_t* offset = reinterpret_cast<const int64_t*>(job_.scratch) + first;
  const Sum<T>* bias = reinterpret_cast<const Sum<T>*>(job_.scratch + layout_.bias) + first;
  const Operand* weights = weights_ + first * plan_.phases * plan_.depth;
  for (int64_t i = 0; i < packed.block.num_panels; ++i) {
    const Panel& panel = packed.block.panels[i];
    functions_.gemm({plan_.phases, count, panel.columns, plan_.depth, plan_.piece, weights,
                     packed.cells + i * layout_.panel_columns * plan_.depth, static_cast<T*>(job_.dst), offset, bias,
                     activation_, packed.block.pieces + i * layout_.panel_pieces, panel.num_pieces,
                     panel.whole ? whole_ : Pieces::kAny});
  }
}

template <class T, class Operand>
void Worker<T, Operand>::run(int64_t begin, int64_t end) const {
  const int64_t row_panels = plan_.panels.count;
  Packed present = blocks_[0], next = blocks_[1];
  list(begin, &present);
  uint32_t largest = pack(present, 0, plan_.depth, 0);
  for (int64_t item = begin, stop; item < end; item = stop, std::swap(present, next)) {
    stop = std::min((item / row_panels + 1) * row_panels, end);
    const int64_t group = item / row_panels / layout_.num_blocks;
    // The next block is packed bit by bit; what has been asked for arrives while the present one is multiplied.
    const int64_t depth = stop < end ? plan_.depth : 0;
    const auto share = [=](int64_t i) { return depth * (i - item) / (stop - item); };
    if (depth > 0) list(stop, &next);
    for (int64_t i = item; i < stop; ++i) {
      multiply(present, group, i % row_panels);
      if (depth > 0) largest = std::max(largest, pack(next, share(i), share(i + 1), share(item + 1)));
    }
  }
  if (whole_ == Pieces::kWholeLines) plan_.kernel->fence();
  job_.largest()->see(largest);
}

template <class T, class Operand>
void run_slices(const Job& job, const Parallel& parallel) {
  fill_groups<T>(job);
  // Items of one block of columns share what is packed: a quarter of them is worth that.
  const int64_t block_items = job.plan.panels.count;
  Ranges ranges(job.num_items(), block_items, (block_items + 3) / 4, job.num_slices);
  for_each(parallel, job.num_slices, [&](int64_t i) {
    const Worker<T, Operand> worker(job, job.scratch + job.layout.slices + i * job.layout.slice_size);
    for (int64_t begin, end; ranges.take(&begin, &end);) worker.run(begin, end);
  });
}

}  // namespace

size_t scratch_bytes(const Plan& plan, const ConvProblem& full, int threads) {
  const size_t bytes = Layout(plan, full, std::max(threads, 1)).total;
  return plan.in_floats == nullptr ? bytes : std::max(bytes, scratch_bytes(*plan.in_floats, full, threads));
}

void run(const Plan& plan, const ConvProblem& full, const void* src, const void* wei, const void* bias, void* dst,
         void* scratch, const Parallel& parallel) {
  const int threads = std::max(parallel.threads, 1);
  Job job{plan, full, Layout(plan, full, threads), src, bias, dst, static_cast<char*>(scratch), 0};
  job.num_slices = std::min<int64_t>(threads, job.num_items());
  if (plan.packed.empty()) {
    for_each(parallel, plan.g * plan.panels.count, [&](int64_t i) {
      pack_weights(plan, full, wei, i / plan.panels.count, i % plan.panels.count, job.scratch + job.layout.packed);
    });
  }
  auto* largest = new (job.scratch + job.layout.largest) Magnitude;
  plan.with_types([&](auto element, auto operand) { run_slices<decltype(element), decltype(operand)>(job, parallel); });
  if (plan.in_floats != nullptr && !largest->suits_parts()) {
    run(*plan.in_floats, full, src, wei, bias, dst, scratch, parallel);
  }
}

}  // namespace ortconv::kernels::depth_to_space

#include <algorithm>
#include <utility>

#include "kernels/subpixel/layout.h"

namespace ortconv::kernels::subpixel {
namespace {

struct Job {
  const Plan& plan;
  const ConvProblem& problem;
  const Layout layout;
  const void* src;
  const void* wei;
  const void* bias;
  void* dst;
  char* scratch;
  int64_t num_slices;

  // A panel of weights times a block of columns is a work item; their order is group, block, panel.
  int64_t num_items() const { return plan.g * layout.num_blocks * plan.panels.count; }
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
      int64_t at = oc * p.dst_c;
      for (int64_t a = p.ndims - 2, rest = outer; a >= 0; --a) {
        at += rest % p.ker[a] * p.dst_x[a];
        rest /= p.ker[a];
      }
      *offset++ = at;
      *widened++ = bias == nullptr ? -Sum<T>() : widen(bias[oc]);  // what changes nothing, zeros included
    }
  }
}

// Whether the vectors of dst that are written whole lie on lines of their own.
template <class T>
bool has_whole_lines(const Job& job) {
  constexpr int64_t kLine = 64 / sizeof(T);
  const ConvProblem& p = job.problem;
  int64_t odd = static_cast<int64_t>(reinterpret_cast<uintptr_t>(job.dst) / sizeof(T)) | p.dst_n | p.dst_c;
  for (int a = 0; a < p.ndims; ++a) odd |= a < p.ndims - 1 ? p.dst_x[a] : p.dst_size[a];
  return job.layout.lanes == kLine && odd % kLine == 0;
}

// One thread's part of a run.
template <class T>
class Worker {
 public:
  Worker(const Job& job, char* slice);
  void run(int64_t begin, int64_t end) const;  // the work items [begin, end)

 private:
  struct Packed {
    Block block;
    const T* src;
    Sum<T>* cells;
  };

  void list(int64_t item, Packed* packed) const;
  void pack(const Packed& packed, int64_t begin, int64_t end, int64_t ahead) const;
  void multiply(const Packed& packed, int64_t group, int64_t row_panel) const;

  const Job& job_;
  const Plan& plan_;
  const Layout& layout_;
  const Functions<T>& functions_;
  const Pieces whole_;  // what panels of whole pieces are
  const Activation* activation_;
  const Sum<T>* weights_;
  Packed blocks_[2];
};

template <class T>
Worker<T>::Worker(const Job& job, char* slice)
    : job_(job),
      plan_(job.plan),
      layout_(job.layout),
      functions_(job.plan.kernel->to<T>()),
      whole_(job.layout.stream && has_whole_lines<T>(job) ? Pieces::kWholeLines : Pieces::kWhole),
      activation_(job.problem.activation.is_identity() ? nullptr : &job.problem.activation),
      weights_(plan_.packed.empty() ? reinterpret_cast<const Sum<T>*>(job.scratch + layout_.packed)
                                    : plan_.packed.template as<const Sum<T>>()) {
  for (int i = 0; i < 2; ++i) {
    blocks_[i].cells = reinterpret_cast<Sum<T>*>(slice + i * layout_.cells_size);
    blocks_[i].block.panels = reinterpret_cast<Panel*>(slice + layout_.slice_panels + i * layout_.panels_size);
    blocks_[i].block.runs = reinterpret_cast<Run*>(slice + layout_.slice_runs + i * layout_.runs_size);
    blocks_[i].block.pieces = reinterpret_cast<Piece*>(slice + layout_.slice_pieces + i * layout_.pieces_size);
  }
}

// The block that the item multiplies.
template <class T>
void Worker<T>::list(int64_t item, Packed* packed) const {
  const int64_t block = item / plan_.panels.count, group = block / layout_.num_blocks;
  packed->src = static_cast<const T*>(job_.src) + group * plan_.ic * job_.problem.src_c;
  list_block(plan_, layout_, job_.problem, block % layout_.num_blocks, &packed->block);
}

// Of the channels [begin, end); asks for those `ahead` of them.
template <class T>
void Worker<T>::pack(const Packed& packed, int64_t begin, int64_t end, int64_t ahead) const {
  const int64_t stride = job_.problem.src_c;
  functions_.pack({packed.src + begin * stride, end - begin, stride, ahead, packed.block.runs, packed.block.runs_end,
                   packed.cells + begin * layout_.panel_columns, layout_.panel_columns});
}

template <class T>
void Worker<T>::multiply(const Packed& packed, int64_t group, int64_t row_panel) const {
  const int64_t begin = plan_.panels.begin(row_panel), count = plan_.panels.begin(row_panel + 1) - begin;
  const int64_t first = group * plan_.groups() + begin;
  const int64_t* offset = reinterpret_cast<const int64_t*>(job_.scratch) + first;
  const Sum<T>* bias = reinterpret_cast<const Sum<T>*>(job_.scratch + layout_.bias) + first;
  const Sum<T>* weights = weights_ + first * plan_.phases * plan_.ic;
  for (int64_t i = 0; i < packed.block.num_panels; ++i) {
    const Panel& panel = packed.block.panels[i];
    functions_.gemm({plan_.phases, count, panel.columns, plan_.ic, plan_.piece, weights,
                     packed.cells + i * layout_.panel_columns * plan_.ic, static_cast<T*>(job_.dst), offset, bias,
                     activation_, packed.block.pieces + i * layout_.panel_pieces, panel.whole ? whole_ : Pieces::kAny});
  }
}

template <class T>
void Worker<T>::run(int64_t begin, int64_t end) const {
  const int64_t row_panels = plan_.panels.count;
  Packed present = blocks_[0], next = blocks_[1];
  list(begin, &present);
  pack(present, 0, plan_.ic, 0);
  for (int64_t item = begin, stop; item < end; item = stop, std::swap(present, next)) {
    stop = std::min((item / row_panels + 1) * row_panels, end);
    const int64_t group = item / row_panels / layout_.num_blocks;
    // The next block is packed bit by bit; what has been asked for arrives while the present one is multiplied.
    const int64_t channels = stop < end ? plan_.ic : 0;
    const auto share = [=](int64_t i) { return channels * (i - item) / (stop - item); };
    if (channels > 0) list(stop, &next);
    for (int64_t i = item; i < stop; ++i) {
      multiply(present, group, i % row_panels);
      if (channels > 0) pack(next, share(i), share(i + 1), share(item + 1));
    }
  }
  if (whole_ == Pieces::kWholeLines) plan_.kernel->fence();
}

template <class T>
void run_slices(Job& job, const Parallel& parallel) {
  fill_groups<T>(job);
  parallel.run(
      parallel.context, job.num_slices,
      [](void* arg, int64_t i) {
        const Job& j = *static_cast<const Job*>(arg);
        const int64_t items = j.num_items();
        Worker<T>(j, j.scratch + j.layout.slices + i * j.layout.slice_size)
            .run(items * i / j.num_slices, items * (i + 1) / j.num_slices);
      },
      &job);
}

}  // namespace

size_t scratch_bytes(const Plan& plan, const ConvProblem& full, int threads) {
  return Layout(plan, full, std::max(threads, 1)).total;
}

void run(const Plan& plan, const ConvProblem& full, const void* src, const void* wei, const void* bias, void* dst,
         void* scratch, const Parallel& parallel) {
  const int threads = std::max(parallel.threads, 1);
  Job job{plan, full, Layout(plan, full, threads), src, wei, bias, dst, static_cast<char*>(scratch), 0};
  job.num_slices = std::min<int64_t>(threads, job.num_items());
  if (plan.packed.empty()) {
    parallel.run(
        parallel.context, plan.g * plan.panels.count,
        [](void* arg, int64_t i) {
          const Job& j = *static_cast<const Job*>(arg);
          pack_weights(j.plan, j.problem, j.wei, i / j.plan.panels.count, i % j.plan.panels.count,
                       j.scratch + j.layout.packed);
        },
        &job);
  }
  with_float_type(plan.dtype, [&](auto zero) { run_slices<decltype(zero)>(job, parallel); });
}

}  // namespace ortconv::kernels::subpixel

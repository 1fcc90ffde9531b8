#include "kernels/conv_transpose/columns.h"

#include <algorithm>

namespace ortconv::kernels {
namespace {

constexpr int64_t kItemColumns = 1024;  // columns of one work item, so that its buffer stays in L1 or L2

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
size_t align64(int64_t floats) { return (static_cast<size_t>(floats) * sizeof(float) + 63) & ~size_t{63}; }

int64_t src_positions(const Plan& plan, const ConvProblem& p) {
  int64_t positions = 1;
  for (int a = 0; a < plan.ndims; ++a) positions *= p.src_size[a];
  return positions;
}

bool is_contiguous(const Plan& plan, const ConvProblem& p) {
  int64_t stride = 1;
  for (int a = plan.ndims - 1; a >= 0; --a) {
    if (p.wei_x[a] != stride) return false;
    stride *= p.ker[a];
  }
  return p.wei_1 == stride && p.wei_0 == stride * plan.oc;
}

// Taps of one row of the kernel that fall into dst, for one src position.
struct TapRow {
  int64_t tap, count;
  int64_t dst;  // of the first of them
};

// A work item is a range of dst channels of one group.
struct Layout {
  int64_t rows;  // src positions of the batch
  Panels panels;
  int64_t item_oc, items_per_group;
  // Byte offsets into the scratch: src as the A operand, then one slice per thread.
  size_t slices, slice_size;
  // Inside a slice, which begins with the columns.
  size_t slice_tail, slice_tap_rows;

  Layout(const Plan& plan, const ConvProblem& p, int threads)
      : rows(p.mb * src_positions(plan, p)), panels(rows, plan.mr) {
    const int64_t wanted = threads > 1 ? ceil_div(4 * threads, plan.g) : 1;
    const int64_t most = std::max<int64_t>(1, kItemColumns / plan.num_taps);
    item_oc = std::min({most, plan.oc, std::max<int64_t>(1, plan.oc / wanted)});
    items_per_group = ceil_div(plan.oc, item_oc);
    slices = align64(plan.g * plan.ic * rows);
    const int64_t columns = ceil_div(item_oc * plan.num_taps, kGemmColumns) * kGemmColumns;
    slice_tail = align64(columns * std::min(rows, plan.mr));
    slice_tap_rows = slice_tail + align64(plan.ic * kGemmColumns);
    const int64_t tap_rows = plan.num_taps / plan.axis[plan.ndims - 1].ker;
    slice_size = slice_tap_rows + align64(ceil_div(tap_rows * static_cast<int64_t>(sizeof(TapRow)), sizeof(float)));
  }
};

struct Run {
  const Plan& plan;
  const ConvProblem& problem;
  const Layout layout;
  const float* src;
  const float* wei;
  const float* bias;
  float* dst;
  char* scratch;
  int64_t num_slices;
};

// The index of each axis and the image of src position `row`.
struct Position {
  int64_t image, at[kMaxSpatial];

  Position(const Plan& plan, const ConvProblem& p, int64_t row) {
    for (int a = plan.ndims - 1; a >= 0; --a) {
      at[a] = row % p.src_size[a];
      row /= p.src_size[a];
    }
    image = row;
  }
};

// The A operand of a group: [panel][src channel][row].
float* packed_src(const Run& run, int64_t group) {
  return reinterpret_cast<float*>(run.scratch) + group * run.plan.ic * run.layout.rows;
}

void pack_src(const Run& run, int64_t group) {
  const Plan& plan = run.plan;
  const ConvProblem& p = run.problem;
  const Panels& panels = run.layout.panels;
  float* out = packed_src(run, group);
  for (int64_t panel = 0; panel < panels.count; ++panel) {
    const int64_t begin = panels.begin(panel), rows = panels.begin(panel + 1) - begin;
    for (int64_t r = 0; r < rows; ++r) {
      const Position x(plan, p, begin + r);
      const float* in = run.src + x.image * p.src_n + group * plan.ic * p.src_c;
      for (int a = 0; a < plan.ndims; ++a) in += x.at[a] * p.src_x[a];
      for (int64_t c = 0; c < plan.ic; ++c) out[c * rows + r] = in[c * p.src_c];
    }
    out += rows * plan.ic;
  }
}

int64_t list_tap_rows(const Plan& plan, const ConvProblem& p, const Position& x, TapRow* tap_rows) {
  const int last = plan.ndims - 1;
  const int64_t ker = p.ker[last];
  const int64_t first = x.at[last] * p.stride[last] - p.pad[last];  // dst position of tap 0
  const int64_t begin = std::min(ker, first >= 0 ? 0 : ceil_div(-first, p.dilation[last]));
  const int64_t room = p.dst_size[last] - first;
  const int64_t end = room <= 0 ? 0 : std::min(ker, ceil_div(room, p.dilation[last]));
  int64_t count = 0;
  if (begin >= end) return count;
  for (int64_t tap = 0; tap < plan.num_taps; tap += ker) {
    int64_t at = x.image * p.dst_n + (first + begin * p.dilation[last]) * p.dst_x[last];
    bool inside = true;
    for (int64_t a = last - 1, rest = tap / ker; a >= 0; --a) {
      const int64_t y = x.at[a] * p.stride[a] - p.pad[a] + rest % p.ker[a] * p.dilation[a];
      inside &= y >= 0 && y < p.dst_size[a];
      at += y * p.dst_x[a];
      rest /= p.ker[a];
    }
    if (inside) tap_rows[count++] = {tap + begin, end - begin, at};
  }
  return count;
}

// Fills dst channels [begin, end) of all images with the bias.
void fill_bias(const Run& run, int64_t begin, int64_t end) {
  const ConvProblem& p = run.problem;
  const int last = run.plan.ndims - 1;
  int64_t lines = 1;
  for (int a = 0; a < last; ++a) lines *= p.dst_size[a];
  for (int64_t n = 0; n < p.mb; ++n) {
    for (int64_t line = 0; line < lines; ++line) {
      float* out = run.dst + n * p.dst_n;
      for (int64_t a = last - 1, rest = line; a >= 0; --a) {
        out += rest % p.dst_size[a] * p.dst_x[a];
        rest /= p.dst_size[a];
      }
      for (int64_t oc = begin; oc < end; ++oc) {
        const float b = run.bias == nullptr ? 0.0f : run.bias[oc];
        float* row = out + oc * p.dst_c;
        if (p.dst_x[last] == 1) {
          std::fill_n(row, p.dst_size[last], b);
        } else {
          for (int64_t y = 0; y < p.dst_size[last]; ++y) row[y * p.dst_x[last]] = b;
        }
      }
    }
  }
}

void add_columns(const Run& run, const TapRow* tap_rows, int64_t count, const float* columns, int64_t oc_begin,
                 int64_t oc_count) {
  const ConvProblem& p = run.problem;
  const int last = run.plan.ndims - 1;
  const int64_t step = p.dilation[last] * p.dst_x[last];
  for (int64_t oc = 0; oc < oc_count; ++oc, columns += run.plan.num_taps) {
    float* dst = run.dst + (oc_begin + oc) * p.dst_c;
    for (const TapRow* t = tap_rows; t != tap_rows + count; ++t) {
      float* out = dst + t->dst;
      const float* in = columns + t->tap;
      for (int64_t k = 0; k < t->count; ++k) out[k * step] += in[k];
    }
  }
}

void run_item(const Run& run, char* slice, int64_t item) {
  const Plan& plan = run.plan;
  const ConvProblem& p = run.problem;
  const Layout& layout = run.layout;
  const int64_t group = item / layout.items_per_group;
  const int64_t oc = item % layout.items_per_group * layout.item_oc;
  const int64_t oc_count = std::min(layout.item_oc, plan.oc - oc);
  const int64_t columns = oc_count * plan.num_taps;
  const int64_t whole = columns / kGemmColumns * kGemmColumns, tail = columns - whole;
  const int64_t pitch = ceil_div(columns, kGemmColumns) * kGemmColumns;
  float* buffer = reinterpret_cast<float*>(slice);
  float* tail_wei = reinterpret_cast<float*>(slice + layout.slice_tail);
  TapRow* tap_rows = reinterpret_cast<TapRow*>(slice + layout.slice_tap_rows);
  const float* wei = run.wei + group * plan.ic * p.wei_0 + oc * p.wei_1;
  // A vector over the end of the weights would read what is not theirs.
  for (int64_t c = 0; c < plan.ic && tail > 0; ++c) {
    float* out = tail_wei + c * kGemmColumns;
    std::copy_n(wei + c * p.wei_0 + whole, tail, out);
    std::fill(out + tail, out + kGemmColumns, 0.0f);
  }
  const int64_t oc_begin = group * plan.oc + oc;
  fill_bias(run, oc_begin, oc_begin + oc_count);
  const float* a = packed_src(run, group);
  const GemmKernel& gemm = plan.gemm_kernel<float>();
  const int64_t no_offset = 0;
  for (int64_t panel = 0; panel < layout.panels.count; ++panel) {
    const int64_t begin = layout.panels.begin(panel), rows = layout.panels.begin(panel + 1) - begin;
    float* c[kMaxRows];
    for (int64_t r = 0; r < rows; ++r) c[r] = buffer + r * pitch;
    if (whole > 0) gemm.run({rows, whole, 1, plan.ic, a, wei, &no_offset, p.wei_0, c, false});
    if (tail > 0) {
      for (int64_t r = 0; r < rows; ++r) c[r] += whole;
      gemm.run({rows, kGemmColumns, 1, plan.ic, a, tail_wei, &no_offset, kGemmColumns, c, false});
    }
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t count = list_tap_rows(plan, p, Position(plan, p, begin + r), tap_rows);
      add_columns(run, tap_rows, count, buffer + r * pitch, oc_begin, oc_count);
    }
    a += rows * plan.ic;
  }
}

}  // namespace

bool prefers_columns(const Plan& plan, const ConvProblem& p) {
  constexpr double kAddCost = 70;  // of adding one column element, in products
  constexpr double kLeastGain = 1.4;
  if (!plan.may_use_columns || plan.op != Op::kConvTranspose || plan.dtype != DataType::kFloat ||
      !is_contiguous(plan, p))
    return false;
  double phased = static_cast<double>(p.mb), rows = phased;
  for (int a = 0; a < plan.ndims; ++a) {
    if (p.src_size[a] == 0 || p.dst_size[a] == 0) return false;
    phased *= static_cast<double>((p.dst_size[a] + p.stride[a] - 1) / p.stride[a]);
    rows *= static_cast<double>(p.src_size[a]);
  }
  const double gain = std::max(phased, static_cast<double>(kGemmColumns)) / std::max(rows, 2.0);
  return p.mb > 0 && gain > kLeastGain && static_cast<double>(plan.ic) * (gain - 1) > kAddCost;
}

size_t columns_scratch_bytes(const Plan& plan, const ConvProblem& problem, int threads) {
  const Layout layout(plan, problem, threads);
  return layout.slices + static_cast<size_t>(threads) * layout.slice_size;
}

void run_columns(const Plan& plan, const ConvProblem& problem, const float* src, const float* wei, const float* bias,
                 float* dst, void* scratch, const Parallel& parallel) {
  const int threads = std::max(parallel.threads, 1);
  Run run{plan, problem, Layout(plan, problem, threads), src, wei, bias, dst, static_cast<char*>(scratch), 0};
  run.num_slices = std::min<int64_t>(threads, plan.g * run.layout.items_per_group);
  parallel.run(
      parallel.context, plan.g, [](void* arg, int64_t group) { pack_src(*static_cast<const Run*>(arg), group); }, &run);
  parallel.run(
      parallel.context, run.num_slices,
      [](void* arg, int64_t i) {
        const Run& r = *static_cast<const Run*>(arg);
        const int64_t items = r.plan.g * r.layout.items_per_group;
        char* slice = r.scratch + r.layout.slices + i * r.layout.slice_size;
        for (int64_t item = items * i / r.num_slices; item < items * (i + 1) / r.num_slices; ++item) {
          run_item(r, slice, item);
        }
      },
      &run);
}

}  // namespace ortconv::kernels

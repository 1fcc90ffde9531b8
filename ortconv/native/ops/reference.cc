#include "ops/reference.h"

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "base/math.h"
#include "base/parallel.h"

namespace ortconv::reference {
namespace {

// Outputs of one row that are summed at once, on the stack.
constexpr int64_t kTile = 128;

// Unsigned stand-ins of the accumulation types, so that integer sums wrap by definition; the bits are the same.
template <class T>
using Accumulator = std::conditional_t<
    std::is_same_v<T, double>, double,
    std::conditional_t<std::is_integral_v<T>, std::conditional_t<(sizeof(T) < 8), uint32_t, uint64_t>, float>>;

template <class T>
Accumulator<T> load(T value) {
  if constexpr (std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16>) {
    return to_float(value);
  } else {
    return static_cast<Accumulator<T>>(value);  // sign-extends signed integers
  }
}

template <class T>
T store(Accumulator<T> sum) {
  if constexpr (std::is_same_v<T, Float16>) {
    return to_float16(sum);
  } else if constexpr (std::is_same_v<T, Bfloat16>) {
    return to_bfloat16(sum);
  } else {
    return static_cast<T>(sum);  // keeps the low bits of integers
  }
}

// How the work and the packed weights are split.
struct Split {
  int64_t icg, ocg;       // channels of a group
  int64_t block, blocks;  // output channels computed together, and how many such blocks a group has
  int64_t taps = 0;       // of the whole kernel; none when there is nothing to sum

  explicit Split(const ConvProblem& p) : icg(p.ic / p.g), ocg(p.oc / p.g) {
    block = ocg >= 12 ? 16 : ocg >= 3 ? 4 : 1;
    blocks = ceil_div(ocg, block);
    if (icg == 0) return;  // the weights are empty, so the product of their sizes might not fit
    taps = product_of(p.ker, p.ndims);
  }
};

// Where one kernel tap of one axis takes its inputs: output y_first + i * y_step reads input x_first + i * x_step for
// i in [0, count). With count 1 the steps are 0, so that multiplying them by a memory stride cannot overflow.
struct TapRun {
  int64_t count, x_first, x_step, y_first, y_step;
};

// The outputs of axis `axis` in [y_begin, y_end) that tap `k` contributes to.
TapRun tap_run(const ConvProblem& p, kernels::Op op, int axis, int64_t k, int64_t y_begin, int64_t y_end) {
  const int64_t s = p.stride[axis], size = p.src_size[axis], offset = k * p.dilation[axis] - p.pad[axis];
  TapRun run;
  if (op == kernels::Op::kConvTranspose) {  // y = x * s + offset
    const int64_t begin = std::max<int64_t>(ceil_div(y_begin - offset, s), 0);
    const int64_t end = std::min(ceil_div(y_end - offset, s), size);
    run = {end - begin, begin, 1, begin * s + offset, s};
  } else {  // x = y * s + offset
    const int64_t begin = std::max(ceil_div(-offset, s), y_begin);
    const int64_t end = std::min(ceil_div(size - offset, s), y_end);
    run = {end - begin, begin * s + offset, s, begin, 1};
  }
  if (run.count == 1) run.x_step = run.y_step = 0;
  return run;
}

// sums[i * step][o] += values[i] * weights[o] for i in [0, count), count > 0, and the kBlock channels o.
template <int kBlock, class Acc>
void multiply_add(Acc* sums, int64_t step, const Acc* values, int64_t count, const Acc* weights) {
  if (kBlock == 1 && step == 1) {
    for (int64_t i = 0; i < count; ++i) sums[i] += values[i] * weights[0];
    return;
  }
  Acc w[kBlock];  // a copy, so that the compiler need not fear that `sums` changes it
  std::copy_n(weights, kBlock, w);
  // Steps a pointer instead of an index: GCC makes a separate, slower loop of index * step for step 1.
  for (int64_t i = 0;; sums += step * kBlock) {
    const Acc value = values[i];
    for (int o = 0; o < kBlock; ++o) sums[o] += value * w[o];
    if (++i == count) break;
  }
}

template <class T, int kBlock>
struct Job {
  using Acc = Accumulator<T>;

  const ConvProblem& p;
  const kernels::Op op;
  Split split;
  const T* src;
  const Acc* packed;
  const T* bias;
  T* dst;
  const int last;       // the innermost spatial axis, whose rows are computed in tiles
  const int64_t tiles;  // of a row
  const int64_t rows;   // of one channel
  int64_t outer_taps;   // of the axes but the last

  Job(const ConvProblem& problem, kernels::Op which, const T* src_data, const Acc* packed_data, const T* bias_data,
      T* dst_data)
      : p(problem),
        op(which),
        split(problem),
        src(src_data),
        packed(packed_data),
        bias(bias_data),
        dst(dst_data),
        last(problem.ndims - 1),
        tiles(ceil_div(problem.dst_size[last], kTile)),
        rows(product_of(problem.dst_size, last)) {
    if (packed == nullptr) split.taps = 0;
    outer_taps = split.taps / p.ker[last];
  }

  int64_t items() const { return p.mb * p.g * split.blocks * rows * tiles; }

  // The src offset of the row that the outer taps numbered `tap` read for output row y; -1 when there is none.
  int64_t source_row(int64_t tap, const int64_t* y) const {
    int64_t offset = 0;
    for (int i = last - 1; i >= 0; --i) {
      const int64_t k = tap % p.ker[i];
      tap /= p.ker[i];
      const TapRun run = tap_run(p, op, i, k, y[i], y[i] + 1);
      if (run.count < 1) return -1;
      offset += run.x_first * p.src_x[i];
    }
    return offset;
  }

  // One tile of one output row for one block of channels.
  void compute(int64_t item) const {
    const int64_t y_begin = item % tiles * kTile, y_end = std::min(y_begin + kTile, p.dst_size[last]);
    item /= tiles;
    int64_t y[kMaxSpatial];
    int64_t dst_offset = y_begin * p.dst_x[last];
    for (int i = last - 1; i >= 0; --i) {
      y[i] = item % p.dst_size[i];
      item /= p.dst_size[i];
      dst_offset += y[i] * p.dst_x[i];
    }
    const int64_t block = item % split.blocks;
    item /= split.blocks;
    const int64_t group = item % p.g, n = item / p.g;

    const int64_t oc_first = group * split.ocg + block * kBlock;
    const int64_t channels = std::min<int64_t>(kBlock, split.ocg - block * kBlock);
    Acc start[kBlock] = {};
    for (int64_t o = 0; bias != nullptr && o < channels; ++o) start[o] = load(bias[oc_first + o]);
    Acc sums[kTile * kBlock];
    for (int64_t i = 0; i < y_end - y_begin; ++i) std::copy_n(start, kBlock, sums + i * kBlock);

    const T* source = src + n * p.src_n + group * split.icg * p.src_c;
    const Acc* weights = packed + (group * split.blocks + block) * split.taps * split.icg * kBlock;
    for (int64_t tap = 0; tap < outer_taps; ++tap) {
      const int64_t row = source_row(tap, y);
      if (row < 0) continue;
      for (int64_t k = 0; k < p.ker[last]; ++k) {
        const TapRun run = tap_run(p, op, last, k, y_begin, y_end);
        if (run.count < 1) continue;
        add_tap(run, source + row + run.x_first * p.src_x[last], weights + (tap * p.ker[last] + k) * split.icg * kBlock,
                sums + (run.y_first - y_begin) * kBlock);
      }
    }

    T* out = dst + n * p.dst_n + oc_first * p.dst_c + dst_offset;
    for (int64_t i = 0; i < y_end - y_begin; ++i) {
      for (int64_t o = 0; o < channels; ++o) out[i * p.dst_x[last] + o * p.dst_c] = store<T>(sums[i * kBlock + o]);
    }
  }

  // Adds one tap of the kernel, all input channels of the group, to a tile.
  void add_tap(const TapRun& run, const T* source, const Acc* weights, Acc* sums) const {
    const int64_t step = run.x_step * p.src_x[last];
    Acc values[kTile];
    for (int64_t c = 0; c < split.icg; ++c) {
      const T* channel = source + c * p.src_c;
      if (step == 1) {
        for (int64_t i = 0; i < run.count; ++i) values[i] = load(channel[i]);
      } else {
        for (int64_t i = 0; i < run.count; ++i) values[i] = load(channel[i * step]);
      }
      multiply_add<kBlock>(sums, run.y_step, values, run.count, weights + c * kBlock);
    }
  }
};

template <class T, int kBlock>
void run_blocks(const ConvProblem& p, kernels::Op op, const void* src, const void* packed, const void* bias, void* dst,
                const Parallel& parallel) {
  const Job<T, kBlock> job(p, op, static_cast<const T*>(src), static_cast<const Accumulator<T>*>(packed),
                           static_cast<const T*>(bias), static_cast<T*>(dst));
  for_each(parallel, job.items(), [&job](int64_t item) { job.compute(item); });
}

template <class T>
void pack(kernels::Op op, const ConvProblem& p, const T* wei, Accumulator<T>* packed, const Parallel& parallel) {
  const Split split(p);
  const int64_t ic_stride = op == kernels::Op::kConvTranspose ? p.wei_0 : p.wei_1;
  const int64_t oc_stride = op == kernels::Op::kConvTranspose ? p.wei_1 : p.wei_0;
  // Only one of the two logical axes runs over all groups.
  const int64_t group_stride = p.wei_0 * (op == kernels::Op::kConvTranspose ? split.icg : split.ocg);

  for_each(parallel, p.g * split.blocks * split.taps, [&](int64_t item) {
    Accumulator<T>* out = packed + item * split.icg * split.block;
    const int64_t block = item / split.taps % split.blocks, group = item / split.taps / split.blocks;
    const T* in = wei + group * group_stride + block * split.block * oc_stride +
                  offset_of(item % split.taps, p.ker, p.wei_x, p.ndims);
    const int64_t channels = std::min(split.block, split.ocg - block * split.block);
    for (int64_t c = 0; c < split.icg; ++c, out += split.block) {
      for (int64_t o = 0; o < channels; ++o) out[o] = load(in[c * ic_stride + o * oc_stride]);
      std::fill(out + channels, out + split.block, Accumulator<T>());
    }
  });
}

}  // namespace

size_t packed_bytes(DataType dtype, const ConvProblem& p) {
  const Split split(p);
  const int64_t count = p.g * split.blocks * split.taps * split.icg * split.block;
  return with_type(dtype, [count](auto zero) { return static_cast<size_t>(count) * sizeof(load(zero)); });
}

void pack_weights(DataType dtype, kernels::Op op, const ConvProblem& p, const void* wei, void* packed,
                  const Parallel& parallel) {
  with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    pack(op, p, static_cast<const T*>(wei), static_cast<Accumulator<T>*>(packed), parallel);
  });
}

void run(DataType dtype, kernels::Op op, const ConvProblem& p, const void* src, const void* packed, const void* bias,
         void* dst, const Parallel& parallel) {
  const int64_t block = Split(p).block;
  with_type(dtype, [&](auto zero) {
    using T = decltype(zero);
    const auto blocks = block == 16 ? run_blocks<T, 16> : block == 4 ? run_blocks<T, 4> : run_blocks<T, 1>;
    blocks(p, op, src, packed, bias, dst, parallel);
  });
}

}  // namespace ortconv::reference

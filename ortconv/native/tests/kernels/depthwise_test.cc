// Every depthwise kernel this CPU has, in every type it stores: all row counts and lengths, with and without picks,
// patterns, rows without weights and complete boxes of taps, against a naive sum. Numbers are small integers, so every
// sum is exact.
#include "kernels/depthwise/depthwise.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

using namespace ortconv;
using namespace ortconv::kernels;

namespace {

int failures = 0, checked = 0;

struct Shape {
  int64_t positions, src_rows, dst_rows, steps, patterns, n;
  bool picks, complete, stream;
};

template <class T>
void check(const DepthwiseKernel& kernel, const Shape& s, int64_t lanes) {
  using Cell = Sum<T>;
  std::mt19937 random(5);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const int64_t stride = s.picks ? lanes / 2 : lanes, vectors = (s.n + lanes - 1) / lanes;
  const int64_t count = s.steps * s.patterns, length = (vectors + 2) * stride + 2 * lanes + 9;
  std::vector<Cell> src((s.src_rows * s.positions + s.src_rows) * length),
      weights(s.src_rows * s.dst_rows * count * lanes);
  for (Cell& x : src) x = static_cast<Cell>(draw(-4, 4));
  for (Cell& x : weights) x = static_cast<Cell>(draw(-4, 4));
  std::vector<int64_t> offset(count);
  std::vector<int32_t> index(count * lanes);
  for (int64_t& x : offset) x = draw(0, 8);
  for (size_t i = 0; i < index.size(); ++i) {
    const bool repeats = s.complete && i >= static_cast<size_t>(s.patterns * lanes);
    index[i] = repeats ? index[i - s.patterns * lanes] : draw(s.complete ? 0 : -1, static_cast<int>(lanes) - 1);
  }
  std::vector<const Cell*> src_rows, taps(s.src_rows * s.dst_rows);
  std::vector<const Cell* const*> rows;
  for (int64_t r = 0; r < s.src_rows; ++r) {
    // Positions of a complete box share rows.
    src_rows.push_back(src.data() + (s.complete ? s.src_rows - 1 - r : r * s.positions) * length);
    for (int64_t c = 0; c < s.dst_rows; ++c) {
      const int64_t at = r * s.dst_rows + c;
      taps[at] = !s.complete && draw(0, 4) == 0 ? nullptr : weights.data() + at * count * lanes;
    }
    rows.push_back(taps.data() + r * s.dst_rows);
  }
  const Cell bias = 3;
  const int64_t pitch = 64 * ((s.n + 63) / 64 + 1);
  constexpr float kUntouched = 77;
  std::vector<T> memory(s.positions * s.dst_rows * pitch + 64);
  for (T& x : memory) round_to(&x, kUntouched);
  T* dst = memory.data();
  while (reinterpret_cast<uintptr_t>(dst) % 64 != 0) ++dst;
  std::vector<T*> dst_rows;
  for (int64_t c = 0; c < s.dst_rows; ++c) dst_rows.push_back(dst + c * pitch);
  kernel.run(DepthwiseArgs<T>{s.positions, length, s.dst_rows * pitch, s.src_rows, src_rows.data(), rows.data(),
                              s.steps, s.patterns, stride, offset.data(), s.picks ? index.data() : nullptr, s.dst_rows,
                              dst_rows.data(), s.n, bias, s.complete, s.stream});
  ++checked;
  for (int64_t p = 0; p < s.positions; ++p) {
    for (int64_t c = 0; c < s.dst_rows; ++c) {
      for (int64_t i = 0; i < pitch; ++i) {
        double want = kUntouched;
        if (i < s.n) {
          want = bias;
          const int64_t v = i / lanes, l = i % lanes;
          for (int64_t r = 0; r < s.src_rows; ++r) {
            if (taps[r * s.dst_rows + c] == nullptr) continue;
            for (int64_t t = 0; t < s.steps; ++t) {
              const int64_t at = t * s.patterns + v % s.patterns;
              const int64_t lane = s.picks ? index[at * lanes + l] : l;
              if (lane < 0) continue;
              want += static_cast<double>(taps[r * s.dst_rows + c][s.picks ? at * lanes + l : at]) *
                      static_cast<double>(src_rows[r][p * length + v / s.patterns * stride + offset[at] + lane]);
            }
          }
          T rounded;
          round_to(&rounded, static_cast<Cell>(want));
          want = static_cast<double>(widen(rounded));
        }
        if (static_cast<double>(widen(dst[(p * s.dst_rows + c) * pitch + i])) != want) {
          ++failures;
          std::printf(
              "FAIL %s: %ld bytes, positions %ld src rows %ld dst rows %ld steps %ld patterns %ld n %ld%s%s%s\n",
              kernel.name, static_cast<long>(sizeof(T)), static_cast<long>(s.positions), static_cast<long>(s.src_rows),
              static_cast<long>(s.dst_rows), static_cast<long>(s.steps), static_cast<long>(s.patterns),
              static_cast<long>(s.n), s.picks ? " picks" : "", s.complete ? " complete" : "",
              s.stream ? " stream" : "");
          return;
        }
      }
    }
  }
}

// Lanes that are channels: rows of dst alone and in twos, rows of src without weights for one of them, all lengths.
template <class Cell>
void check_channel_lanes(const DepthwiseKernel& kernel, int64_t lanes, int64_t positions, int64_t dst_rows,
                         int64_t src_rows, int64_t steps, int64_t dst_step) {
  std::mt19937 random(6);
  const auto draw = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
  const int64_t length = (positions + steps) * lanes;
  std::vector<Cell> src(src_rows * length), weights(src_rows * 2 * steps * lanes), bias(lanes);
  for (std::vector<Cell>* all : {&src, &weights, &bias}) {
    for (Cell& x : *all) x = static_cast<Cell>(draw(-4, 4));
  }
  std::vector<int64_t> src_offset(steps), weight_offset(steps);
  for (int64_t t = 0; t < steps; ++t) {
    src_offset[t] = draw(0, static_cast<int>(steps)) * lanes;
    weight_offset[t] = (steps - 1 - t) * lanes;
  }
  struct Taps {
    const Cell* of[kMaxLaneRows];
  };
  std::vector<const Cell*> rows;
  std::vector<Taps> taps(src_rows);
  for (int64_t r = 0; r < src_rows; ++r) {
    rows.push_back(src.data() + r * length);
    for (int c = 0; c < kMaxLaneRows; ++c) {
      taps[r].of[c] = draw(0, 3) == 0 ? nullptr : weights.data() + (2 * r + c) * steps * lanes;
    }
  }
  constexpr Cell kUntouched = 77;
  const int64_t size = (positions * dst_step + 1) * lanes;
  std::vector<Cell> dst(kMaxLaneRows * size, kUntouched);
  kernel.run(ChannelLanesArgs<Cell>{positions,
                                    dst_step * lanes,
                                    src_rows,
                                    rows.data(),
                                    reinterpret_cast<const Cell* const(*)[kMaxLaneRows]>(taps.data()),
                                    steps,
                                    src_offset.data(),
                                    weight_offset.data(),
                                    bias.data(),
                                    dst_rows,
                                    {dst.data(), dst.data() + size}});
  ++checked;
  for (int64_t i = 0; i < kMaxLaneRows * size; ++i) {
    const int64_t c = i / size, p = i % size / lanes / dst_step, l = i % lanes;
    Cell want = kUntouched;
    if (c < dst_rows && p < positions && i % size / lanes % dst_step == 0) {
      want = bias[l];
      for (int64_t r = 0; r < src_rows; ++r) {
        for (int64_t t = 0; t < steps && taps[r].of[c] != nullptr; ++t) {
          want += taps[r].of[c][weight_offset[t] + l] * rows[r][p * lanes + src_offset[t] + l];
        }
      }
    }
    if (dst[i] == want) continue;
    ++failures;
    std::printf("FAIL %s: channels as lanes, %ld bytes, %ld positions, %ld rows of %ld, %ld steps: [%ld]\n",
                kernel.name, static_cast<long>(sizeof(Cell)), static_cast<long>(positions), static_cast<long>(dst_rows),
                static_cast<long>(src_rows), static_cast<long>(steps), static_cast<long>(i));
    return;
  }
}

// What a lane does not pick does not reach it, even if it is no number.
void picks_nothing_else(const DepthwiseKernel& kernel) {
  const int64_t lanes = kernel.lanes_f32;
  std::vector<float> src(2 * lanes, std::numeric_limits<float>::infinity()), weights(lanes, 2.0f), dst(lanes);
  src[0] = 5;
  std::vector<int32_t> index(lanes, -1);
  index[0] = 0;
  const float* row = src.data();
  const float* taps[] = {weights.data()};
  const float* const* rows[] = {taps};
  const int64_t offset = 0;
  float* to = dst.data();
  kernel.run(
      DepthwiseArgs<float>{1, 0, 0, 1, &row, rows, 1, 1, lanes, &offset, index.data(), 1, &to, lanes, 0, false, false});
  ++checked;
  for (int64_t l = 0; l < lanes; ++l) {
    if (dst[l] == (l == 0 ? 10.0f : 0.0f)) continue;
    ++failures;
    std::printf("FAIL %s: lane %ld of one pick is %g\n", kernel.name, static_cast<long>(l),
                static_cast<double>(dst[l]));
  }
}

// Sums that instructions of bf16 take for zero are rounded like others.
void rounds_subnormals(const DepthwiseKernel& kernel) {
  const int64_t lanes = kernel.lanes_f32;
  const std::vector<float> src(2 * lanes, 0x1.03p-130f);
  const float weight = 1;
  const float* row = src.data();
  const float* taps[] = {&weight};
  const float* const* rows[] = {taps};
  const int64_t offset = 0;
  std::vector<Bfloat16> dst(lanes);
  Bfloat16* to = dst.data();
  kernel.run(
      DepthwiseArgs<Bfloat16>{1, 0, 0, 1, &row, rows, 1, 1, lanes, &offset, nullptr, 1, &to, lanes, 0, false, false});
  ++checked;
  if (widen(dst[0]) == 0x1p-130f && widen(dst[lanes - 1]) == 0x1p-130f) return;
  ++failures;
  std::printf("FAIL %s: %a becomes %a\n", kernel.name, src[0], widen(dst[0]));
}

void check_types(const DepthwiseKernel& kernel, const Shape& s) {
  check<float>(kernel, s, kernel.lanes_f32);
  check<Float16>(kernel, s, kernel.lanes_f32);
  check<Bfloat16>(kernel, s, kernel.lanes_f32);
  check<double>(kernel, s, kernel.lanes_f64);
}

void check_all(const DepthwiseKernel& kernel) {
  for (const int64_t dst_rows : {1, 2, 3, 4, 8}) {
    for (const int64_t n : {1, 2, 5, 8, 15, 16, 17, 40, 64, 96, 133, 160, 272}) {
      for (const int64_t patterns : {1, 3}) {
        for (const bool picks : {false, true}) {
          if (!picks && patterns > 1) continue;
          const bool stream = n % 64 == 0;
          for (const int64_t src_rows : {0, 1, 3}) {
            check_types(kernel, {1 + n % 7, src_rows, dst_rows, 1 + n % 2, patterns, n, picks, false, stream});
          }
          for (const int64_t box : {1, 2, 3}) {
            check_types(kernel, {1 + n % 15, box, dst_rows, box, patterns, n, picks, true, stream});
          }
        }
      }
    }
  }
  for (int64_t positions = 1; positions < 44; ++positions) {
    for (const int64_t dst_rows : {1, 2}) {
      for (const int64_t src_rows : {0, 1, 5}) {
        const int64_t steps = positions % 4, dst_step = 1 + positions % 3;
        check_channel_lanes<float>(kernel, kernel.lanes_f32, positions, dst_rows, src_rows, steps, dst_step);
        check_channel_lanes<double>(kernel, kernel.lanes_f64, positions, dst_rows, src_rows, steps, dst_step);
      }
    }
  }
  picks_nothing_else(kernel);
  rounds_subnormals(kernel);
  std::printf("%s\n", kernel.name);
}

}  // namespace

int main() {
  const ArchFlags& host = ArchFlags::host();
  ArchFlags avx2, avx512;
  avx2.avx2_fma = avx512.avx2_fma = host.avx2_fma;
  avx512.avx512 = host.avx512;
  const DepthwiseKernel* seen = nullptr;
  for (const ArchFlags& arch : {ArchFlags{}, avx2, avx512, host}) {
    const DepthwiseKernel& kernel = get_depthwise_kernel(arch);
    if (&kernel != seen) check_all(kernel);
    seen = &kernel;
  }
  if (!host.avx2_fma) std::printf("SKIP avx2: this CPU lacks AVX2 or FMA\n");
  if (!host.avx512) std::printf("SKIP avx512: this CPU lacks AVX-512\n");
  std::printf("%d runs, %d failures\n", checked, failures);
  return failures == 0 ? 0 : 1;
}

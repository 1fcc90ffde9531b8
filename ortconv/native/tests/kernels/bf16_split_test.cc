// Every kernel for numbers in parts that this CPU has: splitting is exact, products are as good as those of floats.
#include "kernels/bf16_split/bf16_split.h"

#include <cmath>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

#include "kernels/element.h"

using namespace ortconv;
using namespace ortconv::kernels;

namespace {

int failures = 0, checked = 0;
double squares = 0, squares_of_floats = 0;  // of errors

template <class T>
struct Aligned {
  explicit Aligned(size_t count) : raw(count + 64 / sizeof(T)), data(raw.data()) {
    while (reinterpret_cast<uintptr_t>(data) % 64 != 0) ++data;
  }
  std::vector<T> raw;
  T* data;
};

float value_of(uint16_t bits) { return float_of(static_cast<uint32_t>(bits) << 16); }

void fail(const char* what, const std::vector<int64_t>& sizes) {
  ++failures;
  std::printf("FAIL %s", what);
  for (int64_t n : sizes) std::printf(" %ld", static_cast<long>(n));
  std::printf("\n");
}

std::vector<float> random_floats(int64_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> v(count);
  for (float& x : v) x = normal(random);
  return v;
}

template <class T>
T from_float(float value);
template <>
float from_float(float value) {
  return value;
}
template <>
Float16 from_float(float value) {
  return to_float16(value);
}
template <>
Bfloat16 from_float(float value) {
  return to_bfloat16(value);
}

template <class T>
std::vector<T> random_numbers(int64_t count, unsigned seed) {
  std::vector<T> v;
  for (const float x : random_floats(count, seed)) v.push_back(from_float<T>(x));
  return v;
}

template <class T>
void check_split(const Bf16SplitKernel& kernel, int64_t channels, int64_t cells, int64_t channel_stride,
                 int64_t cell_stride) {
  constexpr int64_t kParts = kNumParts<T>;
  const std::vector<int64_t> sizes = {kParts, channels, cells, channel_stride, cell_stride};
  std::vector<T> src =
      random_numbers<T>((channels - 1) * channel_stride + (cells - 1) * cell_stride + 1, static_cast<unsigned>(cells));
  src[0] = from_float<T>(-0x1.fffffep7f), src[src.size() - 1] = from_float<T>(0x1.fefffep-3f);
  src[src.size() / 2] = from_float<T>(0x1.010101p-9f);
  const int64_t part_stride = (cells + 1) * kPartChannels;
  Aligned<uint16_t> out(kParts * part_stride);
  std::fill_n(out.data, kParts * part_stride, uint16_t{0x7fff});
  const uint32_t found =
      kernel.split(SplitArgs<T>{src.data(), channels, channel_stride, cells, cell_stride, out.data, part_stride});
  ++checked;
  float largest = 0;
  for (int64_t x = 0; x <= cells; ++x) {
    for (int64_t i = 0; i < kPartChannels; ++i) {
      const int64_t channel = part_channel(i);
      const bool there = channel < channels && x < cells;
      const float want = there ? widen(src[channel * channel_stride + x * cell_stride]) : 0.0f;
      uint16_t parts[kParts];
      split_number(want, kParts, parts);
      float sum = 0;
      for (int64_t part = kParts; part-- > 0;) {
        const uint16_t got = out.data[part * part_stride + x * kPartChannels + i];
        if (x == cells ? got != 0x7fff : got != parts[part]) return fail("split", sizes);
        sum += value_of(got);
      }
      if (x < cells && sum != want) return fail("split", sizes);
      largest = std::fmax(largest, std::fabs(want));
    }
  }
  if (bits_of(largest) != found) fail("largest magnitude", sizes);
}

template <class T>
void check_gemm(const Bf16SplitKernel& kernel, int64_t rows, int64_t cols, int64_t taps, int64_t k, bool accumulate) {
  constexpr int64_t kParts = kNumParts<T>;
  const std::vector<int64_t> sizes = {kParts, rows, cols, taps, k, accumulate};
  const int64_t cells = cols + 5, channels = k * kPartChannels, tiles = (rows + kPartRows - 1) / kPartRows;
  const int64_t part_stride = cells * kPartChannels;
  const std::vector<T> src = random_numbers<T>(channels * cells, 1), wei = random_numbers<T>(channels * taps * rows, 2);
  Aligned<uint16_t> a(k * taps * kParts * tiles * kPartRows * kPartChannels), b(k * kParts * part_stride);
  for (int64_t block = 0; block < k; ++block) {
    kernel.split(SplitArgs<T>{src.data() + block * kPartChannels * cells, kPartChannels, cells, cells, 1,
                              b.data + block * kParts * part_stride, part_stride});
    for (int64_t tap = 0; tap < taps; ++tap) {
      for (int64_t i = 0; i < kPartChannels; ++i) {
        for (int64_t r = 0; r < rows; ++r) {
          uint16_t parts[kParts];
          split_number(widen(wei[((block * kPartChannels + part_channel(i)) * taps + tap) * rows + r]), kParts, parts);
          for (int64_t part = 0; part < kParts; ++part) {
            const int64_t tile = ((block * taps + tap) * kParts + part) * tiles + r / kPartRows;
            a.data[((tile * kPartChannels / 2 + i / 2) * kPartRows + r % kPartRows) * 2 + i % 2] = parts[part];
          }
        }
      }
    }
  }
  std::vector<int64_t> offsets(taps);
  for (int64_t tap = 0; tap < taps; ++tap) offsets[tap] = (tap * 3) % 6;
  std::vector<float> c = random_floats(rows * cols, 3);
  const std::vector<float> before = c;
  std::vector<float*> c_rows;
  for (int64_t r = 0; r < rows; ++r) c_rows.push_back(c.data() + (rows - 1 - r) * cols);  // any order of rows
  const SplitGemmArgs call = {kParts, rows,           cols,        taps,          k,         a.data,
                              b.data, offsets.data(), part_stride, c_rows.data(), accumulate};
  kernel.gemm(&call, 1);
  ++checked;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t n = 0; n < cols; ++n) {
      const int64_t at = (rows - 1 - r) * cols + n;
      double want = accumulate ? before[at] : 0.0, magnitude = std::fabs(want);
      float floats = accumulate ? before[at] : 0.0f;
      for (int64_t channel = 0; channel < channels; ++channel) {
        for (int64_t tap = 0; tap < taps; ++tap) {
          const float x = widen(src[channel * cells + n + offsets[tap]]),
                      w = widen(wei[(channel * taps + tap) * rows + r]);
          want += static_cast<double>(x) * w;
          magnitude += std::fabs(static_cast<double>(x) * w);
          floats = std::fma(x, w, floats);
        }
      }
      const double error = std::fabs(c[at] - want);
      squares += error * error, squares_of_floats += (floats - want) * (floats - want);
      if (!(error <= std::numeric_limits<float>::epsilon() * static_cast<double>(taps * k + 2) * magnitude)) {
        return fail("gemm", sizes);
      }
    }
  }
}

template <class T>
void check_type(const Bf16SplitKernel& kernel) {
  squares = squares_of_floats = 0;
  for (const int64_t channels : {1, 15, 16, 17, 31, 32}) {
    for (const int64_t cells : {1, 7, 16, 37}) {
      check_split<T>(kernel, channels, cells, cells + 3, 1);
      check_split<T>(kernel, channels, cells, 1, channels + 2);
      check_split<T>(kernel, channels, cells, 3 * cells, 3);
    }
  }
  for (const int64_t rows : {1, 12, 16, 17, 32}) {
    for (int64_t cols = kPartColumns; cols <= 8 * kPartColumns; cols += kPartColumns) {
      for (const int64_t taps : {1, 3}) {
        for (const int64_t k : {1, 3}) {
          for (const bool accumulate : {false, true}) check_gemm<T>(kernel, rows, cols, taps, k, accumulate);
        }
      }
    }
  }
  if (squares > squares_of_floats) fail("gemm is worse than with floats", {kNumParts<T>});
}

}  // namespace

int main() {
  const ArchFlags& host = ArchFlags::host();
  ArchFlags dots = host;
  dots.amx_bf16 = dots.slow_bf16_dots = false;
  const Bf16SplitKernel* seen = nullptr;
  for (const ArchFlags& arch : {host, dots}) {
    const Bf16SplitKernel* kernel = get_bf16_split_kernel(arch);
    if (kernel == nullptr || kernel == seen) continue;
    seen = kernel;
    if (kernel->most_parts >= kNumParts<float>) check_type<float>(*kernel);
    if (kernel->most_parts >= kNumParts<Float16>) check_type<Float16>(*kernel);
    check_type<Bfloat16>(*kernel);
    std::printf("%s\n", kernel->name);
  }
  if (!host.amx_bf16) std::printf("SKIP amx: this CPU lacks AMX or the system does not allow it\n");
  if (!host.avx512_bf16) std::printf("SKIP avx512_bf16: this CPU lacks AVX512-BF16\n");
  std::printf("%d runs, %d failures\n", checked, failures);
  return failures == 0 ? 0 : 1;
}

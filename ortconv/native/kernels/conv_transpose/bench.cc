// GFLOP/s of the fast family on shapes of real networks, one thread: useful operations only, median of repeated runs.
// Every answer is checked against the portable path before it is timed.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "base/arch.h"
#include "kernels/conv_transpose/conv_transpose_kernels.h"
#include "kernels/element.h"

using namespace ortconv;
using namespace ortconv::kernels;

namespace {

struct Case {
  const char* name;
  int64_t mb, g, ic, oc;
  std::vector<int64_t> src, ker, stride, pad, output_padding, dilation;
};

const Case kCases[] = {
#define CASE(name, mb, g, ic, oc, ...) {name, mb, g, ic, oc, __VA_ARGS__},
#include "kernels/conv_transpose/bench_shapes.inc"
#undef CASE
};

// Where to begin in a vector that has 64 bytes more than are needed.
char* aligned(std::vector<char>& bytes) {
  return bytes.data() + (64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64) % 64;
}

struct Data {
  ConvProblem p;
  double flops = 1;
  DataType dtype = DataType::kFloat;
  std::vector<float> src, wei, dst;                      // as float; what runs are the tensors, of dtype
  std::vector<char> src_tensor, wei_tensor, dst_tensor;  // that of dst is aligned, as a runtime's is

  void set_type(DataType type) {
    dtype = type;
    with_float_type(dtype, [&](auto zero) {
      using T = decltype(zero);
      const auto stored = [](std::vector<float>& values) {
        std::vector<char> tensor(values.size() * sizeof(T));
        for (size_t i = 0; i < values.size(); ++i) {
          round_to(reinterpret_cast<T*>(tensor.data()) + i, values[i]);
          values[i] = static_cast<float>(widen(reinterpret_cast<T*>(tensor.data())[i]));
        }
        return tensor;
      };
      src_tensor = stored(src), wei_tensor = stored(wei);
      dst_tensor.resize(64 + dst.size() * sizeof(T));
    });
  }

  void widen_dst() {
    with_float_type(dtype, [&](auto zero) {
      const auto* out = reinterpret_cast<const decltype(zero)*>(aligned(dst_tensor));
      for (size_t i = 0; i < dst.size(); ++i) dst[i] = static_cast<float>(widen(out[i]));
    });
  }
};

Data make_data(const Case& c) {
  Data d;
  ConvProblem& p = d.p;
  p.ndims = static_cast<int>(c.src.size());
  p.mb = c.mb, p.g = c.g, p.ic = c.ic, p.oc = c.oc;
  int64_t src = 1, dst = 1, taps = 1;
  for (int a = p.ndims - 1; a >= 0; --a) {
    p.src_size[a] = c.src[a], p.ker[a] = c.ker[a], p.stride[a] = c.stride[a], p.pad[a] = c.pad[a];
    p.dilation[a] = c.dilation[a];
    const int64_t extent = (c.ker[a] - 1) * c.dilation[a] + 1;
    p.dst_size[a] = (c.src[a] - 1) * c.stride[a] + extent - 2 * c.pad[a] + c.output_padding[a];
    p.src_x[a] = src, p.dst_x[a] = dst, p.wei_x[a] = taps;
    src *= p.src_size[a], dst *= p.dst_size[a], taps *= c.ker[a];
    int64_t pairs = 0;  // (src, tap) pairs that hit dst
    for (int64_t x = 0; x < c.src[a]; ++x) {
      for (int64_t k = 0; k < c.ker[a]; ++k) {
        const int64_t y = x * c.stride[a] + k * c.dilation[a] - c.pad[a];
        pairs += y >= 0 && y < p.dst_size[a];
      }
    }
    d.flops *= static_cast<double>(pairs);
  }
  d.flops *= 2.0 * static_cast<double>(c.mb * c.ic * c.oc / c.g);
  p.src_c = src, p.src_n = src * c.ic, p.dst_c = dst, p.dst_n = dst * c.oc;
  p.wei_1 = taps, p.wei_0 = taps * c.oc / c.g;
  const auto fill = [](std::vector<float>& v, int64_t n) {
    v.resize(n);
    uint32_t state = 1;
    for (float& x : v) state = state * 1664525u + 1013904223u, x = static_cast<float>(state >> 8) / (1 << 24) - 0.5f;
  };
  fill(d.src, p.mb * p.src_n);
  fill(d.wei, c.ic * p.wei_0);
  d.dst.resize(p.mb * p.dst_n);
  return d;
}

void serial(void*, int64_t n, void (*fn)(void*, int64_t), void* arg) {
  for (int64_t i = 0; i < n; ++i) fn(arg, i);
}

void run_once(const Plan& plan, Data& d, std::vector<char>& scratch) {
  kernels::run(plan, d.p, d.src_tensor.data(), d.wei_tensor.data(), nullptr, aligned(d.dst_tensor), aligned(scratch),
               {nullptr, serial, 1});
}

double seconds(const Plan& plan, Data& d, std::vector<char>& scratch, double budget) {
  std::vector<double> times;
  double total = 0;
  while (total < budget || times.size() < 5) {
    const auto begin = std::chrono::steady_clock::now();
    run_once(plan, d, scratch);
    times.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    total += times.back();
  }
  std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
  return times[times.size() / 2];
}

}  // namespace

// bench [isa: amx | avx512_bf16 | avx512 | avx2 | portable] [substring of the shape's name] [type: f32 | f16 | bf16 |
// f64]
int main(int argc, char** argv) {
  ArchFlags arch = ArchFlags::host();
  const std::string isa = argc > 1 ? argv[1] : "amx", type = argc > 3 ? argv[3] : "f32";
  if (isa == "avx2") arch.avx512 = arch.avx512_bf16 = arch.amx_bf16 = false;
  if (isa == "avx512_bf16") arch.amx_bf16 = arch.slow_bf16_dots = false;
  if (isa == "avx512") arch.avx512_bf16 = arch.amx_bf16 = false;
  if (isa == "portable") arch = ArchFlags{};
  DataType dtype = DataType::kFloat;
  if (type == "f16") dtype = DataType::kFloat16;
  if (type == "bf16") dtype = DataType::kBfloat16;
  if (type == "f64") dtype = DataType::kDouble;
  for (const Case& c : kCases) {
    if (argc > 2 && std::strstr(c.name, argv[2]) == nullptr) continue;
    Data d = make_data(c);
    d.set_type(dtype);
    const PlanPtr reference = make_plan(Op::kConvTranspose, d.p, dtype, d.wei_tensor.data(), ArchFlags{});
    const PlanPtr plan = make_plan(Op::kConvTranspose, d.p, dtype, d.wei_tensor.data(), arch);
    std::vector<char> scratch(64 + std::max(scratch_bytes(*plan, d.p, 1), scratch_bytes(*reference, d.p, 1)));
    run_once(*reference, d, scratch);
    d.widen_dst();
    const std::vector<float> want = d.dst;
    run_once(*plan, d, scratch);
    d.widen_dst();
    double error = 0, largest = 0;
    for (size_t i = 0; i < want.size(); ++i) {
      error = std::max(error, std::fabs(static_cast<double>(want[i]) - d.dst[i]));
      largest = std::max(largest, std::fabs(static_cast<double>(want[i])));
    }
    const double time = seconds(*plan, d, scratch, 0.3);
    std::printf("%-34s %8.3f ms %7.1f GFLOP/s   difference %.1e\n", c.name, time * 1e3, d.flops / time * 1e-9, error);
    if (!(error < 1e-2 * largest)) return 1;
  }
  return 0;
}

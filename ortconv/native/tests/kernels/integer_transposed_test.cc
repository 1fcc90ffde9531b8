// Transposed convolutions of 8-bit integers with every kernel that this CPU has, against sums by the definition that
// are quantized in the order that integer_result.h states: equal, not close. What is read ends where the memory does.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "base/math.h"
#include "base/parallel.h"
#include "kernels/integer_conv/transposed.h"
#include "testing/guarded.h"
#include "testing/on_threads.h"

using namespace ortconv;
using namespace ortconv::kernels;

namespace {

int failures = 0, checked = 0, arranged = 0;
std::mt19937 random_bits(1);

int64_t below(int64_t n) { return static_cast<int64_t>(random_bits() % static_cast<uint64_t>(n)); }

ConvProblem random_problem() {
  ConvProblem p;
  p.ndims = 1 + static_cast<int>(below(3));
  p.mb = 1 + below(2), p.g = 1 + below(3);
  const bool depthwise = below(3) == 0;
  p.ic = p.g * (depthwise ? 1 : 1 + below(19));
  p.oc = p.g * (1 + below(depthwise ? 5 : 19));
  for (int i = 0; i < p.ndims; ++i) {
    p.src_size[i] = 1 + below(p.ndims == 1 ? 70 : p.ndims == 2 ? 20 : 7);
    p.ker[i] = 1 + below(p.ndims == 3 ? 3 : 6);
    p.stride[i] = 1 + below(below(4) == 0 ? 7 : 3);
    p.dilation[i] = p.ker[i] == 1 ? 1 : 1 + below(4) * below(2);
    p.pad[i] = below(2) * below(9);
    const int64_t full = (p.src_size[i] - 1) * p.stride[i] + (p.ker[i] - 1) * p.dilation[i] + 1;
    p.dst_size[i] = std::max<int64_t>(1, full - p.pad[i] - below(6) + below(8));
  }
  return p;
}

int64_t sum_at(const ConvProblem& p, Bytes x, int64_t x_zero, Bytes w, int64_t w_zero, int64_t n, int64_t m,
               const int64_t* at) {
  const int64_t inputs = p.ic / p.g, outputs = p.oc / p.g, taps = product_of(p.ker, p.ndims);
  int64_t sum = 0;
  for (int64_t tap = 0; tap < taps; ++tap) {
    // The position that this tap takes to the output, if there is one.
    int64_t rest = tap, position = 0, scale = 1;
    bool lands = true;
    for (int i = p.ndims; i-- > 0; rest /= p.ker[i], scale *= p.src_size[i]) {
      const int64_t distance = at[i] + p.pad[i] - rest % p.ker[i] * p.dilation[i];
      lands = lands && distance >= 0 && distance % p.stride[i] == 0 && distance / p.stride[i] < p.src_size[i];
      position += lands ? distance / p.stride[i] * scale : 0;
    }
    if (!lands) continue;
    for (int64_t c = m / outputs * inputs; c < (m / outputs + 1) * inputs; ++c) {
      sum += (x[(n * p.ic + c) * product_of(p.src_size, p.ndims) + position] - x_zero) *
             (w[(c * outputs + m % outputs) * taps + tap] - w_zero);
    }
  }
  return sum;
}

// As integer_result.h says; no operation is fused with another.
float rounded(volatile float value) { return value; }

double expected(int64_t sum, const IntegerResultArgs& a, ResultType type, int32_t residual) {
  float v = rounded(rounded(static_cast<float>(sum) * a.scale) + a.bias);
  if (a.residual_scale != 0)
    v = rounded(v + rounded(static_cast<float>(residual - a.residual_zero) * a.residual_scale));
  v = rounded(a.activation(v));
  if (type == ResultType::kFloat) return static_cast<double>(v);
  const double least = type == ResultType::kInt8 ? -128 : 0;
  const double integer = std::nearbyint(static_cast<double>(rounded(v / a.y_scale))) + a.y_zero;
  return std::min(std::max(integer, least), least + 255);
}

void check(const IntegerConvKernel& kernel, const IntegerResultKernel& result, int turn) {
  ConvProblem p = random_problem();
  const ResultType type = static_cast<ResultType>(turn % 3);
  const bool at_begin = turn % 2 == 0, x_signed = type == ResultType::kInt8 || (type == ResultType::kFloat && below(2));
  const bool has_residual = type != ResultType::kFloat && below(2) == 0;
  if (turn % 4 == 0) p.activation = {turn % 8 == 0 ? 0.125f : 1, -3, turn % 16 == 0 ? 6.0f : 2.5f};
  const int64_t inputs = p.mb * p.ic * product_of(p.src_size, p.ndims), taps = product_of(p.ker, p.ndims);
  const int64_t outputs = p.mb * p.oc * product_of(p.dst_size, p.ndims);
  const int64_t weight_count = p.ic * (p.oc / p.g) * taps;
  Guarded x(inputs, at_begin), w(weight_count, at_begin), residual(outputs, at_begin);
  const auto fill = [&](Guarded& memory, int64_t count) {
    for (int64_t i = 0; i < count; ++i) {
      memory.as<uint8_t>()[i] = static_cast<uint8_t>(turn % 5 == 0 ? (below(2) == 0 ? 0x80 : 0x7f) : below(256));
    }
  };
  fill(x, inputs), fill(w, weight_count), fill(residual, outputs);
  const bool w_signed = below(3) != 0;
  const uint8_t w_zero = below(2) == 0 ? (w_signed ? 0 : 128) : static_cast<uint8_t>(below(256));
  Guarded scales(p.oc * sizeof(float), at_begin), bias(p.oc * sizeof(float), at_begin);
  for (int64_t m = 0; m < p.oc; ++m) {
    scales.as<float>()[m] = static_cast<float>(1 + below(1000)) / 4096;
    bias.as<float>()[m] = static_cast<float>(below(2001) - 1000) / 64;
  }
  const int64_t size = type == ResultType::kFloat ? sizeof(float) : 1;
  Guarded y(outputs * size, at_begin);
  const IntegerResultOperands operands{{x.as<uint8_t>(), x_signed},
                                       static_cast<int32_t>(below(x_signed ? 127 : 255)),
                                       0.0078125f * static_cast<float>(1 + below(5)),
                                       scales.as<float>(),
                                       p.oc,
                                       bias.as<float>(),
                                       has_residual ? residual.as<void>() : nullptr,
                                       has_residual ? 0.375f : 0,
                                       7,
                                       y.as<void>(),
                                       type,
                                       0.0625f * static_cast<float>(1 + below(7)),
                                       type == ResultType::kUint8 ? static_cast<int32_t>(below(256)) : -5};
  const IntegerConvFilter filter{{w.as<uint8_t>(), w_signed}, &w_zero, 1};
  const auto weights = IntegerTransposedWeights::make(kernel, p, filter);
  const auto layout = weights ? IntegerTransposedLayout::make(p, *weights) : std::nullopt;
  const int threads = 1 + turn % 3;
  const Parallel parallel = threads == 1 ? serial() : on_threads(threads);
  for (const bool direct : {false, true}) {
    if (direct ? turn % 4 != 0 : !layout) continue;
    std::memset(y.as<char>(), 0x5a, outputs * size);
    if (direct) {
      integer_transposed_direct(p, filter, result, operands, parallel);
    } else {
      ++arranged;
      Guarded scratch(align64(integer_transposed_scratch_bytes(p, *layout, *weights, threads)), false);
      integer_transposed(p, *layout, *weights, result, operands, scratch.as<void>(), parallel);
    }
    ++checked;
    const int64_t row = product_of(p.dst_size, p.ndims);
    for (int64_t i = 0; i < outputs; ++i) {
      const int64_t m = i / row % p.oc;
      int64_t at[kMaxSpatial] = {};
      for (int64_t axis = p.ndims, rest = i % row; axis-- > 0; rest /= p.dst_size[axis])
        at[axis] = rest % p.dst_size[axis];
      const int64_t sum =
          sum_at(p, operands.x, operands.x_zero, filter.w, Bytes{&w_zero, w_signed}[0], i / row / p.oc, m, at);
      const int32_t addend = Bytes{residual.as<uint8_t>(), type == ResultType::kInt8}[i];
      const double want = expected(sum, integer_result_args(p, operands, m), type, addend);
      const double got = type == ResultType::kFloat
                             ? static_cast<double>(y.as<float>()[i])
                             : static_cast<double>(Bytes{y.as<uint8_t>(), type == ResultType::kInt8}[i]);
      if (got == want) continue;
      ++failures;
      std::printf(
          "FAIL %s, turn %d%s: %ld groups, %ld>%ld, element %ld is %g, not %g; src dst kernel stride dilation pad",
          kernel.name, turn, direct ? " (direct)" : "", static_cast<long>(p.g), static_cast<long>(p.ic),
          static_cast<long>(p.oc), static_cast<long>(i), got, want);
      for (int axis = 0; axis < p.ndims; ++axis) {
        std::printf(", %ld %ld %ld %ld %ld %ld", static_cast<long>(p.src_size[axis]),
                    static_cast<long>(p.dst_size[axis]), static_cast<long>(p.ker[axis]),
                    static_cast<long>(p.stride[axis]), static_cast<long>(p.dilation[axis]),
                    static_cast<long>(p.pad[axis]));
      }
      std::printf("\n");
      break;
    }
  }
}

// More phases, or taps further apart, than can be arranged.
void check_limits(const IntegerConvKernel& kernel) {
  ConvProblem p;
  p.ndims = 2, p.g = p.ic = p.oc = 1;
  p.ker[0] = p.ker[1] = 3, p.stride[0] = p.stride[1] = 1, p.dilation[0] = p.dilation[1] = 1;
  const uint8_t w[9] = {};
  const IntegerConvFilter filter{{w, true}, nullptr, 0};
  const auto is_made = [&] { return IntegerTransposedWeights::make(kernel, p, filter).has_value(); };
  failures += !is_made();
  p.stride[1] = int64_t{1} << 60;
  failures += is_made();
  p.stride[0] = p.stride[1] = 65;
  failures += is_made();
  p.stride[0] = p.stride[1] = 1, p.dilation[0] = p.dilation[1] = 1000;
  failures += is_made();
}

}  // namespace

// So many problems for each kernel.
int main(int argc, char** argv) {
  const int problems = argc > 1 ? std::atoi(argv[1]) : 400;
  const ArchFlags& host = ArchFlags::host();
  ArchFlags neon, avx2, avx_vnni, avx512, avx512_vnni;
  neon.neon = host.neon;
  avx2.avx2_fma = host.avx2_fma;
  avx_vnni.avx2_fma = avx_vnni.avx_vnni = host.avx_vnni;
  avx512.avx512 = host.avx512;
  avx512_vnni.avx512 = avx512_vnni.avx512_vnni = host.avx512_vnni;
  std::vector<const IntegerConvKernel*> seen;
  for (const ArchFlags& arch : {ArchFlags{}, neon, avx2, avx_vnni, avx512, avx512_vnni}) {
    const IntegerConvKernel& kernel = get_integer_conv_kernel(arch);
    if (std::find(seen.begin(), seen.end(), &kernel) != seen.end()) continue;
    seen.push_back(&kernel);
    if (const IntegerConvKernel* const pairs = get_saturating_integer_conv_kernel(arch)) {
      for (int turn = 0; turn < problems; ++turn) check(*pairs, get_integer_result_kernel(arch), turn);
      std::printf("%s\n", pairs->name);
    }
    for (int turn = 0; turn < problems; ++turn) check(kernel, get_integer_result_kernel(arch), turn);
    check_limits(kernel);
    std::printf("%s\n", kernel.name);
  }
  std::printf("%d runs, %d of them arranged, %d failures\n", checked, arranged, failures);
  return failures == 0 && arranged > problems / 2 ? 0 : 1;
}

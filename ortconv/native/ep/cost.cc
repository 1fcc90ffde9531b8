#include "ep/cost.h"

#include <algorithm>
#include <cstdint>

#include "base/arch.h"
#include "base/error.h"
#include "ops/implementations/sizes.h"

namespace ortconv::ep {

namespace {

// Nanoseconds of a run of ONNX Runtime's ConvTranspose and of its parts.
struct ConvTransposeCosts {
  double run, call, product, weight, data, column, row_of_images, row, stored, far;
};

// Fitted to 800 and 900 random shapes of one to three axes with ONNX Runtime 1.32, on one thread of an EPYC with AVX2
// and of one with AVX-512, and then lowered, so that few that it computes faster are claimed: 31 in 700 and 13 in 740
// take more than a ninth longer in ours. A node that is left to ONNX Runtime may be one that ours would compute faster.
constexpr ConvTransposeCosts kAvx2{1.81e3, 198, 0.0203, 0.101, 0.258, 0.378, 1.35, 10.2, 0.393, 0.0327};
constexpr ConvTransposeCosts kAvx512{563, 167, 0.0167, 0.0501, 0.0938, 0.167, 0.644, 7.18, 0.112, 0.0316};

bool is_pointwise(const ConvProblem& p) {
  return implementations::taps_of(p) == 1 &&
         std::all_of(p.stride, p.stride + p.ndims, [](int64_t stride) { return stride == 1; });
}

// Nanoseconds of a run of ONNX Runtime's QLinearConv and of its parts.
struct QLinearConvCosts {
  double run, product, column, stored;
};

// Fitted to 160 random layers of two axes with ONNX Runtime 1.32, on one thread of an EPYC with AVX2, and then lowered
// until of layers that it computes faster none was claimed that both were measured for. On CPUs with products of bytes,
// fitted to 240 such layers on one thread of an EPYC with AVX512-VNNI.
constexpr QLinearConvCosts kPairs{9e3, 0.0116, 0.19, 0.42};
constexpr QLinearConvCosts kByteDots{4e3, 0.0043, 0.0175, 0.087};

// ONNX Runtime has a kernel of its own for one input and one output channel a group.
double depthwise_nanoseconds(const ConvProblem& p, bool has_byte_dots) {
  using namespace implementations;
  const double stored = dst_count(p), positions = dst_positions(p), taps = taps_of(p);
  if (!has_byte_dots) {
    constexpr double kTap = 0.068;
    return kPairs.run + (kPairs.stored + kTap * taps) * stored;
  }
  // Channels that fill no vectors of 16 take twice as long, all of them.
  const bool is_even = p.g % 16 == 0;
  const double tap = is_even ? 0.61 : 1.04, tap_of_channel = is_even ? 0.027 : 0.052, output = is_even ? 0.096 : 0.24;
  return kByteDots.run + output * stored + taps * (tap * positions + tap_of_channel * stored);
}

}  // namespace

bool is_faster(const Estimates& estimates, size_t neighbours) {
  constexpr double kMargin = 0.95;
  return estimates.ours <= kMargin * (estimates.onnxruntime + static_cast<double>(neighbours) * estimates.neighbour);
}

void require_faster(const Estimates& estimates, size_t neighbours) {
  if (is_faster(estimates, neighbours)) return;
  fail("ours is estimated to take ", static_cast<int64_t>(estimates.ours / 1e3), " us, ONNX Runtime's ",
       static_cast<int64_t>(estimates.onnxruntime / 1e3), " us");
}

double onnxruntime_nanoseconds(const ConvProblem& p) {
  using namespace implementations;
  const ConvTransposeCosts& c = ArchFlags::host().avx512 ? kAvx512 : kAvx2;
  constexpr double kVector = 16;  // positions of src
  const auto groups = static_cast<double>(p.g), images = static_cast<double>(p.mb), calls = images * groups;
  const double positions = product(p.src_size, p.ndims), taps = taps_of(p) * static_cast<double>(p.oc) / groups;
  const double weights = images * weight_count(p), columns = calls * taps * positions;
  // One position is a product with a vector, which reads the weights and does little else.
  const double products = positions == 1 ? 0 : weights * rounded_up(positions, kVector);
  // Images have loops of their own for what is added up, which take a row at a time.
  const double row = p.ndims == 2 ? c.row_of_images : c.row;
  return c.run + c.call * calls + c.product * products + c.weight * weights + c.data * src_count(p) +
         c.column * columns + row * src_rows(p) * taps * groups + c.stored * dst_count(p) +
         c.far * far_bytes(4 * taps * positions, calls);
}

double qlinear_conv_nanoseconds(const ConvProblem& p) {
  using namespace implementations;
  const bool has_byte_dots = ArchFlags::host().has_byte_dots();
  if (p.ic == p.g && p.oc == p.g) return depthwise_nanoseconds(p, has_byte_dots);
  const QLinearConvCosts& c = has_byte_dots ? kByteDots : kPairs;
  constexpr double kGroup = 43;  // fitted with AVX2 alone
  const double stored = dst_count(p), positions = dst_positions(p), taps = taps_of(p);
  double nanoseconds = c.run + c.stored * stored + c.product * stored * taps * static_cast<double>(p.ic / p.g);
  if (!is_pointwise(p)) nanoseconds += c.column * positions * taps * static_cast<double>(p.ic);
  if (p.g > 1) nanoseconds += kGroup * positions * static_cast<double>(p.g);
  return nanoseconds;
}

double transpose_nanoseconds(double count) {
  constexpr double kRun = 2e3, kElement = 0.1;
  return kRun + kElement * count;
}

double neighbour_nanoseconds(const ConvProblem& p) {
  constexpr double kRun = 1.5e3, kElement = 0.25;
  return kRun + kElement * implementations::dst_count(p);
}

double dequantize_nanoseconds(const ConvProblem& p) {
  using namespace implementations;
  constexpr double kRun = 3e3, kData = 0.2, kWeight = 0.5;
  return kRun + kData * src_count(p) + kWeight * weight_count(p);
}

double quantize_nanoseconds(const ConvProblem& p) {
  constexpr double kRun = 1.5e3, kElement = 0.35;
  return kRun + kElement * implementations::dst_count(p);
}

}  // namespace ortconv::ep

#include "ep/cost.h"

#include <algorithm>
#include <cstdint>

#include "base/error.h"
#include "ops/implementations/sizes.h"

namespace ortconv::ep {

void require_faster(const Estimates& estimates, size_t neighbours) {
  constexpr double kMargin = 0.95;
  const double theirs = estimates.onnxruntime + static_cast<double>(neighbours) * estimates.neighbour;
  if (estimates.ours <= kMargin * theirs) return;
  fail("ours is estimated to take ", static_cast<int64_t>(estimates.ours / 1e3), " us, ONNX Runtime's ",
       static_cast<int64_t>(estimates.onnxruntime / 1e3), " us");
}

// Fitted to 670 random shapes of one to three axes with ONNX Runtime 1.32, on one thread of an EPYC with AVX2. Most of
// them take as long or, where their data exceed the caches, longer; so a node that is left to ONNX Runtime may be one
// that ours would compute faster, rather than the other way round.
double onnxruntime_nanoseconds(const ConvProblem& p) {
  using namespace implementations;
  constexpr double kRun = 1.01e4, kGroup = 185, kProduct = 0.0254, kColumn = 0.419, kManyAxes = 1.08, kRow = 0.643,
                   kStored = 0.239, kFar = 0.0121;
  const double taps = taps_of(p) * static_cast<double>(p.oc), columns = src_positions(p) * taps;
  return kRun + kGroup * static_cast<double>(p.mb * p.g) + kProduct * columns * static_cast<double>(p.ic / p.g) +
         (kColumn + (p.ndims > 2 ? kManyAxes : 0)) * columns + kRow * src_rows(p) * taps + kStored * dst_count(p) +
         kFar * far_bytes(4 * weight_count(p), static_cast<double>(p.mb));
}

// Fitted to 160 random layers of two axes with ONNX Runtime 1.32, on one thread of an EPYC with AVX2, and then lowered
// until of layers that it computes faster none was claimed that both were measured for.
double qlinear_conv_nanoseconds(const ConvProblem& p) {
  using namespace implementations;
  constexpr double kRun = 9e3, kProduct = 0.0116, kColumn = 0.19, kGroup = 43, kTap = 0.068, kStored = 0.42;
  const double stored = dst_count(p), positions = dst_positions(p), taps = taps_of(p);
  if (p.ic == p.g && p.oc == p.g) return kRun + (kStored + kTap * taps) * stored;  // a kernel of its own
  double nanoseconds = kRun + kStored * stored + kProduct * stored * taps * static_cast<double>(p.ic / p.g);
  const bool is_pointwise = taps == 1 && std::all_of(p.stride, p.stride + p.ndims, [](int64_t s) { return s == 1; });
  if (!is_pointwise) nanoseconds += kColumn * positions * taps * static_cast<double>(p.ic);
  if (p.g > 1) nanoseconds += kGroup * positions * static_cast<double>(p.g);
  return nanoseconds;
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

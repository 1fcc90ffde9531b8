#include "ep/cost.h"

#include "ops/implementations/sizes.h"

namespace ortconv::ep {

// Fitted to 670 random shapes of one to three axes with ONNX Runtime 1.32, on one thread of an EPYC with AVX2. Most of
// them take as long or, where their data exceed the caches, longer; so a node that is left to ONNX Runtime may be one
// that ours would compute faster, rather than the other way round.
double onnxruntime_nanoseconds(const ConvProblem& p) {
  using namespace implementations;
  constexpr double kRun = 1.01e4, kGroup = 199, kProduct = 0.0265, kColumn = 0.416, kManyAxes = 1.17, kRow = 0.627,
                   kStored = 0.239;
  const double taps = taps_of(p) * static_cast<double>(p.oc), columns = src_positions(p) * taps;
  return kRun + kGroup * static_cast<double>(p.mb * p.g) + kProduct * columns * static_cast<double>(p.ic / p.g) +
         (kColumn + (p.ndims > 2 ? kManyAxes : 0)) * columns + kRow * src_rows(p) * taps + kStored * dst_count(p);
}

}  // namespace ortconv::ep

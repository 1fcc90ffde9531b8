#include "ops/implementations/costs.h"

namespace ortconv::implementations {
namespace {

// Nanoseconds of a run and of each unit of Work.
struct Costs {
  double run, step, call, product, copied, added, stored, far;
};

constexpr Costs kAvx2[] = {
    {300, 5, 10, 0.015, 0.3, 0.2, 0.2, 0.05},  // winograd
    {300, 5, 10, 0.013, 0.3, 0.2, 0.2, 0.05},  // depth_to_space
    {300, 5, 10, 0.014, 0.3, 0.2, 0.2, 0.05},  // tapwise
    {300, 5, 10, 0.03, 0.3, 0.2, 0.2, 0.05},   // channel_lanes
    {300, 5, 10, 0.03, 0.3, 0.2, 0.2, 0.05},   // depthwise
    {300, 5, 10, 0.014, 0.3, 0.2, 0.2, 0.05},  // phases
    {300, 5, 10, 0.011, 0.3, 0.1, 0.2, 0.05},  // gemm_col2im
    {300, 5, 10, 0.014, 0.3, 0.3, 0.2, 0.05},  // columns
    {300, 5, 10, 0.014, 0.3, 0.2, 0.2, 0.05},  // im2col
    {300, 5, 10, 0.014, 0.3, 0.3, 0.2, 0.05},  // col2im
};

}  // namespace

double estimate(Way way, const Work& w, DataType, const ArchFlags&) {
  const Costs& c = kAvx2[static_cast<int>(way)];
  return c.run + c.step * w.steps + c.call * w.calls + c.product * w.products + c.copied * w.copied +
         c.added * w.added + c.stored * w.stored + c.far * w.far;
}

}  // namespace ortconv::implementations

#include "ops/implementations/costs.h"

#include <iterator>

namespace ortconv::implementations {
namespace {

// Nanoseconds of a run and of each unit of Work.
struct Costs {
  double run, item, step, call, product, copied, added, stored, far;
};

// Of floats with AVX2, fitted as benchmarks/costs.py does, to 380 random shapes for gemm_col2im and phases, to 160 for
// depth_to_space and to 800 for the others, on an EPYC with a peak of 104 GFLOP/s.
constexpr Costs kAvx2[] = {
    {2.16e+03, 0, 35.7, 0, 0.0291, 0.271, 0.251, 0.393, 0.00479},       // winograd
    {1.21e+03, 0, 0.609, 0.716, 0.0163, 0.218, 0, 0.299, 0.0129},       // depth_to_space
    {1.5e+03, 60, 3, 20, 0.021, 0.25, 0, 0.4, 0.012},                   // windows
    {2.16e+03, 0, 6.21, 40.2, 0.0248, 0.22, 0, 0.685, 0.0309},          // tapwise
    {745, 105, 3.51, 1.25, 0.0226, 0.0328, 0, 0.358, 0},                // channel_lanes
    {549, 43, 3.14, 4.82, 0.03, 0.019, 0.667, 0.332, 0},                // depthwise
    {902, 58.5, 8.06, 68.9, 0.021, 0.221, 0.151, 0.556, 0.00861},       // phases
    {1.33e+03, 88.4, 1.51, 16.3, 0.0207, 0.315, 0.258, 0.432, 0.0121},  // gemm_col2im
    {311, 0, 1.84, 158, 0.0347, 0.391, 0.459, 0.117, 0.0106},           // columns
    {1.36e+03, 90.7, 17.4, 0, 0.0438, 0.0974, 0, 0.123, 0.029},         // im2col
    {668, 73.2, 5, 49.4, 0.0333, 0.117, 0.141, 0.311, 0.00677},         // col2im
};

// What the other instruction sets take, as multiples: of products, and of what else goes through vectors.
struct Scale {
  double products, vectors;
};

// Vectors twice as wide take half as many steps; what comes from memory, and what is done number by number, takes as
// long.
constexpr Scale kAvx512{0.45, 0.7}, kNeon{1.9, 1.5}, kPortable{4.5, 2};

const Scale& scale_of(const ArchFlags& arch) {
  static constexpr Scale kSame{1, 1};
  if (arch.avx512) return kAvx512;
  if (arch.avx2_fma) return kSame;
  return arch.neon ? kNeon : kPortable;
}

}  // namespace

double estimate(Way way, const Work& w, DataType dtype, const ArchFlags& arch) {
  static_assert(std::size(kAvx2) == static_cast<size_t>(Way::kCol2im) + 1);
  const Costs& c = kAvx2[static_cast<int>(way)];
  const Scale& scale = scale_of(arch);
  const double wide = dtype == DataType::kDouble ? 2 : 1;  // vectors hold half as many doubles
  const double in_vectors = c.copied * w.copied + c.added * w.added + c.stored * w.stored;
  return c.run + c.item * w.items + c.step * w.steps + c.call * w.calls +
         c.product * w.products * wide * scale.products + in_vectors * wide * scale.vectors + c.far * w.far * wide;
}

}  // namespace ortconv::implementations

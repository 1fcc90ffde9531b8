#include "ops/implementations/costs.h"

#include <iterator>

namespace ortconv::implementations {
namespace {

// Nanoseconds of a run and of each unit of Work.
struct Costs {
  double run, item, step, call, product, copied, added, stored, far;
};

// Of floats with AVX2, fitted as benchmarks/costs.py does to 660 random shapes, on an EPYC with a peak of 104 GFLOP/s a
// core whose other thread was in use; then multiplied by 0.86 to 1.16 each, so that the choices lose least, and those
// of col2im, which are off most, by 1.5. Those of depth_to_space are of 160 shapes of its own. Calls of channel_lanes
// and steps of windows cost what single shapes with many of them take.
constexpr Costs kAvx2[] = {
    {1.74e+03, 0, 59.3, 0, 0.0367, 0.0963, 0.794, 0, 0},                // winograd
    {1.45e+03, 0, 0.73, 0.86, 0.0196, 0.262, 0, 0.359, 0.0155},         // depth_to_space
    {3.17e+03, 24, 2.2, 46.8, 0.0215, 0.565, 0, 0.404, 0.0217},         // windows
    {1.01e+04, 0, 14.1, 64.1, 0.0304, 0.47, 0, 0.854, 0.0536},          // tapwise
    {2.86e+03, 137, 1.64, 3, 0.0224, 0.0187, 0, 0.739, 0},              // channel_lanes
    {2.44e+03, 54.1, 2.76, 5.72, 0.0274, 0, 0.596, 0.535, 0},           // depthwise
    {4.04e+03, 65.6, 11.4, 98.3, 0.0276, 0.195, 0.131, 0.813, 0.0299},  // phases
    {4.07e+03, 131, 2.55, 5.75, 0.0242, 0.465, 0.335, 0.661, 0.0282},   // gemm_col2im
    {1.87e+03, 0, 3.65, 227, 0.0437, 0.858, 0.44, 0.13, 0.0309},        // columns
    {4.45e+03, 47.6, 17.8, 44.8, 0.0466, 0.136, 0, 0, 0.0586},          // im2col
    {3.74e+03, 86.1, 9.51, 133, 0.0672, 0.18, 0.297, 0.575, 0.0269},    // col2im
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

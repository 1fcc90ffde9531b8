#include "ops/implementations/costs.h"

#include <iterator>

namespace ortconv::implementations {
namespace {

// Nanoseconds of a run and of each unit of Work.
struct Costs {
  double run, item, step, call, product, copied, added, stored, far;
};

// Of floats with AVX2, fitted as benchmarks/costs.py does to 660 random shapes, on an EPYC with a peak of 104 GFLOP/s a
// core whose other thread was in use, and multiplied by 0.8, as a core of one's own is faster. So that the choices lose
// least they are then multiplied by 0.86 to 1.16 each, and those of col2im, which are off most, by 1.5; calls of
// channel_lanes and steps of disjoint_windows are those of single shapes with many of them. Those of depth_to_space are
// of 160 shapes of its own.
constexpr Costs kAvx2[] = {
    {144, 0, 47.4, 0, 0.0294, 0.077, 0.635, 0, 0},                     // winograd
    {100, 0, 0.584, 0.688, 0.0157, 0.21, 0, 0.287, 0.0124},            // depth_to_space
    {1.29e+03, 19.2, 1.76, 37.4, 0.0172, 0.452, 0, 0.323, 0.0174},     // disjoint_windows
    {6.83e+03, 0, 11.3, 51.3, 0.0243, 0.376, 0, 0.683, 0.0429},        // tapwise
    {1.04e+03, 110, 1.31, 2.4, 0.0179, 0.015, 0, 0.591, 0},            // channel_lanes
    {704, 43.3, 2.21, 4.58, 0.0219, 0, 0.477, 0.428, 0},               // depthwise
    {1.98e+03, 52.5, 9.12, 78.6, 0.0221, 0.156, 0.105, 0.65, 0.0239},  // phases
    {2.01e+03, 105, 2.04, 4.6, 0.0194, 0.372, 0.268, 0.529, 0.0226},   // gemm_col2im
    {248, 0, 2.92, 182, 0.035, 0.686, 0.352, 0.104, 0.0247},           // columns
    {2.31e+03, 38.1, 14.2, 35.8, 0.0373, 0.109, 0, 0, 0.0469},         // im2col
    {1.74e+03, 68.9, 7.61, 106, 0.0538, 0.144, 0.238, 0.46, 0.0215},   // col2im
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

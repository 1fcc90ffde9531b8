#include "ops/implementations/costs.h"

#include <iterator>

namespace ortconv::implementations {
namespace {

// Nanoseconds of a run and of each unit of Work.
struct Costs {
  double run, item, step, call, product, copied, added, stored, far;
};

// Of floats with AVX2, which benchmarks/costs.py found with 800 random shapes and the layers of benchmarks/shapes.py,
// counted four times, on an EPYC with a peak of 104 GFLOP/s a core; multiplied by 0.85, as others used the core too.
constexpr Costs kAvx2[] = {
    {1.93e+03, 0, 35.4, 0, 0.0255, 0.434, 0, 0.909, 0},               // winograd
    {1.66e+04, 0, 0, 5.35, 0.019, 0.3, 0, 0.332, 0},                  // depth_to_space
    {1.99e+03, 85.8, 1.45, 28.2, 0.0202, 0.569, 0, 0.307, 0.0228},    // disjoint_windows
    {4.73e+03, 0, 8.58, 27.3, 0.0246, 0.977, 0.368, 0.0581, 0.0291},  // tapwise
    {2.44e+03, 101, 3.77, 3.86, 0.0213, 0, 0, 0, 0},                  // channel_lanes
    {1.98e+03, 60.9, 2.93, 6.12, 0.0421, 0, 1.06, 0.251, 0},          // depthwise
    {3.26e+03, 104, 8.12, 54.8, 0.021, 0.213, 0.173, 0.507, 0.0259},  // phases
    {3.51e+03, 105, 2.29, 17.4, 0.0167, 0.43, 0.361, 0.426, 0.0252},  // gemm_col2im
    {728, 0, 3.52, 207, 0.0428, 0.724, 0.32, 0.185, 0.0254},          // columns
    {5.93e+03, 23.9, 14.5, 68.8, 0.0476, 0.105, 0, 0, 0.115},         // im2col
    {2.7e+03, 56.2, 5.9, 59.2, 0.0441, 0.121, 0.205, 0.331, 0.0251},  // col2im
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

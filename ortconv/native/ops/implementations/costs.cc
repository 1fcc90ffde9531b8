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

// The same with AVX-512, of 870 other random shapes and the layers once, on an EPYC (Zen 4) that computes vectors of
// 512 bits in halves: its peak is that of AVX2.
constexpr Costs kAvx512[] = {
    {1.53e+03, 0, 18.9, 0, 0.0152, 0, 0.312, 0, 0.00224},            // winograd
    {100, 0, 0, 1.66, 0.0151, 0.154, 0, 0.0866, 0.00498},            // depth_to_space
    {698, 5.18, 0.549, 25.9, 0.0177, 0.257, 0, 0.129, 0.0146},       // disjoint_windows
    {1.51e+03, 0, 2.37, 38.1, 0.0159, 0.182, 0, 0.561, 0.00976},     // tapwise
    {867, 57.3, 1.37, 1.85, 0.0174, 0.00111, 0, 0.0477, 0.0119},     // channel_lanes
    {200, 33, 2.27, 0.345, 0.0158, 0.0709, 0.703, 0.11, 0.00345},    // depthwise
    {929, 31.2, 7.22, 68.5, 0.0164, 0.0899, 0.0459, 0.253, 0.0132},  // phases
    {705, 55.3, 1.37, 22, 0.0149, 0.419, 0.175, 0.238, 0.00542},     // gemm_col2im
    {100, 0, 2.3, 220, 0.0274, 0.476, 0.147, 0.0992, 0},             // columns
    {1.72e+03, 37.6, 10.9, 27.1, 0.0269, 0.0748, 0, 0, 0.0392},      // im2col
    {658, 46.5, 2.79, 39.6, 0.0263, 0.0124, 0.0944, 0.275, 0.0137},  // col2im
};

// What the other instruction sets take, as multiples of AVX2's: of products, and of what else goes through vectors.
struct Scale {
  double products, vectors;
};
constexpr Scale kSame{1, 1}, kNeon{1.9, 1.5}, kPortable{4.5, 2};

const Scale& scale_of(const ArchFlags& arch) {
  if (arch.avx2_fma) return kSame;
  return arch.neon ? kNeon : kPortable;
}

}  // namespace

double estimate(Way way, const Work& w, DataType dtype, const ArchFlags& arch) {
  constexpr size_t kWays = static_cast<size_t>(Way::kCol2im) + 1;
  static_assert(std::size(kAvx2) == kWays && std::size(kAvx512) == kWays);
  const Costs& c = (arch.avx512 ? kAvx512 : kAvx2)[static_cast<int>(way)];
  const Scale& scale = arch.avx512 ? kSame : scale_of(arch);
  const double wide = dtype == DataType::kDouble ? 2 : 1;  // vectors hold half as many doubles
  const double in_vectors = c.copied * w.copied + c.added * w.added + c.stored * w.stored;
  return c.run + c.item * w.items + c.step * w.steps + c.call * w.calls +
         c.product * w.products * wide * scale.products + in_vectors * wide * scale.vectors + c.far * w.far * wide;
}

}  // namespace ortconv::implementations

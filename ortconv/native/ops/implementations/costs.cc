#include "ops/implementations/costs.h"

#include <iterator>

namespace ortconv::implementations {
namespace {

// Nanoseconds of a run and of each unit of Work.
struct Costs {
  double run, item, step, call, product, copied, added, stored, far;
};

// Of floats with AVX2. benchmarks/costs.py found them with 800 random shapes and the layers of benchmarks/shapes.py,
// counted four times, on an EPYC with a peak of 104 GFLOP/s a core (Zen 3), and then moved each so that choices among
// further shapes, on a Zen 4 without its AVX-512, lose least. As kernels became faster, rows were fitted again one by
// one, with the others as they are: disjoint_windows, tapwise, phases and gemm_col2im, with 1,490 shapes, and then the
// products of sliding_rows. Last all were moved a little so that choices among 430 random shapes, 400 with the sizes of
// layers and the benchmark's lose least on that Zen 3. Moved for two thirds of these, they lose 2.1% on the others, and
// 2.4% as they were. Then all were divided by a number such that what is chosen takes as long as estimated in the
// median, and, with faster transforms, the row of winograd was fitted again to 512 runs.
constexpr Costs kAvx2[] = {
    {831, 0, 21.2, 0, 0.0224, 0.111, 0, 0.462, 0.00377},                // winograd
    {7.82e+03, 0, 0, 2.46, 0.0175, 0.334, 0, 0.147, 0.0074},            // depth_to_space
    {558, 34.7, 0.59, 16.7, 0.0241, 0.315, 0, 0.267, 0.014},            // disjoint_windows
    {362, 30.8, 12, 14.2, 0.0289, 0.179, 0.0883, 0, 0.0154},            // sliding_rows
    {759, 0, 3.68, 0, 0.0225, 0.544, 0.354, 0.588, 0.00762},            // tapwise
    {310, 73.7, 1.32, 15.5, 0.0164, 0.0422, 0, 0.309, 0.021},           // channel_lanes
    {285, 61, 2.48, 2.12, 0.0192, 0.0629, 1.46, 0.182, 0.0193},         // depthwise
    {1.14e+03, 8.13, 5.54, 55.2, 0.025, 0.0483, 0.117, 0.373, 0.0152},  // phases
    {1.08e+03, 75.4, 2.33, 14.7, 0.0195, 0.375, 0.292, 0.38, 0.0129},   // gemm_col2im
    {89.3, 0, 0.806, 125, 0.0343, 0.101, 0.344, 0, 0.0171},             // columns
    {4.59e+03, 22.8, 10.5, 55.8, 0.06, 0.0955, 0, 0, 0.0902},           // im2col
    {1.61e+03, 49.4, 4.44, 57.9, 0.035, 0.0982, 0.189, 0.281, 0.0201},  // col2im
};

// The same with AVX-512, on an EPYC (Zen 4) that computes vectors of 512 bits in halves: its peak is that of AVX2. The
// row of winograd was fitted again to 140 layers of many channels, what a run of it takes to 87 smaller ones on an
// Intel Xeon, and its transforms there to 105; products and bytes of tapwise to 700 shapes, and its products to 110 on
// that Intel Xeon; those of phases to 1,300 shapes on it. The rows of sliding_rows and columns were last moved, on the
// Zen 4, so that choices among 1,160 shapes and the benchmark's lose least: 2.7% of 630 random ones and 530 with the
// sizes of layers, and 3.1% before.
constexpr Costs kAvx512[] = {
    {2e+03, 0, 12, 0, 0.0145, 0.25, 0.0213, 0.577, 0.0153},          // winograd
    {709, 0, 0, 3.78, 0.0117, 0.269, 0, 0.0981, 0},                  // depth_to_space
    {172, 4.06, 0.486, 55.1, 0.0179, 0.276, 0, 0.14, 0.00922},       // disjoint_windows
    {100, 15.6, 6, 9.19, 0.016, 0.128, 0.0588, 0, 0.0154},           // sliding_rows
    {2.53e+03, 0, 3.16, 44.2, 0.0148, 0.0675, 0, 0.611, 0.0105},     // tapwise
    {248, 36.1, 2.09, 6, 0.0142, 0.03, 0, 0.193, 0.0117},            // channel_lanes
    {399, 42.8, 1.85, 1.95, 0.0154, 0.0304, 0.866, 0.0652, 0.0134},  // depthwise
    {892, 19.9, 7.63, 78.2, 0.0148, 0.104, 0.0509, 0.204, 0.0238},   // phases
    {642, 90, 1.54, 10.5, 0.0155, 0.419, 0.171, 0.213, 0.0109},      // gemm_col2im
    {100, 0, 0.588, 160, 0.0298, 0.351, 0.168, 0.0442, 0.0183},      // columns
    {1.76e+03, 0, 13.9, 60.4, 0.022, 0.0847, 0, 0.00712, 0.0632},    // im2col
    {466, 40.2, 3.01, 43.7, 0.0258, 0.0209, 0.0936, 0.197, 0.0281},  // col2im
};

// The same on Intel CPUs, which multiply vectors of 512 bits whole and read what is not in L2 slowly: the table above,
// moved so that choices among 850 shapes with the sizes of layers, 850 random ones and the benchmark's lose least, on a
// Xeon of 245 GFLOP/s a core, 400 of them with AMX as well. Of layers they lose 1.2%, with the table above 1.6%.
constexpr Costs kIntelAvx512[] = {
    {2.81e+03, 0, 12.5, 0, 0.011, 0.238, 0.021, 0.487, 0.0124},           // winograd
    {1.26e+03, 0, 0, 3.47, 0.00925, 0.267, 0, 0.0958, 0},                 // depth_to_space
    {848, 4.05, 0.462, 55.6, 0.0148, 0.297, 0, 0.159, 0.0106},            // disjoint_windows
    {476, 14.9, 7.39, 10.4, 0.0152, 0.142, 0.063, 0, 0.0168},             // sliding_rows
    {3.74e+03, 0, 3.27, 43, 0.0108, 0.0686, 0, 0.657, 0.0103},            // tapwise
    {912, 36.3, 1.67, 5.71, 0.0128, 0.0305, 0, 0.202, 0.013},             // channel_lanes
    {1.19e+03, 44.5, 1.74, 1.61, 0.0148, 0.0304, 0.891, 0.0648, 0.0131},  // depthwise
    {1.11e+03, 20, 7.12, 73.2, 0.0129, 0.146, 0.0555, 0.169, 0.0174},     // phases
    {1.03e+03, 87.4, 1.6, 11.9, 0.0117, 0.31, 0.174, 0.322, 0.0139},      // gemm_col2im
    {100, 0, 0.616, 179, 0.0189, 0.254, 0.175, 0.0477, 0.0139},           // columns
    {3.09e+03, 0, 13.1, 60.4, 0.0216, 0.0872, 0, 0.00713, 0.058},         // im2col
    {1.38e+03, 40.5, 3.26, 45.6, 0.0182, 0.0212, 0.105, 0.206, 0.0287},   // col2im
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
  static_assert(std::size(kAvx2) == kWays && std::size(kAvx512) == kWays && std::size(kIntelAvx512) == kWays);
  const Costs* table = !arch.avx512 ? kAvx2 : arch.slow_l3 ? kIntelAvx512 : kAvx512;
  const Costs& c = table[static_cast<int>(way)];
  const Scale& scale = arch.avx512 ? kSame : scale_of(arch);
  const double wide = dtype == DataType::kDouble ? 2 : 1;  // vectors hold half as many doubles
  constexpr double kOf16Bits = 0.6;                        // of a float's bytes
  const double bytes = size_of(dtype) < sizeof(float) ? kOf16Bits : wide;
  const double in_vectors = c.copied * w.copied + c.added * w.added + c.stored * w.stored;
  return c.run + c.item * w.items + c.step * w.steps + c.call * w.calls +
         c.product * w.products * wide * scale.products + in_vectors * wide * scale.vectors +
         c.far * (w.far_weights * wide + w.far * bytes);
}

}  // namespace ortconv::implementations

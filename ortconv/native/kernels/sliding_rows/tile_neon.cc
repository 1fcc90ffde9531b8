#if defined(__aarch64__)

#include <arm_neon.h>

#include "kernels/sliding_rows/tile_loops.h"
#include "kernels/vector_neon.h"

namespace ortconv::kernels::sliding_rows {
namespace {

struct Doubles {
  using Cell = double;
  using Vector = float64x2_t;
  static constexpr int64_t kLanes = 2;

  static Vector zero() { return vdupq_n_f64(0); }
  static Vector broadcast(double value) { return vdupq_n_f64(value); }
  static Vector load(const double* from) { return vld1q_f64(from); }
  static void store(double* to, Vector v) { vst1q_f64(to, v); }
  static void store_first(int64_t, double* to, Vector v) { vst1q_lane_f64(to, v, 0); }
  static Vector add(Vector a, Vector b) { return vaddq_f64(a, b); }
  static Vector multiply_add(Vector a, Vector b, Vector c) { return vfmaq_f64(c, a, b); }
};

}  // namespace

extern const TileKernel kTile_neon;
const TileKernel kTile_neon = tile_kernel<neon::Floats, Doubles, 32>("sliding_rows_neon");

}  // namespace ortconv::kernels::sliding_rows

#endif

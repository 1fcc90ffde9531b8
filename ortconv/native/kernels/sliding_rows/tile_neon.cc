#if defined(__aarch64__)

#include <arm_neon.h>

#include "kernels/sliding_rows/tile_loops.h"
#include "kernels/vector_neon.h"

namespace ortconv::kernels::sliding_rows {
namespace {

struct Floats {
  using Cell = float;
  using Vector = float32x4_t;
  static constexpr int64_t kLanes = 4;

  static Vector zero() { return vdupq_n_f32(0); }
  static Vector broadcast(float value) { return vdupq_n_f32(value); }
  static Vector load(const float* from) { return vld1q_f32(from); }
  template <class Out>
  static void store(Out* to, Vector v) {
    neon::store(to, v);
  }
  template <class Out>
  static void store_first(int64_t n, Out* to, Vector v) {
    Out lanes[kLanes];
    store(lanes, v);
    std::copy_n(lanes, n, to);
  }
  static Vector add(Vector a, Vector b) { return vaddq_f32(a, b); }
  static Vector multiply_add(Vector a, Vector b, Vector c) { return vfmaq_f32(c, a, b); }
};

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
const TileKernel kTile_neon = tile_kernel<Floats, Doubles, 32>("sliding_rows_neon");

}  // namespace ortconv::kernels::sliding_rows

#endif

#include "kernels/sliding_rows/tile_loops.h"

namespace ortconv::kernels::sliding_rows {
namespace {

// Loops that compilers make vectors of.
template <class T>
struct Vectors {
  using Cell = T;
  static constexpr int64_t kLanes = 16 / static_cast<int64_t>(sizeof(T));
  struct Vector {
    T lane[kLanes];
  };

  static Vector broadcast(T value) {
    Vector v;
    std::fill_n(v.lane, kLanes, value);
    return v;
  }
  static Vector zero() { return broadcast(0); }
  static Vector load(const T* from) {
    Vector v;
    std::copy_n(from, kLanes, v.lane);
    return v;
  }
  template <class Out>
  static void store(Out* to, const Vector& v) {
    store_first(kLanes, to, v);
  }
  template <class Out>
  static void store_first(int64_t n, Out* to, const Vector& v) {
    for (int64_t i = 0; i < n; ++i) round_to(to + i, v.lane[i]);
  }
  static Vector add(const Vector& a, const Vector& b) {
    Vector v;
    for (int64_t i = 0; i < kLanes; ++i) v.lane[i] = a.lane[i] + b.lane[i];
    return v;
  }
  static Vector multiply_add(const Vector& a, const Vector& b, const Vector& c) {
    Vector v;
    for (int64_t i = 0; i < kLanes; ++i) v.lane[i] = a.lane[i] * b.lane[i] + c.lane[i];
    return v;
  }
};

}  // namespace

extern const TileKernel kTile_generic;
const TileKernel kTile_generic = tile_kernel<Vectors<float>, Vectors<double>, 16>("sliding_rows_generic");

}  // namespace ortconv::kernels::sliding_rows

#include "kernels/sliding_rows/tile_loops.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels::sliding_rows {
namespace {

template <class T>
struct Vectors {
  using Cell = T;
  using Vector = decltype(avx2::zero<T>());
  static constexpr int64_t kLanes = avx2::kLanes<T>;

  static Vector zero() { return avx2::zero<T>(); }
  static Vector broadcast(T value) { return avx2::broadcast(value); }
  static Vector load(const T* from) { return avx2::load(from); }
  static void store(T* to, Vector v) { avx2::store(to, v); }
  static void store_first(int64_t n, T* to, Vector v) {
    T lanes[kLanes];
    avx2::store(lanes, v);
    std::copy_n(lanes, n, to);
  }
  static Vector add(Vector a, Vector b) { return avx2::add(a, b); }
  static Vector multiply_add(Vector a, Vector b, Vector c) { return avx2::multiply_add(a, b, c); }
};

}  // namespace

extern const TileKernel kTile_avx2;
const TileKernel kTile_avx2 = tile_kernel<Vectors<float>, Vectors<double>, 16>("sliding_rows_avx2");

}  // namespace ortconv::kernels::sliding_rows

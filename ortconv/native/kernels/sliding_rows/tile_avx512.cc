#include "kernels/sliding_rows/tile_loops.h"
#include "kernels/vector_avx512.h"

namespace ortconv::kernels::sliding_rows {
namespace {

template <class T>
struct Vectors {
  using Cell = T;
  using Vector = decltype(avx512::zero<T>());
  static constexpr int64_t kLanes = avx512::kLanes<T>;

  static Vector zero() { return avx512::zero<T>(); }
  static Vector broadcast(T value) { return avx512::broadcast(value); }
  static Vector load(const T* from) { return avx512::load(from); }
  static void store(T* to, Vector v) { avx512::store(to, v); }
  static void store_first(int64_t n, T* to, Vector v) { avx512::store(avx512::first<T>(n), to, v); }
  static Vector add(Vector a, Vector b) { return avx512::add(a, b); }
  static Vector multiply_add(Vector a, Vector b, Vector c) { return avx512::multiply_add(a, b, c); }
};

}  // namespace

extern const TileKernel kTile_avx512;
const TileKernel kTile_avx512 = tile_kernel<Vectors<float>, Vectors<double>, 32>("sliding_rows_avx512");

}  // namespace ortconv::kernels::sliding_rows

#include "kernels/dots/dots_loops.h"
#include "kernels/vector_avx512.h"

namespace ortconv::kernels {
namespace {

inline float sum_of(__m512 v) { return _mm512_reduce_add_ps(v); }
inline double sum_of(__m512d v) { return _mm512_reduce_add_pd(v); }

template <class T>
struct Vectors {
  using Cell = T;
  using Vector = decltype(avx512::zero<T>());
  static constexpr int64_t kLanes = avx512::kLanes<T>;

  static Vector zero() { return avx512::zero<T>(); }
  static Vector load(const T* from) { return avx512::load(from); }
  static Vector load_first(int64_t n, const T* from) { return avx512::load(avx512::first<T>(n), from); }
  static Vector add(Vector a, Vector b) { return avx512::add(a, b); }
  static Vector multiply_add(Vector a, Vector b, Vector c) { return avx512::multiply_add(a, b, c); }
  static T sum(Vector v) { return sum_of(v); }
};

}  // namespace

template <class T>
void dots_avx512(const DotsArgs<T>& args) {
  dots<Vectors<T>>(args);
}

#define INSTANTIATE(T) template void dots_avx512(const DotsArgs<T>&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace ortconv::kernels

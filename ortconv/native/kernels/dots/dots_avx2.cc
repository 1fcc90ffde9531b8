#include "kernels/dots/dots_loops.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels {
namespace {

inline float sum_of(__m256 v) {
  __m128 half = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  half = _mm_add_ps(half, _mm_movehl_ps(half, half));
  return _mm_cvtss_f32(_mm_add_ss(half, _mm_movehdup_ps(half)));
}
inline double sum_of(__m256d v) {
  const __m128d half = _mm_add_pd(_mm256_castpd256_pd128(v), _mm256_extractf128_pd(v, 1));
  return _mm_cvtsd_f64(_mm_add_sd(half, _mm_unpackhi_pd(half, half)));
}

template <class T>
struct Vectors {
  using Cell = T;
  using Vector = decltype(avx2::zero<T>());
  static constexpr int64_t kLanes = avx2::kLanes<T>;

  static Vector zero() { return avx2::zero<T>(); }
  static Vector load(const T* from) { return avx2::load(from); }
  static Vector load_first(int64_t n, const T* from) { return avx2::load_first(n, from); }
  static Vector add(Vector a, Vector b) { return avx2::add(a, b); }
  static Vector multiply_add(Vector a, Vector b, Vector c) { return avx2::multiply_add(a, b, c); }
  static T sum(Vector v) { return sum_of(v); }
};

}  // namespace

template <class T>
void dots_avx2(const DotsArgs<T>& args) {
  dots<Vectors<T>>(args);
}

#define INSTANTIATE(T) template void dots_avx2(const DotsArgs<T>&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace ortconv::kernels

#include "kernels/depthwise/depthwise_loops.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels {
namespace {

__m256i first(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

struct Floats {
  using Cell = float;
  using Vector = __m256;
  static constexpr int64_t kLanes = 8;
  static constexpr int kRegisters = 16;
  using Normal = void;

  static Vector zero() { return _mm256_setzero_ps(); }
  static Vector broadcast(float value) { return avx2::broadcast(value); }
  static Vector load(const float* from) { return avx2::load(from); }
  using Index = __m256i;
  static Index load_index(const int32_t* index) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(index)); }
  static Vector pick(const float* from, Index lanes) { return _mm256_permutevar8x32_ps(avx2::load(from), lanes); }
  static Vector pick(const float* from, const int32_t* index) {
    const Index lanes = load_index(index);
    const __m256i none = _mm256_srai_epi32(lanes, 31);
    return _mm256_andnot_ps(_mm256_castsi256_ps(none), pick(from, lanes));
  }
  static Vector add(Vector a, Vector b) { return avx2::add(a, b); }
  static Vector multiply_add(Vector a, Vector b, Vector c) { return avx2::multiply_add(a, b, c); }
  template <class T>
  static void store(T* to, Vector v) {
    avx2::store(to, v);
  }
  template <class T>
  static void stream(T* to, Vector v) {
    avx2::store(to, v);
  }
  static void store_first(int64_t n, float* to, Vector v) { _mm256_maskstore_ps(to, first(n), v); }
  template <class T>
  static void store_first(int64_t n, T* to, Vector v) {
    T lanes[kLanes];
    avx2::store(lanes, v);
    std::copy_n(lanes, n, to);
  }
};

struct Doubles {
  using Cell = double;
  using Vector = __m256d;
  static constexpr int64_t kLanes = 4;
  static constexpr int kRegisters = 16;
  using Normal = void;

  static Vector zero() { return _mm256_setzero_pd(); }
  static Vector broadcast(double value) { return avx2::broadcast(value); }
  static Vector load(const double* from) { return avx2::load(from); }
  using Index = __m256i;  // of the two halves of each element
  static Index load_index(const int32_t* index) { return halves_of(lanes_of(index)); }
  static Vector pick(const double* from, Index halves) {
    return _mm256_castps_pd(_mm256_permutevar8x32_ps(_mm256_castpd_ps(avx2::load(from)), halves));
  }
  static Vector pick(const double* from, const int32_t* index) {
    const __m256i lanes = lanes_of(index);
    const __m256i none = _mm256_cmpgt_epi64(_mm256_setzero_si256(), lanes);
    return _mm256_andnot_pd(_mm256_castsi256_pd(none), pick(from, halves_of(lanes)));
  }
  static Vector add(Vector a, Vector b) { return avx2::add(a, b); }
  static Vector multiply_add(Vector a, Vector b, Vector c) { return avx2::multiply_add(a, b, c); }
  static void store(double* to, Vector v) { avx2::store(to, v); }
  static void stream(double* to, Vector v) { avx2::store(to, v); }
  static void store_first(int64_t n, double* to, Vector v) {
    _mm256_maskstore_pd(to, _mm256_cvtepi32_epi64(_mm256_castsi256_si128(first(n))), v);
  }

 private:
  static __m256i lanes_of(const int32_t* index) {
    return _mm256_cvtepi32_epi64(_mm_loadu_si128(reinterpret_cast<const __m128i*>(index)));
  }
  static __m256i halves_of(__m256i lanes) {
    const __m256i low = _mm256_add_epi64(lanes, lanes);
    return _mm256_or_si256(low, _mm256_slli_epi64(_mm256_add_epi64(low, _mm256_set1_epi64x(1)), 32));
  }
};

}  // namespace

extern const DepthwiseKernel kDepthwise_avx2;
const DepthwiseKernel kDepthwise_avx2 = depthwise_kernel<Floats, Doubles>("depthwise_avx2");

}  // namespace ortconv::kernels

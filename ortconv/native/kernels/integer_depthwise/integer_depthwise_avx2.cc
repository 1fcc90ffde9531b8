#include <immintrin.h>

#include <cstdint>
#include <cstring>

#include "kernels/integer_depthwise/integer_depthwise.h"
#include "kernels/integer_result/result_vector_avx2.h"
#include "kernels/unroll.h"

namespace ortconv::kernels {
namespace {

constexpr int kLanes = 8;

template <int kBytes>
void widen_some(const uint8_t* x, __m128i flips, int16_t* out) {
  const auto* const from = reinterpret_cast<const __m128i*>(x);
  const __m128i bytes = kBytes == 16 ? _mm_loadu_si128(from) : _mm_loadl_epi64(from);
  const __m256i numbers = _mm256_cvtepu8_epi16(_mm_xor_si128(bytes, flips));
  if (kBytes == 16) return _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), numbers);
  _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm256_castsi256_si128(numbers));
}

void widen_row(const uint8_t* x, uint8_t flip, int64_t count, int16_t* out) {
  constexpr int kMost = 16, kFew = 8;
  const __m128i flips = _mm_set1_epi8(static_cast<char>(flip));
  int64_t i = 0;
  for (; i + kMost <= count; i += kMost) widen_some<kMost>(x + i, flips, out + i);
  if (i + kFew <= count) widen_some<kFew>(x + i, flips, out + i), i += kFew;
  if (i == count) return;
  if (count >= kFew) return widen_some<kFew>(x + count - kFew, flips, out + count - kFew);
  for (; i < count; ++i) out[i] = static_cast<int16_t>(x[i] ^ flip);
}

void widen(const IntegerDepthwiseSource& a) {
  int16_t* out = a.out;
  for (int64_t row = 0; row < a.rows; ++row, out += a.pitch) {
    int64_t i = 0;
    for (; i < a.before; ++i) out[i] = a.zero;
    widen_row(a.x + row * a.x_stride, a.flip, a.count, out + i);
    for (i += a.count; i < a.pitch; ++i) out[i] = a.zero;
  }
}

// Where vector j of a block reads, from the first number of a window on. With a step of 1, two vectors have the outputs
// at even and at odd places: each lane reads two neighbours.
template <int kStep>
constexpr int64_t offset_of(int j) {
  return kStep == 2 ? j * 2 * kLanes : j / 2 * 2 * kLanes + j % 2;
}

// The vectors of outputs at even and at odd places, in order.
inline void interleave(__m256i* even, __m256i* odd) {
  const __m256i low = _mm256_unpacklo_epi32(*even, *odd), high = _mm256_unpackhi_epi32(*even, *odd);
  *even = _mm256_permute2x128_si256(low, high, 0x20);
  *odd = _mm256_permute2x128_si256(low, high, 0x31);
}

// The results of a block of kCount vectors, which are stored at `at`. Where `count` are fewer, no more are.
template <class Real, int kCount>
struct Block {
  static constexpr int64_t kOutputs = kCount * kLanes;

  const IntegerDepthwiseRows& rows;
  const Real& real_of;
  const avx2::QuantizedVector& bytes_of;
  int64_t at, count;

  void store(const __m256i* sums) const {
    const IntegerResultArgs& a = rows.result;
    __m256 real[kCount];
    if (a.biases == nullptr) {
      ORTCONV_UNROLL
      for (int j = 0; j < kCount; ++j) real[j] = real_of(sums[j], _mm256_broadcast_ss(&a.bias));
    } else {
      real_with_biases(sums, real);
    }
    if (rows.type == ResultType::kFloat) return store_floats(real);
    if (count >= kOutputs) return store_bytes(real, static_cast<unsigned char*>(a.y) + at);
    unsigned char some[kOutputs];
    store_bytes(real, some);
    std::memcpy(static_cast<unsigned char*>(a.y) + at, some, static_cast<size_t>(count));
  }

 private:
  void real_with_biases(const __m256i* sums, __m256* real) const {
    float some[kOutputs] = {};
    const float* biases = rows.result.biases + at;
    if (count < kOutputs) {
      std::memcpy(some, biases, static_cast<size_t>(count) * sizeof(float));
      biases = some;
    }
    for (int j = 0; j < kCount; ++j) real[j] = real_of(sums[j], _mm256_loadu_ps(biases + j * kLanes));
  }

  void store_bytes(const __m256* real, unsigned char* y) const {
    if constexpr (kCount == 4) {
      const __m256i bytes = bytes_of(real[0], real[1], real[2], real[3]);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(y), bytes);
    } else {
      _mm_storeu_si128(reinterpret_cast<__m128i*>(y), bytes_of(real[0], real[1]));
    }
  }

  void store_floats(const __m256* real) const {
    float some[kOutputs];
    float* const y = static_cast<float*>(rows.result.y) + at;
    float* const out = count < kOutputs ? some : y;
    for (int j = 0; j < kCount; ++j) _mm256_storeu_ps(out + j * kLanes, real[j]);
    if (count < kOutputs) std::memcpy(y, some, static_cast<size_t>(count) * sizeof(float));
  }
};

// kCount vectors of outputs from `src` on. What is stored at `at` goes on in the next row, which is computed later.
template <int kStep, int kCount, class Real>
ORTCONV_ALWAYS_INLINE inline void compute(const IntegerDepthwiseRows& a, const Real& real_of,
                                          const avx2::QuantizedVector& bytes_of, const int16_t* src, int64_t at) {
  __m256i sums[kCount];
  ORTCONV_UNROLL
  for (int j = 0; j < kCount; ++j) sums[j] = _mm256_set1_epi32(a.correction);
  for (int64_t w = 0; w < a.window_count; ++w) {
    const __m256i weights = _mm256_set1_epi32(static_cast<int>(a.weights[w]));
    const int16_t* from = src + a.windows[w];
    ORTCONV_KEEP_POINTER(from);
    ORTCONV_UNROLL
    for (int j = 0; j < kCount; ++j) {
      const __m256i x = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from + offset_of<kStep>(j)));
      sums[j] = _mm256_add_epi32(sums[j], _mm256_madd_epi16(x, weights));
      ORTCONV_KEEP(sums[j]);
    }
  }
  if (kStep == 1) {
    ORTCONV_UNROLL
    for (int j = 0; j < kCount; j += 2) interleave(&sums[j], &sums[j + 1]);
  }
  Block<Real, kCount>{a, real_of, bytes_of, at, a.rows * a.width - at}.store(sums);
}

template <int kStep, bool kIsPlain>
void rows_of(const IntegerDepthwiseRows& a) {
  constexpr int kMost = 4, kFew = 2;
  const avx2::RealVector<kIsPlain> real_of(a.result);
  const avx2::QuantizedVector bytes_of(a.result.y_scale, a.result.y_zero, a.type);
  for (int64_t row = 0; row < a.rows; ++row) {
    const int16_t* const src = a.src + row * a.src_stride;
    int64_t i = 0;
    for (; a.width - i > kFew * kLanes; i += kMost * kLanes) {
      compute<kStep, kMost>(a, real_of, bytes_of, src + i * kStep, row * a.width + i);
    }
    if (i < a.width) compute<kStep, kFew>(a, real_of, bytes_of, src + i * kStep, row * a.width + i);
  }
}

void rows(const IntegerDepthwiseRows& a) {
  if (a.result.is_plain(a.type)) return a.step == 1 ? rows_of<1, true>(a) : rows_of<2, true>(a);
  return a.step == 1 ? rows_of<1, false>(a) : rows_of<2, false>(a);
}

}  // namespace

extern const IntegerDepthwiseKernel k_integer_depthwise_avx2;
const IntegerDepthwiseKernel k_integer_depthwise_avx2 = {"integer_depthwise_avx2", widen, rows};

}  // namespace ortconv::kernels

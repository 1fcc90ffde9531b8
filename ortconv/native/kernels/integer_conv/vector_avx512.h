// What the kernels with vectors of AVX-512 have in common. Only for files named after it.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/integer_conv/kernel.h"
#include "kernels/integer_result/result_vector_avx512.h"
#include "kernels/unroll.h"

namespace ortconv::kernels::avx512 {
#if defined(__AVX512VNNI__)
inline namespace with_vnni {  // not the same code as in files for plain AVX-512
#endif

struct IntegerVector {
  static constexpr int kLanes = 16, kRows = 8, kVectors = 3;
  static constexpr bool kSaturates = false, kStoresResults = true;
  using Int = __m512i;

  static Int zero() { return _mm512_setzero_si512(); }
  static Int load(const uint32_t* p) { return _mm512_loadu_si512(p); }
  static Int broadcast(uint32_t value) { return _mm512_set1_epi32(static_cast<int>(value)); }
  static Int halves(uint32_t a, uint32_t b) {
    return _mm512_mask_set1_epi32(broadcast(a), 0xff00, static_cast<int>(b));
  }
  static Int half(const uint32_t* p) {
    return _mm512_zextsi256_si512(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  static void prefetch(const uint32_t* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }
  static void keep([[maybe_unused]] Int& x) { ORTCONV_KEEP(x); }
  static Int less_product(Int sum, Int a, int32_t b) {
    return _mm512_sub_epi32(sum, _mm512_mullo_epi32(a, _mm512_set1_epi32(b)));
  }
  static void store(int32_t* p, Int sum) { _mm512_storeu_si512(p, sum); }
  static void finish(Int sum, const IntegerChannel& channel, const PositionVector& position, float* y) {
    const __m512 number = _mm512_cvtepi32_ps(_mm512_add_epi32(sum, _mm512_set1_epi32(channel.correction)));
    const __m512 result = _mm512_fmadd_ps(number, _mm512_set1_ps(channel.scale), _mm512_set1_ps(channel.bias));
    float* const out = y + position.dst;
    if (position.count == kLanes) {
      _mm512_storeu_ps(out, result);
    } else {
      const auto lanes = static_cast<__mmask16>(position.lanes);
      _mm512_mask_storeu_ps(out, first(position.count), _mm512_maskz_compress_ps(lanes, result));
    }
  }

  // Stores the bytes of IntegerTileResults.
  template <bool kIsPlain>
  class ByteTiles {
   public:
    explicit ByteTiles(const IntegerTileArgs& a)
        : results_(*a.results),
          y_(results_.y),
          bytes_of_(results_.rows->y_scale, results_.rows->y_zero, results_.type) {}

    template <int kCount>
    void store(const IntegerTileArgs& a, int row, const Int* sums) const {
      const IntegerResultArgs& args = results_.rows[row];
      const Int correction = _mm512_set1_epi32(a.channels[row].correction);
      const __m512 scale = _mm512_set1_ps(args.scale), bias = _mm512_set1_ps(args.bias);
      const float* const biases = args.biases == nullptr ? nullptr : args.biases + (y_ - results_.y);
      __m512 values[kCount];
      ORTCONV_UNROLL
      for (int j = 0; j < kCount; ++j) {
        const __m512 of_element = biases == nullptr ? bias : _mm512_loadu_ps(biases + j * kLanes);
        const __m512 number = _mm512_cvtepi32_ps(_mm512_add_epi32(sums[j], correction));
        values[j] = _mm512_add_ps(_mm512_mul_ps(number, scale), of_element);
      }
      if (!kIsPlain) finish(args, values);
      unsigned char* const y = y_ + row * results_.y_stride;
      ORTCONV_UNROLL
      for (int j = 0; j < kCount; ++j) {
        _mm_storeu_si128(reinterpret_cast<__m128i*>(y + j * kLanes), bytes_of_(values[j]));
      }
    }

    void next() { y_ += kVectors * kLanes; }

   private:
    // What follows the bias.
    template <int kCount>
    static void finish(const IntegerResultArgs& args, __m512 (&values)[kCount]) {
      activate(args.activation, values);
      if (!args.is_affine || (args.factor == 1 && args.addend == 0)) return;
      const __m512 factor = _mm512_set1_ps(args.factor), addend = _mm512_set1_ps(args.addend);
      ORTCONV_UNROLL
      for (__m512& v : values) v = _mm512_add_ps(_mm512_mul_ps(v, factor), addend);
    }

    const IntegerTileResults& results_;
    unsigned char* y_;
    const QuantizedVector bytes_of_;
  };

  // Loads the bytes of a copy, kStride apart, or `stride` apart where kStride is 0.
  template <int kStride>
  static __m128i take(const uint8_t* channel, const IntegerCopy& copy, int64_t stride) {
    const uint8_t* const p = channel + copy.src;
    if constexpr (kStride == 1) {
      if (copy.count == kLanes) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
      return _mm_maskz_loadu_epi8(first(copy.count), p);
    }
    if constexpr (kStride == 2) {
      const __mmask32 bytes = static_cast<__mmask32>((uint64_t{1} << (2 * copy.count)) - 1) >> 1;
      return _mm256_cvtepi16_epi8(_mm256_maskz_loadu_epi8(bytes, p));
    }
    uint8_t all[kLanes] = {};
    for (int i = 0; i < copy.count; ++i) all[i] = p[i * stride];
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(all));
  }

  // Byte j of each quarter in lane j, that of the first quarter in the lowest bits.
  static Int lanes_of(Int quarters) {
    const Int dwords = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m128i bytes = _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_shuffle_epi8(_mm512_permutexvar_epi32(dwords, quarters), _mm512_broadcast_i32x4(bytes));
  }

  // Each byte in a lane of its own.
  static Int widened(__m128i bytes) { return _mm512_cvtepu8_epi32(bytes); }

  // Moves the numbers to their lanes, and puts padding into the others.
  static Int spaced(const IntegerCopy& copy, Int numbers, Int padding) {
    if (copy.count == kLanes) return numbers;
    return _mm512_mask_expand_epi32(padding, static_cast<__mmask16>(copy.lanes), numbers);
  }

  // Writes the lanes of a copy.
  static void put(const IntegerCopyArgs& args, const IntegerCopy& copy, Int lanes) {
    uint32_t* const out = static_cast<uint32_t*>(args.out) + copy.dst;
    if (copy.stored == kLanes) {
      _mm512_storeu_si512(out, lanes);
    } else {
      _mm512_mask_storeu_epi32(out, first(copy.stored), lanes);
    }
  }

  // Calls fn with the stride as a constant; 0 stands for any other stride.
  template <class Fn>
  static void with_stride(int64_t stride, Fn fn) {
    if (stride == 1) return fn(Constant<1>());
    if (stride == 2) return fn(Constant<2>());
    return fn(Constant<0>());
  }
  template <int kValue>
  struct Constant {
    static constexpr int value = kValue;
  };

  // A mask of the first n lanes.
  static __mmask16 first(int64_t n) { return static_cast<__mmask16>(n >= kLanes ? 0xffff : (1u << n) - 1); }
};

#if defined(__AVX512VNNI__)
}  // namespace with_vnni
#endif
}  // namespace ortconv::kernels::avx512

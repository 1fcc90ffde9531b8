// What the kernels with vectors of AVX2 have in common. Only for files named after it.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/integer_conv/kernel.h"
#include "kernels/integer_conv/rest.h"
#include "kernels/integer_result/result_vector_avx2.h"
#include "kernels/unroll.h"

namespace ortconv::kernels::avx2 {
#if defined(__AVXVNNI__)
inline namespace with_vnni {  // not the same code as in files for plain AVX2
#endif

struct IntegerVector {
  static constexpr int kLanes = 8, kRows = 4, kVectors = 2;
  static constexpr bool kSaturates = false, kStoresResults = true;
  using Int = __m256i;

  static Int zero() { return _mm256_setzero_si256(); }
  static Int load(const uint32_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
  static Int broadcast(uint32_t value) { return _mm256_set1_epi32(static_cast<int>(value)); }
  static Int halves(uint32_t a, uint32_t b) { return _mm256_blend_epi32(broadcast(a), broadcast(b), 0xf0); }
  static Int half(const uint32_t* p) {
    return _mm256_zextsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static void prefetch(const uint32_t* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }
  static void keep([[maybe_unused]] Int& x) { ORTCONV_KEEP(x); }
  static Int less_product(Int sum, Int a, int32_t b) {
    return _mm256_sub_epi32(sum, _mm256_mullo_epi32(a, _mm256_set1_epi32(b)));
  }
  static void store(int32_t* p, Int sum) { _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), sum); }
  static void finish(Int sum, const IntegerChannel& channel, const PositionVector& position, float* y) {
    const __m256 number = _mm256_cvtepi32_ps(_mm256_add_epi32(sum, _mm256_set1_epi32(channel.correction)));
    const __m256 result = _mm256_fmadd_ps(number, _mm256_set1_ps(channel.scale), _mm256_set1_ps(channel.bias));
    float* out = y + position.dst;
    if (position.count == kLanes) {
      _mm256_storeu_ps(out, result);
      return;
    }
    float all[kLanes];
    _mm256_storeu_ps(all, result);
    for (int i = 0; i < kLanes; ++i) {
      if ((position.lanes >> i & 1) != 0) *out++ = all[i];
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
      const RealVector<kIsPlain> real_of(args);
      const Int correction = _mm256_set1_epi32(a.channels[row].correction);
      const auto real = [&](int j) {
        const __m256 bias = args.biases == nullptr ? _mm256_set1_ps(args.bias)
                                                   : _mm256_loadu_ps(args.biases + (y_ - results_.y) + j * kLanes);
        return real_of(_mm256_add_epi32(sums[j], correction), bias);
      };
      auto* const y = reinterpret_cast<__m128i*>(y_ + row * results_.y_stride);
      const __m256 first = real(0);
      if constexpr (kCount == 1) {
        _mm_storel_epi64(y, bytes_of_(first, first));
      } else {
        _mm_storeu_si128(y, bytes_of_(first, real(1)));
      }
    }

    void next() { y_ += kVectors * kLanes; }

   private:
    const IntegerTileResults& results_;
    unsigned char* y_;
    const QuantizedVector bytes_of_;
  };

  // Whether one vector load reads everything that a copy needs, without reading beyond the channel.
  static bool is_whole(const IntegerCopyArgs& args, const IntegerCopy& copy) {
    if (copy.lead < 0 || copy.stored < kLanes || args.stride > 2) return false;
    const int64_t begin = copy.src - copy.lead * args.stride;
    return begin >= 0 && begin + kLanes * args.stride <= args.size;
  }

  // The bytes of such a copy, each in its lane.
  static Int bytes(const IntegerCopyArgs& args, int channel, const IntegerCopy& copy) {
    const auto* const p = reinterpret_cast<const __m128i*>(args.channels[channel] + copy.src - copy.lead * args.stride);
    if (args.stride == 1) return _mm256_cvtepu8_epi32(_mm_loadl_epi64(p));
    return _mm256_cvtepu16_epi32(_mm_and_si128(_mm_loadu_si128(p), _mm_set1_epi16(0xff)));
  }

  // Puts padding into the lanes that the source does not fill.
  static Int padded(const IntegerCopy& copy, Int numbers, Int padding) {
    if (copy.count == kLanes) return numbers;
    const Int bits = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const Int given = _mm256_and_si256(broadcast(copy.lanes), bits);
    return _mm256_blendv_epi8(padding, numbers, _mm256_cmpeq_epi32(given, bits));
  }

  // To signed 16-bit numbers; each has to fit.
  static __m128i narrow(Int numbers) {
    return _mm_packs_epi32(_mm256_castsi256_si128(numbers), _mm256_extracti128_si256(numbers, 1));
  }
};

// Lanes of four bytes, as AVX-VNNI and pairs of 16-bit sums take them.
struct ByteVector : IntegerVector {
  static constexpr int kDepth = 4;
  using Number = uint8_t;

  template <int kStep>
  static Int spread(const uint8_t* p) {
    const __m128i from = kStep == 1 ? _mm_setr_epi8(0, 1, 2, 3, 1, 2, 3, 4, 2, 3, 4, 5, 3, 4, 5, 6)
                                    : _mm_setr_epi8(0, 1, 2, 3, 2, 3, 4, 5, 4, 5, 6, 7, 6, 7, 8, 9);
    // The upper four lanes begin there.
    const __m128i low = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    const __m128i high = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p + 4 * kStep));
    return _mm256_shuffle_epi8(_mm256_inserti128_si256(_mm256_castsi128_si256(low), high, 1),
                               _mm256_broadcastsi128_si256(from));
  }

  static void interleave(const IntegerCopyArgs& args) {
    const Int flip = _mm256_set1_epi8(static_cast<char>(args.shift.flip));
    const uint32_t padding = static_cast<uint32_t>(args.shift.zero) * 0x01010101u;
    auto* const out = static_cast<uint32_t*>(args.out);
    for (int64_t i = 0; i < args.count; ++i) {
      const IntegerCopy& copy = args.copies[i];
      if (!is_whole(args, copy)) {
        copy_numbers(copy, args.stride, padding, out, [&](int64_t at) {
          uint32_t lane = 0;
          for (int c = kDepth; c-- > 0;) lane = lane << 8 | flipped(args, c, at);
          return lane;
        });
        continue;
      }
      const Int all = _mm256_xor_si256(lanes(args, copy), flip);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + copy.dst), padded(copy, all, broadcast(padding)));
    }
  }

  static void widen(const IntegerCopyArgs& args) {
    const Int flip = _mm256_set1_epi32(args.shift.flip), padding = _mm256_set1_epi32(args.shift.zero);
    auto* const out = static_cast<uint8_t*>(args.out);
    for (int64_t i = 0; i < args.count; ++i) {
      const IntegerCopy& copy = args.copies[i];
      if (!is_whole(args, copy)) {
        copy_numbers(copy, args.stride, static_cast<uint8_t>(args.shift.zero), out,
                     [&](int64_t at) { return flipped(args, 0, at); });
        continue;
      }
      const Int numbers = padded(copy, _mm256_xor_si256(bytes(args, 0, copy), flip), padding);
      const __m128i words = narrow(numbers);
      _mm_storel_epi64(reinterpret_cast<__m128i*>(out + copy.dst), _mm_packus_epi16(words, words));
    }
  }

 private:
  // The lanes of such a copy.
  static Int lanes(const IntegerCopyArgs& args, const IntegerCopy& copy) {
    if (args.stride != 1) {
      const Int low = _mm256_or_si256(bytes(args, 0, copy), _mm256_slli_epi32(bytes(args, 1, copy), 8));
      const Int high = _mm256_or_si256(bytes(args, 2, copy), _mm256_slli_epi32(bytes(args, 3, copy), 8));
      return _mm256_or_si256(low, _mm256_slli_epi32(high, 16));
    }
    const auto channel = [&](int c) {
      return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(args.channels[c] + copy.src - copy.lead));
    };
    const __m128i low = _mm_unpacklo_epi8(channel(0), channel(1)), high = _mm_unpacklo_epi8(channel(2), channel(3));
    return _mm256_set_m128i(_mm_unpackhi_epi16(low, high), _mm_unpacklo_epi16(low, high));
  }

  static uint8_t flipped(const IntegerCopyArgs& args, int channel, int64_t at) {
    return static_cast<uint8_t>(args.channels[channel][at] ^ args.shift.flip);
  }
};

#if defined(__AVXVNNI__)
}  // namespace with_vnni
#endif
}  // namespace ortconv::kernels::avx2

// What the kernels with vectors of AVX-512 have in common. Only for files named after it.
#pragma once

#include <immintrin.h>

#include <cstdint>

#include "kernels/integer_conv/kernel.h"
#include "kernels/unroll.h"

namespace ortconv::kernels::avx512 {
#if defined(__AVX512VNNI__)
inline namespace with_vnni {  // not the same code as in files for plain AVX-512
#endif

struct IntegerVector {
  static constexpr int kLanes = 16, kRows = 8, kVectors = 3;
  using Int = __m512i;

  static Int zero() { return _mm512_setzero_si512(); }
  static Int load(const uint32_t* p) { return _mm512_loadu_si512(p); }
  static Int broadcast(uint32_t value) { return _mm512_set1_epi32(static_cast<int>(value)); }
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

  // A mask of the first n lanes.
  static __mmask16 first(int64_t n) { return static_cast<__mmask16>(n >= kLanes ? 0xffff : (1u << n) - 1); }
};

#if defined(__AVX512VNNI__)
}  // namespace with_vnni
#endif
}  // namespace ortconv::kernels::avx512

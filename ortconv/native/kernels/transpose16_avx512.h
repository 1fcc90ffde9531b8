// Transposes 16 by 16 floats in registers. Only for files named after AVX-512.
#pragma once

#include <immintrin.h>

#include "kernels/unroll.h"

namespace ortconv::kernels::avx512 {

inline void transpose16(__m512 (&a)[16]) {
  __m512 b[16];
  // 2x2 within pairs of rows, 4x4 within quarters, then the quarters themselves.
  ORTCONV_UNROLL
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
  }
  ORTCONV_UNROLL
  for (int i = 0; i < 16; i += 4) {
    a[i] = _mm512_shuffle_ps(b[i], b[i + 2], 0x44);
    a[i + 1] = _mm512_shuffle_ps(b[i], b[i + 2], 0xee);
    a[i + 2] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0x44);
    a[i + 3] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0xee);
  }
  // a[4 q + j] holds, in quarter h, column 4 h + j of the rows 4 q ... 4 q + 3.
  ORTCONV_UNROLL
  for (int j = 0; j < 4; ++j) {
    const __m512 low01 = _mm512_shuffle_f32x4(a[j], a[4 + j], 0x44);
    const __m512 high01 = _mm512_shuffle_f32x4(a[j], a[4 + j], 0xee);
    const __m512 low23 = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0x44);
    const __m512 high23 = _mm512_shuffle_f32x4(a[8 + j], a[12 + j], 0xee);
    b[j] = _mm512_shuffle_f32x4(low01, low23, 0x88);
    b[4 + j] = _mm512_shuffle_f32x4(low01, low23, 0xdd);
    b[8 + j] = _mm512_shuffle_f32x4(high01, high23, 0x88);
    b[12 + j] = _mm512_shuffle_f32x4(high01, high23, 0xdd);
  }
  ORTCONV_UNROLL
  for (int i = 0; i < 16; ++i) a[i] = b[i];
}

}  // namespace ortconv::kernels::avx512

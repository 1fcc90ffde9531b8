// Transposing eight vectors of eight floats. Only for files that are compiled for AVX2.
#pragma once

#include <immintrin.h>

#include "kernels/unroll.h"

namespace ortconv::kernels::avx2 {

// columns[j] = the elements j of the eight rows; load(i, half) are the first or the last four elements of row i.
template <class Load>
inline void transpose8_loaded(const Load& load, __m256 columns[8]) {
  // Rows i and i + 4 share a vector, so that only shuffles within halves remain.
  ORTCONV_UNROLL
  for (int half = 0; half < 2; ++half) {
    __m256 rows[4];
    ORTCONV_UNROLL
    for (int i = 0; i < 4; ++i) {
      rows[i] = _mm256_insertf128_ps(_mm256_castps128_ps256(load(i, half)), load(i + 4, half), 1);
    }
    const __m256 t0 = _mm256_unpacklo_ps(rows[0], rows[1]), t1 = _mm256_unpackhi_ps(rows[0], rows[1]);
    const __m256 t2 = _mm256_unpacklo_ps(rows[2], rows[3]), t3 = _mm256_unpackhi_ps(rows[2], rows[3]);
    columns[4 * half] = _mm256_shuffle_ps(t0, t2, 0x44);
    columns[4 * half + 1] = _mm256_shuffle_ps(t0, t2, 0xee);
    columns[4 * half + 2] = _mm256_shuffle_ps(t1, t3, 0x44);
    columns[4 * half + 3] = _mm256_shuffle_ps(t1, t3, 0xee);
  }
}

// The same of rows in memory; row(i) is where row i begins.
template <class Row>
inline void transpose8(const Row& row, __m256 columns[8]) {
  transpose8_loaded([&](int i, int half) { return _mm_loadu_ps(row(i) + 4 * half); }, columns);
}

}  // namespace ortconv::kernels::avx2

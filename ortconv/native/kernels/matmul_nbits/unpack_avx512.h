// Panels of weights from codes, in AVX-512. Only for files named after it.
//
// 64 bytes of each of 16 rows are transposed as numbers of 32 bits: a vector then has some codes of every row, and what
// shifts bring to its lower end becomes a row of the panel.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <cstdint>
#include <limits>

#include "kernels/matmul_nbits/codes.h"
#include "kernels/matmul_nbits/dots_avx512.h"
#include "kernels/matmul_nbits/stages.h"
#include "kernels/transpose16_avx512.h"
#include "kernels/unroll.h"

namespace ortconv::kernels {
namespace {

// Rows begin with a byte, and blocks with a number of 32 bits; scales of 16 rows are gathered by offsets of 32 bits.
inline bool can_unpack(const QuantizedMatrix& matrix) {
  const int64_t codes = 32 / bits_of(matrix.code);
  if (matrix.k / matrix.block > std::numeric_limits<int32_t>::max() / 16) return false;
  return matrix.k * bits_of(matrix.code) % 8 == 0 && (matrix.block % codes == 0 || matrix.block == matrix.k);
}

// 16 columns of the panel, of which the first `rows` are there.
template <Code kCode, bool kHasZeros>
void unpack_columns(const UnpackArgs& args, int64_t n, int64_t rows, float* out) {
  constexpr int kBits = bits_of(kCode), kCodes = 32 / kBits;  // of a number of 32 bits
  const QuantizedMatrix& matrix = *args.matrix;
  const int64_t blocks = matrix.k / matrix.block, stride = matrix.k * kBits / 8;
  const auto* codes = static_cast<const uint8_t*>(matrix.codes) + n * stride;
  const auto there = static_cast<__mmask16>((1u << rows) - 1);
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i apart = _mm512_mullo_epi32(lane, _mm512_set1_epi32(static_cast<int>(blocks)));
  [[maybe_unused]] const __m512 values = nibble_values<kCode>(matrix);
  __m512 scales = _mm512_setzero_ps(), zeros = _mm512_setzero_ps();
  int64_t block = -1;
  for (int64_t k = args.begin; k < args.end; k += 16 * kCodes) {
    const int64_t begin = k * kBits / 8, bytes = std::min<int64_t>((args.end - k) * kBits / 8, 64);
    __m512 words[16];
    ORTCONV_UNROLL
    for (int r = 0; r < 16; ++r) {
      words[r] = r < rows ? _mm512_castsi512_ps(load_codes(codes + r * stride + begin, bytes)) : _mm512_setzero_ps();
    }
    avx512::transpose16(words);
    const int64_t count = (bytes + 3) / 4;
    for (int64_t d = 0; d < count; ++d) {
      if (const int64_t b = (k + d * kCodes) / matrix.block; b != block) {
        block = b;
        scales = _mm512_mask_i32gather_ps(scales, there, apart, matrix.scales + n * blocks + b, sizeof(float));
        if constexpr (kHasZeros) {
          alignas(64) float of_row[16] = {};
          for (int64_t r = 0; r < rows; ++r) {
            of_row[r] = static_cast<float>(zero_at<kCode>(matrix, (n + r) * blocks + b));
          }
          zeros = _mm512_load_ps(of_row);
        }
      }
      __m512i word = _mm512_castps_si512(words[d]);
      ORTCONV_UNROLL
      for (int j = 0; j < kCodes; ++j, out += kPanelColumns) {
        __m512 weight;
        if constexpr (kBits == 4) {
          weight = _mm512_permutexvar_ps(word, values);
        } else if constexpr (kCode == Code::kS8) {
          weight = _mm512_cvtepi32_ps(_mm512_srai_epi32(_mm512_slli_epi32(word, 24), 24));
        } else {
          weight = _mm512_cvtepi32_ps(_mm512_and_si512(word, _mm512_set1_epi32(255)));
        }
        word = _mm512_srli_epi32(word, kBits);
        if constexpr (kHasZeros) weight = _mm512_sub_ps(weight, zeros);
        // Of a table the first number, which rows that are not there have, need not be finite.
        _mm512_store_ps(
            out, kCode == Code::kTable ? _mm512_maskz_mul_ps(there, weight, scales) : _mm512_mul_ps(weight, scales));
      }
    }
  }
}

template <Code kCode, bool kHasZeros>
void unpack_panel(const UnpackArgs& args) {
  for (int64_t column = 0; args.first + column < args.last; column += 16) {
    const int64_t n = args.first + column;
    unpack_columns<kCode, kHasZeros>(args, n, std::min<int64_t>(16, args.last - n), args.out + column);
  }
}

}  // namespace
}  // namespace ortconv::kernels

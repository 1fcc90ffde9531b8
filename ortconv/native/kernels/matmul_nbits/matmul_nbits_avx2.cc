#include <immintrin.h>

#include <algorithm>

#include "kernels/gemm/gemm.h"
#include "kernels/matmul_nbits/dots_avx2.h"
#include "kernels/matmul_nbits/stages.h"

namespace ortconv::kernels {

extern const MatMulNbitsKernel k_matmul_nbits_generic, k_matmul_nbits_avx2;

namespace {

int64_t most_dots(const QuantizedMatrix&) { return 24; }

void arrange(const QuantizedMatrix& matrix, int64_t m, const float* x, float* out) {
  if (!has_dots(matrix)) return k_matmul_nbits_generic.arrange(matrix, m, x, out);
  arrange_vectors(matrix, m, x, out);
}

void dots(const DotArgs& args) {
  if (!has_dots(*args.matrix)) return k_matmul_nbits_generic.dots(args);
  with_code(args.matrix->code, [&](auto code) {
    if constexpr (bits_of(code()) == 8) {
      all_rows<BytesDot<code()>>(args);
    } else {
      switch (blocks_per_chunk(*args.matrix)) {
        case 1:
          return all_rows<NibblesDot<code(), 1>>(args);
        case 2:
          return all_rows<NibblesDot<code(), 2>>(args);
        default:
          return all_rows<NibblesDot<code(), 4>>(args);
      }
    }
  });
}

// Whether rows and blocks begin with a number of 32 bits, and 8 rows are near enough for offsets of that size.
bool can_unpack(const QuantizedMatrix& matrix) {
  const int64_t codes = 32 / bits_of(matrix.code);
  return matrix.k % codes == 0 && matrix.block % codes == 0 && matrix.k < 1 << 27;
}

// 8 columns of the panel: a vector has a number of 32 bits, so some codes, of every row.
template <Code kCode>
void unpack_columns(const UnpackArgs& args, int64_t n, float* out) {
  constexpr int kBits = bits_of(kCode), kCodes = 32 / kBits;
  constexpr int kFlip = kCode == Code::kS4 ? 8 : 0;  // 4 bits with a sign are those without one, less 8
  const QuantizedMatrix& matrix = *args.matrix;
  const int64_t blocks = matrix.k / matrix.block, stride = matrix.k / kCodes;
  const int* words = static_cast<const int*>(matrix.codes) + n * stride;
  const __m256i row =
      _mm256_mullo_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(static_cast<int>(stride)));
  const Lookup looked_up(kCode == Code::kTable ? matrix.table : kNoTable);
  for (int64_t k = args.begin; k < args.end;) {
    const int64_t b = k / matrix.block, stop = std::min((b + 1) * matrix.block, args.end);
    alignas(32) float of_row[8];
    alignas(32) int32_t zero_of_row[8];
    for (int64_t r = 0; r < 8; ++r) {
      of_row[r] = matrix.scales[(n + r) * blocks + b];
      zero_of_row[r] = zero_at<kCode>(matrix, (n + r) * blocks + b) + kFlip;
    }
    const __m256 scales = _mm256_load_ps(of_row);
    const __m256i zeros = _mm256_load_si256(reinterpret_cast<const __m256i*>(zero_of_row));
    for (; k < stop; k += kCodes) {
      __m256i word = _mm256_i32gather_epi32(words + k / kCodes, row, 4);
      if constexpr (kFlip != 0) word = _mm256_xor_si256(word, _mm256_set1_epi8(static_cast<char>(0x88)));
      ORTCONV_UNROLL
      for (int j = 0; j < kCodes; ++j, out += kPanelColumns) {
        __m256 weight;
        if constexpr (kCode == Code::kTable) {
          weight = looked_up(word);
        } else {
          const __m256i code = kCode == Code::kS8 ? _mm256_srai_epi32(_mm256_slli_epi32(word, 24), 24)
                                                  : _mm256_and_si256(word, _mm256_set1_epi32((1 << kBits) - 1));
          weight = _mm256_cvtepi32_ps(_mm256_sub_epi32(code, zeros));
        }
        word = _mm256_srli_epi32(word, kBits);
        _mm256_store_ps(out, _mm256_mul_ps(weight, scales));
      }
    }
  }
}

void unpack(const UnpackArgs& args) {
  if (!can_unpack(*args.matrix) || (args.last - args.first) % kGemmColumns != 0)
    return k_matmul_nbits_generic.unpack(args);
  with_code(args.matrix->code, [&](auto code) {
    for (int64_t n = args.first; n < args.last; n += 8) unpack_columns<code()>(args, n, args.out + n - args.first);
  });
}

}  // namespace

const MatMulNbitsKernel k_matmul_nbits_avx2 = {"matmul_nbits_avx2", kDotRows, most_dots, arrange, dots, unpack};

}  // namespace ortconv::kernels

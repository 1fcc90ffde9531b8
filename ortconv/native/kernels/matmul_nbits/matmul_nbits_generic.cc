#include <algorithm>

#include "kernels/matmul_nbits/codes.h"
#include "kernels/matmul_nbits/stages.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kLanes = 16;
constexpr int64_t kChunk = 256;
constexpr int64_t kDotRows = 8;

// Numbers [begin, end) of the matrix, which share a scale and a zero point.
template <Code kCode>
void decode(const QuantizedMatrix& matrix, int64_t begin, int64_t end, int32_t zero, float scale, float* out) {
  const void* const codes = matrix.codes;
  int64_t i = begin;
  if constexpr (bits_of(kCode) == 4) {
    const auto value = [&](int32_t code) {
      if constexpr (kCode == Code::kTable) return matrix.table[code] * scale;
      return static_cast<float>((kCode == Code::kS4 ? (code ^ 8) - 8 : code) - zero) * scale;
    };
    const auto* bytes = static_cast<const uint8_t*>(codes);
    if (i % 2 != 0) *out++ = value(bytes[i++ / 2] >> 4);
    for (; i + 2 <= end; i += 2, out += 2) {
      out[0] = value(bytes[i / 2] & 15);
      out[1] = value(bytes[i / 2] >> 4);
    }
    if (i < end) *out = value(bytes[i / 2] & 15);
  } else {
    for (; i < end; ++i) *out++ = static_cast<float>(code_at<kCode>(codes, i) - zero) * scale;
  }
}

// matrix[n][begin] ... matrix[n][end - 1].
template <Code kCode>
void decode_row(const QuantizedMatrix& matrix, int64_t n, int64_t begin, int64_t end, float* out) {
  const int64_t blocks = matrix.k / matrix.block;
  for (int64_t b = begin / matrix.block; begin < end; ++b) {
    const int64_t stop = std::min(end, (b + 1) * matrix.block);
    decode<kCode>(matrix, n * matrix.k + begin, n * matrix.k + stop, zero_at<kCode>(matrix, n * blocks + b),
                  matrix.scales[n * blocks + b], out);
    out += stop - begin;
    begin = stop;
  }
}

float dot(const float* a, const float* b, int64_t n) {
  float sums[kLanes] = {};
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int64_t lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (int64_t lane = 0; i < n; ++i, ++lane) sums[lane] += a[i] * b[i];
  for (int64_t half = kLanes / 2; half > 0; half /= 2) {
    for (int64_t lane = 0; lane < half; ++lane) sums[lane] += sums[lane + half];
  }
  return sums[0];
}

int64_t most_dots(const QuantizedMatrix&) { return kDotRows; }

void arrange(const QuantizedMatrix& matrix, int64_t m, const float* x, float* out) {
  std::copy_n(x, m * matrix.k, out);
}

void dots(const DotArgs& args) {
  const QuantizedMatrix& matrix = *args.matrix;
  with_code(matrix.code, [&](auto code) {
    float values[kChunk];
    for (int64_t n = args.first; n < args.last; ++n) {
      for (int64_t k = args.begin; k < args.end; k += kChunk) {
        const int64_t end = std::min(k + kChunk, args.end);
        decode_row<code()>(matrix, n, k, end, values);
        for (int64_t i = 0; i < args.m; ++i) {
          const float sum = dot(values, args.x + i * matrix.k + k, end - k);
          float& y = args.y[i][n - args.first];
          y = k == 0 ? sum : y + sum;
        }
      }
    }
  });
}

void unpack(const UnpackArgs& args) {
  const QuantizedMatrix& matrix = *args.matrix;
  with_code(matrix.code, [&](auto code) {
    float values[kChunk];
    for (int64_t k = args.begin; k < args.end; k += kChunk) {
      const int64_t end = std::min(k + kChunk, args.end);
      for (int64_t column = 0; column < kPanelColumns; ++column) {
        if (args.first + column < args.last) {
          decode_row<code()>(matrix, args.first + column, k, end, values);
        } else {
          std::fill_n(values, end - k, 0.0f);
        }
        float* out = args.out + (k - args.begin) * kPanelColumns + column;
        for (int64_t i = 0; i < end - k; ++i) out[i * kPanelColumns] = values[i];
      }
    }
  });
}

}  // namespace

extern const MatMulNbitsKernel k_matmul_nbits_generic;
const MatMulNbitsKernel k_matmul_nbits_generic = {"matmul_nbits_generic", kDotRows, most_dots, arrange, dots, unpack};

}  // namespace ortconv::kernels

#include <immintrin.h>

#include <algorithm>
#include <type_traits>

#include "kernels/transpose/transpose.h"
#include "kernels/transpose/whole_tiles.h"
#include "kernels/transpose8_avx2.h"
#include "kernels/unroll.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels {

namespace {

constexpr int64_t kLanes = 8;

template <class T>
void tile(const float* src, int64_t src_stride, const float* bias, T* dst, int64_t dst_stride) {
  __m256 columns[kLanes];
  avx2::transpose8([=](int i) { return src + i * src_stride; }, columns);
  const bool adds = bias != nullptr;
  const __m256 add = adds ? _mm256_loadu_ps(bias) : _mm256_setzero_ps();
  ORTCONV_UNROLL
  for (int i = 0; i < kLanes; ++i) {
    avx2::store(dst + i * dst_stride, adds ? _mm256_add_ps(columns[i], add) : columns[i]);
  }
}

// The first numbers of a row, fewer than eight: one by one, as a load of several stores would wait for these.
template <class T>
__m256 widen_few(const T* in, int64_t count) {
  const auto* bits = reinterpret_cast<const uint16_t*>(in);
  __m128i v = _mm_setzero_si128();
  switch (count) {
    case 7:
      v = _mm_insert_epi16(v, bits[6], 6);
      [[fallthrough]];
    case 6:
      v = _mm_insert_epi16(v, bits[5], 5);
      [[fallthrough]];
    case 5:
      v = _mm_insert_epi16(v, bits[4], 4);
      [[fallthrough]];
    case 4:
      v = _mm_insert_epi16(v, bits[3], 3);
      [[fallthrough]];
    case 3:
      v = _mm_insert_epi16(v, bits[2], 2);
      [[fallthrough]];
    case 2:
      v = _mm_insert_epi16(v, bits[1], 1);
      [[fallthrough]];
    default:
      v = _mm_insert_epi16(v, bits[0], 0);
  }
  return avx2::widened(T(), v);
}

// Up to eight rows by eight columns of numbers of 16 bits.
template <class T>
void widen_tile(const T* src, int64_t src_stride, int64_t rows, int64_t cols, float* dst, int64_t dst_stride) {
  __m256 lines[kLanes], columns[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) {
    if (i >= rows) {
      lines[i] = _mm256_setzero_ps();
    } else {
      const T* row = src + i * src_stride;
      lines[i] = cols == kLanes ? avx2::load_widened(row) : widen_few(row, cols);
    }
  }
  avx2::transpose8_loaded(
      [&](int i, int half) {
        return half == 0 ? _mm256_castps256_ps128(lines[i]) : _mm256_extractf128_ps(lines[i], 1);
      },
      columns);
  for (int64_t j = 0; j < cols; ++j, dst += dst_stride) {
    if (rows == kLanes) {
      avx2::store(dst, columns[j]);
    } else {
      avx2::Vectors<float>::store_first(rows, dst, columns[j]);
    }
  }
}

// Fewer rows than a tile has, and at least as many columns. Two Numbers, which may overlap, have the elements of a
// column.
template <class Number, class T>
void few_rows(const float* src, int64_t src_stride, int64_t rows, int64_t cols, const float* bias, T* dst,
              int64_t dst_stride) {
  float padded_bias[kLanes] = {};
  if (bias != nullptr) std::copy_n(bias, rows, padded_bias);
  for (int64_t j = 0; j < cols; j += kLanes) {
    const int64_t col = std::min(j, cols - kLanes);  // the last tile writes again what others have
    const auto row = [=](int i) { return src + std::min<int64_t>(i, rows - 1) * src_stride + col; };
    __m256 columns[kLanes];
    avx2::transpose8(row, columns);
    T elements[kLanes][kLanes];
    ORTCONV_UNROLL
    for (int i = 0; i < kLanes; ++i) {
      if (bias != nullptr) columns[i] = _mm256_add_ps(columns[i], _mm256_loadu_ps(padded_bias));
      avx2::store(elements[i], columns[i]);
    }
    for (int i = 0; i < kLanes; ++i) {
      avx2::copy_both_ends<Number>(reinterpret_cast<const char*>(elements[i]), rows * static_cast<int64_t>(sizeof(T)),
                                   reinterpret_cast<char*>(dst + (col + i) * dst_stride));
    }
  }
}

// One row, whose elements go to a row of dst each.
template <class T>
void one_row(const float* src, int64_t cols, float bias, T* dst, int64_t dst_stride) {
  for (int64_t j = 0; j < cols; j += kLanes) {
    const int64_t count = std::min(kLanes, cols - j);
    float numbers[kLanes] = {};
    for (int64_t i = 0; i < count; ++i) numbers[i] = src[j + i] + bias;
    T elements[kLanes];
    avx2::store(elements, _mm256_loadu_ps(numbers));
    for (int64_t i = 0; i < count; ++i) dst[(j + i) * dst_stride] = elements[i];
  }
}

// Fewer columns than a tile has, and at least as many rows. The last tile writes again what others have.
template <class T>
void few_columns(const float* src, int64_t src_stride, int64_t rows, int64_t cols, const float* bias, T* dst,
                 int64_t dst_stride) {
  const __m128i count = _mm_set1_epi32(static_cast<int>(cols));
  const __m128i masks[] = {_mm_cmpgt_epi32(count, _mm_setr_epi32(0, 1, 2, 3)),
                           _mm_cmpgt_epi32(count, _mm_setr_epi32(4, 5, 6, 7))};
  for (int64_t i = 0; i < rows; i += kLanes) {
    const int64_t first = std::min(i, rows - kLanes);
    const float* const from = src + first * src_stride;
    __m256 columns[kLanes];
    avx2::transpose8_loaded(
        [&](int r, int half) { return _mm_maskload_ps(from + r * src_stride + 4 * half, masks[half]); }, columns);
    const bool adds = bias != nullptr;
    const __m256 add = adds ? _mm256_loadu_ps(bias + first) : _mm256_setzero_ps();
    for (int64_t j = 0; j < cols; ++j) {
      avx2::store(dst + j * dst_stride + first, adds ? _mm256_add_ps(columns[j], add) : columns[j]);
    }
  }
}

// Fewer of both.
template <class T>
void few(const float* src, int64_t src_stride, int64_t rows, int64_t cols, const float* bias, T* dst,
         int64_t dst_stride) {
  float added[kLanes];
  std::fill_n(added, kLanes, -0.0f);  // changes nothing, not even the sign of a zero
  if (bias != nullptr) std::copy_n(bias, rows, added);
  for (int64_t j = 0; j < cols; ++j) {
    float numbers[kLanes] = {};
    for (int64_t r = 0; r < rows; ++r) numbers[r] = src[r * src_stride + j];
    T elements[kLanes];
    avx2::store(elements, _mm256_add_ps(_mm256_loadu_ps(numbers), _mm256_loadu_ps(added)));
    std::copy_n(elements, rows, dst + j * dst_stride);
  }
}

}  // namespace

template <class T>
void transpose_avx2(const Sum<T>* src, int64_t src_stride, int64_t rows, int64_t cols, const Sum<T>* bias, T* dst,
                    int64_t dst_stride) {
  if constexpr (!std::is_same_v<T, double>) {
    if (rows > 1 && rows < kLanes && cols >= kLanes) {
      const auto write = rows * sizeof(T) >= 16  ? few_rows<__m128i, T>
                         : rows * sizeof(T) >= 8 ? few_rows<uint64_t, T>
                                                 : few_rows<uint32_t, T>;
      return write(src, src_stride, rows, cols, bias, dst, dst_stride);
    }
    if (cols < kLanes && rows >= kLanes) return few_columns(src, src_stride, rows, cols, bias, dst, dst_stride);
  }
  if constexpr (sizeof(T) < sizeof(float)) {  // which take longest to round one by one
    if (rows == 1) return one_row(src, cols, bias == nullptr ? -0.0f : *bias, dst, dst_stride);
    if (rows < kLanes && cols < kLanes) return few(src, src_stride, rows, cols, bias, dst, dst_stride);
  }
  transpose_by_tiles<kLanes>(src, src_stride, rows, cols, bias, dst, dst_stride,
                             [](auto... tile_args) { tile(tile_args...); });
}

template <class T>
void transpose_from_avx2(const T* src, int64_t src_stride, int64_t rows, int64_t cols, Sum<T>* dst,
                         int64_t dst_stride) {
  if constexpr (std::is_same_v<T, Sum<T>>) {
    transpose_avx2<T>(src, src_stride, rows, cols, nullptr, dst, dst_stride);
  } else {
    // The last tiles of enough rows and columns begin earlier, and write again what others have.
    for (int64_t i = 0; i < rows; i += kLanes) {
      const int64_t row = std::max<int64_t>(0, std::min(i, rows - kLanes)), height = std::min(kLanes, rows);
      for (int64_t j = 0; j < cols; j += kLanes) {
        const int64_t col = std::max<int64_t>(0, std::min(j, cols - kLanes));
        widen_tile(src + row * src_stride + col, src_stride, height, std::min(kLanes, cols),
                   dst + col * dst_stride + row, dst_stride);
      }
    }
  }
}

#define INSTANTIATE(T)                                                                                \
  template void transpose_avx2(const Sum<T>*, int64_t, int64_t, int64_t, const Sum<T>*, T*, int64_t); \
  template void transpose_from_avx2(const T*, int64_t, int64_t, int64_t, Sum<T>*, int64_t);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

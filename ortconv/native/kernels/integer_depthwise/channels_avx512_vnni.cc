#include <immintrin.h>

#include <cstdint>

#include "kernels/integer_conv/vector_avx512.h"
#include "kernels/integer_depthwise/channels.h"
#include "kernels/integer_result/result_vector_avx512.h"
#include "kernels/unroll.h"

namespace ortconv::kernels {
namespace {

constexpr int kLanes = kChannelLanes;

__mmask16 first(int64_t n) { return static_cast<__mmask16>(n >= kLanes ? 0xffff : (1u << n) - 1); }

// Sixteen rows of sixteen bytes become sixteen columns.
ORTCONV_ALWAYS_INLINE inline void transpose(__m128i (&a)[kLanes]) {
  __m128i b[kLanes];
  // Four times, row i and row i + 8 become rows 2 * i and 2 * i + 1, byte by byte.
  ORTCONV_UNROLL
  for (int turn = 0; turn < 4; ++turn) {
    ORTCONV_UNROLL
    for (int i = 0; i < kLanes / 2; ++i) {
      b[2 * i] = _mm_unpacklo_epi8(a[i], a[i + kLanes / 2]);
      b[2 * i + 1] = _mm_unpackhi_epi8(a[i], a[i + kLanes / 2]);
    }
    ORTCONV_UNROLL
    for (int i = 0; i < kLanes; ++i) a[i] = b[i];
  }
}

// Numbers of a row of the source, those of all channels at a position side by side; padding where there are none.
template <bool kIsFull>
void gather_row(const IntegerChannelsTile& t, int64_t source_row, int64_t count) {
  const __m128i padding = _mm_set1_epi8(static_cast<char>(t.zero)), flip = _mm_set1_epi8(static_cast<char>(t.flip));
  const bool is_inside = source_row >= 0 && source_row < t.rows.size;
  for (int64_t i = 0; i < count; i += kLanes) {
    __m128i bytes[kLanes];
    const int64_t column = t.columns.first + i;
    const int64_t before = column < 0 ? -column : 0, behind = t.columns.size - column;
    const __mmask16 given = is_inside ? first(behind < 0 ? 0 : behind) & ~first(before) : 0;
    const uint8_t* const x = t.x + (given == 0 ? 0 : source_row * t.columns.size + column);
    ORTCONV_UNROLL
    for (int c = 0; c < kLanes; ++c) {
      const bool is_given = kIsFull || c < t.channels;
      bytes[c] = is_given ? _mm_mask_loadu_epi8(padding, given, x + c * t.x_stride) : padding;
    }
    transpose(bytes);
    ORTCONV_UNROLL
    for (int c = 0; c < kLanes; ++c) {
      _mm_store_si128(reinterpret_cast<__m128i*>(t.row + (i + c) * kLanes), _mm_xor_si128(bytes[c], flip));
    }
  }
}

// The lanes of a row: in each the numbers of a channel that are a dilation apart.
template <bool kIsDense>
void make_lanes(const IntegerChannelsTile& t, uint32_t* out) {
  const int64_t step = t.step() * kLanes, apart = t.columns.dilation * kLanes, count = t.positions();
  const uint8_t* at = t.row;
  for (int64_t i = 0; i < count; ++i, at += step, out += kLanes) {
    __m512i bytes;
    if constexpr (kIsDense) {
      bytes = _mm512_loadu_si512(at);
    } else {
      const auto tap = [&](int j) { return _mm_load_si128(reinterpret_cast<const __m128i*>(at + j * apart)); };
      bytes = _mm512_inserti32x4(_mm512_castsi128_si512(tap(0)), tap(1), 1);
      bytes = _mm512_inserti32x4(_mm512_inserti32x4(bytes, tap(2), 2), tap(3), 3);
    }
    _mm512_store_si512(out, avx512::IntegerVector::lanes_of(bytes));
  }
}

// What makes results of sums, with a lane for each channel.
template <bool kIsPlain>
struct Results {
  const Activation& activation;
  const avx512::QuantizedVector bytes_of;
  const bool is_affine;
  const __m512i corrections, channels;  // where each channel's element is, from that of the first
  const __mmask16 given;
  const __m512 scales, biases, factors, addends;

  explicit Results(const IntegerChannelsTile& t)
      : activation(t.result->activation),
        bytes_of(t.result->y_scale, t.result->y_zero, t.type),
        is_affine(t.result->is_affine),
        corrections(_mm512_loadu_si512(t.corrections)),
        channels(_mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                                    _mm512_set1_epi32(static_cast<int>(t.y_stride)))),
        given(first(t.channels)),
        scales(_mm512_loadu_ps(t.scales)),
        biases(_mm512_loadu_ps(t.biases)),
        factors(_mm512_loadu_ps(t.factors)),
        addends(_mm512_loadu_ps(t.addends)) {}

  // `element_biases` is null, or where that of the first channel for the first sum lies.
  template <int kCount>
  ORTCONV_ALWAYS_INLINE void operator()(const __m512i (&sums)[kCount], const float* element_biases,
                                        __m128i* out) const {
    __m512 values[kCount];
    ORTCONV_UNROLL
    for (int j = 0; j < kCount; ++j) {
      __m512 bias = biases;
      if (element_biases != nullptr) {
        bias = _mm512_mask_i32gather_ps(biases, given, channels, element_biases + j, sizeof(float));
      }
      values[j] = _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sums[j]), scales), bias);
    }
    if (!kIsPlain) {
      avx512::activate(activation, values);
      ORTCONV_UNROLL
      for (__m512& v : values) v = is_affine ? _mm512_add_ps(_mm512_mul_ps(v, factors), addends) : v;
    }
    ORTCONV_UNROLL
    for (int j = 0; j < kCount; ++j) out[j] = bytes_of(values[j]);
  }
};

// kCount outputs, which read their first lanes at `offsets`.
template <int kCount, class Results>
ORTCONV_ALWAYS_INLINE inline void compute(const IntegerChannelsTile& t, const Results& results, int64_t row_lanes,
                                          int64_t window_lanes, const int32_t* offsets, const float* element_biases,
                                          __m128i* out) {
  const int64_t windows = t.windows();
  __m512i sums[kCount];
  const uint32_t* at[kCount];
  ORTCONV_UNROLL
  for (int j = 0; j < kCount; ++j) sums[j] = results.corrections, at[j] = t.lanes + offsets[j];
  const int8_t* weights = t.weights;
  for (int64_t row = 0; row < t.tap_rows; ++row) {
    for (int64_t window = 0; window < windows; ++window, weights += kLanes * kTapsOfLane) {
      const int64_t offset = row * row_lanes + window * window_lanes;
      const __m512i w = _mm512_loadu_si512(weights);
      ORTCONV_UNROLL
      for (int j = 0; j < kCount; ++j) {
        sums[j] = _mm512_dpbusd_epi32(sums[j], _mm512_load_si512(at[j] + offset), w);
        ORTCONV_KEEP(sums[j]);
      }
    }
  }
  results(sums, element_biases, out);
}

// Up to sixteen outputs, which lie one after the other in y.
template <int kCount, class Results>
void block(const IntegerChannelsTile& t, const Results& results, int64_t row_lanes, int64_t window_lanes,
           const int32_t* offsets, unsigned char* y) {
  constexpr int kTogether = kCount < 8 ? kCount : 8;
  __m128i bytes[kLanes];
  ORTCONV_UNROLL
  for (int j = 0; j < kLanes; ++j) bytes[j] = _mm_setzero_si128();
  ORTCONV_UNROLL
  for (int j = 0; j < kCount; j += kTogether) {
    const float* const element_biases = t.element_biases == nullptr ? nullptr : t.element_biases + (y - t.y) + j;
    compute<kTogether>(t, results, row_lanes, window_lanes, offsets + j, element_biases, bytes + j);
  }
  transpose(bytes);
  unsigned char stored[kLanes][kLanes];
  const int64_t channels = t.channels;
  if (kCount == kLanes) {
    ORTCONV_UNROLL
    for (int c = 0; c < kLanes; ++c) {
      if (c < channels) _mm_storeu_si128(reinterpret_cast<__m128i*>(y + c * t.y_stride), bytes[c]);
    }
    return;
  }
  ORTCONV_UNROLL
  for (int c = 0; c < kLanes; ++c) _mm_storeu_si128(reinterpret_cast<__m128i*>(stored[c]), bytes[c]);
  for (int64_t c = 0; c < channels; ++c) {
    for (int j = 0; j < kCount; ++j) y[c * t.y_stride + j] = stored[c][j];
  }
}

// Outputs that lie one after the other in y.
template <class Results>
void run_of(const IntegerChannelsTile& t, const Results& results, int64_t row_lanes, int64_t window_lanes,
            const int32_t* offsets, int64_t count, unsigned char* y) {
  const auto blocks = [&](auto fn, int64_t i) { fn(t, results, row_lanes, window_lanes, offsets + i, y + i); };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) blocks(block<kLanes, Results>, i);
  if (i == count) return;
  if (count >= kLanes) return blocks(block<kLanes, Results>, count - kLanes);  // some of them once more
  if (i + 8 <= count) blocks(block<8, Results>, i), i += 8;
  if (i + 4 <= count) blocks(block<4, Results>, i), i += 4;
  if (i + 2 <= count) blocks(block<2, Results>, i), i += 2;
  if (i < count) blocks(block<1, Results>, i);
}

template <bool kIsPlain>
void tile_of(const IntegerChannelsTile& t) {
  const int64_t row_lanes = t.positions() * kLanes, step = t.step(), numbers = t.numbers();
  for (int64_t row = 0; row < t.source_rows(); ++row) {
    const int64_t source_row = t.rows.first + row;
    t.channels == kLanes ? gather_row<true>(t, source_row, numbers) : gather_row<false>(t, source_row, numbers);
    uint32_t* const lanes = t.lanes + row * row_lanes;
    t.columns.dilation == 1 ? make_lanes<true>(t, lanes) : make_lanes<false>(t, lanes);
  }
  const auto next = static_cast<int32_t>(t.columns.stride / step * kLanes);
  int32_t* offset = t.offsets;
  for (int64_t row = 0; row < t.rows.outputs; ++row) {
    auto lane = static_cast<int32_t>(row * t.rows.stride * row_lanes);
    for (int64_t column = 0; column < t.columns.outputs; ++column, lane += next) *offset++ = lane;
  }
  const Results<kIsPlain> results(t);
  const int64_t tap_row = t.rows.dilation * row_lanes;
  const int64_t window = kTapsOfLane * t.columns.dilation / step * kLanes;
  if (t.columns.outputs == t.y_row) {
    return run_of(t, results, tap_row, window, t.offsets, t.rows.outputs * t.columns.outputs, t.y);
  }
  for (int64_t row = 0; row < t.rows.outputs; ++row) {
    run_of(t, results, tap_row, window, t.offsets + row * t.columns.outputs, t.columns.outputs, t.y + row * t.y_row);
  }
}

void tile(const IntegerChannelsTile& t) { t.is_plain ? tile_of<true>(t) : tile_of<false>(t); }

}  // namespace

extern const IntegerChannelsKernel k_integer_channels_avx512_vnni;
const IntegerChannelsKernel k_integer_channels_avx512_vnni = {"integer_channels_avx512_vnni", tile};

}  // namespace ortconv::kernels

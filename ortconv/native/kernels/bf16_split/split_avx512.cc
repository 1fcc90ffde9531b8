#include <immintrin.h>

#include <algorithm>

#include "kernels/bf16_split/bf16_split.h"
#include "kernels/transpose16_avx512.h"
#include "kernels/unroll.h"
#include "kernels/vector_avx512.h"

namespace ortconv::kernels {
namespace {

constexpr int64_t kLanes = 16;

__mmask16 first(int64_t n) { return static_cast<__mmask16>((1u << std::clamp<int64_t>(n, 0, kLanes)) - 1); }

// Up to 16 numbers that are not next to each other.
template <class T>
__m512 load_strided(int64_t count, const T* in, int64_t stride) {
  T numbers[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) numbers[i] = in[i * stride];
  return avx512::load_widened(0xffff, numbers);
}

// Writes the parts of one cell: `low` are its channels 0 to 15, `high` the others.
template <int kParts>
void write_cell(__m512 low, __m512 high, uint16_t* out, int64_t part_stride) {
  const __m512i half = _mm512_set1_epi32(0x8000), mask = _mm512_set1_epi32(static_cast<int>(0xffff0000));
  constexpr __mmask32 kOdd = 0xaaaaaaaa;
  ORTCONV_UNROLL
  for (int part = 0; part < kParts; ++part) {
    __m512i l = _mm512_castps_si512(low), h = _mm512_castps_si512(high);
    if (part + 1 < kParts) {  // what is left at the end is exact
      l = _mm512_add_epi32(l, half), h = _mm512_add_epi32(h, half);
      low = _mm512_sub_ps(low, _mm512_castsi512_ps(_mm512_and_si512(l, mask)));
      high = _mm512_sub_ps(high, _mm512_castsi512_ps(_mm512_and_si512(h, mask)));
    }
    _mm512_store_si512(out + part * part_stride, _mm512_mask_blend_epi16(kOdd, _mm512_srli_epi32(l, 16), h));
  }
}

class Magnitude {
 public:
  void see(__m512 v) {
    bits_ = _mm512_max_epu32(bits_, _mm512_and_si512(_mm512_castps_si512(v), _mm512_set1_epi32(0x7fffffff)));
  }
  uint32_t largest() const { return _mm512_reduce_max_epu32(bits_); }

 private:
  __m512i bits_ = _mm512_setzero_si512();
};

// 16 channels from `begin` of up to 16 cells, cell by cell.
template <class T>
void load_cells(const SplitArgs<T>& s, int64_t begin, int64_t x, __mmask16 cells, Magnitude& seen, __m512 (&v)[16]) {
  const T* in = s.src + begin * s.channel_stride + x;
  ORTCONV_UNROLL
  for (int i = 0; i < kLanes; ++i, in += s.channel_stride) {
    if (begin + i < s.channels) {
      v[i] = avx512::load_widened(cells, in);
      seen.see(v[i]);
    } else {
      v[i] = _mm512_setzero_ps();
    }
  }
  avx512::transpose16(v);
}

// Asks for a quarter of the channels of what is needed kAhead cells later: lines of one channel after the other, which
// the CPU's own prefetcher follows better than one line of each channel. What follows a row is likely the next one.
template <class T>
void prefetch(const SplitArgs<T>& s, int64_t x) {
  constexpr int64_t kSteps = 4, kAhead = kSteps * kLanes, kLine = 64 / sizeof(T);
  const auto position = static_cast<int64_t>(reinterpret_cast<uintptr_t>(s.src + x) / sizeof(T));
  const int64_t step = position / kLanes % kSteps, next = x - step * kLanes + kAhead;
  for (int64_t channel = s.channels * step / kSteps; channel < s.channels * (step + 1) / kSteps; ++channel) {
    const T* in = s.src + channel * s.channel_stride + next;
    ORTCONV_UNROLL
    for (int64_t i = 0; i < kAhead; i += kLine) _mm_prefetch(reinterpret_cast<const char*>(in + i), _MM_HINT_T0);
  }
}

// bf16 numbers are their own and only part: the channels i and i + 16 are put in pairs, and the pairs of 16 cells
// transposed, two times 16 cells for every line of src. kWhole: there are kPartChannels channels. Returns as split().
template <bool kWhole>
uint32_t pair_cells(const SplitArgs<Bfloat16>& s) {
  constexpr int64_t kCells = 2 * kLanes;
  const __m512i magnitude = _mm512_set1_epi16(0x7fff);
  __m512i largest = _mm512_setzero_si512();
  for (int64_t x = 0; x < s.cells; x += kCells) {
    const int64_t count = std::min(kCells, s.cells - x);
    const auto mask = static_cast<__mmask32>((uint64_t{1} << count) - 1);
    const auto load_channel = [&](int64_t channel) {
      if (!kWhole && channel >= s.channels) return _mm512_setzero_si512();
      return _mm512_maskz_loadu_epi16(mask, s.src + channel * s.channel_stride + x);
    };
    __m512 low[16], high[16];  // cells 0 to 3 of every 8, and the others
    ORTCONV_UNROLL
    for (int i = 0; i < kLanes; ++i) {
      const __m512i a = load_channel(i), b = load_channel(i + kLanes);
      largest = _mm512_max_epu16(largest, _mm512_and_si512(a, magnitude));
      largest = _mm512_max_epu16(largest, _mm512_and_si512(b, magnitude));
      low[i] = _mm512_castsi512_ps(_mm512_unpacklo_epi16(a, b));
      high[i] = _mm512_castsi512_ps(_mm512_unpackhi_epi16(a, b));
    }
    const auto store = [&](const __m512(&v)[16], int64_t first) {
      ORTCONV_UNROLL
      for (int i = 0; i < kLanes; ++i) {
        const int64_t cell = i / 4 * 8 + i % 4 + first;
        if (cell < count) _mm512_store_ps(s.out + (x + cell) * kPartChannels, v[i]);
      }
    };
    avx512::transpose16(low);
    store(low, 0);
    avx512::transpose16(high);
    store(high, 4);
  }
  const __m512i even = _mm512_slli_epi32(largest, 16), odd = _mm512_and_si512(largest, _mm512_set1_epi32(-65536));
  return _mm512_reduce_max_epu32(_mm512_max_epu32(even, odd));
}

template <class T>
uint32_t split(const SplitArgs<T>& s) {
  constexpr int kParts = static_cast<int>(kNumParts<T>);
  Magnitude seen;
  if (s.cell_stride == 1) {
    for (int64_t x = 0; x < s.cells; x += kLanes) {
      const int64_t count = std::min(kLanes, s.cells - x);
      prefetch(s, x);
      __m512 low[16], high[16];
      load_cells(s, 0, x, first(count), seen, low);
      load_cells(s, kLanes, x, first(count), seen, high);
      uint16_t* out = s.out + x * kPartChannels;
      for (int64_t i = 0; i < count; ++i) write_cell<kParts>(low[i], high[i], out + i * kPartChannels, s.part_stride);
    }
    return seen.largest();
  }
  const int64_t num_low = std::min(kLanes, s.channels), num_high = s.channels - num_low;
  for (int64_t x = 0; x < s.cells; ++x) {
    const T* in = s.src + x * s.cell_stride;
    __m512 low, high;
    if (s.channel_stride == 1) {
      low = avx512::load_widened(first(num_low), in);
      high = avx512::load_widened(first(num_high), in + kLanes);
    } else {
      low = load_strided(num_low, in, s.channel_stride);
      high = load_strided(num_high, in + kLanes * s.channel_stride, s.channel_stride);
    }
    seen.see(low), seen.see(high);
    write_cell<kParts>(low, high, s.out + x * kPartChannels, s.part_stride);
  }
  return seen.largest();
}

}  // namespace

uint32_t bf16_split_avx512_f32(const SplitArgs<float>& s) { return split(s); }
uint32_t bf16_split_avx512_f16(const SplitArgs<Float16>& s) { return split(s); }
uint32_t bf16_split_avx512_bf16(const SplitArgs<Bfloat16>& s) {
  if (s.cell_stride != 1) return split(s);
  return s.channels == kPartChannels ? pair_cells<true>(s) : pair_cells<false>(s);
}

}  // namespace ortconv::kernels

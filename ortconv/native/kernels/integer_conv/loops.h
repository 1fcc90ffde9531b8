// The loops of the kernels for convolutions of 8-bit integers, for a struct V of an instruction set:
//
//   kLanes, kDepth, kRows, kVectors  as in IntegerConvKernel
//   Number, Int                      a number of a lane; a vector of lanes
//   zero, load, broadcast            vectors of zeros, of memory, of one lane
//   keep(x), prefetch(p)             in a register; into the cache
//   spread<step>(p)                  lane i holds the numbers from p[i * step] on; reads no further than p[64]
//   dot(sum, x, w)                   adds the products of the numbers of each lane
//   finish(sum, channel, position, y)
//   kStoresResults                   whether there is ByteTiles<is_plain>, which stores bytes as FloatTiles does floats
//
// Where a lane holds bytes:
//
//   less_product(sum, a, b)          takes a[i] * b off each lane, wrapping
//   store(p, sum)                    as integers
//
// Where kLanes is twice kRows, store and:
//
//   halves(a, b)                     a in the lower lanes, b in the upper ones
//   half(p)                          the lower lanes of memory, the upper ones of zeros
//
// Files that include this name their V in an unnamed namespace, as each compiles it for another CPU.
#pragma once

#include <cstdint>

#include "kernels/integer_conv/kernel.h"
#include "kernels/unroll.h"

namespace ortconv::kernels {

template <class V>
constexpr bool kTakesBytes = V::kDepth == 4;

// Lanes of weights that are fetched before they are needed. A layer's weights are often more than a cache holds.
constexpr int kAhead = 256;

template <class V, int kRows, int kCount>
ORTCONV_ALWAYS_INLINE inline void accumulate(const IntegerTileArgs& a, typename V::Int (&sums)[kRows][kCount]) {
  ORTCONV_UNROLL
  for (int r = 0; r < kRows; ++r) {
    ORTCONV_UNROLL
    for (int j = 0; j < kCount; ++j) sums[r][j] = V::zero();
  }
  const uint32_t* w = a.weights;
  for (int64_t t = 0; t < a.tap_count; ++t) {
    const uint32_t* at[kCount];
    ORTCONV_UNROLL
    for (int j = 0; j < kCount; ++j) at[j] = a.src + a.taps[t] + a.positions[j].src;
    for (int64_t block = 0; block < a.blocks; ++block, w += V::kRows) {
      typename V::Int x[kCount];
      ORTCONV_UNROLL
      for (int j = 0; j < kCount; ++j) {
        x[j] = V::load(at[j]);
        V::keep(x[j]);
        at[j] += a.block_stride;
      }
      V::prefetch(w + kAhead);
      ORTCONV_UNROLL
      for (int r = 0; r < kRows; ++r) {
        typename V::Int weights = V::broadcast(w[r]);
        V::keep(weights);
        ORTCONV_UNROLL
        for (int j = 0; j < kCount; ++j) sums[r][j] = V::dot(sums[r][j], x[j], weights);
      }
    }
  }
  if constexpr (V::kSaturates) {
    const IntegerExcess* excess = a.excess;
    for (int64_t i = 0; i < a.excess_count; ++i, excess += V::kRows) {
      ORTCONV_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const uint32_t* const at = a.src + excess[r].offset;
        const typename V::Int weights = V::broadcast(excess[r].weights);
        ORTCONV_UNROLL
        for (int j = 0; j < kCount; ++j) sums[r][j] = V::dot(sums[r][j], V::load(at + a.positions[j].src), weights);
      }
    }
  }
}

// Stores floats to where the outputs are.
template <class V>
struct FloatTiles {
  explicit FloatTiles(const IntegerTileArgs&) {}

  template <int kCount>
  void store(const IntegerTileArgs& a, int row, const typename V::Int* sums) const {
    float* const y = a.y + row * a.y_stride;
    ORTCONV_UNROLL
    for (int j = 0; j < kCount; ++j) V::finish(sums[j], a.channels[row], a.positions[j], y);
  }

  void next() {}
};

template <class V, int kRows, int kCount, class Tiles>
ORTCONV_ALWAYS_INLINE inline void integer_tile(const IntegerTileArgs& a, const Tiles& tiles) {
  typename V::Int sums[kRows][kCount];
  accumulate<V, kRows, kCount>(a, sums);
  ORTCONV_UNROLL
  for (int r = 0; r < kRows; ++r) {
    if (r >= a.rows) return;
    if constexpr (kTakesBytes<V>) {
      ORTCONV_UNROLL
      for (int j = 0; j < kCount; ++j) {
        if (a.sums == nullptr) break;
        const auto* const of_x = reinterpret_cast<const uint32_t*>(a.sums + j * V::kLanes);
        sums[r][j] = V::less_product(sums[r][j], V::load(of_x), a.channels[r].zero);
      }
    }
    tiles.template store<kCount>(a, r, sums[r]);
  }
}

template <class V, int kRows, class Tiles>
void integer_tiles_of(IntegerTileArgs a) {
  Tiles tiles(a);
  for (; a.count >= V::kVectors; a.count -= V::kVectors, tiles.next()) {
    integer_tile<V, kRows, V::kVectors>(a, tiles);
    a.positions += V::kVectors;
    if (a.sums != nullptr) a.sums += V::kVectors * V::kLanes;
  }
  if (V::kVectors == 3 && a.count == 2) return integer_tile<V, kRows, 2>(a, tiles);
  if (a.count == 1) integer_tile<V, kRows, 1>(a, tiles);
}

// What the excess of one of the panel's rows adds to its first output.
inline uint32_t excess_sum(const IntegerTileArgs& a, int rows, int row) {
  uint32_t sum = 0;
  for (int64_t i = 0; i < a.excess_count; ++i) {
    const IntegerExcess& excess = a.excess[i * rows + row];
    const uint32_t x = a.src[excess.offset + a.positions->src];
    for (int shift = 0; shift < 32; shift += 8) {
      sum += (x >> shift & 0xff) * static_cast<uint32_t>(static_cast<int8_t>(excess.weights >> shift));
    }
  }
  return sum;
}

// A single output of each channel: a vector holds the weights of all rows for two lanes of the source.
template <class V>
void integer_single(const IntegerTileArgs& a) {
  constexpr int kSums = 4;  // as the next sum would wait for the last one
  typename V::Int sums[kSums];
  for (typename V::Int& sum : sums) sum = V::zero();
  const uint32_t* w = a.weights;
  const auto two = [&](const uint32_t* at, typename V::Int sum) {
    return V::dot(sum, V::halves(at[0], at[a.block_stride]), V::load(w));
  };
  for (int64_t t = 0; t < a.tap_count; ++t) {
    const uint32_t* at = a.src + a.taps[t] + a.positions->src;
    int64_t block = 0;
    for (; block + 2 * kSums <= a.blocks; block += 2 * kSums) {
      ORTCONV_UNROLL
      for (int i = 0; i < kSums; ++i, at += 2 * a.block_stride, w += 2 * V::kRows) sums[i] = two(at, sums[i]);
    }
    for (; block + 2 <= a.blocks; block += 2, at += 2 * a.block_stride, w += 2 * V::kRows) sums[0] = two(at, sums[0]);
    if (block == a.blocks) continue;
    sums[1] = V::dot(sums[1], V::halves(*at, 0), V::half(w));
    w += V::kRows;
  }
  int32_t all[kSums][V::kLanes];
  for (int i = 0; i < kSums; ++i) V::store(all[i], sums[i]);
  for (int r = 0; r < a.rows; ++r) {
    const IntegerChannel& channel = a.channels[r];
    auto sum = static_cast<uint32_t>(channel.correction);
    for (int i = 0; i < kSums; ++i) {
      sum += static_cast<uint32_t>(all[i][r]) + static_cast<uint32_t>(all[i][V::kRows + r]);
    }
    if constexpr (V::kSaturates) sum += excess_sum(a, V::kRows, r);
    if (a.sums != nullptr) sum -= static_cast<uint32_t>(channel.zero) * static_cast<uint32_t>(*a.sums);
    const auto number = static_cast<float>(static_cast<int32_t>(sum));
    a.y[r * a.y_stride + a.positions->dst] = number * channel.scale + channel.bias;
  }
}

template <class V, class Tiles>
void integer_tiles_to(const IntegerTileArgs& a) {
  static_assert(V::kVectors == 2 || V::kVectors == 3, "the kinds of tiles");
  if (a.rows <= V::kRows / 4) return integer_tiles_of<V, V::kRows / 4, Tiles>(a);
  if (a.rows <= V::kRows / 2) return integer_tiles_of<V, V::kRows / 2, Tiles>(a);
  return integer_tiles_of<V, V::kRows, Tiles>(a);
}

template <class V>
void integer_tiles(const IntegerTileArgs& a) {
  if constexpr (V::kStoresResults) {
    if (a.results != nullptr && a.results->is_plain)
      return integer_tiles_to<V, typename V::template ByteTiles<true>>(a);
    if (a.results != nullptr) return integer_tiles_to<V, typename V::template ByteTiles<false>>(a);
  }
  if constexpr (V::kLanes == 2 * V::kRows) {
    if (a.count == 1 && a.positions->count == 1) return integer_single<V>(a);
  }
  integer_tiles_to<V, FloatTiles<V>>(a);
}

template <class V>
void integer_sums(const IntegerTileArgs& a, int32_t* out) {
  IntegerTileArgs one = a;
  for (int j = 0; j < a.count; ++j, ++one.positions, out += V::kLanes) {
    typename V::Int sums[1][1];
    accumulate<V, 1, 1>(one, sums);
    V::store(out, sums[0][0]);
  }
}

template <class V, int kCount, int kStep, bool kHasZero>
void integer_depthwise_of(const IntegerDepthwiseArgs& a, const PositionVector* positions) {
  const typename V::Number* from[kCount];
  typename V::Int sums[kCount], ones[kCount];
  ORTCONV_UNROLL
  for (int j = 0; j < kCount; ++j) {
    from[j] = static_cast<const typename V::Number*>(a.src) + positions[j].src;
    sums[j] = ones[j] = V::zero();
  }
  for (int64_t w = 0; w < a.window_count; ++w) {
    const typename V::Int weights = V::broadcast(a.weights[w]);
    ORTCONV_UNROLL
    for (int j = 0; j < kCount; ++j) {
      const typename V::Int x = V::template spread<kStep>(from[j] + a.windows[w]);
      sums[j] = V::dot(sums[j], x, weights);
      if constexpr (kHasZero) ones[j] = V::dot(ones[j], x, V::broadcast(a.ones[w]));
    }
  }
  ORTCONV_UNROLL
  for (int j = 0; j < kCount; ++j) {
    if constexpr (kHasZero) sums[j] = V::less_product(sums[j], ones[j], a.channel.zero);
    V::finish(sums[j], a.channel, positions[j], a.y);
  }
}

template <class V, int kStep, bool kHasZero>
void integer_depthwise_all(const IntegerDepthwiseArgs& a) {
  constexpr int kCount = 4;
  int64_t i = 0;
  for (; i + kCount <= a.count; i += kCount) integer_depthwise_of<V, kCount, kStep, kHasZero>(a, a.positions + i);
  const PositionVector* const rest = a.positions + i;
  if (a.count - i == 3) return integer_depthwise_of<V, 3, kStep, kHasZero>(a, rest);
  if (a.count - i == 2) return integer_depthwise_of<V, 2, kStep, kHasZero>(a, rest);
  if (a.count - i == 1) return integer_depthwise_of<V, 1, kStep, kHasZero>(a, rest);
}

template <class V, int kStep>
void integer_depthwise_by(const IntegerDepthwiseArgs& a) {
  if constexpr (kTakesBytes<V>) {
    if (a.ones != nullptr) return integer_depthwise_all<V, kStep, true>(a);
  }
  return integer_depthwise_all<V, kStep, false>(a);
}

template <class V>
void integer_depthwise(const IntegerDepthwiseArgs& a) {
  if (a.step == 1) return integer_depthwise_by<V, 1>(a);
  return integer_depthwise_by<V, 2>(a);
}

template <class V>
constexpr IntegerConvKernel integer_conv_kernel(const char* name) {
  IntegerConvKernel kernel{name,          V::kLanes,        V::kDepth,         V::kRows,
                           V::kVectors,   integer_tiles<V>, nullptr,           integer_depthwise<V>,
                           V::interleave, V::widen,         V::kStoresResults, V::kSaturates};
  if constexpr (kTakesBytes<V>) kernel.sums = integer_sums<V>;
  return kernel;
}

}  // namespace ortconv::kernels

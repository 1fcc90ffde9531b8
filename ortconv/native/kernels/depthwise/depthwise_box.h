// The kernel for taps that form a small box that is complete for every row and lane, as in a transposed convolution
// whose kernel is twice its stride: the weights stay in registers, and positions share what they load.
//
// V is the ISA, as in depthwise_loops.h, and has a type Index of the elements that lanes pick; load_index(index) and
// pick(from, index); and a type Normal, which stores bf16 numbers faster if are_normal(sums, bias), or is void.
#pragma once

#include <type_traits>

#include "kernels/depthwise/depthwise.h"
#include "kernels/unroll.h"

namespace ortconv::kernels {
namespace {

// Calls write(V()), or write(V::Normal()) where that is faster and gives the same result for these sums.
template <class V, class T, class Sums, class Write>
ORTCONV_ALWAYS_INLINE inline void write_sums([[maybe_unused]] const Sums& sums,
                                             [[maybe_unused]] typename V::Vector bias, const Write& write) {
  if constexpr (!std::is_void_v<typename V::Normal> && std::is_same_v<T, Bfloat16>) {
    if (V::are_normal(sums, bias)) return write(typename V::Normal());
  }
  write(V());
}

// Computes C rows of dst from `first` on, whose taps are R rows by S steps, P positions at a time. Weights and sums fit
// into the registers.
template <class V, bool kPicks, int R, int S, int C, int P, class T>
void depthwise_box_rows(const DepthwiseArgs<T>& args, int64_t first) {
  using Cell = typename V::Cell;
  using Vector = typename V::Vector;
  Vector weights[R][S][C];
  ORTCONV_UNROLL
  for (int r = 0; r < R; ++r) {
    ORTCONV_UNROLL
    for (int s = 0; s < S; ++s) {
      ORTCONV_UNROLL
      for (int c = 0; c < C; ++c) {
        const Cell* from = args.weights[r][first + c];
        weights[r][s][c] = kPicks ? V::load(from + s * V::kLanes) : V::broadcast(from[s]);
      }
    }
  }
  T* to[C];
  ORTCONV_UNROLL
  for (int c = 0; c < C; ++c) to[c] = args.dst[first + c];
  int64_t offset[S];
  ORTCONV_UNROLL
  for (int s = 0; s < S; ++s) offset[s] = args.offset[s];
  const auto index = kPicks ? V::load_index(args.index) : typename V::Index();
  const Vector bias = V::broadcast(args.bias);
  const int64_t src_step = args.src_step, dst_step = args.dst_step, stride = args.stride;
  const int64_t whole = args.n / V::kLanes, last = args.n % V::kLanes;
  const bool stream = args.stream;

  // Vector v of `count` positions, at most P, from the one that `src` and `dst` are for.
  const auto tile = [&](auto count, const Cell* src, int64_t dst, int64_t v) ORTCONV_ALWAYS_INLINE {
    constexpr int kCount = decltype(count)::value;
    Vector sums[kCount][C];
    ORTCONV_UNROLL
    for (int q = kCount - 1; q > -R; --q) {  // rows of src, from the last one down, so that taps are in order
      ORTCONV_UNROLL
      for (int s = 0; s < S; ++s) {
        const Cell* from = src + q * src_step + offset[s];
        Vector e;
        if constexpr (kPicks) {
          e = V::pick(from, index);
        } else {
          e = V::load(from);
        }
        ORTCONV_KEEP(e);
        ORTCONV_UNROLL
        for (int p = 0; p < kCount; ++p) {
          const int r = p - q;
          if (r < 0 || r >= R) continue;
          ORTCONV_UNROLL
          for (int c = 0; c < C; ++c) {
            const Vector before = r == 0 && s == 0 ? V::zero() : sums[p][c];
            sums[p][c] = V::multiply_add(weights[r][s][c], e, before);
          }
        }
      }
    }
    write_sums<V, T>(sums, bias, [&](auto isa) ORTCONV_ALWAYS_INLINE {
      using Isa = decltype(isa);
      ORTCONV_UNROLL
      for (int p = 0; p < kCount; ++p) {
        ORTCONV_UNROLL
        for (int c = 0; c < C; ++c) {
          T* out = to[c] + dst + p * dst_step + v * V::kLanes;
          const Vector sum = V::add(sums[p][c], bias);
          if (v == whole) {
            Isa::store_first(last, out, sum);
          } else if (stream) {
            Isa::stream(out, sum);
          } else {
            Isa::store(out, sum);
          }
        }
      }
    });
  };
  const auto positions = [&](auto count, int64_t position) ORTCONV_ALWAYS_INLINE {
    const Cell* src = args.src[0] + position * src_step;
    const int64_t dst = position * dst_step;
    for (int64_t v = 0; v < whole; ++v, src += stride) tile(count, src, dst, v);
    if (last > 0) tile(count, src, dst, whole);
  };
  int64_t position = 0;
  for (; position + P <= args.positions; position += P) positions(std::integral_constant<int, P>(), position);
  for (; position < args.positions; ++position) positions(std::integral_constant<int, 1>(), position);
}

// Whether each position needs the rows of src of the position before, shifted by one.
template <class T>
bool shares_rows(const DepthwiseArgs<T>& args) {
  for (int64_t r = 1; r < args.src_rows; ++r) {
    if (args.src[r] != args.src[0] - r * args.src_step) return false;
  }
  return true;
}

// Computes args of that kind; false: they are not, and nothing is done.
template <class V, class T>
bool depthwise_box(const DepthwiseArgs<T>& args) {
  constexpr bool kManyRegisters = V::kRegisters >= 32;
  if (!args.complete || !shares_rows(args)) return false;
  if (args.index == nullptr) {
    if (args.src_rows != 3 || args.steps != 3) return false;
    for (int64_t row = 0; row < args.dst_rows; ++row) {
      depthwise_box_rows<V, false, 3, 3, 1, kManyRegisters ? 6 : 4>(args, row);
    }
    return true;
  }
  if (args.patterns != 1 || args.src_rows != 2 || args.steps != 2 || args.dst_rows % 2 != 0) return false;
  if constexpr (kManyRegisters) {
    for (int64_t row = 0; args.dst_rows % 4 == 0 && row < args.dst_rows; row += 4) {
      depthwise_box_rows<V, true, 2, 2, 4, 2>(args, row);
    }
    if (args.dst_rows % 4 == 0) return true;
  }
  for (int64_t row = 0; row < args.dst_rows; row += 2) {
    depthwise_box_rows<V, true, 2, 2, 2, kManyRegisters ? 4 : 2>(args, row);
  }
  return true;
}

}  // namespace
}  // namespace ortconv::kernels

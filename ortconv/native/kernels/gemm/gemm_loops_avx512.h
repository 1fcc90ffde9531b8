// The microkernel in AVX-512, for every kind of operand. Only for files named after it.
#pragma once

#include <immintrin.h>

#include <algorithm>
#include <type_traits>

#include "kernels/gemm/gemm.h"
#include "kernels/unroll.h"
#include "kernels/vector_avx512.h"

namespace ortconv::kernels {
namespace {

using avx512::kLanes;

// A vector of B, or some lanes of one.
template <class B, class... Lanes>
auto load_operand(const B* b, Lanes... lanes) {
  if constexpr (std::is_same_v<B, Float16> || std::is_same_v<B, Bfloat16>) {
    return avx512::load_widened(lanes..., b);
  } else {
    return avx512::load(lanes..., b);
  }
}

// How far ahead of its use an A that no cache holds is asked for, in bytes, and what lies beyond the first row of B.
constexpr int64_t kAhead = 2048, kBeyond = 4096;

// What is likely in no cache: nothing, an operand, or what is read next, which is what the caller names or what follows
// in the memory of B. With kNone lda equals the number of rows.
enum class Far { kNone, kA, kB, kNext };

constexpr int kMostVectors = 28;  // of accumulators

// R rows by V vectors: R * V accumulators, V vectors of B and a broadcast in 32 registers. `sums` has room for the
// former; an array of the function's own would be taken apart and copied to and fro. In the last tile of a row the last
// vector of B may have fewer lanes. Out: what the rows of c hold, sums or numbers of 16 bits.
template <int R, int V, Far kFar, class Out, class T, class B>
void tile(const BasicGemmArgs<T, B>& g, int64_t n0, Sum<T>* sums) {
  static_assert(R * V <= kMostVectors);
  using Vector = decltype(avx512::zero<T>());
  const T* a = g.a;
  const int64_t* tap = g.tap_offset;
  const B* b = g.b + *tap + n0;
  const int64_t lda = kFar == Far::kNone ? R : g.lda, ldb = g.ldb;
  [[maybe_unused]] const char* next =
      g.next == nullptr ? reinterpret_cast<const char*>(g.b) + kBeyond : static_cast<const char*>(g.next);
  Vector acc[R][V];
  [[maybe_unused]] const auto lanes =
      avx512::first<T>(std::min<int64_t>(g.cols - n0 - (V - 1) * kLanes<T>, kLanes<T>));  // of the last vector
  int64_t tap_left = g.k;
  for (int64_t left = g.taps * g.k;;) {
    const bool first = left == g.taps * g.k;
    ORTCONV_UNROLL
    for (int r = 0; r < R; ++r) {
      ORTCONV_UNROLL
      for (int v = 0; v < V; ++v) {
        acc[r][v] = avx512::zero<T>();
      }
    }
    // One loop over taps and k: a nest would move the sums between registers at every tap.
    for (const int64_t stop = std::max<int64_t>(left - g.piece, 0); left > stop; --left, a += lda) {
      decltype(load_operand(b)) bv[V];
      ORTCONV_UNROLL
      for (int v = 0; v < V; ++v) {
        bv[v] = v + 1 < V ? load_operand(b + kLanes<T> * v) : load_operand(b + kLanes<T> * v, lanes);
      }
      ORTCONV_UNROLL
      for (int v = 0; v < V && kFar == Far::kB; ++v) {  // the columns after these
        _mm_prefetch(reinterpret_cast<const char*>(b + kLanes<T> * (V + v)), _MM_HINT_T0);
      }
      b += ldb;
      for (size_t line = 0; kFar == Far::kA && line < R * sizeof(T); line += 64) {
        _mm_prefetch(reinterpret_cast<const char*>(a) + kAhead + line, _MM_HINT_T0);
      }
      if constexpr (kFar == Far::kNext) {
        _mm_prefetch(next, _MM_HINT_T1);
        next += 64;
      }
      ORTCONV_UNROLL
      for (int r = 0; r < R; ++r) {
        const auto ar = avx512::broadcast(a[r]);
        ORTCONV_UNROLL
        for (int v = 0; v < V; ++v) acc[r][v] = avx512::multiply_add(ar, bv[v], acc[r][v]);
      }
      if (--tap_left == 0 && left > 1) {
        b = g.b + *++tap + n0;
        tap_left = g.k;
      }
    }
    if (!first) {
      ORTCONV_UNROLL
      for (int r = 0; r < R; ++r) {
        ORTCONV_UNROLL
        for (int v = 0; v < V; ++v) acc[r][v] = avx512::add(acc[r][v], avx512::load(sums + (r * V + v) * kLanes<T>));
      }
    }
    if (left == 0) break;
    ORTCONV_UNROLL
    for (int r = 0; r < R; ++r) {
      ORTCONV_UNROLL
      for (int v = 0; v < V; ++v) avx512::store(sums + (r * V + v) * kLanes<T>, acc[r][v]);
    }
  }
  if constexpr (sizeof(Out) < sizeof(Sum<T>)) {
    ORTCONV_UNROLL
    for (int r = 0; r < R; ++r) {
      Out* const c = reinterpret_cast<Out*>(g.c[r]) + n0;
      const Vector bias = avx512::broadcast(g.bias == nullptr ? -0.0f : g.bias[r]);  // which changes nothing
      ORTCONV_UNROLL
      for (int v = 0; v < V; ++v) avx512::store(c + kLanes<T> * v, avx512::add(acc[r][v], bias));
    }
    return;
  }
  if (g.accumulate) {
    ORTCONV_UNROLL
    for (int r = 0; r < R; ++r) {
      ORTCONV_UNROLL
      for (int v = 0; v < V; ++v) acc[r][v] = avx512::add(acc[r][v], avx512::load(g.c[r] + n0 + kLanes<T> * v));
    }
  }
  ORTCONV_UNROLL
  for (int r = 0; r < R; ++r) {
    ORTCONV_UNROLL
    for (int v = 0; v < V; ++v) avx512::store(g.c[r] + n0 + kLanes<T> * v, acc[r][v]);
  }
}

// Fewer rows leave registers for more columns: at least 8 independent sums hide the latency of an FMA.
template <int R, Far kFar, class Out, class T, class B>
void rows(const BasicGemmArgs<T, B>& g, Sum<T>* sums) {
  constexpr int kVectors = R <= 6 ? 4 : R <= 9 ? 3 : 2;
  static constexpr void (*kTail[])(const BasicGemmArgs<T, B>&, int64_t, Sum<T>*) = {
      tile<R, 1, kFar, Out, T, B>, tile<R, 2, kFar, Out, T, B>, tile<R, std::min(3, kVectors), kFar, Out, T, B>,
      tile<R, kVectors, kFar, Out, T, B>};
  int64_t n = 0;
  for (; n + kVectors * kLanes<T> <= g.cols; n += kVectors * kLanes<T>) tile<R, kVectors, kFar, Out>(g, n, sums);
  if (n < g.cols) kTail[(g.cols - n - 1) / kLanes<T>](g, n, sums);
}

template <Far kFar, class Out, class T, class B>
void any_rows(const BasicGemmArgs<T, B>& g) {
  static constexpr void (*kRows[])(const BasicGemmArgs<T, B>&, Sum<T>*) = {
      rows<1, kFar, Out, T, B>,  rows<2, kFar, Out, T, B>,  rows<3, kFar, Out, T, B>,  rows<4, kFar, Out, T, B>,
      rows<5, kFar, Out, T, B>,  rows<6, kFar, Out, T, B>,  rows<7, kFar, Out, T, B>,  rows<8, kFar, Out, T, B>,
      rows<9, kFar, Out, T, B>,  rows<10, kFar, Out, T, B>, rows<11, kFar, Out, T, B>, rows<12, kFar, Out, T, B>,
      rows<13, kFar, Out, T, B>, rows<14, kFar, Out, T, B>};
  alignas(64) Sum<T> sums[kMostVectors * kLanes<T>];
  kRows[g.rows - 1](g, sums);
}

template <class T>
void gemm(const BasicGemmArgs<T>& g) {
  if (g.far_b) {
    any_rows<Far::kB, Sum<T>>(g);
  } else if (g.far_a) {
    any_rows<Far::kA, Sum<T>>(g);
  } else if (g.next != nullptr || g.lda != g.rows) {
    any_rows<Far::kNext, Sum<T>>(g);
  } else {
    any_rows<Far::kNone, Sum<T>>(g);
  }
}

}  // namespace
}  // namespace ortconv::kernels

// The microkernel for every kind of operand, in the vectors of an ISA. A file named after the ISA includes their header
// first, and says which they are, and how many rows of sums the registers hold:
//     namespace ortconv::kernels::depth_to_space::vectors { using namespace avx2; constexpr int64_t kMostRows = 6; }
#pragma once

#include <algorithm>
#include <type_traits>
#include <utility>

#include "kernels/depth_to_space/kernel.h"
#include "kernels/unroll.h"

namespace ortconv::kernels::depth_to_space {
namespace {

using vectors::kLanes;

// How far ahead of their use the weights are asked for, in bytes.
constexpr int64_t kAhead = 2048;

constexpr int64_t most_groups(int64_t phases) {
  return (phases >= 2 && phases <= 4) || phases == 8 ? vectors::kMostRows / phases : 0;
}

// Lines that the vectors of P phases, V each, make.
template <class T>
constexpr int kLineVectors = static_cast<int>(sizeof(Sum<T>) / sizeof(T));
template <class T, int P, int V>
constexpr int kLines = (P * V + kLineVectors<T> - 1) / kLineVectors<T>;
using vectors::Line;
template <class T>
constexpr int kLineElements = kLanes<T> * kLineVectors<T>;

// The elements of the phases of a group in turns, rounded.
template <int P, int V, class T, class Vector>
ORTCONV_ALWAYS_INLINE inline void make_lines(const Vector (*rows)[V], Line<T>* lines) {
  if constexpr (std::is_same_v<T, Bfloat16> && P % 2 == 0) {
    // Two phases make vectors of pairs, which are shuffled as such.
    ORTCONV_UNROLL
    for (int v = 0; v < V; ++v) {
      Vector pairs[P / 2];
      ORTCONV_UNROLL
      for (int p = 0; p < P; p += 2) pairs[p / 2] = vectors::rounded_pairs(rows[p][v], rows[p + 1][v]);
      vectors::shuffle<P / 2, kLanes<T>>(pairs);
      ORTCONV_UNROLL
      for (int p = 0; p < P / 2; ++p) lines[v * P / 2 + p] = vectors::bits_of(pairs[p]);
    }
  } else {
    constexpr int kAll = P * V;
    Vector in_turns[kAll];
    ORTCONV_UNROLL
    for (int v = 0; v < V; ++v) {
      ORTCONV_UNROLL
      for (int p = 0; p < P; ++p) in_turns[v * P + p] = rows[p][v];
      vectors::shuffle<P, kLanes<T>>(in_turns + v * P);
    }
    ORTCONV_UNROLL
    for (int i = 0; i < kAll; i += kLineVectors<T>) {
      if constexpr (kLineVectors<T> == 1) {
        lines[i] = in_turns[i];
      } else {
        lines[i / 2] = vectors::rounded(T(), in_turns[i], in_turns[std::min(i + 1, kAll - 1)]);
      }
    }
  }
}

// From the sums to dst.
template <int P, int G, int V, class T, class Operand, class Vector>
void finish(const GemmArgs<T, Operand>& g, Vector (*acc)[V]) {
  constexpr int kRows = P * G;
  ORTCONV_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const Vector bias = vectors::broadcast(g.bias[r / P]);
    ORTCONV_UNROLL
    for (int v = 0; v < V; ++v) acc[r][v] = vectors::add(acc[r][v], bias);
  }
  if constexpr (!std::is_same_v<T, double>) {
    if (g.activation != nullptr) {
      ORTCONV_UNROLL
      for (int r = 0; r < kRows; ++r) {
        ORTCONV_UNROLL
        for (int v = 0; v < V; ++v) acc[r][v] = vectors::activated<T>(*g.activation, acc[r][v]);
      }
    }
  }
  constexpr int kCount = kLines<T, P, V>;
  Line<T> lines[G][kCount];
  ORTCONV_UNROLL
  for (int group = 0; group < G; ++group) make_lines<P, V, T>(acc + group * P, lines[group]);
  if (g.store == Pieces::kWhole) {
    ORTCONV_UNROLL
    for (int group = 0; group < G; ++group) {
      T* dst = g.dst + g.offset[group];
      ORTCONV_UNROLL
      for (int i = 0; i < kCount; ++i) vectors::store(dst + g.pieces[i].offset + i * kLineElements<T>, lines[group][i]);
    }
  } else if (g.store == Pieces::kWholeLines) {
    ORTCONV_UNROLL
    for (int group = 0; group < G; ++group) {
      T* dst = g.dst + g.offset[group];
      ORTCONV_UNROLL
      for (int i = 0; i < kCount; ++i) {
        vectors::stream(dst + g.pieces[i].offset + i * kLineElements<T>, &lines[group][i]);
      }
    }
  } else {
    alignas(64) T elements[G][kCount * kLineElements<T>];
    ORTCONV_UNROLL
    for (int group = 0; group < G; ++group) {
      ORTCONV_UNROLL
      for (int i = 0; i < kCount; ++i) vectors::store(elements[group] + i * kLineElements<T>, lines[group][i]);
    }
    for (int group = 0; group < G; ++group) {
      T* dst = g.dst + g.offset[group];
      for (const Piece* piece = g.pieces; piece != g.pieces + g.num_pieces; ++piece) {
        vectors::copy(elements[group] + piece->begin, piece->end - piece->begin, dst + piece->offset + piece->begin);
      }
    }
  }
}

// G groups of P rows by V vectors: P * G * V accumulators, V vectors of B and a broadcast in the registers.
template <int P, int G, int V, class T, class Operand>
void tile(const GemmArgs<T, Operand>& g) {
  constexpr int kRows = P * G, kColumns = kVectors * kLanes<T>;
  using Vector = decltype(vectors::zero<T>());
  const Operand* a = g.a;
  const Operand* b = g.b;
  alignas(64) Sum<T> sums[kRows][kColumns];  // of the pieces before the present one
  Vector acc[kRows][V];
  bool first = true;
  for (int64_t left = g.k;; first = false) {
    ORTCONV_UNROLL
    for (int r = 0; r < kRows; ++r) {
      ORTCONV_UNROLL
      for (int v = 0; v < V; ++v) acc[r][v] = vectors::zero<T>();
    }
    ORTCONV_UNROLL_TWICE
    for (const int64_t stop = std::max<int64_t>(left - g.piece, 0); left > stop; --left, a += kRows, b += kColumns) {
      decltype(vectors::load(b)) bv[V];
      ORTCONV_UNROLL
      for (int v = 0; v < V; ++v) bv[v] = vectors::load(b + kLanes<T> * v);
      _mm_prefetch(reinterpret_cast<const char*>(a) + kAhead, _MM_HINT_T0);
      ORTCONV_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const auto ar = vectors::broadcast(a[r]);
        ORTCONV_UNROLL
        for (int v = 0; v < V; ++v) acc[r][v] = vectors::multiply_add(ar, bv[v], acc[r][v]);
      }
    }
    if (!first) {
      ORTCONV_UNROLL
      for (int r = 0; r < kRows; ++r) {
        ORTCONV_UNROLL
        for (int v = 0; v < V; ++v) acc[r][v] = vectors::add(acc[r][v], vectors::load(sums[r] + kLanes<T> * v));
      }
    }
    if (left == 0) break;
    ORTCONV_UNROLL
    for (int r = 0; r < kRows; ++r) {
      ORTCONV_UNROLL
      for (int v = 0; v < V; ++v) vectors::store(sums[r] + kLanes<T> * v, acc[r][v]);
    }
  }
  finish<P, G, V>(g, acc);
}

template <int P, int G, class T, class Operand>
void columns(const GemmArgs<T, Operand>& g) {
  g.columns <= kLanes<T> ? tile<P, G, 1>(g) : tile<P, G, 2>(g);
}

template <int P, class T, class Operand, int... kGroups>
void groups(const GemmArgs<T, Operand>& g, std::integer_sequence<int, kGroups...>) {
  static constexpr void (*kTiles[])(const GemmArgs<T, Operand>&) = {columns<P, kGroups + 1, T, Operand>...};
  kTiles[g.groups - 1](g);
}

template <int P, class T, class Operand>
void groups(const GemmArgs<T, Operand>& g) {
  if constexpr (most_groups(P) > 0) groups<P>(g, std::make_integer_sequence<int, most_groups(P)>());
}

template <class T, class Operand>
void gemm(const GemmArgs<T, Operand>& g) {
  switch (g.phases) {
    case 2:
      return groups<2>(g);
    case 3:
      return groups<3>(g);
    case 4:
      return groups<4>(g);
    case 8:
      return groups<8>(g);
  }
}

// Widens the columns of a block, a vector at a time.
template <class T>
void pack(const PackArgs<T, Sum<T>>& args) {
  const T* src = args.src;
  Sum<T>* out = args.out;
  const int64_t ahead = args.ahead * args.channel_stride;
  for (int64_t c = 0; c < args.channels; ++c, src += args.channel_stride, out += args.pitch) {
    for (const Run* run = args.runs; run != args.runs_end; ++run) {
      const T* in = src + run->offset;
      Sum<T>* cells = out + run->cell;
      int64_t left = run->length;
      for (; left >= kLanes<T>; left -= kLanes<T>, in += kLanes<T>, cells += kLanes<T>) {
        _mm_prefetch(reinterpret_cast<const char*>(in + ahead), _MM_HINT_T0);
        vectors::store(cells, vectors::load_widened(in));
      }
      if (left == 0) continue;
      _mm_prefetch(reinterpret_cast<const char*>(in + ahead), _MM_HINT_T0);
      vectors::widen_first(left, in, cells);
    }
  }
}

}  // namespace
}  // namespace ortconv::kernels::depth_to_space

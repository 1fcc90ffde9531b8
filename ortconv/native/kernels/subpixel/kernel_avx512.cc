#if defined(__AVX512F__)

#include <immintrin.h>

#include <algorithm>

#include "kernels/activate/activated_avx512.h"
#include "kernels/interleave/shuffle_avx512.h"
#include "kernels/subpixel/kernel.h"
#include "kernels/unroll.h"
#include "kernels/vector_avx512.h"

namespace ortconv::kernels::subpixel {
namespace {

using avx512::kLanes;

// How far ahead of their use the weights are asked for, in bytes.
constexpr int64_t kAhead = 2048;

constexpr int64_t kMostRows = 14;  // of the register tile

constexpr int64_t most_groups(int64_t phases) {
  return (phases >= 2 && phases <= 4) || phases == 8 ? kMostRows / phases : 0;
}

// Writes the pieces of a group.
template <class T>
void write(const Piece* piece, int64_t count, const Sum<T>* elements, T* dst) {
  for (; count > 0; --count, elements += kLanes<T>) {
    const auto v = avx512::load(elements);
    bool last = false;
    for (; !last; ++piece) {
      avx512::store(static_cast<avx512::Mask<T>>(piece->lanes), dst + piece->offset, v);
      last = piece->last;
    }
  }
}

// From the sums to dst.
template <int P, int G, int V, class T, class Vector>
void finish(const GemmArgs<T>& g, Vector (*acc)[V]) {
  constexpr int kRows = P * G;
  ORTCONV_UNROLL
  for (int r = 0; r < kRows; ++r) {
    const Vector bias = avx512::broadcast(g.bias[r / P]);
    ORTCONV_UNROLL
    for (int v = 0; v < V; ++v) acc[r][v] = avx512::add(acc[r][v], bias);
  }
  if constexpr (!std::is_same_v<T, double>) {
    if (g.activation != nullptr) {
      ORTCONV_UNROLL
      for (int r = 0; r < kRows; ++r) {
        ORTCONV_UNROLL
        for (int v = 0; v < V; ++v) acc[r][v] = avx512::activated<T>(*g.activation, acc[r][v]);
      }
    }
  }
  Vector out[G][V * P];
  ORTCONV_UNROLL
  for (int group = 0; group < G; ++group) {
    ORTCONV_UNROLL
    for (int v = 0; v < V; ++v) {
      ORTCONV_UNROLL
      for (int p = 0; p < P; ++p) out[group][v * P + p] = acc[group * P + p][v];
      avx512::shuffle<P, kLanes<T>>(out[group] + v * P);
    }
  }
  if (g.store == Pieces::kWhole) {
    ORTCONV_UNROLL
    for (int group = 0; group < G; ++group) {
      T* dst = g.dst + g.offset[group];
      ORTCONV_UNROLL
      for (int v = 0; v < V * P; ++v) avx512::store(dst + g.pieces[v].offset, out[group][v]);
    }
  } else if (sizeof(T) == sizeof(Sum<T>) && g.store == Pieces::kWholeLines) {
    ORTCONV_UNROLL
    for (int group = 0; group < G; ++group) {
      T* dst = g.dst + g.offset[group];
      ORTCONV_UNROLL
      for (int v = 0; v < V * P; ++v) avx512::stream(dst + g.pieces[v].offset, &out[group][v]);
    }
  } else {
    alignas(64) Sum<T> elements[G][V * P * kLanes<T>];
    ORTCONV_UNROLL
    for (int group = 0; group < G; ++group) {
      ORTCONV_UNROLL
      for (int v = 0; v < V * P; ++v) avx512::store(elements[group] + v * kLanes<T>, out[group][v]);
    }
    for (int group = 0; group < G; ++group) write(g.pieces, V * P, elements[group], g.dst + g.offset[group]);
  }
}

// G groups of P rows by V vectors: P * G * V accumulators, V vectors of B and a broadcast in 32 registers.
template <int P, int G, int V, class T>
void tile(const GemmArgs<T>& g) {
  constexpr int kRows = P * G, kColumns = kVectors * kLanes<T>;
  using Vector = decltype(avx512::zero<T>());
  const Sum<T>* a = g.a;
  const Sum<T>* b = g.b;
  alignas(64) Sum<T> sums[kRows][kColumns];  // of the pieces before the present one
  Vector acc[kRows][V];
  for (int64_t left = g.k; left > 0;) {
    const bool first = left == g.k;
    ORTCONV_UNROLL
    for (int r = 0; r < kRows; ++r) {
      ORTCONV_UNROLL
      for (int v = 0; v < V; ++v) acc[r][v] = avx512::zero<T>();
    }
    for (const int64_t stop = std::max<int64_t>(left - g.piece, 0); left > stop; --left, a += kRows, b += kColumns) {
      Vector bv[V];
      ORTCONV_UNROLL
      for (int v = 0; v < V; ++v) bv[v] = avx512::load(b + kLanes<T> * v);
      _mm_prefetch(reinterpret_cast<const char*>(a) + kAhead, _MM_HINT_T0);
      ORTCONV_UNROLL
      for (int r = 0; r < kRows; ++r) {
        const Vector ar = avx512::broadcast(a[r]);
        ORTCONV_UNROLL
        for (int v = 0; v < V; ++v) acc[r][v] = avx512::multiply_add(ar, bv[v], acc[r][v]);
      }
    }
    if (!first) {
      ORTCONV_UNROLL
      for (int r = 0; r < kRows; ++r) {
        ORTCONV_UNROLL
        for (int v = 0; v < V; ++v) acc[r][v] = avx512::add(acc[r][v], avx512::load(sums[r] + kLanes<T> * v));
      }
    }
    if (left == 0) break;
    ORTCONV_UNROLL
    for (int r = 0; r < kRows; ++r) {
      ORTCONV_UNROLL
      for (int v = 0; v < V; ++v) avx512::store(sums[r] + kLanes<T> * v, acc[r][v]);
    }
  }
  finish<P, G, V>(g, acc);
}

template <int P, int G, class T>
void columns(const GemmArgs<T>& g) {
  g.columns <= kLanes<T> ? tile<P, G, 1>(g) : tile<P, G, 2>(g);
}

template <int P, class T, int... kGroups>
void groups(const GemmArgs<T>& g, std::integer_sequence<int, kGroups...>) {
  constexpr void (*kTiles[])(const GemmArgs<T>&) = {columns<P, kGroups + 1, T>...};
  kTiles[g.groups - 1](g);
}

template <int P, class T>
void groups(const GemmArgs<T>& g) {
  groups<P>(g, std::make_integer_sequence<int, most_groups(P)>());
}

}  // namespace

int64_t groups_avx512(int64_t phases) { return most_groups(phases); }

void fence_avx512() { _mm_sfence(); }

template <class T>
void gemm_avx512(const GemmArgs<T>& g) {
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

template <class T>
void pack_avx512(const PackArgs<T>& args) {
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
        avx512::store(cells, avx512::load_widened(avx512::first<T>(kLanes<T>), in));
      }
      if (left == 0) continue;
      _mm_prefetch(reinterpret_cast<const char*>(in + ahead), _MM_HINT_T0);
      const auto rest = avx512::first<T>(left);
      avx512::store(rest, cells, avx512::load_widened(rest, in));
    }
  }
}

#define INSTANTIATE(T)                           \
  template void gemm_avx512(const GemmArgs<T>&); \
  template void pack_avx512(const PackArgs<T>&)
INSTANTIATE(float);
INSTANTIATE(double);
INSTANTIATE(Float16);
INSTANTIATE(Bfloat16);
#undef INSTANTIATE

}  // namespace ortconv::kernels::subpixel

#endif

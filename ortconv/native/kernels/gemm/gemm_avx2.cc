#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <type_traits>
#include <utility>

#include "kernels/gemm/gemm.h"
#include "kernels/unroll.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels {
namespace {

template <class T>
constexpr int64_t kLanes = 32 / sizeof(T);

// How far ahead of its use an A that no cache holds is asked for, in bytes.
constexpr int64_t kAhead = 4096;
// The same of B, in tiles of columns.
constexpr int kTilesAhead = 3;

// What is likely in no cache; such a B may be copied as it is read.
enum class Far { kNone, kA, kB, kCopiedB };

// Where a column is, in strips if there are any.
template <class T, class B>
int64_t place_of(const BasicGemmArgs<T, B>& g, int64_t n) {
  return g.strip_step == 0 ? n : n / kGemmColumns * g.strip_step + n % kGemmColumns;
}

// The rows of B that a sum multiplies, of a single tap.
template <class T, class B, Far kWhich>
class OneTap {
 public:
  static constexpr Far kFar = kWhich;
  OneTap(const BasicGemmArgs<T, B>& g, int64_t n0)
      : row_(g.b + *g.tap_offset + (kWhich == Far::kCopiedB ? n0 : place_of(g, n0))), ldb_(g.ldb) {}

  // Begins a run of evenly spaced rows and returns its length, at most `most`.
  int64_t begin(int64_t most) { return most; }
  const B* next() {
    const B* row = row_;
    row_ += ldb_;
    return row;
  }

 private:
  const B* row_;
  const int64_t ldb_;
};

// The same of several taps.
template <class T, class B>
class Runs {
 public:
  static constexpr Far kFar = Far::kNone;
  Runs(const BasicGemmArgs<T, B>& g, int64_t n0) : g_(g), n0_(n0), tap_(g.tap_offset), tap_left_(g.k) {
    row_ = g.b + *tap_ + n0;
  }

  int64_t begin(int64_t most) {
    if (tap_left_ == 0) {
      row_ = g_.b + *++tap_ + n0_;
      tap_left_ = g_.k;
    }
    const int64_t length = std::min(most, tap_left_);
    tap_left_ -= length;
    return length;
  }
  const B* next() {
    const B* row = row_;
    row_ += g_.ldb;
    return row;
  }

 private:
  const BasicGemmArgs<T, B>& g_;
  const int64_t n0_;
  const int64_t* tap_;
  int64_t tap_left_;
  const B* row_;
};

// The same where every row is a tap of its own.
template <class T, class B>
class SingleRows {
 public:
  static constexpr Far kFar = Far::kNone;
  SingleRows(const BasicGemmArgs<T, B>& g, int64_t n0) : b_(g.b + n0), tap_(g.tap_offset) {}
  int64_t begin(int64_t most) { return most; }
  const B* next() { return b_ + *tap_++; }

 private:
  const B* b_;
  const int64_t* tap_;
};

// Loads the first elements of a vector, and reads no others beyond them. has_before: the row has at least eight
// elements that end with these. AVX2 has no masks for elements of 16 bits: those eight are loaded then.
template <class B>
auto load_last(int64_t lanes, const B* b, [[maybe_unused]] bool has_before) {
  if constexpr (sizeof(B) > 2) {
    return avx2::load_first(lanes, b);
  } else {
    return avx2::load_first_widened(lanes, b, has_before);
  }
}

// Rounds sums into the rows of numbers of type Number that g.c points to.
template <class Number, int R, int V, class B>
ORTCONV_ALWAYS_INLINE inline void store_rounded(const BasicGemmArgs<float, B>& g, int64_t n0,
                                                const __m256 (&sums)[R][V]) {
  ORTCONV_UNROLL
  for (int r = 0; r < R; ++r) {
    Number* const row = reinterpret_cast<Number*>(g.c[r]) + n0;
    const __m256 bias = avx2::broadcast(g.bias == nullptr ? -0.0f : g.bias[r]);  // which changes nothing
    ORTCONV_UNROLL
    for (int v = 0; v < V; ++v) avx2::store(row + kLanes<float> * v, avx2::add(sums[r][v], bias));
  }
}

// R rows by V vectors: at most 12 accumulators, with vectors of B and a broadcast in 16 registers. In the last tile of
// a row the last vector of B may have fewer lanes.
template <int R, int V, bool kLast, class Rows, class T, class B>
void tile(const BasicGemmArgs<T, B>& g, int64_t n0) {
  static_assert(R * V <= 12);
  using Vector = decltype(avx2::broadcast(T()));
  const int64_t lda = g.lda, products = g.taps * g.k, lanes = g.cols - n0 - (V - 1) * kLanes<T>;
  [[maybe_unused]] const bool has_before = V > 1 || n0 > 0;
  const auto vector = [=](const B* b, int v) {
    return kLast && v + 1 == V ? load_last(lanes, b + kLanes<T> * v, has_before)
                               : avx2::load_widened(b + kLanes<T> * v);
  };
  constexpr bool kCopies = Rows::kFar == Far::kCopiedB, kFarB = kCopies || Rows::kFar == Far::kB;
  const T* a = g.a;
  [[maybe_unused]] T* copy = kCopies ? g.copy_of_b + place_of(g, n0) : nullptr;
  Rows rows(g, n0);
  alignas(32) Sum<T> sums[R][V * kLanes<T>];  // of the pieces before the present one
  Vector acc[R][V];
  for (int64_t done = 0, stop;; done = stop) {
    stop = done + std::min(products - done, g.piece);
    ORTCONV_UNROLL
    for (int r = 0; r < R; ++r) {
      ORTCONV_UNROLL
      for (int v = 0; v < V; ++v) acc[r][v] = avx2::broadcast(T());
    }
    for (int64_t left = stop - done, run; left > 0; left -= run) {
      run = rows.begin(left);
      // On a core that two threads share, every instruction counts that is no product.
      ORTCONV_UNROLL_TWICE
      for (int64_t i = 0; i < run; ++i, a += lda) {
        const B* b = rows.next();
        if constexpr (Rows::kFar == Far::kA) _mm_prefetch(reinterpret_cast<const char*>(a) + kAhead, _MM_HINT_T0);
        if constexpr (kFarB) {
          ORTCONV_UNROLL
          for (int v = 0; v < V; v += 2) {
            _mm_prefetch(reinterpret_cast<const char*>(b + kLanes<T> * (kTilesAhead * V + v)), _MM_HINT_T0);
          }
        }
        // Where 16 registers cannot hold the sums, all vectors of B and a number of A, each vector is loaded when it is
        // due.
        if constexpr (R * V + V + 1 > 16) {
          Vector ar[R];
          ORTCONV_UNROLL
          for (int r = 0; r < R; ++r) ar[r] = avx2::broadcast(a[r]);
          ORTCONV_UNROLL
          for (int v = 0; v < V; ++v) {
            const Vector bv = vector(b, v);
            if constexpr (kCopies) avx2::store(copy + kLanes<T> * v, bv);
            ORTCONV_UNROLL
            for (int r = 0; r < R; ++r) acc[r][v] = avx2::multiply_add(ar[r], bv, acc[r][v]);
          }
        } else {
          Vector bv[V];
          ORTCONV_UNROLL
          for (int v = 0; v < V; ++v) {
            bv[v] = vector(b, v);
            if constexpr (kCopies) avx2::store(copy + kLanes<T> * v, bv[v]);
          }
          ORTCONV_UNROLL
          for (int r = 0; r < R; ++r) {
            const Vector ar = avx2::broadcast(a[r]);
            ORTCONV_UNROLL
            for (int v = 0; v < V; ++v) acc[r][v] = avx2::multiply_add(ar, bv[v], acc[r][v]);
          }
        }
        if constexpr (kCopies) copy += kGemmColumns;
      }
    }
    if (done > 0) {
      ORTCONV_UNROLL
      for (int r = 0; r < R; ++r) {
        ORTCONV_UNROLL
        for (int v = 0; v < V; ++v) acc[r][v] = avx2::add(acc[r][v], avx2::load(sums[r] + kLanes<T> * v));
      }
    }
    if (stop == products) break;
    ORTCONV_UNROLL
    for (int r = 0; r < R; ++r) {
      ORTCONV_UNROLL
      for (int v = 0; v < V; ++v) avx2::store(sums[r] + kLanes<T> * v, acc[r][v]);
    }
  }
  if constexpr (std::is_same_v<T, float>) {
    if (g.rounding == Rounding::kFloat16) return store_rounded<Float16>(g, n0, acc);
    if (g.rounding == Rounding::kBfloat16) return store_rounded<Bfloat16>(g, n0, acc);
  }
  // Copies, as for all the compiler knows what follows may write to g.c.
  Sum<T>* c[R];
  ORTCONV_UNROLL
  for (int r = 0; r < R; ++r) c[r] = g.c[r] + n0;
  if (g.accumulate) {
    ORTCONV_UNROLL
    for (int r = 0; r < R; ++r) {
      ORTCONV_UNROLL
      for (int v = 0; v < V; ++v) acc[r][v] = avx2::add(acc[r][v], avx2::load(c[r] + kLanes<T> * v));
    }
  }
  ORTCONV_UNROLL
  for (int r = 0; r < R; ++r) {
    ORTCONV_UNROLL
    for (int v = 0; v < V; ++v) avx2::store(c[r] + kLanes<T> * v, acc[r][v]);
  }
}

template <int R, class Rows, class T, class B, int... kLess>
constexpr auto tiles(std::integer_sequence<int, kLess...>) {
  return std::array<void (*)(const BasicGemmArgs<T, B>&, int64_t), sizeof...(kLess)>{
      tile<R, kLess + 1, true, Rows, T, B>...};
}

// Fewer rows leave registers for more columns: at least 8 independent sums hide the latency of an FMA.
template <int R, class Rows, class T, class B>
void columns(const BasicGemmArgs<T, B>& g) {
  constexpr int kMost = R <= 1 ? 8 : R <= 3 ? 4 : 2;
  static constexpr auto kTail = tiles<R, Rows, T, B>(std::make_integer_sequence<int, kMost>());
  int64_t n = 0;
  if (g.strip_step != 0) {
    constexpr int kOfStrip = std::min<int>(kMost, kGemmColumns / kLanes<T>);
    for (; n + kOfStrip * kLanes<T> <= g.cols; n += kOfStrip * kLanes<T>) tile<R, kOfStrip, false, Rows>(g, n);
  }
  for (; n + kMost * kLanes<T> <= g.cols; n += kMost * kLanes<T>) tile<R, kMost, false, Rows>(g, n);
  if (n < g.cols) kTail[static_cast<size_t>((g.cols - n - 1) / kLanes<T>)](g, n);
}

template <class Rows, class T, class B>
void multiply(const BasicGemmArgs<T, B>& g) {
  static constexpr void (*kColumns[])(const BasicGemmArgs<T, B>&) = {
      columns<1, Rows>, columns<2, Rows>, columns<3, Rows>, columns<4, Rows>, columns<5, Rows>, columns<6, Rows>};
  kColumns[g.rows - 1](g);
}

template <class T, class B>
void gemm(const BasicGemmArgs<T, B>& g) {
  if (g.taps == 1) {
    if (g.copy_of_b != nullptr) return multiply<OneTap<T, B, Far::kCopiedB>>(g);
    if (g.far_b) return multiply<OneTap<T, B, Far::kB>>(g);
    return g.far_a ? multiply<OneTap<T, B, Far::kA>>(g) : multiply<OneTap<T, B, Far::kNone>>(g);
  }
  g.k == 1 ? multiply<SingleRows<T, B>>(g) : multiply<Runs<T, B>>(g);
}

}  // namespace

void gemm_f32_6x16_avx2(const GemmArgs& g) { gemm(g); }
void gemm_f32_6x16_avx2(const BasicGemmArgs<float, Float16>& g) { gemm(g); }
void gemm_f32_6x16_avx2(const BasicGemmArgs<float, Bfloat16>& g) { gemm(g); }
void gemm_f64_6x8_avx2(const BasicGemmArgs<double>& g) { gemm(g); }

}  // namespace ortconv::kernels

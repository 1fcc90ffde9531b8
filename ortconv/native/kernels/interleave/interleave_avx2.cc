#include <immintrin.h>

#include <algorithm>
#include <type_traits>

#include "kernels/interleave/interleave.h"
#include "kernels/interleave/shuffle_avx2.h"
#include "kernels/transpose8_avx2.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels {

template <class T>
void interleave_generic(const InterleaveArgs<T>& args);

namespace {

constexpr int64_t kLanes = 8;

// Calls block(i) for elements [i, i + kWidth) until all n are done, at least kWidth. The last block may repeat elements
// of the one before.
template <int64_t kWidth, class Fn>
void for_each_block(int64_t n, Fn block) {
  int64_t i = 0;
  for (; i + kWidth <= n; i += kWidth) block(i);
  if (i < n) block(n - kWidth);
}

// Writes a vector of each phase to `dst`; load(p) is that of phase p.
template <int P, class T, class Load>
ORTCONV_ALWAYS_INLINE inline void shuffled(const Load& load, Sum<T> bias, T* dst) {
  decltype(avx2::zero<T>()) row[P];
  ORTCONV_UNROLL
  for (int p = 0; p < P; ++p) row[p] = avx2::add(load(p), avx2::broadcast(bias));
  avx2::shuffle<P, avx2::kLanes<T>>(row);
  ORTCONV_UNROLL
  for (int v = 0; v < P; ++v) avx2::store(dst + avx2::kLanes<T> * v, row[v]);
}

// One to four phases, or six, whose vectors are shuffled.
template <int P, class T>
void interleave(const Sum<T>* const* src, int64_t n, Sum<T> bias, T* dst) {
  constexpr int64_t kWidth = avx2::kLanes<T>, kSingle = 2;  // elements that are faster one by one, unless rounded
  if (n >= kWidth) {
    for_each_block<kWidth>(
        n, [=](int64_t i) { shuffled<P>([=](int p) { return avx2::load(src[p] + i); }, bias, dst + i * P); });
  } else if (n <= kSingle && std::is_same_v<T, Sum<T>>) {
    for (int64_t i = 0; i < n; ++i) {
      ORTCONV_UNROLL
      for (int p = 0; p < P; ++p) round_to(dst + i * P + p, src[p][i] + bias);
    }
  } else {
    T values[P * kWidth];
    shuffled<P>([=](int p) { return avx2::load_first(n, src[p]); }, bias, values);
    avx2::copy(values, n * P, dst);
  }
}

template <int P, class T>
void interleave_channels(const InterleaveArgs<T>& args) {
  const Sum<T>* src[P];
  std::copy_n(args.src, P, src);
  T* dst = args.dst;
  for (int64_t c = 0; c < args.channels; ++c, dst += args.dst_stride) {
    interleave<P>(src, args.n, args.bias_of(c), dst);
    ORTCONV_UNROLL
    for (int p = 0; p < P; ++p) src[p] += args.src_stride;
  }
}

// Five, seven or eight phases, eight elements of each at a time: rows of so many are transposed. n: at least eight.
template <int P, class T>
void transpose_channels(const InterleaveArgs<T>& args) {
  static_assert(P > kLanes / 2 && P <= kLanes);
  const float* src[P];
  std::copy_n(args.src, P, src);
  T* dst = args.dst;
  for (int64_t c = 0; c < args.channels; ++c, dst += args.dst_stride) {
    const __m256 bias = _mm256_set1_ps(args.bias_of(c));
    for_each_block<kLanes>(args.n, [&](int64_t i) {
      __m256 columns[kLanes];
      avx2::transpose8([&](int p) { return src[std::min(p, P - 1)] + i; }, columns);
      // What an element writes beyond its phases, the next one overwrites; there is none after the last.
      const int64_t whole = i + kLanes < args.n ? kLanes : kLanes - 1;
      T* out = dst + i * P;
      ORTCONV_UNROLL
      for (int j = 0; j < kLanes; ++j, out += P) {
        const __m256 column = _mm256_add_ps(columns[j], bias);
        if (j < whole) {
          avx2::store(out, column);
        } else {
          T values[kLanes];
          avx2::store(values, column);
          std::copy_n(values, P, out);
        }
      }
    });
    ORTCONV_UNROLL
    for (int p = 0; p < P; ++p) src[p] += args.src_stride;
  }
}

// More phases, up to kMostPhases, likewise.
constexpr int64_t kMostPhases = 64;
template <class T>
void interleave_many(const InterleaveArgs<T>& args, int64_t channel) {
  const int64_t phases = args.phases, groups = (phases + kLanes - 1) / kLanes;
  const int64_t spill = groups * kLanes - phases;  // what the last group of phases writes beyond them
  const __m256 bias = _mm256_set1_ps(args.bias_of(channel));
  const float* rows[kMostPhases];
  for (int64_t p = 0; p < groups * kLanes; ++p) {
    rows[p] = args.src[std::min(p, phases - 1)] + channel * args.src_stride;
  }
  T* const dst = args.dst + channel * args.dst_stride;
  for_each_block<kLanes>(args.n, [&](int64_t i) {
    // What the last group writes beyond its phases is where the first groups of the next elements go, which are written
    // later; beyond the last element it is left out.
    for (int64_t group = groups - 1; group >= 0; --group) {
      const float* const* from = rows + group * kLanes;
      __m256 columns[kLanes];
      avx2::transpose8([=](int p) { return from[p] + i; }, columns);
      T* out = dst + i * phases + group * kLanes;
      const bool spills = group == groups - 1 && (args.n - i - kLanes) * phases < spill;
      ORTCONV_UNROLL
      for (int j = 0; j < kLanes; ++j, out += phases) {
        const __m256 column = _mm256_add_ps(columns[j], bias);
        if (spills && (args.n - i - j - 1) * phases < spill) {
          T values[kLanes];
          avx2::store(values, column);
          std::copy_n(values, kLanes - spill, out);
        } else {
          avx2::store(out, column);
        }
      }
    }
  });
}

// Any phases, one after the other; eight elements are rounded at once, and written one by one.
template <class T>
void interleave_phases(const InterleaveArgs<T>& args) {
  for (int64_t c = 0; c < args.channels; ++c) {
    const __m256 bias = _mm256_set1_ps(args.bias_of(c));
    for (int64_t p = 0; p < args.phases; ++p) {
      const float* const row = args.src[p] + c * args.src_stride;
      T* out = args.dst + c * args.dst_stride + p;
      for (int64_t begin = 0; begin < args.n; begin += kLanes) {
        const int64_t count = std::min(kLanes, args.n - begin);
        T values[kLanes];
        avx2::store(values, _mm256_add_ps(avx2::load_first(count, row + begin), bias));
        for (int64_t i = 0; i < count; ++i, out += args.phases) *out = values[i];
      }
    }
  }
}

}  // namespace

template <class T>
void interleave_avx2(const InterleaveArgs<T>& args) {
  switch (args.phases) {
    case 1:
      return interleave_channels<1>(args);
    case 2:
      return interleave_channels<2>(args);
    case 3:
      return interleave_channels<3>(args);
    case 4:
      return interleave_channels<4>(args);
    default:
      if constexpr (!std::is_same_v<T, double>) {
        if (args.phases == 6) return interleave_channels<6>(args);
        if (args.n >= kLanes) {
          if (args.phases == 5) return transpose_channels<5>(args);
          if (args.phases == 7) return transpose_channels<7>(args);
          if (args.phases == 8) return transpose_channels<8>(args);
          if (args.phases <= kMostPhases) {
            for (int64_t c = 0; c < args.channels; ++c) interleave_many(args, c);
            return;
          }
        }
        if (sizeof(T) < sizeof(float)) return interleave_phases(args);  // rounding one by one is slow
      }
      interleave_generic(args);
  }
}

#define INSTANTIATE(T) template void interleave_avx2(const InterleaveArgs<T>&);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

#include <immintrin.h>

#include <algorithm>

#include "kernels/interleave/interleave.h"
#include "kernels/transpose8_avx2.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels {

template <class T>
void interleave_generic(const InterleaveArgs<T>& args);

namespace {

constexpr int64_t kLanes = 8;

// Calls block(i) for elements [i, i + 8) until all n are done, at least 8. The last block may repeat elements of the
// one before.
template <class Fn>
void for_each_block(int64_t n, Fn block) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) block(i);
  if (i < n) block(n - kLanes);
}

// One or two phases.
template <class T>
void interleave(const float* const* src, int64_t phases, int64_t n, float bias, T* dst) {
  const __m256 bias8 = _mm256_set1_ps(bias);
  if (phases == 1) {
    for_each_block(n, [&](int64_t i) { avx2::store(dst + i, _mm256_add_ps(_mm256_loadu_ps(src[0] + i), bias8)); });
    return;
  }
  for_each_block(n, [&](int64_t i) {
    const __m256 even = _mm256_add_ps(_mm256_loadu_ps(src[0] + i), bias8);
    const __m256 odd = _mm256_add_ps(_mm256_loadu_ps(src[1] + i), bias8);
    const __m256 low = _mm256_unpacklo_ps(even, odd);
    const __m256 high = _mm256_unpackhi_ps(even, odd);
    avx2::store(dst + 2 * i, _mm256_permute2f128_ps(low, high, 0x20));
    avx2::store(dst + 2 * i + 8, _mm256_permute2f128_ps(low, high, 0x31));
  });
}

// Three to kMostPhases phases, eight elements of each at a time.
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
  for_each_block(args.n, [&](int64_t i) {
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

// Fewer than eight elements of any phases.
template <class T>
void interleave_few(const InterleaveArgs<T>& args) {
  for (int64_t c = 0; c < args.channels; ++c) {
    const __m256 bias = _mm256_set1_ps(args.bias_of(c));
    for (int64_t p = 0; p < args.phases; ++p) {
      float sums[kLanes] = {};
      std::copy_n(args.src[p] + c * args.src_stride, args.n, sums);
      T values[kLanes];
      avx2::store(values, _mm256_add_ps(_mm256_loadu_ps(sums), bias));
      T* out = args.dst + c * args.dst_stride + p;
      for (int64_t i = 0; i < args.n; ++i) out[i * args.phases] = values[i];
    }
  }
}

}  // namespace

template <class T>
void interleave_avx2(const InterleaveArgs<T>& args) {
  if constexpr (!std::is_same_v<T, double>) {
    if (args.phases <= kMostPhases && args.n >= kLanes) {
      for (int64_t c = 0; c < args.channels; ++c) {
        if (args.phases > 2) {
          interleave_many(args, c);
          continue;
        }
        const float* src[2] = {args.src[0] + c * args.src_stride, args.src[args.phases - 1] + c * args.src_stride};
        interleave(src, args.phases, args.n, args.bias_of(c), args.dst + c * args.dst_stride);
      }
      return;
    }
    if (sizeof(T) < sizeof(float) && args.n < kLanes) return interleave_few(args);  // rounding one by one is slow
  }
  interleave_generic(args);
}

#define INSTANTIATE(T) template void interleave_avx2(const InterleaveArgs<T>&);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

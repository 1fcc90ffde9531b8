#include <immintrin.h>

#include <algorithm>

#include "kernels/interleave/interleave.h"
#include "kernels/transpose8_avx2.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels {

template <class T>
void interleave_generic(const InterleaveArgs<T>& args);

namespace {

// One or two phases. Returns how many elements of each it wrote.
template <class T>
int64_t interleave(const float* const* src, int64_t phases, int64_t n, float bias, T* dst) {
  const __m256 bias8 = _mm256_set1_ps(bias);
  int64_t i = 0;
  if (phases == 1) {
    for (; i + 8 <= n; i += 8) avx2::store(dst + i, _mm256_add_ps(_mm256_loadu_ps(src[0] + i), bias8));
    return i;
  }
  for (; i + 8 <= n; i += 8) {
    const __m256 even = _mm256_add_ps(_mm256_loadu_ps(src[0] + i), bias8);
    const __m256 odd = _mm256_add_ps(_mm256_loadu_ps(src[1] + i), bias8);
    const __m256 low = _mm256_unpacklo_ps(even, odd);
    const __m256 high = _mm256_unpackhi_ps(even, odd);
    avx2::store(dst + 2 * i, _mm256_permute2f128_ps(low, high, 0x20));
    avx2::store(dst + 2 * i + 8, _mm256_permute2f128_ps(low, high, 0x31));
  }
  return i;
}

// Three to kMostPhases phases, eight elements of each at a time. Returns how many elements of each it wrote.
constexpr int64_t kMostPhases = 64;
template <class T>
int64_t interleave_many(const InterleaveArgs<T>& args, int64_t channel) {
  constexpr int64_t kLanes = 8;
  const int64_t phases = args.phases, groups = (phases + kLanes - 1) / kLanes;
  const int64_t spill = groups * kLanes - phases;  // what the last group of phases writes beyond them
  const __m256 bias = _mm256_set1_ps(args.bias_of(channel));
  const float* rows[kMostPhases];
  for (int64_t p = 0; p < groups * kLanes; ++p) {
    rows[p] = args.src[std::min(p, phases - 1)] + channel * args.src_stride;
  }
  T* dst = args.dst + channel * args.dst_stride;
  int64_t i = 0;
  for (; i + kLanes <= args.n && (args.n - i - kLanes) * phases >= spill; i += kLanes, dst += kLanes * phases) {
    // What the last group writes beyond its phases is where the first group of the next element goes, which is written
    // later.
    for (int64_t group = groups - 1; group >= 0; --group) {
      const float* const* from = rows + group * kLanes;
      __m256 columns[kLanes];
      avx2::transpose8([=](int p) { return from[p] + i; }, columns);
      T* out = dst + group * kLanes;
      ORTCONV_UNROLL
      for (int j = 0; j < kLanes; ++j) avx2::store(out + j * phases, _mm256_add_ps(columns[j], bias));
    }
  }
  return i;
}

}  // namespace

template <class T>
void interleave_avx2(const InterleaveArgs<T>& args) {
  if constexpr (!std::is_same_v<T, double>) {
    if (args.phases <= 2) {
      int64_t done = 0;
      for (int64_t c = 0; c < args.channels; ++c) {
        const float* src[2] = {args.src[0] + c * args.src_stride, args.src[args.phases - 1] + c * args.src_stride};
        done = interleave(src, args.phases, args.n, args.bias_of(c), args.dst + c * args.dst_stride);
      }
      if (done == args.n) return;
      InterleaveArgs<T> rest = args;
      const float* src[2] = {args.src[0] + done, args.src[args.phases - 1] + done};
      rest.src = src;
      rest.n -= done;
      rest.dst += done * args.phases;
      return interleave_generic(rest);
    }
  }
  if constexpr (std::is_same_v<T, double>) {
    interleave_generic(args);
  } else if (args.phases > kMostPhases) {
    interleave_generic(args);
  } else {
    for (int64_t c = 0; c < args.channels; ++c) {
      const int64_t done = interleave_many(args, c);
      for (int64_t p = 0; p < args.phases; ++p) {
        const float* row = args.src[p] + c * args.src_stride;
        T* out = args.dst + c * args.dst_stride + p;
        for (int64_t i = done; i < args.n; ++i) round_to(out + i * args.phases, row[i] + args.bias_of(c));
      }
    }
  }
}

#define INSTANTIATE(T) template void interleave_avx2(const InterleaveArgs<T>&);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

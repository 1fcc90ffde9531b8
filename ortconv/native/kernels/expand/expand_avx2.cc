#include <algorithm>
#include <cstring>

#include "kernels/expand/expand.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels {

template <class T>
void expand_generic(const ExpandArgs<T>& args);

namespace {

constexpr int kHalf = 8;  // numbers of a vector
// So many zeros the library writes faster: it need not fetch what it overwrites.
constexpr int64_t kManyZeros = 512;

// [mask][number]: which of the sums goes there; negative where none does.
struct Indices {
  int8_t of[1 << kHalf][kHalf];

  constexpr Indices() : of{} {
    for (int mask = 0; mask < 1 << kHalf; ++mask) {
      int8_t next = 0;
      for (int i = 0; i < kHalf; ++i) of[mask][i] = (mask >> i & 1) != 0 ? next++ : int8_t{-1};
    }
  }
};
constexpr Indices kIndices;

// Eight numbers: sums where the mask says so, else `old`.
__m256 expand(__m256 old, unsigned mask, __m256 sums) {
  const __m256i indices = _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(kIndices.of[mask])));
  // Indices are taken modulo 8, and signs choose.
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(sums, indices), old, _mm256_castsi256_ps(indices));
}

}  // namespace

template <class T>
void expand_avx2(const ExpandArgs<T>& args) {
  if constexpr (std::is_same_v<T, double>) {
    expand_generic(args);
  } else {
    const __m256 bias = avx2::broadcast(args.bias), gap = avx2::broadcast(args.gap);
    T *out = args.dst, *filled = out;
    T* const end = out + args.size;
    const auto store = [&](__m256 low, __m256 high) {
      if (end - out >= kExpandWidth) {
        avx2::store(out, low);
        avx2::store(out + kHalf, high);
        out += kExpandWidth;
        return;
      }
      T row[kExpandWidth];
      avx2::store(row, low);
      avx2::store(row + kHalf, high);
      out = std::copy_n(row, end - out, out);
    };
    // A loop for each kind of step: to look at the kind takes as long as a step.
    for (const ExpandStep *step = args.steps, *stop = step + args.num_steps; step != stop;) {
      if (step->kind == ExpandStep::kSingle) {
        const int64_t room = end - filled;
        for (; step != stop && step->kind == ExpandStep::kSingle; ++step) {
          if (step->mask < room) round_to(filled + step->mask, args.src[step->src] + args.bias);
        }
        continue;
      }
      if (out == end) break;
      if (step->kind == ExpandStep::kFill) {
        filled = out;
        const int64_t count = std::min<int64_t>(step->src * kExpandWidth, end - out);
        if (count >= kManyZeros && bits_of(args.gap) == 0) {
          std::memset(static_cast<void*>(out), 0, static_cast<size_t>(count) * sizeof(T));
          out += count;
        } else {
          for (int64_t i = 0; i < count; i += kExpandWidth) store(gap, gap);
        }
        ++step;
        continue;
      }
      __m256 low = gap, high = gap;
      for (bool is_last = false; !is_last; ++step) {
        const float* in = args.src + step->src;
        const unsigned first = step->mask & 0xffu, second = step->mask >> kHalf;
        low = expand(low, first, avx2::add(avx2::load(in), bias));
        high = expand(high, second, avx2::add(avx2::load(in + _mm_popcnt_u32(first)), bias));
        is_last = step->kind == ExpandStep::kLast;
      }
      store(low, high);
    }
  }
}

#define INSTANTIATE(T) template void expand_avx2(const ExpandArgs<T>&);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

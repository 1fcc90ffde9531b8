#include "kernels/depth_to_space/kernel_loops_avx512.h"

namespace ortconv::kernels::depth_to_space {
namespace {

constexpr int64_t kNumbers = 32;  // of a vector

struct Pairs {
  __m512i low, high;
};

Pairs paired(__m512i first, __m512i second) {
  const __m512i low = _mm512_set_epi16(47, 15, 46, 14, 45, 13, 44, 12, 43, 11, 42, 10, 41, 9, 40, 8,  //
                                       39, 7, 38, 6, 37, 5, 36, 4, 35, 3, 34, 2, 33, 1, 32, 0);
  const __m512i high = _mm512_add_epi16(low, _mm512_set1_epi16(16));
  return {_mm512_permutex2var_epi16(first, low, second), _mm512_permutex2var_epi16(first, high, second)};
}

}  // namespace

void gemm_avx512_bf16(const GemmArgs<Bfloat16, BfloatPair>& g) { gemm(g); }

uint32_t pack_avx512_bf16(const PackArgs<Bfloat16, BfloatPair>& args) {
  const __m512i magnitude = _mm512_set1_epi16(0x7fff);
  __m512i largest = _mm512_setzero_si512();
  const int64_t ahead = args.ahead * args.channel_stride;
  BfloatPair* out = args.out;
  for (int64_t c = 0; c < args.channels; c += 2, out += args.pitch) {
    const bool alone = c + 1 == args.channels;  // with zeros
    for (const Run* run = args.runs; run != args.runs_end; ++run) {
      const Bfloat16* first = args.src + c * args.channel_stride + run->offset;
      const Bfloat16* second = alone ? first : first + args.channel_stride;
      BfloatPair* cells = out + run->cell;
      for (int64_t left = run->length; left > 0; left -= kNumbers) {
        _mm_prefetch(reinterpret_cast<const char*>(first + ahead), _MM_HINT_T0);
        _mm_prefetch(reinterpret_cast<const char*>(second + ahead), _MM_HINT_T0);
        const auto lanes = static_cast<__mmask32>((uint64_t{1} << std::min(left, kNumbers)) - 1);
        const __m512i a = _mm512_maskz_loadu_epi16(lanes, first);
        const __m512i b = _mm512_maskz_loadu_epi16(alone ? 0 : lanes, second);
        largest = _mm512_max_epu16(largest, _mm512_and_si512(a, magnitude));
        largest = _mm512_max_epu16(largest, _mm512_and_si512(b, magnitude));
        const Pairs pairs = paired(a, b);
        _mm512_mask_storeu_epi32(cells, static_cast<__mmask16>(lanes), pairs.low);
        _mm512_mask_storeu_epi32(cells + kNumbers / 2, static_cast<__mmask16>(lanes >> 16), pairs.high);
        first += kNumbers, second += kNumbers, cells += kNumbers;
      }
    }
  }
  const __m512i even = _mm512_slli_epi32(largest, 16), odd = _mm512_and_si512(largest, _mm512_set1_epi32(-65536));
  return _mm512_reduce_max_epu32(_mm512_max_epu32(even, odd));
}

}  // namespace ortconv::kernels::depth_to_space

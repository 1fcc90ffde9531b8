// Rows of dst; the first and the last group of phases of a row may be cut off.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels/interleave/interleave.h"

namespace ortconv::kernels {

// Whether a row has few elements of each of many phases: kernels interleave these one by one.
template <class T>
bool is_short(const InterleaveArgs<T>& args, int64_t length) {
  constexpr int64_t kFewPhases = 4, kFew = 4, kLongest = 128;
  return args.phases > kFewPhases && length < kFew * args.phases && length <= kLongest;
}

// As write_row_range(), of short rows, which are put together as sums and then rounded all at once.
template <class T>
void write_short_rows(InterleaveFn<T> interleave, const InterleaveArgs<T>& args, int64_t begin, int64_t end) {
  constexpr int64_t kSums = 1024;
  Sum<T> sums[kSums];
  const int64_t length = end - begin, most = kSums / length;
  for (int64_t c = 0; c < args.channels; c += most) {
    const int64_t channels = std::min(most, args.channels - c);
    for (int64_t p = 0; p < args.phases; ++p) {
      const int64_t first = p < begin ? 1 : 0;
      const Sum<T>* src = args.src[p] + c * args.src_stride;
      for (int64_t channel = 0; channel < channels; ++channel, src += args.src_stride) {
        Sum<T>* const out = sums + channel * length - begin;
        for (int64_t i = first, at = first * args.phases + p; at < end; ++i, at += args.phases) out[at] = src[i];
      }
    }
    const Sum<T>* const row = sums;
    const Sum<T>* const bias = args.bias == nullptr ? nullptr : args.bias + c * args.bias_step;
    T* const dst = args.dst + c * args.dst_stride + begin;
    const InterleaveArgs<T> rows{&row, length, channels,        length,     1,
                                 bias, dst,    args.dst_stride, args.store, args.bias_step};
    interleave(rows.joined());
  }
}

// Writes the elements [begin, end) of one row of dst in each of some channels: element phases * i + p is src[p][i] +
// bias. args.dst points at element 0; args.src is `rows`; args.n is not read. Both are left changed: a copy of what was
// just stored in smaller pieces would wait for the cache.
template <class T>
void write_row_range(InterleaveFn<T> interleave, InterleaveArgs<T>& args, int64_t begin, int64_t end,
                     const Sum<T>** rows) {
  if (sizeof(T) < sizeof(Sum<T>) && is_short(args, end - begin)) return write_short_rows(interleave, args, begin, end);
  const int64_t groups = end / args.phases;
  const int64_t first = begin > 0 ? 1 : 0;  // whole group
  const int64_t whole = std::max<int64_t>(groups - first, 0), last = first + whole;
  const int64_t head_end = begin > 0 ? std::min(end, args.phases) : 0;
  const int64_t tail = groups >= first ? end - groups * args.phases : 0;
  for (int64_t c = 0; c < args.channels && (head_end > 0 || tail > 0); ++c) {
    const Sum<T> bias = args.bias_of(c);
    T* out = args.dst + c * args.dst_stride;
    for (int64_t p = begin; p < head_end; ++p) round_to(out + p, args.src[p][c * args.src_stride] + bias);
    out += last * args.phases;
    for (int64_t p = 0; p < tail; ++p) round_to(out + p, args.src[p][c * args.src_stride + last] + bias);
  }
  if (whole == 0) return;
  for (int64_t p = 0; p < args.phases; ++p) rows[p] += first;
  args.dst += first * args.phases;
  args.n = whole;
  interleave(args);
}

}  // namespace ortconv::kernels

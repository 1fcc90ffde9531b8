#include <algorithm>

#include "kernels/expand/expand.h"

namespace ortconv::kernels {

template <class T>
void expand_generic(const ExpandArgs<T>& args) {
  T gap;
  round_to(&gap, args.gap);
  T *out = args.dst, *filled = out;
  T* const end = out + args.size;
  T row[kExpandWidth];
  std::fill_n(row, kExpandWidth, gap);
  for (const ExpandStep *step = args.steps, *stop = step + args.num_steps; step != stop; ++step) {
    const Sum<T>* in = args.src + step->src;
    if (step->kind == ExpandStep::kSingle) {
      if (filled + step->mask < end) round_to(filled + step->mask, *in + args.bias);
      continue;
    }
    if (out == end) break;
    if (step->kind == ExpandStep::kFill) {
      const int64_t count = std::min<int64_t>(step->src * kExpandWidth, end - out);
      filled = out;
      std::fill_n(out, count, gap);
      out += count;
      continue;
    }
    T* to = row;
    for (unsigned mask = step->mask; mask != 0; mask >>= 1, ++to) {
      if ((mask & 1) != 0) round_to(to, *in++ + args.bias);
    }
    if (step->kind == ExpandStep::kMore) continue;
    const int64_t count = std::min(kExpandWidth, end - out);
    std::copy_n(row, count, out);
    out += count;
    std::fill_n(row, kExpandWidth, gap);
  }
}

#define INSTANTIATE(T) template void expand_generic(const ExpandArgs<T>&);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

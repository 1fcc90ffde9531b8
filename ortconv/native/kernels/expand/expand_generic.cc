#include <algorithm>

#include "kernels/expand/expand.h"

namespace ortconv::kernels {

template <class T>
void expand_generic(const ExpandArgs<T>& args) {
  T gap;
  round_to(&gap, args.gap);
  T* out = args.dst;
  T* const end = out + args.size;
  T row[kExpandWidth];
  std::fill_n(row, kExpandWidth, gap);
  for (const ExpandStep *step = args.steps, *stop = step + args.num_steps; step != stop && out < end; ++step) {
    if (step->mask == 0) {
      const int64_t count = std::min<int64_t>(step->src * kExpandWidth, end - out);
      std::fill_n(out, count, gap);
      out += count;
      continue;
    }
    const Sum<T>* in = args.src + step->src;
    T* to = row;
    for (unsigned mask = step->mask; mask != 0; mask >>= 1, ++to) {
      if ((mask & 1) != 0) round_to(to, *in++ + args.bias);
    }
    if (!step->last) continue;
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

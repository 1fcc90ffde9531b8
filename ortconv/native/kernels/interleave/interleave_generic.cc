#include "kernels/interleave/interleave.h"

namespace ortconv::kernels {

template <class T>
void interleave_generic(const InterleaveArgs<T>& args) {
  for (int64_t c = 0; c < args.channels; ++c) {
    const Sum<T> bias = args.bias_of(c);
    for (int64_t p = 0; p < args.phases; ++p) {
      const Sum<T>* row = args.src[p] + c * args.src_stride;
      T* out = args.dst + c * args.dst_stride + p;
      for (int64_t i = 0; i < args.n; ++i) round_to(out + i * args.phases, row[i] + bias);
    }
  }
}

#define INSTANTIATE(T) template void interleave_generic(const InterleaveArgs<T>&);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

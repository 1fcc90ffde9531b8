#include "kernels/interleave/interleave_loops_avx512.h"

namespace ortconv::kernels {

template <class T>
void interleave_avx512(const InterleaveArgs<T>& args) {
  interleave_vectors(args);
}

#define INSTANTIATE(T) template void interleave_avx512(const InterleaveArgs<T>&);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

#if defined(__AVX512F__)

#include "kernels/interleave/interleave_loops_avx512.h"

namespace ortconv::kernels {

template <class T>
void interleave_avx512(const InterleaveArgs<T>& args) {
  interleave_vectors(args);
}

template void interleave_avx512(const InterleaveArgs<float>&);
template void interleave_avx512(const InterleaveArgs<double>&);
template void interleave_avx512(const InterleaveArgs<Float16>&);
template void interleave_avx512(const InterleaveArgs<Bfloat16>&);

}  // namespace ortconv::kernels

#endif

#if defined(__AVX512BF16__)

#include <type_traits>

#include "kernels/interleave/interleave_loops_avx512.h"

namespace ortconv::kernels {

template <class T>
void interleave_avx512(const InterleaveArgs<T>& args);

template <class T>
void interleave_avx512_bf16(const InterleaveArgs<T>& args) {
  if constexpr (std::is_same_v<T, Bfloat16>) {
    interleave_vectors(args);
  } else {
    interleave_avx512(args);
  }
}

template void interleave_avx512_bf16(const InterleaveArgs<float>&);
template void interleave_avx512_bf16(const InterleaveArgs<double>&);
template void interleave_avx512_bf16(const InterleaveArgs<Float16>&);
template void interleave_avx512_bf16(const InterleaveArgs<Bfloat16>&);

}  // namespace ortconv::kernels

#endif

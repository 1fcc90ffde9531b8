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

#define INSTANTIATE(T) template void interleave_avx512_bf16(const InterleaveArgs<T>&);
ORTCONV_FLOAT_TYPES(INSTANTIATE)
#undef INSTANTIATE

}  // namespace ortconv::kernels

#include "kernels/dots/dots_loops.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels {

template <class T>
void dots_avx2(const DotsArgs<T>& args) {
  dots<avx2::Vectors<T>>(args);
}

#define INSTANTIATE(T) template void dots_avx2(const DotsArgs<T>&);
INSTANTIATE(float)
INSTANTIATE(double)
#undef INSTANTIATE

}  // namespace ortconv::kernels

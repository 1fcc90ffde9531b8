#include "kernels/interleave/interleave.h"

#if defined(__x86_64__) || defined(_M_X64)
#include <xmmintrin.h>
#endif

namespace ortconv::kernels {

#define INTERLEAVE_KERNEL(flag, name, fence) \
  template <class T>                         \
  void name(const InterleaveArgs<T>&);
#include "kernels/interleave/kernels.inc"
#undef INTERLEAVE_KERNEL

namespace {

void no_fence() {}
#if defined(__x86_64__) || defined(_M_X64)
void stream_fence_x86() { _mm_sfence(); }
#endif

}  // namespace

const InterleaveKernel& get_interleave_kernel([[maybe_unused]] const ArchFlags& arch) {
#define INTERLEAVE_KERNEL(flag, name, fence)                                     \
  static constexpr InterleaveKernel k_##name = {                                 \
      #name, {name<float>, name<double>, name<Float16>, name<Bfloat16>}, fence}; \
  if (flag) return k_##name;
#include "kernels/interleave/kernels.inc"
#undef INTERLEAVE_KERNEL
}

}  // namespace ortconv::kernels

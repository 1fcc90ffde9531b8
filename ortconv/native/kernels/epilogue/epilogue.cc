#include "kernels/epilogue/epilogue.h"

namespace ortconv::kernels {

#define EPILOGUE_KERNEL(flag, isa)                                   \
  template <class T>                                                 \
  void activate_##isa(const Activation&, float, int64_t, float*, T); \
  template <class T>                                                 \
  void residual_##isa(const Activation*, int64_t, const T*, T*);
#include "kernels/epilogue/kernels.inc"
#undef EPILOGUE_KERNEL

const EpilogueKernel& get_epilogue_kernel([[maybe_unused]] const ArchFlags& arch) {
#define EPILOGUE_KERNEL(flag, isa)                                                                         \
  static constexpr EpilogueKernel k_##isa = {                                                              \
      "epilogue_" #isa,                                                                                    \
      {activate_##isa<float>, activate_##isa<Float16>, activate_##isa<Bfloat16>},                          \
      {residual_##isa<float>, residual_##isa<double>, residual_##isa<Float16>, residual_##isa<Bfloat16>}}; \
  if (flag) return k_##isa;
#include "kernels/epilogue/kernels.inc"
#undef EPILOGUE_KERNEL
}

}  // namespace ortconv::kernels

#include "kernels/write_lines/write_lines.h"

namespace ortconv::kernels {

#define WRITE_LINES_KERNEL(flag, name) void name(const WriteLinesArgs&);
#include "kernels/write_lines/kernels.inc"
#undef WRITE_LINES_KERNEL

const WriteLinesKernel& get_write_lines_kernel([[maybe_unused]] const ArchFlags& arch) {
#define WRITE_LINES_KERNEL(flag, name)                     \
  static constexpr WriteLinesKernel k_##name{#name, name}; \
  if (flag) return k_##name;
#include "kernels/write_lines/kernels.inc"
#undef WRITE_LINES_KERNEL
}

}  // namespace ortconv::kernels

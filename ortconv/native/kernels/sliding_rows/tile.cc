#include "kernels/sliding_rows/tile.h"

namespace ortconv::kernels::sliding_rows {

#define SLIDING_ROWS_KERNEL(flag, suffix) extern const TileKernel kTile_##suffix;
#include "kernels/sliding_rows/kernels.inc"
#undef SLIDING_ROWS_KERNEL

const TileKernel& get_tile_kernel([[maybe_unused]] const ArchFlags& arch) {
#define SLIDING_ROWS_KERNEL(flag, suffix) \
  if (flag) return kTile_##suffix;
#include "kernels/sliding_rows/kernels.inc"
#undef SLIDING_ROWS_KERNEL
}

}  // namespace ortconv::kernels::sliding_rows

#include "kernels/sliding_rows/tile_loops.h"
#include "kernels/vector_avx512.h"

namespace ortconv::kernels::sliding_rows {

extern const TileKernel kTile_avx512;
const TileKernel kTile_avx512 = tile_kernel<avx512::Vectors<float>, avx512::Vectors<double>, 32>("sliding_rows_avx512");

}  // namespace ortconv::kernels::sliding_rows

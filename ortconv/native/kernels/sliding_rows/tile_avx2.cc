#include "kernels/sliding_rows/tile_loops.h"
#include "kernels/vector_avx2.h"

namespace ortconv::kernels::sliding_rows {

extern const TileKernel kTile_avx2;
const TileKernel kTile_avx2 = tile_kernel<avx2::Vectors<float>, avx2::Vectors<double>, 16>("sliding_rows_avx2");

}  // namespace ortconv::kernels::sliding_rows

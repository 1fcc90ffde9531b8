// A row of a matrix in shared memory, as ldmatrix reads it.
#pragma once

#include <cstdint>

#include "testing/ptx/machine.h"

namespace ortconv::cuda::ptx {

// 16 bytes, and which of their elements were written.
void load_shared_row(Warp& warp, int lane, uint64_t address, uint16_t (&elements)[8], bool (&known)[8]);

}  // namespace ortconv::cuda::ptx

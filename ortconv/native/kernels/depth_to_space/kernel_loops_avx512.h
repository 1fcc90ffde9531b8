// The microkernel in AVX-512. Only for files named after it.
#pragma once

#include "kernels/epilogue/activated_avx512.h"
#include "kernels/interleave/shuffle_avx512.h"
#include "kernels/vector_avx512.h"

namespace ortconv::kernels::depth_to_space::vectors {
using namespace avx512;
constexpr int64_t kMostRows = 14;
}  // namespace ortconv::kernels::depth_to_space::vectors

#include "kernels/depth_to_space/kernel_loops.h"

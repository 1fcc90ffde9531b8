// Fourier transforms of an axis of a whole tensor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/parallel.h"
#include "kernels/fourier/fourier.h"

namespace ortconv::kernels {

template <class T>
size_t fourier_scratch_bytes(const FourierKernel<T>& kernel, int64_t length, int64_t count, int threads);

// All `count` rows of `rows`, whose first and last are not read. The result does not depend on the number of threads.
// `scratch` has as many bytes as fourier_scratch_bytes() says for the same rows and threads, and is aligned to 64
// bytes.
template <class T>
void fourier_transform(const FourierKernel<T>& kernel, const FourierPlan& plan, const FourierRows<T>& rows,
                       int64_t count, void* scratch, const Parallel& parallel);

}  // namespace ortconv::kernels

// A look at a few numbers of filters before a basis is fitted to all of them, which takes long.
#pragma once

#include <cstdint>

#include "base/dtype.h"

namespace ortconv::ep {

// Whether filters [count, taps] of float or float16 may be those of a Fourier transform; false only where fit_basis()
// finds none that explains them up to rounding.
bool may_be_basis(DataType dtype, int64_t count, int64_t taps, const void* filters);

}  // namespace ortconv::ep

// Finds out whether the filters of a convolution are those of a short-time Fourier transform, as
// ortconv/optimizer/spectral_basis.py does, whose words and limits these are.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/dtype.h"
#include "kernels/fourier/stft.h"

namespace ortconv::ep {

constexpr int64_t kLeastTaps = 16, kLeastFilters = 4;

// Filters [count, taps] of float or float16, as numbers.
struct Filters {
  DataType dtype;
  int64_t count, taps;
  std::vector<double> data;
};

// gains[c] * window[j] * cos(2 pi f j / n_fft), or the sine.
struct Basis {
  int64_t n_fft;
  kernels::SpectralParts parts;
  std::vector<double> window, gains;  // rounded to the type of the filters; the largest of the window is 1
  double distance;                    // of the filters, relative to the largest element of each
};

// The largest distance that rounding explains.
double distance_limit(DataType dtype);

// The basis that is nearest to filters, which may be too far away; none where they do not resemble any.
std::optional<Basis> fit_basis(const Filters& filters);

// The same where n_fft, parts and the window, up to a factor, are known.
Basis complete_basis(const Filters& filters, int64_t n_fft, kernels::SpectralParts parts,
                     const std::vector<double>& window);

}  // namespace ortconv::ep

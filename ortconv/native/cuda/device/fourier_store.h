// What a pass of Fourier transforms stores, see params/fourier.h.
#pragma once

#include "cuda/device/complex.h"
#include "cuda/device/fourier_bins.h"
#include "cuda/params/fourier.h"

namespace ortconv {
namespace cuda {

__device__ inline void store_axis(const FourierPass& p, long long row, long long element, Complex value) {
  const FourierAxis& axis = p.axis;
  const long long outer = row / axis.inner, inner = row % axis.inner;
  Element* const to = static_cast<Element*>(p.dst) +
                      ((outer * axis.count + element) * axis.inner + inner) * static_cast<long long>(axis.y_parts);
  const Real scale = static_cast<Real>(axis.scale);
  if (axis.x_parts == 1 && is_real_bin(p, element)) value.im = 0;
  to[0] = narrow(value.re * scale);
  if (axis.y_parts == 2) to[1] = narrow(value.im * scale);
}

__device__ inline void store_spectrum(const FourierPass& p, long long row, long long bin, const Complex& value) {
  const FourierFrames& grid = p.frames;
  const Element* const gains = static_cast<const Element*>(p.gains);
  const long long other = grid.has_cosines != 0 ? grid.bins : 0;
  Element* const to = static_cast<Element*>(p.dst) + row / grid.frames * grid.image + row % grid.frames;
  if (grid.has_cosines != 0) to[bin * grid.frames] = narrow(value.re * widen(gains[bin]));
  if (grid.has_sines == 0) return;
  const Real sine = is_real_bin(p, bin) ? 0 : -value.im;
  to[(other + bin) * grid.frames] = narrow(sine * widen(gains[other + bin]));
}

// An element of the result, with all that applies to it while it is stored.
__device__ inline void store_element(const FourierPass& p, long long row, long long element, Complex value) {
  if (element >= p.wanted) return;
  if (p.swap_results != 0) value = swapped(value);
  if (p.after != nullptr) value = multiply(value, static_cast<const Complex*>(p.after)[element]);
  if (p.swap_storing != 0) value = swapped(value);
#if STORE == 0
  static_cast<Complex*>(p.dst)[(row - p.first) * p.columns * p.length + element] = value;
#elif STORE == 1
  store_axis(p, row, element, value);
#elif STORE == 3
  store_spectrum(p, row, element, value);
#else
  static_cast<Real*>(p.dst)[row * p.frames.taps + element] =
      value.re * widen(static_cast<const Element*>(p.window)[element]);
#endif
}

}  // namespace cuda
}  // namespace ortconv

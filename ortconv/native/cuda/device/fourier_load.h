// What a pass of Fourier transforms loads, see params/fourier.h.
#pragma once

#include "cuda/device/complex.h"
#include "cuda/device/fourier_bins.h"
#include "cuda/params/fourier.h"

namespace ortconv {
namespace cuda {

__device__ inline Complex load_axis(const FourierPass& p, long long row, long long element) {
  const FourierAxis& axis = p.axis;
  const bool is_mirrored = axis.hermitian != 0 && 2 * element > p.transform_size;
  const long long at = is_mirrored ? p.transform_size - element : element;
  if (at >= axis.size) return {0, 0};
  const long long outer = row / axis.inner, inner = row % axis.inner;
  const Element* const from =
      static_cast<const Element*>(p.src) + ((outer * axis.size + at) * axis.inner + inner) * axis.x_parts;
  Complex value = {widen(from[0]), axis.x_parts == 2 ? widen(from[1]) : 0};
  if (axis.hermitian != 0 && is_real_bin(p, element)) value.im = 0;
  if (is_mirrored) value.im = -value.im;
  return value;
}

__device__ inline Complex load_frame(const FourierPass& p, long long row, long long element) {
  const FourierFrames& grid = p.frames;
  const long long image = row / grid.frames, frame = row % grid.frames;
  const long long position = frame * grid.hop + element - grid.padding;
  if (position < 0 || position >= grid.length) return {0, 0};
  const Real value = widen(static_cast<const Element*>(p.src)[image * grid.length + position]);
  return {value * widen(static_cast<const Element*>(p.window)[element]), 0};
}

__device__ inline Complex load_spectrum(const FourierPass& p, long long row, long long bin) {
  const FourierFrames& grid = p.frames;
  const long long at = row / grid.frames * grid.image + bin * grid.frames + row % grid.frames;
  const Element* const gains = static_cast<const Element*>(p.gains);
  const long long other = grid.has_cosines != 0 ? grid.bins : 0;  // of the gains of sines
  Complex value = {0, 0};
  if (grid.has_cosines != 0) value.re = widen(static_cast<const Element*>(p.src)[at]) * widen(gains[bin]);
  if (grid.has_sines == 0 || is_real_bin(p, bin)) return value;
  value.im = -widen(static_cast<const Element*>(p.sines)[at]) * widen(gains[other + bin]);
  return value;
}

// An element of a transform, with all that applies to it while it is loaded.
__device__ inline Complex load_element(const FourierPass& p, long long row, long long element) {
  if (element >= p.given) return {0, 0};
#if LOAD == 0
  Complex value = static_cast<const Complex*>(p.src)[(row - p.first) * p.columns * p.length + element];
#elif LOAD == 1
  Complex value = load_axis(p, row, element);
#elif LOAD == 2
  Complex value = load_frame(p, row, element);
#else
  Complex value = load_spectrum(p, row, element);
#endif
  if (p.swap_loaded != 0) value = swapped(value);
  if (p.before != nullptr) value = multiply(value, static_cast<const Complex*>(p.before)[element]);
  return value;
}

}  // namespace cuda
}  // namespace ortconv

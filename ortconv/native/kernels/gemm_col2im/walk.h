// Walks over the taps and the positions of all axes, without a division for each.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/math.h"
#include "kernels/gemm_col2im/geometry.h"

namespace ortconv::kernels::gemm_col2im {

// The taps of all axes, in the order of rows.
class Taps {
 public:
  Taps(const Geometry& geo, int64_t index) : geo_(geo) {
    for (int a = geo.ndims - 1; a >= 0; --a) {
      start(a, index % geo.axis[a].ker);
      index /= geo.axis[a].ker;
    }
  }

  const Tap& operator[](int a) const { return taps_[a]; }

  // Returns the first axis that changed; after the last tap all start again.
  int advance() {
    for (int a = geo_.ndims - 1; a >= 0; --a) {
      const Axis& axis = geo_.axis[a];
      Tap& tap = taps_[a];
      if (tap.k + 1 == axis.ker) {
        if (axis.ker > 1) start(a, 0);
        continue;
      }
      ++tap.k;
      tap.q += whole_[a], tap.residue += rest_[a];
      if (tap.residue >= axis.stride) tap.residue -= axis.stride, ++tap.q;
      if (axis.by_tap) {
        ++tap.slot;
      } else {
        tap.slot = axis.step == 1 ? tap.residue : tap.residue / axis.step;
      }
      return a;
    }
    return 0;
  }

 private:
  void start(int a, int64_t k) {
    const Axis& axis = geo_.axis[a];
    whole_[a] = axis.dilation / axis.stride, rest_[a] = axis.dilation % axis.stride;
    const int64_t q = axis.shift_of(k);
    const int64_t residue = k * axis.dilation - axis.pad - q * axis.stride;
    taps_[a] = {k, q, residue, axis.by_tap ? k : residue / axis.step};
  }

  const Geometry& geo_;
  Tap taps_[kMaxAxes];
  int64_t whole_[kMaxAxes], rest_[kMaxAxes];  // of a dilation in strides
};

// Calls fn(column, length, x, rest) for the runs of the positions [begin, end) of all that are multiplied: of axis `v`,
// from x[v], counted from x_begin, together with the `unit` positions of each on the axes after it, from `rest` on.
template <class Fn>
void for_each_run(const Geometry& geo, int v, int64_t unit, int64_t begin, int64_t end, Fn fn) {
  int64_t x[kMaxAxes], rest = begin % unit, index = begin / unit;
  for (int a = v; a > 0; --a) {
    x[a] = index % geo.axis[a].x_count;
    index /= geo.axis[a].x_count;
  }
  x[0] = index;
  for (int64_t at = begin; at < end;) {
    const int64_t row = v == 0 ? end - at : geo.axis[v].x_count * unit - x[v] * unit - rest;
    const int64_t length = std::min(row, end - at);
    fn(at - begin, length, x, rest);
    at += length;
    rest = x[v] = 0;
    for (int a = v - 1; a >= 0 && ++x[a] == geo.axis[a].x_count && a > 0; --a) x[a] = 0;
  }
}

}  // namespace ortconv::kernels::gemm_col2im

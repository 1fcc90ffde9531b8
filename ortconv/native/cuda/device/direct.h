// Direct convolution, one output at a time: any sizes and strides, and exact with infinities and NaN.
#pragma once

#include "cuda/device/result.h"
#include "cuda/device/values.h"
#include "cuda/params/convolution.h"

namespace ortconv {
namespace cuda {

// The taps of one axis that reach output y: k from first to last in steps of tap_period.
struct Taps {
  long long first, last;
};

// NVRTC compiles without the headers of base/, so the device has its own ceil_div; b > 0.
__device__ inline long long ceil_div(long long a, long long b) { return a / b + (a % b > 0); }

__device__ inline Taps taps_of(const Axis& axis, int transposed, long long y) {
  Taps taps;
  if (transposed != 0) {  // x * stride = y + pad - k * dilation
    const long long at = y + axis.pad;
    const long long least = ceil_div(at - (axis.src_size - 1) * axis.stride, axis.dilation);
    taps.first = least > 0 ? least : 0;
    taps.last = at / axis.dilation < axis.ker - 1 ? at / axis.dilation : axis.ker - 1;
    while (taps.first <= taps.last && (at - taps.first * axis.dilation) % axis.stride != 0) ++taps.first;
  } else {  // x = y * stride - pad + k * dilation
    const long long at = y * axis.stride - axis.pad;
    const long long least = ceil_div(-at, axis.dilation);
    const long long room = axis.src_size - 1 - at;
    taps.first = least > 0 ? least : 0;
    taps.last = room < 0 ? -1 : room / axis.dilation < axis.ker - 1 ? room / axis.dilation : axis.ker - 1;
  }
  return taps;
}

__device__ inline long long src_position(const Axis& axis, int transposed, long long y, long long k) {
  if (transposed != 0) return (y + axis.pad - k * axis.dilation) / axis.stride;
  return y * axis.stride - axis.pad + k * axis.dilation;
}

// Computes the outputs first, first + step, ... of dst.
__device__ inline void convolve(const Problem& p, long long first, long long step) {
  const SrcElement* const src = static_cast<const SrcElement*>(p.src);
  const WeiElement* const wei = static_cast<const WeiElement*>(p.wei);
  DstElement* const dst = static_cast<DstElement*>(p.dst);
  const Epilogue epilogue(p);
  const long long oc_all = p.groups * p.ocg;
  long long count = p.mb * oc_all;
  for (int a = 0; a < p.ndims; ++a) count *= p.axis[a].dst_size;

  for (long long i = first; i < count; i += step) {
    long long rest = i, oc = 0, y[kMaxAxes], in_image = 0;
    if (p.channels_last != 0) {
      oc = rest % oc_all;
      rest /= oc_all;
    }
    for (int a = p.ndims - 1; a >= 0; --a) {
      y[a] = rest % p.axis[a].dst_size;
      rest /= p.axis[a].dst_size;
      in_image += y[a] * p.axis[a].dst_step;
    }
    if (p.channels_last == 0) {
      oc = rest % oc_all;
      rest /= oc_all;
    }
    const long long group = oc / p.ocg;
    in_image += oc * p.dst_c;

    const Values values(p, oc);
    const Channel channel = channel_of(p, oc);
    Sum sum = values.start(channel.bias);
    const SrcElement* const image = src + rest * p.src_n + group * p.icg * p.src_c;
    const WeiElement* const filter = wei + group * p.wei_g + (oc - group * p.ocg) * p.wei_oc;
    Taps taps[kMaxAxes];
    long long k[kMaxAxes];
    bool any = p.icg > 0;
    for (int a = 0; a < p.ndims && any; ++a) {
      taps[a] = taps_of(p.axis[a], p.transposed, y[a]);
      k[a] = taps[a].first;
      any = taps[a].first <= taps[a].last;
    }
    while (any) {
      long long from = 0, with = 0;
      for (int a = 0; a < p.ndims; ++a) {
        from += src_position(p.axis[a], p.transposed, y[a], k[a]) * p.axis[a].src_step;
        with += k[a] * p.axis[a].wei_step;
      }
      for (long long c = 0; c < p.icg; ++c) {
        sum = multiply_add(values.of_src(image[from + c * p.src_c]), values.of_wei(filter[with + c * p.wei_ic]), sum);
      }
      int a = p.ndims - 1;
      while (a >= 0 && (k[a] += p.axis[a].tap_period) > taps[a].last) {
        k[a] = taps[a].first;
        --a;
      }
      any = a >= 0;
    }
    const Place place = {rest * p.dst_n + in_image, in_image};
    dst[place.at] = epilogue.result(p, channel, sum, place);
  }
}

}  // namespace cuda
}  // namespace ortconv

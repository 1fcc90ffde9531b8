// The kernels' arguments, as the host fills them in and the device reads them. Part of every program's text, so it
// includes nothing.
#pragma once

namespace ortconv {
namespace cuda {

constexpr int kMaxAxes = 6;

// One spatial axis. All in elements.
struct Axis {
  long long src_size, dst_size, ker, stride, dilation, pad;
  long long src_step, wei_step, dst_step;  // memory strides
  long long tap_period;                    // transposed: taps that reach the same output are this far apart
};

// A complete problem over tensors of any strides.
struct Problem {
  const void* src;
  const void* wei;
  const void* bias;  // or null
  void* dst;
  long long mb, groups, icg, ocg;  // channels of a group
  long long src_n, src_c;
  long long wei_g, wei_ic, wei_oc;
  long long dst_n, dst_c;
  Axis axis[kMaxAxes];
  int ndims;
  int transposed;
  int channels_last;  // of dst: in which order its elements are visited
  float slope, minimum, maximum;
};

}  // namespace cuda
}  // namespace ortconv

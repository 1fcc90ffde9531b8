// Copies number by number, for what fills no vector.
#pragma once

#include <cstdint>

#include "kernels/integer_conv/kernel.h"

namespace ortconv::kernels {
namespace {

[[maybe_unused]] int16_t shifted(uint8_t byte, const IntegerShift& shift) {
  return static_cast<int16_t>((byte ^ shift.flip) - shift.zero);
}

[[maybe_unused]] uint32_t pair_of(int16_t low, int16_t high) {
  return static_cast<uint16_t>(low) | static_cast<uint32_t>(static_cast<uint16_t>(high)) << 16;
}

// out[i] = number(position in the source), or padding.
template <class Out, class Number>
void copy_numbers(const IntegerCopy& copy, int64_t stride, Out padding, Out* out, Number number) {
  int64_t at = copy.src;
  for (int i = 0; i < copy.stored; ++i) {
    const bool is_padding = (copy.lanes >> i & 1) == 0;
    out[copy.dst + i] = is_padding ? padding : number(at);
    if (!is_padding) at += stride;
  }
}

// The same for kernels of 16-bit integers: pairs of channels, and numbers of one channel.
[[maybe_unused]] void interleave_pairs(const IntegerCopyArgs& a, const IntegerCopy& copy) {
  copy_numbers(copy, a.stride, uint32_t{0}, static_cast<uint32_t*>(a.out), [&](int64_t at) {
    return pair_of(shifted(a.channels[0][at], a.shift), shifted(a.channels[1][at], a.shift));
  });
}

[[maybe_unused]] void widen_numbers(const IntegerCopyArgs& a, const IntegerCopy& copy) {
  copy_numbers(copy, a.stride, int16_t{0}, static_cast<int16_t*>(a.out),
               [&](int64_t at) { return shifted(a.channels[0][at], a.shift); });
}

}  // namespace
}  // namespace ortconv::kernels

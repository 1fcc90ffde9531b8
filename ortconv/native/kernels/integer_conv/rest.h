// Numbers that are left where no vector is filled.
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

}  // namespace
}  // namespace ortconv::kernels

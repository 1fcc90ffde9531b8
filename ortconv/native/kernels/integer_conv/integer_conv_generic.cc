#include <cstring>

#include "kernels/integer_conv/loops.h"
#include "kernels/integer_conv/rest.h"

namespace ortconv::kernels {
namespace {

struct Generic {
  static constexpr int kLanes = 8, kDepth = 2, kRows = 8, kVectors = 2;
  static constexpr bool kSaturates = false, kStoresResults = false;
  using Number = int16_t;
  struct Int {
    uint32_t lane[kLanes];
  };

  static Int zero() { return Int(); }
  static Int load(const uint32_t* p) {
    Int x;
    std::memcpy(x.lane, p, sizeof(x.lane));
    return x;
  }
  static Int broadcast(uint32_t value) {
    Int x;
    for (uint32_t& lane : x.lane) lane = value;
    return x;
  }
  static void prefetch(const uint32_t*) {}
  static void keep(Int&) {}

  static Int dot(Int sum, Int x, Int w) {
    for (int i = 0; i < kLanes; ++i) {
      const int low = static_cast<int16_t>(x.lane[i]) * static_cast<int16_t>(w.lane[i]);
      const int high = static_cast<int16_t>(x.lane[i] >> 16) * static_cast<int16_t>(w.lane[i] >> 16);
      sum.lane[i] += static_cast<uint32_t>(low + high);
    }
    return sum;
  }

  // A neighbour would meet a weight of 0.
  template <int kStep>
  static Int spread(const int16_t* p) {
    Int x;
    for (int i = 0; i < kLanes; ++i) x.lane[i] = static_cast<uint16_t>(p[i * kStep]);
    return x;
  }

  static void finish(const Int& sum, const IntegerChannel& channel, const PositionVector& position, float* y) {
    float* out = y + position.dst;
    for (int i = 0; i < kLanes; ++i) {
      if ((position.lanes >> i & 1) == 0) continue;
      const auto whole = static_cast<int32_t>(sum.lane[i] + static_cast<uint32_t>(channel.correction));
      *out++ = static_cast<float>(whole) * channel.scale + channel.bias;
    }
  }

  static void interleave(const IntegerCopyArgs& args) {
    for (int64_t i = 0; i < args.count; ++i) interleave_pairs(args, args.copies[i]);
  }

  static void widen(const IntegerCopyArgs& args) {
    for (int64_t i = 0; i < args.count; ++i) widen_numbers(args, args.copies[i]);
  }
};

}  // namespace

extern const IntegerConvKernel k_integer_conv_generic;
const IntegerConvKernel k_integer_conv_generic = integer_conv_kernel<Generic>("integer_conv_generic");

}  // namespace ortconv::kernels

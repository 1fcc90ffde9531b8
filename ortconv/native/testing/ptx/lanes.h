// Instructions that compute each lane's result from the lane's own operands.
#pragma once

#include <cstdint>

#include "testing/ptx/machine.h"
#include "testing/ptx/operations.h"

namespace ortconv::cuda::ptx {

template <class D, class A, class Fn>
void unary(Warp& warp, const Instruction& i, uint32_t lanes) {
  const A* const a = warp.values<A>(i.operands[1]);
  D result[kWarpLanes];
  for (int lane = 0; lane < kWarpLanes; ++lane) result[lane] = Fn()(a[lane]);
  warp.set(i.operands[0], result, lanes, warp.defined(i.operands[1]));
}

template <class D, class A, class B, class Fn>
void binary(Warp& warp, const Instruction& i, uint32_t lanes) {
  const A* const a = warp.values<A>(i.operands[1]);
  const B* const b = warp.values<B>(i.operands[2]);
  D result[kWarpLanes];
  for (int lane = 0; lane < kWarpLanes; ++lane) result[lane] = Fn()(a[lane], b[lane]);
  warp.set(i.operands[0], result, lanes, warp.defined(i.operands[1]) & warp.defined(i.operands[2]));
}

template <class D, class A, class B, class C, class Fn>
void ternary(Warp& warp, const Instruction& i, uint32_t lanes) {
  const A* const a = warp.values<A>(i.operands[1]);
  const B* const b = warp.values<B>(i.operands[2]);
  const C* const c = warp.values<C>(i.operands[3]);
  D result[kWarpLanes];
  for (int lane = 0; lane < kWarpLanes; ++lane) result[lane] = Fn()(a[lane], b[lane], c[lane]);
  const uint32_t defined = warp.defined(i.operands[1]) & warp.defined(i.operands[2]) & warp.defined(i.operands[3]);
  warp.set(i.operands[0], result, lanes, defined);
}

template <class T, class Fn>
void compare(Warp& warp, const Instruction& i, uint32_t lanes) {
  const T* const a = warp.values<T>(i.operands[1]);
  const T* const b = warp.values<T>(i.operands[2]);
  uint32_t result = 0;
  for (int lane = 0; lane < kWarpLanes; ++lane) result |= static_cast<uint32_t>(Fn()(a[lane], b[lane])) << lane;
  warp.set_predicate(i.operands[0], result, lanes, warp.defined(i.operands[1]) & warp.defined(i.operands[2]));
}

// A function as a type, for the templates above.
#define ORTCONV_PTX_FUNCTION(Name, parameters, result) \
  struct Name {                                        \
    template <class T>                                 \
    auto operator() parameters const {                 \
      return result;                                   \
    }                                                  \
  }

}  // namespace ortconv::cuda::ptx

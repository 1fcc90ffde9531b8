// The largest magnitude of the src of a run, of which threads see a part each.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/float16.h"
#include "kernels/bf16_split/bf16_split.h"

namespace ortconv::kernels {

class Magnitude {
 public:
  // The bits of a magnitude, as a float; infinities and NaN are beyond all others.
  void see(uint32_t bits) {
    uint32_t known = largest_.load(std::memory_order_relaxed);
    while (known < bits && !largest_.compare_exchange_weak(known, bits, std::memory_order_relaxed)) {
    }
  }

  // Whether numbers in parts stand for src well enough, when all of it was seen.
  bool suits_parts() const {
    const float largest = float_of(largest_.load(std::memory_order_relaxed));
    return largest == 0 || (largest >= kSmallestLargest && largest <= kLargest);
  }

 private:
  std::atomic<uint32_t> largest_{0};
};

}  // namespace ortconv::kernels

// What is done to every element of a result: a slope below zero, then a range.
#pragma once

#include <cstdint>
#include <limits>

#include "base/dtype.h"

namespace ortconv {

struct Parallel;

struct Activation {
  float slope = 1;
  float minimum = -std::numeric_limits<float>::infinity();
  float maximum = std::numeric_limits<float>::infinity();

  bool is_identity() const {
    return slope == 1 && minimum == -std::numeric_limits<float>::infinity() &&
           maximum == std::numeric_limits<float>::infinity();
  }

  // NaN stays what it is.
  float operator()(float value) const {
    const float sloped = value < 0 ? value * slope : value;
    const float above = sloped < minimum ? minimum : sloped;
    return above > maximum ? maximum : above;
  }
};

// Applies the activation in place to elements of a type that accumulates in float.
void activate(DataType dtype, const Activation& activation, void* data, int64_t count, const Parallel& parallel);

}  // namespace ortconv

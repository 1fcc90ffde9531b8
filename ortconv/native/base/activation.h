// The activation of every element of a result: a slope for negative values, then a range.
#pragma once

#include <limits>

namespace ortconv {

struct Activation {
  float slope = 1;
  float minimum = -std::numeric_limits<float>::infinity();
  float maximum = std::numeric_limits<float>::infinity();

  bool is_identity() const {
    return slope == 1 && minimum == -std::numeric_limits<float>::infinity() &&
           maximum == std::numeric_limits<float>::infinity();
  }

  // NaN stays NaN.
  float operator()(float value) const {
    const float sloped = value < 0 ? value * slope : value;
    const float above = sloped < minimum ? minimum : sloped;
    return above > maximum ? maximum : above;
  }
};

}  // namespace ortconv

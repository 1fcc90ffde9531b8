// The activation of every element of a result: a slope for negative values, then a range, then, where the result is
// quantized, a product with a HardSigmoid.
#pragma once

#include <limits>

namespace ortconv {

// max(0, min(1, value * alpha + beta)), as ONNX defines it. A value times its HardSigmoid is HardSwish where alpha is
// 1/6 and beta 1/2.
struct HardSigmoid {
  float alpha = 0;
  float beta = 1;

  bool is_one() const { return alpha == 0 && beta == 1; }
};

struct Activation {
  float slope = 1;
  float minimum = -std::numeric_limits<float>::infinity();
  float maximum = std::numeric_limits<float>::infinity();
  HardSigmoid hard_sigmoid = {};

  bool has_bounds() const {
    return minimum != -std::numeric_limits<float>::infinity() || maximum != std::numeric_limits<float>::infinity();
  }
  bool is_identity() const {
    return hard_sigmoid.is_one() && slope == 1 && minimum == -std::numeric_limits<float>::infinity() &&
           maximum == std::numeric_limits<float>::infinity();
  }

  // Without the HardSigmoid. NaN stays NaN.
  float operator()(float value) const {
    const float sloped = value < 0 ? value * slope : value;
    const float above = sloped < minimum ? minimum : sloped;
    return above > maximum ? maximum : above;
  }
};

}  // namespace ortconv

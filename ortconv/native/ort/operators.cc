#include "ort/operators.h"

#include <utility>

#include "ort/conv_integer_to_float/op.h"
#include "ort/convolution/op.h"
#include "ort/fourier/op.h"
#include "ort/matmul_nbits/op.h"
#include "ort/quantized_convolution/op.h"

namespace ortconv {

CustomOps operators(const OrtApi* api, const Settings& settings) {
  CustomOps all;
  for (const auto make_ops : {conv_ops, matmul_ops, conv_integer_ops, fourier_ops, quantized_ops}) {
    for (auto& op : make_ops(api, settings)) all.push_back(std::move(op));
  }
  return all;
}

}  // namespace ortconv

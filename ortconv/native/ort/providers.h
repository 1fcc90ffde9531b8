// For which of ONNX Runtime's execution providers this library has kernels.
#pragma once

#include <memory>
#include <vector>

#include "base/dtype.h"
#include "ort/conv_integer_to_float/op.h"
#include "ort/convolution/op.h"
#include "ort/fourier/op.h"
#include "ort/matmul_nbits/op.h"
#include "ort/quantized_convolution/op.h"

namespace ortconv {

struct Provider {
  const char* name;              // in ONNX Runtime
  std::vector<DataType> dtypes;  // of the convolutions
  std::unique_ptr<Kernel> (*make_conv)(const ConvCreation&);
  std::unique_ptr<Kernel> (*make_matmul)(const MatMulCreation&);             // null: it has none of these
  std::unique_ptr<Kernel> (*make_integer_conv)(const IntegerConvCreation&);  // null: it has none
  std::unique_ptr<Kernel> (*make_fourier)(const FourierCreation&);           // null: it has none
  std::unique_ptr<Kernel> (*make_quantized)(const QuantizedCreation&);       // null: it has none
};

// ONNX Runtime gives a node with another element type to the first provider of the session that takes it.
const std::vector<Provider>& providers();

}  // namespace ortconv

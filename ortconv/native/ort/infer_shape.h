// Static shape inference inside ONNX Runtime.
#pragma once

#include "ops/conv_params.h"
#include "ort/abi.h"
#include "ort/providers.h"

namespace ortconv {

// Tells ONNX Runtime the shape of Y when every dim is known, where the batch may also be a symbolic name. Leaves the
// shape open otherwise: a dim without a name cannot be expressed, and an invented name might meet its double.
// Throws Error when inference is not possible; the caller drops it, since creating the kernel reports what is wrong.
void infer_shape(const OrtApi* api, ConvOp op, OrtShapeInferContext* context);

// The same for products by compressed weights, where every dim but those of the weights may be a name.
void infer_product_shape(const OrtApi* api, ProductOp op, OrtShapeInferContext* context);

// The same for ConvIntegerToFloat as for the convolutions.
void infer_integer_conv_shape(const OrtApi* api, OrtShapeInferContext* context);

}  // namespace ortconv

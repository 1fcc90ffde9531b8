"""One-node OpenVINO models of the convolution family, and their numbers on OpenVINO's CPU plugin."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import openvino
from openvino import opset1
from openvino.op import Constant

BUILDERS = {
    "Convolution": opset1.convolution,
    "GroupConvolution": opset1.group_convolution,
    "ConvolutionBackpropData": opset1.convolution_backprop_data,
    "GroupConvolutionBackpropData": opset1.group_convolution_backprop_data,
}


def model(
    op: str,
    attributes: Mapping[str, Any],
    data: np.ndarray,
    filter: np.ndarray,
    output_shape: np.ndarray | None = None,
    *,
    shape: Sequence[int] | None = None,
    runtime_shape: bool = False,
) -> openvino.Model:
    """Builds a model of one op.

    Args:
        op: Op type.
        attributes: Its attributes.
        data: The data that will be fed; only its type and shape are used.
        filter: Weights, a constant.
        output_shape: Spatial output sizes.
        shape: Declared shape of the data, -1 where dynamic; the data's own by default.
        runtime_shape: Whether `output_shape` is an input rather than a constant.
    """
    element = openvino.Type.bf16 if data.dtype == ml_dtypes.bfloat16 else openvino.Type(data.dtype)
    x = opset1.parameter(list(shape or data.shape), dtype=element, name="data")
    x.output(0).set_names({"data"})
    parameters, inputs = [x], [x, _constant(filter, element)]
    rest = dict(attributes)
    if op.endswith("BackpropData"):
        inputs.append(rest.pop("strides"))
        if output_shape is not None and runtime_shape:
            sizes = opset1.parameter([len(output_shape)], dtype=openvino.Type(output_shape.dtype), name="output_shape")
            sizes.output(0).set_names({"output_shape"})
            parameters.append(sizes)
            inputs.append(sizes)
        elif output_shape is not None:
            inputs.append(opset1.constant(output_shape))
        elif op.startswith("Group"):
            inputs.append(None)
    node = BUILDERS[op](*inputs, **rest)
    return openvino.Model([node.output(0)], parameters)


def run(source: openvino.Model, feeds: Mapping[str, np.ndarray]) -> np.ndarray:
    """Runs a model in OpenVINO's CPU plugin, computing in float32."""
    compiled = openvino.Core().compile_model(source, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "NUM_STREAMS": "1"})
    return np.array(compiled(dict(feeds))[0])


def _constant(array: np.ndarray, element: openvino.Type) -> Constant:
    """Makes a constant; OpenVINO takes no bfloat16 array, but a list of its values."""
    if element == openvino.Type.bf16:
        return Constant(element, openvino.Shape(array.shape), array.astype(np.float32).ravel().tolist())
    return Constant(array)

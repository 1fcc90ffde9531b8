"""The operator ``ConvIntegerToFloat``: a convolution of 8-bit integers whose result is scaled to floats.

It has standard ops for its body, which dequantize first and convolve floats.
"""

from __future__ import annotations

from typing import Any

import onnx
import onnx.defs
import onnx.parser
from onnx import TensorProto

from ortconv.opset.inferred_node import DOMAIN, VERSION, Dim, InferredNode, differ

__all__ = ["CONV_INTEGER_TO_FLOAT", "ConvIntegerToFloat"]

_Schema = onnx.defs.OpSchema

_DOC = """Y = (the sum over taps of (X - x_zero_point) * (W - w_zero_point)) * (x_scale * w_scale) + B, where W is
[M, C/group, kernel...], and the scales, zero points and biases of W those of output channel M.

The sum is exact in 32 bits, which wrap. Positions of the padding count as x_zero_point, so they add nothing. The sum is
rounded to float, and so is the product of the scales; the product of both may be rounded before B is added, or not."""

_INPUTS = (
    ("X", "T1", "Data [N, C, spatial...], of three axes to eight."),
    ("W", "T2", "Weights [M, C/group, kernel...]."),
    ("x_scale", "tensor(float)", "One number: a scalar, or [1]."),
    ("w_scale", "tensor(float)", "One number, or one for each output channel: [M]."),
    ("x_zero_point", "T1", "One number; none is 0."),
    ("w_zero_point", "T2", "As many numbers as w_scale has; none is 0."),
    ("B", "tensor(float)", "Bias [M]."),
)
_REQUIRED = 4
"""How many of these a node has to have."""

_ATTRIBUTES = (
    ("strides", _Schema.AttrType.INTS, "Stride per spatial axis, at least 1."),
    ("pads", _Schema.AttrType.INTS, "Begin paddings of all spatial axes, then end paddings; none negative."),
    ("dilations", _Schema.AttrType.INTS, "Dilation per spatial axis, at least 1."),
    ("group", _Schema.AttrType.INT, "Number of groups; divides the channels of input and output."),
)

_BODY = """
  data = DequantizeLinear (X, x_scale, x_zero_point)
  weights = DequantizeLinear <axis = 0> (W, w_scale, w_zero_point)
  Y = Conv <strides: ints = @strides, pads: ints = @pads, dilations: ints = @dilations, group: int = @group>
      (data, weights, B)
"""
_OLDEST_OPSET = 13
"""The version of ai.onnx that brought an axis to DequantizeLinear."""


class ConvIntegerToFloat:
    """The operator.

    Attributes:
        name: Op type.
        inputs: Formal inputs.
        required: How many of them, the first ones, a node has to have.
        attributes: Names of the attributes; each is required.
        elements: Allowed element types of X and its zero point, and of W and its.
    """

    name = "ConvIntegerToFloat"
    inputs = tuple(name for name, _, _ in _INPUTS)
    required = _REQUIRED
    attributes = tuple(name for name, _, _ in _ATTRIBUTES)
    elements = (TensorProto.UINT8, TensorProto.INT8)

    def register_schema(self) -> None:
        """Registers the schema with ``onnx.defs``; harmless when repeated."""
        if onnx.defs.has(self.name, VERSION, DOMAIN):
            return
        options = _Schema.FormalParameterOption
        schema = _Schema(
            self.name,
            DOMAIN,
            VERSION,
            doc=_DOC,
            inputs=[
                _Schema.FormalParameter(
                    name, kind, text, param_option=options.Single if i < _REQUIRED else options.Optional
                )
                for i, (name, kind, text) in enumerate(_INPUTS)
            ],
            outputs=[_Schema.FormalParameter("Y", "tensor(float)", "The result [N, M, spatial...].")],
            type_constraints=[
                (name, ["tensor(uint8)", "tensor(int8)"], f"Integers of {what}.")
                for name, what in (("T1", "the data"), ("T2", "the weights"))
            ],
            attributes=[_Schema.Attribute(name, kind, text, required=True) for name, kind, text in _ATTRIBUTES],
        )
        schema.set_type_and_shape_inference_function(self._infer)
        onnx.defs.register_schema(schema)

    def body(self, opset: int) -> onnx.FunctionProto:
        """Returns the function body.

        Args:
            opset: The ai.onnx version of the model, which the body must share.

        Raises:
            ValueError: There is no body in that opset.
        """
        if opset < _OLDEST_OPSET:
            raise ValueError(f"there is no body of {self.name} in opset {opset}")
        function = onnx.parser.parse_function(
            f'<opset_import: ["": {opset}], domain: "{DOMAIN}">\n'
            f"{self.name} <{', '.join(self.attributes)}> ({', '.join(self.inputs)}) => (Y) {{{_BODY}}}\n"
        )
        function.doc_string = _DOC
        return function

    def _infer(self, ctx: Any) -> None:
        node = InferredNode(self.name, ctx)
        node.set_output(TensorProto.FLOAT, _shape(node))


CONV_INTEGER_TO_FLOAT = ConvIntegerToFloat()


def _shape(node: InferredNode) -> list[Dim] | None:
    """Checks a node; returns the shape of Y, or None when not even the rank is known."""
    x, w = node.dims(0), node.dims(1)
    rank = len(node.integers("strides")) + 2
    if not 3 <= rank <= 8:
        raise node.fail(f"attribute strides has {rank - 2} integers; allowed: 1 to 6, one for each spatial axis")
    for name, dims in (("X", x), ("W", w)):
        if dims is not None and len(dims) != rank:
            raise node.fail(f"{name} has rank {len(dims)}; allowed: {rank}, as strides says")
    unknown: list[Dim] = [None] * rank
    data, weights = x or unknown, w or unknown
    group = node.integer("group")
    if group < 1:
        raise node.fail(f"attribute group = {group} is not allowed; allowed: integers >= 1")
    channels, per_group = weights[:2]
    if isinstance(channels, int) and channels % group:
        raise node.fail(f"W has {channels} output channels; allowed: a multiple of group = {group}")
    if isinstance(per_group, int) and differ(data[1], per_group * group):
        raise node.fail(f"X has {data[1]} channels; allowed: {per_group * group}, as W and group = {group} say")
    _check_numbers(node, channels)
    sizes = _sizes(node, data[2:], weights[2:])
    return None if x is None and w is None else [data[0], channels, *sizes]


def _check_numbers(node: InferredNode, channels: Dim) -> None:
    """Checks the shapes of scales, zero points and biases."""
    for index, count in ((2, None), (3, channels), (4, None), (5, channels)):
        given = node.dims(index) if node.has(index) else None
        if given is None or len(given) == 0:
            continue
        if len(given) > 1 or (differ(given[0], 1) and (index in (2, 4) or differ(given[0], count))):
            allowed = "one number" if index in (2, 4) else f"one number, or [{'M' if count is None else count}]"
            raise node.fail(f"{_INPUTS[index][0]} has shape {given}; allowed: {allowed}")
    scales, zeros = node.dims(3), node.dims(5) if node.has(5) else None
    if scales is not None and zeros is not None and differ(*((each or [1])[0] for each in (scales, zeros))):
        raise node.fail(f"w_zero_point has shape {zeros}; allowed: {scales}, as w_scale has")
    bias = node.dims(6) if node.has(6) else None
    if bias is not None and (len(bias) != 1 or differ(bias[0], channels)):
        raise node.fail(f"B has shape {bias}; allowed: [{'M' if channels is None else channels}]")


def _sizes(node: InferredNode, x: list[Dim], kernel: list[Dim]) -> list[Dim]:
    count = len(x)
    strides, dilations = node.ints("strides", count, 1), node.ints("dilations", count, 1)
    pads = node.ints("pads", 2 * count, 0)
    result: list[Dim] = []
    for axis, (size, taps) in enumerate(zip(x, kernel, strict=True)):
        if isinstance(taps, int) and taps < 1:
            raise node.fail(f"spatial axis {axis}: the kernel has size {taps}; allowed: at least 1")
        if not isinstance(size, int) or not isinstance(taps, int):
            result.append(None)
            continue
        extent, padded = (taps - 1) * dilations[axis] + 1, size + pads[axis] + pads[axis + count]
        if extent > padded:
            raise node.fail(f"spatial axis {axis}: the kernel covers {extent}, the padded input {padded}")
        result.append((padded - extent) // strides[axis] + 1)
    return result

"""Replaces ConvIntegerToFloat and the nodes between it and a QuantizeLinear by QLinearConvolution.

These nodes add, multiply and activate, by constants of one number for each channel. So do the layers of old quantized
files: a normalization follows the activation, and the zero of the data lies between two levels, which adds a constant
image to a convolution with padding. In MobileNetV3 and PP-OCR, HardSwish stands there, which QLinearConv lacks.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.graph.constant_values import constant
from ortconv.graph.edit import remove_unused
from ortconv.opset.convolution_terms import ACTIVATION, HARD_SIGMOID, NO_ACTIVATION
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops.conv_integer_to_float import CONV_INTEGER_TO_FLOAT
from ortconv.opset.ops.qlinear_convolution import QLINEAR_CONVOLUTION
from ortconv.passes.context import Context
from ortconv.passes.quantization.activations import activation_of
from ortconv.passes.quantization.transposed_layers import only_user, quantized_type

__all__ = ["run"]

_W, _X_SCALE, _W_SCALE, _X_ZERO, _W_ZERO, _BIAS = 1, 2, 3, 4, 5, 6
"""Inputs of ConvIntegerToFloat."""

_HARD_SWISH = (float(np.float32(1 / 6)), 0.5)
"""Alpha and beta of the HardSigmoid by which HardSwish multiplies its data."""

_BYTES = (ir.DataType.INT8, ir.DataType.UINT8)


@dataclasses.dataclass(frozen=True)
class _Affine:
    """Data times a factor plus an addend, with one number for each channel."""

    factor: npt.NDArray[np.float64]
    addend: npt.NDArray[np.float64]

    def then(self, factor: npt.NDArray[np.float64] | float, addend: npt.NDArray[np.float64] | float) -> _Affine:
        return _Affine(self.factor * factor, self.addend * factor + addend)


@dataclasses.dataclass
class _Layer:
    """A convolution and what follows it.

    Attributes:
        node: The ConvIntegerToFloat.
        before: What is applied to its sums.
        image: What is added to them for each element, as [1, M, spatial...]; None if nothing is.
        image_factor: By which the image is multiplied.
        activation: Slope, minimum and maximum.
        hard_sigmoid: Alpha and beta of the HardSigmoid that makes HardSwish of the activation; None if it is another.
        after: What is applied to the activated sums; None as long as nothing is activated.
        nodes: All nodes between the convolution and the quantizer.
    """

    node: ir.Node
    before: _Affine
    image: ir.Value | None
    image_factor: npt.NDArray[np.float64]
    activation: tuple[float, float, float]
    hard_sigmoid: tuple[float, float] | None
    after: _Affine | None
    nodes: list[ir.Node]

    @property
    def channels(self) -> int:
        return int(self.image_factor.size)

    def take(self, user: ir.Node, value: ir.Value) -> bool:
        """Adds the node that follows; tells whether it could."""
        others = [each for each in user.inputs if each is not value]
        taken = False
        if user.op_type in ("Add", "Sub", "Mul", "Div") and len(others) == 1:
            taken = self._take_arithmetic(user, others[0])
        elif self.after is None:
            taken = self._take_activation(user)
        if taken:
            self.nodes.append(user)
        return taken

    def _take_activation(self, user: ir.Node) -> bool:
        activation = activation_of(user)
        if (user.domain, user.op_type) == ("", "HardSwish"):
            self.hard_sigmoid = _HARD_SWISH
        elif activation is not None:
            self.activation = activation
        else:
            return False
        self.after = _Affine(np.ones(self.channels), np.zeros(self.channels))
        return True

    def _take_arithmetic(self, user: ir.Node, other: ir.Value | None) -> bool:
        op, is_first = user.op_type, user.inputs[0] is not other
        numbers = _of_channels(other, self.channels, user.outputs[0])
        if numbers is None:
            if op != "Add" or self.after is not None or self.image is not None or not _is_image(other, user.outputs[0]):
                return False
            self.image, self.image_factor = other, np.ones(self.channels)
            return True
        if op in ("Sub", "Div") and not is_first:
            return False
        if op == "Div" and not numbers.all():
            return False
        factor: npt.NDArray[np.float64] | float = 1.0
        addend: npt.NDArray[np.float64] | float = 0.0
        if op in ("Add", "Sub"):
            addend = numbers if op == "Add" else -numbers
        else:
            factor = numbers if op == "Mul" else 1 / numbers
        if self.after is not None:
            self.after = self.after.then(factor, addend)
        else:
            self.before = self.before.then(factor, addend)
            self.image_factor = self.image_factor * factor
        return True

    def simplify(self, scale: float, point: int, levels: tuple[int, int]) -> None:
        """Drops bounds where the quantizer saturates, and scales before the activation what is scaled behind it.

        Args:
            scale: The scale of the quantizer.
            point: Its zero point.
            levels: Its lowest and highest level.
        """
        factor, addend = np.ones(self.channels), np.zeros(self.channels)
        if self.after is not None:
            factor, addend = self.after.factor, self.after.addend
        if self.hard_sigmoid is not None or addend.any() or not (factor > 0).all():
            return
        slope, minimum, maximum = self.activation
        if (minimum * factor / scale + point < levels[0] + 0.5).all():
            minimum = -math.inf
        if (maximum * factor / scale + point > levels[1] - 0.5).all():
            maximum = math.inf
        self.activation = slope, minimum, maximum
        if minimum in (0, -math.inf) and maximum == math.inf:
            self.before, self.after = self.before.then(factor, 0.0), None
            self.image_factor = self.image_factor * factor


def run(graph: ir.Graph, context: Context) -> int:
    """Replaces such layers.

    Args:
        graph: The graph; bodies of its nodes are included.
        context: Makes nodes and constants, and notes each layer that is changed.

    Returns:
        How many layers were replaced.
    """
    count = 0
    for node in list(ir.traversal.RecursiveGraphIterator(graph)):
        if (node.domain, node.op_type) != (DOMAIN, CONV_INTEGER_TO_FLOAT.name):
            continue
        layer = _read(node)
        if layer is None:
            continue
        value = node.outputs[0]
        while (user := only_user(value)) is not None and layer.take(user, value):
            value = user.outputs[0]
        if user is not None and _quantizes(user, value):
            _replace(layer, user, context)
            count += 1
    return count


def _read(node: ir.Node) -> _Layer | None:
    """Returns the layer of a convolution alone; None where its numbers are not constant."""
    inputs = [*node.inputs, *[None] * 7]
    scale, point, bias = constant(inputs[_W_SCALE]), constant(inputs[_W_ZERO]), constant(inputs[_BIAS])
    weights = constant(inputs[_W])
    if scale is None or weights is None or (bias is None and inputs[_BIAS] is not None):
        return None
    if inputs[_W_ZERO] is not None and (point is None or np.unique(point.numpy()).size != 1):
        return None
    ones = np.ones(int(weights.shape.numpy()[0]))
    addend = 0 * ones if bias is None else bias.numpy().astype(np.float64)
    return _Layer(node, _Affine(ones, addend), None, ones, NO_ACTIVATION, None, None, [])


def _of_channels(value: ir.Value | None, channels: int, like: ir.Value) -> npt.NDArray[np.float64] | None:
    """Returns a constant of one number, or of one for each channel, as [M]; None for any other."""
    data = constant(value)
    if data is None or like.shape is None or data.dtype != ir.DataType.FLOAT or len(data.shape) > len(like.shape):
        return None
    numbers = data.numpy().astype(np.float64)
    numbers = numbers.reshape([1] * (len(like.shape) - numbers.ndim) + list(numbers.shape))
    if numbers.size not in (1, channels) or numbers.shape[1] != numbers.size or not np.isfinite(numbers).all():
        return None
    return np.broadcast_to(numbers.reshape(-1), (channels,))


def _is_image(value: ir.Value | None, like: ir.Value) -> bool:
    """Tells whether a value is computed from constants alone, and has the shape of one image."""
    if value is None or value.shape is None or like.shape is None or not value.shape.is_static():
        return False
    if list(value.shape.numpy()) != [1, *like.shape[1:]]:
        return False
    node = value.producer()
    return node is not None and node.op_type == "Conv" and all(map(_is_constant, node.inputs))


def _is_constant(value: ir.Value | None) -> bool:
    if value is None or constant(value) is not None:
        return True
    node = value.producer()
    return node is not None and node.op_type == "Expand" and all(constant(each) is not None for each in node.inputs)


def _quantizes(user: ir.Node, value: ir.Value) -> bool:
    """Tells whether a node quantizes a value to bytes, with one scale and zero point."""
    if (user.domain, user.op_type) != ("", "QuantizeLinear") or user.inputs[0] is not value:
        return False
    return (
        len(user.inputs) == 3
        and quantized_type(user) in _BYTES
        and all((data := constant(each)) is not None and data.numpy().ndim == 0 for each in user.inputs[1:])
    )


def _replace(layer: _Layer, quantizer: ir.Node, context: Context) -> None:
    node, old = layer.node, quantizer.outputs[0]
    inputs = [*node.inputs, *[None] * 7]
    y_scale, y_point = (constant(each) for each in quantizer.inputs[1:])
    assert y_scale is not None
    assert y_point is not None
    limits = np.iinfo(y_point.dtype.numpy())
    layer.simplify(float(y_scale.numpy()), int(y_point.numpy()), (int(limits.min), int(limits.max)))

    def array(numbers: npt.NDArray[np.float64], role: str, *, image: bool = False) -> ir.Value:
        assert old.shape is not None
        shape = [-1, *[1] * (len(old.shape) - 2)] if image else [-1]
        return context.constants.array(numbers.astype(np.float32).reshape(shape), f"{node.name}/{role}")

    w_scale, w_point, weights = (constant(inputs[index]) for index in (_W_SCALE, _W_ZERO, _W))
    assert w_scale is not None
    assert weights is not None
    point = np.zeros((), weights.dtype.numpy()) if w_point is None else w_point.numpy().reshape(-1)[0]
    x_zero = inputs[_X_ZERO]
    if x_zero is None:
        assert inputs[0] is not None
        assert inputs[0].dtype is not None
        x_zero = context.constants.number(0, inputs[0].dtype)
    bias = array(layer.before.addend, "bias", image=True)
    if layer.image is not None:
        bias = _image(layer, quantizer, bias, array(layer.image_factor, "image_factor", image=True), context)
    after = layer.after or _Affine(np.ones(layer.channels), np.zeros(layer.channels))
    operands = [
        inputs[0],
        inputs[_X_SCALE],
        x_zero,
        inputs[_W],
        array(w_scale.numpy().reshape(-1) * layer.before.factor, "scale"),
        context.constants.array(np.asarray(point), f"{node.name}/zero_point"),
        *quantizer.inputs[1:],
        bias,
        array(after.factor, "factor"),
        array(after.addend, "addend"),
    ]
    attributes: dict[str, Any] = {each.name: node.attributes[each.name] for each in CONV_INTEGER_TO_FLOAT.attributes}
    attributes[ACTIVATION] = layer.activation
    if layer.hard_sigmoid is not None:
        attributes[HARD_SIGMOID] = layer.hard_sigmoid
    # `ortconv verify` compares what stands in the place of a FakeQuantize.
    result = context.inserter.before(quantizer, QLINEAR_CONVOLUTION.name, operands, old, domain=DOMAIN, **attributes)
    result.metadata_props.update(old.metadata_props)
    ir.convenience.replace_all_uses_with(old, result)
    name, old.name = old.name, None
    context.note(node, "becomes one with the quantizer of its result")
    left = [value for each in (node, *layer.nodes, quantizer) for value in each.inputs]
    for each in (quantizer, *reversed(layer.nodes), node):
        assert each.graph is not None
        each.graph.remove(each, safe=True)
    result.name = name
    for value in left:
        remove_unused(value)


def _image(layer: _Layer, place: ir.Node, bias: ir.Value, factor: ir.Value, context: Context) -> ir.Value:
    """Returns the bias of each element, which ONNX Runtime computes when it loads the model."""
    image = layer.image
    assert image is not None
    assert image.shape is not None
    first = context.constants.array(np.zeros(1, np.int64), f"{layer.node.name}/first_axis")
    squeezed = context.inserter.before(place, "Squeeze", [image, first], image)
    squeezed.shape = ir.Shape(image.shape[1:])
    scaled = squeezed
    if not (layer.image_factor == 1).all():
        scaled = context.inserter.before(place, "Mul", [squeezed, factor], squeezed)
    return context.inserter.before(place, "Add", [scaled, bias], squeezed)

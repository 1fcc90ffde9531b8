"""Finds transposed convolutions of dequantized data and weights: layers for which there are integer operators.

A layer is a ConvTranspose, or a TransposedConvolution or TransposedConvolutionAdd of ours, behind a DequantizeLinear.
What follows it up to a QuantizeLinear belongs to it: the Add of a dequantized residual, an activation, a Transpose.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.graph.constant_values import clip_range, constant
from ortconv.graph.integer_weights import IntegerWeights, integer_weights
from ortconv.graph.match import producer
from ortconv.opset.convolution_terms import ACTIVATION, NO_ACTIVATION
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops.transposed_convolution import TRANSPOSED_CONVOLUTION
from ortconv.opset.ops.transposed_convolution_add import TRANSPOSED_CONVOLUTION_ADD
from ortconv.passes.quantization.activations import leaky_slope

__all__ = ["Quantized", "TransposedLayer", "only_user", "quantized_type", "read"]

Ints = tuple[int, ...]

_BYTES = (ir.DataType.INT8, ir.DataType.UINT8)
_OWN = {TRANSPOSED_CONVOLUTION.name: 2, TRANSPOSED_CONVOLUTION_ADD.name: 3}
"""Ops of ours that a layer may be, and which input is the bias."""


@dataclasses.dataclass(frozen=True)
class Quantized:
    """8-bit integers, and how they are dequantized.

    Attributes:
        value: The integers.
        scale: One number.
        point: One number; None for 0.
        dtype: int8 or uint8.
    """

    value: ir.Value
    scale: ir.Value
    point: ir.Value | None
    dtype: ir.DataType


@dataclasses.dataclass(frozen=True)
class TransposedLayer:
    """A transposed convolution of integers.

    Attributes:
        node: The convolution.
        data: ``Transpose(data, perm=x_perm)`` has the layout [N, C, spatial...].
        weights: The weights.
        bias: [M] of float32; a value where a run gives it.
        window: strides, dilations, group, pads and output_padding, as TransposedConvolution has them.
        x_perm: See `data`.
        y_perm: The result is ``Transpose([N, M, spatial...], perm=y_perm)``.
        activation: Slope, minimum and maximum.
        residual: What is added before the activation, laid out as the result is; None if nothing is.
        quantizer: The QuantizeLinear of the result; None if the result stays float.
        after: The nodes between convolution and quantizer that belong to the layer, in order.
    """

    node: ir.Node
    data: Quantized
    weights: IntegerWeights
    bias: npt.NDArray[np.float32] | ir.Value
    window: dict[str, int | Ints]
    x_perm: Ints
    y_perm: Ints
    activation: tuple[float, float, float]
    residual: Quantized | None
    quantizer: ir.Node | None
    after: tuple[ir.Node, ...]

    @property
    def nodes(self) -> tuple[ir.Node, ...]:
        """The nodes that the integer operator replaces, in order."""
        return (self.node, *self.after, *([] if self.quantizer is None else [self.quantizer]))


def read(node: ir.Node) -> TransposedLayer | str | None:
    """Returns the layer of a node; a reason where its data are quantized and it is none; None otherwise."""
    if (node.domain, node.op_type) == ("", "ConvTranspose"):
        layer = _of_standard(node)
    elif node.domain == DOMAIN and node.op_type in _OWN:
        layer = _of_ours(node)
    else:
        return None
    if not isinstance(layer, TransposedLayer):
        return layer
    whole = _with_consumers(layer)
    if whole.quantizer is None and whole.residual is not None:
        return "its residual is added to a result that is not quantized"
    return whole


def _of_standard(node: ir.Node) -> TransposedLayer | str | None:
    x, w, bias = (*node.inputs, None)[:3]
    assert x is not None
    assert w is not None
    transpose = producer(x, "Transpose")
    found = dequantized(x if transpose is None else transpose.inputs[0])
    if found is None:
        return None
    rank = _rank(w)
    if rank is None:
        return "the rank of its weights is not known"
    perm: Ints | None = None
    if transpose is not None:
        perm = tuple(transpose.attributes.get_ints("perm", tuple(reversed(range(rank)))))
    if node.attributes.get_string("auto_pad", "NOTSET") != "NOTSET" or "output_shape" in node.attributes:
        return "its padding depends on the sizes of its data"
    axes, plain = rank - 2, tuple(range(rank))
    group = int(node.attributes.get_int("group", 1))
    window: dict[str, int | Ints] = {
        "strides": tuple(node.attributes.get_ints("strides", (1,) * axes)),
        "dilations": tuple(node.attributes.get_ints("dilations", (1,) * axes)),
        "group": group,
        "pads": tuple(node.attributes.get_ints("pads", (0,) * 2 * axes)),
        "output_padding": tuple(node.attributes.get_ints("output_padding", (0,) * axes)),
    }
    return _layer(node, found, (w, plain), bias, window, (perm or plain, plain), NO_ACTIVATION, None)


def _of_ours(node: ir.Node) -> TransposedLayer | str | None:
    x, w = node.inputs[:2]
    found = dequantized(x)
    if found is None:
        return None
    assert w is not None
    residual = None
    if node.op_type == TRANSPOSED_CONVOLUTION_ADD.name:
        residual = dequantized(node.inputs[2])
        if residual is None:
            return "its residual is not quantized"
    at = _OWN[node.op_type]
    bias = node.inputs[at] if len(node.inputs) > at else None
    names = ("strides", "dilations", "pads", "output_padding")
    window: dict[str, int | Ints] = {name: tuple(node.attributes[name].as_ints()) for name in names}
    window["group"] = node.attributes["group"].as_int()
    x_perm, w_perm, y_perm = (tuple(node.attributes[name].as_ints()) for name in ("x_perm", "w_perm", "y_perm"))
    activation = NO_ACTIVATION
    if ACTIVATION in node.attributes:
        slope, minimum, maximum = node.attributes[ACTIVATION].as_floats()
        activation = (slope, minimum, maximum)
    return _layer(node, found, (w, w_perm), bias, window, (x_perm, y_perm), activation, residual)


def _layer(
    node: ir.Node,
    data: Quantized,
    filters: tuple[ir.Value, Ints],
    bias: ir.Value | None,
    window: dict[str, int | Ints],
    perms: tuple[Ints, Ints],
    activation: tuple[float, float, float],
    residual: Quantized | None,
) -> TransposedLayer | str:
    group = window["group"]
    assert isinstance(group, int)
    weights = integer_weights(*filters, group)
    if isinstance(weights, str):
        return weights
    addend = np.zeros(weights.scale.size, np.float32) if bias is None else _bias(bias)
    if addend is None:
        return "its bias is no vector of float32"
    return TransposedLayer(node, data, weights, addend, window, *perms, activation, residual, None, ())


def dequantized(value: ir.Value | None) -> Quantized | None:
    """Returns the integers behind a value that a DequantizeLinear with one scale and zero point computes, or None."""
    node = producer(value, "DequantizeLinear")
    if node is None or int(node.attributes.get_int("output_dtype", 0)) not in (0, ir.DataType.FLOAT):
        return None
    quantized, scale, point = (*node.inputs, None)[:3]
    if quantized is None or not _is_number(scale, ir.DataType.FLOAT):
        return None
    dtype = _integer_type(quantized, point)
    if dtype not in _BYTES or (point is not None and not _is_number(point, dtype)):
        return None
    assert scale is not None
    return Quantized(quantized, scale, point, dtype)


def _integer_type(value: ir.Value, point: ir.Value | None) -> ir.DataType | None:
    """Returns the type of integers, which is also that of their zero point."""
    if value.dtype is not None or point is None:
        return value.dtype
    data = constant(point)
    return point.dtype if data is None else data.dtype


def _with_consumers(layer: TransposedLayer) -> TransposedLayer:
    """Adds the nodes that follow, up to a QuantizeLinear; without one, those of the activation alone."""
    taken, after = layer, list[ir.Node]()
    value = layer.node.outputs[0]
    to_float = layer
    while (user := only_user(value)) is not None:
        if user.op_type == "QuantizeLinear":
            if _quantizes(user, value, taken):
                return dataclasses.replace(taken, quantizer=user, after=tuple(after))
            break
        grown = _grown(taken, user, value)
        if grown is None:
            break
        after.append(user)
        taken, value = grown, user.outputs[0]
        if taken.residual is None:
            to_float = dataclasses.replace(taken, after=tuple(after))
    return to_float


def _grown(layer: TransposedLayer, user: ir.Node, value: ir.Value) -> TransposedLayer | None:
    """Returns the layer with the node that follows it, or None."""
    has_activation = layer.activation != NO_ACTIVATION
    slope, minimum, maximum = layer.activation
    match user.op_type:
        case "Add":
            other = next((each for each in user.inputs if each is not value), None)
            residual = dequantized(other)
            if residual is None or layer.residual is not None or has_activation or _static(other) != _static(value):
                return None
            return None if _static(value) is None else dataclasses.replace(layer, residual=residual)
        case "LeakyRelu":
            found = leaky_slope(user)
            if has_activation or found is None:
                return None
            return dataclasses.replace(layer, activation=(found, minimum, maximum))
        case "Relu" | "Clip":
            bounds = clip_range(user)
            if bounds is None:
                return None
            low, high = max(minimum, bounds[0]), min(maximum, bounds[1])
            return dataclasses.replace(layer, activation=(slope, low, high)) if low <= high else None
        case "Transpose":
            perm = user.attributes.get_ints("perm", ())
            if layer.residual is not None or len(perm) != len(layer.y_perm):
                return None
            return dataclasses.replace(layer, y_perm=tuple(layer.y_perm[axis] for axis in perm))
    return None


def _quantizes(user: ir.Node, value: ir.Value, layer: TransposedLayer) -> bool:
    _, scale, point = (*user.inputs, None)[:3]
    result = quantized_type(user)
    return (
        user.inputs[0] is value
        and result in _BYTES
        and (layer.residual is None or layer.residual.dtype == result)
        and _is_number(scale, ir.DataType.FLOAT)
        and (point is None or _is_number(point, result))
        and not user.attributes.get_int("block_size", 0)
    )


def quantized_type(quantizer: ir.Node) -> ir.DataType | None:
    """Returns the type of integers that a QuantizeLinear gives."""
    point = quantizer.inputs[2] if len(quantizer.inputs) > 2 else None
    if point is not None:
        return _integer_type(quantizer.outputs[0], point)
    return ir.DataType(int(quantizer.attributes.get_int("output_dtype", 0)) or int(ir.DataType.UINT8))


def only_user(value: ir.Value) -> ir.Node | None:
    """Returns the only consumer of a value, an ai.onnx node of the same graph; None if there is another or none."""
    users = [user for user, _ in value.uses()]
    if len(users) != 1 or value.is_graph_output() or users[0].domain:
        return None
    return users[0] if users[0].graph is (value.producer() or users[0]).graph else None


def _bias(value: ir.Value) -> npt.NDArray[np.float32] | ir.Value | None:
    """Returns a bias of floats, also of dequantized 32-bit integers."""
    data, node = constant(value), producer(value, "DequantizeLinear")
    if data is not None or node is None:
        return (value if data is None else data.numpy()) if _is_vector(value) else None
    numbers, scale, point = (constant(each) for each in (*node.inputs, None)[:3])
    if numbers is None or scale is None or numbers.dtype != ir.DataType.INT32 or scale.dtype != ir.DataType.FLOAT:
        return None
    if len(node.inputs) > 2 and node.inputs[2] is not None and (point is None or point.numpy().any()):
        return None
    result: npt.NDArray[np.float32] = numbers.numpy().astype(np.float32) * scale.numpy().reshape(-1)
    return result


def _is_vector(value: ir.Value) -> bool:
    """Tells whether a value is a list of float32."""
    data = constant(value)
    if data is not None:
        return data.dtype == ir.DataType.FLOAT and len(data.shape) == 1
    return value.dtype == ir.DataType.FLOAT and value.shape is not None and len(value.shape) == 1


def _is_number(value: ir.Value | None, dtype: ir.DataType | None) -> bool:
    """Tells whether a value is one number of a type."""
    if value is None:
        return False
    data = constant(value)
    if data is not None:
        return data.dtype == dtype and data.numpy().shape in ((), (1,))
    return value.dtype == dtype and value.shape is not None and list(value.shape) in ([], [1])


def _rank(value: ir.Value) -> int | None:
    data = constant(value)
    if data is not None:
        return len(data.shape)
    return None if value.shape is None else len(value.shape)


def _static(value: ir.Value | None) -> Ints | None:
    """Returns a shape without symbols, or None."""
    if value is None or value.shape is None or not value.shape.is_static():
        return None
    return tuple(int(size) for size in value.shape.numpy())

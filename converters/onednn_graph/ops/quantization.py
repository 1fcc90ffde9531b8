"""Quantize, Dequantize and their dynamic forms, whose scales and zero points are inputs.

Quantize adds the zero point and then rounds half to even; ONNX's QuantizeLinear rounds first. The results agree if the
zero point is even. The library converts to 8-bit floats through f16 and does not saturate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.converters.onednn_graph.lib.data_format import known_dims, normal_axis, rank_of
from ortconv.converters.onednn_graph.lib.dtypes import check_type, dtype_name
from ortconv.converters.onednn_graph.ops.groups import groups_of
from ortconv.converters.onednn_graph.reader.neighbours import Links, links_of
from ortconv.converters.onednn_graph.registry import REGISTRY
from ortconv.errors import ShapeError, UnsupportedAttributeError, UnsupportedTypeError
from ortconv.frontend.source_graph import SourceNode, SourceValue
from ortconv.graph.builder import Builder, Ints
from ortconv.onednn.op_schema import KINDS

Floats = tuple[float, ...]
Static = Literal["per_tensor", "per_channel"]
Dynamic = Literal["per_tensor", "per_channel", "per_group"]

_F8 = ("f8_e4m3", "f8_e5m2")
_BYTES = ("u8", "s8")
_NIBBLES = ("s4", "u4")
_NIBBLE_OPSET = 21
_LARGEST = {"f8_e4m3": 464.0, "f8_e5m2": 61408.0}
"""Largest f16 values that round to a finite f8 value."""

_EXACT = 1 << 24
"""Largest range of integers that float32 represents exactly."""

_MOVEMENT = ("Reorder", "StaticReshape", "StaticTranspose", "TypeCast")


@REGISTRY.lowering("Quantize", how="exact")
def quantize(
    b: Builder, src: ir.Value, /, *, scales: Floats, zps: Ints = (), qtype: Static = "per_tensor", axis: int = 1
) -> ir.Value:
    """Lowers to ai.onnx QuantizeLinear, or to Div, Add, Round, Clip for odd zero points; f8 goes through f16."""
    check_type("src", src.dtype, ["f32"])
    dtype = b.node.outputs[0].dtype
    check_type("dst", dtype, (*_BYTES, *_F8))
    _check_scales(scales, zps, qtype)
    _warn_of_axis(b, qtype, axis)
    if 0 in scales:
        raise UnsupportedAttributeError("scales", scales, "numbers other than 0")
    at = _channel_axis(src, qtype, axis, len(scales))
    if dtype_name(dtype) in _F8:
        _no_zero_points(zps)
        return b.typed(_to_f8(b, b.op("Div", src, _spread(b, scales, at, src)), dtype), None, src.shape)
    points = zps or (0,) * len(scales)
    low, high = _limits(dtype)
    if all(point % 2 == 0 and low <= point <= high for point in points):
        scale, point = _vector(b, scales, qtype, np.float32), _vector(b, points, qtype, dtype.numpy())
        result = b.op("QuantizeLinear", src, scale, point, axis=at)
    else:
        b.note("an odd zero point is added before rounding, which QuantizeLinear cannot do")
        shifted = b.op("Add", b.op("Div", src, _spread(b, scales, at, src)), _spread(b, points, at, src))
        result = _rounded(b, shifted, dtype)
    return b.typed(result, None, src.shape)


@REGISTRY.lowering("Dequantize", how="exact")
def dequantize(
    b: Builder, src: ir.Value, /, *, scales: Floats, zps: Ints = (), qtype: Static = "per_tensor", axis: int = 1
) -> ir.Value:
    """Lowers to ai.onnx DequantizeLinear, or to Cast, Sub and Mul where that does not support the types."""
    check_type("src", src.dtype, (*_BYTES, *_F8))
    check_type("dst", b.node.outputs[0].dtype, ["f32"])
    _check_scales(scales, zps, qtype)
    _warn_of_axis(b, qtype, axis)
    if dtype_name(src.dtype) in _F8:
        _no_zero_points(zps)
    points = zps or (0,) * len(scales)
    assert src.dtype is not None
    lay_out = _transposed_weights(b, src, qtype, len(scales))
    if lay_out is not None:
        scale, point = (b.constant(lay_out(np.array(values, np.float32))) for values in (scales, points))
        return _affine(b, src, scale, point if any(points) else None)
    at = _channel_axis(src, qtype, axis, len(scales))
    low, high = _limits(src.dtype) if dtype_name(src.dtype) in _BYTES else (0, -1)
    shifted = any(points)
    breaks = (shifted or src.const_value is None) and _breaks_when_moved(b, src)
    fused = not _becomes_approximate(b, src) and not breaks
    if all(low <= point <= high for point in points) and fused:
        scale, zero = _vector(b, scales, qtype, np.float32), _vector(b, points, qtype, src.dtype.numpy())
        stated = shifted or dtype_name(src.dtype) == "s8"
        return b.typed(b.op("DequantizeLinear", src, scale, zero if stated else None, axis=at), None, src.shape)
    scale = _spread(b, scales, at, src)
    return _affine(b, src, scale, _spread(b, points, at, src) if shifted else None)


@REGISTRY.lowering("DynamicQuantize")
def dynamic_quantize(
    b: Builder,
    src: ir.Value,
    scales: ir.Value,
    zps: ir.Value | None = None,
    /,
    *,
    qtype: Static = "per_tensor",
    axis: int = 1,
    mask: int | None = None,
) -> ir.Value:
    """Lowers to Div, Add, Round, Clip and Cast; f8 goes through f16."""
    check_type("src", src.dtype, ["f32"])
    check_type("scales", scales.dtype, ["f32"])
    dtype = b.node.outputs[0].dtype
    check_type("dst", dtype, (*_BYTES, *_NIBBLES, *_F8))
    _check_opset(b, "dst", dtype)
    _warn_of_axis(b, qtype, axis)
    groups = groups_of(src, qtype, axis, mask, ())
    result = b.op("Div", src, groups.spread(b, "scales", scales))
    if dtype_name(dtype) in _F8:
        if zps is not None:
            check_type("dst", dtype, (*_BYTES, *_NIBBLES))
        return b.typed(_to_f8(b, result, dtype), None, src.shape)
    if zps is not None:
        check_type("zps", zps.dtype, ("u8", "s8", "s32"))
        result = b.op("Add", result, b.cast(groups.spread(b, "zps", zps), ir.DataType.FLOAT))
    return b.typed(_rounded(b, result, dtype), None, src.shape)


@REGISTRY.lowering("DynamicDequantize")
def dynamic_dequantize(
    b: Builder,
    src: ir.Value,
    scales: ir.Value,
    zps: ir.Value | None = None,
    /,
    *,
    qtype: Dynamic = "per_tensor",
    axis: int = 1,
    mask: int | None = None,
    group_shape: Ints = (),
) -> ir.Value:
    """Lowers to Cast, Sub and Mul, with a Reshape around them where groups share an axis."""
    check_type("src", src.dtype, (*_BYTES, *_NIBBLES, *_F8))
    check_type("scales", scales.dtype)
    check_type("dst", b.node.outputs[0].dtype)
    if zps is not None:
        check_type("zps", zps.dtype, (*_BYTES, *_NIBBLES, "s32"))
        check_type("src", src.dtype, (*_BYTES, *_NIBBLES))
    for argument, value in (("src", src), ("zps", zps)):
        if value is not None:
            _check_opset(b, argument, value.dtype)
    _warn_of_axis(b, qtype, axis)
    if qtype == "per_tensor" and mask is None and not group_shape and scales.dtype != ir.DataType.FLOAT:
        name = dtype_name(scales.dtype)
        b.warn(f"the scale of {name} is read in that type; the library, running this op alone, reads its bytes as f32")
    groups = groups_of(src, qtype, axis, mask, group_shape)
    scale = groups.spread(b, "scales", b.cast(scales, ir.DataType.FLOAT))
    point = None if zps is None else groups.spread(b, "zps", b.cast(zps, ir.DataType.FLOAT))
    result = groups.apply(b, b.cast(src, ir.DataType.FLOAT), lambda x: _affine(b, x, scale, point))
    return b.cast(b.typed(result, ir.DataType.FLOAT, src.shape), b.node.outputs[0].dtype)


def _check_opset(b: Builder, argument: str, dtype: ir.DataType | None) -> None:
    """Checks that the opset supports a type: 4-bit types need a newer one."""
    if dtype_name(dtype) in _NIBBLES and b.options.opset < _NIBBLE_OPSET:
        hint = f"4-bit types need opset {_NIBBLE_OPSET}."
        raise UnsupportedTypeError(argument, dtype_name(dtype), _BYTES, hint=hint)


def _affine(b: Builder, x: ir.Value, scale: ir.Value, point: ir.Value | None) -> ir.Value:
    """Emits (x - point) * scale in float32."""
    wide = b.cast(x, ir.DataType.FLOAT)
    shifted = wide if point is None else b.op("Sub", wide, point)
    return b.typed(b.op("Mul", shifted, scale), ir.DataType.FLOAT, x.shape)


def _rounded(b: Builder, x: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Rounds float32 to an integer type, half to even, and saturates."""
    low, high = (b.constant(limit, np.float32) for limit in _limits(dtype))
    return b.op("Cast", b.op("Clip", b.op("Round", x), low, high), to=int(dtype))


def _to_f8(b: Builder, x: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Rounds to f16 and then to f8: out of range, f8_e5m2 becomes infinity and f8_e4m3 NaN.

    Values out of range become infinite first: ONNX Runtime's Cast saturates some of them even with saturate=0.
    """
    half = b.cast(b.cast(x, ir.DataType.FLOAT16), ir.DataType.FLOAT)
    beyond = b.op("Greater", b.op("Abs", half), b.constant(_LARGEST[dtype_name(dtype)], np.float32))
    safe = b.op("Where", beyond, b.op("Mul", half, b.constant(np.inf, np.float32)), half)
    return b.op("Cast", safe, to=int(dtype), saturate=0)


def _limits(dtype: ir.DataType) -> tuple[int, int]:
    return int(dtype.min), int(dtype.max)


def _check_scales(scales: Floats, zps: Ints, qtype: Static) -> None:
    if not scales or (qtype == "per_tensor" and len(scales) != 1):
        raise UnsupportedAttributeError(
            "scales", scales, "one number" if qtype == "per_tensor" else "a list of numbers"
        )
    if zps and len(zps) != len(scales):
        raise UnsupportedAttributeError("zps", zps, f"{len(scales)} integers, as many as scales")
    if any(not -_EXACT <= point <= _EXACT for point in zps):
        raise UnsupportedAttributeError("zps", zps, f"integers from {-_EXACT} to {_EXACT}")


def _no_zero_points(zps: Ints) -> None:
    if any(zps):
        raise UnsupportedAttributeError("zps", zps, "none, or zeros: 8-bit floats have no zero point")


def _warn_of_axis(b: Builder, qtype: Dynamic, axis: int) -> None:
    """Warns about an axis counted from the end, for which the library computes wrong results."""
    if qtype == "per_channel" and axis < 0:
        library = "refuses the op" if axis == -1 else "takes the first scale for all channels"
        b.warn(f"axis {axis} is counted from the end, as in the specification; the library {library}")


def _channel_axis(src: ir.Value, qtype: Static, axis: int, count: int) -> int | None:
    """Returns the axis that the scales belong to, None for a single scale.

    Raises:
        ShapeError: The size of src along that axis differs.
    """
    if qtype == "per_tensor":
        return None
    dims = known_dims(src)
    at = normal_axis("axis", axis, rank_of("src", src))
    if dims is not None and isinstance(dims[at], int) and dims[at] != count:
        raise ShapeError("src", dims, f"{count} elements are required along axis {at}, one per scale.")
    return at


def _vector(b: Builder, values: Sequence[float], qtype: Static, dtype: npt.DTypeLike) -> ir.Value:
    """Returns scales or zero points in the shape that QuantizeLinear and DequantizeLinear require."""
    return b.constant(values[0] if qtype == "per_tensor" else list(values), dtype)


def _spread(b: Builder, values: Sequence[float], at: int | None, src: ir.Value) -> ir.Value:
    """Returns scales or zero points in a shape that broadcasts against src."""
    if at is None:
        return b.constant(values[0], np.float32)
    return b.constant(np.array(values, np.float32).reshape([-1] + [1] * (rank_of("src", src) - 1 - at)))


def _transposed_weights(b: Builder, src: ir.Value, qtype: Static, count: int) -> Callable[..., np.ndarray] | None:
    """Returns how to reshape the scales of the weights of a grouped ConvTranspose.

    Such weights hold the channels of one group, but have one scale per channel of every group.

    Returns:
        A function that reshapes a vector of scales so that it broadcasts against the weights; None for other tensors.
    """
    dims = known_dims(src) or []
    user = next(
        (
            node
            for node in links_of(b.node).consumers(b.node.outputs[0])
            if node.ref.op_type == "ConvTranspose" and len(dims) > 2
        ),
        None,
    )
    if user is None or qtype == "per_tensor":
        return None
    groups = int(str(user.attributes.get("groups", 1)))
    kernel_first = str(user.attributes.get("weights_format", "XOI")).casefold() == "xoi"
    inputs, outputs = (dims[-1], dims[-2]) if kernel_first else (dims[0], dims[1])
    if not isinstance(inputs, int) or not isinstance(outputs, int) or groups < 1 or inputs % groups:
        return None
    if groups == 1 or count != groups * outputs:
        return None
    b.note(f"scales are those of the {count} channels of all {groups} groups")

    def lay_out(values: np.ndarray) -> np.ndarray:
        b.budget.require("the weights' shape", dims, inputs, outputs, values.itemsize)
        each = values.reshape(groups, 1, outputs)
        table = np.broadcast_to(each, (groups, inputs // groups, outputs)).reshape(inputs, outputs)
        return table.T if kernel_first else table.reshape(inputs, outputs, *[1] * (len(dims) - 2))

    return lay_out


def _becomes_approximate(b: Builder, src: ir.Value) -> bool:
    """Returns whether ONNX Runtime would fuse DequantizeLinear of a constant and MatMul into MatMulNBits.

    MatMulNBits rounds the other operand to 8 bits. If the other operand is dequantized, too, ONNX Runtime computes an
    exact integer product instead.
    """
    if src.const_value is None:
        return False
    links = links_of(b.node)
    pending = list(b.node.outputs)
    while pending:
        value = pending.pop()
        for user in links.consumers(value):
            if user.ref.op_type == "MatMul" and not all(
                _is_dequantized(links, other) for other in user.inputs[:2] if other is not value
            ):
                return True
            if user.ref.op_type in _MOVEMENT:
                pending += user.outputs
    return False


def _breaks_when_moved(b: Builder, src: ir.Value) -> bool:
    """Returns whether ONNX Runtime would move DequantizeLinear of int8 past an op that moves data, and fail.

    From opset 21 the QuantizeLinear that it inserts has the wrong type; with a zero point no session can be created.
    Without one, ONNX Runtime before 1.28 assumes uint8 and loses negative values; before opset 21 an explicit zero
    point prevents that.
    """
    if dtype_name(src.dtype) != "s8" or b.options.opset < _NIBBLE_OPSET:
        return False
    return any(_moves_data(user) for user in links_of(b.node).consumers(b.node.outputs[0]))


def _moves_data(node: SourceNode) -> bool:
    """Returns whether the lowering of an op is MaxPool, or begins with a Reshape or Transpose."""
    kind, attributes = node.ref.op_type, node.attributes
    if kind in (*_MOVEMENT, "MaxPool") or attributes.get("transpose_a") or attributes.get("transpose_b"):
        return True
    known = KINDS[kind].attributes if kind in KINDS else {}
    onnx_formats = {"data_format": ("NCX",), "weights_format": ("OIX", "IOX")}
    return any(name in known and str(attributes.get(name)).upper() not in own for name, own in onnx_formats.items())


def _is_dequantized(links: Links, value: SourceValue | None) -> bool:
    while value is not None and (node := links.producer(value)) is not None:
        if node.ref.op_type in ("Dequantize", "DynamicDequantize"):
            return True
        value = node.inputs[0] if node.ref.op_type in _MOVEMENT else None
    return False

"""Color conversion: NV12 and I420 (luma, and chroma at half the size) to RGB and BGR."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import dtype_of, require
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ConversionError
from ortconv.graph.builder import Builder

_BLACK, _GREY, _WHITE = 16.0, 128.0, 255.0
_LUMA = 1.164
_RED_BY_V, _GREEN_BY_V, _GREEN_BY_U, _BLUE_BY_U = 1.596, 0.813, 0.391, 2.018
_TYPES = (ir.DataType.UINT8, ir.DataType.FLOAT16, ir.DataType.BFLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE)


def _register(op_type: str, *, interleaved: bool, reverse: bool) -> None:
    def lower(b: Builder, *planes: ir.Value) -> ir.Value:
        most = 2 if interleaved else 3
        if len(planes) not in (1, most):
            raise ConversionError(f"has {len(planes)} inputs; allowed: 1 or {most}.")
        for plane in planes:
            require(plane, "data", _TYPES)
        single = [b.cast(plane, ir.DataType.FLOAT) for plane in planes]
        luma, *chroma = _cut(b, single[0], interleaved) if len(planes) == 1 else single
        u, v = b.op("Split", chroma[0], outputs=2, axis=3, num_outputs=2) if interleaved else chroma
        return _mixed(b, luma, _grown(b, u), _grown(b, v), dtype_of(planes[0]), reverse)

    lower.__doc__ = "Split planes, repeated chroma and a weighted sum; u8 is rounded."
    REGISTRY.lowering(op_type, since=8)(lower)


def _cut(b: Builder, data: ir.Value, interleaved: bool) -> list[ir.Value]:
    """Splits one plane [N, 3/2 H, W, 1] into luma [N, H, W, 1] and chroma [N, H/2, W/2, 2], or two of 1 channel."""
    batch, rows, width, _ = b.op("Split", b.op("Shape", data), outputs=4, axis=0, num_outputs=4)
    two, three = b.constant([2]), b.constant([3])
    third = b.op("Div", rows, three)
    height = b.op("Mul", third, two)
    luma, rest = b.op("Split", data, b.op("Concat", height, third, axis=0), outputs=2, axis=1)
    half = b.op("Div", width, two)
    if interleaved:
        return [luma, b.op("Reshape", rest, b.op("Concat", batch, third, half, two, axis=0))]
    shape = b.op("Concat", batch, two, third, half, axis=0)
    u, v = b.op("Split", b.op("Reshape", rest, shape), outputs=2, axis=1, num_outputs=2)
    return [luma, *(b.op("Transpose", part, perm=[0, 2, 3, 1]) for part in (u, v))]


def _grown(b: Builder, chroma: ir.Value) -> ir.Value:
    """Repeats each element two times along rows and columns."""
    value = chroma
    for axis in (1, 2):
        doubled = b.op("Concat", *[b.op("Unsqueeze", value, b.constant([axis + 1]))] * 2, axis=axis + 1)
        size = b.op("Mul", b.op("Shape", value, start=axis, end=axis + 1), b.constant([2]))
        parts = [b.op("Shape", value, end=axis), size, b.op("Shape", value, start=axis + 1)]
        value = b.op("Reshape", doubled, b.op("Concat", *parts, axis=0))
    return value


def _mixed(b: Builder, luma: ir.Value, u: ir.Value, v: ir.Value, dtype: ir.DataType, reverse: bool) -> ir.Value:
    def number(value: float) -> ir.Value:
        return b.constant(value, np.float32)

    light = b.op("Mul", b.op("Sub", luma, number(_BLACK)), number(_LUMA))
    blue_side, red_side = (b.op("Sub", plane, number(_GREY)) for plane in (u, v))
    red = b.op("Add", light, b.op("Mul", red_side, number(_RED_BY_V)))
    green = b.op("Sub", light, b.op("Mul", red_side, number(_GREEN_BY_V)))
    green = b.op("Sub", green, b.op("Mul", blue_side, number(_GREEN_BY_U)))
    blue = b.op("Add", light, b.op("Mul", blue_side, number(_BLUE_BY_U)))
    channels = [blue, green, red] if reverse else [red, green, blue]
    value = b.op("Clip", b.op("Concat", *channels, axis=3), number(0.0), number(_WHITE))
    if dtype == ir.DataType.UINT8:
        value = b.op("Round", value)
    return b.cast(b.typed(value, ir.DataType.FLOAT, None), dtype)


for _source, _interleaved in (("NV12", True), ("I420", False)):
    for _target, _reverse in (("RGB", False), ("BGR", True)):
        _register(f"{_source}to{_target}", interleaved=_interleaved, reverse=_reverse)

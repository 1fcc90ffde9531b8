"""GridSample."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import FLOATS, INTEGERS, dtype_of, require, rounded
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ShapeError
from ortconv.graph.builder import Builder

_SHORT_NAMES_OPSET = 20
_RANK = 4
_TRUNCATED_BITS = 32


@REGISTRY.lowering("GridSample", since=9, how="exact")
def grid_sample(
    b: Builder,
    data: ir.Value,
    grid: ir.Value,
    /,
    *,
    align_corners: bool = False,
    mode: Literal["bilinear", "bicubic", "nearest"] = "bilinear",
    padding_mode: Literal["zeros", "border", "reflection"] = "zeros",
) -> ir.Value:
    """GridSample."""
    require(grid, "grid", FLOATS)
    if data.shape is not None and len(data.shape) != _RANK:
        raise ShapeError("data", data.shape, f"its rank must be {_RANK}.")
    name: str = mode
    if b.options.opset >= _SHORT_NAMES_OPSET:
        name = {"bilinear": "linear", "bicubic": "cubic", "nearest": "nearest"}[mode]
    positions = b.cast(grid, ir.DataType.FLOAT)

    def sample(x: ir.Value) -> ir.Value:
        return b.op("GridSample", x, positions, mode=name, padding_mode=padding_mode, align_corners=int(align_corners))

    dtype = dtype_of(data)
    if dtype in INTEGERS and dtype.bitwidth >= _TRUNCATED_BITS:
        b.note(
            "integers: computed in f32 and truncated, as in OpenVINO's CPU plugin; the specification does not define it"
        )
        return b.op("Cast", sample(b.cast(data, ir.DataType.FLOAT)), to=int(dtype))
    return rounded(b, sample, data, op_types=("GridSample",))

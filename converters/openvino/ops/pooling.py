"""MaxPool and AvgPool.

Paddings are made explicit, so that what a window holds does not depend on how a runtime reads ceil_mode: rounding up is
rounding down with a larger end padding. Only same_* with dynamic sizes stays an auto_pad.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, Literal

import onnx_ir as ir

from ortconv.builder import Builder, Ints
from ortconv.converters.openvino.ops.broadcasting import rank_of
from ortconv.converters.openvino.ops.constants import normalized
from ortconv.converters.openvino.ops.types import FLOATS, INTEGERS, apply, require, rounded, type_for
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ShapeError, UnsupportedAttributeError

AutoPad = Literal["explicit", "same_upper", "same_lower", "valid"]
Rounding = Literal["floor", "ceil", "ceil_torch"]


@dataclasses.dataclass(frozen=True)
class _Windows:
    """The windows along one axis; `size` is None where it is dynamic."""

    size: int | None
    kernel: int
    stride: int
    dilation: int
    begin: int
    end: int

    @property
    def extent(self) -> int:
        return (self.kernel - 1) * self.dilation + 1


@dataclasses.dataclass(frozen=True)
class _Pool:
    """Attributes of ONNX pooling ops."""

    kernel_shape: Ints
    strides: Ints
    dilations: Ints
    pads: Ints | None = None
    auto_pad: str | None = None

    def attributes(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


@REGISTRY.lowering("MaxPool")
def max_pool(
    b: Builder,
    data: ir.Value,
    /,
    *,
    kernel: Ints,
    strides: Ints,
    pads_begin: Ints = (),
    pads_end: Ints = (),
    rounding_type: Literal["floor", "ceil"] = "floor",
    auto_pad: AutoPad = "explicit",
) -> ir.Value:
    """MaxPool with explicit pads."""
    pool = _pool(b, data, kernel, strides, (), pads_begin, pads_end, rounding_type, auto_pad)
    return apply(b, "MaxPool", data, **pool.attributes())


@REGISTRY.lowering("MaxPool", since=8, until=14)
def max_pool_8(
    b: Builder,
    data: ir.Value,
    /,
    *,
    kernel: Ints,
    strides: Ints,
    dilations: Ints = (),
    pads_begin: Ints = (),
    pads_end: Ints = (),
    rounding_type: Rounding = "floor",
    auto_pad: AutoPad = "explicit",
    index_element_type: Literal["i64", "i32"] = "i64",
    axis: int = 0,
) -> tuple[ir.Value, ...]:
    """MaxPool with explicit pads; indices, where used, count from axis on (Mod)."""
    pool = _pool(b, data, kernel, strides, dilations, pads_begin, pads_end, rounding_type, auto_pad)
    if len(b.node.outputs) < 2:
        return (apply(b, "MaxPool", data, **pool.attributes()),)
    assert data.dtype is not None
    held = b.cast(data, type_for(data.dtype, ("MaxPool",)))
    values, indices = b.op("MaxPool", held, outputs=2, **pool.attributes())
    (first,) = normalized((axis,), rank_of(data, "data"), "axis")
    if first > 0:
        indices = b.op("Mod", indices, b.op("ReduceProd", b.op("Shape", data, start=first), keepdims=0))
    b.typed(indices, ir.DataType.INT64, None)
    b.typed(values, held.dtype, None)
    return b.cast(values, data.dtype), indices if index_element_type == "i64" else b.cast(indices, ir.DataType.INT32)


@REGISTRY.lowering("AvgPool", since=1, until=16)
def avg_pool(
    b: Builder,
    data: ir.Value,
    /,
    *,
    kernel: Ints,
    strides: Ints,
    exclude_pad: bool,
    dilations: Ints = (),
    pads_begin: Ints = (),
    pads_end: Ints = (),
    rounding_type: Rounding = "floor",
    auto_pad: AutoPad = "explicit",
) -> ir.Value:
    """AveragePool with explicit pads; exclude-pad is count_include_pad."""
    require(data, "data", (*FLOATS, *INTEGERS))
    # Without any padding OpenVINO never counts what rounding up adds behind the end; with some it does.
    padded = auto_pad.startswith("same") or (auto_pad == "explicit" and any(pads_begin + pads_end))
    counted = padded and not exclude_pad
    pool = _pool(b, data, kernel, strides, dilations, pads_begin, pads_end, rounding_type, auto_pad)
    return rounded(
        b,
        lambda x: b.op("AveragePool", x, count_include_pad=int(counted), **pool.attributes()),
        data,
        kernels=("AveragePool",),
    )


def _pool(
    b: Builder,
    data: ir.Value,
    kernel: Ints,
    strides: Ints,
    dilations: Ints,
    pads_begin: Ints,
    pads_end: Ints,
    rounding: Rounding,
    auto_pad: AutoPad,
) -> _Pool:
    """Resolves paddings.

    Args:
        b: The builder.
        data: The data.
        kernel: Window sizes.
        strides: One per spatial axis.
        dilations: One per spatial axis, or none.
        pads_begin: One per spatial axis, or none.
        pads_end: One per spatial axis, or none.
        rounding: How output sizes are rounded.
        auto_pad: How paddings are found.

    Raises:
        ShapeError: The rank does not fit.
        UnsupportedAttributeError: A list has a wrong length, or a window holds padding only.
    """
    spatial = rank_of(data, "data") - 2
    if spatial not in (1, 2, 3):
        raise ShapeError("data", data.shape, "its rank must be 3, 4 or 5.")
    assert data.shape is not None
    none = () if auto_pad == "explicit" else (0,) * spatial
    lists = {
        "kernel": kernel,
        "strides": strides,
        "dilations": dilations or (1,) * spatial,
        "pads_begin": none or pads_begin or (0,) * spatial,
        "pads_end": none or pads_end or (0,) * spatial,
    }
    for attribute, values in lists.items():
        if len(values) != spatial or min(values) < (0 if attribute.startswith("pads") else 1):
            raise UnsupportedAttributeError(attribute, values, f"{spatial} sizes, one per spatial axis")
    sizes = [size if isinstance(size, int) else None for size in data.shape[2:]]
    windows = [_Windows(*each) for each in zip(sizes, *lists.values(), strict=True)]
    pool = _Pool(kernel, strides, lists["dilations"])
    if auto_pad.startswith("same"):
        if None in sizes:
            if any(window.dilation > 1 for window in windows):
                # ONNX Runtime's auto_pad does not look at dilations.
                raise ShapeError("data", data.shape, f"auto_pad {auto_pad} with dilations: its sizes must be known.")
            return dataclasses.replace(pool, auto_pad=auto_pad.upper())
        pads = [_same(window, upper=auto_pad == "same_upper") for window in windows]
    elif rounding == "floor":
        pads = [(window.begin, window.end) for window in windows]
    else:
        pads = [_rounded_up(window, rounding, data) for window in windows]
    for window, pad in zip(windows, pads, strict=True):
        if max(pad) >= window.kernel:
            raise UnsupportedAttributeError("kernel", window.kernel, f"more than the padding, {max(pad)}")
    if auto_pad != "explicit" or rounding != "floor":
        b.note(f"auto_pad {auto_pad}, rounding_type {rounding}: pads {pads}")
    return dataclasses.replace(pool, pads=tuple(begin for begin, _ in pads) + tuple(end for _, end in pads))


def _same(window: _Windows, *, upper: bool) -> tuple[int, int]:
    assert window.size is not None
    count = math.ceil(window.size / window.stride)
    total = max((count - 1) * window.stride + window.extent - window.size, 0)
    return (total // 2, total - total // 2) if upper else (total - total // 2, total // 2)


def _rounded_up(window: _Windows, rounding: Rounding, data: ir.Value) -> tuple[int, int]:
    """Returns paddings for which rounding down gives as many windows as rounding up."""
    if window.size is None:
        # ceil(x / stride) is floor((x + stride - 1) / stride).
        end = window.end + window.stride - 1
        if end >= window.kernel:
            raise ShapeError("data", data.shape, f"rounding_type {rounding}: its spatial sizes must be known.")
        return window.begin, end
    covered = window.begin + window.size
    count = math.ceil((covered + window.end - window.extent) / window.stride) + 1
    if (count - 1) * window.stride >= covered:
        if rounding == "ceil":
            raise UnsupportedAttributeError(
                "rounding_type", rounding, "floor or ceil_torch, since the last window would hold padding only"
            )
        count -= 1
    return window.begin, max((count - 1) * window.stride + window.extent - covered, 0)

"""LRN: local response normalisation over channels, or over any window of axes."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import FLOATS, INTEGERS, require, rounded, rounded_op, scalar
from ortconv.converters.openvino.lib.constants import constant_ints, normalized
from ortconv.converters.openvino.plugin_bugs.empty_inputs import LRN_WITHOUT_BOUND
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ConversionError, UnsupportedAttributeError
from ortconv.graph.builder import Builder

_RANK = 4
"""The rank for which ONNX Runtime has a kernel."""


@REGISTRY.lowering("LRN", how="exact")
def lrn(
    b: Builder, data: ir.Value, axes: ir.Value, /, *, alpha: float, beta: float, bias: float, size: int
) -> ir.Value:
    """LRN over the channels; over other axes the formula, with an AveragePool of the squares."""
    require(data, "data", (*FLOATS, *INTEGERS))
    rank = rank_of(data, "data")
    along = sorted(set(normalized(constant_ints(b, axes, "axes"), rank, "axes")))
    spatial = list(range(2, rank))
    if along != [1] and not (spatial and set(along) >= set(spatial)):
        raise ConversionError(
            f"input axes = {along} is not supported; allowed: 1, or all axes behind it; OpenVINO's CPU plugin takes "
            "no other."
        )
    if len(along) > len(spatial) > 0:
        b.follow("follows OpenVINO's CPU plugin: axes that name all spatial axes exclude batch and channels")
        along = spatial
    if size < 1:
        raise UnsupportedAttributeError("size", size, "1 or more")
    if size % 2 == 0:
        if along != [1]:
            raise UnsupportedAttributeError(
                "size", size, "odd numbers; over images, OpenVINO's CPU plugin takes one window or another for others"
            )
        b.follow("follows OpenVINO's CPU plugin: an even window has one channel less, but its size is the divisor")
        alpha, size = alpha * (size - 1) / size, size - 1
    if data.shape is not None and not isinstance(data.shape[1], int):
        LRN_WITHOUT_BOUND.warn(b)
    if bias != int(bias):
        b.follow(f"follows OpenVINO's CPU plugin: truncates bias = {bias} to {int(bias)}")
        bias = float(int(bias))
    if along == [1] and rank == _RANK:
        return rounded_op(b, "LRN", data, alpha=alpha, beta=beta, bias=bias, size=size)

    def formula(x: ir.Value) -> ir.Value:
        mean = _window_mean(b, data, b.op("Mul", x, x), along, size)
        base = b.op("Add", b.op("Mul", mean, scalar(b, alpha, x)), scalar(b, bias, x))
        return b.op("Div", x, b.op("Pow", base, scalar(b, beta, x)))

    return rounded(b, formula, data, op_types=("Add", "AveragePool", "Div", "Mul", "Pow"))


def _window_mean(b: Builder, data: ir.Value, squares: ir.Value, along: list[int], size: int) -> ir.Value:
    """Emits the mean over a window around each element, with zeros outside."""
    rank = rank_of(data, "data")
    perm = [*(axis for axis in range(rank) if axis not in along), *along]
    in_place = perm == list(range(rank))
    moved = squares if in_place else b.op("Transpose", squares, perm=perm)
    shape = b.op("Shape", moved)
    images = b.op("Concat", b.constant([-1, 1]), b.op("Shape", moved, start=rank - len(along)), axis=0)
    pooled = b.op(
        "AveragePool",
        b.op("Reshape", moved, images),
        kernel_shape=[size] * len(along),
        pads=[size // 2] * (2 * len(along)),
        count_include_pad=1,
    )
    back = b.op("Reshape", pooled, shape)
    return back if in_place else b.op("Transpose", back, perm=[perm.index(axis) for axis in range(rank)])

"""BatchNormInference, MVN, NormalizeL2, GRN, GroupNormalization."""

from __future__ import annotations

import math
from typing import Literal

import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import FLOATS, INTEGERS, apply, name, require, rounded, scalar
from ortconv.converters.openvino.lib.constants import (
    constant_ints,
    int64_vector,
    known_ints,
    normalized,
    warn_of_no_axes,
)
from ortconv.converters.openvino.lib.defaults import warn_of_default
from ortconv.converters.openvino.lib.sizes import reshaped, size_of, sizes_of
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ShapeError, UnsupportedAttributeError, UnsupportedTypeError
from ortconv.graph.builder import Builder, Ints

_ONES_WITHOUT_AXES = (2, 3, 4)
"""Ranks for which NormalizeL2 with empty axes follows its specification in OpenVINO's CPU plugin."""

_MOST_WITHOUT_AXES = 5
"""The largest rank for which the plugin squares every element."""

_KERNELS = ("Add", "Div", "Mul", "ReduceMean", "Sqrt", "Sub")


@REGISTRY.lowering("BatchNormInference")
def batch_norm_inference(
    b: Builder,
    gamma: ir.Value,
    beta: ir.Value,
    data: ir.Value,
    mean: ir.Value,
    variance: ir.Value,
    /,
    *,
    epsilon: float,
) -> ir.Value:
    """BatchNormalization; version 1 has the data as its third input."""
    return apply(b, "BatchNormalization", data, gamma, beta, mean, variance, epsilon=epsilon)


@REGISTRY.lowering("BatchNormInference", since=5)
def batch_norm_inference_5(
    b: Builder,
    data: ir.Value,
    gamma: ir.Value,
    beta: ir.Value,
    mean: ir.Value,
    variance: ir.Value,
    /,
    *,
    epsilon: float,
) -> ir.Value:
    """BatchNormalization."""
    return apply(b, "BatchNormalization", data, gamma, beta, mean, variance, epsilon=epsilon)


@REGISTRY.lowering("MVN", since=2)
def mvn(
    b: Builder,
    data: ir.Value,
    /,
    *,
    eps: float,
    normalize_variance: bool = True,
    across_channels: bool = False,
    reduction_axes: Ints = (),
) -> ir.Value:
    """A formula of ReduceMean; without reduction_axes over the spatial axes, and the channels if across_channels."""
    warn_of_default(b, "normalize_variance", True, "takes false")
    axes = reduction_axes or tuple(range(1 if across_channels else 2, rank_of(data, "data")))
    return _mvn(b, data, b.constant(list(axes)), eps if normalize_variance else None, inside=True)


@REGISTRY.lowering("MVN", since=6)
def mvn_6(
    b: Builder,
    data: ir.Value,
    axes: ir.Value,
    /,
    *,
    normalize_variance: bool = False,
    eps: float,
    eps_mode: Literal["inside_sqrt", "outside_sqrt"] = "inside_sqrt",
) -> ir.Value:
    """A formula of ReduceMean."""
    return _mvn(b, data, int64_vector(b, axes), eps if normalize_variance else None, inside=eps_mode == "inside_sqrt")


def _mvn(b: Builder, data: ir.Value, axes: ir.Value, eps: float | None, *, inside: bool) -> ir.Value:
    require(data, "data", (*FLOATS, *INTEGERS))
    if data.dtype in INTEGERS:
        rank = rank_of(data, "data")
        along = sorted(normalized(constant_ints(b, axes, "axes"), rank, "axes"))
        if along not in (list(range(first, rank)) for first in (1, min(2, rank - 1))):
            raise UnsupportedTypeError(
                "data",
                name(data.dtype),
                [name(dtype) for dtype in FLOATS],
                hint=f"OpenVINO's CPU plugin computes axes {along} of rank {rank} in steps of integers each.",
            )
    return rounded(b, lambda x: _standardized(b, x, axes, eps, inside=inside), data, op_types=_KERNELS)


def _standardized(b: Builder, x: ir.Value, axes: ir.Value, eps: float | None, *, inside: bool) -> ir.Value:
    """Emits x - mean, divided by the standard deviation unless `eps` is None."""
    centerd = b.op("Sub", x, b.op("ReduceMean", x, axes, keepdims=1, noop_with_empty_axes=1))
    if eps is None:
        return centerd
    variance = b.op("ReduceMean", b.op("Mul", centerd, centerd), axes, keepdims=1, noop_with_empty_axes=1)
    if inside:
        deviation = b.op("Sqrt", b.op("Add", variance, scalar(b, eps, x)))
    else:
        deviation = b.op("Add", b.op("Sqrt", variance), scalar(b, eps, x))
    return b.op("Div", centerd, deviation)


@REGISTRY.lowering("NormalizeL2")
def normalize_l2(
    b: Builder, data: ir.Value, axes: ir.Value, /, *, eps: float, eps_mode: Literal["add", "max"] = "add"
) -> ir.Value:
    """A formula of ReduceSum: the data divided by sqrt(sum of squares + eps), or sqrt(max(sum, eps))."""
    require(data, "data", (*FLOATS, *INTEGERS))
    along = int64_vector(b, axes)
    warn_of_no_axes(b, axes)
    if known_ints(b, axes) == () and not _keeps_eps(b, data):  # each element is divided by its own magnitude
        return apply(b, "Abs", apply(b, "Sign", data))
    combine = {"add": "Add", "max": "Max"}[eps_mode]

    def formula(x: ir.Value) -> ir.Value:
        squares = b.op("ReduceSum", b.op("Mul", x, x), along, keepdims=1, noop_with_empty_axes=1)
        return b.op("Div", x, b.op("Sqrt", b.op(combine, squares, scalar(b, eps, x))))

    return rounded(b, formula, data, op_types=("Div", "Mul", "ReduceSum", "Sqrt", combine))


def _keeps_eps(b: Builder, data: ir.Value) -> bool:
    """Tells whether OpenVINO's CPU plugin adds eps if axes is empty.

    At higher ranks the plugin squares only some elements.
    """
    if rank_of(data, "data") in _ONES_WITHOUT_AXES:
        return False
    if rank_of(data, "data") > _MOST_WITHOUT_AXES:
        raise ShapeError("data", data.shape, f"where axes is empty, its rank must be at most {_MOST_WITHOUT_AXES}.")
    b.follow("axes is empty: follows OpenVINO's CPU plugin, which adds eps at this rank; the specification does not")
    return True


@REGISTRY.lowering("GroupNormalization", since=12)
def group_normalization(
    b: Builder, data: ir.Value, scale: ir.Value, bias: ir.Value, /, *, num_groups: int, epsilon: float
) -> ir.Value:
    """InstanceNormalization of the groups, between two Reshapes; a formula on float64, which has no kernel."""
    require(data, "data", (*FLOATS, *INTEGERS))
    channels = size_of(b, data, 1)
    if num_groups < 1 or (isinstance(channels, int) and channels % num_groups):
        allowed = f"a divisor of the {channels} channels" if isinstance(channels, int) else "an integer of at least 1"
        raise UnsupportedAttributeError("num_groups", num_groups, allowed)
    behind = b.constant(list(range(1, rank_of(data, "data") - 1)))

    def formula(x: ir.Value, scale: ir.Value, bias: ir.Value) -> ir.Value:
        grouped = b.typed(_grouped(b, x, num_groups), x.dtype, None)
        if x.dtype == ir.DataType.FLOAT:
            ones, zeros = (b.filled([num_groups], number, ir.DataType.FLOAT) for number in (1, 0))
            standardized = b.op("InstanceNormalization", grouped, ones, zeros, epsilon=epsilon)
        else:
            standardized = _standardized(b, grouped, b.constant([2]), epsilon, inside=True)
        normal = b.op("Reshape", standardized, b.op("Shape", x), allowzero=1)
        scaled = b.op("Mul", normal, b.op("Unsqueeze", scale, behind))
        return b.op("Add", scaled, b.op("Unsqueeze", bias, behind))

    return rounded(b, formula, data, scale, bias, op_types=_KERNELS)


def _grouped(b: Builder, x: ir.Value, num_groups: int) -> ir.Value:
    """Reshapes [N, C, ...] to [N, groups, C * ... / groups]."""
    batch, *rest = sizes_of(b, x, "data")
    known = [size for size in rest if isinstance(size, int)]
    if len(known) < len(rest):
        return b.op("Reshape", x, b.constant([0, num_groups, -1]))
    return reshaped(b, x, [batch, num_groups, math.prod(known) // num_groups])


@REGISTRY.lowering("GRN")
def grn(b: Builder, data: ir.Value, /, *, bias: float = 1.0) -> ir.Value:
    """The data divided by sqrt(bias + sum of squares over axis 1)."""
    require(data, "data", (*FLOATS, *INTEGERS))

    def formula(x: ir.Value) -> ir.Value:
        squares = b.op("ReduceSum", b.op("Mul", x, x), b.constant([1]), keepdims=1)
        return b.op("Div", x, b.op("Sqrt", b.op("Add", squares, scalar(b, bias, x))))

    return rounded(b, formula, data, op_types=("Add", "Div", "Mul", "ReduceSum", "Sqrt"))

"""Normalization per sample: LayerNorm, GroupNorm and RMSNorm."""

from __future__ import annotations

import math

import onnx_ir as ir

from ortconv.converters.conv.layout import inverse, transpose
from ortconv.converters.onednn_graph.lib.data_format import (
    DataFormat,
    channels_of,
    differ,
    known_dims,
    rank_of,
    same_dims,
    to_ncx,
)
from ortconv.converters.onednn_graph.lib.dtypes import check_type, dtype_name, one_type
from ortconv.converters.onednn_graph.lib.statistics import (
    check_channels,
    check_statistics,
    deviation,
    mean_of,
    rounded,
    scaled_by,
)
from ortconv.converters.onednn_graph.ops.elementwise import check_one_way
from ortconv.converters.onednn_graph.registry import REGISTRY
from ortconv.errors import ConversionError, ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints


@REGISTRY.lowering("LayerNorm", how="exact")
def layer_norm(
    b: Builder,
    src: ir.Value,
    gamma: ir.Value | None = None,
    beta: ir.Value | None = None,
    /,
    *,
    keep_stats: bool = True,
    begin_norm_axis: int = -1,
    use_affine: bool = True,
    epsilon: float = 1e-5,
) -> tuple[ir.Value, ...]:
    """Lowers to ai.onnx LayerNormalization; with ReduceMean if keep_stats is set. Computed in float32."""
    one_type(b, src=src)
    check_statistics(b, src, {"gamma": gamma, "beta": beta})
    _check_kept(b, keep_stats)
    axes = _last_axes(src, begin_norm_axis)
    gamma, beta = _affine(b, use_affine, gamma, beta)
    x = b.cast(src, ir.DataType.FLOAT)
    results = [_normalized(b, x, src, gamma, beta, axes, epsilon)]
    shapes = [known_dims(src)]
    if len(b.node.outputs) > 1:
        _warn_of_narrow_statistics(b)
        # The library writes statistics without the normalized axes, or with size 1 for them if the graph declares it.
        declared = b.node.outputs[1].shape
        keep = declared is not None and len(declared) == rank_of("src", src)
        mean = mean_of(b, x, axes)
        centred = b.op("Sub", x, mean)
        outer = (known_dims(src) or [])[: axes[0]]
        results += [
            mean if keep else mean_of(b, x, axes, keep=False),
            mean_of(b, b.op("Mul", centred, centred), axes, keep=keep),
        ]
        shapes += [[*outer, *[1] * len(axes)] if keep else outer] * 2
    return rounded(b, results, shapes)


def _normalized(
    b: Builder,
    x: ir.Value,
    src: ir.Value,
    gamma: ir.Value | None,
    beta: ir.Value | None,
    axes: Ints,
    epsilon: float,
) -> ir.Value:
    """Emits LayerNormalization, with gamma and beta as its inputs if they have the shape that it requires."""
    inner = (known_dims(src) or [])[axes[0] :]
    for name, value in (("gamma", gamma), ("beta", beta)):
        _check_fits(name, value, inner)
    if gamma is not None and beta is not None and known_dims(gamma) == inner == known_dims(beta):
        scale, shift = (b.cast(value, ir.DataType.FLOAT) for value in (gamma, beta))
        return b.op("LayerNormalization", x, scale, shift, axis=axes[0], epsilon=epsilon)
    sizes = [dim for dim in inner if isinstance(dim, int)]
    if len(sizes) == len(inner):
        ones = b.filled(sizes, 1, ir.DataType.FLOAT)
        result = b.op("LayerNormalization", x, ones, axis=axes[0], epsilon=epsilon)
    else:
        centred = b.op("Sub", x, mean_of(b, x, axes))
        variance = mean_of(b, b.op("Mul", centred, centred), axes)
        result = b.op("Div", centred, deviation(b, variance, epsilon))
    for op_type, value in (("Mul", gamma), ("Add", beta)):
        if value is not None:
            result = b.op(op_type, result, b.cast(value, ir.DataType.FLOAT))
    return result


@REGISTRY.lowering("LayerNormBackward")
def layer_norm_backward(
    b: Builder,
    src: ir.Value,
    diff_dst: ir.Value,
    mean: ir.Value,
    variance: ir.Value,
    gamma: ir.Value | None = None,
    beta: ir.Value | None = None,
    /,
    *,
    begin_norm_axis: int = -1,
    use_affine: bool = True,
    epsilon: float = 1e-5,
) -> tuple[ir.Value, ...]:
    """Lowers to ai.onnx ReduceMean, ReduceSum and elementwise ops; computed in float32."""
    one_type(b, src=src, diff_dst=diff_dst)
    same_dims("diff_dst", diff_dst, "src", src)
    check_statistics(b, src, {"mean": mean, "variance": variance, "gamma": gamma, "beta": beta})
    if use_affine and gamma is None:
        raise ConversionError("input gamma (number 4) is missing; it is required where use_affine is set.")
    if len(b.node.outputs) == 2:
        raise ConversionError("has 2 outputs; allowed: 1, or 3 with both diff_gamma and diff_beta.")
    axes, rank = _last_axes(src, begin_norm_axis), rank_of("src", src)
    dims = known_dims(src) or []
    vector = gamma if gamma is not None and use_affine else None
    _check_fits("gamma", vector, dims[axes[0] :])
    x, g = (b.cast(value, ir.DataType.FLOAT) for value in (src, diff_dst))
    centre, spread = (_kept(b, name, value, dims, axes) for name, value in (("mean", mean), ("variance", variance)))
    scale = deviation(b, spread, epsilon)
    normalized = b.op("Div", b.op("Sub", x, centre), scale)
    weighted = g if vector is None else b.op("Mul", g, b.cast(vector, ir.DataType.FLOAT))
    centred = b.op("Sub", weighted, mean_of(b, weighted, axes))
    centred = b.op("Sub", centred, b.op("Mul", normalized, mean_of(b, b.op("Mul", weighted, normalized), axes)))
    results = [b.op("Div", centred, scale)]
    shapes = [dims]
    if len(b.node.outputs) > 1:
        entries = len(axes) if vector is None else rank_of("gamma", vector)
        outer = b.constant(range(rank - entries))
        for value in (b.op("Mul", g, normalized), g):
            results.append(b.op("ReduceSum", value, outer, keepdims=0, noop_with_empty_axes=1))
            shapes.append(dims[rank - entries :])
    return rounded(b, results, shapes)


@REGISTRY.lowering("GroupNorm")
def group_norm(
    b: Builder,
    src: ir.Value,
    gamma: ir.Value | None = None,
    beta: ir.Value | None = None,
    /,
    *,
    groups: int,
    keep_stats: bool = True,
    use_affine: bool = True,
    epsilon: float = 1e-5,
    data_format: DataFormat = "NXC",
) -> tuple[ir.Value, ...]:
    """Lowers to ai.onnx InstanceNormalization of one channel per group; computed in float32."""
    one_type(b, src=src)
    check_statistics(b, src, {"gamma": gamma, "beta": beta})
    _check_kept(b, keep_stats)
    gamma, beta = _affine(b, use_affine, gamma, beta)
    channels, rank = channels_of("src", src, data_format), rank_of("src", src)
    if groups < 1 or (isinstance(channels, int) and channels % groups):
        raise UnsupportedAttributeError("groups", groups, f"a divisor of the number of channels, {channels}")
    check_channels(src, data_format, {"gamma": gamma, "beta": beta})
    perm = to_ncx(rank, data_format)
    x = transpose(b, b.cast(src, ir.DataType.FLOAT), perm)
    dims = known_dims(x) or []
    grouped = b.op("Reshape", x, b.constant([0, groups, _entries(dims, groups)]))
    ones, zeros = (b.filled([groups], number, ir.DataType.FLOAT) for number in (1, 0))
    normalized = b.op("InstanceNormalization", grouped, ones, zeros, epsilon=epsilon)
    known = [dim for dim in dims if isinstance(dim, int)]
    shape = b.constant(known) if len(known) == rank else b.op("Shape", x)
    dst = b.typed(b.op("Reshape", normalized, shape, allowzero=1), ir.DataType.FLOAT, dims)
    for op_type, value in (("Mul", gamma), ("Add", beta)):
        if value is not None:
            dst = b.op(op_type, dst, scaled_by(b, b.cast(value, ir.DataType.FLOAT), rank - 2))
    results = [transpose(b, b.typed(dst, ir.DataType.FLOAT, dims), inverse(perm))]
    if len(b.node.outputs) > 1:
        _warn_of_narrow_statistics(b)
        mean = mean_of(b, grouped, (2,))
        centred = b.op("Sub", grouped, mean)
        results += [mean_of(b, grouped, (2,), keep=False), mean_of(b, b.op("Mul", centred, centred), (2,), keep=False)]
    return rounded(b, results, [src.shape, [dims[0], groups], [dims[0], groups]])


@REGISTRY.lowering("RMSNorm")
def rms_norm(
    b: Builder,
    src: ir.Value,
    gamma: ir.Value | None = None,
    /,
    *,
    begin_norm_axis: int = -1,
    epsilon: float = 1e-5,
) -> ir.Value:
    """Lowers to ai.onnx RMSNormalization, or before opset 23 to its definition, which ONNX Runtime fuses.

    The formula in the specification of RMSNorm adds epsilon to the root of the mean square; the library adds it under
    the root, as usual.
    """
    one_type(b, src=src)
    if gamma is not None:
        check_type("gamma", gamma.dtype, ["f32", "bf16", "f16"])
        check_one_way("gamma", gamma, "src", known_dims(src))
    axes = _last_axes(src, begin_norm_axis)
    inner = (known_dims(src) or [])[axes[0] :]
    dims = None if gamma is None else known_dims(gamma)
    if dims is not None and len(dims) > 1 and any(dim != 1 for dim in dims[:-1]):
        b.warn(
            "gamma is broadcast against src, as in the specification of RMSNorm; the library reads it as a vector "
            "over the last axis"
        )
    x = b.cast(src, ir.DataType.FLOAT)
    scale = None if gamma is None else b.cast(gamma, ir.DataType.FLOAT)
    if b.options.opset >= 23 and scale is not None and dims == inner:
        dst = b.op("RMSNormalization", x, scale, axis=axes[0], epsilon=epsilon)
    else:
        square = b.op("Pow", x, b.constant(2, "float32"))
        dst = b.op("Div", x, deviation(b, mean_of(b, square, axes), epsilon))
        dst = dst if scale is None else b.op("Mul", dst, scale)
    return b.cast(b.typed(dst, ir.DataType.FLOAT, src.shape), b.node.outputs[0].dtype)


def _last_axes(src: ir.Value, begin: int) -> Ints:
    rank = rank_of("src", src)
    if not -rank <= begin < rank:
        raise UnsupportedAttributeError("begin_norm_axis", begin, f"an axis of src, {-rank} to {rank - 1}")
    return tuple(range(begin % rank, rank))


def _check_kept(b: Builder, keep_stats: bool) -> None:
    """Checks that the op has the outputs that keep_stats requires.

    Raises:
        ConversionError: The number of outputs is wrong.
    """
    count = len(b.node.outputs)
    if count == 2 or (keep_stats and count == 1):
        allowed = "3, since keep_stats is set" if keep_stats else "1 or 3"
        raise ConversionError(f"has {count} outputs; allowed: {allowed}.")


def _warn_of_narrow_statistics(b: Builder) -> None:
    """Warns about statistics declared as bf16, for which the library writes float32."""
    kept = dtype_name(b.node.outputs[1].dtype)
    if kept != "f32":
        b.warn(f"mean and variance are stored as {kept}, as declared; the library stores f32 in their place")


def _affine(
    b: Builder, use_affine: bool, gamma: ir.Value | None, beta: ir.Value | None
) -> tuple[ir.Value | None, ir.Value | None]:
    """Returns gamma and beta, None if use_affine is not set.

    Raises:
        ConversionError: use_affine is set and one of them is missing.
    """
    if not use_affine:
        if gamma is not None:
            b.note("gamma and beta have no effect, since use_affine is not set")
        return None, None
    if gamma is None or beta is None:
        given = 1 + (gamma is not None)
        raise ConversionError(f"has {given} inputs; allowed: 3, with gamma and beta, since use_affine is set.")
    return gamma, beta


def _check_fits(name: str, value: ir.Value | None, inner: list[int | str | None]) -> None:
    """Checks that gamma or beta has the normalized shape, or that of its last axes."""
    dims = None if value is None else known_dims(value)
    if dims is None:
        return
    if not 0 < len(dims) <= len(inner) or differ(dims, inner[len(inner) - len(dims) :]):
        raise ShapeError(name, dims, f"{inner} is required, the normalized axes of src.")


def _kept(b: Builder, name: str, value: ir.Value, dims: list[int | str | None], axes: Ints) -> ir.Value:
    """Casts statistics to float32 and reshapes them so that they broadcast against data."""
    rank, outer = rank_of(name, value), dims[: axes[0]]
    if rank not in (len(outer), len(dims)):
        raise ShapeError(name, known_dims(value), f"{outer} is required, the axes of src that are not normalized.")
    wanted = outer if rank == len(outer) else [*outer, *[1] * len(axes)]
    found = known_dims(value) or []
    if differ(found, wanted):
        raise ShapeError(name, found, f"{wanted} is required: one number per normalized part of src.")
    kept = b.cast(value, ir.DataType.FLOAT)
    return kept if rank == len(dims) else b.op("Unsqueeze", kept, b.constant(axes))


def _entries(dims: list[int | str | None], groups: int) -> int:
    """Returns the entries per group, or -1 if they are dynamic."""
    sizes = [dim for dim in dims[1:] if isinstance(dim, int)]
    return math.prod(sizes) // groups if len(sizes) == len(dims) - 1 else -1

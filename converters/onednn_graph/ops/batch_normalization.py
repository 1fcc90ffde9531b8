"""Batch normalization: inference, training and gradient."""

from __future__ import annotations

from collections.abc import Mapping

import onnx_ir as ir

from ortconv.converters.conv.layout import inverse, transpose
from ortconv.converters.onednn_graph.lib.data_format import (
    DataFormat,
    all_but_channels,
    channels_of,
    rank_of,
    same_dims,
    to_ncx,
)
from ortconv.converters.onednn_graph.lib.dtypes import computed, one_type
from ortconv.converters.onednn_graph.lib.statistics import (
    check_channels,
    check_statistics,
    deviation,
    mean_of,
    rounded,
    scaled_by,
)
from ortconv.converters.onednn_graph.registry import REGISTRY
from ortconv.errors import ConversionError
from ortconv.graph.builder import Builder

_MOMENTUM = 0.5
"""Default of momentum in the library."""


@REGISTRY.lowering("BatchNormInference", how="exact")
def batch_norm_inference(
    b: Builder,
    src: ir.Value,
    gamma: ir.Value,
    beta: ir.Value,
    mean: ir.Value,
    variance: ir.Value,
    /,
    *,
    epsilon: float,
    data_format: DataFormat = "NXC",
) -> ir.Value:
    """Lowers to ai.onnx BatchNormalization, between Transposes for NXC; computed in float32."""
    one_type(b, src=src)
    statistics = {"gamma": gamma, "beta": beta, "mean": mean, "variance": variance}
    _check_vectors(b, src, data_format, statistics)
    perm = to_ncx(rank_of("src", src), data_format)

    def normalized(x: ir.Value, *rest: ir.Value) -> ir.Value:
        data = transpose(b, x, perm)
        result = b.op("BatchNormalization", data, *rest, epsilon=epsilon)
        return transpose(b, b.typed(result, data.dtype, data.shape), inverse(perm))

    return b.typed(computed(b, (src, *statistics.values()), normalized, exact=False), None, src.shape)


@REGISTRY.lowering("BatchNormForwardTraining")
def batch_norm_forward_training(
    b: Builder,
    src: ir.Value,
    mean: ir.Value,
    variance: ir.Value,
    gamma: ir.Value | None = None,
    beta: ir.Value | None = None,
    /,
    *,
    epsilon: float,
    momentum: float | None = None,
    data_format: DataFormat = "NXC",
) -> tuple[ir.Value, ...]:
    """Lowers to ai.onnx ReduceMean and elementwise ops; computed in float32. The batch's variance is the biased one."""
    one_type(b, src=src)
    _check_vectors(b, src, data_format, {"mean": mean, "variance": variance, "gamma": gamma, "beta": beta})
    if (gamma is None) != (beta is None):
        raise ConversionError("has 4 inputs; allowed: 3, or 5 with both gamma and beta.")
    if momentum is None:
        momentum = _MOMENTUM
        b.note(
            "momentum is not set: the specification of BatchNormForwardTraining names no default, the library uses 0.5"
        )
    rank = rank_of("src", src)
    axes = all_but_channels(rank, data_format)
    x = b.cast(src, ir.DataType.FLOAT)
    batch_mean = mean_of(b, x, axes)
    centred = b.op("Sub", x, batch_mean)
    batch_variance = mean_of(b, b.op("Mul", centred, centred), axes)
    dst = b.op("Div", centred, deviation(b, batch_variance, epsilon))
    if gamma is not None and beta is not None:
        dst = b.op("Mul", dst, _broadcastable(b, gamma, rank, data_format))
        dst = b.op("Add", dst, _broadcastable(b, beta, rank, data_format))
    flat = [b.op("Reshape", value, b.constant([-1])) for value in (batch_mean, batch_variance)]
    running = [
        b.op(
            "Add",
            b.op("Mul", b.cast(old, ir.DataType.FLOAT), b.constant(momentum, "float32")),
            b.op("Mul", new, b.constant(1 - momentum, "float32")),
        )
        for old, new in zip((mean, variance), flat, strict=True)
    ]
    vector = [channels_of("src", src, data_format)]
    return rounded(b, [dst, *running, *flat], [src.shape, vector, vector, vector, vector])


@REGISTRY.lowering("BatchNormTrainingBackward")
def batch_norm_training_backward(
    b: Builder,
    src: ir.Value,
    diff_dst: ir.Value,
    mean: ir.Value,
    variance: ir.Value,
    gamma: ir.Value | None = None,
    /,
    *,
    epsilon: float,
    data_format: DataFormat = "NXC",
) -> tuple[ir.Value, ...]:
    """Lowers to ai.onnx ReduceMean, ReduceSum and elementwise ops; computed in float32.

    Without diff_gamma and diff_beta gamma has no effect; under runtime semantics mean and variance are then
    constants, as in the library.
    """
    one_type(b, src=src, diff_dst=diff_dst)
    same_dims("diff_dst", diff_dst, "src", src)
    _check_vectors(b, src, data_format, {"mean": mean, "variance": variance, "gamma": gamma})
    if len(b.node.outputs) == 2:
        raise ConversionError("has 2 outputs; allowed: 1, or 3 with both diff_gamma and diff_beta.")
    rank = rank_of("src", src)
    axes = all_but_channels(rank, data_format)
    x, g = (b.cast(value, ir.DataType.FLOAT) for value in (src, diff_dst))
    scale = deviation(b, _broadcastable(b, variance, rank, data_format), epsilon)
    if len(b.node.outputs) == 1:
        if gamma is not None:
            b.note("gamma has no effect, since diff_gamma and diff_beta are not computed")
        gamma = None
        b.follow_semantics(
            "without diff_gamma and diff_beta the gradient in the specification of BatchNormTrainingBackward "
            "goes through mean and variance; the library treats them as constants"
        )
        if b.options.semantics == "runtime":
            return rounded(b, [b.op("Div", g, scale)], [src.shape])
    normalized = b.op("Div", b.op("Sub", x, _broadcastable(b, mean, rank, data_format)), scale)
    product = b.op("Mul", g, normalized)
    centred = b.op("Sub", g, mean_of(b, g, axes))
    centred = b.op("Sub", centred, b.op("Mul", normalized, mean_of(b, product, axes)))
    diff_src = b.op("Div", centred, scale)
    if gamma is not None:
        diff_src = b.op("Mul", diff_src, _broadcastable(b, gamma, rank, data_format))
    results = [diff_src]
    if len(b.node.outputs) == 3:
        results += [b.op("ReduceSum", value, b.constant(axes), keepdims=0) for value in (product, g)]
    vector = [channels_of("src", src, data_format)]
    return rounded(b, results, [src.shape, vector, vector])


def _check_vectors(b: Builder, src: ir.Value, data_format: DataFormat, vectors: Mapping[str, ir.Value | None]) -> None:
    check_statistics(b, src, vectors)
    check_channels(src, data_format, vectors)


def _broadcastable(b: Builder, vector: ir.Value, rank: int, data_format: DataFormat) -> ir.Value:
    """Shapes a vector over the channels, in float32, so that it broadcasts against data."""
    return scaled_by(b, b.cast(vector, ir.DataType.FLOAT), rank - 2 if data_format == "NCX" else 0)

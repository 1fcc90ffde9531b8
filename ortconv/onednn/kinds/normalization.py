"""oneDNN's normalization ops and their gradients in float64, written from their specification."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ortconv.onednn.call import Array, Call
from ortconv.onednn.op_schema import define
from ortconv.onednn.shape_rules import Attributes, Shape, channel_axis

_MOMENTUM = 0.5
"""Default in the library; the specification names none."""


def _mean(x: Array, axes: tuple[int, ...]) -> Array:
    """Returns the mean, with axes kept; NaN for no elements, without NumPy's warning."""
    return np.asarray(x.sum(axes, keepdims=True) / np.float64(math.prod(x.shape[axis] for axis in axes)))


def _moments(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    """Returns mean and biased variance, with axes kept."""
    mean = _mean(x, axes)
    return mean, _mean(np.square(x - mean), axes)


def _scaled(x: Array, mean: Array, variance: Array, epsilon: float) -> Array:
    return np.asarray((x - mean) / np.sqrt(variance + epsilon))


def _channels(call: Call, index: int, default: float = 1.0) -> Array:
    given = call.optional(index)
    return np.array(default) if given is None else call.per_channel(given, call.input(0).ndim)


def _but_channels(call: Call) -> tuple[int, ...]:
    rank = call.input(0).ndim
    return tuple(axis for axis in range(rank) if axis != (rank - 1 if call.channels_last else 1))


@define("BatchNormInference", "src gamma beta mean variance", "dst", "epsilon data_format?")
def _batch_inference(call: Call) -> Array:
    gamma, beta, mean, variance = (_channels(call, index) for index in range(1, 5))
    return gamma * _scaled(call.input(0), mean, variance, call.number("epsilon")) + beta


def _batch_shapes(inputs: Sequence[Shape], attributes: Attributes) -> list[Shape]:
    src = inputs[0]
    if src is None or len(src) < 2:
        return [src]
    return [src, *[(src[channel_axis(attributes)],)] * 4]


@define(
    "BatchNormForwardTraining",
    "src mean variance gamma? beta?",
    "dst running_mean running_variance batch_mean batch_variance",
    "epsilon momentum:f32? data_format?",
    shapes=_batch_shapes,
    other_dtype=2,
)
def _batch_training(call: Call) -> tuple[Array, ...]:
    src, axes, momentum = call.input(0), _but_channels(call), call.number("momentum", _MOMENTUM)
    batch = [value.reshape(-1) for value in _moments(src, axes)]
    running = [momentum * call.input(1 + i) + (1.0 - momentum) * value for i, value in enumerate(batch)]
    mean, variance = (call.per_channel(value, src.ndim) for value in batch)
    dst = _scaled(src, mean, variance, call.number("epsilon")) * _channels(call, 3) + _channels(call, 4, 0.0)
    return dst, *running, *batch


@define(
    "BatchNormTrainingBackward",
    "src diff_dst mean variance gamma?",
    "diff_src diff_gamma? diff_beta?",
    "epsilon data_format?",
    shapes=_batch_shapes,
    other_dtype=2,
    complete=lambda inputs, attributes: inputs > 4,
)
def _batch_backward(call: Call) -> tuple[Array, ...]:
    src, diff_dst, axes, epsilon = call.input(0), call.input(1), _but_channels(call), call.number("epsilon")
    mean, variance = _channels(call, 2), _channels(call, 3)
    scale = (_channels(call, 4) if len(call.node.outputs) > 1 else 1.0) / np.sqrt(variance + epsilon)
    if len(call.node.outputs) == 1 and call.semantics == "runtime":
        return (diff_dst * scale,)  # The library treats the statistics as constants.
    normal = _scaled(src, mean, variance, epsilon)
    means = _mean(diff_dst, axes), _mean(diff_dst * normal, axes)
    return scale * (diff_dst - means[0] - normal * means[1]), (diff_dst * normal).sum(axes), diff_dst.sum(axes)


def _last_axes(call: Call) -> tuple[int, ...]:
    rank = call.input(0).ndim
    return tuple(range(int(call.number("begin_norm_axis", -1)) % rank, rank))


def _layer_shapes(inputs: Sequence[Shape], attributes: Attributes) -> list[Shape] | None:
    src = inputs[0]
    return None if src is None else [src, *[src[: attributes.get("begin_norm_axis", -1)]] * 2]


@define(
    "LayerNorm",
    "src gamma? beta?",
    "dst mean? variance?",
    "keep_stats? begin_norm_axis? use_affine? epsilon?",
    shapes=_layer_shapes,
    complete=lambda inputs, attributes: bool(attributes.get("keep_stats", True)),
)
def _layer(call: Call) -> tuple[Array, ...]:
    src, axes = call.input(0), _last_axes(call)
    mean, variance = _moments(src, axes)
    dst = _scaled(src, mean, variance, call.number("epsilon", 1e-5))
    if call.flag("use_affine", True):
        dst = dst * call.input(1) + call.input(2)
    return dst, *(_stats(call, index, value, len(axes)) for index, value in enumerate((mean, variance), 1))


def _stats(call: Call, index: int, kept: Array, axes: int) -> Array:
    """Removes the normalized axes unless the graph declares them with size 1."""
    outputs = call.node.outputs
    declared = outputs[index].shape if index < len(outputs) else None
    return kept if declared is not None and len(declared) == kept.ndim else kept.reshape(kept.shape[: kept.ndim - axes])


def _layer_backward_shapes(inputs: Sequence[Shape], attributes: Attributes) -> list[Shape] | None:
    src = inputs[0]
    return None if src is None else [src, *[src[attributes.get("begin_norm_axis", -1) :]] * 2]


@define(
    "LayerNormBackward",
    "src diff_dst mean variance gamma? beta?",
    "diff_src diff_gamma? diff_beta?",
    "begin_norm_axis? use_affine? epsilon?",
    shapes=_layer_backward_shapes,
    complete=lambda inputs, attributes: bool(attributes.get("use_affine", True)),
)
def _layer_backward(call: Call) -> tuple[Array, ...]:
    src, diff_dst, axes, epsilon = call.input(0), call.input(1), _last_axes(call), call.number("epsilon", 1e-5)
    kept = (*src.shape[: axes[0]], *[1] * len(axes))
    mean, variance = call.input(2).reshape(kept), call.input(3).reshape(kept)
    normal = _scaled(src, mean, variance, epsilon)
    weighted = diff_dst * call.input(4) if call.flag("use_affine", True) else diff_dst
    means = _mean(weighted, axes), _mean(weighted * normal, axes)
    outer = tuple(range(axes[0]))
    diff_src = (weighted - means[0] - normal * means[1]) / np.sqrt(variance + epsilon)
    return diff_src, (diff_dst * normal).sum(outer), diff_dst.sum(outer)


def _group_shapes(inputs: Sequence[Shape], attributes: Attributes) -> list[Shape] | None:
    src = inputs[0]
    return [src, *[(src[0], attributes.get("groups", 1))] * 2] if src else [src]


@define(
    "GroupNorm",
    "src gamma? beta?",
    "dst mean? variance?",
    "groups keep_stats? use_affine? epsilon? data_format?",
    shapes=_group_shapes,
    complete=lambda inputs, attributes: bool(attributes.get("keep_stats", True)),
)
def _group(call: Call) -> tuple[Array, ...]:
    src = call.ncx(call.input(0))
    count = int(call.number("groups"))
    groups = src.reshape(src.shape[0], count, math.prod(src.shape[1:]) // count)
    mean, variance = _moments(groups, (2,))
    normal = _scaled(groups, mean, variance, call.number("epsilon", 1e-5))
    dst = call.own(normal.reshape(src.shape))
    if call.flag("use_affine", True):
        dst = dst * _channels(call, 1) + _channels(call, 2)
    return dst, mean[..., 0], variance[..., 0]


@define("RMSNorm", "src gamma?", "dst", "begin_norm_axis? epsilon?")
def _rms(call: Call) -> tuple[Array, ...]:
    src, gamma = call.input(0), call.optional(1)
    root = np.sqrt(_mean(np.square(src), _last_axes(call)) + call.number("epsilon", 1e-5))
    return (np.asarray(src / root * (1.0 if gamma is None else gamma)),)

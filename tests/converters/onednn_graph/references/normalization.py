"""Normalisations with their statistics, and their gradients."""

from __future__ import annotations

import math

import numpy as np

from tests.converters.onednn_graph.references.call import Call

_MOMENTUM = 0.5
"""Default in the library; the specification names none."""


def _per_channel(call: Call, vector: np.ndarray, rank: int) -> np.ndarray:
    shape = [1] * rank
    shape[call.channel_axis] = -1
    return vector.reshape(shape)


def _channels(call: Call, index: int, default: float) -> np.ndarray:
    """An optional vector over the channels, ready to broadcast."""
    vector = call.x(index) if call.has(index) else np.array([default])
    return _per_channel(call, vector, call.inputs[0].ndim)


def _normalised(x: np.ndarray, mean: np.ndarray, variance: np.ndarray, epsilon: float) -> np.ndarray:
    return (x - mean) / np.sqrt(variance + epsilon)


def _batch_norm_inference(call: Call) -> np.ndarray:
    gamma, beta, mean, variance = (_channels(call, index, 0) for index in range(1, 5))
    return gamma * _normalised(call.x(), mean, variance, call.attributes["epsilon"]) + beta


def _batch_norm_training(call: Call) -> tuple[np.ndarray, ...]:
    x, epsilon, momentum = call.x(), call.attributes["epsilon"], call.get("momentum", _MOMENTUM)
    axes = tuple(axis for axis in range(x.ndim) if axis != call.channel_axis % x.ndim)
    mean, variance = x.mean(axes), x.var(axes)
    normalised = _normalised(x, _per_channel(call, mean, x.ndim), _per_channel(call, variance, x.ndim), epsilon)
    running = (momentum * call.x(1 + i) + (1 - momentum) * batch for i, batch in enumerate((mean, variance)))
    return normalised * _channels(call, 3, 1) + _channels(call, 4, 0), *running, mean, variance


def _batch_norm_backward(call: Call) -> tuple[np.ndarray, ...]:
    x, g, epsilon = call.x(), call.x(1), call.attributes["epsilon"]
    mean, variance = _channels(call, 2, 0), _channels(call, 3, 0)
    axes = tuple(axis for axis in range(x.ndim) if axis != call.channel_axis % x.ndim)
    normalised = _normalised(x, mean, variance, epsilon)
    if len(call.outputs) == 1:
        scale = 1 / np.sqrt(variance + epsilon)
        if call.semantics == "runtime":
            return (g * scale,)
        return (scale * (g - g.mean(axes, keepdims=True) - normalised * (g * normalised).mean(axes, keepdims=True)),)
    scale = _channels(call, 4, 1) / np.sqrt(variance + epsilon)
    centred = g - g.mean(axes, keepdims=True) - normalised * (g * normalised).mean(axes, keepdims=True)
    return scale * centred, (g * normalised).sum(axes), g.sum(axes)


def _last_axes(call: Call) -> tuple[int, ...]:
    rank = call.inputs[0].ndim
    return tuple(range(call.get("begin_norm_axis", -1) % rank, rank))


def _layer_norm(call: Call) -> tuple[np.ndarray, ...]:
    x, axes = call.x(), _last_axes(call)
    mean, variance = x.mean(axes), x.var(axes)
    kept = (*mean.shape, *[1] * len(axes))
    dst = _normalised(x, mean.reshape(kept), variance.reshape(kept), call.get("epsilon", 1e-5))
    if call.get("use_affine", True):
        dst = dst * call.x(1) + call.x(2)
    return dst, *(_shaped(call, index, array) for index, array in enumerate((mean, variance), 1))


def _shaped(call: Call, index: int, array: np.ndarray) -> np.ndarray:
    """Gives statistics the declared shape, which may keep the normalised axes with size 1."""
    declared = call.outputs[index].shape if index < len(call.outputs) else None
    return array if declared is None else array.reshape(declared)


def _layer_norm_backward(call: Call) -> tuple[np.ndarray, ...]:
    x, g, axes = call.x(), call.x(1), _last_axes(call)
    kept = (*x.shape[: axes[0]], *[1] * len(axes))
    mean, variance = call.x(2).reshape(kept), call.x(3).reshape(kept)
    normalised = _normalised(x, mean, variance, call.get("epsilon", 1e-5))
    weighted = g * call.x(4) if call.get("use_affine", True) else g
    centred = weighted - weighted.mean(axes, keepdims=True)
    centred -= normalised * (weighted * normalised).mean(axes, keepdims=True)
    outer = tuple(range(axes[0]))
    return centred / np.sqrt(variance + call.get("epsilon", 1e-5)), (g * normalised).sum(outer), g.sum(outer)


def _group_norm(call: Call) -> tuple[np.ndarray, ...]:
    x = call.ncx(call.x())
    groups = call.attributes["groups"]
    grouped = x.reshape(x.shape[0], groups, math.prod(x.shape[1:]) // groups)
    mean, variance = grouped.mean(-1), grouped.var(-1)
    normalised = _normalised(grouped, mean[..., None], variance[..., None], call.get("epsilon", 1e-5))
    dst = call.own(normalised.reshape(x.shape))
    if call.get("use_affine", True):
        dst = dst * _channels(call, 1, 1) + _channels(call, 2, 0)
    return dst, mean, variance


def _rms_norm(call: Call) -> np.ndarray:
    x = call.x()
    square = np.mean(x * x, axis=_last_axes(call), keepdims=True)
    return x / np.sqrt(square + call.get("epsilon", 1e-5)) * (call.x(1) if call.has(1) else 1)


OPS = {
    "BatchNormForwardTraining": _batch_norm_training,
    "BatchNormInference": _batch_norm_inference,
    "BatchNormTrainingBackward": _batch_norm_backward,
    "GroupNorm": _group_norm,
    "LayerNorm": _layer_norm,
    "LayerNormBackward": _layer_norm_backward,
    "RMSNorm": _rms_norm,
}

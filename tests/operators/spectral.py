"""Models of one Fourier operator each, and their results by the definition, in float64."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper, numpy_helper

from ortconv.opset import functions
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops import BY_NAME
from ortconv.opset.schemas import register_schemas

__all__ = ["BOUNDS", "assert_close", "defined", "feeds_of", "model", "transformed"]

BOUNDS: dict[Any, float] = {
    np.dtype(np.float32): 2e-6,
    np.dtype(np.float64): 1e-14,
    np.dtype(np.float16): 1.5e-3,
    np.dtype(ml_dtypes.bfloat16): 1.2e-2,
}
"""Type -> the greatest error of a result, relative to the greatest of its elements."""


def wave(bins: int, taps: int, n_fft: int, parts: int) -> np.ndarray:
    """Returns cs(f, j) as [channels, taps]."""
    phase = np.outer(np.arange(bins), np.arange(taps)) % n_fft
    angle = 2 * np.pi * phase / n_fft
    sines = np.where(2 * phase % n_fft == 0, 0, np.sin(angle))
    return np.concatenate([np.cos(angle)] * (parts != 2) + [sines] * (parts != 1))


def defined(op: str, inputs: list[np.ndarray | None], attributes: Mapping[str, Any]) -> np.ndarray:
    """Returns what ForwardSTFT, InverseSTFT or OverlapAdd gives, from sums of products in float64."""
    x, window, *rest = (None if each is None else each.astype(np.float64) for each in inputs)
    assert x is not None
    assert window is not None
    (hop,), (begin, end) = attributes["hop"], attributes["pads"]
    taps = window.size
    if op == "OverlapAdd":
        frames = np.swapaxes(x, 1, 2) * window
    else:
        gains = rest[0]
        assert gains is not None
        parts = attributes["parts"]
        bins = gains.size if parts else gains.size // 2
        filters = wave(bins, taps, attributes["n_fft"], parts) * gains[:, None] * window
        if op == "ForwardSTFT":
            padded = np.pad(x[:, 0], ((0, 0), (begin, end)))
            count = (padded.shape[1] - taps) // hop + 1
            at = np.arange(count)[:, None] * hop + np.arange(taps)
            return np.swapaxes(padded[:, at] @ filters.T, 1, 2)
        spectrum = x if len(rest) < 2 or rest[1] is None else np.concatenate([x, rest[1]], 1)
        frames = np.swapaxes(spectrum, 1, 2) @ filters
    count = frames.shape[1]
    size = max((count - 1) * hop + taps, 0) + attributes["output_padding"][0]
    full = np.zeros((x.shape[0], size))
    for t in range(count):
        full[:, t * hop : t * hop + taps] += frames[:, t]
    return full[:, None, begin : size - end]


def transformed(
    x: np.ndarray, length: int | None = None, *, axis: int, inverse: int = 0, onesided: int = 0
) -> np.ndarray:
    """Returns what FourierTransform gives, from sums of products in float64."""
    data = np.moveaxis(x.astype(np.float64), axis, -2)
    real, imaginary = data[..., 0], data[..., 1] if data.shape[-1] == 2 else np.zeros_like(data[..., 0])
    size = real.shape[-1]
    n = length or (2 * (size - 1) if inverse and onesided else size)
    most = n // 2 + 1 if inverse and onesided else n
    values = np.zeros((*real.shape[:-1], n), np.complex128)
    used = min(size, most)
    values[..., :used] = real[..., :used] + 1j * imaginary[..., :used]
    if inverse and onesided:
        values[..., 0] = values[..., 0].real
        for k in range(1, (n + 1) // 2):
            values[..., n - k] = values[..., k].conj()
        if n % 2 == 0:
            values[..., n // 2] = values[..., n // 2].real
    phase = np.outer(np.arange(n), np.arange(n)) % n
    result = values @ np.exp((2j if inverse else -2j) * np.pi * phase / n) / (n if inverse else 1)
    if onesided and not inverse:
        result = result[..., : n // 2 + 1]
    parts = [result.real] if onesided and inverse else [result.real, result.imag]
    return np.moveaxis(np.stack(parts, -1), -2, axis)


def model(
    op: str,
    inputs: list[np.ndarray | None],
    attributes: Mapping[str, Any],
    constants: tuple[str, ...] = (),
    *,
    opset: int = 21,
    bodies: bool = False,
    open_sizes: bool = False,
) -> onnx.ModelProto:
    """Returns a model of one node.

    Args:
        op: Its type.
        inputs: Its inputs; None for one that it lacks.
        attributes: Its attributes.
        constants: Names of the inputs that are initializers, not inputs of the graph.
        opset: Of ai.onnx.
        bodies: Whether the model has the function body.
        open_sizes: Whether the sizes of the graph's inputs are not stated.
    """
    register_schemas()
    given = {formal.name: data for formal, data in zip(BY_NAME[op].inputs, inputs, strict=False)}
    names = [name if data is not None else "" for name, data in given.items()]
    while not names[-1]:
        names.pop()
    data = inputs[0]
    assert data is not None
    element = helper.np_dtype_to_tensor_dtype(data.dtype)
    infos = [
        helper.make_tensor_value_info(
            name, helper.np_dtype_to_tensor_dtype(each.dtype), [None] * each.ndim if open_sizes else each.shape
        )
        for name, each in given.items()
        if each is not None and name not in constants
    ]
    stored = [
        numpy_helper.from_array(each, name) for name, each in given.items() if each is not None and name in constants
    ]
    node = helper.make_node(op, names, ["Y"], name="n", domain=DOMAIN, **attributes)
    result = helper.make_tensor_value_info("Y", element, [None] * data.ndim)
    made = helper.make_model(
        helper.make_graph([node], "g", infos, [result], stored),
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)],
        ir_version=10,
    )
    if not bodies:
        return made
    read = ir.from_proto(made)
    functions.attach(read)
    return ir.to_proto(read)


def feeds_of(op: str, inputs: list[np.ndarray | None], constants: tuple[str, ...] = ()) -> dict[str, np.ndarray]:
    """Returns what a run of `model` is given."""
    names = (formal.name for formal in BY_NAME[op].inputs)
    return {name: data for name, data in zip(names, inputs, strict=False) if data is not None and name not in constants}


def assert_close(actual: np.ndarray, expected: np.ndarray, dtype: Any) -> None:
    """Asserts that a result has a type, and that it differs from the expected one by no more than rounding."""
    assert actual.dtype == dtype
    assert actual.shape == expected.shape
    scale = float(np.abs(expected).max()) if expected.size else 0.0
    np.testing.assert_allclose(
        actual.astype(np.float64), expected, rtol=0, atol=BOUNDS[np.dtype(dtype)] * max(scale, 1e-3)
    )

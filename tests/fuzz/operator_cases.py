"""Random and hostile models of one node of ours.

Data are small integers, so that sums are exact in every floating-point type whatever their order: an element that is
off is off by much.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
from onnx import helper

from ortconv.opset.ops import BY_NAME
from ortconv.opset.ops.compressed_weights import BLOCK_SIZE
from ortconv.opset.ops.forward_stft import FORWARD_STFT
from ortconv.opset.ops.fourier_transform import FOURIER_TRANSFORM
from ortconv.opset.ops.inverse_stft import INVERSE_STFT
from ortconv.opset.ops.overlap_add import OVERLAP_ADD
from tests.fuzz import convolution_cases
from tests.fuzz.drawing import FLOATS, HOSTILE, HUGE, Draw, constants_of
from tests.fuzz.operator_case import Case

__all__ = ["OPERATORS", "make_case"]

_MOST_FED = 1 << 16
"""Elements of an input, at most; sizes that a mutation makes larger come without data."""


def make_case(op: str, seed: int) -> Case:
    """Makes the case of an operator that has this number."""
    draw = Draw(random.Random(f"{op} {seed}"), np.random.default_rng(seed))
    case = _CASES[op](draw)
    if draw.happens(0.4):
        _mutate(case, draw)
    for name, value in case.attributes.items():
        if isinstance(value, list) and value and isinstance(value[0], int):
            case.attributes[name] = [min(max(each, -(1 << 63)), (1 << 63) - 1) for each in value]
    return case


def _product(op: str, draw: Draw) -> Case:
    gathers, has_codebook = op.startswith("Gather"), "Codebook" in op
    block, blocks = draw.of(1, 2, 3, 16, 33), draw.of(1, 1, 2, 5)
    n, e, k = draw.of(0, 1, 2, 7, 65), draw.of(0, 1, 2, 3), block * blocks
    rows, slots = draw.of(0, 1, 1, 3, 17), draw.of(0, 1, 2)
    dtype = draw.of(*FLOATS)
    matrix = ([e] if gathers else []) + [n]
    kinds = [np.uint8, np.int8, ml_dtypes.uint4, ml_dtypes.int4]
    code = np.dtype(ml_dtypes.uint4 if has_codebook else draw.of(*kinds))

    def codes(shape: list[int]) -> np.ndarray:
        return draw.integers(shape, np.int8 if code.kind == "i" or code == ml_dtypes.int4 else np.uint8).astype(code)

    shape = [rows, draw.of(1, slots), k] if gathers else [*draw.of([], [2], [0], [1, 3]), rows, k]
    inputs: dict[str, Any] = {
        "X": draw.integers(shape, dtype),
        "data": codes([*matrix, k]),
        "scale": np.exp2(draw.integers([*matrix, blocks], np.float32)).astype(dtype),
    }
    if gathers:
        index = draw.numbers.integers(-1, e + 1, (rows, slots))
        index[draw.numbers.random(index.shape) < 0.05] = draw.of(*HOSTILE)
        inputs["index"] = index
    if has_codebook:
        inputs["codebook"] = np.arange(-8, 8, dtype=np.float32)
    else:
        inputs["zero_point"] = codes([*matrix, blocks]) if draw.happens(0.5) else None
    constants = constants_of(draw, [name for name in inputs if name != "X"])
    return Case(op, {"block_size": block}, inputs, constants, draw.happens(0.5), True)


def _spectral(op: str, draw: Draw) -> Case:
    n = draw.of(1, 2, 3, 4, 5, 8, 12, 16, 30)
    taps, parts, batch = draw.random.randint(1, n), draw.of(0, 1, 2), draw.of(0, 1, 1, 2)
    frames, hop, dtype = draw.of(0, 1, 2, 9, 17), draw.of(1, 2, 5, n), np.dtype(draw.of(*FLOATS, np.float64))
    bins = draw.random.randint(1, n)
    channels, window = bins * (1 if parts else 2), draw.integers([taps], dtype)
    attributes: dict[str, Any] = {"n_fft": n, "hop": [hop], "pads": [0, 0], "parts": parts}
    inputs: dict[str, Any]
    if op == FORWARD_STFT.name:
        begin, end = attributes["pads"] = draw.of([0, 0], [1, 2], [n, n])
        length = max(max(frames - 1, 0) * hop + taps - begin - end, 0)
        gains = draw.integers([channels], dtype)
        inputs = {"signal": draw.integers([batch, 1, length], dtype), "window": window, "gains": gains}
    else:
        added = draw.of(0, 0, 3)
        attributes |= {"output_padding": [added]}
        attributes["pads"] = [*draw.split(min(max((frames - 1) * hop + taps, 0) + added, draw.of(0, 2, n)))]
        if op == OVERLAP_ADD.name:
            del attributes["n_fft"], attributes["parts"]
            inputs = {"frames": draw.integers([batch, taps, frames], dtype), "window": window}
        else:
            splits = parts == 0 and draw.happens(0.5)
            shape = [batch, bins if splits else channels, frames]
            inputs = {"spectrum": draw.integers(shape, dtype), "window": window}
            inputs["gains"] = draw.integers([channels], dtype)
            inputs["sines"] = draw.integers(shape, dtype) if splits else None
    constants = constants_of(draw, [name for name in ("window", "gains") if name in inputs])
    return Case(op, attributes, inputs, constants, draw.happens(0.5), True)


def _fourier(draw: Draw) -> Case:
    dtype, inverse, onesided = np.dtype(draw.of(*FLOATS, np.float64)), draw.of(0, 1), draw.of(0, 1)
    parts = (2 if inverse else 1) if onesided else draw.of(1, 2)
    shape = [draw.of(0, 1, 2, 5, 9) for _ in range(draw.of(1, 2, 2, 3))]
    axis = draw.random.randrange(len(shape))
    shape[axis] = draw.of(2, 3, 8, 13, 30, 101)
    length = draw.of(None, None, np.array(draw.of(1, 2, 9, 32, 60), np.int64))
    inputs: dict[str, Any] = {"X": draw.integers([*shape, parts], dtype), "length": length}
    attributes = {"axis": draw.of(axis, axis - len(shape) - 1), "inverse": inverse, "onesided": onesided}
    constants = constants_of(draw, ["length"] if length is not None else [])
    return Case(FOURIER_TRANSFORM.name, attributes, inputs, constants, draw.happens(0.5), True)


def _mutate(case: Case, draw: Draw) -> None:
    """Changes something of a case to something hostile."""
    case.is_plain = False
    for _ in range(draw.of(1, 1, 2, 3)):
        (_mutate_attribute if draw.happens(0.6) else _mutate_input)(case, draw)


def _mutate_attribute(case: Case, draw: Draw) -> None:
    if not case.attributes:
        return
    name = draw.of(*case.attributes)
    value = case.attributes[name]
    if draw.happens(0.06):
        del case.attributes[name]
    elif draw.happens(0.06):
        case.attributes[name] = draw.of(1.5, "text", [0.5], [], 1, [1, 2])
    elif isinstance(value, list) and value and isinstance(value[0], int):
        changed = list(value)
        if draw.happens(0.1):
            changed = draw.of(changed[1:], [*changed, 1])
        if changed:
            changed[draw.random.randrange(len(changed))] = draw.of(*HOSTILE)
        case.attributes[name] = changed
    elif isinstance(value, list):
        case.attributes[name] = [draw.of(0.0, -1.0, np.nan, np.inf, -np.inf, 3e38) for _ in range(draw.of(2, 3, 3, 3))]
    elif isinstance(value, int):
        case.attributes[name] = draw.of(*HOSTILE)


def _mutate_input(case: Case, draw: Draw) -> None:
    name = draw.of(*(name for name, data in case.inputs.items() if isinstance(data, np.ndarray)))
    data = case.inputs[name]
    assert isinstance(data, np.ndarray)
    if name == "length":
        case.inputs[name] = np.array(draw.of(*HOSTILE), np.int64)
        return
    if name == "output_shape" and data.size and draw.happens(0.8):
        data = data.copy()
        data[draw.random.randrange(data.size)] = draw.of(*HOSTILE)
        case.inputs[name] = data
        return
    shape = list(data.shape)
    if shape and draw.happens(0.15):
        shape.pop(draw.random.randrange(len(shape)))
    elif draw.happens(0.1):
        shape.insert(draw.random.randint(0, len(shape)), draw.of(0, 1, 2))
    elif shape:
        shape[draw.random.randrange(len(shape))] = draw.of(0, 0, 1, 2, 3, 64)
    if 0 in shape and name in case.constants and draw.happens(0.3):
        huge = tuple(size and draw.of(size, *HUGE) for size in shape)
        case.inputs[name] = (huge, helper.np_dtype_to_tensor_dtype(data.dtype))
    elif np.prod(shape) <= _MOST_FED:
        case.inputs[name] = np.resize(data if data.size else np.zeros(1, data.dtype), shape)


_CASES: Mapping[str, Callable[[Draw], Case]] = {
    **convolution_cases.CASES,
    **{
        op.name: functools.partial(_product, op.name)
        for op in BY_NAME.values()
        if any(each.name == BLOCK_SIZE for each in op.attributes)
    },
    **{op.name: functools.partial(_spectral, op.name) for op in (FORWARD_STFT, INVERSE_STFT, OVERLAP_ADD)},
    FOURIER_TRANSFORM.name: _fourier,
}

OPERATORS = tuple(_CASES)
"""Op types of which there are cases."""

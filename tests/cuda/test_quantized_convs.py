"""Transposed convolutions of 8-bit integers, and QLinearConvolution, on the GPU: equal to the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from ortconv.opset.operator import Operator
from tests.cuda import device
from tests.operators import qlinear_convolution, quantized_transposed
from tests.operators.quantized_transposed import KINDS, OPS

KIND_NAMES = ["-".join(kind.__name__ for kind in kinds) for kinds in KINDS]
OP_NAMES = [op.name for op in OPS]
PLAIN_KINDS = (np.uint8, np.int8, np.uint8)
TRANSPOSED = quantized_transposed.Case(
    (1, 6, 5, 7), (6, 8, 4, 4), strides=(2, 2), pads=(1, 1, 1, 1), activation=(0.5, -30.0, 40.0)
)
DIRECT = qlinear_convolution.Case(
    (1, 6, 9, 7), (8, 6, 3, 3), strides=(2, 1), pads=(1, 1, 0, 1), activation=(0.5, -30.0, 40.0)
)
LARGE_TRANSPOSED = [
    quantized_transposed.Case((2, 256, 28, 28), (256, 128, 4, 4), strides=(2, 2), pads=(1, 1, 1, 1)),
    quantized_transposed.Case((2, 256, 28, 28), (256, 128, 3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
    quantized_transposed.Case((2, 384, 28, 28), (384, 1, 4, 4), strides=(2, 2), pads=(1, 1, 1, 1), group=384),
]
LARGE_DIRECT = [
    qlinear_convolution.Case((2, 256, 56, 56), (512, 256, 3, 3), strides=(2, 2), pads=(1, 1, 1, 1)),
    qlinear_convolution.Case((2, 384, 28, 28), (384, 1, 7, 7), pads=(3, 3, 3, 3), group=384),
]


def constants_of(op: Operator) -> tuple[str, ...]:
    """Returns the names of all inputs but the data."""
    return tuple(each.name for each in op.inputs if each.name not in ("X", "R"))


def transpose(op: Operator, case: Any, given: dict[str, np.ndarray], constants: tuple[str, ...]) -> np.ndarray:
    made = quantized_transposed.model(op, case, given, constants)
    feeds = {name: data for name, data in given.items() if name not in constants}
    (y,) = device.session(made, device.only_here()).run(None, feeds)
    return y


def convolve(case: Any, given: dict[str, np.ndarray], constants: tuple[str, ...]) -> np.ndarray:
    made = qlinear_convolution.model(case, given, constants)
    feeds = {name: data for name, data in given.items() if name not in constants}
    (y,) = device.session(made, device.only_here()).run(None, feeds)
    return y


@pytest.mark.parametrize("kinds", KINDS, ids=KIND_NAMES)
@pytest.mark.parametrize("case", quantized_transposed.CASES, ids=str)
def test_transposed_convolution_is_the_definition(case: Any, kinds: Any, library: str) -> None:
    turn = KINDS.index(kinds)
    for index, op in enumerate(OPS):
        given = quantized_transposed.tensors(op, case, kinds, channels=index != turn % 3)
        constants = (constants_of(op), ("W", "w_zero_point"), (), ("W",))[(index + turn) % 4]
        quantized_transposed.assert_equal(op, case, given, transpose(op, case, given, constants))


@pytest.mark.parametrize("kinds", KINDS, ids=KIND_NAMES)
@pytest.mark.parametrize("case", qlinear_convolution.CASES, ids=str)
def test_convolution_is_the_definition(case: Any, kinds: Any, library: str) -> None:
    turn = KINDS.index(kinds)
    given = qlinear_convolution.tensors(case, kinds, biases=turn % 2 == 0, channels=turn != 3)
    constants = (qlinear_convolution.NAMES[1:], ("W", "w_zero_point"), (), ("W",))[turn % 4]
    qlinear_convolution.assert_equal(case, given, convolve(case, given, constants))


@device.needs_gpu
@pytest.mark.parametrize("op", OPS, ids=OP_NAMES)
@pytest.mark.parametrize("case", LARGE_TRANSPOSED, ids=str)
def test_large_transposed_convolution(case: Any, op: Operator, library: str) -> None:
    given = quantized_transposed.tensors(op, case, PLAIN_KINDS)
    quantized_transposed.assert_equal(op, case, given, transpose(op, case, given, constants_of(op)))


@device.needs_gpu
@pytest.mark.parametrize("case", LARGE_DIRECT, ids=str)
def test_large_convolution(case: Any, library: str) -> None:
    given = qlinear_convolution.tensors(case, PLAIN_KINDS)
    qlinear_convolution.assert_equal(case, given, convolve(case, given, qlinear_convolution.NAMES[1:]))


@pytest.mark.parametrize("op", OPS, ids=OP_NAMES)
def test_sizes_of_transposed_convolutions_change_from_run_to_run(op: Operator, library: str) -> None:
    first = quantized_transposed.tensors(op, TRANSPOSED, PLAIN_KINDS)
    made = quantized_transposed.model(op, TRANSPOSED, first, constants_of(op), open_sizes=True)
    session = device.session(made, device.only_here())
    for size in (11, 1, 4, 11):
        case = quantized_transposed.Case(
            (2, 6, size, 2 * size), TRANSPOSED.w, strides=(2, 2), pads=(1, 1, 1, 1), activation=TRANSPOSED.activation
        )
        own = {
            name: data
            for name, data in quantized_transposed.tensors(op, case, PLAIN_KINDS).items()
            if name in ("X", "R")
        }
        (y,) = session.run(None, own)
        quantized_transposed.assert_equal(op, case, {**first, **own}, y)


def test_sizes_change_from_run_to_run(library: str) -> None:
    first = qlinear_convolution.tensors(DIRECT, PLAIN_KINDS, biases=False)
    made = qlinear_convolution.model(DIRECT, first, qlinear_convolution.NAMES[1:], open_sizes=True)
    session = device.session(made, device.only_here())
    for size in (11, 2, 4, 11):
        case = qlinear_convolution.Case(
            (2, 6, size, 2 * size), DIRECT.w, DIRECT.strides, DIRECT.pads, activation=DIRECT.activation
        )
        given = {**first, "X": qlinear_convolution.tensors(case, PLAIN_KINDS)["X"]}
        qlinear_convolution.assert_equal(case, given, session.run(None, {"X": given["X"]})[0])


@pytest.mark.parametrize("op", OPS, ids=OP_NAMES)
def test_empty_batch(op: Operator, library: str) -> None:
    given = quantized_transposed.tensors(op, TRANSPOSED, PLAIN_KINDS)
    made = quantized_transposed.model(op, TRANSPOSED, given, constants_of(op), open_sizes=True)
    feeds = {name: given[name][:0] for name in ("X", "R") if name in given}
    (y,) = device.session(made, device.only_here()).run(None, feeds)
    assert y.shape == (0, 8, 10, 14)


@pytest.mark.parametrize("name", [each.name for each in OPS[2].inputs])
def test_refusals_of_a_run(name: str, library: str) -> None:
    given = quantized_transposed.tensors(OPS[2], TRANSPOSED, PLAIN_KINDS)
    session = device.session(quantized_transposed.model(OPS[2], TRANSPOSED, given, open_sizes=True), device.only_here())
    shape = {"X": (1, 5, 5, 7), "W": (6, 8, 0, 4), "R": (1, 8, 10, 13)}.get(name, (9,))
    given[name] = np.zeros(shape, given[name].dtype)
    with pytest.raises(InvalidArgument, match=rf"QLinearTransposedConvolutionAdd.*\b{name}\b"):
        session.run(None, given)


@pytest.mark.parametrize("name", ["B", "factor", "addend", "y_scale", "w_zero_point"])
def test_refusals_of_a_run_of_a_convolution(name: str, library: str) -> None:
    given = qlinear_convolution.tensors(DIRECT, PLAIN_KINDS)
    session = device.session(qlinear_convolution.model(DIRECT, given, open_sizes=True), device.only_here())
    given[name] = np.zeros((8, 5, 8) if name == "B" else (9,), given[name].dtype)
    with pytest.raises(InvalidArgument, match=rf"QLinearConvolution.*\b{name}\b"):
        session.run(None, given)

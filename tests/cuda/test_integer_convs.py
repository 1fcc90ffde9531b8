"""ConvIntegerToFloat on the GPU, against the definition."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument

from tests.cuda import device
from tests.operators.integer_convs import CASES, KINDS, NAMES, Case, assert_convolved, model, tensors

PLAIN = Case((1, 6, 9, 11), (7, 6, 3, 3), pads=(1, 1, 1, 1))
DEPTHWISE = Case((1, 6, 9, 11), (6, 1, 3, 3), pads=(1, 1, 1, 1), group=6)
KIND_NAMES = ["-".join(kind.__name__ for kind in kinds) for kinds in KINDS]
LARGE = [
    Case((2, 256, 56, 56), (512, 256, 3, 3), pads=(1, 1, 1, 1), strides=(2, 2)),
    Case((2, 1024, 28, 28), (1000, 1024, 1, 1)),
    Case((2, 384, 56, 56), (384, 1, 7, 7), pads=(3, 3, 3, 3), group=384),
    Case((2, 3, 224, 224), (64, 3, 7, 7), pads=(3, 3, 3, 3), strides=(2, 2)),
]


def convolve(case: Case, given: dict[str, np.ndarray], constants: tuple[str, ...] = NAMES[1:]) -> np.ndarray:
    made = model(case, given, constants)
    feeds = {name: data for name, data in given.items() if name not in constants}
    (y,) = device.session(made, device.only_here()).run(None, feeds)
    return y


@pytest.mark.parametrize("kinds", KINDS, ids=KIND_NAMES)
@pytest.mark.parametrize("case", CASES, ids=str)
def test_convolution_is_the_definition(case: Case, kinds: Any, library: str) -> None:
    variants = list(enumerate(itertools.product((True, False), repeat=3)))
    for turn, (zeros, channels, bias) in variants[KINDS.index(kinds) % 4 :: 4]:
        given = tensors(case, kinds, zeros=zeros, channels=channels, bias=bias)
        constants = (NAMES[1:], ("W",), (), NAMES[1:4])[turn % 4]
        assert_convolved(case, given, convolve(case, given, constants))


@device.needs_gpu
@pytest.mark.parametrize("case", LARGE, ids=str)
def test_large_convolution(case: Case, library: str) -> None:
    given = tensors(case, (np.uint8, np.int8))
    assert_convolved(case, given, convolve(case, given))


@pytest.mark.parametrize("fill", ["least", "greatest"])
@pytest.mark.parametrize("kinds", KINDS, ids=KIND_NAMES)
def test_extremes_everywhere(fill: str, kinds: Any, library: str) -> None:
    for case in (Case((1, 70, 5, 5), (9, 70, 3, 3), pads=(1, 1, 1, 1)), DEPTHWISE):
        for zeros in (True, False):
            given = tensors(case, kinds, zeros=zeros, fill=fill)
            assert_convolved(case, given, convolve(case, given))


@pytest.mark.parametrize("case", [PLAIN, DEPTHWISE], ids=str)
def test_sizes_change_from_run_to_run(case: Case, library: str) -> None:
    given = tensors(case, (np.uint8, np.int8))
    made = model(case, given, NAMES[1:], open_sizes=True)
    session = device.session(made, device.only_here())
    for size in (11, 1, 4, 11):
        mine = tensors(Case((2, 6, size, 2 * size), case.w), (np.uint8, np.int8))
        (y,) = session.run(None, {"X": mine["X"]})
        assert_convolved(case, {**given, "X": mine["X"]}, y)


def test_empty_batch(library: str) -> None:
    given = tensors(PLAIN, (np.uint8, np.int8))
    made = model(PLAIN, given, NAMES[1:], open_sizes=True)
    (y,) = device.session(made, device.only_here()).run(None, {"X": np.zeros((0, 6, 9, 11), np.uint8)})
    assert y.shape == (0, 7, 9, 11)


@pytest.mark.parametrize("name", ["X", "x_scale", "w_scale", "x_zero_point", "w_zero_point", "B"])
def test_refusals_of_a_run(name: str, library: str) -> None:
    given = tensors(PLAIN, (np.uint8, np.int8), channels=name not in ("x_scale", "x_zero_point"))
    session = device.session(model(PLAIN, given, open_sizes=True), device.only_here())
    size = given[name].shape
    given[name] = np.zeros((1, 5, 9, 11) if name == "X" else (size[0] + 1,), given[name].dtype)
    with pytest.raises(InvalidArgument, match=rf"ConvIntegerToFloat.*\b{name}\b"):
        session.run(None, given)

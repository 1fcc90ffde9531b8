"""Ops that sort, draw or choose in a way that ONNX cannot follow are refused by name, with the reason."""

from __future__ import annotations

import numpy as np
import pytest
from openvino import opset8, opset13

from ortconv.errors import UnsupportedOpError
from tests.openvino.live import Refusal, assert_refused, numbers

REFUSALS = [
    Refusal(
        "random numbers",
        lambda x: opset8.random_uniform(x, np.float32(0), np.float32(1), "f32", 150, 10),
        [np.array([2, 3])],
        UnsupportedOpError,
        {"problem": "OpenVINO op RandomUniform is not supported: its random numbers come from OpenVINO"},
    ),
    Refusal(
        "random choices",
        lambda x: opset13.multinomial(x, np.array([4]), "i32", True, False, 150, 10),
        [numbers(1, 3, low=0)],
        UnsupportedOpError,
        {"problem": "OpenVINO op Multinomial is not supported: its random numbers"},
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refused(refusal: Refusal) -> None:
    assert_refused(refusal)

"""Logarithms of sigmoids, whose small results ONNX Runtime's Sigmoid has with few digits, against OpenVINO."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from openvino import opset1

from ortconv.api import conversion
from tests.converters.openvino.live import Row, check_row, model_of

DATA = np.array([-40, -25, -20, -18.5, -17, -15, -12, -9, -5, -2, 0, 1, 3])


def inverse(x: Any) -> Any:
    """The inverse of a sigmoid, as detectors refine boxes by."""
    y = opset1.sigmoid(x)
    upper = opset1.clamp(y, 1e-7, 1.0)
    lower = opset1.clamp(opset1.subtract(np.array(1, x.get_element_type().to_dtype()), y), 1e-7, 1.0)
    return opset1.log(opset1.divide(upper, lower))


def shifted(x: Any) -> Any:
    shift = np.array(1e-8, x.get_element_type().to_dtype())
    return opset1.log(opset1.add(opset1.sigmoid(x), shift))


def reshaped(x: Any) -> Any:
    return opset1.log(opset1.clamp(opset1.unsqueeze(opset1.sigmoid(x), np.array(0)), 1e-12, 1.0))


def far(x: Any) -> Any:
    y = opset1.sigmoid(x)
    for _ in range(6):
        y = opset1.add(y, np.array(1e-20, x.get_element_type().to_dtype()))
    return opset1.log(y)


FORMULAS: dict[str, Callable[[Any], Any]] = {
    "bounded": lambda x: opset1.log(opset1.clamp(opset1.sigmoid(x), 1e-9, 1.0)),
    "shifted": shifted,
    "reshaped and bounded": reshaped,
    "inverse": inverse,
    "far": far,
}


@pytest.mark.parametrize("name", FORMULAS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_logarithm_of_a_sigmoid(name: str, dtype: type) -> None:
    row = Row(name, FORMULAS[name], [[DATA.astype(dtype)], [DATA[::2].astype(dtype)]], 16)
    check_row(row)


def test_scalar() -> None:
    check_row(Row("scalar", shifted, [[np.array(-16, np.float32)]], 16))


def test_other_sigmoids_stay() -> None:
    """What a logarithm does not reach, or only by way of other data, stays one node."""

    def build(x: Any, y: Any) -> Any:
        gate = opset1.multiply(y, opset1.sigmoid(y))
        return [opset1.log(opset1.add(gate, x)), opset1.sigmoid(x)]

    converted = conversion(model_of(build, [[np.ones(3, np.float32), np.ones(3, np.float32)]]))
    kinds = [node.op_type for node in converted.model.graph]
    assert kinds.count("Sigmoid") == 2
    assert "Reciprocal" not in kinds


def test_half_precision_stays() -> None:
    """The exponential of 12 is beyond float16."""
    converted = conversion(model_of(shifted, [[DATA.astype(np.float16)]]), compute="f16")
    assert "Sigmoid" in [node.op_type for node in converted.model.graph]


def test_formula_is_explained() -> None:
    converted = conversion(model_of(FORMULAS["bounded"], [[DATA.astype(np.float32)]]))
    (step,) = (step for step in converted.steps if step.ref.op_type == "Sigmoid")
    assert [node.op_type for node in step.nodes] == ["Neg", "Exp", "Add", "Reciprocal"]
    assert len({tuple(node.metadata_props.items()) for node in step.nodes}) == 1
    assert "magnifies" in step.notes[-1]

"""Ops that are refused with a reason."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import openvino
import pytest
from openvino import opset1, opset8

from ortconv.api import conversion
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ConversionErrors, ShapeError, UnsupportedOpError


@pytest.mark.parametrize("op_type", ["RGBtoNV12", "PagedAttention", "StringTensorPack"])
def test_reason_is_given(op_type: str) -> None:
    (reason,) = [refusal.reason for refusal in REGISTRY.refusals if refusal.op_type == op_type]
    with pytest.raises(UnsupportedOpError) as refused:
        REGISTRY.lookup(op_type, 1)
    assert reason in refused.value.problem
    assert op_type in refused.value.problem


@pytest.mark.parametrize("op", [opset1.relu, lambda x: opset1.reshape(x, np.array([-1]), False)])
def test_input_whose_rank_is_open_is_named(op: Callable[[openvino.Node], openvino.Node]) -> None:
    x = opset1.parameter(openvino.PartialShape.dynamic(), np.float32)
    x.output(0).set_names({"picture"})
    with pytest.raises(ConversionErrors) as refused:
        conversion(openvino.Model([op(x)], [x]))
    (error,) = refused.value.exceptions
    assert isinstance(error, ShapeError)
    assert error.input == "input picture"


def test_gather_from_an_axis_without_elements() -> None:
    x = opset1.parameter([2, 0], np.float32)
    with pytest.raises(ConversionErrors) as refused:
        conversion(openvino.Model([opset8.gather(x, np.array([0]), np.array(1))], [x]))
    (error,) = refused.value.exceptions
    assert isinstance(error, ShapeError)
    assert error.node is not None
    assert error.node.op_type == "Gather"

"""ONNX's own backend tests of the operators that the execution provider claims, and cases of ONNX Runtime's issues."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.backend.test.case import node

from tests.ep.sessions import claims, session

pytestmark = pytest.mark.usefixtures("library")


CLAIMED = ("ConvTranspose", "DFT", "STFT")


def _cases() -> dict[str, Any]:
    """Returns the cases of the claimed operators by name; ONNX's own function would define those of all operators."""
    for module in map(str.lower, CLAIMED):
        importlib.import_module(f"onnx.backend.test.case.node.{module}")
    # ONNX keeps all cases that were defined so far in one list, also those that other test files asked for.
    return {case.name: case for case in node._NodeTestCases if case.model.graph.node[0].op_type in CLAIMED}


CASES = _cases()


@pytest.mark.parametrize("name", CASES)
def test_onnx_backend_node(name: str) -> None:
    case = CASES[name]
    if "irfft" in name and onnxruntime.__version__.startswith("1.24."):
        return  # refused by ONNX Runtime's shape inference
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    model.ir_version = min(model.ir_version, 10)
    for imported in model.opset_import:
        imported.version = min(imported.version, 22)
    reasons = [each.reason for each in claims(model)]
    assert all("does not pay" in reason for reason in reasons if reason), reasons
    made = session(model)
    for inputs, outputs in case.data_sets:
        feeds = {given.name: np.asarray(data) for given, data in zip(made.get_inputs(), inputs, strict=True)}
        for got, right in zip(made.run(None, feeds), outputs, strict=True):
            assert (got.dtype, got.shape) == (right.dtype, right.shape)
            np.testing.assert_allclose(got, right, rtol=case.rtol, atol=1e-4 * max(1.0, float(np.abs(right).max())))

"""Converting a model of OpenVINO's own and comparing what ONNX Runtime and OpenVINO's CPU plugin make of the same data."""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import onnxruntime
import openvino

from ortconv.api import Conversion, conversion
from ortconv.builder import Semantics

__all__ = ["Feed", "assert_close", "check", "run_onnx", "run_openvino"]

Feed = Sequence[np.ndarray]
"""One array for each Parameter, in order."""


@functools.cache
def _core() -> openvino.Core:
    return openvino.Core()


def run_openvino(model: openvino.Model, feeds: Sequence[Feed]) -> list[list[np.ndarray]]:
    """Runs a model on OpenVINO's CPU plugin, computing in float32; one list of outputs per feed."""
    compiled = _core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1})
    return [[np.array(array) for array in compiled(list(feed)).values()] for feed in feeds]


def run_onnx(converted: Conversion, feeds: Sequence[Feed]) -> list[list[np.ndarray]]:
    """Runs a converted model on ONNX Runtime's CPU provider, without our plugin; one list of outputs per feed."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(
        converted.to_proto().SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    names = [each.name for each in session.get_inputs()]
    return [list(session.run(None, dict(zip(names, feed, strict=True)))) for feed in feeds]


def assert_close(actual: np.ndarray, expected: np.ndarray, bound: float, what: str = "") -> None:
    """Asserts type, shape and values.

    Args:
        actual: What was computed.
        expected: What is right.
        bound: Largest difference allowed, in units of the last place of the largest finite magnitude expected; integers
            and booleans must be equal whatever the bound.
        what: Shown when it fails.
    """
    assert actual.dtype == expected.dtype, f"{what}: type {actual.dtype}, expected {expected.dtype}"
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, expected {expected.shape}"
    if actual.dtype.kind in "iub" or bound == 0:
        np.testing.assert_array_equal(actual, expected, err_msg=what)
        return
    finite = np.abs(expected[np.isfinite(expected)].astype(np.float64))
    unit = float(np.finfo(np.float32 if actual.dtype == np.float64 else actual.dtype).eps)
    largest = float(finite.max(initial=0.0))
    np.testing.assert_allclose(
        actual.astype(np.float64), expected.astype(np.float64), rtol=0, atol=bound * unit * largest, err_msg=what
    )


def check(
    model: openvino.Model,
    *feeds: Feed,
    bound: float = 4,
    semantics: Semantics = "spec",
    opset: int = 21,
) -> Conversion:
    """Converts a model and asserts that ONNX Runtime computes what OpenVINO's CPU plugin does.

    Args:
        model: The model.
        *feeds: Data; several of different sizes for a model with dynamic dims.
        bound: See `assert_close`; for each float output.
        semantics: See `ortconv.convert`.
        opset: See `ortconv.convert`.

    Returns:
        The conversion, for further assertions.
    """
    converted = conversion(model, semantics=semantics, opset=opset)
    actual, expected = run_onnx(converted, feeds), run_openvino(model, feeds)
    for number, (ours, theirs) in enumerate(zip(actual, expected, strict=True)):
        for index, (mine, other) in enumerate(zip(ours, theirs, strict=True)):
            assert_close(mine, other, bound, f"feed {number}, output {index}")
    return converted

"""Files whose ports declare another result than inputs and attributes give."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset3, opset5, opset8

from ortconv.api import conversion
from ortconv.errors import ConversionErrors, UnsupportedTypeError
from ortconv.model_io.checker_errors import contradictions
from tests.converters.openvino.live import assert_close, model_of, numbers, run_onnx, run_openvino

X = numbers(2, 3, 4)
CASES: dict[str, tuple[Callable[..., Any], str, str]] = {
    "rank": (lambda x: opset1.reduce_mean(x, np.array([1]), True), 'keep_dims="true"', 'keep_dims="false"'),
    "rank, of an attribute that is not stated": (
        lambda x: opset1.reduce_mean(x, np.array([1]), True),
        'keep_dims="true"',
        "",
    ),
    "size": (lambda x: opset1.max_pool(x, [1], [2], [2], [3]), 'pads_begin="2"', 'pads_begin="1"'),
    "batch dims": (lambda x: opset5.gather_nd(x, np.zeros((2, 1), np.int32), 1), 'batch_dims="1"', ""),
}


def changed(model: openvino.Model, old: str, new: str, folder: pathlib.Path) -> pathlib.Path:
    path = folder / "model.xml"
    openvino.save_model(model, path, compress_to_fp16=False)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


@pytest.mark.parametrize("case", CASES)
def test_openvino_is_followed(case: str, tmp_path: pathlib.Path) -> None:
    """It computes shapes, whatever a file declares."""
    build, old, new = CASES[case]
    model = model_of(build, [[X]])
    path = changed(model, old, new, tmp_path)
    (expected,) = run_openvino(openvino.Core().read_model(path), [[X]])[0]
    assert expected.shape != model.output(0).shape
    converted = conversion(path)
    assert_close(run_onnx(converted, [[X]])[0][0], expected, 4)
    (warning,) = converted.warnings
    assert "declares another shape" in warning


def test_nodes_behind_follow_too(tmp_path: pathlib.Path) -> None:
    """A product with a vector, whose result older files give an axis more."""
    weights, path = numbers(4, 5), tmp_path / "model.xml"
    vector = model_of(lambda x: opset1.relu(opset1.matmul(x, weights, False, False)), [[X[0, 0]]])
    openvino.save_model(vector, path, compress_to_fp16=False)
    path.write_text(
        re.sub(r"(<output>\s*<port [^>]*>)\s*<dim>5</dim>", r"\1<dim>1</dim><dim>5</dim>", path.read_text())
    )
    converted = conversion(path)
    ((actual,),), ((expected,),) = (
        run(source, [[X[0, 0]]]) for run, source in ((run_onnx, converted), (run_openvino, vector))
    )
    assert_close(actual, expected, 4)
    assert all("declares another shape" in warning for warning in converted.warnings)


def test_another_type_is_refused(tmp_path: pathlib.Path) -> None:
    model = model_of(lambda x: opset3.topk(x, np.array(1), 2, "max", "value").output(1), [[X]])
    path = changed(model, 'index_element_type="i32"', 'index_element_type="i64"', tmp_path)
    with pytest.raises(ConversionErrors) as caught:
        conversion(path)
    (error,) = caught.value.exceptions
    assert type(error) is UnsupportedTypeError
    assert "has type i32; allowed: i64" in error.problem
    assert error.node is not None
    assert [step.ref for step in caught.value.steps if step.error is error] == [error.node]  # type: ignore[attr-defined]


def test_what_openvino_refuses_is_refused_with_every_node(tmp_path: pathlib.Path) -> None:
    """Its message tells shapes that the file declares from those that its attributes give, and the defaults taken."""

    def build(x: Any) -> list[Any]:
        means = [opset1.reduce_mean(opset1.relu(x), np.array([axis]), True) for axis in (0, 1)]
        return [opset1.concat([mean, x], axis) for axis, mean in enumerate(means)]

    path = changed(model_of(build, [[X]]), 'keep_dims="true"', "", tmp_path)
    with pytest.raises(RuntimeError):
        openvino.Core().read_model(path)
    with pytest.raises(ConversionErrors) as caught:
        conversion(path)
    assert len(caught.value.exceptions) >= 2
    assert any("keep_dims = False" in error.hint for error in caught.value.exceptions)


def test_what_the_converter_does_wrong_stays_its_own() -> None:
    converted = conversion(model_of(lambda x: opset8.max_pool(x, [1], [1], [0], [0], [3]).output(1), [[X]]))
    (step,) = converted.steps
    assert len(step.nodes) == 1
    (node,) = step.nodes
    difference = f"(op_type:MaxPool, node name: {node.name}): [TypeInferenceError] Inferred elem type differs from "
    theirs = f"{difference}existing elem type: (1) vs (7)"
    for message in (
        "Field 'type' of 'value_info' is required but missing.",
        theirs.replace(str(node.name), "another"),
        theirs.replace("(7)", "(6)"),
        f"{theirs} | (op_type:MatMul, node name: m): [ShapeInferenceError] Incompatible dimensions",
    ):
        assert contradictions(message, "model.xml", converted.steps) is None
        assert step.error is None
    assert contradictions(theirs, "model.xml", converted.steps) is not None

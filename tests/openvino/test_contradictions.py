"""Files whose ports declare another result than inputs and attributes give: refused, with the node and the facts."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset3, opset5, opset8

from ortconv.api import conversion
from ortconv.contradictions import contradictions
from ortconv.errors import ConversionErrors, ShapeError, UnsupportedTypeError
from tests.openvino.live import model_of, numbers, run_openvino

X = numbers(2, 3, 4)
CASES: dict[str, tuple[Callable[..., Any], str, str, type[ShapeError | UnsupportedTypeError], str, str]] = {
    "rank": (
        lambda x: opset1.reduce_mean(x, np.array([1]), True),
        'keep_dims="true"',
        'keep_dims="false"',
        ShapeError,
        "has shape [2, 1, 4]: the source declares this; its inputs and attributes give 2 as its rank",
        "",
    ),
    "rank, of an attribute that is not stated": (
        lambda x: opset1.reduce_mean(x, np.array([1]), True),
        'keep_dims="true"',
        "",
        ShapeError,
        "give 2 as its rank",
        "keep_dims = False",
    ),
    "size": (
        lambda x: opset1.max_pool(x, [1], [2], [2], [3]),
        'pads_begin="2"',
        'pads_begin="1"',
        ShapeError,
        "give 5 as its size along axis 2",
        "",
    ),
    "type": (
        lambda x: opset3.topk(x, np.array(1), 2, "max", "value").output(1),
        'index_element_type="i32"',
        'index_element_type="i64"',
        UnsupportedTypeError,
        "has type i32; allowed: i64",
        "",
    ),
    "batch dims": (
        lambda x: opset5.gather_nd(x, np.zeros((2, 1), np.int32), 1),
        'batch_dims="1"',
        "",
        ShapeError,
        "as its rank",
        "batch_dims = 0",
    ),
}


def changed(model: openvino.Model, old: str, new: str, folder: pathlib.Path) -> pathlib.Path:
    path = folder / "model.xml"
    openvino.save_model(model, path, compress_to_fp16=False)
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new))
    return path


@pytest.mark.parametrize("case", CASES)
def test_refused(case: str, tmp_path: pathlib.Path) -> None:
    build, old, new, kind, problem, hint = CASES[case]
    model = model_of(build, [[X]])
    path = changed(model, old, new, tmp_path)
    (given,) = run_openvino(openvino.Core().read_model(path), [[X]])[0]
    assert given.shape != model.output(0).shape or given.dtype != model.output(0).element_type.to_dtype()
    with pytest.raises(ConversionErrors) as caught:
        conversion(path)
    (error,) = caught.value.exceptions
    assert type(error) is kind
    assert problem in error.problem
    assert hint in error.hint
    assert bool(hint) == ("not stated" in error.hint and hint in error.hint)
    assert error.node is not None
    assert str(path) in str(error)
    assert error.node.op_type in str(error)
    assert [step.ref for step in caught.value.steps if step.error is error] == [error.node]  # type: ignore[attr-defined]


def test_every_node_that_contradicts_itself_is_named(tmp_path: pathlib.Path) -> None:
    def build(x: Any) -> list[Any]:
        return [opset1.reduce_mean(opset1.relu(x), np.array([axis]), True) for axis in (0, 1)]

    with pytest.raises(ConversionErrors) as caught:
        conversion(changed(model_of(build, [[X]]), 'keep_dims="true"', "", tmp_path))
    assert len(caught.value.exceptions) == 2


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

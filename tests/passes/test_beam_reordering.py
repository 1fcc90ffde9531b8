"""States whose batches are reordered before something is appended to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset3, opset6, opset8

import ortconv
from ortconv.api import conversion
from tests.converters.openvino.live import numbers

F32 = openvino.Type.f32
SIZES = openvino.PartialShape([-1, 2, -1, 4])


def cache(
    *, axis: int = 2, index: openvino.Type = openvino.Type.i32, more: str = "", order: Any = None
) -> openvino.Model:
    """Reorders a state, appends to it, and returns the half of that.

    Args:
        axis: Along which axis is appended.
        index: Type of the beams.
        more: What else is computed of what is reordered.
        order: The beams, if these are no input.
    """
    data = opset1.parameter([-1, 2, -1, 4], dtype=F32, name="data")
    beams = opset1.parameter([-1], dtype=index, name="beams")
    first = opset1.broadcast(np.float32(0), np.array([1, 2, 0, 4]))
    read = opset6.read_value(first, "kept", F32, SIZES)
    moved = opset8.gather(read, beams if order is None else opset1.constant(order), np.int64(0))
    whole = opset1.concat([moved, data], axis)
    results = [opset1.result(opset1.multiply(whole, np.float32(0.5)))]
    if more == "length":
        results.append(opset1.result(opset8.gather(opset3.shape_of(moved), np.array([2]), np.int64(0))))
    elif more == "batches":
        results.append(opset1.result(opset8.gather(opset3.shape_of(moved), np.array([0, 2]), np.int64(0))))
    elif more == "sizes":
        results.append(opset1.result(opset3.shape_of(moved)))
    elif more == "sum":
        results.append(opset1.result(opset1.reduce_sum(moved, np.array([3]))))
    elif more == "itself":
        results.append(opset1.result(moved))
    inputs = [data, beams] if order is None else [data]
    return openvino.Model(results, [opset6.assign(whole, "kept")], inputs)


def kinds(source: openvino.Model) -> list[str]:
    return [node.op_type for node in conversion(source).model.graph]


@pytest.mark.parametrize(
    ("more", "index"),
    [
        ("", openvino.Type.i32),
        ("length", openvino.Type.i64),
        ("batches", openvino.Type.i32),
        ("sizes", openvino.Type.i64),
    ],
)
@pytest.mark.parametrize(
    "beams", [[0, 1, 2], [2, 1, 0], [0, 1, 1], [1, 1, 1], [0, 1], [0], [1], [0, 1, 2, 0], [0, 1, -1], [2, 0, 1]]
)
def test_beams_that_stay_or_move(beams: list[int], more: str, index: openvino.Type) -> None:
    source = cache(index=index, more=more)
    assert kinds(source).count("If") == 1
    assert kinds(source).count("Gather") == (more in ("length", "batches"))  # that of the shape
    request = openvino.Core().compile_model(source, "CPU").create_infer_request()
    session = ortconv.InferenceSession(ortconv.convert(source))
    state = np.zeros((3, 2, 0, 4), np.float32)
    order = np.array([0, 1, 2], index.to_dtype())
    for seed, length in enumerate((5, 1)):
        feed = {"data": numbers(len(order), 2, length, 4, seed=seed), "beams": order}
        request.infer(feed) if seed else request.infer(feed | {"beams": np.zeros(3, index.to_dtype())})
        *results, state = session.run(None, feed | {"kept": state})
        for number, result in enumerate(results):
            np.testing.assert_array_equal(result, np.array(request.get_output_tensor(number).data))
        order = np.array(beams, index.to_dtype())


@pytest.mark.parametrize(
    "source",
    [
        cache(axis=0),
        cache(axis=-4),
        cache(more="sum"),
        cache(more="itself"),
        cache(order=np.array([0])),
        cache(order=np.int64(0).reshape(1, 1)[0]),
    ],
    ids=["appended to batches", "appended to batches, from behind", "sum", "itself", "constant", "one"],
)
def test_what_stays_a_gather(source: openvino.Model) -> None:
    assert "If" not in kinds(source)


def test_a_table_that_is_no_state() -> None:
    table, data = (opset1.parameter([-1, 2, -1, 4], dtype=F32, name=name) for name in ("table", "data"))
    beams = opset1.parameter([-1], dtype=openvino.Type.i32, name="beams")
    whole = opset1.concat([opset8.gather(table, beams, np.int64(0)), data], 2)
    assert "If" not in kinds(openvino.Model([opset1.result(whole)], [table, data, beams]))


def test_why_is_told() -> None:
    notes = [note for step in conversion(cache()).steps for note in step.notes]
    assert sum("an unchanged beam order skips it" in note for note in notes) == 1

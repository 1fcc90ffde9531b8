"""Files whose layers contradict their ops: one error each, which names the layer and what is wrong with it."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np
import pytest

from ortconv.api import conversion
from ortconv.errors import OrtconvError
from tests.converters.openvino.one_layer import Declared, write

MOST = 2**63 - 1
DATA: Declared = ("f32", (1, 4, 8, 8))
CONVOLUTION = {"strides": "1,1", "pads_begin": "0,0", "pads_end": "0,0", "dilations": "1,1"}
SUPPRESSION: Sequence[Declared] = [("f32", (1, 4, 4)), ("f32", (1, 2, 4))]
SELECTED: Sequence[Declared] = [("i64", (8, 3)), ("f32", (8, 3)), ("i64", (1,))]


@dataclasses.dataclass(frozen=True)
class Case:
    """A layer, and what the error says."""

    name: str
    kind: str
    inputs: Sequence[Declared | np.ndarray]
    outputs: Sequence[Declared]
    problem: str
    attributes: Mapping[str, object] = dataclasses.field(default_factory=dict)
    opset: str = "opset1"


CASES = [
    Case("no inputs", "ShapeOf", [], [("i64", (4,))], "input data (number 0) is not connected; it is required."),
    Case("an input is missing", "GatherND", [DATA], [DATA], "input indices (number 1)", opset="opset8"),
    Case(
        "a port of more elements than 64 bits count",
        "Relu",
        [("f32", (0, MOST, MOST))],
        [DATA],
        "allowed: sizes whose product is at most 2^59",
    ),
    Case("a filter of rank 0", "Convolution", [DATA, ("f32", ())], [DATA], "rank", CONVOLUTION),
    Case(
        "a grouped filter of rank 1",
        "GroupConvolution",
        [DATA, ("f32", (2,))],
        [DATA],
        "its rank must be at least 3",
        CONVOLUTION,
    ),
    Case(
        "a limit of several numbers",
        "NonMaxSuppression",
        [*SUPPRESSION, np.array([1, 2]), np.array([0.5], np.float32), np.array([0.5], np.float32)],
        SELECTED,
        "max_output_boxes_per_class has shape [2]: it must be one number.",
        opset="opset5",
    ),
    Case(
        "a threshold of no number",
        "NonMaxSuppression",
        [*SUPPRESSION, np.array(1), np.array([], np.float32), np.array([0.5], np.float32)],
        SELECTED,
        "iou_threshold has shape [0]: it must be one number.",
        opset="opset5",
    ),
    Case("no axes", "RDFT", [DATA, np.array([], np.int64)], [DATA], "at least one axis", opset="opset9"),
    Case(
        "an axis of a scalar",
        "MVN",
        [("i32", ()), np.array([0])],
        [("i32", ())],
        "out of range",
        {"eps": "0.1", "eps_mode": "inside_sqrt", "normalize_variance": "true"},
        opset="opset6",
    ),
    Case(
        "fewer lengths than outputs",
        "VariadicSplit",
        [DATA, np.array(1), np.array([4])],
        [DATA, DATA],
        "split_lengths has shape [1]: it must have 2 entries.",
    ),
    Case(
        "bounds that do not broadcast",
        "FakeQuantize",
        [DATA, *(np.ones(size, np.float32) for size in (2, 3, 1, 1))],
        [DATA],
        "which do not broadcast",
        {"levels": 256},
    ),
    Case(
        "a seed below zero",
        "RandomUniform",
        [np.array([2]), np.array(0.0, np.float32), np.array(1.0, np.float32)],
        [("f32", (2,))],
        "attribute op_seed = -1",
        {"output_type": "f32", "global_seed": 1, "op_seed": -1},
        opset="opset8",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_is_refused(case: Case, tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "model.xml", case.kind, case.inputs, case.attributes, case.outputs, case.opset)
    with pytest.raises(OrtconvError) as caught:
        conversion(path)
    assert case.problem in str(caught.value)
    assert str(path) in str(caught.value)
    for error in getattr(caught.value, "exceptions", ()):
        assert error.__cause__ is None  # it was looked for


def test_the_output_of_a_result_is_none(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path / "model.xml", "ReLU", [DATA], {}, [DATA, DATA])
    closing = '<input><port id="0"/></input></layer>'
    text = path.read_text()
    text = text.replace(
        closing, closing.replace("</layer>", '<output><port id="1" precision="FP32"/></output></layer>'), 1
    )
    path.write_text(text.replace('from-layer="1" from-port="2"', 'from-layer="2" from-port="1"'))
    with pytest.raises(OrtconvError, match="it takes the output of layer 2, a Result, which has none"):
        conversion(path)

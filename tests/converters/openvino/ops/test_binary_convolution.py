"""BinaryConvolution against OpenVINO's CPU plugin."""

from __future__ import annotations

from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset8
from openvino.utils.node_factory import NodeFactory

from ortconv.api import conversion
from ortconv.errors import ShapeError, UnsupportedAttributeError, UnsupportedTypeError
from tests.converters.openvino.live import (
    Refusal,
    Row,
    assert_refused,
    check,
    check_row,
    model_of,
    numbers,
    run_onnx,
    run_openvino,
)

F32 = np.float32
DEFAULTS: dict[str, Any] = {
    "strides": [1, 1],
    "pads_begin": [0, 0],
    "pads_end": [0, 0],
    "dilations": [1, 1],
    "mode": "xnor-popcount",
    "pad_value": 0.0,
    "auto_pad": "explicit",
}
PADDED = {"pads_begin": [1, 2], "pads_end": [2, 1]}


def binary(shape: tuple[int, ...], attributes: dict[str, Any] | None = None) -> Any:
    """Returns a builder of the op with random weights."""
    values = numbers(*shape, dtype="int32", low=0, high=1).ravel().tolist()

    def build(data: openvino.Node) -> openvino.Node:
        weights = openvino.op.Constant(openvino.Type.u1, openvino.Shape(shape), values)
        chosen = DEFAULTS | (attributes or {})
        return NodeFactory("opset1").create("BinaryConvolution", [data.output(0), weights.output(0)], chosen)

    return build


def quantized(x: openvino.Node) -> openvino.Node:
    """Makes data binary."""
    return opset8.fake_quantize(x, F32(0.7), F32(0.7), F32(0), F32(1), 2)


def bits(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    """Returns random zeros and ones."""
    return numbers(*shape, dtype="int32", low=0, high=1).astype(dtype)


ROWS = [
    Row(f"{i} to {o} channels, kernel {k}", binary((o, i, *k)), [[bits(2, i, 9, 10)]], 0)
    for i, o, k in (
        (8, 1, (1, 1)),
        (8, 5, (3, 3)),
        (16, 17, (1, 3)),
        (24, 16, (2, 2)),
        (40, 33, (3, 1)),
        (72, 8, (5, 4)),
        (64, 100, (3, 3)),
        (8, 8, (7, 7)),
    )
]
ROWS += [
    Row(f"padded, {name}", binary((6, 16, 3, 3), PADDED | attributes), [[bits(2, 16, 9, 8)]], 0)
    for name, attributes in {
        "pad_value 0": {},
        "pad_value 1": {"pad_value": 1.0},
        "pad_value -1": {"pad_value": -1.0},
        "pad_value 0.5": {"pad_value": 0.5},
        "pad_value 2": {"pad_value": 2.0},
        "strides": {"strides": [2, 3], "pad_value": 1.0},
        "strides beyond the kernel": {"strides": [3, 3]},
        "dilations": {"dilations": [2, 1], "pad_value": 1.0},
        "strides and dilations": {"strides": [2, 1], "dilations": [1, 2], "pads_begin": [2, 2]},
        "the other way": {"pads_begin": [2, 0], "pads_end": [0, 2], "pad_value": -1.0},
    }.items()
]
ROWS += [
    Row(
        f"{auto_pad}, kernel {kernel}, strides {strides}, pad_value {fill}",
        binary((5, 8, *kernel), PADDED | {"auto_pad": auto_pad, "strides": strides, "pad_value": fill}),
        [[bits(1, 8, 6, 7)]],
        0,
    )
    for auto_pad in ("same_upper", "same_lower", "valid")
    for kernel, strides in (((2, 2), [1, 1]), ((3, 3), [2, 2]), ((4, 3), [1, 2]))
    for fill in (0.0, 1.0)
]
ROWS += [
    Row(f"data {dtype}", binary((6, 16, 3, 3)), [[bits(2, 16, 5, 5, dtype=dtype)]], 0)
    for dtype in ("float16", "float32", "float64")
]
ROWS += [
    Row("data of any numbers", binary((6, 16, 3, 3)), [[numbers(2, 16, 5, 5).round(1)]], 0),
    Row(
        "data made binary, and results made so again",
        lambda x: binary((4, 8, 3, 3))(quantized(opset8.multiply(binary((8, 16, 3, 3))(quantized(x)), F32(0.5)))),
        [[numbers(1, 16, 8, 9)]],
        0,
    ),
    Row(
        "an activation behind it",
        lambda x: opset8.relu(opset8.add(binary((8, 16, 3, 3))(x), F32(-3))),
        [[bits(1, 16, 8, 9)]],
        0,
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


@pytest.mark.parametrize("attributes", [{}, PADDED, PADDED | {"pad_value": 1.0}])
def test_dynamic_sizes(attributes: dict[str, Any]) -> None:
    """OpenVINO's CPU plugin takes static sizes only, so each size is compared with a model of that size."""
    build, feeds = binary((6, 16, 3, 3), attributes), [[bits(1, 16, 6, 7)], [bits(3, 16, 9, 8)]]
    converted = conversion(model_of(build, feeds))
    for feed, (result,) in zip(feeds, run_onnx(converted, feeds), strict=True):
        ((expected,),) = run_openvino(model_of(build, [feed]), [feed])
        np.testing.assert_array_equal(result, expected)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100))
def test_sweep_matches_openvino(seed: int) -> None:
    random = np.random.default_rng(seed)

    def pair(most: int, least: int = 1) -> list[int]:
        return [int(size) for size in random.integers(least, most + 1, 2)]

    channels = 8 * int(random.integers(1, 10))
    shape = (int(random.integers(1, 50)), channels, *pair(4))
    fill = float(random.choice([0, 1, -1, 0.3]))
    attributes = {
        "strides": pair(3) if fill else [int(random.integers(1, 4)), int(random.choice([1, 2, 4]))],
        "pads_begin": pair(2, 0),
        "pads_end": pair(2, 0),
        "dilations": pair(2),
        "pad_value": fill,
        "auto_pad": str(random.choice(["explicit", "explicit", "same_upper", "same_lower", "valid"])),
    }
    feed = [bits(int(random.integers(1, 3)), channels, *pair(12, 8))]
    check(model_of(binary(shape, attributes), [feed]), feed, bound=0)


REFUSALS = [
    Refusal(
        "channels that do not fill bytes",
        binary((4, 12, 1, 1)),
        [bits(1, 12, 3, 3)],
        ShapeError,
        {"input": "filter", "problem": "12 input channels must be a multiple of 8"},
    ),
    Refusal(
        "integers",
        binary((4, 8, 1, 1)),
        [bits(1, 8, 3, 3, dtype="int32")],
        UnsupportedTypeError,
        {"input": "data"},
    ),
    Refusal(
        "strides along which the plugin loses columns",
        binary((4, 8, 1, 4), {"strides": [1, 3]}),
        [bits(1, 8, 9, 9)],
        UnsupportedAttributeError,
        {"attribute": "strides", "value": [1, 3], "allowed": "a power of two, or more than 3"},
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refused(refusal: Refusal) -> None:
    assert_refused(refusal)


def test_differences_from_the_page_are_told() -> None:
    feed = [bits(1, 8, 4, 4)]
    for attributes, warnings in (({}, 1), (PADDED, 2), (PADDED | {"pad_value": 1.0}, 1)):
        converted = check(model_of(binary((4, 8, 2, 2), attributes), [feed]), feed, bound=0)
        assert sum(len(step.warnings) for step in converted.steps) == warnings

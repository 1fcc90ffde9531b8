"""Activation functions against OpenVINO's CPU plugin."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import numpy as np
import openvino
import pytest
from openvino import opset1, opset2, opset4, opset5, opset7, opset8, opset9

from ortconv.api import conversion
from ortconv.errors import ShapeError, UnsupportedAttributeError
from tests.converters.openvino.live import (
    Refusal,
    Row,
    assert_close,
    assert_refused,
    check,
    check_row,
    model_of,
    numbers,
    run_onnx,
    run_openvino,
)

F32 = np.float32
LOOSE = 64
"""Units in the last place for functions that OpenVINO approximates by polynomials."""


def _like(node: openvino.Node, *values: float) -> list[openvino.Node]:
    dtype = node.get_element_type().to_dtype()
    return [opset1.constant(np.array(value, dtype)) for value in values]


FUNCTIONS = {
    "elu": lambda x: opset1.elu(x, 1.5),
    "gelu-2": opset2.gelu,
    "gelu erf": lambda x: opset7.gelu(x, "erf"),
    "gelu tanh": lambda x: opset7.gelu(x, "tanh"),
    "hard_sigmoid": lambda x: opset1.hard_sigmoid(x, *_like(x, 0.3, 0.4)),
    "hsigmoid": opset5.hsigmoid,
    "hswish": opset4.hswish,
    "mish": opset4.mish,
    "prelu of one slope": lambda x: opset1.prelu(x, _like(x, [0.25])[0]),
    "relu": opset1.relu,
    "selu": lambda x: opset1.selu(x, *_like(x, [1.6], [1.05])),
    "softplus": opset4.softplus,
    "softsign": opset9.softsign,
    "swish": lambda x: opset4.swish(x, _like(x, 1.0)[0]),
    "swish with beta": lambda x: opset4.swish(x, _like(x, 0.7)[0]),
    "clamp": lambda x: opset1.clamp(x, -1.5, 2.25),
    "softmax-1": lambda x: opset1.softmax(x, 1),
    "softmax-8": lambda x: opset8.softmax(x, -1),
    "log_softmax": lambda x: opset5.log_softmax(x, 1),
    "log_softmax of a negative axis": lambda x: opset5.log_softmax(x, -1),
}

NO_FLOAT64 = {"gelu-2", "gelu erf"}
"""ONNX Runtime has no Erf of doubles, and nothing to make one of."""

ROWS = [
    Row(f"{name} {np.dtype(dtype)}", build, [[numbers(n, 4, 3, dtype=dtype)] for n in (2, 3)], LOOSE)
    for name, build in FUNCTIONS.items()
    for dtype in (np.float32, np.float16, np.float64)
    if not (dtype is np.float64 and name in NO_FLOAT64)
]
ROWS += [
    Row("softplus of large values", opset4.softplus, [[np.array([-200, -50, 0, 50, 200], np.float64)]], LOOSE),
    Row("prelu per channel", opset1.prelu, [[numbers(2, 4, n, 3), numbers(4)] for n in (3, 5)]),
    Row(
        "prelu where the channels equal the last dim", opset1.prelu, [[numbers(2, 4, n, 4), numbers(4)] for n in (3, 5)]
    ),
    Row("prelu of a slope of the last dim", opset1.prelu, [[numbers(2, 4, n, 3), numbers(3)] for n in (3, 5)]),
    Row("prelu of a full slope", opset1.prelu, [[numbers(2, 4, 3), numbers(1, 4, 1)]]),
    Row("prelu per channel of rank 3", opset1.prelu, [[numbers(2, 4, n), numbers(4)] for n in (3, 4)]),
    Row(
        "prelu of float16 by a slope of float32, as in old files",
        opset1.prelu,
        [[numbers(2, 4, n, 3).astype(np.float16), numbers(4)] for n in (3, 5)],
    ),
    Row("prelu of float32 by a slope of float16", opset1.prelu, [[numbers(2, 4, 3), numbers(4).astype(np.float16)]]),
    *(
        Row(
            f"prelu whose {entries} slopes are all {slope}",
            lambda x, slope=slope, entries=entries: opset1.prelu(x, np.full(entries, slope, F32)),
            [[np.concatenate([numbers(2, 4, 3), np.full((1, 4, 3), edge, F32)])] for edge in (-np.inf, -0.0, -3e38)],
            emits=["LeakyRelu"],
        )
        for entries in (1, 4)
        for slope in (0.3, -2.0, 1.0)
    ),
    Row("prelu of rank 2", opset1.prelu, [[numbers(n, 4), numbers(4)] for n in (3, 5)]),
    *(
        Row(
            f"prelu of {list(data)} by a slope of {list(slope)}",
            opset1.prelu,
            [[numbers(*data, high=-1), numbers(*slope)]],
        )
        for data, slope in (((), (1,)), ((), (1, 1)), ((3,), (1, 3)), ((2, 3), (1, 2, 3)), ((2, 3), (1, 1, 3)))
    ),
    Row("swish without beta", opset4.swish, [[numbers(5)]], LOOSE),
    Row("swish of an input beta", opset4.swish, [[numbers(5), np.array(0.7, F32)]], LOOSE),
]
ROWS += [
    Row(f"relu {dtype}", opset1.relu, [[numbers(3, 4, dtype=dtype)]])
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
]
ROWS += [
    Row(f"clamp {dtype} rounds its bounds inwards", lambda x: opset1.clamp(x, -1.5, 2.5), [[numbers(20, dtype=dtype)]])
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "int64")
]
ROWS += [
    Row(
        f"clamp {dtype} with bounds outside of the type",
        lambda x: opset1.clamp(x, -1e12, 1e12),
        [[numbers(20, dtype=dtype)]],
    )
    for dtype in ("int8", "uint8", "int16")
]
ROWS += [
    Row(
        f"clamp {dtype} with a fraction of {low} and {high}",
        lambda x, low=low, high=high: opset1.clamp(x, low, high),
        [[numbers(n, dtype=dtype)] for n in (20, 30)],
    )
    for dtype in ("int8", "uint8", "int16", "int32")
    for low, high in ((1.5, 3.5), (0.5, 2.7), (-3.5, -0.5))
    if dtype != "uint8" or low > 0
]
ROWS += [
    Row(f"{name} of a scalar {dtype}", build, [[np.array(value, dtype)]])
    for name, build in {
        "softmax-1": lambda x: opset1.softmax(x, 0),
        "softmax-8": lambda x: opset8.softmax(x, -1),
        "log_softmax": lambda x: opset5.log_softmax(x, 0),
    }.items()
    for dtype, value in (("float32", -3.5), ("float16", 2), ("int32", 3))
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("opset", [19, 25])
def test_matches_openvino_in_the_oldest_and_newest_opset(name: str, opset: int) -> None:
    feed = [numbers(2, 4, 3)]
    check(model_of(FUNCTIONS[name], [feed]), feed, bound=LOOSE, opset=opset)


def test_parameters_of_the_run_that_openvino_cannot_take() -> None:
    x, a, c = numbers(7), np.array(0.3, F32), np.array(0.4, F32)
    for build, feed, expected in (
        (opset1.hard_sigmoid, [x, a, c], np.clip(x * a + c, 0, 1)),
        (opset1.selu, [x, a.reshape(1), c.reshape(1)], c * np.where(x > 0, x, a * np.expm1(x))),
    ):
        converted = conversion(model_of(build, [feed]))
        assert_close(run_onnx(converted, [feed])[0][0], expected, 4)


def test_prelu_of_alike_slopes_still_gives_each_its_channel() -> None:
    build = lambda x: opset1.prelu(x, np.full(4, 0.25, F32))  # noqa: E731
    check(model_of(build, [[numbers(2, 4, 3)]], [[-1, -1, -1]]), [numbers(2, 4, 3)], [numbers(2, 1, 3)])


def test_prelu_of_any_number_of_channels() -> None:
    feed = [numbers(2, 3, 4, 5), numbers(3)]
    for channels, entries in ((-1, 3), (3, -1), (-1, -1)):
        check(model_of(opset1.prelu, [feed], [[-1, channels, -1, -1], [entries]]), feed)
    one = [feed[0], numbers(1)]
    check(model_of(opset1.prelu, [one], [[-1, -1, -1, -1], [-1]]), one)
    scalar = [np.array(-2, F32), numbers(1)]
    check(model_of(opset1.prelu, [scalar], [[], [-1]]), scalar)


REFUSALS = [
    Refusal(
        "prelu of a slope with more axes than the data",
        opset1.prelu,
        [numbers(3), numbers(2, 3)],
        ShapeError,
        {"input": "slope"},
    ),
    Refusal(
        "prelu of a slope with larger axes than the data",
        opset1.prelu,
        [numbers(2, 1, 4), numbers(3, 1)],
        ShapeError,
        {"input": "slope"},
    ),
    Refusal(
        "clamp of integers between whose bounds there is none",
        lambda x: opset1.clamp(x, 0.2, 0.8),
        [numbers(3, dtype=np.int32)],
        UnsupportedAttributeError,
        {"attribute": "min", "value": 0.2},
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refused(refusal: Refusal) -> None:
    assert_refused(refusal)


@pytest.mark.parametrize(("op", "axis"), [(opset1.softmax, 0), (opset8.softmax, 1), (opset5.log_softmax, 1)])
def test_softmax_without_an_axis(
    tmp_path: pathlib.Path, op: Callable[[openvino.Node, int], openvino.Node], axis: int
) -> None:
    """OpenVINO reads 0 in version 1, and 1, which the pages say, in the others."""
    feed, path = [numbers(2, 3)], tmp_path / "model.xml"
    openvino.save_model(model_of(lambda x: op(x, 0), [feed]), path, compress_to_fp16=False)
    text = path.read_text(encoding="utf-8")
    unstated = text.replace('<data axis="0" />', "")
    assert unstated != text
    path.write_text(unstated, encoding="utf-8")
    ((expected,),) = run_openvino(openvino.Core().read_model(path), [feed])
    converted = conversion(path)
    assert_close(run_onnx(converted, [feed])[0][0], expected, 4)
    ((stated,),) = run_openvino(model_of(lambda x: op(x, axis), [feed]), [feed])
    assert_close(stated, expected, 0)
    assert bool(converted.warnings) == (axis == 0)

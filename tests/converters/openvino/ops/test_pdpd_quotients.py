"""Divide, Mod and FloorMod of integers that pdpd broadcasts: OpenVINO's CPU plugin has them from its reference."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence

import numpy as np
import openvino
import pytest
from openvino import opset1

from ortconv.api import conversion
from tests.converters.openvino.live import Row, check, check_row, model_of, numbers, run_onnx

EXTREMES = {
    "int16": ([-(2**15), 2**15 - 1, -7, 7], [3, -2, 2, -2]),
    "int32": ([-(2**31), -(2**31), 2**31 - 1, 2**24 + 1], [3, 2**31 - 1, -2, -1]),
    "int64": ([-(2**31), -(2**31), 2**31 - 1, 2**24 + 1], [3, 2**31 - 1, -2, -1]),
    "uint16": ([2**16 - 1, 2**15, 7, 0], [3, 2**16 - 1, 2, 5]),
    "uint32": ([2**31 - 1, 2**24 + 1, 2**24 + 1, 0], [3, 1, 7, 5]),
    "uint64": ([2**31 - 1, 2**24 + 1, 2**24 + 1, 0], [3, 1, 7, 5]),
}
"""Dividends and divisors, next to what their types hold, or what OpenVINO's CPU plugin has of them."""


def _divide(a: openvino.Node, c: openvino.Node, *, down: bool = True) -> openvino.Node:
    node = opset1.divide(a, c, "PDPD")
    node.set_attribute("m_pythondiv", down)
    return node


def _feeds(dtype: str, rank: int) -> list[list[np.ndarray]]:
    """Returns operands of two sizes, the second ones of a rank up to 3."""
    above, below = (np.array(entries, dtype) for entries in EXTREMES[dtype])
    divisor = below.reshape(4, *[1] * (rank - 1))
    return [[np.broadcast_to(above[:, None, None], (4, n, 5)).copy(), divisor] for n in (2, 3)]


def _by(divisor: np.ndarray, down: bool) -> Callable[..., openvino.Node]:
    return lambda x: _divide(x, opset1.constant(divisor), down=down)


def _rows() -> Sequence[Row]:
    rows = []
    for dtype, rank, down in itertools.product(EXTREMES, (1, 2, 3), (True, False)):
        feeds = _feeds(dtype, rank)
        text = f"{dtype} by rank {rank}, {'rounded down' if down else 'truncated'}"
        rows.append(Row(f"{text}, of the run", functools.partial(_divide, down=down), feeds))
        rows.append(Row(f"{text}, constant", _by(feeds[0][1], down), [feed[:1] for feed in feeds]))
    return rows


@pytest.mark.parametrize("row", _rows(), ids=str)
def test_wider_than_bytes_they_are_exact(row: Row) -> None:
    check_row(row)
    assert not any("truncated" in warning for warning in conversion(model_of(row.build, row.feeds)).warnings)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_of_bytes(dtype: str) -> None:
    """OpenVINO's CPU plugin has static ones of equal ranks only, and truncates those."""
    feed = [numbers(4, 20, dtype=dtype, low=-100, high=100), np.array([[7], [3], [5], [2]], dtype)]
    known = check(model_of(_divide, [feed]), feed)
    assert any("truncated" in warning for warning in known.warnings) == (dtype == "int8")
    for shapes, divisor in (([[-1, -1], [-1, 1]], feed[1]), (None, feed[1][:, 0])):
        others = [feed[0], divisor]
        converted = conversion(model_of(_divide, [others], shapes))
        assert not any("truncated" in warning or "nearest" in warning for warning in converted.warnings)
        ((actual,),) = run_onnx(converted, [others])
        np.testing.assert_array_equal(actual, feed[0] // feed[1], strict=True)


def test_beyond_32_bits_by_a_constant() -> None:
    """The page has all bits, OpenVINO's CPU plugin 32."""
    x, divisor = np.array([[-(2**62) - 1], [2**62 + 3]]), np.array([7, 5])
    ((actual,),) = run_onnx(conversion(model_of(_by(divisor, True), [[x]])), [[x]])
    np.testing.assert_array_equal(actual, x // divisor[:, None], strict=True)


@pytest.mark.parametrize("dtype", ["int16", "int32", "int64"])
def test_by_zero_they_do_no_harm(dtype: str) -> None:
    """OpenVINO's CPU plugin fails there, and crashes on the lowest number by -1."""
    feed = [np.array([[5], [np.iinfo(dtype).min], [-7]], dtype), np.array([0, -1, 2], dtype)]
    ((actual,),) = run_onnx(conversion(model_of(_divide, [feed])), [feed])
    assert actual[2, 0] == -4


REST = {"Mod": opset1.mod, "FloorMod": opset1.floor_mod}


@pytest.mark.parametrize("known", [False, True], ids=["of the run", "constant"])
@pytest.mark.parametrize("dtype", EXTREMES)
@pytest.mark.parametrize("op", REST)
def test_rests_are_exact(op: str, dtype: str, known: bool) -> None:
    feeds = _feeds(dtype, 3)
    row = (
        Row(op, lambda x: REST[op](x, opset1.constant(feeds[0][1]), "PDPD"), [feed[:1] for feed in feeds])
        if known
        else Row(op, lambda x, y: REST[op](x, y, "PDPD"), feeds)
    )
    check_row(row)
    assert not any("f32" in warning for warning in conversion(model_of(row.build, row.feeds)).warnings)


@pytest.mark.parametrize("op", REST)
def test_rests_of_64_bits(op: str) -> None:
    """The page has all bits, OpenVINO's CPU plugin 32."""
    feed = [np.array([[-(2**62) - 1], [2**62 + 3]]), np.array([[7], [-5]])]
    ((actual,),) = run_onnx(conversion(model_of(lambda x, y: REST[op](x, y, "PDPD"), [feed])), [feed])
    expected = np.fmod(*feed) if op == "Mod" else np.mod(*feed)
    np.testing.assert_array_equal(actual, expected, strict=True)


@pytest.mark.parametrize("op", REST)
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_rests_by_zero_do_no_harm(op: str, dtype: str) -> None:
    """OpenVINO's CPU plugin fails there, and crashes on the lowest number by -1."""
    feed = [np.array([[5], [np.iinfo(dtype).min], [-7]], dtype), np.array([[0], [-1], [2]], dtype)]
    ((actual,),) = run_onnx(conversion(model_of(lambda x, y: REST[op](x, y, "PDPD"), [feed])), [feed])
    assert actual[1:, 0].tolist() == [0, -1 if op == "Mod" else 1]

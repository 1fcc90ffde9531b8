"""SoftMax, LogSoftmax, their gradients; rows of -inf; statistics."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ortconv
from ortconv.errors import ConversionErrors, ShapeError, UnsupportedAttributeError, UnsupportedTypeError
from tests.converters.onednn_graph.agreement import FLOATS, check, graph_of, numbers

PAIRS = [*((dtype, dtype) for dtype in FLOATS), ("f32", "bf16"), ("f32", "f16"), ("bf16", "f32"), ("f16", "f32")]


@pytest.mark.parametrize(("dtype", "result"), PAIRS)
@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1, -3])
@pytest.mark.parametrize("mode", [None, "none", "inf_as_zero"])
@pytest.mark.parametrize("stats", [False, True])
def test_soft_max(dtype: str, result: str, axis: int | None, mode: str | None, stats: bool) -> None:
    attributes: dict[str, Any] = {} if axis is None else {"axis": axis}
    attributes |= {} if mode is None else {"mode": mode}
    x = numbers((3, 4, 5), dtype, low=-20, high=20)
    check("SoftMax", [x], [result, *(["f32"] if stats else [])], attributes, slack=16)


@pytest.mark.parametrize("mode", ["none", "inf_as_zero"])
@pytest.mark.parametrize("stats", [False, True])
@pytest.mark.parametrize("dtype", FLOATS)
def test_rows_of_minus_infinity(mode: str, stats: bool, dtype: str) -> None:
    x = numbers((4, 5), dtype)
    x[0], x[1, :3] = -np.inf, -np.inf
    check("SoftMax", [x], [dtype, *(["f32"] if stats else [])], {"mode": mode}, slack=16)


@pytest.mark.parametrize("mode", ["none", "inf_as_zero"])
def test_large_numbers_do_not_overflow(mode: str) -> None:
    x = np.float32([[1e30, 1e30, -1e30], [300, 299, 0], [-1e30, -1e30, -1e30]])
    check("SoftMax", [x], ["f32", "f32"], {"mode": mode}, slack=16)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [None, 0, 1, -2])
def test_log_soft_max_and_gradients(dtype: str, axis: int | None) -> None:
    attributes = {} if axis is None else {"axis": axis}
    x, g = numbers((3, 4, 5), dtype), numbers((3, 4, 5), dtype, 1)
    check("LogSoftmax", [x], [dtype], attributes, slack=16)
    check("LogSoftmaxBackward", [g, -np.abs(x)], [dtype], attributes, slack=16)
    check("SoftMaxBackward", [g, numbers((3, 4, 5), dtype, 2, 0, 0.4)], [dtype], attributes, slack=16)


@pytest.mark.parametrize("dtype", ["bf16", "f16"])
def test_the_gradient_may_be_wider(dtype: str) -> None:
    check("SoftMaxBackward", [numbers((3, 4), dtype), numbers((3, 4), dtype, 1, 0, 0.4)], ["f32"], slack=16)


def refusal(kind: str, inputs: list[np.ndarray], outputs: list[str], attributes: dict[str, Any]) -> Exception:
    with pytest.raises(ConversionErrors) as caught:
        ortconv.convert(graph_of(kind, inputs, outputs, attributes))
    (error,) = caught.value.exceptions
    return error


@pytest.mark.parametrize(
    ("attribute", "value"), [("axis", 2), ("axis", -3), ("mode", "inf_as_one")], ids=["above", "below", "unknown mode"]
)
def test_attributes_out_of_range(attribute: str, value: object) -> None:
    error = refusal("SoftMax", [numbers((2, 3))], ["f32"], {attribute: value})
    assert isinstance(error, UnsupportedAttributeError)
    assert (error.attribute, error.value) == (attribute, value)


def test_shapes_and_types_that_do_not_fit() -> None:
    error = refusal("SoftMaxBackward", [numbers((2, 3)), numbers((3, 2))], ["f32"], {})
    assert isinstance(error, ShapeError)
    assert (error.input, error.shape) == ("dst", (3, 2))
    error = refusal("SoftMax", [numbers(())], ["f32"], {"axis": 0})
    assert isinstance(error, ShapeError)
    assert (error.input, error.shape) == ("src", ())
    for outputs, argument in ((["bf16"], "the output"), (["f16", "f16"], "stats")):
        error = refusal("SoftMax", [numbers((2, 3), "f16")], outputs, {})
        assert isinstance(error, UnsupportedTypeError)
        assert error.input == argument


@pytest.mark.parametrize(
    ("axis", "mode", "warned"), [(0, "inf_as_zero", True), (1, "inf_as_zero", False), (0, "none", False)]
)
def test_what_the_library_does_otherwise_is_said(axis: int, mode: str, warned: bool) -> None:
    g = graph_of("SoftMax", [numbers((2, 3))], ["f32"], {"axis": axis, "mode": mode})
    warnings = ortconv.conversion(g).warnings
    assert len(warnings) == warned
    assert all("the library gives NaN there" in warning for warning in warnings)

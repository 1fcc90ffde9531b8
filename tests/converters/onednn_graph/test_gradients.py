"""Gradients of elementwise ops, at their boundaries too."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

import ortconv
from ortconv import onednn
from ortconv.errors import ConversionErrors, ShapeError, UnsupportedAttributeError, UnsupportedTypeError
from tests.converters.onednn_graph.agreement import FLOATS, check, graph_of, numbers
from tests.converters.onednn_graph.documents import graph, op, tensor, write
from tests.converters.onednn_graph.references import REFERENCES
from tests.converters.onednn_graph.references.call import Call, Slot
from tests.running import run

EDGES = np.array([-4, -3, -2, -1, -0.5, -0.0, 0.0, 0.5, 1, 2, 3, 4], np.float32)

CASES: list[tuple[str, dict[str, Any]]] = [
    ("AbsBackward", {}),
    *[("ClampBackward", {"min": -1, "max": 2, "use_dst": use_dst}) for use_dst in (True, False)],
    ("ClampBackward", {"min": -1, "max": 2}),
    ("ClampBackward", {"min": 1, "max": 1}),
    *[("EluBackward", {"alpha": alpha, "use_dst": False}) for alpha in (1, 0.25, 0, -0.5)],
    *[("EluBackward", {"alpha": alpha}) for alpha in (1, 0.25, 0)],
    ("GELUBackward", {}),
    *[("GELUBackward", {"mode": mode}) for mode in ("gelu_erf", "gelu_tanh")],
    *[("HardSigmoidBackward", {"alpha": alpha, "beta": 0.5}) for alpha in (0.25, -0.5, 0)],
    ("HardSwishBackward", {}),
    ("MishBackward", {}),
    *[("ReLUBackward", attributes) for attributes in ({}, {"use_dst": True}, {"use_dst": False})],
    *[("SigmoidBackward", attributes) for attributes in ({}, {"use_dst": False})],
    *[("SoftPlusBackward", attributes) for attributes in ({}, {"beta": 2.5}, {"beta": -1})],
    *[("TanhBackward", attributes) for attributes in ({}, {"use_dst": False})],
]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize(("kind", "attributes"), CASES, ids=[f"{kind}-{attributes}" for kind, attributes in CASES])
def test_gradients_agree_everywhere(kind: str, attributes: dict[str, Any], dtype: str) -> None:
    x = np.concatenate([EDGES, numbers((36,), seed=1)]).astype(numbers((), dtype).dtype).reshape(2, 3, 8)
    check(kind, [x, numbers(x.shape, dtype, 2)], [dtype], attributes, slack=8)


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("MishBackward", {}),
        ("GELUBackward", {"mode": "gelu_tanh"}),
        ("SigmoidBackward", {"use_dst": False}),
        ("TanhBackward", {"use_dst": False}),
    ],
)
def test_small_gradients_far_from_zero_keep_their_digits(kind: str, attributes: dict[str, Any]) -> None:
    x = np.concatenate([np.linspace(-30, 30, 601), [-np.inf, np.inf, -1e30, 1e30, -100, 100]]).astype(np.float32)
    inputs = [x, np.ones_like(x)]
    (found,) = run(ortconv.convert(graph_of(kind, inputs, ["f32"], attributes)), {"x0": x, "x1": inputs[1]}, "none")
    right = REFERENCES[kind](Call(kind, [x[:601], np.ones(601)], attributes, [Slot("f32")]))
    assert isinstance(right, np.ndarray)
    np.testing.assert_allclose(found[:601], right, rtol=0, atol=6e-7)
    below = x[:601] < -5
    np.testing.assert_allclose(found[:601][below], right[below], rtol=1e-5, atol=1e-12)
    np.testing.assert_allclose(found[601:], [0, int(kind in ("MishBackward", "GELUBackward"))] * 3, atol=1e-25)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("attributes", [{}, {"use_dst": False}])
def test_sqrt_backward(dtype: str, attributes: dict[str, Any]) -> None:
    check("SqrtBackward", [numbers((5, 7), dtype, low=0.5), numbers((5, 7), dtype, 1)], [dtype], attributes)


@pytest.mark.parametrize("kind", ["AbsBackward", "ReLUBackward"])
def test_no_gradient_at_zero_even_of_infinity(kind: str) -> None:
    check(kind, [np.zeros(2, np.float32), np.array([np.inf, -np.inf], np.float32)])


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("data_format", ["NCX", "NXC", None])
@pytest.mark.parametrize(
    ("shape", "slope"),
    [
        ((2, 3, 4, 3), (3,)),
        ((2, 3, 4, 3), (1,)),
        ((2, 3, 4, 3), (1, 1, 1, 1)),
        ((2, 3, 4, 3), (1, 3, 1, 3)),
        ((2, 3, 4, 3), (3, 4, 3)),
        ((2, 3, 4, 3), (2, 3, 4, 3)),
        ((5, 3), (3,)),
        ((1, 3, 1, 3), (1, 1, 1, 3)),
    ],
)
def test_prelu_and_its_gradient(
    shape: tuple[int, ...], slope: tuple[int, ...], data_format: str | None, dtype: str
) -> None:
    x, a, g = numbers(shape, dtype), numbers(slope, dtype, 1, 0.1, 0.9), numbers(shape, dtype, 2)
    x.reshape(-1)[:2] = 0
    attributes = {"data_format": data_format} if data_format else {}
    check("PReLU", [x, a], [dtype], attributes)
    check("PReLUBackward", [x, a, g], [dtype, dtype], attributes, slack=8)


@pytest.mark.parametrize("data_format", ["NCX", "NXC"])
def test_prelu_of_a_vector_along_the_last_axis(data_format: str) -> None:
    attributes = {"data_format": data_format, "per_channel_broadcast": False}
    check("PReLU", [numbers((2, 3, 4)), numbers((4,), seed=1)], ["f32"], attributes)


def test_a_slope_for_every_element_of_a_size_that_only_the_run_knows() -> None:
    x, a = numbers((2, 3)), numbers((2, 3), seed=1)
    g = onednn.Graph()
    g.op("PReLU", [g.tensor("x", "f32", [None, 3]), g.tensor("a", "f32", [2, 3])])
    (found,) = run(ortconv.convert(g), {"x": x, "a": a}, "none")
    np.testing.assert_array_equal(found, np.where(x >= 0, x, x * a))


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("data_format", ["NCX", "NXC", None])
@pytest.mark.parametrize("shape", [(2, 3), (2, 3, 4), (2, 3, 4, 5), (1, 2, 2, 2, 3)])
def test_bias_add_backward(shape: tuple[int, ...], data_format: str | None, dtype: str) -> None:
    check("BiasAddBackward", [numbers(shape, dtype)], [dtype], {"data_format": data_format} if data_format else {})


def refusal(kind: str, inputs: list[np.ndarray], attributes: dict[str, Any], outputs: int = 1) -> Exception:
    with pytest.raises(ConversionErrors) as caught:
        ortconv.convert(graph_of(kind, inputs, ["f32"] * outputs, attributes))
    (error,) = caught.value.exceptions
    return error


def test_limits_that_cross_are_refused() -> None:
    error = refusal("ClampBackward", [numbers((2,))] * 2, {"min": 2, "max": 1})
    assert isinstance(error, UnsupportedAttributeError)
    assert (error.attribute, error.value) == ("min", 2)


def test_elu_backward_of_a_result_without_sign_is_refused() -> None:
    error = refusal("EluBackward", [numbers((2,))] * 2, {"alpha": -1})
    assert isinstance(error, UnsupportedAttributeError)
    assert (error.attribute, error.value) == ("alpha", -1)


@pytest.mark.parametrize(
    ("kind", "shapes", "argument", "shape"),
    [
        ("TanhBackward", [(2, 3), (3, 2)], "diff_dst", (3, 2)),
        ("PReLUBackward", [(2, 3), (4,), (2, 3)], "slope", (4,)),
        ("PReLU", [(2, 3), (4,)], "slope", (4,)),
        ("PReLU", [(2, 3), (2, 2, 3)], "slope", (2, 2, 3)),
        ("BiasAddBackward", [(3,)], "diff_dst", (3,)),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    kind: str, shapes: list[tuple[int, ...]], argument: str, shape: tuple[int, ...]
) -> None:
    error = refusal(kind, [numbers(each) for each in shapes], {}, 2 if kind == "PReLUBackward" else 1)
    assert isinstance(error, ShapeError)
    assert (error.input, error.shape) == (argument, shape)


@pytest.mark.parametrize("dtype", ["bf16", "undef"])
def test_both_gradients_of_prelu_have_one_type(tmp_path: pathlib.Path, dtype: str) -> None:
    inputs, outputs = [tensor(0), tensor(1, (3,)), tensor(2)], [tensor(3), tensor(4, (3,), dtype)]
    with pytest.raises(ConversionErrors) as caught:
        ortconv.convert(write(tmp_path, graph(op(0, "PReLUBackward", inputs, outputs))))
    (error,) = caught.value.exceptions
    assert isinstance(error, UnsupportedTypeError)
    assert (error.input, error.dtype) == ("diff_slope", dtype)

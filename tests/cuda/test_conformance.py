"""Results on the GPU: against recorded results of OpenVINO and oneDNN, the definition, and float64 references."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ortconv
from benchmarks import answers
from benchmarks.shapes import SHAPES, Shape
from tests import folders, oracle
from tests.conformance import test_vectors as vectors
from tests.cuda import device, problems
from tests.operators.convolutions import CASES, DTYPES, Case
from tests.operators.native import with_constants
from tests.running import EXACT, assert_matches

ON_GPU = ("float32", "float16", "bfloat16")
"""The types that have kernels there; the others run on the CPU, in the same session."""

SLOW = 2e7
"""Operations above which a shape is too slow to emulate."""


def weights(constant: bool) -> str:
    return "constant_weights" if constant else "runtime_weights"


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("type_name", DTYPES)
@pytest.mark.parametrize("constant", [True, False], ids=weights)
def test_matches_the_definition(
    name: str, type_name: str, constant: bool, library: str, define: Callable[..., Any]
) -> None:
    case, dtype = CASES[name], DTYPES[type_name]
    inputs = case.inputs(dtype)
    feeds = case.feeds(inputs)
    model = case.model(dtype)
    if constant:
        model = with_constants(model, feeds, "W")
    y = device.session(model, device.only_here() if type_name in ON_GPU else None).run(None, feeds)[0]
    assert y.dtype == dtype
    define(case, inputs).check(y)


@pytest.mark.parametrize("vector", [pytest.param(each, id=each["id"]) for each in vectors.VECTORS])
def test_vector(vector: Mapping[str, Any], library: str) -> None:
    feeds = {name: vectors.array(vector, name) for name in vector["feeds"]}
    for mode in ("runtime", "spec"):
        expected = vectors.array(vector, mode)
        if expected is None:
            continue
        source = folders.VECTORS / vector["source"]
        model = ortconv.conversion(source, semantics=mode, target="plugin").to_proto()
        (result,) = device.session(model).run(None, feeds)
        assert_matches(result, expected, EXACT, f"{vector['id']} ({vector['runtime']}) {mode}")


@pytest.mark.parametrize("type_name", ON_GPU)
@pytest.mark.parametrize("seed", range(30 if device.EMULATED else 300))
def test_random_problem_is_exact(seed: int, type_name: str, library: str) -> None:
    problem = problems.draw(seed, DTYPES[type_name])
    feeds = problem.case.feeds(problem.inputs)
    model = problem.case.model(DTYPES[type_name])
    if seed % 2:
        model = with_constants(model, feeds, "W")
    problem.check(device.session(model, device.only_here()).run(None, feeds)[0])


def _node(shape: Shape) -> Case:
    identity = list(range(shape.axes + 2))
    attributes = {
        "strides": shape.strides,
        "dilations": shape.dilations,
        "group": shape.group,
        "pads": shape.pads * 2,
        "output_padding": shape.extras,
        **dict.fromkeys(("x_perm", "w_perm", "y_perm"), identity),
    }
    return Case("TransposedConvolution", shape.x_shape, shape.w_shape, attributes, bias=False)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16"])
@pytest.mark.parametrize("shape", [pytest.param(shape, id=shape.name) for shape in SHAPES])
def test_layers_of_networks(shape: Shape, dtype: str, library: str) -> None:
    if device.EMULATED and shape.flops > SLOW:
        pytest.skip("too slow to emulate")
    x, w = answers.data(shape, dtype)
    feeds = {"X": x, "W": w}
    model = with_constants(_node(shape).model(x.dtype), feeds, "W")
    (y,) = device.session(model).run(None, feeds)
    assert answers.expect(shape, dtype, x, w).errors(y).excess <= 1


@pytest.mark.parametrize("value", ["0", "1"])
def test_tf32_only_where_it_is_allowed(value: str, library: str) -> None:
    shape = Shape("", 1, 64, 64, (16, 16), 4, 2, 1)
    x, w = answers.data(shape, "f32")
    feeds = {"X": x, "W": w}
    model = with_constants(_node(shape).model(x.dtype), feeds, "W")
    (y,) = device.session(model, device.options(use_tf32=value)).run(None, feeds)
    expected = answers.expect(shape, "f32", x, w)
    if value == "0":
        assert expected.errors(y).excess <= 1
    else:
        # Each factor of a product is rounded to 11 bits.
        magnitude = answers.expect(shape, "f32", np.abs(x), np.abs(w)).expected
        assert np.all(np.abs(y - expected.expected) <= expected.bound + 2.0**-10 * magnitude)


@pytest.mark.parametrize("type_name", ON_GPU)
@pytest.mark.parametrize("channels", [3, 64])
def test_infinities_and_nan_stay_where_they_belong(type_name: str, channels: int, library: str) -> None:
    dtype = DTYPES[type_name]
    attributes = {**_node(Shape("", 1, 1, 1, (9, 9), 3, 2, 1)).attributes, "output_padding": [1, 0]}
    case = Case("TransposedConvolution", (1, channels, 9, 9), (channels, 40, 3, 3), attributes, bias=False)
    x, w = np.ones(case.x, dtype), np.ones(case.w, dtype)
    x[0, 1, 4, 4], x[0, 2, 0, 8] = -np.inf, np.nan
    w[1, 5, 0, 2], w[0, 7, 1, 1] = np.inf, np.nan
    with np.errstate(invalid="ignore"):
        at = {"strides": [2, 2], "dilations": [1, 1], "begin": [1, 1], "size": [18, 17]}
        expected = oracle.transposed(x, w, **at).astype(dtype)
    for constant in (True, False):
        feeds = {"X": x, "W": w}
        model = with_constants(case.model(dtype), feeds, "W") if constant else case.model(dtype)
        y = device.session(model).run(None, feeds)[0]
        np.testing.assert_array_equal(y.astype(np.float64), expected.astype(np.float64))


def test_sixteen_bits_are_rounded_once_and_overflow_to_infinity(library: str) -> None:
    attributes = _node(Shape("", 1, 1, 1, (2,), 1, 1)).attributes
    case = Case("TransposedConvolution", (1, 3, 2), (3, 1, 1), attributes, bias=False)
    x = np.array([[[2048, 60000], [1, 60000], [1, -0.5]]], np.float16)
    y = device.session(case.model(x.dtype)).run(None, {"X": x, "W": np.ones((3, 1, 1), np.float16)})[0]
    np.testing.assert_array_equal(y, np.array([[[2050, np.inf]]], np.float16))


@pytest.mark.parametrize("type_name", ON_GPU)
def test_small_numbers_are_not_flushed(type_name: str, library: str) -> None:
    """Subnormal results: the smallest positive number of a type is one."""
    dtype = DTYPES[type_name]
    tiny = np.full((1, 16, 4), ml_dtypes.finfo(dtype).smallest_subnormal).astype(dtype)
    w = np.zeros((16, 8, 2), dtype)
    w[0] = 1
    attributes = _node(Shape("", 1, 1, 1, (4,), 2, 2)).attributes
    case = Case("TransposedConvolution", tiny.shape, w.shape, attributes, bias=False)
    y = device.session(case.model(dtype)).run(None, {"X": tiny, "W": w})[0]
    np.testing.assert_array_equal(y, np.full((1, 8, 8), tiny[0, 0, 0]))

"""RandomUniform and Multinomial against OpenVINO's CPU plugin: with seeds the same numbers, to the last bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset5, opset8, opset13

from ortconv.api import Conversion, conversion
from ortconv.errors import ConversionError, ConversionErrors, UnsupportedAttributeError
from tests.converters.openvino.live import Feed, Refusal, assert_refused, check, model_of, run_onnx, run_openvino

BOUNDS: dict[str, tuple[float, float]] = {
    "f16": (-1, 3.3),
    "f32": (-3.3, 7.7),
    "f64": (0.1, 0.7),
    "i32": (-50, 2**31 - 51),
    "i64": (-3, 1000),
}
SEEDS = [(150, 10), (0, 5), (7, 0), (2**40 + 3, 2**35 + 9)]
SIZES = [np.array(sizes, np.int64) for sizes in ((3, 3), (7, 11), (1, 1), (40, 50))]


def uniform(
    low: Any = 0.0,
    high: Any = 1.0,
    dtype: str = "f32",
    seeds: tuple[int, int] = (150, 10),
    alignment: str = "tensorflow",
) -> Callable[..., Any]:
    def build(shape: Any, *bounds: Any) -> Any:
        ends = bounds or [opset1.constant(bound, getattr(openvino.Type, dtype)) for bound in (low, high)]
        return opset8.random_uniform(shape, *ends, dtype, *seeds, alignment)

    return build


def choices(
    count: int, replaced: bool, logarithms: bool, dtype: str = "i32", seeds: tuple[int, int] = (150, 10)
) -> Callable[..., Any]:
    return lambda probs, *given: opset13.multinomial(
        probs, *(given or [np.array([count])]), dtype, replaced, logarithms, *seeds
    )


def sizes(*entries: int) -> np.ndarray:
    return np.array(entries, np.int64)


@pytest.mark.parametrize("alignment", ["tensorflow", "pytorch"])
@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("seeds", SEEDS, ids=str)
def test_uniform_matches_openvino(seeds: tuple[int, int], dtype: str, alignment: str) -> None:
    build = uniform(*BOUNDS[dtype], dtype, seeds, alignment)
    model = model_of(build, [[SIZES[0]]])
    for shape in SIZES:
        # A model for each: a second inference goes on with the sequence.
        fixed = model_of(lambda *_, made=build, to=shape: made(opset1.constant(to)), [[]])
        converted = check(fixed, [], bound=0)
        assert {str(i) for i in converted.model.opset_imports} == {""}
        np.testing.assert_array_equal(run_onnx(conversion(model), [[shape]])[0][0], run_openvino(fixed, [[]])[0][0])


@pytest.mark.parametrize("alignment", ["tensorflow", "pytorch"])
@pytest.mark.parametrize(
    "shape", [sizes(3), sizes(624), sizes(625, 2), sizes(2, 0, 3), np.array([5, 2], np.int32)], ids=str
)
def test_sizes_of_many_kinds(shape: np.ndarray, alignment: str) -> None:
    check(model_of(uniform(alignment=alignment), [[shape]]), [shape], bound=0)


@pytest.mark.parametrize("alignment", ["tensorflow", "pytorch"])
@pytest.mark.parametrize("dtype", BOUNDS)
@pytest.mark.parametrize("shape", [(), (1,)])
def test_bounds_of_run_time(shape: tuple[int, ...], dtype: str, alignment: str) -> None:
    kind = getattr(openvino.Type, dtype).to_dtype()
    feed = [sizes(4, 5), *(np.full(shape, bound, kind) for bound in BOUNDS[dtype])]
    check(model_of(uniform(dtype=dtype, alignment=alignment), [feed]), feed, bound=0)


@pytest.mark.parametrize("alignment", ["tensorflow", "pytorch"])
def test_numbers_of_a_later_layer(alignment: str) -> None:
    build = uniform(alignment=alignment)
    feed = [np.ones((6, 7), np.float32)]
    check(model_of(lambda x: opset1.multiply(x, build(opset8.shape_of(x))), [feed]), feed, bound=0)


def test_each_run_is_the_first() -> None:
    model = model_of(uniform(), [[sizes(5)]])
    ours = run_onnx(conversion(model), [[sizes(5)]] * 2)
    theirs = run_openvino(model, [[sizes(5)]] * 2)
    np.testing.assert_array_equal(ours[0][0], theirs[0][0])
    np.testing.assert_array_equal(ours[1][0], theirs[0][0])
    assert (theirs[0][0] != theirs[1][0]).all()
    (warning,) = conversion(model).warnings
    assert "seeds: each run gives the numbers of the first" in warning


def test_each_run_is_the_same_with_the_twister() -> None:
    model = model_of(uniform(alignment="pytorch"), [[sizes(5)]])
    feeds = [[sizes(5)]] * 2
    np.testing.assert_array_equal(run_onnx(conversion(model), feeds), run_openvino(model, feeds))
    assert conversion(model).warnings == ()


def looped(seeds: tuple[int, int], alignment: str) -> openvino.Model:
    """Returns a model of three iterations that each draw four numbers."""
    inner = opset1.parameter([1, 4], openvino.Type.f32)
    drawn = uniform(seeds=seeds, alignment=alignment)(opset1.constant(sizes(1, 4)))
    results = [opset1.result(value) for value in (opset1.constant(np.array([True])), opset1.add(inner, drawn))]
    loop = opset5.loop(opset1.constant(np.array(3)), opset1.constant(np.array(True)))
    loop.set_function(openvino.Model(results, [inner], "body"))
    loop.set_special_body_ports([-1, 0])
    outer = opset1.parameter([1, 4], openvino.Type.f32)
    loop.set_merged_input(inner, outer.output(0), results[1].output(0))
    return openvino.Model([loop.get_concatenated_slices(results[1].output(0), 0, 1, 1, -1, 0)], [outer])


def test_numbers_of_a_body_that_is_repeated() -> None:
    """OpenVINO goes on with the sequence of Philox in each iteration, and begins anew with that of the twister."""
    check(looped((150, 10), "pytorch"), [np.zeros((1, 4), np.float32)], bound=0)
    with pytest.raises(ConversionErrors) as group:
        conversion(looped((150, 10), "tensorflow"))
    (error,) = group.value.exceptions
    assert isinstance(error, ConversionError)
    assert "a loop body draws other numbers" in error.problem


def test_shape_of_a_scalar() -> None:
    """The plugin leaves what was in memory; the number is the first of any shape."""
    converted = conversion(model_of(uniform(), [[sizes()]]))
    (scalar,), (vector,) = run_onnx(converted, [[sizes()]])[0], run_onnx(conversion(one()), [[sizes(1)]])[0]
    assert scalar.shape == ()
    assert scalar == vector[0]
    assert any("shape is empty" in warning for warning in converted.warnings)


def one() -> openvino.Model:
    return model_of(uniform(), [[sizes(1)]])


@pytest.mark.parametrize("alignment", ["tensorflow", "pytorch"])
@pytest.mark.parametrize(("dtype", "low", "high"), [("f32", -2.0, 6.0), ("f16", 0, 1), ("i32", -3, 3), ("i64", 5, 105)])
def test_no_seeds(dtype: str, low: float, high: float, alignment: str) -> None:
    feed = [sizes(300, 40)]
    converted = conversion(model_of(uniform(low, high, dtype, (0, 0), alignment), [feed]))
    (first,), (second,) = run_onnx(converted, [feed] * 2)
    (other,) = run_onnx(converted, [feed])[0]
    assert first.dtype == getattr(openvino.Type, dtype).to_dtype()
    for numbers in (first, second, other):
        assert numbers.shape == (300, 40)
        assert numbers.min() >= low
        # Rounded to 16 bits a number may be the bound itself.
        assert numbers.max() <= high
        assert abs(numbers.astype(np.float64).mean() - (low + high - (dtype[0] == "i")) / 2) < 0.02 * (high - low)
    assert len({first.tobytes(), second.tobytes(), other.tobytes()}) > 1
    (warning,) = converted.warnings
    assert "both seeds are 0" in warning


def probabilities(batches: int, classes: int, logarithms: bool, dtype: str = "float32") -> np.ndarray:
    made = np.random.default_rng([batches, classes]).uniform(0, 1, (batches, classes))
    made[:, classes // 2] = 0
    return (np.log(made + 1e-3) if logarithms else made).astype(dtype)


@pytest.mark.parametrize("logarithms", [False, True])
@pytest.mark.parametrize("replaced", [False, True])
@pytest.mark.parametrize(("batches", "classes", "count"), [(1, 4, 3), (2, 6, 5), (3, 40, 30), (2, 900, 400), (1, 1, 1)])
def test_multinomial_matches_openvino(batches: int, classes: int, count: int, replaced: bool, logarithms: bool) -> None:
    feed = [probabilities(batches, classes, logarithms) + np.float32(classes == 1)]
    for seeds in SEEDS:
        check(model_of(choices(count, replaced, logarithms, seeds=seeds), [feed]), feed)


@pytest.mark.parametrize("replaced", [False, True])
def test_multinomial_of_sizes_that_are_dynamic(replaced: bool) -> None:
    feeds = [[probabilities(*shape, False), np.array(count)] for *shape, count in ((2, 7, 4), (1, 9, 6), (3, 5, 1))]
    check(model_of(choices(0, replaced, False), feeds[:1], [[-1, -1], []]), *feeds)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize("given", [np.array([5], np.int32), np.array(5, np.int64)], ids=["vector", "scalar"])
def test_multinomial_of_other_types(given: np.ndarray, dtype: str) -> None:
    feed = [probabilities(2, 12, False, dtype), given]
    check(model_of(choices(0, True, False, "i64"), [feed]), feed)


def test_multinomial_of_no_seeds() -> None:
    feed = [np.array([[1, 2, 0, 5]], np.float32)]
    converted: Conversion = conversion(model_of(choices(20000, True, False, seeds=(0, 0)), [feed]))
    (first,), (second,) = run_onnx(converted, [feed] * 2)
    for numbers in (first, second):
        shares = np.bincount(numbers[0], minlength=4) / numbers.size
        np.testing.assert_allclose(shares, feed[0][0] / 8, atol=0.02)
    assert "both seeds are 0" in converted.warnings[0]


def _range(low: int, high: int, dtype: str) -> tuple[Callable[..., Any], Feed]:
    return uniform(low, high, dtype), [sizes(3)]


REFUSALS = [
    Refusal(
        "numbers of bf16",
        uniform(dtype="bf16"),
        [sizes(3)],
        UnsupportedAttributeError,
        {"attribute": "output_type", "allowed": "f16, f32, f64, i32, i64"},
    ),
    Refusal(
        "a range beyond 31 bits",
        *_range(-(2**31), 2**31 - 1, "i32"),
        ConversionError,
        {"problem": "minval is -2147483648 and maxval 2147483647"},
    ),
    Refusal(
        "a bound beyond 32 bits",
        *_range(0, 2**40, "i64"),
        ConversionError,
        {"problem": "minval is 0 and maxval 1099511627776; allowed: 32-bit integers"},
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refused(refusal: Refusal) -> None:
    assert_refused(refusal)

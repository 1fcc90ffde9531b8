"""BatchNormalization and arithmetic per channel behind a node: what folds into weights and bias, and how exactly."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

import ortconv
from ortconv.optimizer import optimization
from tests import oracle
from tests.optimizer.models import CT, assert_same, parsed, rand, stock
from tests.running import run

NODES = {
    "BatchNormalization": "BatchNormalization <epsilon = 0.25> (c, scale, shift, mean, variance)",
    "Mul": "Mul (c, k)",
    "Mul from the left": "Mul (k, c)",
    "Div": "Div (c, k)",
    "Add": "Add (c, k)",
    "Sub": "Sub (c, k)",
    "Sub from the left": "Sub (k, c)",
    "Mul by a number": "Mul (c, two)",
}
C, M, TAPS = 4, 6, 3


def constants(dtype: Any) -> dict[str, np.ndarray]:
    near_one = np.linspace(0.5, 1.75, M).astype(dtype)
    return {
        "k": (near_one * np.where(np.arange(M) % 2, 1, -1)).astype(dtype).reshape(M, 1),
        "two": np.array(2, dtype),
        "scale": rand(M, dtype=dtype),
        "shift": rand(M, dtype=dtype),
        "mean": rand(M, dtype=dtype),
        "variance": near_one,
    }


def expected(name: str, c: np.ndarray, given: dict[str, np.ndarray]) -> np.ndarray:
    """Returns what a node gives, from its definition, in float64."""
    wide = {key: value.astype(np.float64) for key, value in given.items()}
    scale, shift, mean, variance = (wide[key].reshape(M, 1) for key in ("scale", "shift", "mean", "variance"))
    k = wide["k"]
    results = {
        "BatchNormalization": lambda: (c - mean) / np.sqrt(variance + 0.25) * scale + shift,
        "Mul": lambda: c * k,
        "Mul from the left": lambda: k * c,
        "Div": lambda: c / k,
        "Add": lambda: c + k,
        "Sub": lambda: c - k,
        "Sub from the left": lambda: k - c,
        "Mul by a number": lambda: c * 2,
    }
    return np.asarray(results[name]())


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("name", NODES)
def test_it_folds_and_errs_as_stated(name: str, biased: bool, group: int, dtype: Any) -> None:
    kind = {np.float32: "float", np.float16: "float16"}[dtype]
    given = constants(dtype)
    w, b, x = rand(C, M // group, TAPS, dtype=dtype), rand(M, dtype=dtype), rand(2, C, 5, dtype=dtype)
    model = parsed(
        f"g ({kind}[N,{C},L] x) => ({kind}[N,{M},P] y) {{\n"
        f"c = ConvTranspose <strides = [2], group = {group}> (x, w{', b' if biased else ''})\ny = {NODES[name]} }}",
        w=w,
        **({"b": b} if biased else {}),
        **{key: value for key, value in given.items() if key in re.findall(r"\w+", NODES[name])},
    )
    done = optimization(model)
    assert [node.op_type for node in done.to_proto().graph.node] == [CT.partition(":")[2]]
    size = [2 * (5 - 1) + TAPS]
    how: dict[str, Any] = {"strides": [2], "dilations": [1], "begin": [0], "size": size, "group": group}
    exact = expected(name, oracle.transposed(x, w, bias=b if biased else None, **how), given)
    slope = np.abs(expected(name, np.ones((1, M, 1)), given) - expected(name, np.zeros((1, M, 1)), given))
    products = oracle.transposed(np.abs(x), np.abs(w), **how) * slope
    term = np.abs(expected(name, np.broadcast_to(b[:, None] if biased else 0.0, (1, M, 1)).astype(np.float64), given))
    half, single = float(ml_dtypes.finfo(dtype).eps) / 2, float(np.finfo(np.float32).eps)
    # Weights and bias are rounded once, sums in float32, the result once.
    bound = half * (products + term + np.abs(exact)) * 1.01 + (C * TAPS + 2) * single * (products + term)
    for way in ("native", "none"):
        (got,) = run(done.to_proto(), {"x": x}, way)
        assert got.dtype == dtype
        assert np.all(np.abs(got.astype(np.float64) - exact) <= bound), way
    if dtype == np.float32:
        assert_same(model, {"x": x}, ops=[CT])


@pytest.mark.parametrize("opset", [13, 14, 15, 21])
def test_a_decoder_of_a_gan(opset: int) -> None:
    """Several nodes one after the other, channels last, an activation behind; rounded once."""
    text = """g (float[N,H,W,4] x) => (float[N,P,Q,6] y) {
        t = Transpose <perm = [0, 3, 1, 2]> (x)
        c = ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1]> (t, w, b)
        n = BatchNormalization (c, scale, shift, mean, variance)
        u = Transpose <perm = [0, 2, 3, 1]> (n)
        m = Mul (u, row)
        a = Add (m, row)
        y = Relu (a)
    }"""
    given = {key: value for key, value in constants(np.float32).items() if key not in ("k", "two")}
    model = parsed(text, opset=opset, w=rand(4, 6, 4, 4), b=rand(6), row=rand(6), **given)
    done = assert_same(model, {"x": rand(2, 3, 4, 4)}, ops=[CT])
    assert done.outcomes[0].folded[1:] == (
        "BatchNormalization n into weights and bias",
        "Transpose u into y_perm",
        "Mul m into weights and bias",
        "Add a as bias",
        "Relu y as activation",
    )
    assert {entry.name for entry in done.to_proto().graph.initializer} == {"c/weights", "c/bias"}
    with_zero = parsed(text.replace(", b)", ")"), opset=opset, w=rand(4, 6, 4, 4), row=rand(6), **given)
    assert_same(with_zero, {"x": rand(1, 2, 3, 4)}, ops=[CT])


def test_a_factor_alone_adds_no_bias_and_weights_of_two_nodes_stay() -> None:
    model = parsed(
        """g (float[N,4,L] x) => (float[N,6,P] y, float[N,6,P] z) {
        c = ConvTranspose (x, w) y = Mul (c, k) z = ConvTranspose (x, w) }""",
        w=rand(4, 6, 3),
        k=constants(np.float32)["k"],
    )
    done = assert_same(model, {"x": rand(1, 4, 5)}, ops=[CT, CT])
    assert done.outcomes[0].folded == ("Mul y into weights",)
    assert {entry.name for entry in done.to_proto().graph.initializer} == {"w", "c/weights"}


KEPT = {
    "training": ("y, m, v = BatchNormalization <training_mode = 1> (c, k, k, k, p)", "it is in training mode"),
    "several outputs": ("y, m, v, o, q = BatchNormalization (c, k, k, k, p)", "it is in training mode"),
    "given": ("y = BatchNormalization (c, k, k, given, p)", "given is not a constant"),
    "used twice": ("y = Mul (c, s) z = Relu (c)", "c has 2 uses"),
    "behind an activation": ("r = Relu (c) y = Mul (r, s)", "there is an activation already"),
    "divided": ("y = Div (s, c)", "it divides by the result"),
    "by zero": ("y = Div (c, zero)", "a factor is not a finite number"),
    "negative variance": ("y = BatchNormalization (c, k, k, k, n)", "a factor is not a finite number"),
    "too large": ("y = Mul (c, large)", "would leave the range of FLOAT"),
    "too small": ("y = Mul (c, small)", "would leave the range of FLOAT"),
    "an endless bias": ("y = Add (c, endless)", "the bias would not be a finite number"),
}


@pytest.mark.parametrize(("text", "reason"), KEPT.values(), ids=KEPT)
def test_what_stays_and_why(text: str, reason: str) -> None:
    outputs = "float[1,6,P] y" + (", float[1,6,P] z" if "z =" in text else "")
    k, p = np.linspace(0.5, 1, 6, dtype=np.float32), np.ones(6, np.float32)
    numbers = {"large": 3e38, "small": 1e-39, "zero": 0.0, "endless": np.inf}
    model = parsed(
        f"g (float[1,4,5] x, float[6] given) => ({outputs}) {{ c = ConvTranspose (x, w) {text} }}",
        opset=13 if "m, v, o, q" in text else 21,
        w=np.full((4, 6, 3), 1.5, np.float32),
        s=rand(6, 1),
        k=k,
        p=p,
        n=-p,
        **{name: np.array(value, np.float32) for name, value in numbers.items()},
    )
    done = optimization(model)
    assert reason in " ".join(done.outcomes[0].kept)
    assert len(done.outcomes[0].folded) == text.startswith("r = Relu")
    if reason != "it is in training mode":
        x = rand(1, 4, 5)
        if reason == "it divides by the result":
            x = np.abs(x) + 1  # a sum near zero has a large relative error
        feeds = {"x": x, "given": np.zeros(6, np.float32)}
        for right, got in zip(stock(model, feeds), run(done.to_proto(), feeds, "native"), strict=True):
            np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-5)


def test_weights_and_biases_that_callers_give_stay() -> None:
    text = """g (float[N,4,L] x, float[4,6,3] w, float[6] b) => (float[N,6,P] y) {{
        c = ConvTranspose (x, {}) y = {} (c, k) }}"""
    feeds = {"x": rand(1, 4, 5), "w": rand(4, 6, 3), "b": rand(6)}
    for weights, op_type, reason in (
        ("w", "Mul", "the weights, w, are not a constant"),
        ("v, b", "Add", "there is a bias already, b, which is not a constant"),
    ):
        model = parsed(text.format(weights, op_type), k=constants(np.float32)["k"], v=rand(4, 6, 3))
        done = assert_same(model, feeds, ops=[CT, op_type])
        assert reason in done.outcomes[0].kept[0]


def test_a_bias_of_another_length_is_not_stretched() -> None:
    text = "g (float[1,4,5] x) => (float[1,6,P] y) { c = ConvTranspose <group = 2> (x, w, b) y = Mul (c, k) }"
    model = parsed(text, w=rand(4, 3, 3), b=rand(1), k=constants(np.float32)["k"])
    with pytest.raises(ortconv.CheckError, match=r"B has shape \[1\]; allowed: \[6\]"):
        optimization(model)


def test_a_normalization_of_rows_stays() -> None:
    model = parsed(
        """g (float[1,4,3,5] x) => (float[1,3,6,5] y) {
        c = ConvTranspose (x, w) t = Transpose <perm = [0, 2, 1, 3]> (c)
        y = BatchNormalization (t, one, one, one, one) }""",
        w=rand(4, 6, 1, 1),
        one=np.ones(3, np.float32),
    )
    done = assert_same(model, {"x": rand(1, 4, 3, 5)}, ops=[CT, "BatchNormalization"])
    assert "it normalizes a spatial axis" in done.outcomes[0].kept[0]


@pytest.mark.parametrize("half", [1e-6, 6e4])
def test_half_precision_weights_keep_their_precision(half: float) -> None:
    model = parsed(
        "g (float16[1,4,5] x) => (float16[1,6,7] y) { c = ConvTranspose (x, w) y = Mul (c, k) }",
        w=np.full((4, 6, 3), 2, np.float16),
        k=np.array(half, np.float16),
    )
    done = optimization(model)
    assert "would leave the range of FLOAT16" in done.outcomes[0].kept[0]


def test_numbers_in_constant_nodes() -> None:
    model = parsed(
        """g (float[1,4,5] x) => (float[1,6,7] y) { k = Constant <value_float = 0.5> ()
        c = ConvTranspose (x, w) y = Mul (c, k) }""",
        w=rand(4, 6, 3),
    )
    assert isinstance(model, onnx.ModelProto)
    assert_same(model, {"x": rand(1, 4, 5)}, ops=[CT])

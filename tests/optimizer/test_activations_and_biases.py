"""Activations and additions behind a node: which fold in."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from ortconv.optimizer import optimization
from tests.optimizer.models import CT, assert_same, parsed, rand

ACTIVATIONS = {
    "Relu": ("Relu (t)", [1, 0, np.inf]),
    "LeakyRelu": ("LeakyRelu (t)", [0.01, -np.inf, np.inf]),
    "LeakyRelu up": ("LeakyRelu <alpha = -1.5> (t)", [-1.5, -np.inf, np.inf]),
    "Clip": ("Clip (t, low, high)", [1, -0.5, 0.75]),
    "Clip below": ("Clip (t, low)", [1, -0.5, np.inf]),
    "Clip above": ("Clip (t, , high)", [1, -np.inf, 0.75]),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(("text", "activation"), ACTIVATIONS.values(), ids=ACTIVATIONS)
def test_activation(text: str, activation: list[float], dtype: Any) -> None:
    kind = {np.float32: "float", np.float16: "float16"}[dtype]
    model = parsed(
        f"g ({kind}[N,2,D] x) => ({kind}[N,3,E] y) {{ t = ConvTranspose <strides = [2]> (x, w) y = {text} }}",
        w=rand(2, 3, 3, dtype=dtype),
        low=np.array(-0.5, dtype),
        high=np.array(0.75, dtype),
    )
    done = assert_same(model, {"x": rand(1, 2, 4, dtype=dtype)}, {"x": rand(2, 2, 1, dtype=dtype)}, ops=[CT])
    (attribute,) = (each for each in done.to_proto().graph.node[0].attribute if each.name == "activation")
    np.testing.assert_array_equal(np.float32(attribute.floats), np.float32(activation))
    assert done.outcomes[0].folded == (f"{text.split()[0]} y as activation",)


@pytest.mark.parametrize("opset", [13, 17, 18])
def test_activations_fold_into_each_other_and_nodes_without_one_share_the_body(opset: int) -> None:
    text = """g (float[1,2,D,5] x) => (float[1,E,F,3] y, float[1,3,G,H] z) {
        t = ConvTranspose <strides = [2, 1]> (x, w)
        b = Add (t, bias)
        l = LeakyRelu <alpha = 0.2> (b)
        r = Clip (l, low, high)
        c = Clip (r, lower)
        y = Transpose <perm = [0, 2, 3, 1]> (c)
        z = ConvTranspose (x, w)
    }"""
    low, high, lower = (np.array(value, np.float32) for value in (-0.5, 2, -0.25))
    model = parsed(text, opset=opset, w=rand(2, 3, 2, 3), bias=rand(3, 1, 1), low=low, high=high, lower=lower)
    done = assert_same(model, {"x": rand(1, 2, 4, 5)}, {"x": rand(1, 2, 1, 5)}, ops=[CT, CT])
    assert len(done.outcomes[0].folded) == 5
    found = [
        [round(value, 6) for each in node.attribute if each.name == "activation" for value in each.floats]
        for node in done.to_proto().graph.node
    ]
    assert found == [[0.2, -0.25, 2], [1, -np.inf, np.inf]]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("r = Relu (t) y = LeakyRelu (r)", "LeakyRelu y: there is an activation already"),
        ("r = Relu (t) y = Add (r, bias)", "Add y: there is an activation already"),
        ("l = Clip (t, one) y = Pad (l, ends)", "ours would clip that, too"),
        ("l = Clip (t, one) y = Clip (l, , minus)", "no number is at least 1.0 and at most -1.0"),
        ("y = Clip (t, given)", "given is not a constant"),
        ("y = Clip (t, no_number)", "no_number is not a number"),
    ],
)
def test_activations_that_do_not_fold_in(text: str, reason: str) -> None:
    one, minus, no_number = (np.array(value, np.float32) for value in (1, -1, np.nan))
    model = parsed(
        f"g (float[1,2,D] x, float given) => (float[1,3,E] y) {{ t = ConvTranspose (x, w) {text} }}",
        w=rand(2, 3, 3), bias=rand(3, 1), one=one, minus=minus, no_number=no_number, ends=[0, 0, 0, 0, 0, 2],
    )  # fmt: skip
    done = optimization(model)
    assert reason in done.outcomes[0].kept[0]
    if "no_number" not in text:
        assert_same(model, {"x": rand(1, 2, 4), "given": np.array(0.1, np.float32)})


def test_slope_that_is_no_finite_number_stays() -> None:
    model = parsed(
        "g (float[1,2,D] x) => (float[1,3,E] y) { t = ConvTranspose (x, w) y = LeakyRelu (t) }", w=rand(2, 3, 3)
    )
    model.graph.node[1].attribute.append(onnx.helper.make_attribute("alpha", np.inf))
    done = assert_same(model, {"x": rand(1, 2, 4)}, ops=[CT, "LeakyRelu"])
    assert done.outcomes[0].kept == ("LeakyRelu y: alpha = inf",)


BIASES = {"[M,1,1]": (3, 1, 1), "[1,M,1,1]": (1, 3, 1, 1), "[1]": (1,), "scalar": ()}


@pytest.mark.parametrize("shape", BIASES.values(), ids=BIASES)
@pytest.mark.parametrize("swapped", [False, True])
def test_add_becomes_the_bias(shape: tuple[int, ...], swapped: bool) -> None:
    model = parsed(
        "g (float[N,2,H,W] x) => (float[N,3,P,Q] y) { c = ConvTranspose <strides = [2, 2]> (x, w)\n"
        f"y = Add ({'a, c' if swapped else 'c, a'}) }}",
        w=rand(2, 3, 3, 3),
        a=rand(*shape),
    )
    done = assert_same(model, {"x": rand(2, 2, 3, 4)}, ops=[CT])
    assert done.outcomes[0].folded == ("Add y as bias",)
    assert [entry.name for entry in done.to_proto().graph.initializer] == ["w", "c/bias"]


@pytest.mark.parametrize("shape", [(3,), (1, 1, 3), (1, 1, 1, 3)])
def test_add_behind_channels_last(shape: tuple[int, ...]) -> None:
    model = parsed(
        """g (float[N,H,W,2] x) => (float[N,P,Q,3] y) {
        t = Transpose <perm = [0, 3, 1, 2]> (x)
        c = ConvTranspose <strides = [2, 2]> (t, w)
        u = Transpose <perm = [0, 2, 3, 1]> (c)
        y = Add (u, a) }""",
        w=rand(2, 3, 3, 3),
        a=rand(*shape),
    )
    done = assert_same(model, {"x": rand(2, 3, 4, 2)}, ops=[CT])
    assert done.outcomes[0].folded == ("Transpose t into x_perm", "Transpose u into y_perm", "Add y as bias")


@pytest.mark.parametrize(
    ("added", "kept"),
    [
        ((1, 5, 1), "a is not known to have the shape of c"),
        ((3, 5, 7), "a is not known to have the shape of c"),
        ((1, 1, 3, 1, 1), "more axes"),
    ],
)
def test_add_that_is_no_bias_stays(added: tuple[int, ...], kept: str) -> None:
    result = "A,B,C,P,Q" if len(added) == 5 else "N,3,P,Q"
    model = parsed(
        f"g (float[N,2,2,3] x) => (float[{result}] y) {{\n"
        "c = ConvTranspose <strides = [2, 2]> (x, w)\ny = Add (c, a) }",
        w=rand(2, 3, 3, 3),
        a=rand(*added),
    )
    done = assert_same(model, {"x": rand(2, 2, 2, 3)}, ops=[CT, "Add"])
    assert kept in " ".join(done.outcomes[0].kept)


def test_a_channel_that_add_enlarges_stays() -> None:
    model = parsed(
        "g (float[N,2,L] x) => (float[N,4,P] y) { c = ConvTranspose (x, w)\ny = Add (c, a) }",
        w=rand(2, 1, 3),
        a=rand(4, 1),
    )
    assert_same(model, {"x": rand(2, 2, 3)}, ops=[CT, "Add"])


def test_a_bias_of_zeros_gives_way() -> None:
    model = parsed(
        "g (float[N,2,L] x) => (float[N,3,P] y) { c = ConvTranspose (x, w, b)\ny = Add (c, a) }",
        w=rand(2, 3, 3),
        b=np.zeros(3, np.float32),
        a=rand(3, 1),
    )
    assert_same(model, {"x": rand(2, 2, 3)}, ops=[CT])


@pytest.mark.parametrize("declared", ["a", "w"])
def test_an_initializer_that_may_be_overridden_is_no_constant(declared: str) -> None:
    model = parsed(
        f"g (float[N,2,L] x, float[{'3,1' if declared == 'a' else '2,3,3'}] {declared}) => (float[N,3,P] y) "
        '{ c = ConvTranspose <strides = [2], auto_pad = "SAME_UPPER"> (x, w)\ny = Add (c, a) }',
        w=rand(2, 3, 3),
        a=rand(3, 1),
    )
    shape = (3, 1) if declared == "a" else (2, 3, 3)
    ops = [CT, "Add"] if declared == "a" else [CT]
    assert_same(model, {"x": rand(1, 2, 3)}, {"x": rand(1, 2, 3), declared: rand(*shape)}, ops=ops)

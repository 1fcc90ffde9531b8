"""Adds of other results, as of skip connections."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from ortconv.optimizer import optimization
from tests.optimizer.models import ADD, CT, TO_SHAPE, assert_same, parsed, rand


def up(after: str, y: str = "float[2,3,6,8] y", r: str = "float[2,3,6,8] r", x: str = "float[2,4,3,4] x") -> str:
    """A layer that doubles the size, and what comes after it."""
    return f"g ({x}, {r}) => ({y}) {{ c = ConvTranspose <strides = [2, 2]> (x, w)\n{after} }}"


def feeds(dtype: Any = np.float32) -> dict[str, np.ndarray]:
    return {"x": rand(2, 4, 3, 4, dtype=dtype), "r": rand(2, 3, 6, 8, dtype=dtype)}


@pytest.mark.parametrize("swapped", [False, True])
def test_add_of_an_input(swapped: bool) -> None:
    model = parsed(up(f"y = Add ({'r, c' if swapped else 'c, r'})"), w=rand(4, 3, 2, 2))
    done = assert_same(model, feeds(), ops=[ADD])
    assert done.outcomes[0].folded == ("Add y as residual",)
    assert done.outcomes[0].becomes == "TransposedConvolutionAdd"


@pytest.mark.parametrize(
    ("text", "folded"),
    [
        ("s = Add (c, r) y = Relu (s)", ("Add s as residual", "Relu y as activation")),
        ("s = Add (r, c) y = Clip (s, low, high)", ("Add s as residual", "Clip y as activation")),
        ("b = Add (c, bias) s = Add (b, r) y = LeakyRelu (s)",
         ("Add b as bias", "Add s as residual", "LeakyRelu y as activation")),
    ],
)  # fmt: skip
def test_what_stands_before_and_after(text: str, folded: tuple[str, ...]) -> None:
    low, high = np.array(-0.5, np.float32), np.array(0.75, np.float32)
    model = parsed(up(text), w=rand(4, 3, 2, 2), bias=rand(3, 1, 1), low=low, high=high)
    done = assert_same(model, feeds(), ops=[ADD])
    assert done.outcomes[0].folded == folded


def test_float16() -> None:
    text = up("s = Add (c, r) y = Relu (s)").replace("float[", "float16[")
    assert_same(parsed(text, w=rand(4, 3, 2, 2, dtype=np.float16)), feeds(np.float16), ops=[ADD])


@pytest.mark.parametrize("opset", [13, 14, 15, 17, 18, 25])
def test_opsets(opset: int) -> None:
    model = parsed(up("s = Add (c, r) y = Relu (s)"), opset=opset, w=rand(4, 3, 2, 2), b=rand(3))
    model.graph.node[0].input.append("b")
    assert_same(model, feeds(), ops=[ADD])


def test_layouts_before_the_add() -> None:
    model = parsed(
        """g (float[2,3,4,5] x, float[2,6,8,3] r) => (float[2,6,8,3] y) {
        t = Transpose <perm = [0, 3, 1, 2]> (x)
        c = ConvTranspose <strides = [2, 2]> (t, w)
        u = Transpose <perm = [0, 2, 3, 1]> (c)
        y = Add (u, r) }""",
        w=rand(5, 3, 2, 2),
    )
    assert_same(model, {"x": rand(2, 3, 4, 5), "r": rand(2, 6, 8, 3)}, ops=[ADD])


def test_crop_before_the_add() -> None:
    model = parsed(
        up("d = Slice (c, s, e, i) y = Add (d, r)", y="float[2,3,5,7] y", r="float[2,3,5,7] r"),
        w=rand(4, 3, 2, 2), s=[0, 1], e=[-1, 9], i=[2, 3],
    )  # fmt: skip
    assert_same(model, feeds() | {"r": rand(2, 3, 5, 7)}, ops=[ADD])


def test_a_constant_of_the_size_of_the_result() -> None:
    model = parsed(up("y = Add (c, k)", r="float[1] r"), w=rand(4, 3, 2, 2), k=rand(2, 3, 6, 8))
    assert_same(model, {"x": rand(2, 4, 3, 4), "r": rand(1)}, ops=[ADD])


def test_u_net_with_a_batch_of_any_size() -> None:
    """The skip is an older result, and is computed after the layer in the file's order; other layers have no skip."""
    model = parsed(
        """g (float[N,3,16,24] x) => (float[N,2,16,24] y) {
        a = Conv <pads = [1, 1, 1, 1]> (x, wa)
        s = Relu (a)
        p = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (s)
        d = Conv <pads = [1, 1, 1, 1]> (p, wd)
        u = ConvTranspose <strides = [2, 2]> (d, wu)
        n = BatchNormalization (s, one, zero, zero, one)
        e = Add (n, u)
        f = Relu (e)
        y = ConvTranspose <pads = [1, 1, 1, 1]> (f, wy) }""",
        wa=rand(8, 3, 3, 3) / 5, wd=rand(16, 8, 3, 3) / 9, wu=rand(16, 8, 2, 2) / 4, wy=rand(8, 2, 3, 3) / 9,
        one=np.ones(8, np.float32), zero=np.zeros(8, np.float32),
    )  # fmt: skip
    ops = ["Conv", "Relu", "MaxPool", "Conv", "BatchNormalization", ADD, CT]
    done = assert_same(model, {"x": rand(1, 3, 16, 24)}, {"x": rand(3, 3, 16, 24)}, ops=ops)
    assert done.outcomes[0].folded == ("Add e as residual", "Relu f as activation")


def test_one_layer_adds_the_result_of_another() -> None:
    model = parsed(
        """g (float[2,4,3,4] x) => (float[2,3,6,8] y) {
        c = ConvTranspose <strides = [2, 2]> (x, w)
        d = ConvTranspose <strides = [2, 2]> (x, v)
        y = Add (c, d) }""",
        w=rand(4, 3, 2, 2), v=rand(4, 3, 2, 2),
    )  # fmt: skip
    done = assert_same(model, {"x": rand(2, 4, 3, 4)}, ops=[CT, ADD])
    assert {outcome.becomes for outcome in done.outcomes} == {"TransposedConvolution", "TransposedConvolutionAdd"}


@pytest.mark.parametrize(
    ("text", "ops", "reason"),
    [
        pytest.param(up("y = Add (c, r)", r="float[1,3,1,1] r"), [CT, "Add"], "r is not known", id="broadcast"),
        pytest.param(up("y = Add (c, r)", r="float[3,6,8] r"), [CT, "Add"], "r is not known", id="fewer axes"),
        pytest.param(up("y = Add (c, r)", "float[2,3,6,Q] y", "float[2,3,6,8] r", "float[2,4,3,W] x"), [CT, "Add"],
                     "r is not known to have the shape of c", id="unknown width"),
        pytest.param(up("y = Add (c, r)", "float[A,3,6,8] y", "float[M,3,6,8] r", "float[N,4,3,4] x"), [CT, "Add"],
                     "r is not known to have the shape of c", id="two names"),
        pytest.param(up("y = Add (c, c)"), [CT, "Add"], "c has 2 uses", id="itself"),
        pytest.param(up("t = Tanh (c) y = Add (c, t)"), [CT, "Tanh", "Add"], "c has 2 uses", id="what follows from it"),
        pytest.param(up("y = Add (c, r)", "float[2,3,6,8] y, float[2,3,6,8] c"), [CT, "Add"],
                     "c is an output of its graph", id="output"),
        pytest.param(up("t = Relu (c) y = Add (t, r)"), [CT, "Add"], "an activation already", id="behind a Relu"),
        pytest.param(up("s = Add (c, r) y = Add (s, r)"), [ADD, "Add"], "a residual already", id="two"),
        pytest.param(up("s = Add (c, r) y = Add (s, k)"), [ADD, "Add"], "ours adds its bias before that", id="bias"),
        pytest.param(up("s = Add (c, r) y = Transpose <perm = [0, 2, 3, 1]> (s)", "float[2,6,8,3] y"),
                     [ADD, "Transpose"], "Transpose y: it stands behind an Add of r", id="transpose"),
        pytest.param(up("s = Add (c, r) y = Pad (s, ends)", "float[2,3,6,9] y"), [ADD, "Pad"],
                     "Pad y: it stands behind an Add of r", id="pad"),
        pytest.param(up("s = Add (c, r) y = Slice (s, i, j, h)", "float[2,3,5,8] y"), [ADD, "Slice"],
                     "Slice y: it stands behind an Add of r", id="crop"),
        pytest.param(up("y = Add (c, r)").replace("<", "<output_shape = [6, 8], "), [TO_SHAPE, "Add"],
                     "ours with an output_shape has no input for it", id="output_shape"),
    ],
)  # fmt: skip
def test_adds_that_stay(text: str, ops: list[str], reason: str) -> None:
    model = parsed(text, w=rand(4, 3, 2, 2), k=rand(3, 1, 1), ends=[0] * 7 + [1], i=[0], j=[5], h=[2])
    shapes = {value.name: [d.dim_value or 2 for d in value.type.tensor_type.shape.dim] for value in model.graph.input}
    if "W] x" in text:
        shapes["x"][3] = 4
    done = assert_same(model, {name: rand(*shape) for name, shape in shapes.items()}, ops=ops)
    assert reason in " ".join(done.outcomes[0].kept)


def test_sizes_of_which_neither_is_known_are_not_the_same() -> None:
    model = parsed(up("y = Add (c, r)", "float[2,3,6,?] y", "float[2,3,6,?] r", "float[2,4,3,?] x"), w=rand(4, 3, 2, 2))
    x = rand(2, 4, 3, 4)
    assert_same(model, {"x": x, "r": rand(2, 3, 6, 8)}, {"x": x, "r": rand(2, 3, 6, 1)}, ops=[CT, "Add"])


def test_no_add_where_a_layer_misleads_shape_inference() -> None:
    """One whose size onnx and ONNX Runtime compute in different ways: nothing that may follow from it is certain."""
    model = parsed(
        up("p = ConvTranspose <auto_pad = \"SAME_UPPER\", strides = [2, 2]> (x, w) q = Relu (p) y = Add (c, q)"),
        w=rand(4, 3, 2, 2),
    )  # fmt: skip
    done = optimization(model)
    assert "q is not known to have the shape of c" in " ".join(done.outcomes[0].kept)
    assert_same(model, feeds())


def test_stated_shapes_are_not_believed() -> None:
    model = parsed(up("m = Reshape (r, s) y = Add (c, m)", r="float[288] r, int64[4] s"), w=rand(4, 3, 2, 2))
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("m", 1, [2, 3, 6, 8]))
    assert "m is not known to have the shape of c" in " ".join(optimization(model).outcomes[0].kept)


def test_inside_a_branch() -> None:
    model = parsed(
        """g (float[2,4,3,4] x, float[2,3,6,8] r, bool b) => (float[2,3,6,8] y) {
        y = If (b) <
          then_branch = t () => (float[2,3,6,8] s) { c = ConvTranspose <strides = [2, 2]> (x, w) s = Add (c, r) },
          else_branch = e () => (float[2,3,6,8] i) { i = Identity (r) }
        > }""",
        w=rand(4, 3, 2, 2),
    )
    done = assert_same(
        model, feeds() | {"b": np.array(True)}, feeds() | {"b": np.array(False)}, ops=["If", CT, "Add", "Identity"]
    )
    assert "r is not known to have the shape of c" in " ".join(done.outcomes[0].kept)

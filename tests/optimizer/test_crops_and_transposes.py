"""Crops, padding and transposes around a node: which fold in."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from ortconv.optimizer import optimization
from tests.optimizer.models import CT, assert_same, op_types, parsed, rand


def after(node: str, *, conv: str = "strides = [2, 2]", x: str = "N,2,H,W", **tensors: Any) -> onnx.ModelProto:
    return parsed(
        f"g (float[{x}] x) => (float[A,B,C,D] y) {{ c = ConvTranspose <{conv}> (x, w)\n{node} }}",
        w=rand(2, 3, 3, 3),
        **tensors,
    )


FEED = {"x": rand(2, 2, 3, 4)}


@pytest.mark.parametrize(
    ("node", "conv", "x", "tensors"),
    [
        ("y = Slice (c, s, e, a)", "strides = [2, 2]", "N,2,H,W", {"s": [1, 1], "e": [-1, -2], "a": [2, 3]}),
        ("y = Slice (c, s, e, a, o)", "strides = [2, 2]", "N,2,H,W", {"s": [1], "e": [1 << 40], "a": [-1], "o": [1]}),
        ("y = Slice (c, s, e)", "strides = [2, 2]", "N,2,3,4", {"s": [0, 0, 1, -6], "e": [1 << 62, 1 << 62, 5, -1]}),
        ("y = Slice (c, s, e, a)", "strides = [2, 2]", "N,2,3,W", {"s": [0], "e": [6], "a": [2]}),
        ("y = Slice (c, s, e, a)", "strides = [2, 2]", "N,2,3,W", {"s": [2], "e": [99], "a": [2]}),
        ("y = Slice (c, s, e, a)", "strides = [2, 2]", "N,2,3,4", {"s": [-99], "e": [5], "a": [3]}),
        ("y = Pad (c, p)", "strides = [2, 2]", "N,2,H,W", {"p": [0, 0, 0, 0, 0, 0, 2, 5]}),
        ("y = Pad (c, p, , a)", "strides = [2, 2]", "N,2,H,W", {"p": [0, 3], "a": [-1]}),
        ("y = Pad (c, p, v)", "strides = [2, 2]", "N,2,H,W", {"p": [0] * 7 + [1], "v": np.zeros((), np.float32)}),
        ("y = Pad (c, p)", "strides = [2, 2]", "N,2,H,W", {"p": [0, 0, -1, 0, 0, 0, -1, 2]}),
        (
            "y = Pad (c, p)",
            "strides = [2, 2], pads = [1, 1, 1, 1], output_padding = [1, 1]",
            "N,2,H,W",
            {"p": [0, 0, 0, 0, 0, 0, 1, 1]},
        ),
    ],
)
def test_crops_and_end_padding_fold(node: str, conv: str, x: str, tensors: dict[str, Any]) -> None:
    done = assert_same(after(node, conv=conv, x=x, **tensors), FEED, ops=[CT])
    assert len(done.outcomes[0].folded) == 1
    assert [entry.name for entry in done.to_proto().graph.initializer] == ["w"]


ZERO_END = {"p": [0, 0, 0, 0, 0, 0, 1, 1]}


@pytest.mark.parametrize(
    ("node", "conv", "tensors", "kept"),
    [
        ("y = Slice (c, s, e, a, o)", "strides = [2, 2]", {"s": [0], "e": [9], "a": [2], "o": [2]}, "steps are [2]"),
        ("y = Slice (c, s, e, a)", "strides = [2, 2]", {"s": [0], "e": [4], "a": [2]}, "ends at 4"),
        ("y = Slice (c, s, e, a)", "strides = [2, 2]", {"s": [-3], "e": [9], "a": [2]}, "start -3"),
        ("y = Slice (c, s, e, a)", "strides = [2, 2]", {"s": [0], "e": [1], "a": [1]}, "batch or channels"),
        (
            "y = Slice (c, s, e, a)",
            "strides = [2, 2]",
            {"s": [2], "e": [-2], "a": [2]},
            "more than a small input gives",
        ),
        (
            "y = Slice (c, s, e, a)",
            "strides = [2, 2], output_shape = [7, 9]",
            {"s": [1], "e": [-1], "a": [2]},
            "an output_shape",
        ),
        ("y = Pad (c, p)", "strides = [2, 2], pads = [1, 1, 1, 1]", ZERO_END, "that pads took off"),
        ("y = Pad (c, p)", "strides = [2, 2], output_shape = [7, 9]", ZERO_END, "an output_shape"),
        ("y = Pad (c, p)", "strides = [2, 2]", {"p": [0, 0, 1, 0, 0, 0, 0, 0]}, "in front"),
        ("y = Pad (c, p)", "strides = [2, 2]", {"p": [0, 0, 0, 0, 1, 0, 0, 0]}, "batch or channels"),
        ('y = Pad <mode = "edge"> (c, p)', "strides = [2, 2]", ZERO_END, "mode is edge"),
        ("y = Pad (c, p, v)", "strides = [2, 2]", {**ZERO_END, "v": np.ones((), np.float32)}, "not a constant zero"),
        ("q = Shape (c)\ny = Slice (c, s, q)", "strides = [2, 2]", {"s": [0, 0, 1, 1]}, "2 uses"),
        ("q = Shape (x)\ny = Slice (c, s, q)", "strides = [2, 2]", {"s": [0, 0, 1, 1]}, "not a constant"),
    ],
)
def test_what_is_not_exact_stays(node: str, conv: str, tensors: dict[str, Any], kept: str) -> None:
    done = assert_same(after(node, conv=conv, **tensors), FEED)
    (outcome,) = done.outcomes
    assert outcome.becomes
    assert outcome.folded == ()
    assert kept in outcome.kept[0]
    assert outcome.kept[0].startswith(("Slice y: ", "Pad y: "))
    assert op_types(done.to_proto().graph)[-1] in ("Slice", "Pad")


def test_crop_to_a_size_that_the_kernel_decides_stays() -> None:
    model = parsed(
        """g (float[1,2,3] x, float[2,3,K] w) => (float[A,B,C] y) {
        c = ConvTranspose <strides = [2]> (x, w)
        y = Slice (c, s, e, a) }""",
        s=[0], e=[5], a=[2],
    )  # fmt: skip
    done = assert_same(model, {"x": rand(1, 2, 3), "w": rand(2, 3, 3)}, {"x": rand(1, 2, 3), "w": rand(2, 3, 1)})
    assert "a size that is not known" in done.outcomes[0].kept[0]


def test_initializer_that_is_an_input_too_is_no_constant() -> None:
    model = parsed(
        """g (float[N,2,H,W] x, int64[1] s) => (float[A,B,C,D] y) {
        c = ConvTranspose <strides = [2, 2]> (x, w)
        y = Slice (c, s, e, a) }""",
        w=rand(2, 3, 3, 3), s=[1], e=[-1], a=[2],
    )  # fmt: skip
    assert_same(model, FEED, FEED | {"s": np.array([2])}, ops=[CT, "Slice"])


def test_pad_behind_a_bias_stays_and_before_it_folds() -> None:
    text = "g (float[N,2,L] x) => (float[N,3,P] y) { c = ConvTranspose (x, w)\n"
    tensors = {"w": rand(2, 3, 3), "a": rand(3, 1), "p": [0, 0, 0, 0, 0, 2]}
    done = assert_same(
        parsed(text + "d = Add (c, a)\ny = Pad (d, p) }", **tensors), {"x": rand(2, 2, 3)}, ops=[CT, "Pad"]
    )
    assert "has the bias there" in done.outcomes[0].kept[0]
    assert_same(parsed(text + "d = Pad (c, p)\ny = Add (d, a) }", **tensors), {"x": rand(2, 2, 3)}, ops=[CT])


AROUND_PADS = {
    "u": rand(3, 3, 2, 2),
    **{"p": [1, 1, 1, 1], "a": [2, 3], "q": [1, 1], "b": [-1], "f": [0, 0, 1, 1] * 2, "v": np.zeros((), np.float32)},
}


@pytest.mark.parametrize(
    ("between", "last", "left"),
    [
        ('z = Pad <mode = "reflect"> (c, p, , a)', "Transpose <perm = [0, 2, 3, 1]> (z)", [0]),
        ("r = Relu (c)\nz = Pad (r, p, v, a)", "ConvTranspose (z, u)", [0]),
        ("z = Pad (c, q, , b)", "Transpose <perm = [0, 1, 2, 3]> (z)", [0]),
        ("r = ConvTranspose (c, u)\nz = Pad (r, p, , a)", "Transpose <perm = [0, 2, 3, 1]> (z)", [1]),
        (
            "t = Transpose <perm = [0, 1, 3, 2]> (c)\nz = Pad (t, p, , a)\nr = Add (z, z)",
            "ConvTranspose (r, u)",
            [0, 1],
        ),
        ("t = Conv (c, u)\nz = Pad (t, p, , a)", "ConvTranspose (z, u)", []),
        ("z = Pad (c, p, , a)", "Relu (z)", []),
        ("z = Pad (c, p, , a)\nr = Conv (z, u)", "Transpose (r)", []),
        ("z = Pad (c, f)", "ConvTranspose (z, u)", []),
        ("z = Pad (c, f, v)", "Transpose <perm = [0, 2, 3, 1]> (z)", []),
    ],
)
def test_a_pad_of_some_axes_between_transposes(between: str, last: str, left: list[int]) -> None:
    """ONNX Runtime moves the Transpose at an end of a function body past it wrongly, if another undoes it."""
    done = assert_same(after(f"{between}\ny = {last}", **AROUND_PADS), FEED)
    assert [index for index, outcome in enumerate(done.outcomes) if not outcome.becomes] == left
    assert all("names its axes" in done.outcomes[index].reason for index in left)


def test_a_pad_of_some_axes_behind_a_transpose() -> None:
    model = parsed(
        "g (float[2,2,3,4] x) => (float[A,B,C,D] y) { t = Transpose <perm = [0, 1, 3, 2]> (x)\n"
        "z = Pad (t, p, , a)\ny = ConvTranspose (z, w) }",
        w=rand(2, 3, 3, 3), p=[1, 1, 1, 1], a=[2, 3],
    )  # fmt: skip
    (outcome,) = assert_same(model, FEED).outcomes
    assert "which stands in front, names its axes" in outcome.reason


def test_a_pad_of_some_axes_behind_a_node_of_ours() -> None:
    model = optimization(after("y = Identity (c)")).to_proto()
    behind = after("z = Pad (y, p, , a)\nlast = ConvTranspose (z, u)", **AROUND_PADS)
    model.graph.node.extend(behind.graph.node[1:])
    model.graph.initializer.extend(each for each in behind.graph.initializer if each.name != "w")
    model.graph.output[0].name = "last"
    (outcome,) = assert_same(model, FEED).outcomes
    assert "which stands in front, names its axes" in outcome.reason


@pytest.mark.parametrize("perm", [[0, 3, 1, 2], [3, 2, 1, 0], [1, 0, 2, 3], [2, 3, 1, 0]])
def test_transposes_of_any_kind_fold(perm: list[int]) -> None:
    shape = [0] * 4
    for axis, size in zip(perm, (2, 2, 3, 4), strict=True):
        shape[axis] = size
    declared = ",".join("NABC"[axis] for axis in range(4))
    model = parsed(
        f"g (float[{declared}] x) => (float[P,Q,R,S] y) {{ t = Transpose <perm = {perm}> (x)\n"
        "v = Transpose <perm = [3, 2, 1, 0]> (w)\nc = ConvTranspose <strides = [2, 1]> (t, v)\ny = Transpose (c) }",
        w=rand(3, 2, 3, 2),
    )
    done = assert_same(model, {"x": rand(*shape)}, ops=[CT])
    assert len(done.outcomes[0].folded) == 3
    assert done.outcomes[0].name == "c"

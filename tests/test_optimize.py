"""Optimizing ONNX models: what each ConvTranspose becomes, and that ONNX Runtime's answers stay what they were."""

from __future__ import annotations

import itertools
import json
import pathlib
import re
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import ortconv
from ortconv.functions import CAST_LIKE
from ortconv.optimization import Optimization, optimize
from tests.cli import run_cli
from tests.running import WAYS, run

OURS = "ortconv:"
README = pathlib.Path(__file__).parents[1] / "README.md"
_RNG = np.random.default_rng(7)


def rand(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return _RNG.standard_normal(shape).astype(dtype)


def parsed(text: str, opset: int = 21, ir: int = 10, **tensors: np.ndarray | list[int]) -> onnx.ModelProto:
    """Parses a graph in ONNX's text format and adds initializers; lists are int64."""
    model = onnx.parser.parse_model(f'<ir_version: {ir}, opset_import: ["": {opset}]>\n{text}')
    for node in model.graph.node:
        node.ClearField("domain")  # The parser writes an empty one.
    for name, data in tensors.items():
        array = np.array(data, np.int64) if isinstance(data, list) else data
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, name))
    return model


def stock(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def op_types(graph: onnx.GraphProto) -> list[str]:
    """Returns the op types in order, ours marked, and those of subgraphs after their node."""
    found = []
    for node in graph.node:
        found.append((OURS if node.domain else "") + node.op_type)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                found += op_types(attribute.g)
    return found


def assert_same(model: onnx.ModelProto, *feeds: dict[str, np.ndarray], ops: list[str] | None = None) -> Optimization:
    """Optimizes, compares op types, and compares every way to run the result with ONNX Runtime on the original."""
    before = model.SerializeToString(deterministic=True)
    done = optimize(model)
    assert model.SerializeToString(deterministic=True) == before
    result = done.to_proto()
    onnx.checker.check_model(result, full_check=True)
    if ops is not None:
        assert op_types(result.graph) == ops
    assert [value.name for value in result.graph.input] == [value.name for value in model.graph.input]
    assert [value.name for value in result.graph.output] == [value.name for value in model.graph.output]
    for each in feeds:
        expected = stock(model, each)
        for way in WAYS:
            if way == "python" and model.opset_import[0].version < CAST_LIKE:
                continue  # refused: see test_pyops
            for got, right in zip(run(result, each, way), expected, strict=True):
                assert got.dtype == right.dtype
                assert got.shape == right.shape, way
                half = right.dtype == np.float16
                np.testing.assert_allclose(
                    got.astype(np.float64),
                    right.astype(np.float64),
                    rtol=2e-3 if half else 1e-5,
                    atol=1e-2 if half else 1e-5,
                    err_msg=way,
                )
    again = optimize(result)
    assert again.to_proto().SerializeToString(deterministic=True) == result.SerializeToString(deterministic=True)
    return done


CT = "ortconv:ConvTranspose"
TO_SHAPE = "ortconv:ConvTransposeToShape"


@st.composite
def nodes(draw: st.DrawFn) -> tuple[onnx.ModelProto, dict[str, np.ndarray], str]:
    """Draws a model of one ConvTranspose, data for it, and the op that it becomes."""
    rank = draw(st.integers(1, 3))
    size = st.integers(1, 3 if rank == 3 else 5)
    ints = lambda least, most: [draw(st.integers(least, most)) for _ in range(rank)]  # noqa: E731
    strides, dilations, kernel = ints(1, 3), ints(1, 2), ints(1, 3)
    x = [draw(size) for _ in range(rank)]
    group, per_c, per_m = draw(st.sampled_from([(1, 2, 3), (2, 1, 2), (3, 1, 1), (2, 2, 1)]))
    op = [draw(st.integers(0, s - 1)) for s in strides]
    attributes: dict[str, Any] = {"strides": strides, "dilations": dilations, "group": group, "output_padding": op}
    auto_pad = draw(st.sampled_from(["", "NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"]))
    full = [s * (n - 1) + (k - 1) * d + 1 for s, n, k, d in zip(strides, x, kernel, dilations, strict=True)]
    becomes = CT
    if auto_pad:
        attributes["auto_pad"] = auto_pad
    if draw(st.booleans()):
        attributes["kernel_shape"] = kernel
    if draw(st.integers(0, 2)) == 0:
        attributes["output_shape"] = [draw(st.integers(max(n, 1), f + s - 1)) for n, f, s in zip(x, full, strides)]  # noqa: B905
        becomes = TO_SHAPE
    elif auto_pad in ("", "NOTSET"):
        attributes["pads"] = ints(0, 2) + ints(0, 2)
        pads = attributes["pads"]
        assume(all(f - pads[i] - pads[i + rank] + op[i] >= 1 for i, f in enumerate(full)))
    half, biased = draw(st.booleans()), draw(st.booleans())
    dtype = np.float16 if half else np.float32
    name = "float16" if half else "float"
    dims = ["N", str(group * per_c), *(draw(st.sampled_from([str(n), f"D{i}"])) for i, n in enumerate(x))]
    result = ", ".join(f"Y{i}" for i in range(rank + 2))
    text = f"g ({name}[{', '.join(dims)}] x) => ({name}[{result}] y)"
    text += f" {{ y = ConvTranspose (x, w{', b' if biased else ''}) }}"
    model = parsed(text, w=rand(group * per_c, per_m, *kernel, dtype=dtype))
    if biased:
        model.graph.initializer.append(onnx.numpy_helper.from_array(rand(group * per_m, dtype=dtype), "b"))
    for key, value in attributes.items():
        model.graph.node[0].attribute.append(onnx.helper.make_attribute(key, value))
    return model, {"x": rand(2, group * per_c, *x, dtype=dtype)}, becomes


@given(nodes())
@settings(max_examples=120, deadline=None, derandomize=True)
def test_a_node_is_what_onnx_runtime_computes(drawn: tuple[onnx.ModelProto, dict[str, np.ndarray], str]) -> None:
    model, feeds, becomes = drawn
    try:
        stock(model, feeds)
    except Exception:
        assume(False)
    assert_same(model, feeds, ops=[becomes])


@pytest.mark.parametrize(
    ("auto_pad", "stride", "kernel", "output_padding"),
    [
        case
        for case in itertools.product(("SAME_UPPER", "SAME_LOWER"), (1, 2, 4), (1, 2, 3), (0, 1))
        if case[3] < case[1]  # ONNX Runtime requires an output padding below the stride.
    ],
)
def test_same_needs_no_size(auto_pad: str, stride: int, kernel: int, output_padding: int) -> None:
    model = parsed(
        f"g (float[1,2,D] x) => (float[1,3,E] y) {{ y = ConvTranspose <strides = [{stride}], auto_pad = "
        f'"{auto_pad}", output_padding = [{output_padding}]> (x, w) }}',
        w=rand(2, 3, kernel),
    )
    assert_same(model, *({"x": rand(1, 2, n)} for n in (1, 2, 5)), ops=[CT])


@pytest.mark.parametrize("opset", range(13, 26))
def test_every_opset_that_is_allowed(opset: int) -> None:
    text = "g (float[1,2,D] x) => (float[1,3,E] y) { y = ConvTranspose <strides = [2]> (x, w) }"
    model = parsed(text, opset=opset, ir=7, w=rand(2, 3, 3))
    done = assert_same(model, {"x": rand(1, 2, 4)}, ops=[CT])
    assert done.to_proto().ir_version == 8
    shaped = parsed(text.replace("[2]>", "[2], output_shape = [8]>"), opset=opset, ir=9, w=rand(2, 3, 3))
    done = assert_same(shaped, {"x": rand(1, 2, 4)}, ops=["ConvTranspose"] if opset < 19 else [TO_SHAPE])
    assert done.to_proto().ir_version == 9
    if opset < 19:
        assert "needs opset 19" in done.outcomes[0].reason


@pytest.mark.parametrize("opset", range(13, 18))
def test_old_opsets_with_everything_that_folds_in(opset: int) -> None:
    text = """g (float[N,2,D,5] x) => (float[N,3,E,F] y) {
        p = Pad (x, zeros)
        t = ConvTranspose <strides = [2, 3], pads = [1, 0, 0, 2], group = 1> (p, w)
        s = Slice (t, starts, ends, axes)
        y = Add (s, bias)
    }"""
    zeros = [0, 0, 1, 0, 0, 0, 0, 1]
    model = parsed(
        text, opset=opset, ir=7, w=rand(2, 3, 3, 2), zeros=zeros, starts=[1], ends=[-1], axes=[2], bias=rand(3, 1, 1)
    )
    done = assert_same(model, {"x": rand(1, 2, 4, 5)}, {"x": rand(3, 2, 1, 5)})
    assert "Add" in done.outcomes[0].folded[-1]


@pytest.mark.parametrize("opset", range(13, 18))
def test_half_needs_castlike(opset: int) -> None:
    text = "g (float16[1,2,D] x) => (float16[1,3,E] y) { y = ConvTranspose <strides = [2]> (x, w) }"
    model = parsed(text, opset=opset, ir=7, w=rand(2, 3, 3, dtype=np.float16))
    done = assert_same(model, {"x": rand(1, 2, 4, dtype=np.float16)}, ops=["ConvTranspose"] if opset < 15 else [CT])
    if opset < 15:
        assert "needs opset 15" in done.outcomes[0].reason


@pytest.mark.parametrize("opset", [1, 11, 12, 26])
def test_other_opsets_are_refused(opset: int) -> None:
    model = parsed("g (float[1,2,D] x) => (float[1,3,E] y) { y = ConvTranspose (x, w) }", opset=opset, w=rand(2, 3, 3))
    with pytest.raises(ortconv.ModelFormatError) as caught:
        optimize(model)
    assert caught.value.where == "opset_import"
    assert f"ai.onnx {opset} " in caught.value.problem
    assert "13 to 25" in caught.value.problem


def test_a_model_without_the_op_stays_what_it_is_at_any_opset() -> None:
    model = parsed("g (float[D] x) => (float[D] y) { y = Relu (x) }", opset=11, ir=6)
    assert optimize(model).to_proto() == model


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
    done = optimize(model)
    assert reason in done.outcomes[0].kept[0]
    if "no_number" not in text:
        assert_same(model, {"x": rand(1, 2, 4), "given": np.array(0.1, np.float32)})


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
    ("bias", "added", "dtype", "kept"),
    [
        ("b", (3, 1, 1), np.float32, "a bias already"),
        ("", (3, 1, 1), np.float16, "float16 rounds"),
        ("", (1, 5, 1), np.float32, ""),
        ("", (3, 5, 7), np.float32, ""),
        ("", (1, 1, 3, 1, 1), np.float32, "more axes"),
    ],
)
def test_add_that_is_no_exact_bias_stays(bias: str, added: tuple[int, ...], dtype: Any, kept: str) -> None:
    name = "float16" if dtype == np.float16 else "float"
    result = "A,B,C,P,Q" if len(added) == 5 else "N,3,P,Q"
    model = parsed(
        f"g ({name}[N,2,2,3] x) => ({name}[{result}] y) {{ c = ConvTranspose <strides = [2, 2]> (x, w, {bias or ''})\n"
        "y = Add (c, a) }".replace(", )", ")"),
        w=rand(2, 3, 3, 3, dtype=dtype),
        a=rand(*added, dtype=dtype),
    )
    if bias:
        model.graph.initializer.append(onnx.numpy_helper.from_array(rand(3, dtype=dtype), "b"))
    else:
        del model.graph.node[0].input[2:]
    done = assert_same(model, {"x": rand(2, 2, 2, 3, dtype=dtype)}, ops=[CT, "Add"])
    assert kept in " ".join(done.outcomes[0].kept)
    assert bool(kept) == bool(done.outcomes[0].kept)


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


def test_pad_behind_a_bias_stays_and_before_it_folds() -> None:
    text = "g (float[N,2,L] x) => (float[N,3,P] y) { c = ConvTranspose (x, w)\n"
    tensors = {"w": rand(2, 3, 3), "a": rand(3, 1), "p": [0, 0, 0, 0, 0, 2]}
    done = assert_same(
        parsed(text + "d = Add (c, a)\ny = Pad (d, p) }", **tensors), {"x": rand(2, 2, 3)}, ops=[CT, "Pad"]
    )
    assert "has the bias there" in done.outcomes[0].kept[0]
    assert_same(parsed(text + "d = Pad (c, p)\ny = Add (d, a) }", **tensors), {"x": rand(2, 2, 3)}, ops=[CT])


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


def test_values_that_others_need_stay() -> None:
    model = parsed(
        """g (float[N,H,W,2] x) => (float[N,3,P,Q] y, float[N,2,H,W] t, float[N,P,Q,3] z) {
        t = Transpose <perm = [0, 3, 1, 2]> (x)
        c = ConvTranspose <strides = [2, 2]> (t, w)
        y = Relu (c)
        z = Transpose <perm = [0, 2, 3, 1]> (c) }""",
        w=rand(2, 3, 3, 3),
    )
    done = assert_same(model, {"x": rand(1, 3, 4, 2)}, ops=["Transpose", CT, "Relu", "Transpose"])
    assert done.outcomes[0].kept == (
        "Transpose t: t is an output of its graph",
        "Transpose z: c has 2 uses",
        "Relu y: c has 2 uses",
    )


@pytest.mark.parametrize("node", ["y = Add (c, a)", "y = Slice (c, s, e, i)", "y = Pad (c, p)", "y = Transpose (c)"])
def test_graph_outputs_in_the_middle_stay(node: str) -> None:
    model = parsed(
        f"g (float[N,2,L] x) => (float[A,B,C] y, float[A,B,C] c) {{ c = ConvTranspose (x, w)\n{node} }}",
        w=rand(2, 3, 3),
        a=rand(3, 1),
        s=[1],
        e=[-1],
        i=[2],
        p=[0, 0, 0, 0, 0, 2],
    )
    model.graph.output[0].type.tensor_type.ClearField("shape")
    model.graph.output[1].type.tensor_type.ClearField("shape")
    for output in model.graph.output:
        for name in "PQR" if output.name == "y" else "STU":
            output.type.tensor_type.shape.dim.add().dim_param = name
    done = assert_same(model, {"x": rand(2, 2, 3)}, ops=[CT, node.split()[2]])
    assert "c is an output of its graph" in done.outcomes[0].kept[0]


def test_a_chain_folds_completely() -> None:
    model = parsed(
        """g (float[N,H,W,2] x) => (float[N,P,Q,2] y) {
        t = Transpose <perm = [0, 3, 1, 2]> (x)
        c = ConvTranspose <strides = [2, 2]> (t, w)
        d = Slice (c, s, e, i)
        f = Add (d, a)
        r = Transpose <perm = [0, 2, 3, 1]> (f)
        k = Tanh (r)
        u = Transpose <perm = [0, 3, 1, 2]> (k)
        v = ConvTranspose <strides = [3, 1], output_padding = [2, 0]> (u, w2, b)
        y = Transpose <perm = [0, 2, 3, 1]> (v) }""",
        w=rand(2, 3, 3, 3),
        w2=rand(3, 2, 3, 3),
        b=rand(2),
        a=rand(3, 1, 1),
        s=[1, 1],
        e=[-1, -1],
        i=[2, 3],
    )
    assert_same(model, {"x": rand(1, 3, 4, 2)}, {"x": rand(2, 1, 1, 2)}, ops=[CT, "Tanh", CT])


def test_sizes_pass_from_node_to_node() -> None:
    model = parsed(
        """g (float[1,2,5] x) => (float[1,2,Q] y) {
        c = ConvTranspose <strides = [2], auto_pad = "SAME_UPPER"> (x, w)
        r = Tanh (c)
        d = ConvTranspose <strides = [2]> (r, w2)
        y = Slice (d, s, e, i) }""",
        w=rand(2, 3, 3),
        w2=rand(3, 2, 3),
        s=[1],
        e=[19],
        i=[2],
    )
    assert_same(model, {"x": rand(1, 2, 5)}, ops=[CT, "Tanh", CT])


def test_with_and_without_bias_in_one_model() -> None:
    model = parsed(
        "g (float[N,2,L] x) => (float[N,2,P] y) { c = ConvTranspose (x, w)\ny = ConvTranspose (c, v, b) }",
        w=rand(2, 3, 3),
        v=rand(3, 2, 2),
        b=rand(2),
    )
    assert_same(model, {"x": rand(2, 2, 3)}, ops=[CT, CT])


def test_a_node_of_ours_that_was_there_already() -> None:
    first = optimize(parsed("g (float[N,2,L] x) => (float[N,3,P] y) { y = ConvTranspose (x, w) }", w=rand(2, 3, 3)))
    model = first.to_proto()
    model.graph.node.extend(
        [
            onnx.helper.make_node("Tanh", ["y"], ["r"]),
            onnx.helper.make_node("ConvTranspose", ["r", "v", "b"], ["z"], strides=[2]),
        ]
    )
    model.graph.output[0].name = "z"
    model.graph.initializer.append(onnx.numpy_helper.from_array(rand(3, 3, 2), "v"))
    model.graph.initializer.append(onnx.numpy_helper.from_array(rand(3), "b"))
    assert_same(model, {"x": rand(2, 2, 3)}, ops=[CT, "Tanh", CT])


def test_a_transpose_between_two_nodes_folds_once() -> None:
    model = parsed(
        """g (float[N,2,L] x) => (float[P,Q,N] y) {
        c = ConvTranspose <strides = [2]> (x, w)
        t = Transpose <perm = [1, 0, 2]> (c)
        d = ConvTranspose <output_shape = [9]> (t, v, b)
        u = Transpose <perm = [1, 2, 0]> (d)
        y = Add (u, a) }""",
        w=rand(2, 2, 3),
        v=rand(2, 3, 3),
        b=np.zeros(3, np.float32),
        a=rand(3, 1, 1),
    )
    done = assert_same(model, {"x": rand(2, 2, 3)}, ops=[CT, TO_SHAPE])
    assert [len(outcome.folded) for outcome in done.outcomes] == [1, 2]


def test_an_empty_batch() -> None:
    model = parsed("g (float[N,2,L] x) => (float[N,3,P] y) { y = ConvTranspose (x, w) }", w=rand(2, 3, 3))
    assert_same(model, {"x": rand(0, 2, 4)}, ops=[CT])


def test_the_standard_domain_by_its_long_name() -> None:
    model = parsed("g (float[N,2,L] x) => (float[N,3,P] y) { y = ConvTranspose (x, w) }", w=rand(2, 3, 3))
    model.opset_import[0].domain = "ai.onnx"
    assert_same(model, {"x": rand(1, 2, 4)}, ops=[CT])


BRANCHES = """g (float[N,2,L] x, bool q) => (float[N,3,P] y) {
    o = ConvTranspose <strides = [2]> (x, w)
    y = If (q) <
        then_branch = yes () => (float[N,3,P] r) { c = ConvTranspose <strides = [2]> (x, w)  r = Add (c, a) },
        else_branch = no () => (float[N,3,P] r) { r = Add (o, a) }
    > }"""


@pytest.mark.parametrize("truth", [True, False])
def test_subgraphs(truth: bool) -> None:
    model = parsed(BRANCHES, w=rand(2, 3, 3), a=rand(3, 1))
    done = assert_same(model, {"x": rand(2, 2, 3), "q": np.array(truth)}, ops=[CT, "If", CT, "Add"])
    assert [outcome.folded for outcome in done.outcomes] == [(), ("Add r as bias",)]
    assert done.outcomes[0].kept == ("Add r: it stands in another graph",)


def test_nodes_in_functions_are_left() -> None:
    model = onnx.parser.parse_model(
        """<ir_version: 10, opset_import: ["": 21, "own": 1]>
        g (float[N,2,L] x, float[2,3,3] w) => (float[N,3,P] y) { y = own.up (x, w) }
        <opset_import: ["": 21], domain: "own"> up (p, q) => (r) { r = ConvTranspose (p, q) }"""
    )
    (outcome,) = assert_same(model, {"x": rand(1, 2, 3), "w": rand(2, 3, 3)}, ops=["ortconv:up"]).outcomes
    assert outcome.becomes == ""
    assert "in a function" in outcome.reason


@pytest.mark.parametrize(
    ("inputs", "attributes", "reason"),
    [
        ("double[1,2,L] x, double[2,3,3] w", "strides = [2]", "type is DOUBLE"),
        ("float[1,2,L] x, float[2,3,K] w", 'auto_pad = "SAME_LOWER"', "kernel is not known"),
        ("float[1,2,L] x, float[2,M,3] w", "strides = [2]", "output channels is not known"),
        (
            "float[1,2,A,B,C,D,E,F,G] x, float[2,3,1,1,1,1,1,1,1] w",
            "group = 1",
            "it has 7 spatial axes; allowed: 1 to 6",
        ),
    ],
)
def test_nodes_that_are_left(inputs: str, attributes: str, reason: str) -> None:
    result = inputs.partition("[")[0]
    rank = 9 if "G" in inputs else 3
    dims = ",".join(f"Y{axis}" for axis in range(rank))
    model = parsed(f"g ({inputs}) => ({result}[{dims}] y) {{ y = ConvTranspose <{attributes}> (x, w) }}")
    done = optimize(model)
    (outcome,) = done.outcomes
    assert (outcome.becomes, outcome.folded, done.rewritten) == ("", (), 0)
    assert reason in outcome.reason
    assert done.to_proto() == model


def test_weights_from_the_caller() -> None:
    model = parsed("g (float[1,2,L] x, float[2,M,K] w, float[3] b) => (float[1,3,P] y) { y = ConvTranspose (x, w, b) }")
    assert_same(model, {"x": rand(1, 2, 4), "w": rand(2, 3, 2), "b": rand(3)}, ops=[CT])


def test_names_and_metadata_are_kept() -> None:
    model = parsed(
        "g (float[N,2,L] x) => (float[N,3,P] y) { c = ConvTranspose (x, w)\nr = Add (c, a)\ny = Tanh (r) }",
        w=rand(2, 3, 3),
        a=rand(3, 1),
    )
    model.producer_name, model.doc_string, model.graph.doc_string = "maker", "about", "the graph"
    model.metadata_props.add(key="k", value="v")
    node = model.graph.node[0]
    node.name, node.doc_string = "decoder/up", "a node"
    node.metadata_props.add(key="scope", value="decoder")
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("r", 1, ["N", 3, "P"]))
    result = assert_same(model, {"x": rand(1, 2, 3)}, ops=[CT, "Tanh"]).to_proto()
    made = result.graph.node[0]
    assert (made.name, made.doc_string, list(made.output)) == ("decoder/up", "a node", ["r"])
    assert [(entry.key, entry.value) for entry in made.metadata_props] == [("scope", "decoder")]
    assert (result.producer_name, result.doc_string, result.graph.doc_string) == ("maker", "about", "the graph")
    assert [(entry.key, entry.value) for entry in result.metadata_props] == [("k", "v")]
    assert result.graph.output == model.graph.output
    assert result.graph.input == model.graph.input
    assert (result.ir_version, result.opset_import[0].version) == (10, 21)


def test_sizes_that_shape_inference_gets_wrong() -> None:
    text = (
        "g (float[1,2,5] x) => (float[1,3,P] y) { c = ConvTranspose "
        '<strides = [3], auto_pad = "SAME_UPPER", output_padding = [1]> (x, w)\ny = Tanh (c) }'
    )
    model = parsed(text, w=rand(2, 3, 4))
    model.graph.value_info.append(onnx.helper.make_tensor_value_info("c", 1, [1, 3, 16]))
    assert_same(model, {"x": rand(1, 2, 5)}, ops=[CT, "Tanh"])


def test_wrong_declarations_further_down_are_dropped() -> None:
    text = """g (float[1,2,5] x) => (float[1,3,P] y) {
        c = ConvTranspose <strides = [3], auto_pad = "SAME_UPPER", output_padding = [1]> (x, w)
        r = Tanh (c)
        d = Sigmoid (r)
        y = ConvTranspose <strides = [2]> (d, v) }"""
    model = onnx.shape_inference.infer_shapes(parsed(text, w=rand(2, 3, 4), v=rand(3, 3, 2)))
    declared = {entry.name: entry.type.tensor_type.shape.dim[2].dim_value for entry in model.graph.value_info}
    assert declared == {"c": 16, "r": 16, "d": 16}  # ONNX Runtime computes 15.
    model.graph.output[0].type.tensor_type.shape.dim[2].dim_param = "P"
    assert_same(model, {"x": rand(1, 2, 5)}, ops=[CT, "Tanh", "Sigmoid", CT])


def test_a_declared_output_that_contradicts_is_refused() -> None:
    model = parsed(
        'g (float[1,2,5] x) => (float[1,3,16] y) { y = ConvTranspose <strides = [3], auto_pad = "SAME_UPPER", '
        "output_padding = [1]> (x, w) }",
        w=rand(2, 3, 4),
    )
    with pytest.raises(ortconv.ModelFormatError) as caught:
        optimize(model)
    assert caught.value.where == "output y"
    assert "'16'" in caught.value.problem
    assert "'15'" in caught.value.problem


def test_nothing_reads_sizes_behind_a_node_that_misleads_shape_inference() -> None:
    model = parsed(
        """g (float[1,2,5] x, float[2,3,K] w) => (float[1,3,P] y) {
        c = ConvTranspose <strides = [3], auto_pad = "SAME_UPPER", output_padding = [1]> (x, w)
        y = ConvTranspose <strides = [2]> (c, v) }""",
        v=rand(3, 3, 2),
    )
    done = assert_same(model, {"x": rand(1, 2, 5), "w": rand(2, 3, 4)}, ops=["ConvTranspose"] * 2)
    assert "kernel is not known" in done.outcomes[0].reason
    assert "it may read from c" in done.outcomes[1].reason


@pytest.mark.parametrize("lossy", ["sparse_initializer", "training_info", "domain"])
def test_what_would_be_lost_is_refused(lossy: str) -> None:
    model = parsed("g (float[1,2,L] x) => (float[1,3,P] y) { y = ConvTranspose (x, w) }", w=rand(2, 3, 3))
    if lossy == "sparse_initializer":
        model.graph.sparse_initializer.add().dims.append(1)
    elif lossy == "training_info":
        model.training_info.add()
    else:
        model.opset_import.add(domain="org.ortconv", version=2)
    with pytest.raises(ortconv.ModelFormatError, match="allowed: "):
        optimize(model)


TEXT = (
    "g (float[N,4,H,W] x) => (float[N,2,P,Q] y) { c = ConvTranspose <strides = [2, 2]> (x, w)\n"
    "d = Slice (c, s, e, i)\ny = Add (d, a) }"
)


def saved(path: pathlib.Path, *, external: str | None = None) -> onnx.ModelProto:
    model = parsed(TEXT, w=rand(4, 2, 4, 4), a=rand(2, 1, 1), s=[1, 1], e=[-1, -1], i=[2, 3])
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    onnx.save(copy, path, save_as_external_data=external is not None, location=external, size_threshold=0)
    return model


def test_command(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    model = saved(tmp_path / "generator.onnx")
    result = run_cli("optimize", "generator.onnx", "-o", "faster.onnx", "--report", "report.json")
    assert result.exit_code == 0, result.stderr
    shown = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert shown == [
        "node becomes folded in left alone",
        "c org.ortconv ConvTranspose Slice d into pads; Add y as bias",
        "",
        "generator.onnx -> faster.onnx: 1 of 1 ConvTranspose node rewritten",
    ]
    feeds = {"x": rand(1, 4, 3, 5)}
    (got,) = run(onnx.load("faster.onnx"), feeds, "native")
    np.testing.assert_allclose(got, stock(model, feeds)[0], rtol=1e-5, atol=1e-5)
    report = json.loads(pathlib.Path("report.json").read_text(encoding="utf-8"))
    assert report["rewritten"] == 1
    assert report["nodes"] == [
        {
            "name": "c",
            "becomes": "ConvTranspose",
            "folded": ["Slice d into pads", "Add y as bias"],
            "kept": [],
            "reason": "",
        }
    ]
    assert not list(tmp_path.glob(".ortconv*"))
    assert not list(tmp_path.glob("*.data"))


def test_readme_shows_what_the_command_prints(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    saved(tmp_path / "generator.onnx")
    result = run_cli("optimize", "generator.onnx", "-o", "faster.onnx")
    block = re.search(r"^\$ ortconv optimize .*\n((?:.*\n)*?)```$", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert block is not None
    assert block[1] == result.stdout


def test_external_data_stays_external(tmp_path: pathlib.Path) -> None:
    model = saved(tmp_path / "big.onnx", external="weights.bin")
    (tmp_path / "out").mkdir()
    result = run_cli("optimize", tmp_path / "big.onnx", "-o", tmp_path / "out" / "fast.onnx")
    assert result.exit_code == 0, result.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["fast.onnx", "fast.onnx.data"]
    feeds = {"x": rand(1, 4, 3, 5)}
    (got,) = run(onnx.load(tmp_path / "out" / "fast.onnx"), feeds, "native")
    np.testing.assert_allclose(got, stock(model, feeds)[0], rtol=1e-5, atol=1e-5)
    light = onnx.load(tmp_path / "out" / "fast.onnx", load_external_data=False)
    assert {entry.name: entry.data_location for entry in light.graph.initializer}["w"] == onnx.TensorProto.EXTERNAL


@pytest.mark.parametrize(
    ("data", "out"), [(None, "m.onnx"), (None, "link.onnx"), ("f.onnx.data", "f.onnx"), ("d.bin", "d.bin")]
)
def test_files_of_the_model_are_not_overwritten(tmp_path: pathlib.Path, data: str | None, out: str) -> None:
    saved(tmp_path / "m.onnx", external=data)
    (tmp_path / "link.onnx").symlink_to("m.onnx")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    result = run_cli("optimize", tmp_path / "m.onnx", "-o", tmp_path / out)
    assert result.exit_code == 2
    assert "would overwrite another file of this call" in result.stderr
    with pytest.raises(ValueError, match="choose another output"):
        optimize(tmp_path / "m.onnx").save(tmp_path / out)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_failures_write_nothing(tmp_path: pathlib.Path) -> None:
    (tmp_path / "bad.onnx").write_bytes(b"\xff\xfe no model")
    old = parsed(TEXT, opset=12, w=rand(4, 2, 4, 4), a=rand(2, 1, 1), s=[1, 1], e=[-1, -1], i=[2, 3])
    onnx.save(old, tmp_path / "old.onnx")
    before = sorted(tmp_path.iterdir())
    for name, text in (("bad.onnx", "is not an ONNX model"), ("none.onnx", "cannot be read"), ("old.onnx", "13 to 25")):
        result = run_cli("optimize", tmp_path / name, "-o", tmp_path / "out.onnx", "--report", tmp_path / "r.json")
        assert result.exit_code == 1
        assert text in result.stderr
    assert sorted(tmp_path.iterdir()) == before
    result = run_cli("optimize", tmp_path / "old.onnx", "-o", tmp_path / "o.onnx", "--report", tmp_path / "o.onnx")
    assert result.exit_code == 1

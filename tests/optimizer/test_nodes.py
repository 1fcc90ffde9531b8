"""What one ConvTranspose becomes, for any attributes, types and opsets, and which nodes are left."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import ortconv
from ortconv.optimizer import optimization
from tests.optimizer.models import CT, TO_SHAPE, assert_same, parsed, rand, stock


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
@settings(max_examples=120, derandomize=True)
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
    done = assert_same(shaped, {"x": rand(1, 2, 4)}, ops=[TO_SHAPE])
    assert done.to_proto().ir_version == 9


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


@pytest.mark.parametrize("opset", [1, 6, 26])
def test_other_opsets_are_refused(opset: int) -> None:
    model = parsed("g (float[1,2,D] x) => (float[1,3,E] y) { y = ConvTranspose (x, w) }", opset=opset, w=rand(2, 3, 3))
    with pytest.raises(ortconv.ModelFormatError) as caught:
        optimization(model)
    assert caught.value.where == "opset_import"
    assert f"ai.onnx {opset} " in caught.value.problem
    assert "7 to 25" in caught.value.problem


def test_a_model_without_the_op_stays_what_it_is_at_any_opset() -> None:
    model = parsed("g (float[D] x) => (float[D] y) { y = Relu (x) }", opset=11, ir=6)
    assert optimization(model).to_proto() == model


def test_an_empty_batch() -> None:
    model = parsed("g (float[N,2,L] x) => (float[N,3,P] y) { y = ConvTranspose (x, w) }", w=rand(2, 3, 3))
    assert_same(model, {"x": rand(0, 2, 4)}, ops=[CT])


def test_the_standard_domain_by_its_long_name() -> None:
    model = parsed("g (float[N,2,L] x) => (float[N,3,P] y) { y = ConvTranspose (x, w) }", w=rand(2, 3, 3))
    model.opset_import[0].domain = "ai.onnx"
    assert_same(model, {"x": rand(1, 2, 4)}, ops=[CT])


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
    done = optimization(model)
    (outcome,) = done.outcomes
    assert (outcome.becomes, outcome.folded, done.rewritten) == ("", (), 0)
    assert reason in outcome.reason
    assert done.to_proto() == model


def test_weights_from_the_caller() -> None:
    model = parsed("g (float[1,2,L] x, float[2,M,K] w, float[3] b) => (float[1,3,P] y) { y = ConvTranspose (x, w, b) }")
    assert_same(model, {"x": rand(1, 2, 4), "w": rand(2, 3, 2), "b": rand(3)}, ops=[CT])

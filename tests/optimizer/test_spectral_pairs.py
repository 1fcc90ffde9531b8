"""Two layers, of the cosines and of the sines of one Fourier transform, become one node."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ortconv.optimizer import optimization
from tests.optimizer.bases import filters, hann, inverse_gains
from tests.optimizer.models import op_types, stock
from tests.optimizer.spectral_models import (
    BINS,
    COSINES,
    FORWARD,
    INVERSE,
    SINES,
    WAVE,
    N,
    added_up,
    assert_same,
    model,
    rand,
    transposed,
)
from tests.running import run


def pair(join: str, operands: list[str], *, mag: bool = True, scale: float = 1.0) -> onnx.ModelProto:
    """Returns a vocoder's end: magnitudes and phases, cosines and sines in two layers, and their sum or difference."""
    nodes = [
        helper.make_node("Cos", ["phase"], ["cos"]),
        helper.make_node("Sin", ["phase"], ["sin"]),
        helper.make_node("Exp", ["log"], ["mag"]),
        helper.make_node("Mul", ["mag", "cos"], ["re"]),
        helper.make_node("Mul", ["mag", "sin"], ["im"]),
        transposed("re", "a", "wr", pads=[16, 16]),
        transposed("im", "b", "wi", pads=[16, 16]),
        helper.make_node(join, operands, ["y"], name="join"),
    ]
    inputs: dict[str, Sequence[int | str]] = {"log": ["N", BINS, "T"], "phase": ["N", BINS, "T"]}
    if not mag:
        nodes, inputs = nodes[5:], {"re": ["N", BINS, "T"], "im": ["M", BINS, "U"]}
    return model(nodes, inputs, wr=COSINES[:, np.newaxis], wi=np.float32(scale) * SINES[:, np.newaxis])


@pytest.mark.parametrize("join", ["Add", "Sub"])
@pytest.mark.parametrize("operands", [["a", "b"], ["b", "a"]])
@pytest.mark.parametrize("scale", [1.0, -0.5])
def test_two_layers_become_one(join: str, operands: list[str], scale: float) -> None:
    feeds = {"log": rand(2, BINS, 9), "phase": rand(2, BINS, 9)}
    original = pair(join, operands, scale=scale)
    done = assert_same(original, feeds, ops=["Cos", "Sin", "Exp", "Mul", "Mul", INVERSE])
    first, second = done.outcomes
    assert first.folded == (f"ConvTranspose b_node and {join} join",)
    assert (second.becomes, second.folded) == ("InverseSTFT", ("into a_node",))
    node = done.to_proto().graph.node[-1]
    assert [node.input[0], node.input[3], node.output[0]] == ["re", "im", "y"]
    reverse = COSINES, np.float32(scale) * SINES
    signs = (1, -1) if join == "Sub" else (1, 1)
    one, other = signs if operands[0] == "a" else signs[::-1]
    mag = np.exp(feeds["log"].astype(np.float64))
    phase = feeds["phase"].astype(np.float64)
    expected = one * added_up(mag * np.cos(phase), reverse[0], 8) + other * added_up(mag * np.sin(phase), reverse[1], 8)
    (got,) = run(done.to_proto(), feeds, "none")
    np.testing.assert_allclose(got, expected[:, :, 16:-16], rtol=0, atol=1e-5)


def test_two_layers_whose_frames_may_differ() -> None:
    done = assert_same(
        pair("Add", ["a", "b"], mag=False),
        {"re": rand(1, BINS, 9), "im": rand(3, BINS, 9)},
        ops=[INVERSE, INVERSE, "Add"],
    )
    assert [outcome.folded for outcome in done.outcomes] == [(), ()]


@pytest.mark.parametrize("other", [None, "data", "axis", "indices"])
def test_two_layers_of_parts_that_are_gathered(other: str | None) -> None:
    """As exporters write `z[:, 0]` and `z[:, 1]` of a spectrum [N, 2, F, T] whose sizes are not known."""
    data, axis, index = ("u" if other == "data" else "z"), (3 if other == "axis" else 1), np.array(1)
    nodes = [
        helper.make_node("Gather", ["z", "first"], ["re"], axis=1),
        helper.make_node("Gather", [data, "second"], ["im"], axis=axis),
        transposed("re", "a", "wr"),
        transposed("im", "b", "wi"),
        helper.make_node("Add", ["a", "b"], ["y"], name="join"),
    ]
    if other == "indices":
        nodes[1:2] = [
            helper.make_node("Gather", [data, "second"], ["part"], axis=1),
            helper.make_node("Squeeze", ["part", "one"], ["im"]),
        ]
        index = np.array([1])
    unknown: Any = [None] * 4
    tensors = {"first": np.array(0), "second": index} | ({"one": np.array([1])} if other == "indices" else {})
    original = model(
        nodes,
        {"z": unknown} | ({"u": unknown} if other == "data" else {}),
        wr=COSINES[:, np.newaxis],
        wi=SINES[:, np.newaxis],
        **tensors,
    )
    feeds = {"z": rand(2, BINS, BINS, BINS) if other == "axis" else rand(2, 2, BINS, 9)}
    feeds |= {"u": rand(2, 2, BINS, 9)} if other == "data" else {}
    gathers = [node.op_type for node in nodes if node.op_type in ("Gather", "Squeeze")]
    assert_same(original, feeds, ops=[*gathers, INVERSE] if other is None else [*gathers, INVERSE, INVERSE, "Add"])


def test_two_layers_of_one_model_do_not_share_what_others_read() -> None:
    original = pair("Add", ["a", "b"])
    original.graph.output.append(helper.make_tensor_value_info("a", TensorProto.FLOAT, None))
    assert op_types(optimization(original).to_proto().graph)[-3:] == [INVERSE, INVERSE, "Add"]


def test_two_layers_of_different_windows() -> None:
    original = pair("Add", ["a", "b"])
    other = filters(N, window=hann(N) ** 2, gains=inverse_gains(N))[BINS:].astype(np.float32)
    original.graph.initializer[1].CopyFrom(numpy_helper.from_array(other[:, np.newaxis], "wi"))
    feeds = {"log": rand(2, BINS, 9), "phase": rand(2, BINS, 9)}
    assert_same(original, feeds, ops=["Cos", "Sin", "Exp", "Mul", "Mul", INVERSE, INVERSE, "Add"])


def analysis(first: np.ndarray, second: np.ndarray, *behind: onnx.NodeProto, **more: Any) -> onnx.ModelProto:
    """Returns a model of two Conv nodes of one signal; between them stands a consumer of the first one's result."""
    attributes = {name: value for name, value in more.items() if not isinstance(value, np.ndarray)}
    tensors = {name: value for name, value in more.items() if isinstance(value, np.ndarray)}
    biases = [[name] if name in tensors else [] for name in ("b1", "b2")]
    nodes = [
        helper.make_node("Conv", ["x", "w1", *biases[0]], ["r"], name="real", **{"strides": [8]} | attributes),
        helper.make_node("Mul", ["r", "r"], ["rr"]),
        helper.make_node("Conv", ["x", "w2", *biases[1]], ["i"], name="imag", **{"strides": [8]} | attributes),
        helper.make_node("Mul", ["i", "i"], ["ii"]),
        helper.make_node("Add", ["rr", "ii"], ["y"]),
        *behind,
    ]
    weights = {"w1": first[:, np.newaxis], "w2": second[:, np.newaxis]}
    return model(nodes, {"x": ["N", 1, "L"]}, **weights, **tensors)


PAIRED = [FORWARD, "Split", "Mul", "Mul", "Add"]
UNPAIRED = [FORWARD, "Mul", FORWARD, "Mul", "Add"]


@pytest.mark.parametrize("halves", [(COSINES, SINES), (SINES, COSINES), (COSINES, np.float32(-0.25) * SINES)])
def test_two_analyses_of_one_signal_become_one(halves: tuple[np.ndarray, np.ndarray]) -> None:
    original = analysis(*halves, pads=[5, 3])
    done = assert_same(original, WAVE, ops=PAIRED)
    first, second = done.outcomes
    assert (first.name, first.becomes, first.folded) == ("real", "ForwardSTFT", ("Conv imag",))
    assert first.recognised.startswith(f"n_fft {N}, hop 8, window {N}, bins {BINS}; filters differ by ")
    assert (second.name, second.becomes, second.folded) == ("imag", "ForwardSTFT", ("into real",))
    split = done.to_proto().graph.node[1]
    assert list(split.output) == (["r", "i"] if halves[1] is not COSINES else ["i", "r"])
    (got,) = run(done.to_proto(), WAVE, "none")
    frames = np.lib.stride_tricks.sliding_window_view(np.pad(WAVE["x"], [(0, 0), (0, 0), (5, 3)]), N, 2)[:, :, ::8]
    spectra = [np.einsum("notk,ck->nct", frames.astype(np.float64), half.astype(np.float64)) for half in halves]
    np.testing.assert_allclose(got, sum(each**2 for each in spectra), rtol=1e-5, atol=1e-5)


def test_two_analyses_with_biases() -> None:
    tensors = {"b1": rand(BINS), "b2": rand(BINS)}
    assert_same(analysis(SINES, COSINES, **tensors), WAVE, ops=[FORWARD, "Add", *PAIRED[1:]])
    assert_same(analysis(SINES, COSINES, b2=tensors["b2"]), WAVE, ops=[FORWARD, "Add", *PAIRED[1:]])
    run_time = analysis(COSINES, SINES, b2=tensors["b2"])
    run_time.graph.input.append(helper.make_tensor_value_info("b2", TensorProto.FLOAT, [BINS]))
    assert_same(run_time, WAVE, ops=[FORWARD, "Mul", "Conv", "Mul", "Add"])


def test_two_analyses_whose_results_are_outputs() -> None:
    original = analysis(COSINES, SINES)
    for name in ("i", "r"):
        original.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", BINS, "T"]))
    result = optimization(original).to_proto()
    assert op_types(result.graph) == PAIRED
    assert [each.name for each in result.graph.output] == ["y", "i", "r"]
    for got, expected in zip(run(result, WAVE, "native"), stock(original, WAVE), strict=True):
        np.testing.assert_allclose(got, expected, rtol=0, atol=1e-4)


def test_two_analyses_of_two_axes() -> None:
    original = analysis(COSINES, SINES, strides=[8, 1], pads=[4, 0, 4, 0])
    for tensor in original.graph.initializer:
        tensor.dims.append(1)
    original.graph.input[0].CopyFrom(helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 1, "L", 1]))
    ops = ["Squeeze", FORWARD, "Unsqueeze", *PAIRED[1:]]
    assert_same(original, {"x": WAVE["x"][..., np.newaxis]}, ops=ops)


@pytest.mark.parametrize("difference", ["hop", "pads", "window", "signal", "both cosines", "graph"])
def test_two_analyses_that_stay_two(difference: str) -> None:
    other = filters(N, window=hann(N) ** 2, gains=inverse_gains(N))[BINS:].astype(np.float32)
    second = {"window": other, "both cosines": np.float32(2) * COSINES}.get(difference, SINES)
    original = analysis(COSINES, second, pads=[4, 4])
    conv = original.graph.node[2]
    if difference in ("hop", "pads"):
        del conv.attribute[:]
        geometry = {"hop": {"strides": [4], "pads": [4, 4]}, "pads": {"strides": [8], "pads": [0, 8]}}[difference]
        conv.attribute.extend(helper.make_attribute(*each) for each in geometry.items())
    feeds = dict(WAVE)
    ops = UNPAIRED
    if difference == "hop":
        original.graph.node[4].CopyFrom(helper.make_node("Identity", ["ii"], ["y"]))
        ops = [*UNPAIRED[:4], "Identity"]
    elif difference == "signal":
        conv.input[0] = "z"
        original.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, ["N", 1, "L"]))
        feeds["z"] = rand(2, 1, 101)
    elif difference == "graph":
        inner = helper.make_graph([conv], "inner", [], [helper.make_tensor_value_info("i", TensorProto.FLOAT, None)])
        flag = numpy_helper.from_array(np.array(True), "flag")
        original.graph.initializer.append(flag)
        conv.CopyFrom(helper.make_node("If", ["flag"], ["i"], then_branch=inner, else_branch=inner))
        ops = [FORWARD, "Mul", "If", FORWARD, FORWARD, "Mul", "Add"]
    done = optimization(original)
    if difference != "graph":
        done = assert_same(original, feeds, ops=ops)
    assert op_types(done.to_proto().graph) == ops
    assert all(not outcome.folded for outcome in done.outcomes)


def test_analyses_of_two_sizes_find_their_halves() -> None:
    large = filters(2 * N, window=hann(2 * N)).astype(np.float32)
    halves = {"w1": COSINES, "w2": large[: N + 1], "w3": SINES, "w4": large[N + 1 :]}
    nodes = [helper.make_node("Conv", ["x", name], [f"c{name}"], name=name, strides=[8]) for name in halves]
    sums = [helper.make_node("ReduceMean", [f"c{name}"], [f"m{name}"], keepdims=0) for name in halves]
    join = helper.make_node("Sum", [f"m{name}" for name in halves], ["y"])
    tensors = {name: half[:, np.newaxis] for name, half in halves.items()}
    original = model([*nodes, *sums, join], {"x": ["N", 1, "L"]}, **tensors)
    done = assert_same(original, WAVE, ops=[FORWARD, "Split", FORWARD, "Split", *["ReduceMean"] * 4, "Sum"])
    assert [outcome.folded for outcome in done.outcomes] == [("Conv w3",), ("Conv w4",), ("into w1",), ("into w2",)]

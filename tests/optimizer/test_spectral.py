"""Layers that are Fourier transforms become nodes of ours, with the results of ONNX Runtime on the original."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from ortconv.optimizer import Optimization, optimization
from tests.optimizer.bases import RNG, filters, hann, inverse_gains, of_float32, padded, tacotron
from tests.optimizer.models import OURS, op_types, stock
from tests.running import WAYS, run

FORWARD, INVERSE, OVERLAP = (OURS + name for name in ("ForwardSTFT", "InverseSTFT", "OverlapAdd"))
TRANSPOSED, DFT = OURS + "TransposedConvolution", OURS + "FourierTransform"

N = 32
BINS = N // 2 + 1
BASIS = filters(N, window=hann(N), gains=inverse_gains(N)).astype(np.float32)
COSINES, SINES = BASIS[:BINS], BASIS[BINS:]


def rand(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.uniform(-1, 1, shape).astype(dtype)


def model(
    nodes: Sequence[onnx.NodeProto], inputs: dict[str, Sequence[int | str]], opset: int = 21, **tensors: np.ndarray
) -> onnx.ModelProto:
    element = next((helper.np_dtype_to_tensor_dtype(each.dtype) for each in tensors.values()), TensorProto.FLOAT)
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info(name, element, shape) for name, shape in inputs.items()],
        [helper.make_tensor_value_info("y", element, None)],
        [numpy_helper.from_array(data, name) for name, data in tensors.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def transposed(x: str = "x", y: str = "y", w: str = "w", **attributes: Any) -> onnx.NodeProto:
    return helper.make_node("ConvTranspose", [x, w], [y], name=f"{y}_node", **{"strides": [8]} | attributes)


def of_transposed(filters_: np.ndarray, *behind: onnx.NodeProto, **more: Any) -> onnx.ModelProto:
    """Returns a model of a ConvTranspose of filters [C, K] and what stands behind it, which reads c."""
    attributes = {name: value for name, value in more.items() if not isinstance(value, np.ndarray)}
    tensors = {name: value for name, value in more.items() if isinstance(value, np.ndarray)}
    node = transposed(y="c" if behind else "y", **attributes)
    return model([node, *behind], {"x": ["N", len(filters_), "T"]}, w=filters_[:, np.newaxis], **tensors)


def assert_same(
    original: onnx.ModelProto, *feeds: dict[str, np.ndarray], ops: list[str], exact: bool = True
) -> Optimization:
    """Optimizes, compares op types, and compares every way to run with the original in float64 and in ONNX Runtime."""
    before = original.SerializeToString(deterministic=True)
    done = optimization(original)
    assert original.SerializeToString(deterministic=True) == before
    result = done.to_proto()
    onnx.checker.check_model(result, full_check=True)
    assert op_types(result.graph) == ops
    for each in feeds:
        (expected,) = stock(original, each)
        half = expected.dtype == np.float16
        tolerance = (2e-2 if half else 3e-5 if exact else 2e-3) * max(1.0, float(np.abs(expected).max()))
        for way in WAYS:
            (got,) = run(result, each, way)
            assert got.dtype == expected.dtype
            assert got.shape == expected.shape, way
            np.testing.assert_allclose(
                got.astype(np.float64), expected.astype(np.float64), rtol=0, atol=tolerance, err_msg=way
            )
    again = optimization(result)
    assert again.to_proto().SerializeToString(deterministic=True) == result.SerializeToString(deterministic=True)
    return done


def added_up(x: np.ndarray, filters_: np.ndarray, hop: int) -> np.ndarray:
    """Returns the ConvTranspose of x [N, C, T] by filters [C, K], in float64."""
    batch, _, frames = x.shape
    taps = filters_.shape[1]
    result = np.zeros((batch, 1, (frames - 1) * hop + taps))
    for frame in range(frames):
        piece = x[:, :, frame].astype(np.float64) @ filters_.astype(np.float64)
        result[:, 0, frame * hop : frame * hop + taps] += piece
    return result


SPECTRUM = {"x": rand(2, 2 * BINS, 9)}

KERNELS = {
    "both": BASIS,
    "scaled": filters(N, window=hann(N), gains=np.linspace(0.5, 2, 2 * BINS)).astype(np.float32),
    "whole": filters(N, bins=N, window=hann(N)).astype(np.float32),
    "few": filters(N, bins=9, window=hann(N)).astype(np.float32),
    "short": filters(N, taps=24, window=hann(24)).astype(np.float32),
    "padded": filters(N, window=padded(hann(20), N)).astype(np.float32),
    "cosines": COSINES,
    "sines": SINES,
    "tacotron": tacotron(N, 8, hann(N))[1],
    "float32": of_float32(N, window=hann(N), gains=inverse_gains(N)),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_inverse(kernel: str) -> None:
    data = KERNELS[kernel]
    feeds = {"x": rand(2, len(data), 9)}
    original = of_transposed(data)
    done = assert_same(original, feeds, ops=[INVERSE])
    (got,) = run(done.to_proto(), feeds, "none")
    expected = added_up(feeds["x"], data, 8)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    (outcome,) = done.outcomes
    bins = len(data) if kernel in ("cosines", "sines") else len(data) // 2
    assert outcome.recognised.startswith(f"n_fft {N}, hop 8, window {data.shape[1]}, bins {bins}; filters differ by ")
    (node,) = done.to_proto().graph.node
    assert {entry.name: helper.get_attribute_value(entry) for entry in node.attribute} == {
        "n_fft": N,
        "hop": [8],
        "pads": [0, 0],
        "output_padding": [0],
        "parts": {"cosines": 1, "sines": 2}.get(kernel, 0),
    }


@pytest.mark.parametrize("kernel", KERNELS)
def test_forward(kernel: str) -> None:
    data = KERNELS[kernel]
    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[8], pads=[5, 3])
    original = model([node], {"x": ["N", 1, "L"]}, w=data[:, np.newaxis])
    feeds = {"x": rand(2, 1, 101)}
    done = assert_same(original, feeds, ops=[FORWARD])
    (got,) = run(done.to_proto(), feeds, "none")
    frames = np.lib.stride_tricks.sliding_window_view(np.pad(feeds["x"], [(0, 0), (0, 0), (5, 3)]), data.shape[1], 2)
    expected = np.einsum("notk,ck->nct", frames[:, :, ::8].astype(np.float64), data.astype(np.float64))
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    assert done.outcomes[0].op_type == "Conv"
    assert "hop 8" in done.outcomes[0].recognised


@pytest.mark.parametrize(
    "attributes",
    [
        {"pads": [4, 7]},
        {"pads": [16, 16], "output_padding": [3]},
        {"auto_pad": "VALID"},
        {"strides": [1]},
        {"strides": [40], "output_padding": [5]},
        {"kernel_shape": [N], "group": 1, "dilations": [1]},
    ],
)
def test_attributes(attributes: dict[str, Any]) -> None:
    assert_same(of_transposed(BASIS, **attributes), SPECTRUM, {"x": rand(1, 2 * BINS, 3)}, ops=[INVERSE])


@pytest.mark.parametrize("rule", ["SAME_UPPER", "SAME_LOWER", "NOTSET"])
@pytest.mark.parametrize("size", [72, 80, 95, 100])
def test_output_shape(rule: str, size: int) -> None:
    node = transposed(output_shape=[size], auto_pad=rule)
    known = model([node], {"x": ["N", 2 * BINS, 9]}, w=BASIS[:, np.newaxis])
    assert_same(known, SPECTRUM, ops=[INVERSE])
    unknown = model([node], {"x": ["N", 2 * BINS, "T"]}, w=BASIS[:, np.newaxis])
    done = assert_same(unknown, SPECTRUM, ops=[OURS + "TransposedConvolutionToShape"])
    assert "the number of frames is not known" in done.outcomes[0].kept[0]


@pytest.mark.parametrize("rule", ["SAME_UPPER", "SAME_LOWER"])
def test_auto_pad(rule: str) -> None:
    assert_same(of_transposed(BASIS, auto_pad=rule), SPECTRUM, ops=[INVERSE])
    node = helper.make_node("Conv", ["x", "w"], ["y"], strides=[8], auto_pad=rule)
    known = model([node], {"x": ["N", 1, 99]}, w=BASIS[:, np.newaxis])
    assert_same(known, {"x": rand(2, 1, 99)}, ops=[FORWARD])
    unknown = model([node], {"x": ["N", 1, "L"]}, w=BASIS[:, np.newaxis])
    done = optimization(unknown)
    assert "the length of its signal is not known" in done.outcomes[0].reason
    assert op_types(done.to_proto().graph) == ["Conv"]


def test_bias() -> None:
    for bias, ops in ((np.array([0.5], np.float32), [INVERSE, "Add"]), (np.zeros(1, np.float32), [INVERSE])):
        node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], strides=[8], pads=[3, 3])
        original = model([node], {"x": ["N", 2 * BINS, "T"]}, w=BASIS[:, np.newaxis], b=bias)
        assert_same(original, SPECTRUM, ops=ops)
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], strides=[8])
    tensors = {"w": BASIS[:, np.newaxis], "b": rand(2 * BINS)}
    assert_same(model([node], {"x": ["N", 1, "L"]}, **tensors), {"x": rand(2, 1, 99)}, ops=[FORWARD, "Add"])
    run_time = model([node], {"x": ["N", 1, "L"], "b": [2 * BINS]}, w=BASIS[:, np.newaxis])
    assert "its bias is not a constant" in optimization(run_time).outcomes[0].reason


def test_biases_of_wrong_shapes_stay() -> None:
    node = helper.make_node("ConvTranspose", ["x", "w", "b"], ["y"], strides=[8])
    done = optimization(model([node], {"x": ["N", 2 * BINS, "T"], "b": ["B"]}, w=BASIS[:, np.newaxis]))
    assert op_types(done.to_proto().graph) == [TRANSPOSED]
    assert "not known to have the shape [1]" in done.outcomes[0].kept[0]
    known = model([node], {"x": ["N", 2 * BINS, "T"], "b": [1]}, w=BASIS[:, np.newaxis])
    assert_same(known, SPECTRUM | {"b": rand(1)}, ops=[INVERSE, "Add"])


@pytest.mark.parametrize("kind", ["Conv", "ConvTranspose"])
def test_a_pad_of_some_axes_behind_a_transpose(kind: str) -> None:
    nodes = [
        helper.make_node("Transpose", ["x"], ["t"], perm=[0, 2, 1]),
        helper.make_node("Pad", ["t", "p", "", "a"], ["z"]),
        helper.make_node(kind, ["z", "w"], ["y"], strides=[8]),
    ]
    channels = 1 if kind == "Conv" else 2 * BINS
    original = model(nodes, {"x": ["N", "L", channels]}, w=BASIS[:, np.newaxis])
    ints = {"p": np.array([3, 3]), "a": np.array([2])}
    original.graph.initializer.extend(numpy_helper.from_array(each, name) for name, each in ints.items())
    (outcome,) = assert_same(original, {"x": rand(2, 99, channels)}, ops=["Transpose", "Pad", kind]).outcomes
    assert "names its axes" in outcome.reason


@pytest.mark.parametrize("tall", [False, True])
def test_two_axes_one_of_which_is_of_size_1(tall: bool) -> None:
    def turned(shape: list[Any]) -> list[Any]:
        return [*shape[:-2], shape[-1], shape[-2]] if tall else shape

    pads = [3, 0, 2, 0] if tall else [0, 3, 0, 2]
    kernel = BASIS.reshape(turned([2 * BINS, 1, 1, N]))
    node = transposed(strides=turned([2, 8]), pads=pads)
    original = model([node], {"x": turned(["N", 2 * BINS, 1, "T"])}, w=kernel)
    assert_same(original, {"x": rand(*turned([2, 2 * BINS, 1, 9]))}, ops=["Squeeze", INVERSE, "Unsqueeze"])
    unknown = model([node], {"x": turned(["N", 2 * BINS, "H", "T"])}, w=kernel)
    assert_same(unknown, {"x": rand(*turned([2, 2 * BINS, 3, 9]))}, ops=[TRANSPOSED])
    node = helper.make_node("Conv", ["x", "w", "b"], ["y"], strides=turned([1, 8]), pads=pads)
    original = model([node], {"x": turned(["N", 1, 1, "L"])}, w=kernel, b=rand(2 * BINS))
    assert_same(original, {"x": rand(*turned([2, 1, 1, 99]))}, ops=["Squeeze", FORWARD, "Add", "Unsqueeze"])


def test_data_that_an_unsqueeze_gives_a_second_axis() -> None:
    nodes = [helper.make_node("Unsqueeze", ["x", "a"], ["u"]), transposed("u", strides=[1, 8])]
    original = model(nodes, {"x": ["N", 2 * BINS, "T"]}, w=BASIS.reshape(2 * BINS, 1, 1, N))
    original.graph.initializer.append(numpy_helper.from_array(np.array([2]), "a"))
    assert_same(original, SPECTRUM, ops=["Unsqueeze", "Squeeze", INVERSE, "Unsqueeze"])


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
WAVE = {"x": rand(2, 1, 101)}


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


@pytest.mark.parametrize("op", ["Conv", "ConvTranspose"])
@pytest.mark.parametrize("source", ["Constant", "initializer"])
def test_filters_that_nodes_compute(op: str, source: str) -> None:
    """As exporters write `torch.cat([cosines, -sines])[:, None] * window`, whose constants are too large to fold."""
    tensors = {
        "cos": filters(N, parts=1).astype(np.float32),
        "sin": filters(N, parts=2).astype(np.float32),
        "window": hann(N).astype(np.float32),
        "one": np.array([1]),
    }
    nodes = [
        helper.make_node("Neg", ["sin"], ["negative"]),
        helper.make_node("Concat", ["cos", "negative"], ["rows"], axis=0),
        helper.make_node("Unsqueeze", ["rows", "one"], ["basis"]),
        helper.make_node("Mul", ["basis", "window"], ["w"]),
        helper.make_node(op, ["x", "w"], ["y"], strides=[8]),
    ]
    if source == "Constant":
        made = [("cos", numpy_helper.from_array(tensors.pop("cos")))]
        nodes = [*(helper.make_node("Constant", [], [name], value=value) for name, value in made), *nodes]
    shape, feeds = (["N", 1, "L"], WAVE) if op == "Conv" else (["N", 2 * BINS, "T"], SPECTRUM)
    done = assert_same(model(nodes, {"x": shape}, **tensors), feeds, ops=[FORWARD if op == "Conv" else INVERSE])
    assert len(done.to_proto().graph.initializer) == 2


def test_filters_that_a_caller_may_change_stay() -> None:
    nodes = [helper.make_node("Neg", ["v"], ["w"]), helper.make_node("Conv", ["x", "w"], ["y"], strides=[8])]
    original = model(nodes, {"x": ["N", 1, "L"], "v": [2 * BINS, 1, N]}, v=BASIS[:, np.newaxis])
    done = optimization(original)
    assert not done.outcomes
    assert op_types(done.to_proto().graph) == ["Neg", "Conv"]


def test_computed_filters_that_others_read_remain() -> None:
    nodes = [
        helper.make_node("Neg", ["v"], ["w"]),
        helper.make_node("Conv", ["x", "w"], ["c"], strides=[8]),
        helper.make_node("ReduceMax", ["w"], ["m"], keepdims=0),
        helper.make_node("Add", ["c", "m"], ["y"]),
    ]
    original = model(nodes, {"x": ["N", 1, "L"]}, v=BASIS[:, np.newaxis])
    assert_same(original, WAVE, ops=["Neg", FORWARD, "ReduceMax", "Add"])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_frames_are_added_up(dtype: Any) -> None:
    for window in (np.ones(N), hann(N)):
        data = np.diag(window).astype(dtype)
        feeds = {"x": rand(2, N, 9, dtype=dtype)}
        done = assert_same(of_transposed(data, pads=[4, 5], output_padding=[2]), feeds, ops=[OVERLAP])
        assert done.outcomes[0].recognised == f"hop 8, window {N}"


def test_half_precision() -> None:
    original = of_transposed(BASIS.astype(np.float16) * np.float16(8))
    done = assert_same(original, {"x": rand(2, 2 * BINS, 9, dtype=np.float16)}, ops=[INVERSE])
    assert "n_fft 32" in done.outcomes[0].recognised


def test_crops_and_zeros_fold() -> None:
    ints = {"s": np.array([16]), "e": np.array([-16]), "i": np.array([2])}
    original = of_transposed(BASIS, helper.make_node("Slice", ["c", "s", "e", "i"], ["y"], name="crop"))
    original.graph.initializer.extend(numpy_helper.from_array(each, name) for name, each in ints.items())
    done = assert_same(original, SPECTRUM, ops=[INVERSE])
    assert done.outcomes[0].folded == ("Slice crop into pads",)


@pytest.mark.parametrize("op", ["Mul", "Div"])
@pytest.mark.parametrize("shape", [(), (1,), (1, 1, 1), (1, 1, 96)])
def test_factors_fold(op: str, shape: tuple[int, ...]) -> None:
    tail = helper.make_node(op, ["c", "f"], ["y"], name="sum")
    node = transposed(y="c")
    tensors = {"w": BASIS[:, np.newaxis], "f": np.full(shape, 1.5, np.float32)}
    original = model([node, tail], {"x": ["N", 2 * BINS, 9]}, **tensors)
    done = assert_same(original, SPECTRUM, ops=[INVERSE])
    assert done.outcomes[0].folded == (f"{op} sum into gains",)
    (got,) = run(done.to_proto(), SPECTRUM, "none")
    expected = added_up(SPECTRUM["x"], BASIS, 8) * (1.5 if op == "Mul" else 1 / 1.5)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-5)


def test_sizes_of_results_are_known() -> None:
    nodes = [helper.make_node("Concat", ["x", "z"], ["both"], axis=1), transposed("both", "c")]
    nodes.append(helper.make_node("Mul", ["c", "f"], ["y"]))
    inputs: dict[str, Sequence[int | str]] = {"x": ["N", BINS, 9], "z": ["N", BINS, 9]}
    tensors = {"w": BASIS[:, np.newaxis], "f": np.full((1, 1, 96), 1.5, np.float32)}
    feeds = {"x": rand(2, BINS, 9), "z": rand(2, BINS, 9)}
    assert_same(model(nodes, inputs, **tensors), feeds, ops=["Concat", INVERSE])
    nodes = [helper.make_node("Neg", ["x"], ["n"]), helper.make_node("Conv", ["n", "w"], ["y"], auto_pad="SAME_UPPER")]
    assert_same(model(nodes, {"x": ["N", 1, 99]}, w=tensors["w"]), {"x": rand(2, 1, 99)}, ops=["Neg", FORWARD])


def test_factors_that_stay() -> None:
    sums = added_up(np.ones((1, N, 9)), np.diag(hann(N) ** 2), 8) + 0.1
    tail = helper.make_node("Div", ["c", "f"], ["y"])
    known: dict[str, Sequence[int | str]] = {"x": ["N", 2 * BINS, 9]}
    tensors = {"w": BASIS[:, np.newaxis], "f": sums.astype(np.float32)}
    assert_same(model([transposed(y="c"), tail], known, **tensors), SPECTRUM, ops=[INVERSE, "Div"])
    tensors["f"] = np.full((3, 1, 1), 2, np.float32)  # it repeats the signals
    assert_same(model([transposed(y="c"), tail], known, **tensors), {"x": SPECTRUM["x"][:1]}, ops=[INVERSE, "Div"])
    reverse = helper.make_node("Div", ["f", "c"], ["y"])
    done = optimization(model([transposed(y="c"), reverse], known, w=tensors["w"], f=np.ones((), np.float32)))
    assert op_types(done.to_proto().graph) == [INVERSE, "Div"]
    twice = [transposed(y="c"), tail, helper.make_node("Neg", ["c"], ["z"])]
    original = model(twice, known, w=tensors["w"], f=np.full((), 2, np.float32))
    original.graph.output.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    done = optimization(original)
    assert op_types(done.to_proto().graph) == [INVERSE, "Div", "Neg"]
    assert "has 2 uses" in done.outcomes[0].kept[0]
    far = optimization(model([transposed(y="c"), tail], known, w=tensors["w"], f=np.full((), 1e38, np.float32)))
    assert "leave the range" in far.outcomes[0].kept[0]


def near_misses() -> dict[str, np.ndarray]:
    element, gain, window = (filters(N, window=hann(N)) for _ in range(3))
    element[3, 9] *= 1.001
    gain[5] *= np.linspace(1, 1.001, N)
    window[:BINS] *= np.linspace(1, 1.001, N)
    return {"element": element, "gain": gain, "window": window}


@pytest.mark.parametrize("kind", near_misses())
def test_near_misses_stay(kind: str) -> None:
    data = near_misses()[kind].astype(np.float32)
    done = assert_same(of_transposed(data), {"x": rand(2, len(data), 9)}, ops=[TRANSPOSED])
    (reason,) = done.outcomes[0].kept
    assert reason.startswith(f"its filters resemble those of a Fourier transform, n_fft {N}, and are none: they differ")
    assert reason.endswith(" of their largest element (limit 3.8e-06)")
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    done = assert_same(model([node], {"x": ["N", 1, "L"]}, w=data[:, np.newaxis]), {"x": rand(1, 1, 99)}, ops=["Conv"])
    assert done.outcomes[0].reason == reason


def test_other_layers_stay() -> None:
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], strides=[4]),  # learned
        helper.make_node("ConvTranspose", ["a", "u"], ["y"], strides=[4]),
    ]
    original = model(nodes, {"x": ["N", 1, "L"]}, w=rand(12, 1, 20), u=rand(12, 1, 20))
    done = assert_same(original, {"x": rand(1, 1, 100)}, ops=["Conv", TRANSPOSED])
    assert [(each.op_type, each.kept) for each in done.outcomes] == [("ConvTranspose", ())]
    for attributes, channels, kernel in (
        ({"dilations": [2]}, 1, BASIS[:, np.newaxis]),
        ({"group": 2}, 2, BASIS[:, np.newaxis]),
    ):
        node = helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
        assert_same(model([node], {"x": ["N", channels, "L"]}, w=kernel), {"x": rand(1, channels, 99)}, ops=["Conv"])
    small = filters(8, window=hann(8)).astype(np.float32)
    assert_same(of_transposed(small), {"x": rand(2, 10, 9)}, ops=[TRANSPOSED])


def test_old_opsets_stay() -> None:
    original = of_transposed(BASIS)
    original.opset_import[0].version = 15
    done = optimization(original)
    assert op_types(done.to_proto().graph) == [TRANSPOSED]
    assert "InverseSTFT needs ai.onnx" in done.outcomes[0].kept[0]
    node = helper.make_node("Conv", ["x", "w"], ["y"])
    for opset in (11, 15):
        original = model([node], {"x": ["N", 1, "L"]}, opset=opset, w=BASIS[:, np.newaxis])
        done = optimization(original)
        assert op_types(done.to_proto().graph) == ["Conv"]
        assert [outcome.reason[:27] for outcome in done.outcomes] == ["ForwardSTFT needs ai.onnx 1"] * (opset == 15)


def test_a_layer_in_a_branch() -> None:
    branches = []
    for name, node in (("then_branch", transposed(y="t")), ("else_branch", helper.make_node("Identity", ["z"], ["t"]))):
        output = helper.make_tensor_value_info("t", TensorProto.FLOAT, None)
        branches.append(helper.make_attribute(name, helper.make_graph([node], name, [], [output])))
    choice = helper.make_node("If", ["b"], ["y"])
    choice.attribute.extend(branches)
    original = model([choice], {"x": ["N", 2 * BINS, "T"], "z": ["N", 1, "L"]}, w=BASIS[:, np.newaxis])
    original.graph.input.append(helper.make_tensor_value_info("b", TensorProto.BOOL, []))
    feeds = SPECTRUM | {"z": rand(2, 1, 5)}
    assert_same(
        original, feeds | {"b": np.array(True)}, feeds | {"b": np.array(False)}, ops=["If", INVERSE, "Identity"]
    )


def stft_node(*, window: bool, length: bool, onesided: int) -> onnx.NodeProto:
    names = ["x", "step", "win" if window else "", "len" if length else ""]
    while not names[-1]:
        names.pop()
    return helper.make_node("STFT", names, ["y"], name="stft", onesided=onesided)


@pytest.mark.parametrize(("window", "length"), [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("onesided", [0, 1])
@pytest.mark.parametrize("rank", [2, 3])
def test_stft_of_onnx(window: bool, length: bool, onesided: int, rank: int) -> None:
    node = stft_node(window=window, length=length, onesided=onesided)
    shape = ["N", "L", 1][:rank]
    original = model([node], {"x": shape}, win=hann(N).astype(np.float32))
    original.graph.initializer.extend(
        numpy_helper.from_array(np.array(each), name) for name, each in (("step", 8), ("len", N))
    )
    feeds = {"x": rand(*(2, 100, 1)[:rank])}
    front = ["Squeeze"] if rank == 3 else []
    done = assert_same(original, feeds, ops=[*front, "Unsqueeze", FORWARD, "Reshape", "Transpose"])
    (got,) = run(done.to_proto(), feeds, "none")
    frames = np.lib.stride_tricks.sliding_window_view(feeds["x"].reshape(2, 100).astype(np.float64), N, 1)[:, ::8]
    spectrum = np.fft.fft(frames * (hann(N) if window else 1))[:, :, : BINS if onesided else N]
    np.testing.assert_allclose(got, np.stack([spectrum.real, spectrum.imag], -1), rtol=0, atol=1e-4)
    assert done.outcomes[0].recognised == f"n_fft {N}, hop 8, window {N}, bins {BINS if onesided else N}"


def test_stft_that_stays() -> None:
    def reason(node: onnx.NodeProto, shape: list[int | str], *, step: bool = True, win: int = N) -> str:
        inputs: dict[str, Sequence[int | str]] = {"x": shape}
        original = model([node], inputs, win=hann(win).astype(np.float32))
        numbers = {"len": N} | ({"step": 8} if step else {})
        original.graph.initializer.extend(numpy_helper.from_array(np.array(n), name) for name, n in numbers.items())
        if not step:
            original.graph.input.append(helper.make_tensor_value_info("step", TensorProto.INT64, []))
        done = optimization(original)
        assert op_types(done.to_proto().graph) == ["STFT"]
        return done.outcomes[0].reason

    plain = stft_node(window=True, length=False, onesided=1)
    assert "not known to be real" in reason(plain, ["N", "L", "P"])
    assert "not known to be real" in reason(stft_node(window=True, length=False, onesided=0), ["N", "L", 2])
    assert "is not a constant" in reason(plain, ["N", "L", 1], step=False)
    assert "does not pay" in reason(plain, ["N", "L", 1], win=8)


@pytest.mark.parametrize("opset", [19, 20])
@pytest.mark.parametrize(("parts", "inverse", "onesided"), [(1, 0, 0), (1, 0, 1), (2, 0, 0), (2, 1, 0)])
@pytest.mark.parametrize("length", [None, 64, 128])
def test_dft_of_onnx(opset: int, parts: int, inverse: int, onesided: int, length: int | None) -> None:
    names = ["x", "" if length is None else "len", "axis"]
    attributes: dict[str, Any] = {"inverse": inverse, "onesided": onesided}
    if opset < 20:
        names, attributes = names[:2], attributes | {"axis": 1}
    node = helper.make_node("DFT", names if names[-1] else names[:1], ["y"], name="dft", **attributes)
    original = model([node], {"x": ["N", "M", 3, parts]}, opset=opset)
    for name, value in (("len", length), ("axis", 1)):
        if name in node.input:
            original.graph.initializer.append(numpy_helper.from_array(np.array(value), name))
    feeds = {"x": rand(2, 64, 3, parts)}
    done = assert_same(original, feeds, ops=[DFT])
    (got,) = run(done.to_proto(), feeds, "none")
    data = feeds["x"].astype(np.float64)
    wave = data[..., 0] + 1j * data[..., 1] if parts == 2 else data[..., 0]
    spectrum = (np.fft.ifft if inverse else np.fft.rfft if onesided else np.fft.fft)(wave, length, 1)
    np.testing.assert_allclose(got, np.stack([spectrum.real, spectrum.imag], -1), rtol=0, atol=1e-4)


def test_dft_that_stays() -> None:
    def reason(shape: list[int | str], **attributes: int) -> str:
        node = helper.make_node("DFT", ["x"], ["y"], **attributes)
        done = optimization(model([node], {"x": shape}, opset=20))
        assert op_types(done.to_proto().graph) == ["DFT"]
        return done.outcomes[0].reason

    assert "inverse and onesided" in reason(["N", "M", 2], inverse=1, onesided=1)
    assert "not known to be real or complex" in reason(["N", "M", "P"])
    assert "does not pay" in reason(["N", 8, 1])


@pytest.mark.parametrize("opset", [16, 17, 18, 25])
def test_opsets(opset: int) -> None:
    nodes = [
        helper.make_node("Conv", ["x", "v"], ["c"], strides=[8]),
        helper.make_node("Mul", ["c", "c"], ["d"]),
        transposed("d"),
    ]
    original = model(nodes, {"x": ["N", 1, "L"]}, opset=opset, v=BASIS[:, np.newaxis], w=BASIS[:, np.newaxis])
    assert_same(original, {"x": rand(2, 1, 99)}, ops=[FORWARD, "Mul", INVERSE])
    diagonal = of_transposed(np.eye(N, dtype=np.float32))
    diagonal.opset_import[0].version = opset
    assert_same(diagonal, {"x": rand(2, N, 9)}, ops=[OVERLAP])
    if opset >= 17:
        node = stft_node(window=True, length=False, onesided=1)
        original = model([node], {"x": ["N", "L", 1]}, opset=opset, win=hann(N).astype(np.float32))
        original.graph.initializer.append(numpy_helper.from_array(np.array(8), "step"))
        assert_same(original, {"x": rand(2, 99, 1)}, ops=["Squeeze", "Unsqueeze", FORWARD, "Reshape", "Transpose"])


def test_analysis_and_synthesis() -> None:
    """The class STFT of Tacotron 2: magnitudes and phases of a spectrum, and the signal that they give."""
    size, hop = 256, 64
    forward, inverse = tacotron(size, hop, hann(size))
    sums = added_up(np.ones((1, size, 20)), np.diag(hann(size) ** 2), hop)[:, :, size // 2 : -size // 2]
    make = helper.make_node
    nodes = [
        make("Pad", ["x", "around"], ["padded"], mode="reflect"),
        make("Conv", ["padded", "forward"], ["spectrum"], strides=[hop]),
        make("Split", ["spectrum"], ["re", "im"], axis=1, num_outputs=2),
        make("Mul", ["re", "re"], ["re2"]),
        make("Mul", ["im", "im"], ["im2"]),
        make("Add", ["re2", "im2"], ["power"]),
        make("Sqrt", ["power"], ["mag"]),
        make("Div", ["re", "mag"], ["cos"]),
        make("Div", ["im", "mag"], ["sin"]),
        make("Mul", ["mag", "cos"], ["re_again"]),
        make("Mul", ["mag", "sin"], ["im_again"]),
        make("Concat", ["re_again", "im_again"], ["again"], axis=1),
        transposed("again", "signal", "inverse", strides=[hop], pads=[size // 2, size // 2]),
        make("Div", ["signal", "sums"], ["normal"]),
        make("Mul", ["normal", "four"], ["y"]),
    ]
    original = model(
        nodes, {"x": [1, 1, 19 * hop]}, forward=forward[:, np.newaxis], inverse=inverse[:, np.newaxis],
        sums=sums.astype(np.float32), four=np.float32(size / hop) * np.ones((), np.float32),
    )  # fmt: skip
    original.graph.initializer.append(numpy_helper.from_array(np.array([0, 0, 128, 0, 0, 128]), "around"))
    feeds = {"x": rand(1, 1, 19 * hop)}
    kept = [node.op_type for node in nodes]
    kept[1], kept[12] = FORWARD, INVERSE
    done = assert_same(original, feeds, ops=kept)
    (got,) = run(done.to_proto(), feeds, "native")
    np.testing.assert_allclose(got, feeds["x"], rtol=0, atol=1e-4)
    assert [outcome.recognised.partition(";")[0] for outcome in done.outcomes] == [
        f"n_fft {size}, hop {hop}, window {size}, bins {size // 2 + 1}"
    ] * 2


def test_types_come_from_where_the_data_do() -> None:
    """Intermediate results of a model need not state their type, as in what `ortconv convert` writes."""
    nodes = [
        helper.make_node("Split", ["x"], ["a", "b"], axis=1, num_outputs=2),
        helper.make_node("Concat", ["b", "a"], ["c"], axis=1),
        helper.make_node("Sub", ["c", "half"], ["d"]),
        helper.make_node("Unsqueeze", ["d", "last"], ["e"]),
        helper.make_node("DFT", ["e"], ["y"]),
    ]
    original = model(nodes, {"x": ["N", 64]}, half=np.array(0.5, np.float32), last=np.array([-1]))
    assert not original.graph.value_info
    assert_same(original, {"x": rand(2, 64)}, ops=["Split", "Concat", "Sub", "Unsqueeze", DFT])

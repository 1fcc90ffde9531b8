"""Layers that are Fourier transforms become nodes of ours, with the results of ONNX Runtime on the original."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from ortconv.optimizer import optimization
from tests.optimizer.bases import filters, hann, inverse_gains, of_float32, padded, tacotron
from tests.optimizer.models import OURS, op_types
from tests.optimizer.spectral_models import (
    BASIS,
    BINS,
    COSINES,
    FORWARD,
    INVERSE,
    OVERLAP,
    SINES,
    SPECTRUM,
    TRANSPOSED,
    WAVE,
    N,
    added_up,
    assert_same,
    model,
    of_transposed,
    rand,
    transposed,
)
from tests.running import run

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

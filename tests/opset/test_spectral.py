"""The Fourier operators without kernels: schema, function body, reference and Python op."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from ortconv.opset import functions
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops import BY_NAME
from ortconv.opset.reference.evaluator import OP_RUNS
from tests.operators.spectral import assert_close, defined, feeds_of, model, transformed
from tests.running import run

TYPES = (np.float32, np.float64, np.float16, ml_dtypes.bfloat16)
WAYS = ("python", "none")

STFT: dict[str, dict[str, Any]] = {
    # n_fft, taps, hop, pads, parts, bins, batch, length
    "plain": {"n_fft": 16, "taps": 16, "hop": 4, "pads": (0, 0), "parts": 0, "bins": 9, "shape": (1, 40)},
    "padded": {"n_fft": 15, "taps": 15, "hop": 5, "pads": (7, 3), "parts": 0, "bins": 8, "shape": (2, 31)},
    "short window": {"n_fft": 20, "taps": 13, "hop": 3, "pads": (0, 2), "parts": 0, "bins": 11, "shape": (1, 50)},
    "all bins": {"n_fft": 12, "taps": 12, "hop": 5, "pads": (0, 0), "parts": 0, "bins": 12, "shape": (3, 30)},
    "cosines": {"n_fft": 12, "taps": 12, "hop": 12, "pads": (1, 1), "parts": 1, "bins": 7, "shape": (1, 33)},
    "sines": {"n_fft": 12, "taps": 11, "hop": 15, "pads": (0, 0), "parts": 2, "bins": 5, "shape": (1, 60)},
    "one bin": {"n_fft": 7, "taps": 7, "hop": 1, "pads": (0, 0), "parts": 0, "bins": 1, "shape": (2, 9)},
    "one tap": {"n_fft": 1, "taps": 1, "hop": 2, "pads": (0, 1), "parts": 0, "bins": 1, "shape": (1, 6)},
    "no batch": {"n_fft": 8, "taps": 8, "hop": 2, "pads": (0, 0), "parts": 0, "bins": 5, "shape": (0, 20)},
}


def window_of(taps: int) -> np.ndarray:
    return 0.2 + np.sin(np.pi * (np.arange(taps) + 0.5) / taps) ** 2


def forward(name: str, element: Any = np.float32) -> tuple[list[np.ndarray | None], dict[str, Any]]:
    case, random = STFT[name], np.random.default_rng(3)
    channels = case["bins"] * (1 if case["parts"] else 2)
    batch, length = case["shape"]
    inputs = [
        random.standard_normal((batch, 1, length)).astype(element),
        window_of(case["taps"]).astype(element),
        random.uniform(0.5, 1.5, channels).astype(element),
    ]
    return [*inputs], {
        "n_fft": case["n_fft"], "hop": [case["hop"]], "pads": list(case["pads"]), "parts": case["parts"],
    }  # fmt: skip


def inverse(
    name: str, element: Any = np.float32, *, split: bool = False, frames: int = 6, added: int = 0
) -> tuple[list[np.ndarray | None], dict[str, Any]]:
    case, (inputs, attributes) = STFT[name], forward(name, element)
    gains = inputs[2]
    assert gains is not None
    spectrum = np.random.default_rng(4).standard_normal((case["shape"][0], gains.size, frames)).astype(element)
    attributes |= {"output_padding": [added]}
    if split:
        return [spectrum[:, : gains.size // 2], inputs[1], gains, spectrum[:, gains.size // 2 :]], attributes
    return [spectrum, *inputs[1:]], attributes


def frames_of(name: str, element: Any = np.float32, added: int = 0) -> tuple[list[np.ndarray | None], dict[str, Any]]:
    case = STFT[name]
    frames = np.random.default_rng(5).standard_normal((case["shape"][0], case["taps"], 6)).astype(element)
    return [frames, window_of(case["taps"]).astype(element)], {
        "hop": [case["hop"]], "pads": list(case["pads"]), "output_padding": [added],
    }  # fmt: skip


MADE = {"ForwardSTFT": forward, "InverseSTFT": inverse, "OverlapAdd": frames_of}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", STFT)
@pytest.mark.parametrize("op", MADE)
def test_gives_what_the_definition_gives(op: str, name: str, way: str) -> None:
    inputs, attributes = MADE[op](name)
    made = model(op, inputs, attributes, bodies=True)
    onnx.checker.check_model(made, full_check=True)
    (y,) = run(made, feeds_of(op, inputs), way)
    assert_close(y, defined(op, inputs, attributes), np.float32)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("op", MADE)
def test_every_type(op: str, element: Any, way: str) -> None:
    inputs, attributes = MADE[op]("padded", element)
    (y,) = run(model(op, inputs, attributes, bodies=True), feeds_of(op, inputs), way)
    assert_close(y, defined(op, inputs, attributes), element)


@pytest.mark.parametrize("opset", [16, 17, 18, 21, 25])
@pytest.mark.parametrize("element", [np.float32, np.float64])
@pytest.mark.parametrize("op", MADE)
def test_constant_window_in_every_opset(op: str, element: Any, opset: int) -> None:
    inputs, attributes = MADE[op]("short window", element)
    constants = ("window", "gains")
    made = model(op, inputs, attributes, constants, bodies=True, open_sizes=True, opset=opset)
    (y,) = run(made, feeds_of(op, inputs, constants), "none")
    assert_close(y, defined(op, inputs, attributes), element)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("element", [np.float32, np.float64])
def test_sines_as_an_input_of_their_own(element: Any, way: str) -> None:
    inputs, attributes = inverse("padded", element, split=True)
    (y,) = run(model("InverseSTFT", inputs, attributes, bodies=True), feeds_of("InverseSTFT", inputs), way)
    assert_close(y, defined("InverseSTFT", inputs, attributes), element)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("frames", "added", "pads"), [(0, 9, (0, 0)), (1, 0, (3, 5)), (2, 7, (21, 0)), (3, 4, (0, 9))])
@pytest.mark.parametrize("element", [np.float32, np.float64])
def test_ends_of_the_sum(element: Any, frames: int, added: int, pads: tuple[int, int], way: str) -> None:
    inputs, attributes = inverse("plain", element, frames=frames, added=added)
    attributes["pads"] = list(pads)
    (y,) = run(model("InverseSTFT", inputs, attributes, bodies=True), feeds_of("InverseSTFT", inputs), way)
    assert_close(y, defined("InverseSTFT", inputs, attributes), element)


def test_nodes_with_and_without_sines_share_a_body() -> None:
    whole, attributes = inverse("padded")
    made = model("InverseSTFT", whole, attributes)
    split, _ = inverse("padded", split=True)
    made.graph.input.extend(model("InverseSTFT", split, attributes).graph.input[i] for i in (0, 3))
    made.graph.input[-2].name = "cosines"
    made.graph.node.append(
        helper.make_node(
            "InverseSTFT", ["cosines", "window", "gains", "sines"], ["Z"], name="m", domain=DOMAIN, **attributes
        )
    )
    made.graph.output.append(helper.make_tensor_value_info("Z", TensorProto.FLOAT, [None] * 3))
    read = ir.from_proto(made)
    functions.attach(read)
    made = ir.to_proto(read)
    onnx.checker.check_model(made, full_check=True)
    feeds = {**feeds_of("InverseSTFT", whole), "cosines": split[0], "sines": split[3]}
    for result in run(made, feeds, "none"):  # type: ignore[arg-type]
        assert_close(result, defined("InverseSTFT", whole, attributes), np.float32)


FOURIER: dict[str, tuple[tuple[int, ...], int | None, dict[str, int]]] = {
    "real": ((2, 12, 1), None, {"axis": 1}),
    "complex": ((2, 15, 2), None, {"axis": -2}),
    "first axis": ((6, 3, 4, 2), None, {"axis": 0}),
    "inner axis, real": ((2, 7, 3, 1), None, {"axis": 1}),
    "inverse": ((3, 10, 2), None, {"axis": 1, "inverse": 1}),
    "inverse of real parts": ((3, 9, 1), None, {"axis": 1, "inverse": 1}),
    "bins": ((2, 9, 1), None, {"axis": 1, "onesided": 1}),
    "bins of an even length": ((2, 10, 3, 1), None, {"axis": -3, "onesided": 1}),
    "cut": ((2, 10, 2), 7, {"axis": 1}),
    "longer": ((2, 10, 1), 16, {"axis": 1, "onesided": 1}),
    "Hermitian": ((2, 9, 2), None, {"axis": 1, "inverse": 1, "onesided": 1}),
    "Hermitian of an odd length": ((2, 8, 2, 2), 15, {"axis": 1, "inverse": 1, "onesided": 1}),
    "Hermitian, cut": ((2, 8, 2), 9, {"axis": 1, "inverse": 1, "onesided": 1}),
    "Hermitian, longer": ((2, 4, 2), 20, {"axis": 1, "inverse": 1, "onesided": 1}),
    "one": ((2, 1, 2), None, {"axis": 1}),
    "nothing": ((0, 8, 2), None, {"axis": 1}),
    "prime": ((1, 101, 1), None, {"axis": 1}),
}


def fourier(name: str, element: Any = np.float32) -> tuple[list[np.ndarray | None], dict[str, int]]:
    shape, length, attributes = FOURIER[name]
    x = np.random.default_rng(6).standard_normal(shape).astype(element)
    return [x, None if length is None else np.array(length, np.int64)], {"inverse": 0, "onesided": 0, **attributes}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("name", FOURIER)
def test_fourier_transform(name: str, constant: bool, way: str) -> None:
    inputs, attributes = fourier(name)
    constants = ("length",) if constant else ()
    made = model("FourierTransform", inputs, attributes, constants, bodies=True, open_sizes=not constant)
    onnx.checker.check_model(made, full_check=True)
    (y,) = run(made, feeds_of("FourierTransform", inputs, constants), way)
    assert_close(y, transformed(inputs[0], FOURIER[name][1], **attributes), np.float32)  # type: ignore[arg-type]
    if constant:
        inferred = onnx.shape_inference.infer_shapes(made, strict_mode=True, data_prop=True).graph.output[0]
        assert [dim.dim_value for dim in inferred.type.tensor_type.shape.dim] == list(y.shape)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("name", ["complex", "bins", "Hermitian"])
def test_every_type_of_fourier_transforms(name: str, element: Any, way: str) -> None:
    inputs, attributes = fourier(name, element)
    (y,) = run(model("FourierTransform", inputs, attributes, bodies=True), feeds_of("FourierTransform", inputs), way)
    assert_close(y, transformed(inputs[0], **attributes), element)  # type: ignore[arg-type]


def test_imaginary_parts_that_a_hermitian_spectrum_has_not_are_ignored() -> None:
    inputs, attributes = fourier("Hermitian")
    x = inputs[0]
    assert x is not None
    expected = transformed(x, **attributes)
    x[:, [0, -1], 1] = np.nan
    for way in WAYS:
        (y,) = run(model("FourierTransform", inputs, attributes, bodies=True), {"X": x}, way)
        assert_close(y, expected, np.float32)


def test_onnx_defines_the_same_transform() -> None:
    """DFT of the onnx package; ONNX Runtime's is off in the third digit where the length is no power of two."""
    for name in ("real", "complex", "inverse", "bins", "cut", "longer"):
        inputs, attributes = fourier(name, np.float64)
        given = {key: attributes[key] for key in ("inverse", "onesided")}
        names = ["X", "length" if inputs[1] is not None else "", "axis"]
        node = helper.make_node("DFT", names, ["Y"], **given)
        infos = [helper.make_tensor_value_info("X", TensorProto.DOUBLE, None)]
        infos += [helper.make_tensor_value_info("length", TensorProto.INT64, [])] * (inputs[1] is not None)
        axis = helper.make_tensor("axis", TensorProto.INT64, [], [attributes["axis"]])
        graph = helper.make_graph([node], "g", infos, [helper.make_tensor_value_info("Y", 11, None)], [axis])
        standard = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)])
        feeds = feeds_of("FourierTransform", inputs)
        (expected,) = ReferenceEvaluator(standard).run(None, feeds)
        found = BY_NAME["FourierTransform"].reference(*inputs, **attributes)
        np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_onnx_reference_evaluates_our_nodes() -> None:
    for op, make in MADE.items():
        inputs, attributes = make("padded")
        (y,) = ReferenceEvaluator(model(op, inputs, attributes), new_ops=OP_RUNS).run(None, feeds_of(op, inputs))
        assert_close(y, defined(op, inputs, attributes), np.float32)


@pytest.mark.parametrize("op", MADE)
@pytest.mark.parametrize("name", STFT)
def test_shape_is_inferred(op: str, name: str) -> None:
    inputs, attributes = MADE[op](name)
    made = onnx.shape_inference.infer_shapes(model(op, inputs, attributes), strict_mode=True)
    dims = made.graph.output[0].type.tensor_type.shape.dim
    assert [dim.dim_value for dim in dims] == list(defined(op, inputs, attributes).shape)


REFUSED: list[tuple[str, dict[str, Any], dict[int, tuple[int, ...]], str]] = [
    ("ForwardSTFT", {"n_fft": 0}, {}, "n_fft = 0"),
    ("ForwardSTFT", {"n_fft": 15}, {}, "window has 16 taps; allowed: up to n_fft = 15"),
    ("ForwardSTFT", {"hop": [0]}, {}, r"hop = \[0\]"),
    ("ForwardSTFT", {"hop": [1, 1]}, {}, r"hop = \[1, 1\]"),
    ("ForwardSTFT", {"pads": [-1, 0]}, {}, r"pads = \[-1, 0\]"),
    ("ForwardSTFT", {"parts": 3}, {}, "parts = 3"),
    ("ForwardSTFT", {}, {0: (1, 2, 40)}, "signal has shape"),
    ("ForwardSTFT", {}, {0: (1, 40)}, "signal has shape"),
    ("ForwardSTFT", {}, {0: (1, 1, 15)}, "window has 16 taps; allowed: up to the 15"),
    ("ForwardSTFT", {}, {1: (0,)}, "window has shape"),
    ("ForwardSTFT", {}, {1: (4, 4)}, "window has shape"),
    ("ForwardSTFT", {}, {2: (17,)}, "gains has shape"),
    ("ForwardSTFT", {}, {2: (34,)}, "gains has shape"),
    ("ForwardSTFT", {}, {2: (0,)}, "gains has shape"),
    ("InverseSTFT", {}, {0: (1, 17, 6)}, "spectrum has shape"),
    ("InverseSTFT", {"output_padding": [-1]}, {}, r"output_padding = \[-1\]"),
    ("InverseSTFT", {"pads": [36, 1]}, {}, "-1"),
    ("OverlapAdd", {}, {0: (1, 15, 6)}, "frames has shape"),
    ("OverlapAdd", {"pads": [36, 1]}, {}, "-1"),
    ("OverlapAdd", {"hop": [0]}, {}, r"hop = \[0\]"),
]


@pytest.mark.parametrize(("op", "changes", "shapes", "message"), REFUSED)
def test_bad_node_is_refused(
    op: str, changes: dict[str, Any], shapes: dict[int, tuple[int, ...]], message: str
) -> None:
    inputs, attributes = MADE[op]("plain")
    for index, shape in shapes.items():
        inputs[index] = np.zeros(shape, np.float32)
    attributes |= changes
    with pytest.raises((onnx.checker.ValidationError, onnx.shape_inference.InferenceError), match=message):
        onnx.checker.check_model(model(op, inputs, attributes), full_check=True)
    with pytest.raises(ValueError, match="allowed"):
        BY_NAME[op].reference(*inputs, **attributes)


@pytest.mark.parametrize(
    ("changes", "shape", "length", "message"),
    [
        ({"axis": 2}, (2, 8, 2), None, "axis = 2"),
        ({"axis": -1}, (2, 8, 2), None, "axis = -1"),
        ({"axis": -4}, (2, 8, 2), None, "axis = -4"),
        ({"inverse": 2}, (2, 8, 2), None, "inverse = 2"),
        ({"onesided": -1}, (2, 8, 2), None, "onesided = -1"),
        ({"onesided": 1}, (2, 8, 2), None, "size 2; allowed if onesided: 1|size 2; allowed: 1"),
        ({"onesided": 1, "inverse": 1}, (2, 8, 1), None, "size 1; allowed if onesided: 2|size 1; allowed: 2"),
        ({}, (2, 8, 3), None, "X has shape"),
        ({}, (2,), None, "X has shape"),
        ({}, (2, 8, 2), -1, "length"),
        ({}, (2, 0, 2), None, "length of the transform is 0"),
        ({"onesided": 1, "inverse": 1}, (2, 1, 2), None, "length of the transform is 0"),
    ],
)
def test_bad_fourier_transform_is_refused(
    changes: dict[str, int], shape: tuple[int, ...], length: int | None, message: str
) -> None:
    inputs = [np.zeros(shape, np.float32), None if length is None else np.array(length, np.int64)]
    attributes = {"axis": 1 if len(shape) > 1 else 0, "inverse": 0, "onesided": 0, **changes}
    made = model("FourierTransform", [*inputs], attributes, ("length",))
    with pytest.raises((onnx.checker.ValidationError, onnx.shape_inference.InferenceError), match=message):
        onnx.checker.check_model(made, full_check=True)
    with pytest.raises(ValueError, match="allowed"):
        BY_NAME["FourierTransform"].reference(*inputs, **attributes)


@pytest.mark.parametrize("op", ["ForwardSTFT", "InverseSTFT"])
@pytest.mark.parametrize("element", [np.float32, np.float64])
def test_window_that_does_not_fit_is_refused_by_the_bodies(op: str, element: Any) -> None:
    inputs, attributes = MADE[op]("plain", element)
    if op == "ForwardSTFT":
        inputs[0] = np.zeros((1, 1, 15), element)
    else:
        attributes["pads"] = [36, 1]
    made = model(op, inputs, attributes, bodies=True, open_sizes=True)
    with pytest.raises((onnxruntime.capi.onnxruntime_pybind11_state.Fail, Exception)):
        run(made, feeds_of(op, inputs), "none")


def test_python_ops_report_what_they_refuse() -> None:
    inputs, attributes = forward("plain")
    inputs[0] = np.zeros((1, 1, 15), np.float32)
    made = model("ForwardSTFT", inputs, attributes, open_sizes=True)
    with pytest.raises(Exception, match="the window has 16 taps; allowed: up to the 15"):
        run(made, feeds_of("ForwardSTFT", inputs), "python")


def test_nodes_with_and_without_a_length_share_a_body() -> None:
    made = model("FourierTransform", *fourier("cut"))
    made.graph.node.append(
        helper.make_node("FourierTransform", ["X"], ["Z"], name="m", domain=DOMAIN, axis=1, inverse=1, onesided=0)
    )
    made.graph.output.append(helper.make_tensor_value_info("Z", TensorProto.FLOAT, [None] * 3))
    read = ir.from_proto(made)
    functions.attach(read)
    made = ir.to_proto(read)
    onnx.checker.check_model(made, full_check=True)
    inputs, _ = fourier("cut")
    y, z = run(made, feeds_of("FourierTransform", inputs), "none")
    assert inputs[0] is not None
    assert_close(y, transformed(inputs[0], 7, axis=1), np.float32)
    assert_close(z, transformed(inputs[0], axis=1, inverse=1), np.float32)


def test_bodies_of_every_switch_compute_the_same() -> None:
    for op, make in MADE.items():
        inputs, attributes = make("padded")
        expected = defined(op, inputs, attributes)
        operator = BY_NAME[op]
        others = [name for name in operator.switches if name != "sines"]
        for count in range(len(others) + 1):
            for on in itertools.combinations(others, count):
                made = model(op, inputs, attributes)
                made.functions.append(operator.body(21, frozenset(on)))
                assert_close(run(made, feeds_of(op, inputs), "none")[0], expected, np.float32)

"""Kernels of the Fourier operators in sessions, against the definition in float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest

import ortconv
from ortconv.errors import PluginError
from ortconv.runtime.library import FOURIER_ENTRY
from tests.operators.native import quiet, refusal
from tests.operators.spectral import assert_close, defined, feeds_of, model, transformed, wave
from tests.running import run

TYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
LENGTHS = [*range(1, 65), 97, 101, 400, 1000, 1024, 2049, 4096]
FRAMES = (1, 7, 8, 9, 33)

pytestmark = pytest.mark.usefixtures("library")


def problem(n: int, element: Any) -> dict[str, Any]:
    """Attributes and inputs of all three operators, which vary with the length of the transform."""
    random = np.random.default_rng(n)
    taps = n if n % 3 else max(n - 2, 1)
    parts = n % 3
    bins = min([n // 2 + 1, 1, n, max(n // 2 - 1, 1)][n % 4], n)
    channels = bins * (1 if parts else 2)
    frames, hop = FRAMES[n % 5], max(n // (1 + n % 5), 1)
    pads = [n % 4, n // 3]
    length = (frames - 1) * hop + taps - sum(pads)
    if length < 0:
        pads, length = [0, 0], (frames - 1) * hop + taps
    grid = {"hop": [hop], "pads": pads}
    transform = {"n_fft": n, "parts": parts}

    def draw(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(element)

    window, gains = random.uniform(0.2, 1, taps).astype(element), random.uniform(0.5, 1.5, channels).astype(element)
    added = {"output_padding": [n % 3]}
    return {
        "ForwardSTFT": ([draw(2, 1, length), window, gains], {**grid, **transform}),
        "InverseSTFT": ([draw(2, channels, frames), window, gains], {**grid, **transform, **added}),
        "OverlapAdd": ([draw(2, taps, frames), window], {**grid, **added}),
    }


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("n", LENGTHS)
def test_lengths_windows_parts_and_bins(n: int, element: Any) -> None:
    for op, (inputs, attributes) in problem(n, element).items():
        (y,) = run(model(op, inputs, attributes, open_sizes=n % 2 == 0), feeds_of(op, inputs), "native")
        assert_close(y, defined(op, inputs, attributes), element)


@pytest.mark.parametrize("element", TYPES[:3])
@pytest.mark.parametrize("n", [16, 60, 101, 512])
def test_threads_give_the_same_bits(n: int, element: Any) -> None:
    random = np.random.default_rng(n)
    hop, bins, frames = max(n // 5, 1), n // 2 + 1, 1003
    window, gains = random.uniform(0.2, 1, n).astype(element), random.uniform(0.5, 1.5, 2 * bins).astype(element)
    attributes = {"n_fft": n, "hop": [hop], "pads": [n // 2, n // 2], "parts": 0}
    signal = random.standard_normal((1, 1, (frames - 1) * hop)).astype(element)
    spectrum = random.standard_normal((1, 2 * bins, frames)).astype(element)
    given: list[tuple[str, list[np.ndarray | None], dict[str, Any]]] = [
        ("ForwardSTFT", [signal, window, gains], attributes),
        ("InverseSTFT", [spectrum, window, gains], {**attributes, "output_padding": [3]}),
        ("FourierTransform", [spectrum[..., :1000, None]], {"axis": 2, "inverse": 0, "onesided": 0}),
    ]
    for op, inputs, more in given:
        made = model(op, inputs, more)
        one, two = (
            ortconv.InferenceSession(made, quiet(threads), providers=["CPUExecutionProvider"]) for threads in (1, 2)
        )
        feeds = feeds_of(op, inputs)
        (expected,), (found,) = one.run(None, feeds), two.run(None, feeds)
        assert expected.tobytes() == found.tobytes()
        if op != "FourierTransform":
            assert_close(found, defined(op, inputs, more), element)


@pytest.mark.parametrize("element", [np.float32, np.float16])
@pytest.mark.parametrize(("frames", "pads", "added"), [(0, (0, 0), 9), (0, (0, 0), 0), (1, (3, 5), 0), (2, (25, 1), 7)])
def test_few_frames(frames: int, pads: tuple[int, int], added: int, element: Any) -> None:
    random = np.random.default_rng(7)
    window, gains = random.uniform(0.2, 1, 16).astype(element), random.uniform(0.5, 1.5, 18).astype(element)
    grid = {"hop": [10], "pads": list(pads), "output_padding": [added]}
    spectrum = random.standard_normal((2, 18, frames)).astype(element)
    given: list[tuple[str, list[np.ndarray | None], dict[str, Any]]] = [
        ("InverseSTFT", [spectrum, window, gains], {**grid, "n_fft": 16, "parts": 0}),
        ("InverseSTFT", [spectrum[:, :9], window, gains, spectrum[:, 9:]], {**grid, "n_fft": 16, "parts": 0}),
        ("OverlapAdd", [spectrum[:, :16], window], grid),
    ]
    if frames == 0:
        given = [each for each in given if sum(pads) <= 6 + added]
    for op, inputs, attributes in given:
        for dims in (False, True):
            (y,) = run(model(op, inputs, attributes, open_sizes=dims), feeds_of(op, inputs), "native")
            assert_close(y, defined(op, inputs, attributes), element)


def test_empty_batch() -> None:
    for op, (inputs, attributes) in problem(16, np.float32).items():
        data = inputs[0]
        assert data is not None
        inputs[0] = data[:0]
        (y,) = run(model(op, inputs, attributes), feeds_of(op, inputs), "native")
        assert y.shape == defined(op, inputs, attributes).shape


def test_constants_and_a_distance_beyond_the_signal() -> None:
    inputs, attributes = problem(16, np.float32)["ForwardSTFT"]
    attributes["hop"] = [1 << 60]
    constants = ("window", "gains")
    (y,) = run(
        model("ForwardSTFT", inputs, attributes, constants), feeds_of("ForwardSTFT", inputs, constants), "native"
    )
    assert_close(y, defined("ForwardSTFT", inputs, attributes), np.float32)


@pytest.mark.parametrize("n", [1 << 16, (1 << 16) + 10])
def test_long_transforms(n: int) -> None:
    """A transform may be longer than the window, in proportion."""
    random = np.random.default_rng(1)
    window, gains = random.uniform(0.2, 1, 20000).astype(np.float32), np.ones(3, np.float32)
    attributes = {"n_fft": n, "hop": [3000], "pads": [0, 0], "parts": 2}
    inputs: list[np.ndarray | None] = [random.standard_normal((1, 1, 27000)).astype(np.float32), window, gains]
    made = model("ForwardSTFT", inputs, attributes)
    for _ in range(2):
        (y,) = run(made, feeds_of("ForwardSTFT", inputs), "native")
        assert_close(y, defined("ForwardSTFT", inputs, attributes), np.float32)


def test_transforms_out_of_all_proportion_are_refused() -> None:
    inputs, attributes = problem(16, np.float32)["ForwardSTFT"]
    attributes["n_fft"] = (1 << 16) + 1
    made = model("ForwardSTFT", inputs, attributes, open_sizes=True)
    assert "attribute n_fft = 65537 is not supported for 16 taps and" in refusal(made, feeds_of("ForwardSTFT", inputs))


FOURIER = [
    ((3, 17, 1), None, {}),
    ((3, 17, 2), None, {}),
    ((9, 64, 2), None, {"inverse": 1}),
    ((2, 64, 5, 1), None, {"inverse": 1}),
    ((2, 12, 1), None, {"onesided": 1}),
    ((2, 13, 7, 1), 20, {"onesided": 1}),
    ((2, 13, 1), 8, {"onesided": 1}),
    ((20, 9, 2), None, {"inverse": 1, "onesided": 1}),
    ((2, 9, 3, 2), 15, {"inverse": 1, "onesided": 1}),
    ((2, 3, 2), 16, {"inverse": 1, "onesided": 1}),
    ((2, 1, 2), 1, {"inverse": 1, "onesided": 1}),
    ((2, 11, 2), 6, {}),
    ((2, 3, 2, 2), 10, {"inverse": 1}),
    ((1, 1009, 1), None, {}),
    ((1, 1009, 2), None, {}),
    ((17, 360, 2), None, {}),
    ((0, 8, 2), None, {}),
    ((2, 0, 2), 4, {}),
    ((5, 1, 1), None, {}),
]


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize(("shape", "length", "flags"), FOURIER)
def test_fourier_transform(shape: tuple[int, ...], length: int | None, flags: dict[str, int], element: Any) -> None:
    attributes = {"axis": 1, "inverse": 0, "onesided": 0, **flags}
    x = np.random.default_rng(5).standard_normal(shape).astype(element)
    inputs = [x, None if length is None else np.array(length, np.int64)]
    for constants in ((), ("length",)):
        made = model("FourierTransform", [*inputs], attributes, constants)
        (y,) = run(made, feeds_of("FourierTransform", [*inputs], constants), "native")
        assert_close(y, transformed(x, length, **attributes), element)


@pytest.mark.parametrize("n", [*range(1, 65), 400, 1000, 1024, 2049, 4096])
def test_fourier_transforms_of_every_length(n: int) -> None:
    random = np.random.default_rng(n)
    given = [
        (random.standard_normal((9, n, 1)), {"onesided": 1, "inverse": 0}),
        (random.standard_normal((9, n, 2)), {"onesided": 0, "inverse": 0}),
        (random.standard_normal((3, n, 2)), {"onesided": 0, "inverse": 1}),
        (random.standard_normal((9, n // 2 + 1, 2)), {"onesided": 1, "inverse": 1}),
    ]
    for data, flags in given:
        for element in (np.float32, np.float64):
            x, attributes = data.astype(element), {"axis": 1, **flags}
            length = n if flags == {"onesided": 1, "inverse": 1} else None
            inputs = [x, None if length is None else np.array(length, np.int64)]
            (y,) = run(model("FourierTransform", inputs, attributes), feeds_of("FourierTransform", inputs), "native")
            assert_close(y, transformed(x, length, **attributes), element)


def test_imaginary_parts_that_a_hermitian_spectrum_has_not_are_ignored() -> None:
    x = np.random.default_rng(5).standard_normal((3, 9, 2)).astype(np.float32)
    attributes = {"axis": 1, "inverse": 1, "onesided": 1}
    expected = transformed(x, **attributes)
    x[:, [0, -1], 1] = np.nan
    (y,) = run(model("FourierTransform", [x], attributes), {"X": x}, "native")
    assert_close(y, expected, np.float32)


@pytest.mark.parametrize("n", [16, 400, 512, 1000, 1024, 2049, 4096])
def test_error_is_that_of_single_precision(n: int) -> None:
    """Against SciPy's transform in float32. NumPy's forward one of float32 is computed in float64 and rounded."""
    fft = pytest.importorskip("scipy.fft", reason="SciPy transforms float32 in float32")
    random = np.random.default_rng(n)
    bins, frames = n // 2 + 1, 40
    ones = np.ones(n, np.float32)
    signal = random.standard_normal((1, 1, frames * n)).astype(np.float32)
    attributes = {"n_fft": n, "hop": [n], "pads": [0, 0], "parts": 0}
    inputs: list[np.ndarray | None] = [signal, ones, np.ones(2 * bins, np.float32)]
    (y,) = run(model("ForwardSTFT", inputs, attributes), feeds_of("ForwardSTFT", inputs), "native")
    rows = signal.reshape(frames, n)
    exact = np.fft.rfft(rows.astype(np.float64)).T
    single = fft.rfft(rows).T

    def rms(values: np.ndarray) -> float:
        return float(np.sqrt(np.mean(np.abs(values) ** 2)))

    assert single.dtype == np.complex64
    assert rms(y[0, :bins] - 1j * y[0, bins:].astype(np.float64) - exact) <= 1.05 * rms(single - exact)
    gains = np.full(2 * bins, 2 / n)
    gains[[0, bins]] /= 2
    if n % 2 == 0:
        gains[[bins - 1, -1]] /= 2
    gains[bins:] *= -1
    spectrum = np.concatenate([single.real, single.imag])[None].astype(np.float32)
    inputs = [spectrum, ones, gains.astype(np.float32)]
    attributes["output_padding"] = [0]
    (y,) = run(model("InverseSTFT", inputs, attributes), feeds_of("InverseSTFT", inputs), "native")
    exact = np.fft.irfft(single.T.astype(np.complex128), n)
    assert rms(y.reshape(frames, n) - exact) <= 1.25 * rms(fft.irfft(single.T, n) - exact)


def test_filters_are_those_of_a_convolution() -> None:
    """ONNX Runtime's Conv and ConvTranspose by the filters that the operators stand for."""
    n, hop, bins = 20, 5, 11
    random = np.random.default_rng(2)
    window, gains = random.uniform(0.2, 1, n), random.uniform(0.5, 1.5, 2 * bins)
    filters = (wave(bins, n, n, 0) * window * gains[:, None]).astype(np.float32)[:, None]
    signal = random.standard_normal((2, 1, 91)).astype(np.float32)
    spectrum = random.standard_normal((2, 2 * bins, 9)).astype(np.float32)
    attributes = {"n_fft": n, "hop": [hop], "pads": [3, 4], "parts": 0}
    for op, data, standard, more in (
        ("ForwardSTFT", signal, "Conv", {}),
        ("InverseSTFT", spectrum, "ConvTranspose", {"output_padding": [0]}),
    ):
        inputs = [data, window.astype(np.float32), gains.astype(np.float32)]
        (y,) = run(model(op, [*inputs], {**attributes, **more}), feeds_of(op, [*inputs]), "native")
        text = f"""<ir_version: 10, opset_import: ["": 21]>
            g (float[N, C, L] x, float[O, I, K] w) => (float[A, B, D] y) {{
                y = {standard} <strides = [{hop}], pads = [3, 4]> (x, w)
            }}"""
        session = onnxruntime.InferenceSession(
            onnx.parser.parse_model(text).SerializeToString(), providers=["CPUExecutionProvider"]
        )
        (expected,) = session.run(None, {"x": data, "w": filters})
        np.testing.assert_allclose(y, expected, rtol=0, atol=3e-6 * np.abs(expected).max())


REFUSED: list[tuple[str, dict[str, Any], dict[int, tuple[int, ...]], str]] = [
    ("ForwardSTFT", {}, {0: (1, 2, 40)}, "input signal has shape [1, 2, 40]; allowed: rank 3, with 1"),
    ("ForwardSTFT", {}, {0: (1, 1, 1)}, "allowed: up to the"),
    ("ForwardSTFT", {}, {1: (0,)}, "input window has shape [0]; allowed: [K], at least one tap."),
    ("ForwardSTFT", {}, {1: (17,)}, "input window has 17 taps; allowed: up to n_fft = 16."),
    ("ForwardSTFT", {}, {2: (17,)}, "input gains has shape [17]; allowed: 1 for each of 1 to 16 bins."),
    ("InverseSTFT", {}, {0: (1, 3, 5)}, "input spectrum has shape [1, 3, 5]; allowed: rank 3, with 9"),
    ("InverseSTFT", {"pads": [1000, 0]}, {}, "allowed: at least 0."),
    ("OverlapAdd", {}, {0: (1, 15, 6)}, "input frames has shape [1, 15, 6]; allowed: rank 3, with 16"),
]


@pytest.mark.parametrize(("op", "changes", "shapes", "message"), REFUSED)
def test_runs_that_are_refused(
    op: str, changes: dict[str, Any], shapes: dict[int, tuple[int, ...]], message: str
) -> None:
    inputs, attributes = problem(16, np.float32)[op]
    for index, shape in shapes.items():
        inputs[index] = np.zeros(shape, np.float32)
    made = model(op, inputs, {**attributes, **changes}, open_sizes=True)
    assert message in refusal(made, feeds_of(op, inputs))


@pytest.mark.parametrize(
    ("op", "changes", "message"),
    [
        ("ForwardSTFT", {"n_fft": 0}, "attribute n_fft = 0 is not allowed; allowed: 1 to 2^27."),
        ("ForwardSTFT", {"n_fft": 1 << 40}, "allowed: 1 to 2^27."),
        ("ForwardSTFT", {"parts": 3}, "attribute parts = 3 is not allowed; allowed: 0 to 2."),
        ("ForwardSTFT", {"hop": [0]}, "attribute hop = [0] is not allowed; allowed: 1 integer from 1"),
        ("ForwardSTFT", {"hop": [1, 2]}, "attribute hop = [1, 2] is not allowed"),
        ("ForwardSTFT", {"pads": [0, 1 << 62]}, "attribute pads"),
        ("ForwardSTFT", {"pads": [-1, 0]}, "attribute pads = [-1, 0] is not allowed"),
        ("InverseSTFT", {"output_padding": [-1]}, "attribute output_padding = [-1] is not allowed"),
        ("OverlapAdd", {"hop": 3}, "attribute hop is missing, empty or of another type"),
    ],
)
def test_nodes_that_are_refused(op: str, changes: dict[str, Any], message: str) -> None:
    inputs, attributes = problem(16, np.float32)[op]
    assert message in refusal(model(op, inputs, {**attributes, **changes}, open_sizes=True))


@pytest.mark.parametrize(
    ("changes", "shape", "length", "message"),
    [
        ({"axis": 2}, (2, 8, 2), None, "attribute axis = 2 is not allowed; allowed: -3 to 1 but -1."),
        ({"axis": -1}, (2, 8, 2), None, "attribute axis = -1 is not allowed"),
        ({"onesided": 1}, (2, 8, 2), None, "the last axis of input X has size 2; allowed if onesided: 1."),
        ({}, (2, 8, 3), None, "input X has shape [2, 8, 3]"),
        ({}, (2, 8, 2), -1, "input length is -1; allowed: integers >= 0."),
        ({}, (2, 8, 2), 1 << 62, "allowed: 1 to 2^27."),
        ({}, (2, 0, 2), None, "the length of the transform is 0; allowed: 1 to 2^27."),
        ({"onesided": 1, "inverse": 1}, (2, 1, 2), None, "the length of the transform is 0"),
    ],
)
def test_transforms_that_are_refused(
    changes: dict[str, int], shape: tuple[int, ...], length: int | None, message: str
) -> None:
    attributes = {"axis": 1, "inverse": 0, "onesided": 0, **changes}
    inputs = [np.zeros(shape, np.float32), None if length is None else np.array(length, np.int64)]
    made = model("FourierTransform", [*inputs], attributes, open_sizes=True)
    assert message in refusal(made, feeds_of("FourierTransform", [*inputs]))


def test_flags_that_are_refused() -> None:
    x = np.zeros((2, 8, 2), np.float32)
    made = model("FourierTransform", [x], {"axis": 1, "inverse": 2, "onesided": 0}, open_sizes=True)
    assert "attribute inverse = 2 is not allowed; allowed: 0 and 1." in refusal(made)


def test_sines_are_refused_beside_other_parts() -> None:
    inputs, attributes = problem(16, np.float32)["InverseSTFT"]
    spectrum, gains = inputs[0], np.ones(18, np.float32)
    assert spectrum is not None
    attributes["parts"] = 0
    split = [spectrum, inputs[1], gains, np.zeros((2, 9, 2), np.float32)]
    assert "input sines has shape [2, 9, 2]; allowed" in refusal(
        model("InverseSTFT", split, attributes, open_sizes=True), feeds_of("InverseSTFT", split)
    )
    attributes["parts"] = 1
    split = [spectrum, inputs[1], gains[:9], spectrum]
    assert "attribute parts = 1 is not allowed; allowed beside sines: 0." in refusal(
        model("InverseSTFT", split, attributes, open_sizes=True), feeds_of("InverseSTFT", split)
    )


@pytest.mark.parametrize(("entry", "ours"), [(None, True), ("1", True), ("0", False)])
def test_entry_leaves_the_op_to_its_body(entry: str | None, ours: bool, tmp_path: Any) -> None:
    inputs, attributes = problem(16, np.float32)["ForwardSTFT"]
    options = quiet()
    options.optimized_model_filepath = str(tmp_path / "optimized.onnx")
    if entry is not None:
        options.add_session_config_entry(FOURIER_ENTRY, entry)
    ortconv.InferenceSession(
        model("ForwardSTFT", inputs, attributes, bodies=True), options, providers=["CPUExecutionProvider"]
    )
    types = {node.op_type for node in onnx.load(tmp_path / "optimized.onnx").graph.node}
    assert ("ForwardSTFT" in types) == ours


def test_entry_is_checked() -> None:
    options = quiet()
    options.add_session_config_entry(FOURIER_ENTRY, "no")
    with pytest.raises(PluginError, match="fourier_operators = 'no' is not supported; allowed: 0, 1"):
        ortconv.register(options)

"""Fourier operators on the GPU, against the definition in float64."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.cuda import device
from tests.operators.spectral import assert_close, defined, feeds_of, model, transformed

TYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
LENGTHS = [1, 2, 3, 12, 13, 16, 45, 64, 97, 101, 210, 400, 1000, 1024, 1201]
LONG = [] if device.EMULATED else [2048, 2049, 4096, 6000, 8192, 20000, 65536]
"""Too slow to emulate."""

pytestmark = pytest.mark.usefixtures("library")


def run(op: str, inputs: list[np.ndarray | None], attributes: dict[str, Any], *, open_sizes: bool) -> np.ndarray:
    made = model(op, inputs, attributes, open_sizes=open_sizes)
    (y,) = device.session(made, device.only_here()).run(None, feeds_of(op, inputs))
    return np.asarray(y)


def operands(n: int, element: Any) -> dict[str, Any]:
    """Inputs and attributes of the operators of frames, which vary with the length of the transform."""
    random = np.random.default_rng(n)
    taps, parts = n if n % 3 else max(n - 2, 1), n % 3
    bins = min([n // 2 + 1, 1, n, max(n // 2 - 1, 1)][n % 4], n)
    channels = bins * (1 if parts else 2)
    frames, hop = (1, 7, 3, 9, 4)[n % 5], max(n // (1 + n % 5), 1)
    pads = [n % 4, n // 3] if frames > 1 and n > 8 else [0, 0]
    length = (frames - 1) * hop + taps - sum(pads)
    grid = {"hop": [hop], "pads": pads}

    def draw(*shape: int) -> np.ndarray:
        return random.standard_normal(shape).astype(element)

    window, gains = random.uniform(0.2, 1, taps).astype(element), random.uniform(0.5, 1.5, channels).astype(element)
    return {
        "ForwardSTFT": ([draw(2, 1, length), window, gains], {**grid, "n_fft": n, "parts": parts}),
        "InverseSTFT": (
            [draw(2, channels, frames), window, gains],
            {**grid, "n_fft": n, "parts": parts, "output_padding": [n % 3]},
        ),
        "OverlapAdd": ([draw(2, taps, frames), window], {**grid, "output_padding": [n % 3]}),
    }


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize("n", LENGTHS + LONG[:2])
def test_lengths_windows_parts_and_bins(n: int, element: Any) -> None:
    for op, (inputs, attributes) in operands(n, element).items():
        y = run(op, inputs, attributes, open_sizes=n % 2 == 0)
        assert_close(y, defined(op, inputs, attributes), element)


@pytest.mark.parametrize("element", TYPES)
def test_cosines_and_sines_in_two_tensors(element: Any) -> None:
    (spectrum, window, gains), attributes = operands(12, element)["InverseSTFT"]
    assert attributes["parts"] == 0
    half = gains.size // 2
    inputs = [spectrum[:, :half], window, gains, spectrum[:, half:]]
    for open_sizes in (False, True):
        y = run("InverseSTFT", [*inputs], attributes, open_sizes=open_sizes)
        assert_close(y, defined("InverseSTFT", [*inputs], attributes), element)


FOURIER = [
    ((3, 17, 2), None, {}),
    ((9, 64, 2), None, {"inverse": 1}),
    ((2, 64, 5, 1), None, {"inverse": 1}),
    ((2, 13, 7, 1), 20, {"onesided": 1}),
    ((2, 13, 1), 8, {"onesided": 1}),
    ((20, 9, 2), None, {"inverse": 1, "onesided": 1}),
    ((2, 9, 3, 2), 15, {"inverse": 1, "onesided": 1}),
    ((2, 3, 2), 16, {"inverse": 1, "onesided": 1}),
    ((2, 3, 2, 2), 10, {"inverse": 1}),
    ((1, 1009, 1), None, {}),
    ((17, 360, 2), None, {}),
    ((0, 8, 2), None, {}),
    ((2, 0, 2), 4, {}),
]


@pytest.mark.parametrize("element", TYPES)
@pytest.mark.parametrize(("shape", "length", "flags"), FOURIER)
def test_fourier_transform(shape: tuple[int, ...], length: int | None, flags: dict[str, int], element: Any) -> None:
    attributes = {"axis": 1, "inverse": 0, "onesided": 0, **flags}
    x = np.random.default_rng(5).standard_normal(shape).astype(element)
    inputs = [x, None if length is None else np.array(length, np.int64)]
    for constants in ((), ("length",)):
        made = model("FourierTransform", [*inputs], attributes, constants)
        (y,) = device.session(made).run(None, feeds_of("FourierTransform", [*inputs], constants))
        assert_close(y, transformed(x, length, **attributes), element)


@pytest.mark.parametrize("n", LENGTHS + LONG)
def test_fourier_transforms_of_every_length(n: int) -> None:
    x = np.random.default_rng(n).standard_normal((3, n, 2)).astype(np.float32)
    attributes = {"axis": 1, "inverse": 0, "onesided": 0}
    y = run("FourierTransform", [x, None], attributes, open_sizes=False)
    expected = np.fft.fft(x[..., 0].astype(np.float64) + 1j * x[..., 1])
    error = y[..., 0] + 1j * y[..., 1].astype(np.float64) - expected
    assert np.sqrt(np.mean(np.abs(error) ** 2) / np.mean(np.abs(expected) ** 2)) <= 2e-7


def test_lengths_change_from_run_to_run() -> None:
    attributes = {"axis": 1, "inverse": 0, "onesided": 1}
    x = np.random.default_rng(1).standard_normal((2, 30, 1)).astype(np.float32)
    made = model("FourierTransform", [x, np.array(1, np.int64)], attributes, open_sizes=True)
    session = device.session(made)
    for length in (30, 16, 31, 7, 30, 64, 16):
        (y,) = session.run(None, {"X": x, "length": np.array(length, np.int64)})
        assert_close(y, transformed(x, length, **attributes), np.float32)


def test_what_is_refused_says_why() -> None:
    x = np.zeros((1, 4, 2), np.float32)
    made = model("FourierTransform", [x, np.array(1, np.int64)], {"axis": 1, "inverse": 0, "onesided": 0})
    session = device.session(made)
    with pytest.raises(
        Exception, match=r"the length of the transform is 16777259; allowed on a GPU for lengths with a"
    ):
        session.run(None, {"X": x, "length": np.array((1 << 24) + 43, np.int64)})
    with pytest.raises(Exception, match=r"input length is -1; allowed: integers >= 0"):
        session.run(None, {"X": x, "length": np.array(-1, np.int64)})

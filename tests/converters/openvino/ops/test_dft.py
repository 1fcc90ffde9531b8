"""Fourier transforms against OpenVINO's CPU plugin."""

from __future__ import annotations

import numpy as np
import pytest
from openvino import opset7, opset9, opset15, opset16

from ortconv.api import conversion
from ortconv.options import Target
from tests.converters.openvino.live import Row, assert_close, check, check_row, model_of, numbers, run_onnx

BOUND = 64


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


ROWS = [
    Row(
        f"{op.__name__} along {axes} of sizes {sizes}",
        lambda x, op=op, axes=axes, sizes=sizes: op(x, ints(*axes), *([] if sizes is None else [ints(*sizes)])),
        [[numbers(2, n, 6, 2)] for n in (5, 8)],
        bound=BOUND,
    )
    for op in (opset7.dft, opset7.idft)
    for axes, sizes in (
        ([1], None),
        ([-1], None),
        ([1, 2], None),
        ([0, 1, 2], None),
        ([1, 2], (4, 9)),
        ([1, 2], (-1, 3)),
    )
]
ROWS += [
    Row(
        f"rdft along {axes} of sizes {sizes}",
        lambda x, axes=axes, sizes=sizes: opset9.rdft(x, ints(*axes), *([] if sizes is None else [ints(*sizes)])),
        [[numbers(2, n, 6)] for n in (5, 8)],
        bound=BOUND,
    )
    for axes, sizes in (([2], None), ([1], None), ([1, 2], None), ([-2, -1], (4, 5)))
]
ROWS += [
    Row(
        f"irdft along {axes} of sizes {sizes}",
        lambda x, axes=axes, sizes=sizes: opset9.irdft(x, ints(*axes), *([] if sizes is None else [ints(*sizes)])),
        [[numbers(2, n, 6, 2)] for n in (5, 8)],
        bound=BOUND,
    )
    for axes, sizes in (([2], None), ([1], None), ([1, 2], None), ([-2, -1], (4, 9)))
]
ROWS += [
    Row(
        f"stft of frames of {size} every {step}, window {width}, transposed {transposed}",
        lambda x, w, size=size, step=step, t=transposed: opset15.stft(x, w, np.array(size), np.array(step), t),
        [[numbers(*shape, n), numbers(width, seed=1)] for n in (20, 31)],
        bound=BOUND,
    )
    for size, step, width, shape in ((8, 3, 8, (2,)), (7, 2, 4, (2,)), (16, 16, 11, ()))
    for transposed in (False, True)
]
ROWS += [
    Row(
        f"istft of {size} every {step}, window {width}, center {center}, normalized {normal}, length {length}",
        lambda x, w, size=size, step=step, c=center, n=normal, length=length: opset16.istft(
            x, w, np.array(size), np.array(step), c, n, *([] if length is None else [np.array(length)])
        ),
        [[numbers(*shape, size // 2 + 1, n, 2), numbers(width, low=1, high=2, seed=1)] for n in (6, 9)],
        bound=BOUND,
    )
    for size, step, width, shape in ((8, 3, 8, (2,)), (9, 4, 7, ()))
    for center in (False, True)
    for normal in (False, True)
    for length in ((None, 17, 60) if shape else (None,))
]
ROWS += [
    Row(
        f"{name} of {dtype}",
        lambda x, op=op, dtype=dtype, flags=flags: op(
            x, np.hanning(8).astype(dtype) + dtype(1), np.array(8), np.array(3), *flags
        ),
        [[numbers(*shape, dtype=dtype)]],
        bound=BOUND,
    )
    for dtype in (np.float16, np.float64)
    for name, op, shape, flags in (
        ("stft", opset15.stft, (2, 20), [False]),
        ("istft", opset16.istft, (2, 5, 6, 2), [False, False]),
    )
]

ROWS += [
    Row(
        f"{op.__name__} along {axes} of the run",
        op,
        [[numbers(2, 5, 6, 2, dtype=dtype), np.array(axes, index)], [numbers(3, 8, 4, 2), np.array(axes[::-1], index)]][
            : 2 if dtype == np.float32 else 1
        ],
        bound=BOUND,
    )
    for op in (opset7.dft, opset7.idft)
    for axes, index, dtype in (
        ([1], np.int64, np.float32),
        ([-1, 0], np.int32, np.float32),
        ([2, 0, 1], np.int64, np.float32),
        ([1], np.int64, np.float16),
    )
]
ROWS += [
    Row(
        f"{op.__name__} of sizes {sizes} of the run",
        lambda x, s, op=op: op(x, ints(1, 2), s),
        [[numbers(2, 5, 6, 2), ints(*sizes)], [numbers(2, 7, 6, 2), ints(*sizes[::-1])]],
        bound=BOUND,
    )
    for op in (opset7.dft, opset7.idft)
    for sizes in ((3, 8), (-1, 4), (-1, -1))
]
ROWS += [
    Row(
        f"{op.__name__} along axes of the run, of sizes {sizes} of the run",
        op,
        [[numbers(2, 5, 6, 2), ints(1, -3), ints(*sizes)], [numbers(3, 4, 6, 2), ints(-1, 1), ints(*sizes)]],
        bound=BOUND,
    )
    for op in (opset7.dft, opset7.idft)
    for sizes in ((3, 8), (-1, 4), (-1, -1))
]


@pytest.mark.parametrize("target", ["auto", "onnx"])
@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row, target: Target) -> None:
    check_row(row, target)


@pytest.mark.parametrize("target", ["auto", "onnx"])
def test_real_transforms_longer_than_the_data(target: Target) -> None:
    """OpenVINO's CPU plugin reads memory behind the data where a real transform is to be filled up with zeros."""
    signal, spectrum = numbers(2, 6), numbers(2, 6, 2)
    complex_spectrum = spectrum[..., 0] + 1j * spectrum[..., 1]
    forward = np.fft.rfft(signal, 9)
    for op, data, size, expected in (
        (opset9.rdft, signal, 9, np.stack([forward.real, forward.imag], -1)),
        (opset9.irdft, spectrum, 20, np.fft.irfft(complex_spectrum, 20)),
    ):
        model = model_of(lambda x, op=op, size=size: op(x, ints(1), ints(size)), [[data]])
        converted = conversion(model, target=target)
        assert_close(run_onnx(converted, [[data]])[0][0], expected.astype(np.float32), BOUND)
        assert len(converted.warnings) == 1
        assert "that zeros extend" in converted.warnings[0]


@pytest.mark.parametrize("target", ["auto", "onnx"])
def test_real_transforms_of_the_own_size(target: Target) -> None:
    """OpenVINO's CPU plugin fails, or gives a result of another shape, where signal_size is -1."""
    signal, spectrum = numbers(2, 6), numbers(2, 6, 2)
    forward = np.fft.rfft(signal)
    for op, data, expected in (
        (opset9.rdft, signal, np.stack([forward.real, forward.imag], -1)),
        (opset9.irdft, spectrum, np.fft.irfft(spectrum[..., 0] + 1j * spectrum[..., 1])),
    ):
        model = model_of(lambda x, op=op: op(x, ints(1), ints(-1)), [[data]], [[-1] * 2 + [2] * (data.ndim - 2)])
        converted = conversion(model, target=target)
        assert_close(run_onnx(converted, [[data]])[0][0], expected.astype(np.float32), BOUND)
        assert len(converted.warnings) == 1
        assert "returns another shape" in converted.warnings[0]


@pytest.mark.parametrize("target", ["auto", "onnx"])
@pytest.mark.parametrize("axes", [[1], [-1], [2, 0], [0, 1, 2]])
def test_real_transforms_along_axes_of_the_run(axes: list[int], target: Target) -> None:
    """In dynamic sizes: in static ones OpenVINO's CPU plugin fails."""
    for op, shapes in ((opset9.rdft, ((2, 5, 6), (3, 4, 7))), (opset9.irdft, ((2, 5, 6, 2), (3, 4, 7, 2)))):
        feeds = [[numbers(*shape), np.array(order)] for shape, order in zip(shapes, (axes, axes[::-1]), strict=True)]
        check(model_of(op, feeds), *feeds, bound=BOUND, target=target)


@pytest.mark.parametrize("target", ["auto", "onnx"])
@pytest.mark.parametrize(("sizes", "lengths"), [((3, 8), (3, 8)), ((-1, 4), (5, 4)), ((4, -1), (4, None))])
def test_real_transforms_of_sizes_of_the_run(
    sizes: tuple[int, int], lengths: tuple[int, int | None], target: Target
) -> None:
    """Along the last two axes; OpenVINO's CPU plugin fails, or gives nothing."""
    for running in (False, True):
        for forward in (True, False):
            op = opset9.rdft if forward else opset9.irdft
            data = numbers(2, 5, 6) if forward else numbers(2, 5, 6, 2)
            build = op if running else (lambda x, s, op=op: op(x, ints(1, 2), s))
            feed = [data, *([ints(1, 2)] if running else []), ints(*sizes)]
            converted = conversion(model_of(build, [feed]), target=target)
            if forward:
                whole = np.fft.rfft2(data, (lengths[0], lengths[1] or 6))
                expected = np.stack([whole.real, whole.imag], -1)
            else:
                expected = np.fft.irfft2(data[..., 0] + 1j * data[..., 1], (lengths[0], lengths[1] or 10))
            assert_close(run_onnx(converted, [feed])[0][0], expected.astype(np.float32), BOUND)

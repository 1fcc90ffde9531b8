"""Bugs of RDFT and IRDFT."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ortconv.converters.openvino.plugin_bugs.bug import Bug, Live, random

__all__ = ["AXIS_CUT", "OWN_SIGNAL_SIZE", "RUNTIME_SIGNAL_SIZE", "ZEROS_APPENDED"]

_SPECTRUM = (5, 6, 3, 2)


def _rdft(data: npt.NDArray[np.float32], size: int, *, is_open: bool = False, steady: bool = True) -> Live:
    """Makes a model of an RDFT along axis 1 with a signal_size, -1 for the size of the data."""
    right = np.fft.rfft(data, None if size == -1 else size, 1)
    return Live(
        lambda ov, x: ov.opset9.rdft(x, np.array([1]), np.array([size])),
        [data],
        np.stack([right.real, right.imag], -1).astype(np.float32),
        shapes=[[-1, -1]] if is_open else None,
        steady=steady,
    )


OWN_SIGNAL_SIZE = Bug(
    op="RDFT, IRDFT",
    case="signal_size -1, the size of the data",
    fault="fails or returns another shape",
    live=_rdft(random(2, 6), -1),
)

ZEROS_APPENDED = Bug(
    op="RDFT, IRDFT",
    case="an axis that zeros extend to signal_size",
    fault="reads behind the data instead",
    live=_rdft(random(2, 6), 9, steady=False),
)

RUNTIME_SIGNAL_SIZE = Bug(
    op="RDFT, IRDFT",
    case="a size known only at run time, where zeros may extend an axis to signal_size",
    fault="reads behind the data instead",
    live=_rdft(random(4, 3), 4, is_open=True, steady=False),
)

AXIS_CUT = Bug(
    op="IRDFT",
    case="three or more axes, and signal_size shortens an axis other than the first",
    fault="reads other memory",
    live=Live(
        lambda ov, x: ov.opset9.irdft(x, np.array([0, 1, 2]), np.array([5, 5, 4])),
        [random(*_SPECTRUM)],
        np.fft.irfft(
            np.fft.ifft(np.fft.ifft(random(*_SPECTRUM)[..., 0] + 1j * random(*_SPECTRUM)[..., 1], axis=0), 5, 1), 4, 2
        ),
        steady=False,
    ),
)

"""Bugs of RDFT and IRDFT."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from ortconv.converters.openvino.plugin_bugs.bug import Bug, Live, random

__all__ = ["AXIS_CUT", "OWN_SIGNAL_SIZE", "RUNTIME_SIGNAL_SIZE", "ZEROS_APPENDED"]

_SPECTRUM = (5, 6, 3, 2)


def _parts(x: npt.NDArray[np.complex128]) -> npt.NDArray[np.float32]:
    return np.stack([x.real, x.imag], -1).astype(np.float32)


OWN_SIGNAL_SIZE = Bug(
    op="RDFT, IRDFT",
    case="signal_size -1, the size of the data",
    fault="fails or returns another shape",
    live=lambda ov: Live(
        lambda x: ov.opset9.rdft(x, np.array([1]), np.array([-1])), [random(2, 6)], _parts(np.fft.rfft(random(2, 6)))
    ),
)

ZEROS_APPENDED = Bug(
    op="RDFT, IRDFT",
    case="an axis that zeros extend to signal_size",
    fault="reads behind the data instead",
    live=lambda ov: Live(
        lambda x: ov.opset9.rdft(x, np.array([1]), np.array([9])),
        [random(2, 6)],
        _parts(np.fft.rfft(random(2, 6), 9)),
        steady=False,
    ),
)

RUNTIME_SIGNAL_SIZE = Bug(
    op="RDFT, IRDFT",
    case="a size known only at run time, where zeros may extend an axis to signal_size",
    fault="reads behind the data instead",
    live=lambda ov: Live(
        lambda x: ov.opset9.rdft(x, np.array([1]), np.array([4])),
        [random(4, 3)],
        _parts(np.fft.rfft(random(4, 3), 4, 1)),
        shapes=[[-1, -1]],
        steady=False,
    ),
)

AXIS_CUT = Bug(
    op="IRDFT",
    case="three or more axes, and signal_size shortens an axis other than the first",
    fault="reads other memory",
    live=lambda ov: Live(
        lambda x: ov.opset9.irdft(x, np.array([0, 1, 2]), np.array([5, 5, 4])),
        [random(*_SPECTRUM)],
        np.fft.irfft(
            np.fft.ifft(np.fft.ifft(random(*_SPECTRUM)[..., 0] + 1j * random(*_SPECTRUM)[..., 1], axis=0), 5, 1), 4, 2
        ),
        steady=False,
    ),
)

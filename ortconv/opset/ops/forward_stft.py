"""The operator ``ForwardSTFT``: a short-time Fourier transform, laid out as a convolution by Fourier filters is."""

from __future__ import annotations

from ortconv.opset.bodies import spectral
from ortconv.opset.inferred_node import Dim, InferredNode
from ortconv.opset.operator import Formal, Operator
from ortconv.opset.ops.spectral_terms import (
    ACCUMULATION,
    FLOATS,
    GAINS,
    HOP,
    N_FFT,
    PADS,
    PARTS,
    WINDOW,
    check_shape,
    parts_of,
    switches_of_types,
)
from ortconv.opset.reference.spectral import forward_stft

__all__ = ["FORWARD_STFT"]

_DOC = """Y[n, c, t] = gains[c] * (the sum over j < K of window[j] * cs(f, j) * padded[n, t * hop + j]), where padded is
the signal between zeros, f is the bin of channel c, and cs(f, j) is cos(2 pi f j / n_fft) for a cosine channel and
sin(2 pi f j / n_fft) for a sine channel.

There are floor((L + begin + end - K) / hop) + 1 frames; L + begin + end is at least K. float16 and bfloat16 are
computed in float. This is Conv by the filters gains[c] * window[j] * cs(f, j)."""


def _infer(node: InferredNode) -> list[Dim] | None:
    _, taps, channels = parts_of(node)
    (hop,), pads = node.ints("hop", 1, 1), node.ints("pads", 2, 0)
    batch, _, length = check_shape(node, "signal", 0, [None, 1, None])
    if not isinstance(length, int) or not isinstance(taps, int):
        return [batch, channels, None]
    room = length + sum(pads) - taps
    if room < 0:
        raise node.fail(f"window has {taps} taps; allowed: up to the {room + taps} positions of the padded signal")
    return [batch, channels, room // hop + 1]


FORWARD_STFT = Operator(
    name="ForwardSTFT",
    doc=_DOC,
    types={"T": FLOATS},
    inputs=(Formal("signal", "T", "Signals [N, 1, L]."), WINDOW, GAINS),
    output=Formal("Y", "T", "Spectra [N, C, frames]."),
    attributes=(N_FFT, HOP, PADS, PARTS),
    accumulation=ACCUMULATION,
    infer=_infer,
    oldest_opset=spectral.OLDEST,
    text=spectral.forward_stft,
    reference=forward_stft,
    switches=(spectral.DOUBLE,),
    unify=switches_of_types,
)

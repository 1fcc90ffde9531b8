"""The operator ``OverlapAdd``: windowed frames, added up where they lie."""

from __future__ import annotations

from ortconv.opset.bodies import spectral
from ortconv.opset.inferred_node import Dim, InferredNode
from ortconv.opset.operator import Formal, Operator
from ortconv.opset.ops.spectral_terms import (
    ACCUMULATION,
    FLOATS,
    HOP,
    OUTPUT_PADDING,
    PADS,
    check_shape,
    check_taps,
    overlapped,
    switches_of_types,
)
from ortconv.opset.reference.spectral import overlap_add

__all__ = ["OVERLAP_ADD"]

_DOC = """Y[n, 0, t * hop + j - begin] += window[j] * frames[n, j, t].

Y has max((T - 1) * hop + K, 0) - begin - end + output_padding positions; those without a frame are 0. float16 and
bfloat16 are computed in float. This is ConvTranspose by the diagonal matrix of the window [K, 1, K]."""


def _infer(node: InferredNode) -> list[Dim] | None:
    taps = check_taps(node)
    batch, known, count = check_shape(node, "frames", 0, [None, taps, None])
    return [batch, 1, overlapped(node, count, known)]


OVERLAP_ADD = Operator(
    name="OverlapAdd",
    doc=_DOC,
    types={"T": FLOATS},
    inputs=(Formal("frames", "T", "Frames [N, K, T]."), Formal("window", "T", "Window [K].")),
    output=Formal("Y", "T", "Signals [N, 1, L]."),
    attributes=(HOP, PADS, OUTPUT_PADDING),
    accumulation=ACCUMULATION,
    infer=_infer,
    oldest_opset=spectral.OLDEST,
    text=spectral.overlap_add,
    reference=overlap_add,
    switches=(spectral.DOUBLE,),
    unify=switches_of_types,
)

"""The operator ``InverseSTFT``: overlapping frames of a spectrum, as a transposed convolution by Fourier filters."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as ir

from ortconv.opset.bodies import spectral
from ortconv.opset.inferred_node import Dim, InferredNode
from ortconv.opset.operator import Formal, Operator, Switches
from ortconv.opset.ops.spectral_terms import (
    ACCUMULATION,
    FLOATS,
    GAINS,
    HOP,
    N_FFT,
    OUTPUT_PADDING,
    PADS,
    PARTS,
    WINDOW,
    check_shape,
    overlapped,
    parts_of,
    switches_of_types,
)
from ortconv.opset.reference.spectral import inverse_stft

__all__ = ["INVERSE_STFT"]

_DOC = """Y[n, 0, t * hop + j - begin] += window[j] * (the sum over c of gains[c] * spectrum[n, c, t] * cs(f, j)), where
f is the bin of channel c, and cs(f, j) is cos(2 pi f j / n_fft) for a cosine channel and sin(2 pi f j / n_fft) for a
sine channel.

Y has max((frames - 1) * hop + K, 0) - begin - end + output_padding positions; those without a frame are 0. float16 and
bfloat16 are computed in float. This is ConvTranspose by the filters gains[c] * window[j] * cs(f, j)."""

_SINES = 3
"""Position of the optional input."""


def _infer(node: InferredNode) -> list[Dim] | None:
    parts, taps, channels = parts_of(node)
    if not node.has(_SINES):
        batch, _, frames = check_shape(node, "spectrum", 0, [None, channels, None])
    else:
        if parts != 0:
            raise node.fail(f"attribute parts = {parts} is not allowed; allowed beside sines: 0")
        bins = channels // 2 if isinstance(channels, int) else None
        cosines = check_shape(node, "spectrum", 0, [None, bins, None])
        batch, _, frames = check_shape(node, "sines", _SINES, cosines)
    return [batch, 1, overlapped(node, frames, taps)]


def _unify(nodes: Sequence[ir.Node], graph: ir.Graph) -> Switches:
    """Concatenates cosines and sines of the nodes that have both, unless all nodes have."""
    switches = switches_of_types(nodes, graph)
    joined = [node for node in nodes if len(node.inputs) > _SINES and node.inputs[_SINES] is not None]
    if len(joined) == len(nodes):
        return switches | {spectral.SINES}
    for node in nodes:
        if node in joined:
            _concatenate(node)
        node.resize_inputs(_SINES)
    return switches


def _concatenate(node: ir.Node) -> None:
    cosines, sines = node.inputs[0], node.inputs[_SINES]
    assert cosines is not None
    assert node.graph is not None
    name = f"{node.name or node.outputs[0].name}/spectrum"
    joined = ir.node("Concat", [cosines, sines], {"axis": 1}, name=name)
    value = joined.outputs[0]
    value.name, value.type = name, cosines.type
    if cosines.shape is not None:
        batch, bins, frames = cosines.shape
        value.shape = ir.Shape([batch, 2 * bins if isinstance(bins, int) else None, frames])
    node.graph.insert_before(node, joined)
    node.replace_input_with(0, value)


INVERSE_STFT = Operator(
    name="InverseSTFT",
    doc=_DOC,
    types={"T": FLOATS},
    inputs=(
        Formal("spectrum", "T", "Spectra [N, C, frames]; with sines the cosine channels [N, F, frames]."),
        WINDOW,
        GAINS,
        Formal(spectral.SINES, "T", "Sine channels [N, F, frames]; parts is 0 then.", optional=True),
    ),
    output=Formal("Y", "T", "Signals [N, 1, L]."),
    attributes=(N_FFT, HOP, PADS, OUTPUT_PADDING, PARTS),
    accumulation=ACCUMULATION,
    infer=_infer,
    oldest_opset=spectral.OLDEST,
    text=spectral.inverse_stft,
    reference=inverse_stft,
    switches=(spectral.DOUBLE, spectral.SINES),
    unify=_unify,
)

"""Schema entries and shape checks that the operators of Fourier transforms share."""

from __future__ import annotations

from collections.abc import Sequence

import onnx.defs
import onnx_ir as ir
from onnx import TensorProto

from ortconv.opset.bodies.spectral import DOUBLE
from ortconv.opset.inferred_node import Dim, InferredNode, differ
from ortconv.opset.operator import Attribute, Formal, Switches, Type

__all__ = [
    "ACCUMULATION",
    "FLOATS",
    "GAINS",
    "HOP",
    "N_FFT",
    "OUTPUT_PADDING",
    "PADS",
    "PARTS",
    "WINDOW",
    "check_shape",
    "check_taps",
    "overlapped",
    "parts_of",
    "switches_of_types",
]

_Kind = onnx.defs.OpSchema.AttrType

ACCUMULATION: dict[int, int] = {
    TensorProto.FLOAT: TensorProto.FLOAT,
    TensorProto.FLOAT16: TensorProto.FLOAT,
    TensorProto.BFLOAT16: TensorProto.FLOAT,
    TensorProto.DOUBLE: TensorProto.DOUBLE,
}
"""Element type of the tensors -> the type in which products are formed and summed."""

FLOATS = Type(tuple(ACCUMULATION), "Floats.")

WINDOW = Formal("window", "T", "Window [K]; K is at most n_fft.")
GAINS = Formal(
    "gains", "T", "A factor for each channel [C]: of 2 F channels if parts is 0, else F; F is at most n_fft."
)

N_FFT = Attribute("n_fft", _Kind.INT, "Length of the transform.")
HOP = Attribute("hop", _Kind.INTS, "[hop]: the distance of frames, at least 1.")
PADS = Attribute("pads", _Kind.INTS, "[begin, end], none negative.")
OUTPUT_PADDING = Attribute("output_padding", _Kind.INTS, "[count]: positions added at the end, not negative.")
PARTS = Attribute(
    "parts", _Kind.INT, "0: F cosine channels, then F sine channels; 1: cosine channels only; 2: sine channels only."
)


def check_shape(node: InferredNode, name: str, index: int, shape: Sequence[Dim]) -> list[Dim]:
    """Checks the shape of an input against what is known, and returns what is known of either.

    Args:
        node: The node.
        name: The name of the input.
        index: Its position.
        shape: What it must be.
    """
    given = node.dims(index)
    if given is None:
        return list(shape)
    if len(given) != len(shape) or any(map(differ, given, shape)):
        raise node.fail(f"{name} has shape {given}; allowed: {['?' if dim is None else dim for dim in shape]}")
    return [
        mine if isinstance(mine, int) or theirs is None else theirs for mine, theirs in zip(shape, given, strict=True)
    ]


def check_taps(node: InferredNode, index: int = 1) -> Dim:
    """Checks the shape of the window, and returns its size."""
    (taps,) = check_shape(node, "window", index, [None])
    if taps == 0:
        raise node.fail("window has shape [0]; allowed: at least one tap")
    return taps


def parts_of(node: InferredNode) -> tuple[int, Dim, Dim]:
    """Checks n_fft, parts, window [K] and gains [C], the second and third input; returns parts, K and C."""
    n_fft, parts = node.positive("n_fft"), node.integer("parts")
    if parts not in (0, 1, 2):
        raise node.fail(f"attribute parts = {parts} is not allowed; allowed: 0 to 2")
    taps = check_taps(node)
    if isinstance(taps, int) and taps > n_fft:
        raise node.fail(f"window has {taps} taps; allowed: up to n_fft = {n_fft}")
    (channels,) = check_shape(node, "gains", 2, [None])
    each = 1 if parts else 2
    if isinstance(channels, int) and (channels % each or not 1 <= channels // each <= n_fft):
        raise node.fail(f"gains has shape [{channels}]; allowed: {each} for each of 1 to {n_fft} bins")
    return parts, taps, channels


def overlapped(node: InferredNode, frames: Dim, taps: Dim) -> Dim:
    """Returns the length of the sum of overlapping frames, from the attributes hop, pads and output_padding."""
    (hop,), pads, (added,) = node.ints("hop", 1, 1), node.ints("pads", 2, 0), node.ints("output_padding", 1, 0)
    if not isinstance(frames, int) or not isinstance(taps, int):
        return None
    length = max((frames - 1) * hop + taps, 0) - sum(pads) + added
    if length < 0:
        raise node.fail(f"the padding leaves a size of {length}; allowed: at least 0")
    return length


def switches_of_types(nodes: Sequence[ir.Node], graph: ir.Graph) -> Switches:
    """Returns the switch of bodies that compute in double if data of a node is double; `graph` is not changed."""
    data = [node.inputs[0] for node in nodes]
    return frozenset({DOUBLE} if any(each is not None and each.dtype == ir.DataType.DOUBLE for each in data) else ())

"""Quantizers: nodes that round floats to at most 256 levels, as QuantizeLinear and DequantizeLinear do.

A lowering emits the formula of FakeQuantize and marks it. The pass `qdq_patterns` decides whether QuantizeLinear and
DequantizeLinear replace it.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.graph.annotations import QUANTIZER

__all__ = ["LEVELS", "Quantizer", "mark_quantizer", "quantizers"]

LEVELS = 256
"""The number of levels of 8 bits."""

_EXACT = 2e-5
"""The largest distance of zero from a level, in levels, that is taken for a rounding error of float32 bounds."""


@dataclasses.dataclass(frozen=True, eq=False)
class Quantizer:
    """Nodes that round floats to (q - point) * scale + offset, with q from 0 to 255.

    Attributes:
        head: The first of its nodes; its first input is the data.
        tail: The last one.
        clip: The node that clips the data, where there are fewer than 256 levels; else None.
        scale: The scale, float32: a scalar, or one per channel.
        points: The zero points: of the shape of the scale.
        offset: What the level next to zero is, float64, of the shape of the scale; 0 if zero is a level.
        axis: The axis of the channels.
    """

    head: ir.Node
    tail: ir.Node
    clip: ir.Node | None
    scale: npt.NDArray[np.float32]
    points: npt.NDArray[np.int64]
    offset: npt.NDArray[np.float64]
    axis: int

    @property
    def data(self) -> ir.Value:
        """The input."""
        data = self.head.inputs[0]
        assert data is not None
        return data

    @property
    def result(self) -> ir.Value:
        """The output."""
        return self.tail.outputs[0]

    @property
    def point(self) -> int:
        """The zero point, where all channels have the same."""
        return int(self.points.flat[0])

    @property
    def is_movable(self) -> bool:
        """Whether its scales per channel can move into the weights around it: along axis 1, with one exact zero."""
        return self.axis == 1 and not self.offset.any() and bool((self.points == self.point).all())


def mark_quantizer(
    data: ir.Value, head: ir.Value, within: ir.Value, tail: ir.Value, levels: int, low: np.ndarray, high: np.ndarray
) -> str | None:
    """Marks nodes as a quantizer.

    Args:
        data: The input.
        head: The output of the first node, which has the data and constants as inputs.
        within: The clipped data, the output of the first node or of the second.
        tail: The output of the last node.
        levels: The number of levels.
        low: The lowest level; broadcasts to the data.
        high: The highest level; broadcasts to the data.

    Returns:
        Why it is none, or None.
    """
    first, clip, last = head.producer(), within.producer(), tail.producer()
    if first is None or clip is None or last is None or data.const_value is not None:
        return "its data are constant"
    if data.dtype != ir.DataType.FLOAT:
        return f"its data are {data.dtype}"
    if levels > LEVELS:
        return f"it has {levels} levels, and 8 bits hold {LEVELS}"
    begin, end = np.broadcast_arrays(low.astype(np.float64), high.astype(np.float64))
    several = [axis - begin.ndim for axis, size in enumerate(begin.shape) if size != 1]
    if len(several) > 1:
        return "its ranges differ along several axes"
    if several and data.shape is None:
        return "its ranges differ along an axis, and the rank of its data is not known"
    shape = (-1,) if several else ()
    first_level, steps = begin.reshape(shape), ((end - begin) / (levels - 1)).reshape(shape)
    scale = steps.astype(np.float32)
    if not (np.isfinite(scale).all() and (scale >= np.finfo(np.float32).tiny).all()):
        return "its levels are too close for float32"
    points = np.clip(np.round(-first_level / steps), 0, LEVELS - 1)
    offset = np.asarray(first_level + points * steps)
    offset = np.where(np.abs(offset) < _EXACT * steps, 0, offset)
    assert not several or data.shape is not None
    axis = len(data.shape) + several[0] if several and data.shape is not None else 1
    within.type, within.shape = data.type, data.shape
    cut = None if levels == LEVELS else clip
    QUANTIZER.set(last, Quantizer(first, last, cut, scale, points.astype(np.int64), offset, axis))
    return None


def quantizers(graph: ir.Graph) -> list[Quantizer]:
    """Returns the quantizers of a graph and of the bodies of its nodes."""
    found = (QUANTIZER.get(node) for node in ir.traversal.RecursiveGraphIterator(graph))
    return [each for each in found if each is not None]

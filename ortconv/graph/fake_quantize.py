"""Quantizers: nodes that round floats to one of 256 levels, as QuantizeLinear and DequantizeLinear do.

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
    """Nodes that round floats to (q - point) * scale, with q from 0 to 255.

    Attributes:
        head: The first of its nodes; its first input is the data.
        tail: The last one.
        scale: The scale, float32: a scalar, or one per channel along axis 1.
        point: The zero point.
    """

    head: ir.Node
    tail: ir.Node
    scale: npt.NDArray[np.float32]
    point: int

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


def mark_quantizer(data: ir.Value, head: ir.Value, tail: ir.Value, low: np.ndarray, high: np.ndarray) -> None:
    """Marks nodes as a quantizer, if it has one zero point for all channels.

    Args:
        data: The input.
        head: The output of the first node, which has the data and constants as inputs.
        tail: The output of the last node.
        low: The lowest of 256 levels; broadcasts to the data.
        high: The highest level; broadcasts to the data.
    """
    first, last = head.producer(), tail.producer()
    if first is None or last is None or data.dtype != ir.DataType.FLOAT or data.const_value is not None:
        return
    begin, end = np.broadcast_arrays(low.astype(np.float64), high.astype(np.float64))
    several = [axis - begin.ndim for axis, size in enumerate(begin.shape) if size != 1]
    if several and (data.shape is None or several != [1 - len(data.shape)]):
        return
    steps = (end - begin) / (LEVELS - 1)
    scale = (steps.reshape(-1) if several else steps.reshape(())).astype(np.float32)
    points = -begin / steps
    point = int(np.round(points.flat[0]))
    normal = np.isfinite(scale).all() and (scale >= np.finfo(np.float32).tiny).all()
    if normal and 0 <= point < LEVELS and bool((np.abs(points - point) < _EXACT).all()):
        QUANTIZER.set(last, Quantizer(first, last, scale, point))


def quantizers(graph: ir.Graph) -> list[Quantizer]:
    """Returns the quantizers of a graph and of the bodies of its nodes."""
    found = (QUANTIZER.get(node) for node in ir.traversal.RecursiveGraphIterator(graph))
    return [each for each in found if each is not None]

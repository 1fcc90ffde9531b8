"""Concat, Split, VariadicSplit."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.constants import constant_axis, int64_vector, known_ints, length_of, normalized
from ortconv.converters.openvino.lib.dynamic_axes import View, view_along
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder

_MOST_PARTS = 1 << 16
"""The largest supported number of parts; more indicate a damaged file."""


@REGISTRY.lowering("Concat")
def concat(b: Builder, *inputs: ir.Value, axis: int) -> ir.Value:
    """Concat."""
    return b.op("Concat", *inputs, axis=axis)


@REGISTRY.lowering("Split", how="exact")
def split(b: Builder, data: ir.Value, axis: ir.Value, /, *, num_splits: int) -> tuple[ir.Value, ...]:
    """Split into equal parts."""
    if not 1 <= num_splits <= _MOST_PARTS:
        raise UnsupportedAttributeError("num_splits", num_splits, f"an integer from 1 to {_MOST_PARTS}")
    if b.array(axis) is None:
        view = view_along(b, data, axis)
        each = b.op("Div", view.size, b.constant([num_splits]))
        return tuple(view.restored(b, part, each) for part in _parts(b, view, each, num_splits))
    along = constant_axis(b, axis)
    size = None if data.shape is None else data.shape[normalized((along,), len(data.shape), "axis")[0]]
    if isinstance(size, int) and size % num_splits:
        raise UnsupportedAttributeError("num_splits", num_splits, f"a divisor of the axis' size, {size}")
    if size == 0:  # ONNX Runtime rejects num_outputs for an empty axis
        return b.op("Split", data, b.constant([0] * num_splits), outputs=num_splits, axis=along)
    return b.op("Split", data, outputs=num_splits, axis=along, num_outputs=num_splits)


@REGISTRY.lowering("VariadicSplit")
def variadic_split(b: Builder, data: ir.Value, axis: ir.Value, split_lengths: ir.Value, /) -> tuple[ir.Value, ...]:
    """Split; a length of -1 becomes the remaining size."""
    count = length_of(split_lengths, "split_lengths", most=_MOST_PARTS)
    if count < len(b.node.outputs):
        raise ShapeError("split_lengths", split_lengths.shape, f"it must have {len(b.node.outputs)} entries.")
    known = known_ints(b, split_lengths)
    lengths = int64_vector(b, split_lengths)
    view = view_along(b, data, axis) if b.array(axis) is None else None
    along = constant_axis(b, axis) if view is None else 1
    if known is None or -1 in known:
        whole = view.size if view is not None else b.op("Gather", b.op("Shape", data), b.constant([along]))
        taken = b.op("ReduceSum", b.op("Max", lengths, b.constant([0])), keepdims=1)
        rest = b.op("Equal", lengths, b.constant([-1]))
        lengths = b.op("Where", rest, b.op("Sub", whole, taken), lengths)
    if view is None:
        return b.op("Split", data, lengths, outputs=count, axis=along)
    sizes = [b.op("Slice", lengths, b.constant([place]), b.constant([place + 1])) for place in range(count)]
    parts = b.op("Split", view.value, lengths, outputs=count, axis=along)
    return tuple(view.restored(b, part, size) for part, size in zip(parts, sizes, strict=True))


def _parts(b: Builder, view: View, each: ir.Value, count: int) -> tuple[ir.Value, ...]:
    """Splits a view along its middle axis."""
    return b.op("Split", view.value, b.op("Expand", each, b.constant([count])), outputs=count, axis=1)

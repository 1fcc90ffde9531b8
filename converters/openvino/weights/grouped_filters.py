"""Filters of grouped convolutions, whose group axis ONNX merges into the next one."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.conv.layout import merge_axes
from ortconv.converters.openvino.weights.dequantization import reshaped
from ortconv.errors import ShapeError
from ortconv.graph.builder import Builder

__all__ = ["grouped"]


def grouped(b: Builder, data: ir.Value, filter: ir.Value) -> tuple[int, ir.Value]:
    """Returns the number of groups and the weights with the group axis merged into the next.

    Raises:
        ShapeError: The number of groups is not known, or the ranks do not fit.
    """
    if filter.shape is not None and len(filter.shape) < 3:
        raise ShapeError("filter", list(filter.shape), "its rank must be at least 3.")
    if filter.shape is None or not isinstance(filter.shape[0], int):
        raise ShapeError(
            "filter", None if filter.shape is None else list(filter.shape), "the number of groups must be known."
        )
    groups = filter.shape[0]
    if groups < 1:
        raise ShapeError("filter", list(filter.shape), f"has {groups} groups; at least 1 is required.")
    if data.shape is not None and len(filter.shape) != len(data.shape) + 1:
        raise ShapeError("filter", list(filter.shape), f"rank {len(data.shape) + 1} is required beside the data's.")
    first = groups * filter.shape[1] if isinstance(filter.shape[1], int) else None
    merged = reshaped(b, filter, [first, *filter.shape[2:]])
    return groups, merge_axes(b, filter) if merged is None else merged

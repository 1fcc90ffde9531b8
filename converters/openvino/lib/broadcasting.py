"""The attribute auto_broadcast of elementwise ops: none, numpy, and pdpd (PaddlePaddle)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import onnx_ir as ir

from ortconv.converters.openvino.plugin_bugs.elementwise import PDPD_ALIGNED_AT_END
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder

__all__ = ["AutoBroadcast", "aligned", "rank_of"]

AutoBroadcast = Literal["none", "numpy", "pdpd", "explicit"]
"""OpenVINO reads "explicit" as another word for "none"."""
_AXIS = "auto_broadcast.auto_broadcast_axis"


def aligned(
    b: Builder, left: ir.Value, right: ir.Value, auto_broadcast: AutoBroadcast, axis: int
) -> tuple[ir.Value, ir.Value]:
    """Returns operands that ONNX broadcasts as the source does.

    Args:
        b: The builder.
        left: The first operand; "pdpd" broadcasts the second onto it.
        right: The second.
        auto_broadcast: The rule.
        axis: "pdpd" only: the axis of the first operand that the second one's first axis meets; -1 aligns them right.

    Raises:
        ShapeError: "none" and the shapes differ, or "pdpd" and a rank is unknown or the second operand does not fit.
    """
    if auto_broadcast in ("none", "explicit"):
        _require_equal(left, right)
    if auto_broadcast != "pdpd":
        return left, right
    left_rank, right_rank = rank_of(left, "the first input"), rank_of(right, "the second input")
    if axis < -1:
        raise UnsupportedAttributeError("auto_broadcast_axis", axis, "-1, or an axis of the first input")
    if _AXIS not in b.node.attributes and left_rank != right_rank:
        b.follow(f"follows OpenVINO: {_AXIS} is missing and defaults to 0; the specification says -1")
    start = left_rank - right_rank if axis == -1 else axis
    behind = left_rank - start - right_rank
    assert left.shape is not None
    assert right.shape is not None
    longer = start < 0 or (behind < 0 and any(dim != 1 for dim in right.shape[behind:]))
    if longer or not _fits(list(right.shape), left.shape[start:]):
        raise ShapeError("the second input", right.shape, f"it does not fit onto {left.shape} from axis {start} on.")
    if behind and left_rank - right_rank >= 0 and _fits(list(right.shape), left.shape[left_rank - right_rank :]):
        PDPD_ALIGNED_AT_END.warn(b)
    if behind > 0:
        shaped = b.op("Unsqueeze", right, b.constant(list(range(right_rank, right_rank + behind))))
    elif behind < 0:
        shaped = b.op("Squeeze", right, b.constant(list(range(right_rank + behind, right_rank))))
    else:
        return left, right
    return left, b.typed(shaped, right.dtype, None)


def _fits(shape: Sequence[int | ir.SymbolicDim], onto: Sequence[int | ir.SymbolicDim]) -> bool:
    """Tells whether each size is 1, that of the other shape, or unknown."""
    return all(
        ours in (1, theirs) or not isinstance(ours, int) or not isinstance(theirs, int)
        for ours, theirs in zip(shape, onto, strict=False)
    )


def rank_of(value: ir.Value, input: str) -> int:
    """Returns a value's rank.

    Raises:
        ShapeError: It is not known.
    """
    if value.shape is None:
        raise ShapeError(input, None, "its rank must be known.")
    return len(value.shape)


def _require_equal(left: ir.Value, right: ir.Value) -> None:
    if left.shape is None or right.shape is None:
        return
    different = any(
        isinstance(a, int) and isinstance(c, int) and a != c for a, c in zip(left.shape, right.shape, strict=False)
    )
    if different or len(left.shape) != len(right.shape):
        raise ShapeError("the second input", right.shape, f"auto_broadcast is none; it must equal {left.shape}.")

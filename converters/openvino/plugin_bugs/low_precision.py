"""Warnings of what OpenVINO's CPU plugin computes otherwise in a model that quantizes.

There it moves scales and shifts, those of FakeQuantize and those of Multiply and Add with constants, behind the ops
that follow. A scale counts against the eps of a normalisation, and a shift of zeros is none of what pads them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from ortconv.frontend.source_graph import SourceNode, SourceValue

__all__ = ["warned"]

_SCALED = (
    "the page is followed: in models with FakeQuantize, OpenVINO's CPU plugin moves a scale of the data behind this "
    "op, and adds eps to what is not scaled"
)
_SHIFTED = (
    "the page is followed: in models with FakeQuantize, OpenVINO's CPU plugin may move a shift of the data behind this "
    "op, and shifts zeros of the padding with it"
)

_SMALL_EPS = 1e-5
_OWN = frozenset({"BatchNormInference", "FakeQuantize", "GroupNormalization"})
"""Ops whose own scales and shifts are moved."""

_CONVOLUTIONS = frozenset({"Convolution", "GroupConvolution"})
"""Of these, the scales of weights are moved."""

_PASSED = frozenset(
    {
        *("AvgPool", "BatchToSpace", "Concat", "DepthToSpace", "Gather", "Interpolate", "MaxPool", "Pad", "ReduceMax"),
        *("ReduceMean", "ReduceMin", "ReduceSum", "ReLU", "Reshape", "ShuffleChannels", "Slice", "SpaceToBatch"),
        *("Split", "Squeeze", "StridedSlice", "Transpose", "Unsqueeze", "VariadicSplit"),
    }
)
"""Ops that scales and shifts are moved past."""


def warned(nodes: Sequence[SourceNode]) -> tuple[SourceNode, ...]:
    """Returns the nodes of a model, with warnings on those that OpenVINO's CPU plugin may compute otherwise.

    Args:
        nodes: In topological order.
    """
    if not any(node.ref.op_type == "FakeQuantize" for node in nodes):
        return tuple(nodes)
    moves = _Moves(nodes)
    made = []
    for node in nodes:
        data = node.inputs[0] if node.inputs else None
        if _counts_eps(node) and moves.comes_from(data, moves.scales):
            node = dataclasses.replace(node, warnings=(*node.warnings, _SCALED))
        if _pads_zeros(node) and moves.comes_from(data, moves.shifts):
            node = dataclasses.replace(node, warnings=(*node.warnings, _SHIFTED))
        made.append(node)
    return tuple(made)


def _counts_eps(node: SourceNode) -> bool:
    """Tells whether a node normalizes with an eps that shows: of smaller ones, 8 bits lose more."""
    if node.ref.op_type not in ("GroupNormalization", "MVN", "NormalizeL2"):
        return False
    text = node.attributes.get("eps", node.attributes.get("epsilon"))
    try:
        return float(str(text)) > _SMALL_EPS
    except ValueError:  # the lowering says so
        return False


def _pads_zeros(node: SourceNode) -> bool:
    """Tells whether zeros of a padding count in a node's result, but for a Pad, which is told what to pad with."""
    if node.ref.op_type == "AvgPool":
        counted = str(node.attributes.get("exclude-pad", "true")).strip().lower() in ("false", "0")
        return counted and str(node.attributes.get("auto_pad", "explicit")).lower() != "valid"
    return node.ref.op_type == "SpaceToBatch"


class _Moves:
    """What is moved in a model."""

    def __init__(self, nodes: Sequence[SourceNode]) -> None:
        self._makers = {value: node for node in nodes for value in node.outputs}

    def comes_from(self, value: SourceValue | None, moved: Callable[[SourceNode], bool]) -> bool:
        """Tells whether a value is a result of such a node, or of ops that are passed and have one in front."""
        seen = set()
        left = [value]
        while left:
            node = self._maker(left.pop())
            if node is None or node in seen:
                continue
            seen.add(node)
            if moved(node):
                return True
            if node.ref.op_type in _PASSED or self._is_by_constant(node, "Add", "Divide", "Multiply", "Subtract"):
                left += node.inputs
            elif node.ref.op_type in _CONVOLUTIONS:
                left.append(node.inputs[1])
        return False

    def scales(self, node: SourceNode) -> bool:
        """Tells whether a node scales in a way that is moved."""
        return node.ref.op_type in _OWN or self._is_by_constant(node, "Divide", "Multiply")

    def shifts(self, node: SourceNode) -> bool:
        """Tells whether a node shifts in a way that is moved: what is added counts where it follows a scale."""
        if node.ref.op_type in _OWN:
            return True
        before = [self._maker(value) for value in node.inputs]
        return self._is_by_constant(node, "Add", "Subtract") and any(
            each is not None and self.scales(each) for each in before
        )

    def _maker(self, value: SourceValue | None) -> SourceNode | None:
        return None if value is None else self._makers.get(value)

    def _is_by_constant(self, node: SourceNode, *op_types: str) -> bool:
        return node.ref.op_type in op_types and any(self._is_constant(value) for value in node.inputs)

    def _is_constant(self, value: SourceValue | None) -> bool:
        maker = self._maker(value)
        if maker is not None and maker.ref.op_type == "Convert":  # of compressed constants
            return self._is_constant(maker.inputs[0])
        return value is not None and value.constant is not None

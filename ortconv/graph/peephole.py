"""Peephole simplification: drops nodes that change nothing, and merges nodes with the node before them.

Every rule is exact for every input, NaN and infinities included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from ortconv.graph.match import operand_of

__all__ = ["simplified"]

_Inputs = Sequence[ir.Value | None]
_Attributes = Mapping[str, Any]
_Call = tuple[str, list[ir.Value | None], dict[str, Any]]
"""An op type, inputs and attributes."""
_Rule = Callable[[_Inputs, _Attributes], ir.Value | _Call | None]

_WIDER: Mapping[ir.DataType, frozenset[ir.DataType]] = {
    ir.DataType.FLOAT16: frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE}),
    ir.DataType.BFLOAT16: frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE}),
    ir.DataType.FLOAT: frozenset({ir.DataType.DOUBLE}),
    ir.DataType.INT32: frozenset({ir.DataType.INT64, ir.DataType.DOUBLE}),
    ir.DataType.BOOL: frozenset({ir.DataType.UINT8, ir.DataType.INT32, ir.DataType.INT64, ir.DataType.FLOAT}),
}
"""Types to which a cast is exact, so that a cast back restores the value."""


def simplified(op_type: str, inputs: list[ir.Value | None], attributes: dict[str, Any]) -> ir.Value | _Call:
    """Returns what replaces a node of the ai.onnx domain: a value, or a simpler node.

    Args:
        op_type: The op.
        inputs: Its inputs.
        attributes: Its attributes.

    Returns:
        A value that it equals, or a call that gives the same: possibly the one given.
    """
    rule = _RULES.get(op_type)
    simpler = None if rule is None else rule(inputs, attributes)
    return (op_type, inputs, attributes) if simpler is None else simpler


def _cast(inputs: _Inputs, attributes: _Attributes) -> ir.Value | None:
    (x,) = inputs
    assert x is not None
    if x.dtype == attributes["to"]:
        return x
    before = operand_of(x, "Cast")
    if before is None or before.dtype is None or x.dtype is None:
        return None
    back = before.dtype == attributes["to"] and x.dtype in _WIDER.get(before.dtype, ())
    return before if back else None


def _transpose(inputs: _Inputs, attributes: _Attributes) -> ir.Value | _Call | None:
    (x,) = inputs
    perm = attributes.get("perm")
    if x is None or not perm:
        return None
    if list(perm) == list(range(len(perm))):
        return x
    before = operand_of(x, "Transpose")
    if before is None:
        return None
    producer = x.producer()
    assert producer is not None
    first = producer.attributes.get("perm")
    if first is None or len(first.as_ints()) != len(perm):
        return None
    both = [first.as_ints()[axis] for axis in perm]
    return before if both == sorted(both) else ("Transpose", [before], {"perm": both})


def _reshape(inputs: _Inputs, attributes: _Attributes) -> ir.Value | _Call | None:
    x, target = inputs[0], _ints(inputs[1])
    if x is None or target is None:
        return None
    copies = not attributes.get("allowzero")
    if x.shape is not None and len(x.shape) == len(target):
        same = [dim == size or (size == 0 and copies) for dim, size in zip(x.shape, target, strict=True)]
        if all(same) or (same.count(False) == 1 and target[same.index(False)] == -1):
            return x
    if 0 in target:
        return None
    before = operand_of(x, "Reshape")
    if before is not None and (before.shape is None or not before.shape.is_static()):
        before = None  # The Reshape in between may be there to refuse sizes that do not fit.
    return "Reshape", [x if before is None else before, inputs[1]], {}


def _squeeze(inputs: _Inputs, attributes: _Attributes) -> ir.Value | None:
    axes = _ints(inputs[1]) if len(inputs) == 2 else None
    if axes is None or inputs[0] is None:
        return None
    if axes == ():
        return inputs[0]
    before = operand_of(inputs[0], "Unsqueeze")
    producer = inputs[0].producer()
    return before if before is not None and producer is not None and _ints(producer.inputs[1]) == axes else None


def _expand(inputs: _Inputs, attributes: _Attributes) -> ir.Value | None:
    x, target = inputs[0], _ints(inputs[1])
    if x is None or x.shape is None or target is None or len(target) > len(x.shape):
        return None
    aligned = zip(reversed(x.shape), reversed(target), strict=False)
    return x if all(size == 1 or size == dim for dim, size in aligned) else None


def _unchanged_if(test: Callable[[tuple[int, ...]], bool]) -> _Rule:
    """Returns the rule for an op that changes nothing if the integers in its second input pass a test."""

    def rule(inputs: _Inputs, attributes: _Attributes) -> ir.Value | None:
        numbers = _ints(inputs[1]) if len(inputs) > 1 else None
        return inputs[0] if numbers is not None and test(numbers) else None

    return rule


def _ints(value: ir.Value | None) -> tuple[int, ...] | None:
    if value is None or value.const_value is None:
        return None
    return tuple(int(entry) for entry in np.ravel(value.const_value.numpy()))


_RULES: Mapping[str, _Rule] = {
    "Cast": _cast,
    "Concat": lambda inputs, attributes: inputs[0] if len(inputs) == 1 else None,
    "Expand": _expand,
    "Identity": lambda inputs, attributes: inputs[0],
    "Pad": _unchanged_if(lambda pads: not any(pads)),
    "Reshape": _reshape,
    "Squeeze": _squeeze,
    "Tile": _unchanged_if(lambda repeats: all(count == 1 for count in repeats)),
    "Transpose": _transpose,
    "Unsqueeze": _unchanged_if(lambda axes: not axes),
}

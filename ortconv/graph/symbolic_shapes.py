"""Symbolic shapes: what is known of the entries of a shape while a graph is emitted.

``Shape`` of a tensor with some static dimensions, and the ops that move its entries or compute with them, are evaluated
symbolically: known entries become constants although others are runtime values. A runtime value is tracked through
additions of and multiplications by constants.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.graph.constant_folding import evaluate

__all__ = ["Entry", "Linear", "Sizes", "of_axis", "of_constant", "of_shape", "propagate", "with_runtime_values"]

_MOST = 1 << 10
"""The most entries of a vector that is treated as a shape."""

_INTEGERS = frozenset({ir.DataType.INT32, ir.DataType.INT64})


@dataclasses.dataclass(frozen=True)
class Linear:
    """A linear function of a runtime value X: ``scale * X + offset``.

    Attributes:
        value: The tensor of whose size X is; what is transposed or gets axes, not what comes of it.
        axis: X is the size of this axis of it.
        scale: Is not zero.
        offset: What is added.
        content: X is no size, but the entry of a vector in this place.
    """

    value: ir.Value
    axis: int
    scale: int = 1
    offset: int = 0
    content: bool = False

    def follows(self, other: Linear) -> bool:
        """Tells whether both are functions of the same runtime value."""
        return self.value is other.value and (self.axis, self.content) == (other.axis, other.content)


Entry = int | Linear | None
"""An entry of a shape; None where nothing is known."""


@dataclasses.dataclass(frozen=True)
class Sizes:
    """A vector or scalar of sizes.

    Attributes:
        entries: Each is an `Entry`.
        dtype: The tensor's element type.
    """

    entries: npt.NDArray[np.object_]
    dtype: ir.DataType

    @property
    def tensor(self) -> ir.TensorProtocol | None:
        """The data, if every entry is known."""
        if not all(isinstance(entry, int) for entry in self.entries.ravel().tolist()):
            return None
        return ir.tensor(self.entries.astype(self.dtype.numpy()))


def of_shape(value: ir.Value, attributes: Mapping[str, Any]) -> Sizes | None:
    """Returns the output of ``Shape`` for a value."""
    if value.shape is None:
        return None
    dims = [of_axis(value, axis) for axis in range(len(value.shape))]
    return _sizes(dims[attributes.get("start") or 0 : attributes.get("end")], ir.DataType.INT64)


def of_axis(value: ir.Value, axis: int) -> int | Linear:
    """Returns the size of an axis of a value whose rank is known."""
    assert value.shape is not None
    dim = value.shape[axis]
    if isinstance(dim, int):
        return dim
    source: int | None = axis
    while source is not None:
        axis = source
        producer = value.producer()
        source = None if producer is None or producer.domain else _moved_axis(producer, axis)
        if source is not None and producer is not None and producer.inputs[0] is not None:
            value = producer.inputs[0]
    return Linear(value, axis)


def _moved_axis(node: ir.Node, axis: int) -> int | None:
    """Returns the input axis that becomes an output axis of a node, None where that is not certain."""
    if node.op_type == "Transpose":
        perm = node.attributes.get_ints("perm", ())
        return perm[axis] if perm else None
    given = node.inputs[1].const_value if len(node.inputs) == 2 and node.inputs[1] is not None else None
    if given is None or node.outputs[0].shape is None:
        return None
    entries = [int(entry) for entry in given.numpy().ravel()]
    rank = len(node.outputs[0].shape)
    if node.op_type == "Reshape":
        return axis if entries[axis] == 0 and not node.attributes.get_int("allowzero", 0) else None
    if node.op_type == "Squeeze":
        taken = {entry % (rank + len(entries)) for entry in entries}
        return [place for place in range(rank + len(entries)) if place not in taken][axis]
    if node.op_type == "Unsqueeze":
        added = {entry % rank for entry in entries}
        return None if axis in added else axis - sum(place < axis for place in added)
    return None


def of_constant(tensor: ir.TensorProtocol) -> Sizes | None:
    """Returns the entries of a constant that may be a shape."""
    if tensor.dtype not in _INTEGERS or tensor.size > _MOST:
        return None
    return Sizes(tensor.numpy().astype(np.object_), tensor.dtype)


def with_runtime_values(known: Sizes, value: ir.Value) -> Sizes:
    """Returns the entries of a vector, where unknown ones become runtime values of that vector."""
    if known.entries.ndim != 1:
        return known
    entries = [Linear(value, i, content=True) if entry is None else entry for i, entry in enumerate(known.entries)]
    return _sizes(entries, known.dtype)


def propagate(
    op_type: str, inputs: Sequence[Sizes | None], attributes: Mapping[str, Any], outputs: int
) -> list[Sizes] | None:
    """Evaluates a node on sizes.

    Args:
        op_type: The op.
        inputs: What is known of them; None for an absent one.
        attributes: As given to `Builder.op`.
        outputs: How many outputs the node has.

    Returns:
        What is known of the outputs, or None.
    """
    first = inputs[0]
    assert first is not None
    if op_type in _ARITHMETIC and len(inputs) == 2 and inputs[1] is not None:
        function = np.frompyfunc(_ARITHMETIC[op_type], 2, 1)
        if first.entries.size * inputs[1].entries.size > _MOST and first.entries.shape != inputs[1].entries.shape:
            return None
        try:
            return [_sizes(function(first.entries, inputs[1].entries), first.dtype)]
        except ValueError:
            return None
    if op_type == "Cast":
        to = ir.DataType(attributes["to"])
        return [_sizes(first.entries, to)] if to in _INTEGERS else None
    if op_type not in _MOVES:
        return None
    moved = 1 if op_type not in _MOVES_ALL else len(inputs)
    arrays: list[Any] = [None if each is None else each.entries for each in inputs]
    for index, each in enumerate(inputs[moved:], moved):
        if each is not None:
            if each.tensor is None:
                return None
            arrays[index] = each.tensor.numpy()
    results = evaluate(op_type, arrays, attributes, outputs, _MOST * 8)
    return None if results is None else [_sizes(result, first.dtype) for result in results]


def _sizes(entries: Any, dtype: ir.DataType) -> Sizes:
    """Makes sizes; an integer that would wrap in the type becomes an unknown entry."""
    least, most = dtype.min, dtype.max
    array = np.asarray(entries, np.object_)
    kept: list[Entry] = [
        None if isinstance(entry, int) and not least <= entry <= most else entry for entry in array.ravel().tolist()
    ]
    return Sizes(np.array(kept, np.object_).reshape(array.shape), dtype)


def _known(function: Callable[[int, int], int | None]) -> Callable[[Entry, Entry], int | None]:
    return lambda x, y: function(x, y) if isinstance(x, int) and isinstance(y, int) else None


def _sum(x: Entry, y: Entry) -> Entry:
    if isinstance(x, int):
        x, y = y, x
    if x is None or y is None:
        return None
    if isinstance(x, int):
        return x + y if isinstance(y, int) else None
    if isinstance(y, int):
        return _linear(x, x.scale, x.offset + y)
    return _linear(x, x.scale + y.scale, x.offset + y.offset) if x.follows(y) else None


def _product(x: Entry, y: Entry) -> Entry:
    if x == 0 or y == 0:
        return 0
    if isinstance(x, int):
        x, y = y, x
    if x is None or not isinstance(y, int):
        return None
    return x * y if isinstance(x, int) else _linear(x, x.scale * y, x.offset * y)


def _linear(x: Linear, scale: int, offset: int) -> int | Linear:
    return dataclasses.replace(x, scale=scale, offset=offset) if scale else offset


_ARITHMETIC: Mapping[str, Callable[[Entry, Entry], Entry]] = {
    "Add": _sum,
    "Div": _known(lambda x, y: x // y if x >= 0 and y > 0 else None),
    "Max": _known(max),
    "Min": _known(min),
    "Mod": _known(lambda x, y: x % y if x >= 0 and y > 0 else None),
    "Mul": _product,
    "Sub": lambda x, y: _sum(x, _product(y, -1)),
}

_MOVES_ALL = frozenset({"Concat"})
_MOVES = _MOVES_ALL | {"Expand", "Gather", "Pad", "Reshape", "Slice", "Split", "Squeeze", "Unsqueeze"}

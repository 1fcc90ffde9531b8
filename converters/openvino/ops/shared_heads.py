"""Heads of keys and values that several heads of queries share: these are rows of one product, and nothing is copied.

Exporters repeat each head of the cache as often as it is asked, which on each run copies the cache several times over.
OpenVINO's CPU plugin leaves that out, too.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from ortconv.builder import Builder
from ortconv.producers import made_by
from ortconv.sizes import Entry, of_axis

__all__ = ["SharedHeads"]


@dataclasses.dataclass(frozen=True)
class SharedHeads:
    """Keys and values before their heads were repeated.

    Attributes:
        key: Keys [batch, heads, positions, width].
        value: Values, likewise.
        heads: How many heads they have.
        asked: How many heads the queries have.
        widths: The last sizes of keys and values.
    """

    key: ir.Value
    value: ir.Value
    heads: int
    asked: int
    widths: tuple[int, int]

    @classmethod
    def of(cls, b: Builder, query: ir.Value, key: ir.Value, value: ir.Value) -> SharedHeads | None:
        """Returns what keys and values of a cache were before they were repeated; None where they were not."""
        keys, values = _before_repetition(b, key), _before_repetition(b, value)
        if keys is None or values is None or query.shape is None or len(query.shape) != 4:
            return None
        assert keys.shape is not None
        assert values.shape is not None
        sizes = (keys.shape[1], query.shape[1], keys.shape[3], values.shape[3])
        known = [size for size in sizes if isinstance(size, int)]
        if len(known) != len(sizes) or values.shape[1] != known[0] or key.shape is None or key.shape[1] != known[1]:
            return None
        return cls(keys, values, known[0], known[1], (known[2], known[3]))

    def scores(self, b: Builder, q: ir.Value, swapped: ir.Value, k: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Emits the products of queries and keys.

        Args:
            b: The builder.
            q: Queries [batch, asked, length, width].
            swapped: Keys [batch, heads, width, positions].
            k: The same before their axes were exchanged.

        Returns:
            The products [batch, asked, length, positions], and the shape of the weights that `attended` takes.
        """
        rows = b.op("Reshape", q, b.constant([0, self.heads, -1, self.widths[0]]))
        together = b.op("MatMul", rows, swapped)
        sizes = b.op("Concat", b.op("Shape", q, start=0, end=3), b.op("Shape", k, start=2, end=3), axis=0)
        return b.op("Reshape", together, sizes), b.op("Shape", together)

    def attended(self, b: Builder, weights: ir.Value, sizes: ir.Value, v: ir.Value) -> ir.Value:
        """Emits the sums of values [batch, asked, length, width] by weights [batch, asked, length, positions]."""
        together = b.op("MatMul", b.op("Reshape", weights, sizes), v)
        return b.op("Reshape", together, b.constant([0, self.asked, -1, self.widths[1]]))


def _before_repetition(b: Builder, value: ir.Value) -> ir.Value | None:
    """Returns the value [batch, heads, positions, width] each of whose heads is repeated, one after the other."""
    spread = made_by(value, "Reshape")
    parted = made_by(spread, "Expand")
    whole = made_by(parted, "Unsqueeze")
    if spread is None or parted is None or whole is None:
        return None
    shapes = [each.shape for each in (value, spread, parted, whole)]
    if [None if shape is None else len(shape) for shape in shapes] != [4, 5, 5, 4]:
        return None
    merged, wide, narrow, before = (list(shape or ()) for shape in shapes)
    heads, times = before[1], wide[2]
    if not isinstance(heads, int) or not isinstance(times, int) or not isinstance(before[3], int):
        return None
    if narrow[1:3] != [heads, 1] or merged[1] != heads * times:
        return None
    if not narrow[4] == wide[4] == merged[3] == before[3]:
        return None
    return whole if _keep_batch_and_positions(b, value, spread, parted) else None


def _keep_batch_and_positions(b: Builder, merged: ir.Value, wide: ir.Value, narrow: ir.Value) -> bool:
    """Tells whether an Expand and a Reshape leave the batch and the positions as they are, for certain."""
    batch, positions = of_axis(narrow, 0), of_axis(narrow, 3)
    spread, goal = _target(b, wide), _target(b, merged)
    if len(spread) != 5 or len(goal) != 4 or spread[0] not in (1, batch) or spread[3] not in (1, positions):
        return False
    # As there are as many elements, one of the two sizes tells the other; a 0 stands for that of the input.
    return goal[0] in (0, batch) or goal[2] == positions


def _target(b: Builder, value: ir.Value) -> list[Entry]:
    """Returns what is known of the sizes to which an Expand or a Reshape makes a value."""
    node = value.producer()
    given = None if node is None else node.inputs[1]
    known = None if given is None else b.entries(given)
    return [] if known is None else known.entries.ravel().tolist()

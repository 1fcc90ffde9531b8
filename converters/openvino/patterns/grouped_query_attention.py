"""Grouped-query attention: query heads that share a key and value head become rows of one product.

optimum-intel exports models such as Qwen2 and Llama 3 with a Broadcast that repeats each head of the KV cache for its
queries, which copies the cache on every run. Like OpenVINO's CPU plugin, this skips the copy.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from ortconv.graph.builder import Builder
from ortconv.graph.match import operand_of
from ortconv.graph.symbolic_shapes import Entry, of_axis

__all__ = ["SharedHeads"]


@dataclasses.dataclass(frozen=True)
class SharedHeads:
    """Keys and values of a KV cache before their heads are repeated.

    Attributes:
        key: Keys [batch, heads, positions, width].
        value: Values, likewise.
        heads: The number of key and value heads.
        asked: The number of query heads.
        widths: The last dimensions of keys and values.
        stated: The shape to which both are broadcast, if only a run tells whether it is their own; else None.
    """

    key: ir.Value
    value: ir.Value
    heads: int
    asked: int
    widths: tuple[int, int]
    stated: ir.Value | None

    @classmethod
    def of(cls, b: Builder, query: ir.Value, key: ir.Value, value: ir.Value) -> SharedHeads | None:
        """Returns keys and values before their heads are repeated; None if they are not."""
        keys, values = _before_repetition(b, key), _before_repetition(b, value)
        if keys is None or values is None or query.shape is None or len(query.shape) != 4:
            return None
        unsure = keys.unsure or values.unsure
        if unsure and (None in keys.sizes or keys.sizes != values.sizes):
            return None
        before = keys.before.shape, values.before.shape
        assert before[0] is not None
        assert before[1] is not None
        sizes = (before[0][1], query.shape[1], before[0][3], before[1][3])
        known = [size for size in sizes if isinstance(size, int)]
        if len(known) != len(sizes) or before[1][1] != known[0] or key.shape is None or key.shape[1] != known[1]:
            return None
        widths = known[2], known[3]
        return cls(keys.before, values.before, known[0], known[1], widths, keys.stated if unsure else None)

    def scores(self, b: Builder, q: ir.Value, swapped: ir.Value, k: ir.Value) -> tuple[ir.Value, ir.Value]:
        """Emits the products of queries and keys.

        Args:
            b: The builder.
            q: Queries [batch, asked, length, width].
            swapped: Keys [batch, heads, width, positions].
            k: Keys [batch, heads, positions, width].

        Returns:
            The products [batch, asked, length, positions], and the shape of the weights that `attended` takes. Of
            stated sizes, the one reshape has the positions and the other the batch too, so that both are checked.
        """
        rows = b.op("Reshape", q, b.constant([0, self.heads, -1, self.widths[0]]))
        together = b.op("MatMul", rows, swapped)
        if self.stated is None:
            parts = [b.op("Shape", q, start=0, end=3), b.op("Shape", k, start=2, end=3)]
            return b.op("Reshape", together, b.op("Concat", *parts, axis=0)), b.op("Shape", together)
        batch, positions = (b.op("Gather", self.stated, b.constant([axis])) for axis in (0, 3))
        parts = [b.op("Shape", together, start=0, end=1), b.op("Shape", q, start=1, end=3), positions]
        sizes = b.op("Concat", batch, b.op("Shape", together, start=1, end=3), positions, axis=0)
        return b.op("Reshape", together, b.op("Concat", *parts, axis=0), allowzero=1), sizes

    def attended(self, b: Builder, weights: ir.Value, sizes: ir.Value, v: ir.Value) -> ir.Value:
        """Emits the sums of values [batch, asked, length, width] by weights [batch, asked, length, positions]."""
        together = b.op("MatMul", b.op("Reshape", weights, sizes, allowzero=1), v)
        return b.op("Reshape", together, b.constant([0, self.asked, -1, self.widths[1]]))


@dataclasses.dataclass(frozen=True)
class _Repetition:
    """A value whose heads are repeated, each several times in a row.

    Attributes:
        before: The value [batch, heads, positions, width].
        stated: The shape to which it is broadcast: [batch, heads, times, positions, width].
        sizes: Batch and positions of that shape, as far as they are known.
        unsure: Whether they may differ from those of the value.
    """

    before: ir.Value
    stated: ir.Value
    sizes: tuple[Entry, Entry]
    unsure: bool


def _before_repetition(b: Builder, value: ir.Value) -> _Repetition | None:
    """Returns the repetition that a value is the result of; None if there is none."""
    spread = operand_of(value, "Reshape")
    parted = operand_of(spread, "Expand")
    whole = operand_of(parted, "Unsqueeze")
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
    return _checked(b, whole, value, spread, parted)


def _checked(b: Builder, whole: ir.Value, merged: ir.Value, wide: ir.Value, narrow: ir.Value) -> _Repetition | None:
    """Returns the repetition by an Expand and a Reshape, unless these change batch or positions.

    Dimensions known only at run time may be those of another layer's cache: exported models compute them once for all
    layers. A run in which they differ fails.
    """
    (spread, stated), (goal, _) = _target(b, wide), _target(b, merged)
    if stated is None or len(spread) != 5 or len(goal) != 4:
        return None
    own = of_axis(narrow, 0), of_axis(narrow, 3)
    sizes = spread[0], spread[3]
    sure = [size in (1, its) for size, its in zip(sizes, own, strict=True)]
    if any(isinstance(size, int) and not certain for size, certain in zip(sizes, sure, strict=True)):
        return None
    # The number of elements is the same, so one of the two sizes determines the other; 0 copies that of the input.
    keeps_batch = goal[0] == 0 or (sure[0] and goal[0] == own[0])
    if not keeps_batch and goal[2] != own[1]:
        return None
    return _Repetition(whole, stated, sizes, not all(sure))


def _target(b: Builder, value: ir.Value) -> tuple[list[Entry], ir.Value | None]:
    """Returns the known entries of the shape input of an Expand or Reshape, and that input."""
    node = value.producer()
    given = None if node is None else node.inputs[1]
    known = None if given is None else b.entries(given)
    return [] if known is None else known.entries.ravel().tolist(), given

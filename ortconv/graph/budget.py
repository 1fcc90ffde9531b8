"""How much one conversion may build, in proportion to its source.

A few bytes of a source can ask for a table of any size, or for any number of nodes. What is built in proportion to a
number that the source states is asked for here first; where it is too much, a lowering emits nodes that compute the
same at run time, or refuses the node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ortconv.errors import ConversionError, shown

__all__ = ["ALLOWED_BYTES", "ALLOWED_NODES", "BYTES_PER_BYTE", "NODES_PER_NODE", "Budget"]

ALLOWED_BYTES = 64 << 20
"""Constants that every conversion may build, in bytes."""

BYTES_PER_BYTE = 8
"""How many more for each byte of the source."""

ALLOWED_NODES = 50_000
"""Nodes that every conversion may emit."""

NODES_PER_NODE = 500
"""How many more for each node of the source."""


class Budget:
    """What is left of what a conversion may build.

    Args:
        source_bytes: Size of the source, with its weights.
    """

    def __init__(self, source_bytes: int) -> None:
        self._bytes = ALLOWED_BYTES + BYTES_PER_BYTE * source_bytes
        self._nodes = self._allowed_nodes = ALLOWED_NODES

    def add_node(self) -> None:
        """Makes room for the nodes that a node of the source becomes."""
        self._nodes += NODES_PER_NODE
        self._allowed_nodes += NODES_PER_NODE

    def fits(self, *sizes: int) -> bool:
        """Tells whether there is room for as many bytes as the product of the sizes."""
        return math.prod(sizes) <= self._bytes

    def require(self, what: str, value: object, *sizes: int) -> None:
        """Refuses a node whose constants would take too much room.

        Args:
            what: The attribute or input that asks for them.
            value: Its value.
            *sizes: Their product is how many bytes it asks for.

        Raises:
            ConversionError: There is no room.
        """
        if not self.fits(*sizes):
            raise ConversionError(
                f"{what} = {shown(value)} asks for constants of {math.prod(sizes)} bytes; allowed: {self._bytes} more "
                f"in this conversion, {ALLOWED_BYTES} and {BYTES_PER_BYTE} for each byte of the source in all."
            )

    def spend(self, nbytes: int) -> None:
        """Takes room for a constant.

        Raises:
            ConversionError: There is none.
        """
        if nbytes > self._bytes:
            raise ConversionError(
                f"needs a constant of {nbytes} bytes; allowed: {self._bytes} more in this conversion, {ALLOWED_BYTES} "
                f"and {BYTES_PER_BYTE} for each byte of the source in all."
            )
        self._bytes -= nbytes

    def spend_nodes(self, count: int) -> None:
        """Takes room for nodes, or for outputs of one.

        Raises:
            ConversionError: There is none.
        """
        self._nodes -= count
        if self._nodes < 0:
            raise ConversionError(
                f"needs more nodes than are allowed in this conversion: {self._allowed_nodes}, "
                f"{ALLOWED_NODES} and {NODES_PER_NODE} for each node of the source so far."
            )

    def arange(self, what: str, count: int, dtype: npt.DTypeLike = np.int64) -> np.ndarray:
        """Returns the numbers from 0 to a count that an attribute or input states.

        Raises:
            ConversionError: There is no room.
        """
        self.require(what, count, count, np.dtype(dtype).itemsize)
        return np.arange(count, dtype=dtype)

    def full(self, what: str, shape: Sequence[int], number: float, dtype: npt.DTypeLike) -> np.ndarray:
        """Returns an array of a shape that an attribute or input states, filled with a number.

        Raises:
            ConversionError: There is no room.
        """
        self.require(what, tuple(shape), *shape, np.dtype(dtype).itemsize)
        return np.full(shape, number, dtype)

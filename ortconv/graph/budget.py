"""Limits constants and nodes of one conversion, in proportion to the size of its source.

A few bytes of a source can declare a table of any size, or any number of nodes. Lowerings ask here before they make
constants or nodes in proportion to a number in the source. Beyond the limit they emit nodes that compute the same at
run time, or refuse the node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ortconv.errors import ConversionError, shown

__all__ = ["ALLOWED_BYTES", "ALLOWED_NODES", "BYTES_PER_BYTE", "NODES_PER_NODE", "Budget"]

ALLOWED_BYTES = 64 << 20
"""The bytes of constants that every conversion may make."""

BYTES_PER_BYTE = 8
"""Additional bytes for each byte of the source."""

ALLOWED_NODES = 50_000
"""The nodes that every conversion may emit."""

NODES_PER_NODE = 500
"""Additional nodes for each node of the source."""


class Budget:
    """The bytes and nodes that a conversion may still make.

    Args:
        source_bytes: Size of the source, with its weights.
    """

    def __init__(self, source_bytes: int) -> None:
        self._bytes = ALLOWED_BYTES + BYTES_PER_BYTE * source_bytes
        self._nodes = self._allowed_nodes = ALLOWED_NODES

    def add_node(self) -> None:
        """Adds the nodes allowed for one node of the source."""
        self._nodes += NODES_PER_NODE
        self._allowed_nodes += NODES_PER_NODE

    def fits(self, *sizes: int) -> bool:
        """Tells whether as many bytes as the product of the sizes are left."""
        return math.prod(sizes) <= self._bytes

    def require(self, what: str, value: object, *sizes: int) -> None:
        """Refuses a node whose constants exceed the budget.

        Args:
            what: The attribute or input that asks for them.
            value: Its value.
            *sizes: Their product is how many bytes it asks for.

        Raises:
            ConversionError: The budget is exceeded.
        """
        if not self.fits(*sizes):
            raise ConversionError(
                f"{what} = {shown(value)} asks for constants of {math.prod(sizes)} bytes; allowed: {self._bytes} more "
                f"in this conversion, {ALLOWED_BYTES} and {BYTES_PER_BYTE} for each byte of the source in all."
            )

    def spend(self, nbytes: int) -> None:
        """Subtracts a constant from the budget.

        Raises:
            ConversionError: The budget is exceeded.
        """
        if nbytes > self._bytes:
            raise ConversionError(
                f"needs a constant of {nbytes} bytes; allowed: {self._bytes} more in this conversion, {ALLOWED_BYTES} "
                f"and {BYTES_PER_BYTE} for each byte of the source in all."
            )
        self._bytes -= nbytes

    def spend_nodes(self, count: int) -> None:
        """Subtracts nodes, or outputs of a node, from the budget.

        Raises:
            ConversionError: The budget is exceeded.
        """
        self._nodes -= count
        if self._nodes < 0:
            raise ConversionError(
                f"needs more nodes than are allowed in this conversion: {self._allowed_nodes}, "
                f"{ALLOWED_NODES} and {NODES_PER_NODE} for each node of the source so far."
            )

    def arange(self, what: str, count: int, dtype: npt.DTypeLike = np.int64) -> np.ndarray:
        """Returns the integers from 0 to a count that an attribute or input gives, without the count.

        Raises:
            ConversionError: The budget is exceeded.
        """
        self.require(what, count, count, np.dtype(dtype).itemsize)
        return np.arange(count, dtype=dtype)

    def full(self, what: str, shape: Sequence[int], number: float, dtype: npt.DTypeLike) -> np.ndarray:
        """Returns an array of a shape that an attribute or input gives, filled with a number.

        Raises:
            ConversionError: The budget is exceeded.
        """
        self.require(what, tuple(shape), *shape, np.dtype(dtype).itemsize)
        return np.full(shape, number, dtype)

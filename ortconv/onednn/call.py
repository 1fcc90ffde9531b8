"""Inputs and attributes of one op of a oneDNN graph, transposed to NCX layouts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ortconv.options import Semantics

if TYPE_CHECKING:
    from ortconv.frontend.source_graph import SourceNode

__all__ = ["Array", "Call"]

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Call:
    """An op under evaluation.

    Attributes:
        node: The op.
        inputs: Data of its inputs.
        semantics: "spec" or "runtime".
    """

    node: SourceNode
    inputs: Sequence[Array | None]
    semantics: Semantics

    def input(self, index: int) -> Array:
        """Returns an input; raises ValueError if it is missing."""
        found = self.inputs[index]
        if found is None:
            raise ValueError(f"input {index} is missing")
        return found

    def optional(self, index: int) -> Array | None:
        """Returns an input, or None if it is missing."""
        return self.inputs[index] if index < len(self.inputs) else None

    def ints(self, name: str) -> list[int]:
        """Returns a list, empty if it is absent or the twelve zeros that the library writes for an unset one."""
        found = self.node.attributes.get(name, ())
        values = [int(value) for value in found]  # type: ignore[attr-defined]
        return values if any(values) or len(values) != 12 else []

    def text(self, name: str, default: str) -> str:
        """Returns a string in lower case: specification and library differ in case."""
        return str(self.node.attributes.get(name, default)).casefold()

    def number(self, name: str, default: float | None = None) -> float:
        """Returns a number; raises ValueError if it is missing and has no default."""
        found = self.node.attributes.get(name, default)
        if not isinstance(found, int | float):
            raise ValueError(f"attribute {name} is missing")
        return float(found)

    def flag(self, name: str, default: bool) -> bool:
        """Returns a bool."""
        return bool(self.node.attributes.get(name, default))

    def channel_vector(self, array: Array, rank: int) -> Array:
        """Reshapes a vector with one entry per channel as `per_channel` does; other arrays are not changed."""
        return self.per_channel(array, rank) if array.ndim == 1 and array.size > 1 else array

    @property
    def channels_last(self) -> bool:
        """Returns whether the data is NXC, the default."""
        return self.text("data_format", "NXC") == "nxc"

    def ncx(self, array: Array) -> Array:
        """Transposes data to [N, C, spatial...]."""
        return np.moveaxis(array, -1, 1) if self.channels_last else array

    def own(self, array: Array) -> Array:
        """Transposes data from [N, C, spatial...] to the node's format."""
        return np.moveaxis(array, 1, -1) if self.channels_last else array

    @property
    def kernel_first(self) -> bool:
        """Returns whether weights are XIO or XOI, the default."""
        return self.text("weights_format", "XIO").startswith("x")

    def weights(self, array: Array) -> Array:
        """Transposes weights to [a, b, kernel...]."""
        return np.moveaxis(array, (-1, -2), (0, 1)) if self.kernel_first else array

    def own_weights(self, array: Array) -> Array:
        """Transposes weights from [a, b, kernel...] to the node's format."""
        return np.moveaxis(array, (0, 1), (-1, -2)) if self.kernel_first else array

    def per_channel(self, array: Array, rank: int) -> Array:
        """Reshapes [C] so that it broadcasts against data in the node's format."""
        return array if self.channels_last else array.reshape(-1, *[1] * (rank - 2))

    def declared(self) -> list[int] | None:
        """Returns the declared shape of the result, None if it is unknown."""
        shape = self.node.outputs[0].shape or (None,)
        sizes = [dim for dim in shape if isinstance(dim, int)]
        return sizes if len(sizes) == len(shape) else None

    def target(self, name: str, index: int = 2) -> list[int]:
        """Returns a given output shape: input `index`, else attribute, else declared, which the library prefers."""
        data = self.optional(index)
        places = [[int(size) for size in data] if data is not None else None, self.ints(name) or None, self.declared()]
        if self.semantics == "runtime" and data is None:
            places.reverse()
        found = next((place for place in places if place is not None), None)
        if found is None:
            raise ValueError(f"{name} is not given anywhere")
        return found

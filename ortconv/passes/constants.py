"""Constants that passes add to a graph."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.graph.annotations import STORED_TYPE
from ortconv.graph.budget import Budget

__all__ = ["Constants"]


class Constants:
    """Makes constants for a graph, each once: existing ones in another shape, and new ones.

    Args:
        graph: The graph; its initializers get the constants.
        unique: Returns a name that nothing else has.
        budget: Limits what the conversion may make.
    """

    def __init__(self, graph: ir.Graph, unique: Callable[[str], str], budget: Budget) -> None:
        self._graph, self._unique, self._budget = graph, unique, budget
        self._made: dict[object, ir.Value] = {}

    def get(self, constant: ir.Value, shape: Sequence[int]) -> ir.Value:
        """Returns a constant in another shape; it has the old name if nothing else uses the constant."""
        tensor = constant.const_value
        assert tensor is not None
        if tuple(tensor.shape.numpy()) == tuple(shape):
            return constant
        return self._once(("reshaped", constant, tuple(shape)), lambda: self._reshaped(constant, tensor, shape))

    def has_room(self, count: int) -> bool:
        """Tells whether the budget allows `full` a vector of so many entries."""
        return self._budget.fits(count, np.dtype(np.float32).itemsize)

    def full(self, count: int, number: float) -> ir.Value:
        """Returns a float32 vector filled with a number, within the budget."""

        def make() -> ir.TensorProtocol:
            self._budget.spend(count * np.dtype(np.float32).itemsize)
            return ir.Tensor(np.full(count, number, np.float32), name=self._unique(f"{count}_times_{number:g}"))

        return self._once(("full", count, number), make)

    def number(self, number: float, dtype: ir.DataType) -> ir.Value:
        """Returns a number as a scalar constant."""
        return self._once(
            ("number", number, dtype),
            lambda: ir.Tensor(np.array(number, dtype.numpy()), dtype=dtype, name=self._unique(f"number_{number:g}")),
        )

    def array(self, array: npt.NDArray[Any], name: str) -> ir.Value:
        """Returns an array as a constant.

        Args:
            array: The array.
            name: Its name, which is made unique.
        """
        return self._add(ir.Tensor(array, name=self._unique(name)))

    def _once(self, key: object, make: Callable[[], ir.TensorProtocol]) -> ir.Value:
        if key not in self._made:
            self._made[key] = self._add(make())
        return self._made[key]

    def _reshaped(self, constant: ir.Value, tensor: ir.TensorProtocol, shape: Sequence[int]) -> ir.TensorProtocol:
        name = str(constant.name)
        if len(constant.uses()) > 1:
            name = self._unique(name)
        else:
            self._graph.initializers.pop(name)
            constant.name = None
        made = ir.Tensor(np.reshape(tensor.numpy(), shape), dtype=tensor.dtype, name=name)
        STORED_TYPE.copy(tensor, made)
        return made

    def _add(self, made: ir.TensorProtocol) -> ir.Value:
        value = ir.Value(
            name=made.name, type=ir.TensorType(made.dtype), shape=ir.Shape(made.shape.numpy()), const_value=made
        )
        self._graph.initializers.add(value)
        return value

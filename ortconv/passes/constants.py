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
        self._made: dict[tuple[ir.Value, tuple[int, ...]], ir.Value] = {}
        self._full: dict[tuple[int, float], ir.Value] = {}
        self._numbers: dict[tuple[float, ir.DataType], ir.Value] = {}

    def get(self, constant: ir.Value, shape: Sequence[int]) -> ir.Value:
        """Returns a constant in another shape; it has the old name if nothing else uses the constant."""
        assert constant.const_value is not None
        if tuple(constant.const_value.shape.numpy()) == tuple(shape):
            return constant
        key = constant, tuple(shape)
        if key not in self._made:
            self._made[key] = self._make(constant, constant.const_value, shape)
        return self._made[key]

    def has_room(self, count: int) -> bool:
        """Tells whether the budget allows `full` a vector of so many entries."""
        return self._budget.fits(count, np.dtype(np.float32).itemsize)

    def full(self, count: int, number: float) -> ir.Value:
        """Returns a float32 vector filled with a number, within the budget."""
        key = count, number
        if key not in self._full:
            self._budget.spend(count * np.dtype(np.float32).itemsize)
            made = ir.Tensor(np.full(count, number, np.float32), name=self._unique(f"{count}_times_{number:g}"))
            self._full[key] = self._add(made)
        return self._full[key]

    def number(self, number: float, dtype: ir.DataType) -> ir.Value:
        """Returns a number as a scalar constant."""
        key = number, dtype
        if key not in self._numbers:
            made = ir.Tensor(np.array(number, dtype.numpy()), dtype=dtype, name=self._unique(f"number_{number:g}"))
            self._numbers[key] = self._add(made)
        return self._numbers[key]

    def array(self, array: npt.NDArray[Any], name: str) -> ir.Value:
        """Returns an array as a constant.

        Args:
            array: The array.
            name: Its name, which is made unique.
        """
        return self._add(ir.Tensor(array, name=self._unique(name)))

    def _make(self, constant: ir.Value, tensor: ir.TensorProtocol, shape: Sequence[int]) -> ir.Value:
        name = str(constant.name)
        if len(constant.uses()) > 1:
            name = self._unique(name)
        else:
            self._graph.initializers.pop(name)
            constant.name = None
        made = ir.Tensor(np.reshape(tensor.numpy(), shape), dtype=tensor.dtype, name=name)
        STORED_TYPE.copy(tensor, made)
        return self._add(made)

    def _add(self, made: ir.TensorProtocol) -> ir.Value:
        value = ir.Value(
            name=made.name, type=ir.TensorType(made.dtype), shape=ir.Shape(made.shape.numpy()), const_value=made
        )
        self._graph.initializers.add(value)
        return value

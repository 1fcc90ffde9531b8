"""Coded weights: constants of 4 bits that choose numbers from a table, times scales. nf4, mxfp4, codebooks are such."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.weights.lookup_tables import HALVES, evaluated, looked_up
from ortconv.converters.openvino.weights.slices import part
from ortconv.graph.builder import Builder
from ortconv.graph.match import maker

__all__ = ["Coded"]


@dataclasses.dataclass(frozen=True)
class Coded:
    """A Mul of numbers that a Gather chooses from a constant table and of constant scales.

    Attributes:
        data: The codes.
        table: What each of them stands for.
        scale: Scales, of as many axes as the codes have, each of which has the same size there or 1.
        of_halves: Whether the source rounds the table to f16, which OpenVINO's CPU plugin does where rows are gathered.
    """

    data: ir.Value
    table: np.ndarray
    scale: np.ndarray
    of_halves: bool = False

    @classmethod
    def of(cls, value: ir.Value) -> Coded | None:
        """Returns what a value is made of, or None where it is something else."""
        node = maker(value, "Mul")
        for numbers, scale in () if node is None else (node.inputs, node.inputs[::-1]):
            found = None if numbers is None else looked_up(numbers)
            scales = None if found is None else evaluated(scale)
            if found is None or scales is None or scales.ndim > len(found[0].shape or ()):
                continue
            sizes = list(found[0].shape.numpy())  # type: ignore[union-attr]
            own = [1] * (len(sizes) - scales.ndim) + list(scales.shape)
            if all(have in (1, size) for have, size in zip(own, sizes, strict=True)):
                return cls(*found, scales.reshape(own), HALVES in value.meta)
        return None

    @property
    def gathered(self) -> Coded:
        """The same where rows are gathered."""
        if not self.of_halves:
            return self
        return dataclasses.replace(self, table=self.table.astype(np.float16).astype(np.float32), of_halves=False)

    @property
    def sizes(self) -> list[int]:
        """The shape."""
        assert self.data.shape is not None
        return list(self.data.shape.numpy())

    def part(self, b: Builder, index: int) -> Coded:
        """Returns the part that an index of the first axis selects."""
        assert self.data.const_value is not None
        scale = self.scale[index if self.scale.shape[0] > 1 else 0]
        return dataclasses.replace(self, data=b.constant(part(self.data.const_value, index)), scale=scale)

    def emit(self, b: Builder) -> ir.Value:
        """Emits the weights, as floats of the scales' type."""
        scale = b.constant(self.scale)
        assert scale.dtype is not None
        places = b.cast(self.data, ir.DataType.INT32)
        table = b.constant(self.table.astype(self.scale.dtype))
        numbers = b.typed(b.op("Gather", table, places, axis=0), scale.dtype, self.data.shape)
        return b.typed(b.op("Mul", numbers, scale), scale.dtype, self.data.shape)

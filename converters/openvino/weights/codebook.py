"""Codebook weights: constant 4-bit indices into a codebook, times scales. nf4, mxfp4 and custom codebooks."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.weights.codebook_lookup import codebook_lookup, evaluated
from ortconv.converters.openvino.weights.lazy_tensors import part
from ortconv.graph.annotations import FLOAT16_PRODUCT
from ortconv.graph.builder import Builder
from ortconv.graph.match import producer

__all__ = ["CodebookWeights"]


@dataclasses.dataclass(frozen=True)
class CodebookWeights:
    """A codebook lookup times constant scales.

    Attributes:
        data: The uint4 indices.
        codebook: Floats [16].
        scale: Scales, which broadcast to the indices and have the same rank.
        of_halves: Whether the codebook is float16 in the source. OpenVINO's CPU plugin rounds to it only if rows are
            gathered.
    """

    data: ir.Value
    codebook: np.ndarray
    scale: np.ndarray
    of_halves: bool = False

    @classmethod
    def of(cls, value: ir.Value) -> CodebookWeights | None:
        """Returns the weights that a value computes, or None if it is something else."""
        node = producer(value, "Mul")
        for numbers, scale in () if node is None else (node.inputs, node.inputs[::-1]):
            found = None if numbers is None else codebook_lookup(numbers)
            scales = None if found is None else evaluated(scale)
            if found is None or scales is None or scales.ndim > len(found[0].shape or ()):
                continue
            sizes = list(found[0].shape.numpy())  # type: ignore[union-attr]
            own = [1] * (len(sizes) - scales.ndim) + list(scales.shape)
            if all(have in (1, size) for have, size in zip(own, sizes, strict=True)):
                return cls(*found, scales.reshape(own), bool(FLOAT16_PRODUCT.get(value)))
        return None

    @property
    def gathered(self) -> CodebookWeights:
        """The weights as OpenVINO's CPU plugin has them if rows are gathered."""
        if not self.of_halves:
            return self
        return dataclasses.replace(self, codebook=self.codebook.astype(np.float16).astype(np.float32), of_halves=False)

    @property
    def sizes(self) -> list[int]:
        """The shape of the indices."""
        assert self.data.shape is not None
        return list(self.data.shape.numpy())

    def part(self, b: Builder, index: int) -> CodebookWeights:
        """Returns the weights at an index of the first axis."""
        assert self.data.const_value is not None
        scale = self.scale[index if self.scale.shape[0] > 1 else 0]
        return dataclasses.replace(self, data=b.constant(part(self.data.const_value, index)), scale=scale)

    def emit(self, b: Builder) -> ir.Value:
        """Emits the weights in the type of the scales."""
        scale = b.constant(self.scale)
        assert scale.dtype is not None
        indices = b.cast(self.data, ir.DataType.INT32)
        table = b.constant(self.codebook.astype(self.scale.dtype))
        numbers = b.typed(b.op("Gather", table, indices, axis=0), scale.dtype, self.data.shape)
        return b.typed(b.op("Mul", numbers, scale), scale.dtype, self.data.shape)

"""What lowerings and passes tell each other about nodes, values and tensors: every key, with its type.

Annotations live in the ``meta`` of onnx_ir objects. They are not written into the ONNX file.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Generic, TypeVar

import onnx_ir as ir

if TYPE_CHECKING:
    from ortconv.graph.fake_quantize import Quantizer
    from ortconv.graph.symbolic_shapes import Entry

__all__ = [
    "BYTES_IN_FILE",
    "CODEBOOK",
    "COMPUTED_FROM",
    "FLOAT16_PRODUCT",
    "IS_STATE",
    "LEVELS",
    "LOCATION_USES",
    "MATMUL_OPERANDS",
    "QUANTIZER",
    "SINK_INTO_BRANCHES",
    "SOURCE_HAS_4_BITS",
    "SPACE_TO_BATCH",
    "STORED_TYPE",
    "Annotation",
    "Computed",
    "Levels",
    "SpaceToBatch",
]

T = TypeVar("T")
Annotated = ir.Node | ir.Value | ir.TensorProtocol


class Annotation(Generic[T]):
    """A key of the annotations, with the type of what it annotates with.

    Args:
        key: Its name in ``meta``.
    """

    def __init__(self, key: str) -> None:
        self._key = f"ortconv.{key}"

    def get(self, of: Annotated) -> T | None:
        """Returns the annotation of a node, value or tensor; None if it has none."""
        found: T | None = of.meta.get(self._key)
        return found

    def set(self, of: Annotated, annotation: T) -> None:
        """Annotates a node, value or tensor."""
        of.meta[self._key] = annotation

    def copy(self, source: Annotated, target: Annotated) -> None:
        """Gives `target` the annotation of `source`, if it has one."""
        if self._key in source.meta:
            target.meta[self._key] = source.meta[self._key]


@dataclasses.dataclass(frozen=True)
class Computed:
    """How a tensor is computed whose data are not computed yet.

    Attributes:
        op_type: The operation: an ONNX op type, or a word of ours for what ONNX has none for.
        data: Its operand.
        rest: The other operands and the attributes, as text: two tensors with equal fields have equal data.
    """

    op_type: str
    data: ir.TensorProtocol
    rest: str


@dataclasses.dataclass(frozen=True)
class SpaceToBatch:
    """What a SpaceToBatch did.

    Attributes:
        data: Its input.
        block: The block size along each axis.
        begin: Padding before each axis.
        end: Padding after each axis.
    """

    data: ir.Value
    block: Sequence[Entry]
    begin: Sequence[Entry]
    end: Sequence[Entry]


@dataclasses.dataclass(frozen=True)
class Levels:
    """The levels of a FakeQuantize.

    Attributes:
        count: How many there are.
        have_zero: Whether zero is one of them, or lies outside their range.
    """

    count: int
    have_zero: bool


BYTES_IN_FILE = Annotation[tuple[str | os.PathLike[str], int]]("file")
"""Tensor: its bytes, as ONNX stores them, lie in a file: the path, and the offset."""

COMPUTED_FROM = Annotation[Computed]("origin")
"""Tensor: it is computed when its data are first read."""

STORED_TYPE = Annotation[ir.DataType]("stored")
"""float32 tensor: its numbers come from this narrower type."""

QUANTIZER: Annotation[Quantizer] = Annotation("quantizer")
"""Node: the last one of the formula of a FakeQuantize that QuantizeLinear and DequantizeLinear can replace."""

SINK_INTO_BRANCHES = Annotation[bool]("lazy")
"""If node: nodes that one of its branches alone uses move into it."""

LOCATION_USES = Annotation[dict[str, object]]("openvino.uses")
"""Tensor or value: how nodes use the constants at one place of the weights file, by kind of use."""

CODEBOOK = Annotation[str]("code")
"""Tensor: the name of the type, nf4 or f4e2m1 say, whose codes it holds."""

SOURCE_HAS_4_BITS = Annotation[bool]("four_bits")
"""Tensor: the source stores it in 4 bits; here each number has a byte."""

FLOAT16_PRODUCT = Annotation[bool]("halves")
"""float32 value: a product that is float16 in the source; its factors are not rounded to float16."""

MATMUL_OPERANDS = Annotation[tuple[ir.Value, ir.Value, bool]]("openvino.factors")
"""Value: a matrix product: its operands, and whether the second is transposed."""

SPACE_TO_BATCH = Annotation[SpaceToBatch]("blocks")
"""Value: the output of a SpaceToBatch."""

LEVELS = Annotation[Levels]("levels")
"""Value, or the tensor of a constant: the output of a FakeQuantize."""

IS_STATE = Annotation[bool]("state")
"""Value: a state, which a caller feeds back from the last call."""

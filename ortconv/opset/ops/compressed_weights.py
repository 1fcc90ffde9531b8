"""Schema entries and shape checks of the four operators that multiply by compressed weights.

The weights are int8 or int4, or 4-bit indices into a codebook, with a scale for each block of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy.typing as npt
import onnx.defs
import onnx_ir as ir
from onnx import TensorProto

from ortconv.opset.inferred_node import Dim, InferredNode, differ
from ortconv.opset.operator import Attribute, Formal, Operator, Switches, Type

__all__ = [
    "BLOCK_SIZE",
    "OLDEST_OPSET",
    "QUANTIZED_TYPES",
    "check_codebook",
    "check_columns",
    "check_scales",
    "compressed_product",
]

BLOCK_SIZE = "block_size"
"""Name of the only attribute."""

QUANTIZED_TYPES = (TensorProto.UINT8, TensorProto.INT8, TensorProto.UINT4, TensorProto.INT4)
"""Element types of data and zero_point."""

OLDEST_OPSET = 21
"""The version of ai.onnx that introduced int4 and blocks of DequantizeLinear, which the bodies need."""

_TYPES = {
    "T": Type((TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16), "Floats."),
    "C": Type(QUANTIZED_TYPES, "Integers of 8 or 4 bits."),
    "N": Type((TensorProto.UINT4,), "Indices into a codebook."),
    "F": Type((TensorProto.FLOAT,), "Entries of a codebook."),
    "I": Type((TensorProto.INT64,), "Indices."),
}
_CODEBOOK_SIZE = 16
"""How many entries 4 bits can index."""

_INT8 = "int8"
"""The switch of bodies for models in which data of a node is int8; they serve other types, too."""


def compressed_product(
    *,
    name: str,
    doc: str,
    inputs: tuple[Formal, ...],
    output: str,
    infer: Callable[[InferredNode, int], list[Dim] | None],
    text: str,
    reference: Callable[..., npt.NDArray[Any]],
    text_of_int8: str = "",
) -> Operator:
    """Returns an operator that multiplies by compressed weights.

    Args:
        name: Op type.
        doc: What it computes.
        inputs: Formal inputs: the first is X, the second data; the last one may be optional.
        output: Description of Y.
        infer: Checks a node, with its block_size, and returns the shape of Y or None.
        text: Nodes of the function body.
        reference: Its NumPy reference.
        text_of_int8: The nodes for models in which data of a node is int8, if they differ.
    """
    return Operator(
        name=name,
        doc=doc,
        types={each: type_ for each, type_ in _TYPES.items() if any(formal.type == each for formal in inputs)},
        inputs=inputs,
        output=Formal("Y", "T", output),
        attributes=(
            Attribute(
                BLOCK_SIZE, onnx.defs.OpSchema.AttrType.INT, "How many columns of data share a scale; divides K."
            ),
        ),
        accumulation=dict.fromkeys(_TYPES["T"].elements, TensorProto.FLOAT),
        infer=lambda node: infer(node, node.positive(BLOCK_SIZE)),
        oldest_opset=OLDEST_OPSET,
        text=(lambda opset, switches: text_of_int8 if _INT8 in switches else text) if text_of_int8 else text,
        reference=reference,
        switches=(_INT8,) if text_of_int8 else (),
        unify=_unify,
    )


def _unify(nodes: Sequence[ir.Node], graph: ir.Graph) -> Switches:
    """Returns the switches of nodes; `graph` is not changed."""
    data = [node.inputs[1] for node in nodes]
    return frozenset({_INT8} if any(each is not None and each.dtype == ir.DataType.INT8 for each in data) else ())


def check_columns(node: InferredNode, block: int, x: list[Dim] | None, depth: Dim) -> None:
    """Checks that data [..., K] has as many columns as X, in whole blocks."""
    if isinstance(depth, int) and (depth < 1 or depth % block):
        raise node.fail(f"data has {depth} columns; allowed: a multiple of {BLOCK_SIZE} = {block}")
    if x is not None and differ(x[-1], depth):
        raise node.fail(f"X has {x[-1]} columns; allowed: {depth}, as data has")


def check_scales(node: InferredNode, block: int, data: list[Dim], *inputs: tuple[int, str]) -> None:
    """Checks the shapes of scale and zero_point against that of data.

    Args:
        node: The node.
        block: Its block_size.
        data: The shape of data.
        *inputs: Index and name of each of the two.
    """
    depth = data[-1]
    wanted = [*data[:-1], depth // block if isinstance(depth, int) else None]
    for index, name in inputs:
        given = node.dims(index) if node.has(index) else None
        if given is not None and (len(given) != len(wanted) or any(map(differ, given, wanted))):
            raise node.fail(f"{name} has shape {given}; allowed: {wanted}")


def check_codebook(node: InferredNode, index: int) -> None:
    """Checks the shape of the codebook, the input at an index."""
    given = node.dims(index)
    if given is not None and (len(given) != 1 or differ(given[0], _CODEBOOK_SIZE)):
        raise node.fail(f"codebook has shape {given}; allowed: [{_CODEBOOK_SIZE}]")

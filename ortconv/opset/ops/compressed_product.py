"""What the operators that multiply by compressed weights have in common; see `products` for all of them.

Each has standard ops for its body, which compute the same.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import onnx
import onnx.defs
import onnx.parser
from onnx import TensorProto

from ortconv.opset.inferred_node import DOMAIN, VERSION, Dim, InferredNode, differ

__all__ = [
    "BLOCK_SIZE",
    "CODES",
    "ELEMENTS",
    "FLOATS",
    "OLDEST_OPSET",
    "CompressedProduct",
    "Formal",
    "check_codebook",
    "check_columns",
    "check_scales",
]

BLOCK_SIZE = "block_size"
"""Name of the only attribute, which is required."""

CODES = (TensorProto.UINT8, TensorProto.INT8, TensorProto.UINT4, TensorProto.INT4)
"""Element types of data and zero_point."""

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
"""Element types of X, scale and Y, which have the same."""

OLDEST_OPSET = 21
"""The version of ai.onnx that brought integers of 4 bits and blocks to DequantizeLinear, which the bodies need."""

_Schema = onnx.defs.OpSchema
_CONSTRAINTS = {
    "T": (FLOATS, "Floats."),
    "C": (CODES, "Integers of a byte or half."),
    "N": ((TensorProto.UINT4,), "Codes of 4 bits."),
    "F": ((TensorProto.FLOAT,), "Numbers of a codebook."),
    "I": ((TensorProto.INT64,), "Indices."),
}
_NUMBERS = 16
"""How many numbers 4 bits can choose from."""

ELEMENTS = {name: types for name, (types, _) in _CONSTRAINTS.items()}
"""Type of a formal input -> its element types."""


@dataclasses.dataclass(frozen=True)
class Formal:
    """A formal input.

    Attributes:
        name: Its name.
        type: A key of `ELEMENTS`.
        doc: What it is.
        optional: Whether a node may lack it.
    """

    name: str
    type: str
    doc: str
    optional: bool = False


@dataclasses.dataclass(frozen=True)
class CompressedProduct:
    """An operator that multiplies by compressed weights: small integers, or codes of a codebook, with scales.

    Attributes:
        name: Op type.
        inputs: Formal inputs: the first is X, the second data; the last one may be optional.
        output: What Y is.
        doc: What it computes.
        text: The nodes of the function body, as onnx.parser reads them.
        infer: Checks a node, with its block_size, and returns the shape of Y or None.
        text_of_int8: The nodes for models with data of int8, where they are others.
    """

    name: str
    inputs: tuple[Formal, ...]
    output: str
    doc: str
    text: str
    infer: Callable[[InferredNode, int], list[Dim] | None]
    text_of_int8: str = ""

    def register_schema(self) -> None:
        """Registers the schema with ``onnx.defs``; harmless when repeated."""
        if onnx.defs.has(self.name, VERSION, DOMAIN):
            return
        options = _Schema.FormalParameterOption
        schema = _Schema(
            self.name,
            DOMAIN,
            VERSION,
            doc=self.doc,
            inputs=[
                _Schema.FormalParameter(
                    each.name,
                    each.type,
                    each.doc,
                    param_option=options.Optional if each.optional else options.Single,
                )
                for each in self.inputs
            ],
            outputs=[_Schema.FormalParameter("Y", "T", self.output)],
            type_constraints=[
                (name, [f"tensor({TensorProto.DataType.Name(each).lower()})" for each in types], text)
                for name, (types, text) in _CONSTRAINTS.items()
                if any(each.type == name for each in self.inputs)
            ],
            attributes=[
                _Schema.Attribute(
                    BLOCK_SIZE,
                    _Schema.AttrType.INT,
                    "How many columns of data share a scale; divides K.",
                    required=True,
                )
            ],
        )
        schema.set_type_and_shape_inference_function(self._infer)
        onnx.defs.register_schema(schema)

    def body(self, opset: int, *, int8: bool = False) -> onnx.FunctionProto:
        """Returns the function body.

        Args:
            opset: The ai.onnx version of the model, which the body must share.
            int8: Whether data of a node are of int8; the body serves other types, too.

        Raises:
            ValueError: There is no body in that opset.
        """
        if opset < OLDEST_OPSET:
            raise ValueError(f"there is no body of {self.name} in opset {opset}")
        text = self.text_of_int8 if int8 and self.text_of_int8 else self.text
        function = onnx.parser.parse_function(
            f'<opset_import: ["": {opset}], domain: "{DOMAIN}">\n'
            f"{self.name} <{BLOCK_SIZE}> ({', '.join(each.name for each in self.inputs)}) => (Y) {{{text}}}\n"
        )
        function.doc_string = self.doc
        return function

    def _infer(self, ctx: Any) -> None:
        node = InferredNode(self.name, ctx)
        block = node.integer(BLOCK_SIZE)
        if block < 1:
            raise node.fail(f"attribute {BLOCK_SIZE} = {block} is not allowed; allowed: integers >= 1")
        node.set_output(node.element(0), self.infer(node, block))


def check_columns(node: InferredNode, block: int, x: list[Dim] | None, depth: Dim) -> None:
    """Checks that the columns of data [..., K] are those of X, in whole blocks."""
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
    """Checks the shape of the input of an index, which is a codebook."""
    given = node.dims(index)
    if given is not None and (len(given) != 1 or differ(given[0], _NUMBERS)):
        raise node.fail(f"codebook has shape {given}; allowed: [{_NUMBERS}]")

"""The operator ``MatMulCompressed``: a product by a matrix of small integers with scales.

It has standard ops for its body, which compute the same; ONNX Runtime has the whole matrix as floats then, every time
that the model runs.
"""

from __future__ import annotations

from typing import Any

import onnx
import onnx.defs
import onnx.parser
from onnx import TensorProto

from ortconv.inferred_node import DOMAIN, VERSION, Dim, InferredNode, differ

__all__ = ["BLOCK_SIZE", "CODES", "FLOATS", "INPUTS", "NAME", "OLDEST_OPSET", "body", "register_schema"]

NAME = "MatMulCompressed"

INPUTS = ("X", "data", "scale", "zero_point")
"""The formal inputs; the last one is optional."""

BLOCK_SIZE = "block_size"
"""Name of the only attribute, which is required."""

CODES = (TensorProto.UINT8, TensorProto.INT8, TensorProto.UINT4, TensorProto.INT4)
"""Element types of data and zero_point."""

FLOATS = (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16)
"""Element types of X, scale and Y, which have the same."""

OLDEST_OPSET = 21
"""The version of ai.onnx that brought integers of 4 bits and blocks to DequantizeLinear, of which the body consists."""

_DOC = """Y = MatMul(X, Transpose(W)) of X [..., K] and W [N, K], where W is

    DequantizeLinear(data, scale, zero_point, axis=1, block_size=block_size):
    W[n, k] = (data[n, k] - zero_point[n, b]) * scale[n, b] with b = k / block_size, rounded down.

The difference is exact. Products and sums are formed in float, in any order; a scale may be applied to the sum over its
block. Y is rounded to its type at the end. Where that is not float, W may be rounded to it; nothing else is rounded, in
particular not X."""

_Schema = onnx.defs.OpSchema

# ONNX Runtime makes MatMulNBits, which by default rounds the data to 8 bits, of a matrix that is dequantized and
# multiplied. It does not look behind a Reshape, even to the shape that there is. On the CPU it has neither operator for
# bfloat16; casts of float to float it drops.
_BODY = """
  wide_scale = Cast <to = 1> (scale)
  dequantized = DequantizeLinear <axis: int = 1, block_size: int = @block_size> (data, wide_scale, zero_point)
  sizes = Shape (dequantized)
  rows = Reshape (dequantized, sizes)
  columns = Transpose <perm = [1, 0]> (rows)
  wide = Cast <to = 1> (X)
  product = MatMul (wide, columns)
  Y = CastLike (product, X)
"""


def register_schema() -> None:
    """Registers the schema with ``onnx.defs``; harmless when repeated."""
    if onnx.defs.has(NAME, VERSION, DOMAIN):
        return
    formal, options = _Schema.FormalParameter, _Schema.FormalParameterOption
    schema = _Schema(
        NAME,
        DOMAIN,
        VERSION,
        doc=_DOC,
        inputs=[
            formal("X", "T", "Data [..., K], of two axes or more."),
            formal("data", "C", "Integers [N, K]."),
            formal("scale", "T", "Scales [N, K / block_size]."),
            formal("zero_point", "C", "Zero points [N, K / block_size]; none is 0.", param_option=options.Optional),
        ],
        outputs=[formal("Y", "T", "The product [..., N].")],
        type_constraints=[
            ("T", [f"tensor({TensorProto.DataType.Name(each).lower()})" for each in FLOATS], "Floats."),
            (
                "C",
                [f"tensor({TensorProto.DataType.Name(code).lower()})" for code in CODES],
                "Integers of a byte or half.",
            ),
        ],
        attributes=[
            _Schema.Attribute(
                BLOCK_SIZE, _Schema.AttrType.INT, "How many columns of data share a scale; divides K.", required=True
            )
        ],
    )
    schema.set_type_and_shape_inference_function(_infer)
    onnx.defs.register_schema(schema)


def body(opset: int) -> onnx.FunctionProto:
    """Returns the function body.

    Args:
        opset: The ai.onnx version of the model, which the body must share.

    Raises:
        ValueError: There is no body in that opset.
    """
    if opset < OLDEST_OPSET:
        raise ValueError(f"there is no body of {NAME} in opset {opset}")
    function = onnx.parser.parse_function(
        f'<opset_import: ["": {opset}], domain: "{DOMAIN}">\n'
        f"{NAME} <{BLOCK_SIZE}> ({', '.join(INPUTS)}) => (Y) {{{_BODY}}}\n"
    )
    function.doc_string = _DOC
    return function


def _infer(ctx: Any) -> None:
    node = InferredNode(NAME, ctx)
    block = node.attribute(BLOCK_SIZE)
    if block < 1:
        raise node.fail(f"attribute {BLOCK_SIZE} = {block} is not allowed; allowed: integers >= 1")
    x, data = node.dims(0), node.dims(1)
    if x is not None and len(x) < 2:
        raise node.fail(f"X has rank {len(x)}; allowed: at least 2")
    if data is not None and len(data) != 2:
        raise node.fail(f"data has rank {len(data)}; allowed: 2")
    rows, depth = (None, None) if data is None else data
    if isinstance(depth, int) and (depth < 1 or depth % block):
        raise node.fail(f"data has {depth} columns; allowed: a multiple of {BLOCK_SIZE} = {block}")
    if x is not None and differ(x[-1], depth):
        raise node.fail(f"X has {x[-1]} columns; allowed: {depth}, as data has")
    wanted: list[Dim] = [rows, depth // block if isinstance(depth, int) else None]
    for index in range(2, 4 if node.has(3) else 3):
        given = node.dims(index)
        if given is not None and (len(given) != 2 or any(map(differ, given, wanted))):
            raise node.fail(f"{INPUTS[index]} has shape {given}; allowed: {wanted}")
    node.set_output(node.element(0), None if x is None else [*x[:-1], rows])

"""MatMul."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.onednn_graph.lib.data_format import Dims, known_dims, rank_of
from ortconv.converters.onednn_graph.lib.dtypes import FLOATS, check_type, dtype_name
from ortconv.converters.onednn_graph.registry import REGISTRY
from ortconv.errors import ShapeError
from ortconv.graph.builder import Builder


@REGISTRY.lowering("MatMul", how="exact")
def mat_mul(
    b: Builder,
    src: ir.Value,
    weights: ir.Value,
    bias: ir.Value | None = None,
    /,
    *,
    transpose_a: bool = False,
    transpose_b: bool = False,
    accumulation_mode: str = "strict",
) -> ir.Value:
    """Lowers to ai.onnx MatMul, with Transpose and Add; sums are computed in float32 and rounded once.

    Leading dimensions broadcast; a vector on either side is not transposed.
    """
    _check_types(b, src, weights, bias)
    if accumulation_mode.casefold() not in ("strict", "f32"):
        b.note(
            f"accumulation_mode is {accumulation_mode}: it permits other types than f32, in which the model accumulates"
        )
    left = _transposed(b, "src", b.cast(src, ir.DataType.FLOAT), transpose_a)
    right = _transposed(b, "weights", b.cast(weights, ir.DataType.FLOAT), transpose_b)
    shape = _shape(left, right)
    if transpose_a and rank_of("weights", right) == 1 < rank_of("src", left):
        # ONNX Runtime fuses the Transpose into MatMul, and then multiplies vectors by the wrong rows.
        column = b.op("Unsqueeze", right, b.constant([1]))
        product = b.op("Squeeze", b.op("MatMul", left, column), b.constant([-1]))
    else:
        product = b.op("MatMul", left, right)
    result = b.typed(product, ir.DataType.FLOAT, shape)
    if bias is not None:
        _check_bias(bias, shape)
        result = b.typed(b.op("Add", result, b.cast(bias, ir.DataType.FLOAT)), ir.DataType.FLOAT, shape)
    return b.cast(result, b.node.outputs[0].dtype)


def _check_types(b: Builder, src: ir.Value, weights: ir.Value, bias: ir.Value | None) -> None:
    """Checks the types against the specification of MatMul: one type, an f32 result, or f32 beside a narrower type."""
    check_type("src", src.dtype)
    dtype = dtype_name(src.dtype)
    check_type("weights", weights.dtype, FLOATS if dtype == "f32" else [dtype, "f32"])
    other = dtype_name(weights.dtype)
    narrow = other if dtype == "f32" else dtype
    if bias is not None:
        check_type("bias", bias.dtype, [narrow])
    check_type("dst", b.node.outputs[0].dtype, [narrow, "f32"] if dtype == other != "f32" else [narrow])


def _transposed(b: Builder, argument: str, value: ir.Value, transpose: bool) -> ir.Value:
    """Swaps the last two dimensions if `transpose` is set; a vector is not changed."""
    rank = rank_of(argument, value)
    dims = known_dims(value)
    if rank == 0 or dims is None:
        raise ShapeError(argument, dims, "at least one dimension is required.")
    if not transpose or rank == 1:
        return value
    perm = [*range(rank - 2), rank - 1, rank - 2]
    return b.typed(b.op("Transpose", value, perm=perm), value.dtype, [dims[axis] for axis in perm])


def _shape(left: ir.Value, right: ir.Value) -> Dims:
    """Returns the shape of the product.

    Raises:
        ShapeError: The shapes cannot be multiplied.
    """
    x, y = known_dims(left), known_dims(right)
    assert x is not None
    assert y is not None
    inner = y[0] if len(y) == 1 else y[-2]
    if isinstance(x[-1], int) and isinstance(inner, int) and x[-1] != inner:
        raise ShapeError("weights", y, f"{x[-1]} rows are required (after any transposition): src has shape {x}.")
    batch: Dims = []
    for axis in range(-max(len(x), len(y), 2), -2):
        ours, theirs = (dims[axis] if len(dims) >= -axis else 1 for dims in (x, y))
        if isinstance(ours, int) and isinstance(theirs, int) and ours != theirs and 1 not in (ours, theirs):
            raise ShapeError("weights", y, f"its leading dimensions do not broadcast with those of src, {x}.")
        batch.append(theirs if ours == 1 else ours if theirs == 1 or isinstance(ours, int) else theirs)
    rows = [] if len(x) == 1 else [x[-2]]
    columns = [] if len(y) == 1 else [y[-1]]
    return [*batch, *rows, *columns]


def _check_bias(bias: ir.Value, shape: Dims) -> None:
    """Checks that a bias broadcasts to the product without changing its shape."""
    dims = known_dims(bias)
    if dims is None:
        return
    pairs = zip(reversed(dims), reversed(shape), strict=False)
    if len(dims) > len(shape) or any(
        isinstance(ours, int) and isinstance(theirs, int) and ours not in (1, theirs) for ours, theirs in pairs
    ):
        raise ShapeError("bias", dims, f"it must broadcast to the product, which has shape {shape}.")

"""Ops that move, reinterpret or convert elements without computing."""

from __future__ import annotations

import math

import onnx_ir as ir

from ortconv.builder import Builder, Ints
from ortconv.converters.onednn_graph.dtypes import check_type, dtype_name, one_type
from ortconv.converters.onednn_graph.layout import known_dims, rank_of
from ortconv.converters.onednn_graph.registry import REGISTRY
from ortconv.errors import ShapeError, UnsupportedAttributeError


@REGISTRY.lowering("StaticReshape")
def static_reshape(b: Builder, src: ir.Value, /, *, shape: Ints, special_zero: bool) -> ir.Value:
    """Lowers to ai.onnx Reshape; special_zero is the opposite of allowzero."""
    one_type(b, src=src)
    if any(dim < -1 for dim in shape) or shape.count(-1) > 1:
        raise UnsupportedAttributeError("shape", shape, "sizes of at least 0, and at most one -1")
    dims = known_dims(src)
    resolved = _reshaped(shape, special_zero, dims)
    if -1 in shape and 0 in shape and not special_zero:
        raise UnsupportedAttributeError("shape", shape, "no 0 together with -1 unless special_zero is set")
    result = b.op("Reshape", src, b.constant(shape), allowzero=0 if special_zero else 1)
    return b.typed(result, src.dtype, resolved)


@REGISTRY.lowering("StaticTranspose")
def static_transpose(b: Builder, src: ir.Value, /, *, order: Ints) -> ir.Value:
    """Lowers to ai.onnx Transpose; negative axes count from the end."""
    one_type(b, src=src)
    rank = len(order) if src.shape is None else rank_of("src", src)
    perm = tuple(axis + rank if axis < 0 else axis for axis in order)
    if sorted(perm) != list(range(rank)):
        raise UnsupportedAttributeError("order", order, f"a permutation of the {rank} axes of src")
    dims = known_dims(src)
    return b.typed(
        b.op("Transpose", src, perm=perm), src.dtype, None if dims is None else [dims[axis] for axis in perm]
    )


@REGISTRY.lowering("TypeCast")
def type_cast(b: Builder, src: ir.Value, /) -> ir.Value:
    """Lowers to ai.onnx Cast: f32 to bf16 or f16, rounding to nearest even, and back."""
    check_type("src", src.dtype)
    check_type("dst", b.node.outputs[0].dtype, ["bf16", "f16"] if dtype_name(src.dtype) == "f32" else ["f32"])
    return b.typed(b.op("Cast", src, to=int(b.node.outputs[0].dtype)), None, src.shape)


@REGISTRY.lowering("Reorder")
def reorder(b: Builder, src: ir.Value, /) -> ir.Value:
    """Lowers to ai.onnx Identity: only the memory layout changes, and ONNX has none."""
    one_type(b, src=src)
    return b.typed(b.op("Identity", src), None, src.shape)


@REGISTRY.lowering("End")
def end(b: Builder, src: ir.Value, /) -> tuple[ir.Value, ...]:
    """Lowers to nothing: its input is an output of the graph."""
    b.note(f"{src.name} is an output of the graph")
    return ()


def _reshaped(shape: Ints, special_zero: bool, dims: list[int | str | None] | None) -> list[int | str | None] | None:
    """Returns the resulting dims, None for one that is not known.

    Raises:
        ShapeError: The number of elements changes.
    """
    if special_zero and any(dim == 0 and axis >= len(dims or shape) for axis, dim in enumerate(shape)):
        raise UnsupportedAttributeError("shape", shape, f"0 only for the axes of src, which has shape {dims}")
    copied: list[int | str | None] = [
        (None if dims is None else dims[axis]) if special_zero and dim == 0 else dim for axis, dim in enumerate(shape)
    ]
    static = [dim for dim in copied if isinstance(dim, int) and dim >= 0]
    source = [dim for dim in dims or () if isinstance(dim, int)]
    if dims is None or len(source) < len(dims) or len(static) < len(copied) - shape.count(-1):
        return [None if dim == -1 else dim for dim in copied]
    total, rest = math.prod(source), math.prod(static)
    if -1 in shape and rest and total % rest == 0:
        return [total // rest if dim == -1 else dim for dim in copied]
    if -1 in shape or rest != total:
        raise ShapeError("src", dims, f"{total} elements do not fill the shape {list(shape)}.")
    return copied

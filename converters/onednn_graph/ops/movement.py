"""Ops that move, reinterpret or convert elements without computing."""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from ortconv.converters.onednn_graph.lib.data_format import known_dims, normal_axis, rank_of
from ortconv.converters.onednn_graph.lib.dtypes import check_type, dtype_name, one_type
from ortconv.converters.onednn_graph.registry import REGISTRY
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints


@REGISTRY.lowering("StaticReshape", how="exact")
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


@REGISTRY.lowering("StaticTranspose", how="exact")
def static_transpose(b: Builder, src: ir.Value, /, *, order: Ints) -> ir.Value:
    """Lowers to ai.onnx Transpose; negative axes count from the end, and an empty order reverses the axes."""
    one_type(b, src=src)
    rank = len(order) if src.shape is None else rank_of("src", src)
    if not order:
        order = tuple(reversed(range(rank)))
    perm = tuple(axis + rank if axis < 0 else axis for axis in order)
    if sorted(perm) != list(range(rank)):
        raise UnsupportedAttributeError("order", order, f"a permutation of the {rank} axes of src")
    dims = known_dims(src)
    return b.typed(
        b.op("Transpose", src, perm=perm), src.dtype, None if dims is None else [dims[axis] for axis in perm]
    )


@REGISTRY.lowering("TypeCast", how="exact")
def type_cast(b: Builder, src: ir.Value, /) -> ir.Value:
    """Lowers to ai.onnx Cast: f32 to bf16 or f16, rounding to nearest even, and back."""
    check_type("src", src.dtype)
    check_type("dst", b.node.outputs[0].dtype, ["bf16", "f16"] if dtype_name(src.dtype) == "f32" else ["f32"])
    return b.typed(b.op("Cast", src, to=int(b.node.outputs[0].dtype)), None, src.shape)


@REGISTRY.lowering("Reorder", how="exact")
def reorder(b: Builder, src: ir.Value, /) -> ir.Value:
    """Lowers to ai.onnx Identity: only the memory layout changes, and ONNX has none."""
    one_type(b, src=src)
    return b.typed(b.op("Identity", src), None, src.shape)


@REGISTRY.lowering("Concat", how="exact")
def concat(b: Builder, /, *src_i: ir.Value, axis: int) -> ir.Value:
    """Lowers to ai.onnx Concat."""
    one_type(b, **{f"src_{index}": value for index, value in enumerate(src_i)})
    shapes = [known_dims(value) for value in src_i]
    rank = rank_of("src_0", src_i[0])
    along = normal_axis("axis", axis, rank)
    result = list(shapes[0] or ())
    total = 0 if all(shape is not None for shape in shapes) else None
    for index, shape in enumerate(shapes):
        if shape is None:
            continue
        others = [
            (x, y) for at, (x, y) in enumerate(zip(result, shape, strict=False)) if at != along and None not in (x, y)
        ]
        if len(shape) != rank or any(x != y for x, y in others):
            problem = f"it must agree with src_0, which has shape {shapes[0]}, outside axis {along}."
            raise ShapeError(f"src_{index}", shape, problem)
        size = shape[along]
        total = total + size if total is not None and isinstance(size, int) else None
    result[along] = total
    return b.typed(b.op("Concat", *src_i, axis=along), None, result)


@REGISTRY.lowering("GenIndex")
def gen_index(b: Builder, src: ir.Value, /, *, axis: int) -> ir.Value:
    """Lowers to Range and Expand: each element's index along an axis."""
    check_type("src", src.dtype)
    check_type("dst", b.node.outputs[0].dtype, ["s32"])
    dims, rank = known_dims(src), rank_of("src", src)
    along = normal_axis("axis", axis, rank)
    assert dims is not None
    sizes = [dim for dim in dims if isinstance(dim, int)]
    line = [-1 if at == along else 1 for at in range(rank)]
    if len(sizes) == rank:
        indices = b.op("Reshape", b.cast(b.counted(sizes[along]), ir.DataType.INT32), b.constant(line))
        return b.typed(b.op("Expand", indices, b.constant(sizes)), None, src.shape)
    shape = b.op("Shape", src)
    count = b.op("Cast", b.op("Gather", shape, b.constant(along)), to=int(ir.DataType.INT32))
    steps = b.op("Range", b.constant(0, np.int32), count, b.constant(1, np.int32))
    return b.typed(b.op("Expand", b.op("Reshape", steps, b.constant(line)), shape), None, src.shape)


REGISTRY.refuse("Wildcard", reason="it stands for an operation that the file describes by its name only")


@REGISTRY.lowering("End", how="exact")
def end(b: Builder, src: ir.Value, /) -> tuple[ir.Value, ...]:
    """Emits nothing: marks its input as a graph output."""
    b.note(f"{src.name} is an output of the graph")
    return ()


def _reshaped(shape: Ints, special_zero: bool, dims: list[int | str | None] | None) -> list[int | str | None] | None:
    """Returns the resulting dimensions, None for a dynamic one.

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

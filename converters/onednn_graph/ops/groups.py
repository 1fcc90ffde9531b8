"""Groups of elements that share a scale and a zero point, for DynamicQuantize and DynamicDequantize."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import onnx_ir as ir

from ortconv.converters.onednn_graph.lib.data_format import Dims, differ, known_dims, normal_axis, rank_of
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints

__all__ = ["groups_of"]


@dataclasses.dataclass(frozen=True)
class Groups:
    """Groups of elements with one scale and zero point each.

    Attributes:
        dims: The shape of the quantized tensor.
        sizes: Length of a group along each axis; 0 for the whole axis.
    """

    dims: Dims
    sizes: Ints

    @property
    def counts(self) -> Dims:
        """The number of groups along each axis, which is the shape of scales and zero points; None where unknown."""
        return [_count(dim, size) for dim, size in zip(self.dims, self.sizes, strict=True)]

    @property
    def split(self) -> Ints:
        """The axes with several groups of several elements; a reshape splits each of them in two."""
        return tuple(axis for axis, count in enumerate(self.counts) if self.sizes[axis] > 1 and count != 1)

    def apply(self, b: Builder, src: ir.Value, function: Callable[[ir.Value], ir.Value]) -> ir.Value:
        """Emits `function` on a tensor in a shape that values from `spread` broadcast against."""
        if not self.split:
            return function(src)
        shape = self._known("src", self._doubled(self.dims, self.sizes))
        result = function(self._reshaped(b, src, shape))
        return b.op("Reshape", result, b.constant(self._known("src", self.dims)))

    def spread(self, b: Builder, argument: str, value: ir.Value) -> ir.Value:
        """Reshapes scales or zero points so that they broadcast against the tensor in `apply`.

        Allowed shapes: `counts`, `counts` without dimensions of 1, or one element.

        Raises:
            ShapeError: The shape is not allowed.
        """
        found, counts = known_dims(value), self.counts
        if found is None:
            raise ShapeError(argument, None, "the number of dimensions must be known.")
        packed = [count for count in counts if count != 1]
        if all(dim == 1 for dim in found):
            return value if len(found) <= len(counts) else self._reshaped(b, value, [])
        if not any(_agree(found, shape) for shape in (counts, packed)):
            wanted = " or ".join(str(shape) for shape in ([counts, packed] if packed != counts else [counts]))
            raise ShapeError(argument, found, f"{wanted} is required, or a single element.")
        shape = self._doubled(counts, [1] * len(counts)) if self.split else counts
        if found == shape:
            return value
        return self._reshaped(b, value, self._known(argument, shape))

    def _doubled(self, dims: Sequence[int | str | None], inner: Sequence[int]) -> Dims:
        """Replaces each axis of `split` by two: the number of groups, and `inner`."""
        doubled: Dims = []
        for axis, (dim, size, count) in enumerate(zip(dims, inner, self.counts, strict=True)):
            doubled += [count, size] if axis in self.split else [dim]
        return doubled

    def _known(self, argument: str, dims: Dims) -> list[int]:
        """Returns a shape for Reshape, with -1 for at most one unknown dimension."""
        if sum(not isinstance(dim, int) for dim in dims) > 1:
            raise ShapeError(argument, dims, "at most one unknown dimension is allowed here.")
        return [dim if isinstance(dim, int) else -1 for dim in dims]

    def _reshaped(self, b: Builder, value: ir.Value, shape: Sequence[int]) -> ir.Value:
        dims = [None if size < 0 else size for size in shape]
        return b.typed(b.op("Reshape", value, b.constant(list(shape))), value.dtype, dims)


def _count(dim: int | str | None, size: int) -> int | str | None:
    """Returns the number of groups along an axis; a group size of 0 stands for the whole axis."""
    if size < 2:
        return dim if size else 1
    return dim // size if isinstance(dim, int) else None


def groups_of(src: ir.Value, qtype: str, axis: int, mask: int | None, group_shape: Ints) -> Groups:
    """Returns the groups of a tensor.

    Args:
        src: The tensor.
        qtype: "per_tensor", "per_channel" for one group per position along an axis, or "per_group".
        axis: The axis of per_channel.
        mask: Bit n is set if every position along axis n has its own value.
        group_shape: Divides the tensor's shape.
    """
    rank, dims = rank_of("src", src), known_dims(src)
    assert dims is not None
    if group_shape:
        if qtype == "per_channel":
            raise UnsupportedAttributeError("qtype", qtype, "per_group or per_tensor where group_shape is set")
        fits = len(group_shape) == rank and all(
            size >= 1 and not (isinstance(dim, int) and dim % size) for size, dim in zip(group_shape, dims, strict=True)
        )
        if not fits:
            allowed = f"{rank} sizes from 1 on that divide the shape of src, {dims}"
            raise UnsupportedAttributeError("group_shape", group_shape, allowed)
        return Groups(dims, group_shape)
    if mask is not None:
        if qtype != "per_tensor":
            raise UnsupportedAttributeError("qtype", qtype, "per_tensor where mask is set")
        if not 0 <= mask < 1 << rank:
            raise UnsupportedAttributeError("mask", mask, f"0 to {(1 << rank) - 1}: one bit for each of {rank} axes")
        return Groups(dims, tuple(mask >> at & 1 for at in range(rank)))
    if qtype == "per_group":
        raise UnsupportedAttributeError("group_shape", None, "a list of sizes, since qtype is per_group")
    along = normal_axis("axis", axis, rank) if qtype == "per_channel" else None
    return Groups(dims, tuple(int(at == along) for at in range(rank)))


def _agree(found: Dims, wanted: Dims) -> bool:
    return len(found) == len(wanted) and not differ(found, wanted)

"""Attributes of the six convolution ops: checks, layouts, padding, given output shapes.

All six ops belong to one bilinear map between a big tensor (a convolution's source) and a small one (its destination):
``small[n, a, p]`` meets ``big[n, b, p*stride - pads_begin + k*dilation]`` through ``weights[a, b, k]``.
"""

from __future__ import annotations

import dataclasses
from typing import Literal

import onnx_ir as ir

from ortconv.converters.conv.layout import Layout, Sizes, inverse
from ortconv.converters.conv.window import Window
from ortconv.converters.onednn_graph.lib.data_format import DataFormat, known_dims, to_ncx
from ortconv.converters.onednn_graph.lib.dtypes import check_type
from ortconv.convolution_arithmetic import LARGEST, AutoPad
from ortconv.errors import ShapeError, UnsupportedAttributeError
from ortconv.graph.builder import Builder, Ints

__all__ = [
    "AutoPadName",
    "ConvAttributes",
    "TransposeAttributes",
    "kernel_perm",
    "known_sizes",
    "runtime_shape",
    "same_shape",
    "target_shape",
]

AutoPadName = Literal["none", "same_upper", "same_lower", "valid"]
"""The attribute auto_pad as the specification spells it; case does not matter: the library writes SAME_UPPER."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ConvAttributes:
    """The attributes that all convolution ops share; `check` comes before all else.

    Attributes:
        strides: At least 1 each.
        pads_begin: At least 0 each; ignored unless auto_pad is none.
        pads_end: At least 0 each; ignored unless auto_pad is none.
        dilations: At least 1 each.
        auto_pad: How the padding is determined.
        groups: At least 1.
        data_format: Order of the axes of the data.
    """

    strides: Ints
    pads_begin: Ints
    pads_end: Ints
    dilations: Ints
    auto_pad: AutoPadName = "none"
    groups: int = 1
    data_format: DataFormat = "NXC"

    @property
    def window(self) -> Window:
        """Strides, dilations and groups."""
        return Window(self.strides, self.dilations, self.groups)

    @property
    def begin(self) -> Ints:
        """The begin padding; zeros unless auto_pad is none."""
        return self.pads_begin if self.auto_pad == "none" else (0,) * len(self.strides)

    @property
    def end(self) -> Ints:
        """The end padding; zeros unless auto_pad is none."""
        return self.pads_end if self.auto_pad == "none" else (0,) * len(self.strides)

    @property
    def perm(self) -> Ints:
        """Permutation of the data to [N, C, spatial...]."""
        return to_ncx(len(self.strides) + 2, self.data_format)

    @property
    def same(self) -> bool:
        """Whether the padding depends on the sizes."""
        return self.auto_pad in ("same_upper", "same_lower")

    @property
    def library_auto_pad(self) -> AutoPad:
        """The meaning of auto_pad in the library, which is that of ONNX: same_upper puts the odd element at the end."""
        if not self.same:
            return AutoPad.NOTSET
        return AutoPad.SAME_UPPER if self.auto_pad == "same_upper" else AutoPad.SAME_LOWER

    def layout(self, weights_format: str) -> Layout:
        """Returns the permutations to ONNX's layouts.

        OIX is the weights' layout of ONNX Conv and, read by the gradient of the data, of ONNX ConvTranspose; IOX is
        that of ONNX ConvTranspose and, read by its gradient, of ONNX Conv.
        """
        return Layout(self.perm, kernel_perm(weights_format, len(self.strides)), inverse(self.perm))

    def check(self, b: Builder, **tensors: ir.Value) -> None:
        """Checks the attributes.

        Args:
            b: The builder.
            **tensors: Tensors of the result's rank, by argument name.

        Raises:
            ShapeError: Ranks are below 3 or differ, or a size exceeds 31 bits.
            UnsupportedAttributeError: A list does not have one entry per spatial axis, or a value is out of range.
        """
        spatial = max(_spatial_axes(tensors, len(self.strides)), 1)
        rows = {"strides": (self.strides, 1), "dilations": (self.dilations, 1)}
        if self.auto_pad == "none":
            rows |= {"pads_begin": (self.pads_begin, 0), "pads_end": (self.pads_end, 0)}
        elif any((*self.pads_begin, *self.pads_end)):
            b.note(f"pads_begin and pads_end are ignored, since auto_pad is {self.auto_pad}")
        for name, (row, least) in (rows | self._more_rows()).items():
            if len(row) != spatial or min(row) < least or max(row) > LARGEST:
                raise UnsupportedAttributeError(
                    name, row, f"{spatial} integers from {least} to {LARGEST}, one per spatial axis"
                )
        if self.groups < 1:
            raise UnsupportedAttributeError("groups", self.groups, "an integer of at least 1")

    def _more_rows(self) -> dict[str, tuple[Ints, int]]:
        """Returns other lists with an entry per spatial axis, by name, and the least value of each."""
        return {}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TransposeAttributes(ConvAttributes):
    """The attributes of the convolution ops that have an output padding.

    Attributes:
        output_padding: At least 0 each; empty for zeros.
    """

    output_padding: Ints = ()

    @property
    def extra(self) -> Ints:
        """The output padding, zeros if it is not set."""
        return self.output_padding or (0,) * len(self.strides)

    def _more_rows(self) -> dict[str, tuple[Ints, int]]:
        return {"output_padding": (self.output_padding, 0)} if self.output_padding else {}


def kernel_perm(weights_format: str, spatial: int) -> Ints:
    """Returns the permutation of weights to OIX or IOX: XIO and XOI have these axes in reverse order."""
    if not weights_format.startswith("X"):
        return tuple(range(spatial + 2))
    return (spatial + 1, spatial, *range(spatial))


def target_shape(b: Builder, argument: str, tensor: ir.Value | None, attribute: Ints, rank: int) -> Sizes | ir.Value:
    """Returns the given output shape of a gradient op.

    By the specification the input overrides the attribute. Without either, the declared shape of the result is used,
    which the library prefers to both.

    Args:
        b: The builder.
        argument: "dst_shape" or "weights_shape".
        tensor: The input, s32 [rank].
        attribute: The attribute, empty if not set.
        rank: Number of entries.

    Returns:
        The sizes, or the input if its values are runtime values.

    Raises:
        ShapeError: The input is not a vector of `rank` entries.
        UnsupportedAttributeError: The shape is not given anywhere, or is invalid.
        UnsupportedTypeError: The input is not s32.
    """
    if tensor is not None:
        check_type(argument, tensor.dtype, ["s32"])
        dims = known_dims(tensor)
        if dims is not None and (len(dims) != 1 or dims[0] not in (rank, None)):
            raise ShapeError(argument, dims, f"[{rank}] is required: one entry per dimension of the result.")
        data = b.array(tensor)
        if data is None:
            return tensor
        attribute = tuple(int(size) for size in data)
    shape = b.node.outputs[0].shape
    declared = None if shape is None else tuple(dim if isinstance(dim, int) else None for dim in shape)
    library_first = b.options.semantics == "runtime" and tensor is None
    if declared is not None and (not attribute or (library_first and None not in declared)):
        return declared
    if not attribute:
        raise UnsupportedAttributeError(
            argument, None, f"the shape of the result as attribute, as input or declared for {b.node.outputs[0].name}"
        )
    if len(attribute) != rank or any(size < (axis > 0) for axis, size in enumerate(attribute)):
        raise UnsupportedAttributeError(argument, attribute, f"{rank} sizes, one per dimension of the result, above 0")
    return attribute


def known_sizes(b: Builder, argument: str, target: Sizes, sizes: Sizes) -> Ints:
    """Returns sizes of a given output shape.

    Raises:
        UnsupportedAttributeError: One of them is unknown.
    """
    known = tuple(size for size in sizes if size is not None)
    if len(known) < len(sizes):
        raise UnsupportedAttributeError(
            argument, None, f"the shape of the result; {b.node.outputs[0].name} is declared as {list(target)}"
        )
    return known


def runtime_shape(b: Builder, shape: ir.Value, perm: Ints) -> tuple[ir.Value, ir.Value]:
    """Returns a shape that is a runtime value as int64, and its spatial sizes."""
    rank, first = len(perm), perm[2]
    whole = b.typed(b.cast(shape, ir.DataType.INT64), None, [rank])
    spatial = b.op("Slice", whole, b.constant([first]), b.constant([first + rank - 2]), b.constant([0]))
    return whole, b.typed(spatial, ir.DataType.INT64, [rank - 2])


def same_shape(b: Builder, value: ir.Value, shape: ir.Value) -> ir.Value:
    """Emits a run-time check that the shape of a value equals the int64 vector `shape`."""
    agree = b.op("Equal", b.op("Shape", value), shape)
    # Reshape rejects the size -2, so that a mismatch stops the run with the node's name.
    checked = b.op("Reshape", value, b.op("Where", agree, shape, b.constant([-2])), allowzero=1)
    return b.typed(checked, value.dtype, value.shape)


def _spatial_axes(tensors: dict[str, ir.Value], otherwise: int) -> int:
    rank = None
    for argument, value in tensors.items():
        dims = known_dims(value)
        if dims is None:
            continue
        if len(dims) < 3:
            raise ShapeError(argument, dims, "at least three dimensions are required: batch, channels, spatial.")
        if any(isinstance(dim, int) and dim > LARGEST for dim in dims):
            raise ShapeError(argument, dims, f"sizes of at most {LARGEST} are required.")
        if rank is not None and len(dims) != rank:
            raise ShapeError(argument, dims, f"{rank} dimensions are required, as {next(iter(tensors))} has.")
        rank = len(dims)
    return otherwise if rank is None else rank - 2

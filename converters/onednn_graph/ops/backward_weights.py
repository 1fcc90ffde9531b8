"""The gradients of the weights of Convolution and ConvTranspose.

Both are ``dw[a, b, k] = sum over n, p of small[n, a, p] * big[n, b, p*stride - pads_begin + k*dilation]``. That is a
convolution of the big tensor with the small one as its kernel, where batch and channels are swapped, and strides and
dilations are, too. A Slice removes results beyond the kernel size.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np
import onnx_ir as ir

from ortconv.converters.conv.emit import conv
from ortconv.converters.conv.layout import Layout, Sizes, inverse, sizes, transpose
from ortconv.converters.conv.window import Window
from ortconv.converters.onednn_graph.lib.conv_attributes import (
    ConvAttributes,
    kernel_perm,
    known_sizes,
    same_shape,
    target_shape,
)
from ortconv.converters.onednn_graph.lib.data_format import known_dims
from ortconv.converters.onednn_graph.lib.dtypes import one_type
from ortconv.converters.onednn_graph.ops.convolution import ConvWeights, TransposeWeights, transpose_pads
from ortconv.converters.onednn_graph.registry import REGISTRY
from ortconv.convolution_arithmetic import AutoPad, conv_size, same_padding, split
from ortconv.errors import ShapeError
from ortconv.graph.builder import Builder, Ints


@dataclasses.dataclass(frozen=True)
class _Sides:
    """The two tensors of a convolution.

    Attributes:
        big: The one that the forward kernel moves over.
        small: The one with one element per kernel position.
        big_name: Its argument name.
        small_name: Its argument name.
        perm: Permutation of both to [N, C, spatial...].
    """

    big: ir.Value
    small: ir.Value
    big_name: str
    small_name: str
    perm: Ints

    @property
    def big_sizes(self) -> Sizes:
        """Sizes of the big tensor as [N, C, spatial...]."""
        return sizes(self.big, self.perm)

    @property
    def small_sizes(self) -> Sizes:
        """Sizes of the small tensor as [N, C, spatial...]."""
        return sizes(self.small, self.perm)


_Pads = Callable[[Builder, ConvAttributes, _Sides, Sizes], tuple[Ints, Ints]]


@REGISTRY.lowering("ConvolutionBackwardWeights")
def convolution_backward_weights(
    b: Builder,
    src: ir.Value,
    diff_dst: ir.Value,
    weights_shape_input: ir.Value | None = None,
    /,
    *,
    attrs: ConvAttributes,
    weights_format: ConvWeights = "XIO",
    weights_shape: Ints = (),
) -> ir.Value:
    """Lowers to ai.onnx Conv of src with diff_dst as its kernel, computed in float32."""
    one_type(b, src=src, diff_dst=diff_dst)
    attrs.check(b, src=src, diff_dst=diff_dst)
    sides = _Sides(src, diff_dst, "src", "diff_dst", attrs.perm)
    target = target_shape(b, "weights_shape", weights_shape_input, weights_shape, attrs.window.rank + 2)
    return _weights_gradient(b, sides, attrs, weights_format, target, _convolution_pads)


@REGISTRY.lowering("ConvTransposeBackwardWeights")
def conv_transpose_backward_weights(
    b: Builder,
    src: ir.Value,
    diff_dst: ir.Value,
    weights_shape_input: ir.Value | None = None,
    /,
    *,
    attrs: ConvAttributes,
    weights_format: TransposeWeights = "XOI",
    weights_shape: Ints = (),
) -> ir.Value:
    """Lowers to ai.onnx Conv of diff_dst with src as its kernel, computed in float32."""
    one_type(b, src=src, diff_dst=diff_dst)
    attrs.check(b, src=src, diff_dst=diff_dst)
    sides = _Sides(diff_dst, src, "diff_dst", "src", attrs.perm)
    target = target_shape(b, "weights_shape", weights_shape_input, weights_shape, attrs.window.rank + 2)
    return _weights_gradient(b, sides, attrs, weights_format, target, _conv_transpose_pads)


def _weights_gradient(
    b: Builder, sides: _Sides, attrs: ConvAttributes, weights_format: str, target: Sizes | ir.Value, pads: _Pads
) -> ir.Value:
    spatial = attrs.window.rank
    perm = kernel_perm(weights_format, spatial)
    known = None if isinstance(target, ir.Value) else _complete(b, target, spatial + 2)
    shape: Sizes = known or (None,) * (spatial + 2)
    wanted = tuple(shape[axis] for axis in perm)
    verified = _check_channels(sides, attrs, shape, wanted)
    begin, end = pads(b, attrs, sides, wanted[2:])
    verified &= _check_sizes(sides, attrs, shape, wanted[2:], begin, end)

    if known is None:
        assert isinstance(target, ir.Value)
        expected = b.typed(b.cast(target, ir.DataType.INT64), None, [spatial + 2])
    else:
        expected = b.constant(known)
    batch = sides.small_sizes[0] if sides.big_sizes[0] is None else sides.big_sizes[0]
    if batch == 0:
        b.note("the gradient over an empty batch is zero")
        zeros = b.op("ConstantOfShape", expected, value=ir.tensor(np.array([0], np.float32)))
        return b.cast(b.typed(zeros, ir.DataType.FLOAT, shape), b.node.outputs[0].dtype)
    result = _convolved(b, sides, attrs, perm, begin, end)
    kernel_axes = perm[2:]
    computed = known_dims(result)
    if known is None or computed is None or any(computed[axis] != known[axis] for axis in kernel_axes):
        if known is None:
            first, last = b.constant(kernel_axes[:1]), b.constant([kernel_axes[-1] + 1])
            ends = b.op("Slice", expected, first, last, b.constant([0]))
        else:
            ends = b.constant([known[axis] for axis in kernel_axes])
        sliced = b.op("Slice", result, b.constant([0] * spatial), ends, b.constant(kernel_axes))
        result = b.typed(sliced, ir.DataType.FLOAT, shape if verified else None)
    if not verified:
        result = same_shape(b, result, expected)
    return b.cast(result, b.node.outputs[0].dtype)


def _convolved(b: Builder, sides: _Sides, attrs: ConvAttributes, perm: Ints, begin: Ints, end: Ints) -> ir.Value:
    """Emits the convolution in float32, in the weights' format; the result may be larger than the kernel."""
    spatial = attrs.window.rank
    swap = (1, 0, *range(2, spatial + 2))
    swapped = tuple(sides.perm[axis] for axis in swap)
    big, small = (b.cast(value, ir.DataType.FLOAT) for value in (sides.big, sides.small))
    if None in (sides.big_sizes[0], sides.small_sizes[0]):
        big, small = _not_empty(b, big), _not_empty(b, small)
    big_perm = swapped
    if attrs.window.group > 1:
        big, big_perm = _groups_as_batch(b, big, sides, attrs.window.group), tuple(range(spatial + 2))
    b.note(f"weights gradient as a convolution of {sides.big_name} with {sides.small_name} as its kernel")
    return conv(
        b,
        big,
        small,
        None,
        Window(attrs.window.dilations, attrs.window.strides, attrs.window.group),
        Layout(big_perm, swapped, tuple(swap[axis] for axis in inverse(perm))),
        auto_pad=AutoPad.NOTSET,
        begin=begin,
        end=end,
    )


def _not_empty(b: Builder, value: ir.Value) -> ir.Value:
    """Appends an element of zeros to a batch that is empty at run time.

    The batch becomes the channels of the convolution, and ONNX Runtime's Conv hangs without channels.
    """
    rank = len(known_dims(value) or ())
    missing = b.op("Max", b.op("Sub", b.constant([1]), b.op("Shape", value, start=0, end=1)), b.constant([0]))
    pads = b.op("Concat", b.constant([0] * rank), missing, b.constant([0] * (rank - 1)), axis=0)
    return b.typed(b.op("Pad", value, pads), ir.DataType.FLOAT, [None, *(known_dims(value) or ())[1:]])


def _complete(b: Builder, target: Sizes, rank: int) -> Ints:
    known = known_sizes(b, "weights_shape", target, target)
    if len(target) != rank:
        raise ShapeError("weights_shape", target, f"{rank} dimensions are required, as src has.")
    return known


def _groups_as_batch(b: Builder, big: ir.Value, sides: _Sides, groups: int) -> ir.Value:
    """Reshapes the big tensor to [C/groups, groups*N, spatial...], so that one convolution computes all groups."""
    batch, channels, *spatial = sides.big_sizes
    if channels is None:
        raise ShapeError(sides.big_name, known_dims(sides.big), "the number of channels must be known.")
    per_group = channels // groups
    data = transpose(b, big, sides.perm)
    known = [size for size in spatial if size is not None]
    tail = known if len(known) == len(spatial) else []
    rest = None if tail else b.op("Shape", data, start=2)

    def target(*head: int) -> ir.Value:
        fixed = b.constant([*head, *tail])
        return fixed if rest is None else b.op("Concat", fixed, rest, axis=0)

    grouped = b.op("Reshape", data, target(-1, groups, per_group))
    turned = b.op("Transpose", grouped, perm=(2, 1, 0, *range(3, len(spatial) + 3)))
    flat = b.op("Reshape", turned, target(per_group, -1))
    return b.typed(flat, ir.DataType.FLOAT, [per_group, None if batch is None else groups * batch, *spatial])


def _check_channels(sides: _Sides, attrs: ConvAttributes, shape: Sizes, wanted: Sizes) -> bool:
    """Checks batch and channels; returns whether the channels are known.

    Raises:
        ShapeError: The batches differ, groups do not divide the channels, or weights_shape contradicts them.
    """
    groups = attrs.window.group
    big, small = sides.big_sizes, sides.small_sizes
    if None not in (big[0], small[0]) and big[0] != small[0]:
        raise ShapeError(
            sides.small_name, known_dims(sides.small), f"batch is {small[0]}, {sides.big_name} has {big[0]}."
        )
    for name, value, channels in ((sides.big_name, sides.big, big[1]), (sides.small_name, sides.small, small[1])):
        if channels is not None and channels % groups:
            raise ShapeError(name, known_dims(value), f"{channels} channels cannot be divided into {groups} groups.")
    per_group = None if big[1] is None else big[1] // groups
    for found, required, name in ((wanted[0], small[1], sides.small_name), (wanted[1], per_group, sides.big_name)):
        if None not in (found, required) and found != required:
            raise ShapeError(
                "weights_shape",
                shape,
                f"has {found} where the channels of {name} with {groups} groups give {required}.",
            )
    return big[1] is not None and small[1] is not None


def _check_sizes(sides: _Sides, attrs: ConvAttributes, shape: Sizes, kernel: Sizes, begin: Ints, end: Ints) -> bool:
    """Checks that the forward convolution gives the size of the small tensor; returns whether all sizes are known.

    Raises:
        ShapeError: It gives another size.
    """
    rows = list(zip(sides.big_sizes[2:], kernel, sides.small_sizes[2:], strict=True))
    for axis, (x, k, y) in enumerate(rows):
        if x is None or k is None or y is None:
            continue
        pads = begin[axis] + end[axis]
        found = conv_size(x, k, attrs.window.strides[axis], attrs.window.dilations[axis], pads)
        if found != y:
            raise ShapeError(
                "weights_shape",
                shape,
                f"spatial axis {axis}: a convolution with kernel size {k} and padding {begin[axis]} + {end[axis]} "
                f"takes size {x} of {sides.big_name} to {found}, {sides.small_name} has {y}.",
            )
    return all(None not in row for row in rows)


def _convolution_pads(b: Builder, attrs: ConvAttributes, sides: _Sides, kernel: Sizes) -> tuple[Ints, Ints]:
    return _same_pads(attrs, sides.big_sizes[2:], kernel, sides.big_name) if attrs.same else (attrs.begin, attrs.end)


def _conv_transpose_pads(b: Builder, attrs: ConvAttributes, sides: _Sides, kernel: Sizes) -> tuple[Ints, Ints]:
    """Returns the paddings of ConvTranspose; the library uses those of a convolution of src instead."""
    spec = transpose_pads(attrs, kernel, "weights_shape")
    if not attrs.same:
        return spec
    if None in sides.small_sizes[2:] and b.options.semantics == "spec":
        return spec
    library = _same_pads(attrs, sides.small_sizes[2:], kernel, sides.small_name)
    if spec != library:
        b.follow_semantics(
            f"auto_pad {attrs.auto_pad}: ConvTranspose pads begin {list(spec[0])}, end {list(spec[1])}; in this op the "
            f"library pads begin {list(library[0])}, end {list(library[1])}"
        )
    return library if b.options.semantics == "runtime" else spec


def _same_pads(attrs: ConvAttributes, size: Sizes, kernel: Sizes, argument: str) -> tuple[Ints, Ints]:
    pads: list[tuple[int, int]] = []
    rows = zip(size, kernel, attrs.window.strides, attrs.window.dilations, strict=True)
    for x, k, stride, dilation in rows:
        if x is None or k is None:
            missing = argument if x is None else "weights_shape"
            raise ShapeError(missing, None, f"spatial sizes must be known, since auto_pad is {attrs.auto_pad}.")
        pads.append(split(attrs.library_auto_pad, same_padding(x, k, stride, dilation)))
    return tuple(begin for begin, _ in pads), tuple(end for _, end in pads)

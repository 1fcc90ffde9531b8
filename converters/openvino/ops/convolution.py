"""The convolution family: Convolution-1, GroupConvolution-1, ConvolutionBackpropData-1, GroupConvolutionBackpropData-1.

The spec pages and OpenVINO's CPU plugin differ in two ways, and ``--semantics`` chooses:

* where a given output size puts the padding (`_begin_rules`);
* in which type they compute: the pages allow any numeric type, the plugin computes in float (`_in_float`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Literal

import numpy as np
import onnx_ir as ir

from ortconv.builder import Builder, Ints
from ortconv.converters.convolution import conv, conv_transpose, conv_transpose_to_shape
from ortconv.converters.layout import Layout, merge_axes, sizes
from ortconv.converters.openvino.ops.compression import reshaped
from ortconv.converters.openvino.ops.levels import warn_of_moved_levels
from ortconv.converters.openvino.ops.sharing import warn_of_shared_filters
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.converters.spatial import LARGEST, Rule, Window, transpose_begin, transpose_full
from ortconv.errors import ShapeError, UnsupportedAttributeError, UnsupportedTypeError
from ortconv.sizes import Entry, Linear, of_axis

__all__ = ["RULES", "AutoPad", "explicit_pads", "window_of"]

AutoPad = Literal["explicit", "same_upper", "same_lower", "valid"]

RULES: Mapping[str, Rule] = {"same_upper": "SAME_UPPER", "same_lower": "SAME_LOWER"}
"""What the values of auto_pad that depend on sizes are called here."""

_FLOATS = (ir.DataType.FLOAT, ir.DataType.FLOAT16, ir.DataType.BFLOAT16)
_SATURATING = {ir.DataType.INT8: (-128, 127), ir.DataType.UINT8: (0, 255)}
_WRAPPING = (
    ir.DataType.INT16,
    ir.DataType.UINT16,
    ir.DataType.INT32,
    ir.DataType.UINT32,
    ir.DataType.INT64,
    ir.DataType.UINT64,
)
_INT32_IN_FLOAT = (-(2**31), 2**31 - 128)
"""The range of int32 in floats: the upper bound is the largest float below 2**31."""
_INTEGERS = (*_SATURATING, *_WRAPPING)
_NUMERIC = (*_FLOATS, ir.DataType.DOUBLE, *_INTEGERS)


@REGISTRY.lowering("Convolution")
def convolution(
    b: Builder,
    data: ir.Value,
    filter: ir.Value,
    /,
    *,
    strides: Ints = (),
    pads_begin: Ints = (),
    pads_end: Ints = (),
    dilations: Ints = (),
    auto_pad: AutoPad = "explicit",
) -> ir.Value:
    """Conv with explicit pads."""
    warn_of_shared_filters(b, filter, backward=False)
    warn_of_moved_levels(b, data, filter)
    return _convolution(b, data, filter, 1, strides, pads_begin, pads_end, dilations, auto_pad)


@REGISTRY.lowering("GroupConvolution")
def group_convolution(
    b: Builder,
    data: ir.Value,
    filter: ir.Value,
    /,
    *,
    strides: Ints = (),
    pads_begin: Ints = (),
    pads_end: Ints = (),
    dilations: Ints = (),
    auto_pad: AutoPad = "explicit",
) -> ir.Value:
    """Conv with explicit pads and group; the weights' group axis is merged into the output channels."""
    warn_of_moved_levels(b, data, filter)
    groups, merged = _grouped(b, data, filter)
    return _convolution(b, data, merged, groups, strides, pads_begin, pads_end, dilations, auto_pad)


@REGISTRY.lowering("ConvolutionBackpropData")
def convolution_backprop_data(
    b: Builder,
    data: ir.Value,
    filter: ir.Value,
    output_shape: ir.Value | None = None,
    /,
    *,
    strides: Ints = (),
    pads_begin: Ints = (),
    pads_end: Ints = (),
    dilations: Ints = (),
    auto_pad: AutoPad = "explicit",
    output_padding: Ints = (),
) -> ir.Value:
    """ConvTranspose with explicit pads; org.ortconv ConvTransposeToShape where sizes are known at run time only."""
    warn_of_shared_filters(b, filter, backward=True)
    warn_of_moved_levels(b, data, filter, shifts=True)
    return _backprop(
        b, data, filter, output_shape, 1, strides, pads_begin, pads_end, dilations, auto_pad, output_padding
    )


@REGISTRY.lowering("GroupConvolutionBackpropData")
def group_convolution_backprop_data(
    b: Builder,
    data: ir.Value,
    filter: ir.Value,
    output_shape: ir.Value | None = None,
    /,
    *,
    strides: Ints = (),
    pads_begin: Ints = (),
    pads_end: Ints = (),
    dilations: Ints = (),
    auto_pad: AutoPad = "explicit",
    output_padding: Ints = (),
) -> ir.Value:
    """ConvTranspose with explicit pads and group; org.ortconv ConvTransposeToShape as for ConvolutionBackpropData."""
    groups, merged = _grouped(b, data, filter)
    return _backprop(
        b, data, merged, output_shape, groups, strides, pads_begin, pads_end, dilations, auto_pad, output_padding
    )


def _convolution(
    b: Builder,
    data: ir.Value,
    filter: ir.Value,
    groups: int,
    strides: Ints,
    pads_begin: Ints,
    pads_end: Ints,
    dilations: Ints,
    auto_pad: AutoPad,
) -> ir.Value:
    window = window_of(data, filter, strides, dilations, groups)
    begin, end = explicit_pads(b, window, pads_begin, pads_end, auto_pad, negative_end=False)
    rule = RULES.get(auto_pad, "NOTSET")

    def emit(x: ir.Value, w: ir.Value) -> ir.Value:
        return conv(b, x, w, None, window, Layout.ncx(window.rank), rule=rule, begin=begin, end=end)

    return _in_source_types(b, data, filter, emit)


def _backprop(
    b: Builder,
    data: ir.Value,
    filter: ir.Value,
    output_shape: ir.Value | None,
    groups: int,
    strides: Ints,
    pads_begin: Ints,
    pads_end: Ints,
    dilations: Ints,
    auto_pad: AutoPad,
    output_padding: Ints,
) -> ir.Value:
    window = window_of(data, filter, strides, dilations, groups)
    runtime = b.options.semantics == "runtime"
    begin, end = explicit_pads(b, window, pads_begin, pads_end, auto_pad, negative_end=runtime)
    extra = _per_axis("output_padding", output_padding, window.rank, 0, None if runtime else 0)
    layout = Layout.ncx(window.rank)
    if output_shape is None:
        end = tuple(pad - more for pad, more in zip(end, extra, strict=True))

        def emit(x: ir.Value, w: ir.Value) -> ir.Value:
            return conv_transpose(b, x, w, None, window, layout, begin=begin, end=end)

        return _in_source_types(b, data, filter, emit)

    full, target = _full_and_target(b, data, filter, output_shape, window)
    rules = _begin_rules(auto_pad, begin)
    spec, library = (_begins(rule, pads, full, target, extra) for rule, pads in rules)
    if spec != library:
        b.warn(
            f"the begin padding is {_begin_text(*rules[0], spec)} by the spec page and "
            f"{_begin_text(*rules[1], library)} in OpenVINO's CPU plugin; "
            f"--semantics {b.options.semantics} is in force."
        )
    rule, pads = rules[1 if runtime else 0]
    resolved = library if runtime else spec
    if full is not None and target is not None and resolved is not None:
        ends = tuple(f - p - y for f, p, y in zip(full, resolved, target, strict=True))

        def emit_static(x: ir.Value, w: ir.Value) -> ir.Value:
            return conv_transpose(b, x, w, None, window, layout, begin=resolved, end=ends)

        return _in_source_types(b, data, filter, emit_static)

    shape = b.cast(output_shape, ir.DataType.INT64)
    enters = (0,) * window.rank if rule == "NOTSET" else extra
    if any(more < 0 for more in enters):
        raise UnsupportedAttributeError("output_padding", list(extra), "integers >= 0 where sizes are dynamic")

    def emit_dynamic(x: ir.Value, w: ir.Value) -> ir.Value:
        return conv_transpose_to_shape(
            b, x, w, shape, None, window, layout, rule=rule, begin=pads, output_padding=enters
        )

    return _in_source_types(b, data, filter, emit_dynamic)


def _begin_rules(auto_pad: AutoPad, begin: Ints) -> tuple[tuple[Rule, Ints], tuple[Rule, Ints]]:
    """Returns how a given output size places the padding: by the spec page, and in the CPU plugin.

    The page halves the total and puts the odd element at the begin under same_upper, at the end otherwise. The plugin
    does so for same_upper and same_lower only: explicit keeps pads_begin, valid has none. (OpenVINO's Python function
    for the grouped op leaves pads_begin out where an output_shape is given; a file may state it.)
    """
    zeros = (0,) * len(begin)
    if auto_pad == "same_upper":
        return ("SAME_LOWER", zeros), ("SAME_LOWER", zeros)
    if auto_pad == "same_lower":
        return ("SAME_UPPER", zeros), ("SAME_UPPER", zeros)
    return ("SAME_UPPER", zeros), ("NOTSET", begin)


def _begins(rule: Rule, pads: Ints, full: Ints | None, target: Ints | None, extra: Ints) -> Ints | None:
    """Returns the begin paddings, None where they depend on sizes known at run time only."""
    if rule == "NOTSET":
        return pads
    if full is None or target is None:
        return None
    return tuple(
        transpose_begin(rule, f, y, more, pad) for f, y, more, pad in zip(full, target, extra, pads, strict=True)
    )


def _begin_text(rule: Rule, pads: Ints, resolved: Ints | None) -> str:
    if resolved is not None:
        return str(list(resolved))
    return f"half of the total, rounded {'down' if rule == 'SAME_UPPER' else 'up'},"


def _full_and_target(
    b: Builder, data: ir.Value, filter: ir.Value, output_shape: ir.Value, window: Window
) -> tuple[Ints | None, Ints | None]:
    """Returns F and Y of each axis, None where they are known at run time only.

    Where every element of the data adds a stride to both, they are those of data without elements: all that counts is
    F - Y.
    """
    kernel = sizes(filter, tuple(range(window.rank + 2)))[2:]
    full: list[int] = []
    target: list[int] = []
    for axis, goal in enumerate(_target_sizes(b, output_shape, window.rank)):
        size: Entry = None if data.shape is None else of_axis(data, axis + 2)
        taps, stride, dilation = kernel[axis], window.strides[axis], window.dilations[axis]
        if isinstance(size, Linear) and isinstance(goal, Linear) and _follows(size, goal, stride):
            size, goal = 0, goal.offset
        if not isinstance(size, int) or not isinstance(goal, int) or taps is None:
            return None, None
        full.append(transpose_full(size, taps, stride, dilation))
        target.append(goal)
    return tuple(full), tuple(target)


def _follows(size: Linear, goal: Linear, stride: int) -> bool:
    """Tells whether a number grows by a stride where a size grows by one."""
    return goal.follows(size) and goal.scale == stride


def _target_sizes(b: Builder, output_shape: ir.Value, rank: int) -> Sequence[Entry]:
    """Returns what is known of an output_shape."""
    if output_shape.dtype not in _INTEGERS:
        raise UnsupportedTypeError("output_shape", str(output_shape.dtype), [str(dtype) for dtype in _INTEGERS])
    dims = None if output_shape.shape is None else list(output_shape.shape)
    if dims is not None and (len(dims) != 1 or (isinstance(dims[0], int) and dims[0] != rank)):
        raise ShapeError("output_shape", dims, f"[{rank}] is required: the spatial sizes only.")
    array, known = b.array(output_shape), b.entries(output_shape)
    if array is not None:
        target: Sequence[Entry] = [int(size) for size in array]
    else:
        target = (None,) * rank if known is None or known.entries.shape != (rank,) else known.entries.tolist()
    if any(isinstance(size, int) and not 0 <= size <= LARGEST for size in target):
        raise ShapeError("output_shape", [rank], f"holds {target}; sizes from 0 to {LARGEST} are required.")
    return target


def _grouped(b: Builder, data: ir.Value, filter: ir.Value) -> tuple[int, ir.Value]:
    """Returns the number of groups and the weights with the group axis merged into the next."""
    if filter.shape is None or not isinstance(filter.shape[0], int):
        raise ShapeError(
            "filter", None if filter.shape is None else list(filter.shape), "the number of groups must be known."
        )
    groups = filter.shape[0]
    if groups < 1:
        raise ShapeError("filter", list(filter.shape), f"has {groups} groups; at least 1 is required.")
    if data.shape is not None and len(filter.shape) != len(data.shape) + 1:
        raise ShapeError("filter", list(filter.shape), f"rank {len(data.shape) + 1} is required beside the data's.")
    first = groups * filter.shape[1] if isinstance(filter.shape[1], int) else None
    merged = reshaped(b, filter, [first, *filter.shape[2:]])
    return groups, merge_axes(b, filter) if merged is None else merged


def window_of(data: ir.Value, filter: ir.Value, strides: Ints, dilations: Ints, groups: int) -> Window:
    """Returns how the kernel moves.

    Raises:
        ShapeError: A rank or size is out of range.
        UnsupportedAttributeError: An attribute is.
    """
    shape = data.shape if data.shape is not None else filter.shape
    if shape is None:
        raise ShapeError("data", None, "the rank must be known.")
    if len(shape) < 3:
        raise ShapeError("data", list(shape), "rank 3 or more is required.")
    for name, value in (("data", data), ("filter", filter)):
        if value.shape is not None and any(isinstance(dim, int) and dim > LARGEST for dim in value.shape):
            raise ShapeError(name, list(value.shape), f"sizes of at most {LARGEST} are required.")
    rank = len(shape) - 2
    return Window(_per_axis("strides", strides, rank, 1, 1), _per_axis("dilations", dilations, rank, 1, 1), groups)


def explicit_pads(
    b: Builder, window: Window, pads_begin: Ints, pads_end: Ints, auto_pad: AutoPad, *, negative_end: bool
) -> tuple[Ints, Ints]:
    """Returns begin and end paddings; zeros where auto_pad says something else.

    Raises:
        UnsupportedAttributeError: They do not fit the window, or are negative where they must not be.
    """
    begin = _per_axis("pads_begin", pads_begin, window.rank, 0, 0)
    end = _per_axis("pads_end", pads_end, window.rank, 0, None if negative_end else 0)
    if auto_pad == "explicit":
        return begin, end
    if any(begin) or any(end):
        b.note(f"pads_begin and pads_end are ignored beside auto_pad {auto_pad}, as the page says")
    return (0,) * window.rank, (0,) * window.rank


def _per_axis(name: str, values: Ints, rank: int, default: int, least: int | None) -> Ints:
    """Returns one entry per spatial axis; an absent list is all defaults.

    Raises:
        UnsupportedAttributeError: The list has another length, or an entry is below `least` or beyond 31 bits.
    """
    if not values:
        return (default,) * rank
    low = -LARGEST if least is None else least
    if len(values) != rank or any(not low <= value <= LARGEST for value in values):
        raise UnsupportedAttributeError(
            name, list(values), f"{rank} integers from {low} to {LARGEST}, one per spatial axis"
        )
    return values


def _in_source_types(
    b: Builder, data: ir.Value, filter: ir.Value, emit: Callable[[ir.Value, ir.Value], ir.Value]
) -> ir.Value:
    """Emits in the tensors' own type, or under runtime semantics as the CPU plugin computes that type."""
    for name, value in (("data", data), ("filter", filter)):
        if value.dtype not in _NUMERIC:
            raise UnsupportedTypeError(name, str(value.dtype), [str(dtype) for dtype in _NUMERIC])
    if filter.dtype != data.dtype:
        raise UnsupportedTypeError("filter", str(filter.dtype), [str(data.dtype)], hint="Both types must agree.")
    declared = b.node.outputs[0]
    if declared.dtype != data.dtype:
        raise UnsupportedTypeError(
            declared.name, str(declared.dtype), [str(data.dtype)], hint="The data has that type."
        )
    if data.dtype in _FLOATS:
        return emit(data, filter)
    how = "saturates" if data.dtype in _SATURATING else "loses low bits, and saturates in 32 bits"
    page = "double" if data.dtype == ir.DataType.DOUBLE else "integers, which wrap"
    library = "float" if data.dtype == ir.DataType.DOUBLE else f"float, which {how}"
    b.warn(
        f"type {data.dtype} is computed in {page} by the spec page (any numeric type) and in {library} in OpenVINO's "
        f"CPU plugin; both pad alike unless another warning says otherwise; --semantics {b.options.semantics} is in "
        "force."
    )
    return _in_float(b, data, filter, emit) if b.options.semantics == "runtime" else emit(data, filter)


def _in_float(b: Builder, data: ir.Value, filter: ir.Value, emit: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
    """Computes in float as the CPU plugin does.

    int8 and uint8 saturate. The other integers go through int32 on both sides: their low 32 bits enter, the result
    saturates to int32 (to the largest float below 2**31) before its low bits leave. Doubles are clamped to float.
    """
    dtype = data.dtype
    assert dtype is not None
    if dtype == ir.DataType.DOUBLE:
        limit = float(np.finfo(np.float32).max)
        low, high = (b.constant(np.array(bound, np.float64)) for bound in (-limit, limit))
        operands = [b.typed(b.op("Clip", value, low, high), dtype, value.shape) for value in (data, filter)]
    elif dtype in _SATURATING:
        operands = [data, filter]
    else:
        operands = [b.cast(value, ir.DataType.INT32) for value in (data, filter)]
    y = emit(*(b.cast(value, ir.DataType.FLOAT) for value in operands))
    if dtype == ir.DataType.DOUBLE:
        return b.cast(y, dtype)
    bounds = _SATURATING.get(dtype, _INT32_IN_FLOAT)
    low, high = (b.constant(np.array(bound, np.float32)) for bound in bounds)
    clipped = b.typed(b.op("Clip", y, low, high), ir.DataType.FLOAT, y.shape)
    if dtype in _SATURATING:
        return b.cast(clipped, dtype)
    return b.cast(b.cast(clipped, ir.DataType.INT32), dtype)

"""Emits convolutions: standard ONNX ops where they are exact and ONNX Runtime has a kernel, else ``org.ortconv`` ops.

Both source formats translate their attributes to the arguments of `conv`, `conv_transpose` and
`conv_transpose_to_shape`. Only this module decides whether ONNX can express the result.
"""

from __future__ import annotations

from typing import Any

import onnx_ir as ir

from ortconv.converters.conv.inlining import inline_body
from ortconv.converters.conv.layout import Layout, Sizes, dims_of, sizes, transpose
from ortconv.converters.conv.output_size import OutputSize
from ortconv.converters.conv.window import Window
from ortconv.convolution_arithmetic import AutoPad, conv_size, conv_transpose_size, extent, same_padding, split
from ortconv.errors import ConversionError, ShapeError, UnsupportedTypeError
from ortconv.graph.builder import Builder, Ints
from ortconv.opset.convolution_terms import ACCUMULATION
from ortconv.opset.domain import DOMAIN
from ortconv.opset.operator import Operator
from ortconv.opset.ops.convolution import CONVOLUTION
from ortconv.opset.ops.transposed_convolution import TRANSPOSED_CONVOLUTION
from ortconv.opset.ops.transposed_convolution_to_shape import TRANSPOSED_CONVOLUTION_TO_SHAPE

__all__ = ["conv", "conv_transpose", "conv_transpose_to_shape"]

_STANDARD = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
"""Types for which ONNX Runtime's CPU provider has Conv and ConvTranspose."""

_MAX_SPATIAL = 6


def conv_transpose(
    b: Builder,
    x: ir.Value,
    w: ir.Value,
    bias: ir.Value | None,
    window: Window,
    layout: Layout,
    *,
    begin: Ints,
    end: Ints,
    size: Sizes | None = None,
) -> ir.Value:
    """Emits a transposed convolution with Y = F - begin - end.

    Args:
        b: The builder.
        x: Data.
        w: Weights.
        bias: [M], or None.
        window: Strides, dilations, group.
        layout: The layout of `x`, `w` and the result.
        begin: Begin paddings, none negative.
        end: End paddings; a negative one appends that many zeros behind the full result.
        size: Y per spatial axis, where more of it is known than follows from the sizes of `x` and `w`.

    Raises:
        ShapeError: The channels do not match, or an output size is negative.
        UnsupportedTypeError: The element type has no kernel.
    """
    channels, spatial, kernel = _check(x, w, bias, window, layout, transposed=True)
    if _is_cast(b, x):
        wide, weights, added = _in_float(b, x, w, bias)
        y = conv_transpose(b, wide, weights, added, window, layout, begin=begin, end=end, size=size)
        return b.cast(y, ir.DataType.BFLOAT16)
    if size is None:
        axes = zip(spatial, kernel, window.strides, window.dilations, begin, end, strict=True)
        size = tuple(
            None if dim is None or taps is None else conv_transpose_size(dim, taps, stride, dilation, first + last)
            for dim, taps, stride, dilation, first, last in axes
        )
    _check_transposed_sizes(b, window, spatial, kernel, begin, end, size)
    result = (sizes(x, layout.x_perm)[0], channels, *size)
    grow = tuple(max(-pad, 0) for pad in end)
    pads = begin + tuple(max(pad, 0) for pad in end)
    padding = f", output padding {list(grow)}" if any(grow) else ""
    b.note(f"pads begin {list(begin)}, end {list(pads[window.rank :])}{padding}: spatial size {_text(size)}")
    output_padding = tuple(min(extra, stride - 1) for extra, stride in zip(grow, window.strides, strict=True))
    append = tuple(extra - inside for extra, inside in zip(grow, output_padding, strict=True))
    taken = tuple(first + last + more for first, last, more in zip(begin, end, append, strict=True))
    standard = x.dtype in _STANDARD and b.options.target != "plugin" and _never_empty(window, spatial, kernel, taken)
    if not standard:
        given = {"pads": pads, "output_padding": grow}
        return _own_node(b, TRANSPOSED_CONVOLUTION, x, w, bias, window=window, layout=layout, result=result, **given)
    y = b.op(
        "ConvTranspose",
        transpose(b, x, layout.x_perm),
        transpose(b, w, layout.w_perm),
        None if any(append) else bias,
        **window.attributes,
        pads=pads,
        output_padding=output_padding,
        kernel_shape=_known(kernel),
    )
    if any(append):
        b.note(f"zeros appended: {list(append)} (an output padding of a stride or more)")
        y = b.op("Pad", y, b.constant((0,) * (window.rank + 4) + append), mode="constant")
        if bias is not None:
            column = b.op("Reshape", bias, b.constant([-1] + [1] * window.rank))
            y = b.op("Add", y, column)
    return transpose(b, b.typed(y, x.dtype, result), layout.y_perm)


def conv_transpose_to_shape(
    b: Builder,
    x: ir.Value,
    w: ir.Value,
    output_shape: OutputSize | ir.Value,
    bias: ir.Value | None,
    window: Window,
    layout: Layout,
    *,
    auto_pad: AutoPad,
    begin: Ints,
    output_padding: Ints,
) -> ir.Value:
    """Emits a transposed convolution with given spatial output sizes.

    Args:
        b: The builder.
        x: Data.
        w: Weights.
        output_shape: The sizes if they fix the padding when converting; otherwise a value, int64 [spatial axes], in the
            order of the axes of [N, M, spatial...].
        bias: [M], or None.
        window: Strides, dilations, group.
        layout: The layout of `x`, `w` and the result.
        auto_pad: How the begin padding follows from the sizes.
        begin: Begin padding under NOTSET, zeros otherwise.
        output_padding: Enters the total padding.

    Raises:
        ShapeError: The channels do not match, or `output_shape` has the wrong length.
        UnsupportedTypeError: The element type has no kernel.
    """
    channels, spatial, _ = _check(x, w, bias, window, layout, transposed=True)
    if isinstance(output_shape, OutputSize):
        begin = output_shape.begin(auto_pad, begin, output_padding)
        axes = zip(output_shape.full, begin, output_shape.size, strict=True)
        end = tuple(full - pad - y for full, pad, y in axes)
        size = tuple(None if dim is None else y for dim, y in zip(spatial, output_shape.size, strict=True))
        return conv_transpose(b, x, w, bias, window, layout, begin=begin, end=end, size=size)
    length = None if output_shape.shape is None else dims_of(output_shape)
    if length is not None and (len(length) != 1 or (isinstance(length[0], int) and length[0] != window.rank)):
        raise ShapeError(str(output_shape.name), length, f"[{window.rank}] is required: one size per spatial axis.")
    b.note(f"output sizes from {output_shape.name}; begin padding {_BEGIN_TEXTS[auto_pad].format(begin=list(begin))}")
    known = b.array(output_shape)
    size = (None,) * window.rank if known is None else tuple(int(y) for y in known)
    result = (sizes(x, layout.x_perm)[0], channels, *size)
    operands = (x, w, output_shape, bias)
    given: dict[str, Any] = {"auto_pad": auto_pad, "pads_begin": begin, "output_padding": output_padding}
    op = TRANSPOSED_CONVOLUTION_TO_SHAPE
    return _own_node(b, op, *operands, window=window, layout=layout, result=result, **given)


def conv(
    b: Builder,
    x: ir.Value,
    w: ir.Value,
    bias: ir.Value | None,
    window: Window,
    layout: Layout,
    *,
    auto_pad: AutoPad,
    begin: Ints,
    end: Ints,
) -> ir.Value:
    """Emits a convolution.

    Args:
        b: The builder.
        x: Data.
        w: Weights.
        bias: [M], or None.
        window: Strides, dilations, group.
        layout: The layout of `x`, `w` and the result.
        auto_pad: NOTSET takes `begin` and `end`; else they follow from the sizes, at run time if those are dynamic.
        begin: Begin paddings, none negative.
        end: End paddings, none negative.

    Raises:
        ShapeError: The channels do not match, or the kernel covers more than the padded input.
        UnsupportedTypeError: The element type has no kernel.
    """
    channels, spatial, kernel = _check(x, w, bias, window, layout, transposed=False)
    if _is_cast(b, x):
        wide, weights, added = _in_float(b, x, w, bias)
        y = conv(b, wide, weights, added, window, layout, auto_pad=auto_pad, begin=begin, end=end)
        return b.cast(y, ir.DataType.BFLOAT16)
    if auto_pad != AutoPad.NOTSET:
        resolved = _resolve_same(auto_pad, spatial, kernel, window)
        if resolved is not None:
            auto_pad, begin, end = AutoPad.NOTSET, resolved[0], resolved[1]
    if auto_pad == AutoPad.NOTSET:
        size = _conv_sizes(b, window, spatial, kernel, begin, end)
        b.note(f"pads begin {list(begin)}, end {list(end)}: spatial size {_text(size)}")
    else:
        begin = end = (0,) * window.rank
        size = tuple(None if dim is None else -(-dim // s) for dim, s in zip(spatial, window.strides, strict=True))
        b.note(f"{auto_pad.name}: padding resolved at run time from the input's sizes")
    result = (sizes(x, layout.x_perm)[0], channels, *size)
    if auto_pad != AutoPad.NOTSET or x.dtype not in _STANDARD or b.options.target == "plugin":
        given: dict[str, Any] = {"auto_pad": auto_pad, "pads": begin + end}
        return _own_node(b, CONVOLUTION, x, w, bias, window=window, layout=layout, result=result, **given)
    y = b.op(
        "Conv",
        transpose(b, x, layout.x_perm),
        transpose(b, w, layout.w_perm),
        bias,
        **window.attributes,
        pads=begin + end,
        kernel_shape=_known(kernel),
    )
    return transpose(b, b.typed(y, x.dtype, result), layout.y_perm)


_BEGIN_TEXTS = {
    AutoPad.NOTSET: "{begin}",
    AutoPad.SAME_UPPER: "half of the total, rounded down",
    AutoPad.SAME_LOWER: "half of the total, rounded up",
}


def _check(
    x: ir.Value, w: ir.Value, bias: ir.Value | None, window: Window, layout: Layout, *, transposed: bool
) -> tuple[int | None, Sizes, Sizes]:
    """Checks types and channels; returns the output channels, the spatial sizes of the data and of the kernel."""
    if not 1 <= window.rank <= _MAX_SPATIAL:
        raise ConversionError(f"has {window.rank} spatial axes; allowed: 1 to {_MAX_SPATIAL}.")
    allowed = [str(ir.DataType(dtype)) for dtype in ACCUMULATION]
    for value in (x, w) if bias is None else (x, w, bias):
        if value.dtype not in ACCUMULATION:
            raise UnsupportedTypeError(str(value.name), str(value.dtype), allowed)
        if value.dtype != x.dtype:
            raise UnsupportedTypeError(str(value.name), str(value.dtype), [str(x.dtype)], hint="All types must agree.")
    data, weights = sizes(x, layout.x_perm), sizes(w, layout.w_perm)
    group = window.group
    if transposed:
        expected, per_group = weights[0], weights[1]
        channels = None if per_group is None else per_group * group
        divided = weights[0] if weights[0] is not None else data[1]
    else:
        expected = None if weights[1] is None else weights[1] * group
        channels = divided = weights[0]
    if data[1] is not None and expected is not None and data[1] != expected:
        raise ShapeError(
            str(x.name),
            dims_of(x),
            f"has {data[1]} channels; the weights {dims_of(w)} with {group} groups allow {expected}.",
        )
    if divided is not None and divided % group:
        raise ShapeError(str(w.name), dims_of(w), f"{divided} channels cannot be divided into {group} groups.")
    if 0 in weights or data[1] == 0:
        raise ShapeError(
            str(w.name), dims_of(w), f"beside {dims_of(x)} data: channels and kernel sizes of at least 1 are required."
        )
    if bias is not None and channels is not None and (dims := dims_of(bias)) is not None and dims != [channels]:
        raise ShapeError(str(bias.name), dims, f"[{channels}] is required: one entry per output channel.")
    return channels, data[2:], weights[2:]


def _check_transposed_sizes(
    b: Builder, window: Window, spatial: Sizes, kernel: Sizes, begin: Ints, end: Ints, size: Sizes
) -> None:
    for axis, (x_size, taps, y) in enumerate(zip(spatial, kernel, size, strict=True)):
        if x_size is not None and taps is not None and y is not None and (y < 0 or x_size == 0):
            full = conv_transpose_size(x_size, taps, window.strides[axis], window.dilations[axis])
            raise ShapeError(
                b.node.outputs[0].name,
                [y],
                f"spatial axis {axis}: the full size {full} less the padding {begin[axis]} + {end[axis]} is {y}; "
                "a size of at least 0 is required, from an input that is not empty.",
            )


def _never_empty(window: Window, spatial: Sizes, kernel: Sizes, taken: Ints) -> bool:
    """Returns whether every output size is at least 1, as ONNX Runtime's ConvTranspose requires.

    Dynamic sizes of the data or the kernel may be 1 at run time; `taken` is the total padding.
    """
    known = [[1 if dim is None else dim for dim in dims] for dims in (spatial, kernel)]
    rows = zip(*known, window.strides, window.dilations, taken, strict=True)
    return all(conv_transpose_size(x, k, s, d) - less >= 1 for x, k, s, d, less in rows)


def _conv_sizes(b: Builder, window: Window, spatial: Sizes, kernel: Sizes, begin: Ints, end: Ints) -> Sizes:
    result: list[int | None] = []
    for axis, (size, taps) in enumerate(zip(spatial, kernel, strict=True)):
        if size is None or taps is None:
            result.append(None)
            continue
        y = conv_size(size, taps, window.strides[axis], window.dilations[axis], begin[axis] + end[axis])
        if y < 1:
            covered = extent(taps, window.dilations[axis])
            raise ShapeError(
                b.node.outputs[0].name,
                None,
                f"spatial axis {axis}: the kernel covers {covered} positions, the input has {size} and the padding "
                f"{begin[axis]} + {end[axis]}; the kernel must fit.",
            )
        result.append(y)
    return tuple(result)


def _resolve_same(auto_pad: AutoPad, spatial: Sizes, kernel: Sizes, window: Window) -> tuple[Ints, Ints] | None:
    """Returns begin and end paddings, None if they depend on runtime values."""
    pads: list[tuple[int, int]] = []
    for size, taps, stride, dilation in zip(spatial, kernel, window.strides, window.dilations, strict=True):
        if taps is None or (size is None and stride != 1):
            return None
        pads.append(split(auto_pad, same_padding(1 if size is None else size, taps, stride, dilation)))
    return tuple(begin for begin, _ in pads), tuple(end for _, end in pads)


def _is_cast(b: Builder, x: ir.Value) -> bool:
    """Returns whether standard nodes compute in float32 because ONNX Runtime has no kernel for the type."""
    return b.options.target == "onnx" and x.dtype == ir.DataType.BFLOAT16


def _in_float(
    b: Builder, x: ir.Value, w: ir.Value, bias: ir.Value | None
) -> tuple[ir.Value, ir.Value, ir.Value | None]:
    single = ir.DataType.FLOAT
    return b.cast(x, single), b.cast(w, single), None if bias is None else b.cast(bias, single)


def _own_node(
    b: Builder,
    op: Operator,
    x: ir.Value,
    *others: ir.Value | None,
    window: Window,
    layout: Layout,
    result: Sizes,
    **attributes: Any,
) -> ir.Value:
    """Emits an ``org.ortconv`` node, or its function body if only standard ops are allowed; the bias comes last.

    `result` has the sizes of its output as [N, M, spatial...].
    """
    assert x.dtype is not None
    stated = {
        **window.attributes,
        "x_perm": layout.x_perm,
        "w_perm": layout.w_perm,
        "y_perm": layout.y_perm,
        "accumulation_type": int(ACCUMULATION[x.dtype]),
        **attributes,
    }
    if b.options.target == "onnx":
        y = inline_body(b, op, (x, *others), stated)
    else:
        y = b.op(op.name, x, *others, domain=DOMAIN, **stated)
    return b.typed(y, x.dtype, [result[axis] for axis in layout.y_perm])


def _known(dims: Sizes) -> Ints | None:
    known = tuple(dim for dim in dims if dim is not None)
    return known if len(known) == len(dims) else None


def _text(dims: Sizes) -> str:
    return "[" + ", ".join("?" if dim is None else str(dim) for dim in dims) + "]"

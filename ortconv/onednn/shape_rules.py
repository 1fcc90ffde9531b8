"""Shapes and element types of the outputs of oneDNN ops, for the builder.

The rules check nothing. If sizes contradict each other, or the shape depends on runtime values, it is unknown; the
conversion reports errors.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping, Sequence

from ortconv.convolution_arithmetic import (
    conv_size,
    conv_transpose_size,
    extent,
    given_size_padding,
    pool_size,
    same_padding,
)

__all__ = ["Shape", "result_count", "result_dtypes", "result_shapes"]

Shape = tuple[int | None, ...] | None
_Attributes = Mapping[str, object]
_Rule = Callable[[str, Sequence[Shape], _Attributes], "Shape | list[Shape]"]

_SIZES = range(1 << 63)
_CHOSEN_DTYPE = frozenset({"DynamicQuantize", "Quantize", "TypeCast"})
_FIXED_DTYPE = {"Dequantize": "f32", "GenIndex": "s32", "GreaterEqual": "boolean"}
_WITH_STATS = frozenset({"GroupNorm", "LayerNorm"})


def result_count(kind: str, inputs: int, attributes: _Attributes, required: int) -> int:
    """Returns the default number of outputs of an op.

    Args:
        kind: Op kind.
        inputs: Number of inputs.
        attributes: Attributes that are set.
        required: Number of required outputs by the schema.
    """
    if kind in _WITH_STATS and attributes.get("keep_stats", True):
        return 3
    if kind == "LayerNormBackward" and attributes.get("use_affine", True):
        return 3
    return 3 if kind == "BatchNormTrainingBackward" and inputs > 4 else required


def result_dtypes(kind: str, inputs: Sequence[str], count: int) -> list[str | None]:
    """Returns the element types of an op's outputs; None for one that the user must choose."""
    first = _FIXED_DTYPE.get(kind, inputs[1] if kind == "DynamicDequantize" and len(inputs) > 1 else inputs[0])
    rest = {"Dropout": "u8", "PReLUBackward": inputs[0]}.get(kind, "f32")
    if kind.startswith("BatchNorm"):
        rest = inputs[2]
    return [None if kind in _CHOSEN_DTYPE else first, *[rest] * (count - 1)]


def result_shapes(kind: str, inputs: Sequence[Shape], attributes: _Attributes, count: int) -> list[Shape]:
    """Returns the shapes of an op's outputs; None for one that does not follow from inputs and attributes."""
    found = _RULES.get(kind, _first)(kind, inputs, attributes)
    known = [_possible(shape) for shape in (found if isinstance(found, list) else [found])]
    return (known + [None] * count)[:count]


def _possible(shape: Shape) -> Shape:
    return None if shape is None or any(dim is not None and dim not in _SIZES for dim in shape) else shape


def _first(kind: str, inputs: Sequence[Shape], attributes: _Attributes) -> Shape:
    return inputs[0]


def _unknown(kind: str, inputs: Sequence[Shape], attributes: _Attributes) -> Shape:
    return None


def _both(kind: str, inputs: Sequence[Shape], attributes: _Attributes) -> list[Shape]:
    return [inputs[0], inputs[0 if kind == "Dropout" else 1]]


def _broadcast(kind: str, shapes: Sequence[Shape], attributes: _Attributes) -> Shape:
    known = [shape for shape in shapes if shape is not None]
    if len(known) < len(shapes):
        return None
    rank = max(map(len, known))
    padded = [(1,) * (rank - len(shape)) + shape for shape in known]
    result: list[int | None] = []
    for dims in zip(*padded, strict=True):
        sizes = {dim for dim in dims if dim is not None and dim != 1}
        if len(sizes) > 1:
            return None
        result.append(sizes.pop() if sizes else None if None in dims else 1)
    return tuple(result)


def _from_attribute(kind: str, inputs: Sequence[Shape], attributes: _Attributes) -> Shape:
    """Returns the given output shape of a gradient op; unknown if it is an input, which overrides the attribute."""
    name, alone = {"ConvolutionBackwardData": ("dst_shape", 2), "AvgPoolBackward": ("src_shape", 1)}.get(
        kind, ("weights_shape", 2)
    )
    return _ints(attributes, name) or None if len(inputs) == alone else None


def _normalized(kind: str, inputs: Sequence[Shape], attributes: _Attributes) -> list[Shape] | None:
    src = inputs[0]
    if src is None:
        return None
    if kind == "GroupNorm":
        stats: Shape = (src[0], _int(attributes, "groups", 1)) if src else None
    else:
        stats = src[: _int(attributes, "begin_norm_axis", -1)]
    return [src, stats, stats]


def _per_channel(kind: str, inputs: Sequence[Shape], attributes: _Attributes) -> list[Shape]:
    src = inputs[0]
    if src is None or len(src) < 2:
        return [src]
    return [src, *[(src[_channel_axis(attributes)],)] * 4]


def _layer_norm_backward(kind: str, inputs: Sequence[Shape], attributes: _Attributes) -> list[Shape] | None:
    src = inputs[0]
    return None if src is None else [src, *[src[_int(attributes, "begin_norm_axis", -1) :]] * 2]


def _bias_gradient(kind: str, inputs: Sequence[Shape], attributes: _Attributes) -> Shape:
    diff_dst = inputs[0]
    return None if diff_dst is None or len(diff_dst) < 2 else (diff_dst[_channel_axis(attributes)],)


def _soft_max(kind: str, inputs: Sequence[Shape], attributes: _Attributes) -> list[Shape]:
    src, axis = inputs[0], _int(attributes, "axis", 1)
    if src is None or not -len(src) <= axis < len(src):
        return [src]
    return [src, tuple(1 if at == axis % len(src) else dim for at, dim in enumerate(src))]


def _reduced(kind: str, inputs: Sequence[Shape], attributes: _Attributes) -> Shape:
    src, axes = inputs[0], _ints(attributes, "axes")
    if src is None or len(inputs) > 1 or "axes" not in attributes:
        return None
    if any(not -len(src) <= axis < len(src) for axis in axes):
        return None
    gone = {axis % len(src) for axis in axes}
    if attributes.get("keep_dims", False):
        return tuple(1 if axis in gone else dim for axis, dim in enumerate(src))
    return tuple(dim for axis, dim in enumerate(src) if axis not in gone)


def _concatenated(kind: str, inputs: Sequence[Shape], attributes: _Attributes) -> Shape:
    first, axis = inputs[0], _int(attributes, "axis", 0)
    if first is None or not -len(first) <= axis < len(first):
        return None
    along, total = axis % len(first), 0
    for shape in inputs:
        if shape is None or len(shape) != len(first) or shape[along] is None:
            return None
        total += shape[along] or 0
    return (*first[:along], total, *first[along + 1 :])


def _transposed(kind: str, inputs: Sequence[Shape], attributes: _Attributes) -> Shape:
    src, order = inputs[0], _ints(attributes, "order")
    if src is None:
        return None
    order = order or tuple(reversed(range(len(src))))
    if sorted(axis % max(len(src), 1) for axis in order) != list(range(len(src))):
        return None
    return tuple(src[axis] for axis in order)


def _reshaped(kind: str, inputs: Sequence[Shape], attributes: _Attributes) -> Shape:
    src, wanted = inputs[0], _ints(attributes, "shape")
    shape: list[int | None] = list(wanted)
    if attributes.get("special_zero") and 0 in wanted:
        if src is None or any(size == 0 and axis >= len(src) for axis, size in enumerate(wanted)):
            return None
        shape = [src[axis] if size == 0 else size for axis, size in enumerate(wanted)]
    if -1 not in shape:
        return tuple(shape)
    rest = math.prod(size for size in shape if size is not None and size != -1)
    if src is None or None in src or None in shape or shape.count(-1) > 1 or rest == 0:
        return None
    total = math.prod(size for size in src if size is not None)
    return tuple(total // rest if size == -1 else size for size in shape) if total % rest == 0 else None


def _product(kind: str, inputs: Sequence[Shape], attributes: _Attributes) -> Shape:
    left, right = inputs[0], inputs[1]
    if left is None or right is None or not left or not right:
        return None
    if attributes.get("transpose_a") and len(left) > 1:
        left = (*left[:-2], left[-1], left[-2])
    if attributes.get("transpose_b") and len(right) > 1:
        right = (*right[:-2], right[-1], right[-2])
    inner = right[0] if len(right) == 1 else right[-2]
    if None not in (left[-1], inner) and left[-1] != inner:
        return None
    batch = _broadcast(kind, [left[:-2], right[:-2]], attributes)
    if batch is None:
        return None
    return (*batch, *left[:-1][-1:], *(right[-1:] if len(right) > 1 else ()))


def _interpolated(kind: str, inputs: Sequence[Shape], attributes: _Attributes) -> Shape:
    src = inputs[0]
    if src is None or len(src) < 3 or len(inputs) > 1:
        return None
    sizes: tuple[int | None, ...] = _ints(attributes, "sizes")
    if not sizes:
        scales = attributes.get("scales", ())
        assert isinstance(scales, tuple)
        pairs = zip(_spatial(src, attributes), scales, strict=False)
        sizes = tuple(None if dim is None else int(_single(dim * _single(scale))) for dim, scale in pairs)
    return _with_spatial(src, sizes, attributes) if len(sizes) == len(src) - 2 else None


def _pooled(kind: str, inputs: Sequence[Shape], attributes: _Attributes) -> Shape:
    src = inputs[0]
    if src is None or len(src) < 3:
        return None
    names = ("kernel", "strides", "pads_begin", "pads_end")
    rows = [_ints(attributes, name) for name in names]
    rows.append(_ints(attributes, "dilations") or (1,) * (len(src) - 2))
    if any(len(row) != len(src) - 2 for row in rows):
        return None
    rounds_up = str(attributes.get("rounding_type", "floor")).casefold() == "ceil"
    auto_pad = str(attributes.get("auto_pad", "none")).casefold()
    sizes: list[int | None] = []
    for dim, k, s, begin, end, d in zip(_spatial(src, attributes), *rows, strict=True):
        if rounds_up and dim is not None and s > 0:
            # The library rounds up under every auto_pad.
            padding = {"none": begin + end, "valid": 0}.get(auto_pad, same_padding(dim, k, s, d))
            sizes.append(pool_size(dim, k, s, d, padding, ceil=True))
        else:
            sizes.append(_forward_size(auto_pad, dim, k, s, d, begin, end, 0))
    return _with_spatial(src, tuple(sizes), attributes)


def _convolved(kind: str, inputs: Sequence[Shape], attributes: _Attributes) -> Shape:
    src, weights = inputs[0], inputs[1]
    if src is None or weights is None or len(src) < 3 or len(src) != len(weights):
        return None
    spatial = len(src) - 2
    kernel_first = str(attributes.get("weights_format", "X")).startswith("X")
    kernel = weights[:spatial] if kernel_first else weights[2:]
    # XIO and XOI have the axes O and I in reverse order.
    first, second = (weights[-1], weights[-2]) if kernel_first else weights[:2]
    channels = first if kind != "ConvTranspose" else None
    if kind == "ConvTranspose" and second is not None:
        channels = second * _int(attributes, "groups", 1)
    names = ("strides", "dilations", "pads_begin", "pads_end")
    rows = [_spatial(src, attributes), kernel, *(_ints(attributes, name) for name in names)]
    if any(len(row) != spatial for row in rows):
        return None
    padding = _ints(attributes, "output_padding") or (0,) * spatial
    auto_pad = str(attributes.get("auto_pad", "none")).casefold()
    size = _transposed_size if kind == "ConvTranspose" else _forward_size
    sizes = tuple(size(auto_pad, *axis) for axis in zip(*rows, padding, strict=False))
    return (src[0], *sizes, channels) if _channel_axis(attributes) == -1 else (src[0], channels, *sizes)


def _forward_size(
    auto_pad: str, x: int | None, k: int | None, s: int, d: int, begin: int, end: int, _: int
) -> int | None:
    if x is None or k is None or s < 1:
        return None
    if auto_pad.startswith("same"):
        return -(-x // s)
    return conv_size(x, k, s, d, 0 if auto_pad == "valid" else begin + end)


def _transposed_size(
    auto_pad: str, x: int | None, k: int | None, s: int, d: int, begin: int, end: int, padding: int
) -> int | None:
    if x is None or k is None:
        return None
    pads = {"valid": 0, "none": begin + end}.get(auto_pad, given_size_padding(extent(k, d), s))
    return conv_transpose_size(x, k, s, d, pads - padding)


def _single(number: float) -> float:
    """Rounds to float32: the library multiplies sizes in float32."""
    (rounded,) = struct.unpack("f", struct.pack("f", number))
    return float(rounded)


def _channel_axis(attributes: _Attributes) -> int:
    return -1 if attributes.get("data_format", "NXC") == "NXC" else 1


def _spatial(src: tuple[int | None, ...], attributes: _Attributes) -> tuple[int | None, ...]:
    return src[1:-1] if _channel_axis(attributes) == -1 else src[2:]


def _with_spatial(src: tuple[int | None, ...], sizes: tuple[int | None, ...], attributes: _Attributes) -> Shape:
    return (src[0], *sizes, src[-1]) if _channel_axis(attributes) == -1 else (*src[:2], *sizes)


def _int(attributes: _Attributes, name: str, default: int) -> int:
    value = attributes.get(name, default)
    assert isinstance(value, int)
    return value


def _ints(attributes: _Attributes, name: str) -> tuple[int, ...]:
    value = attributes.get(name, ())
    assert isinstance(value, tuple)
    return value


_REDUCTIONS = "ReduceL1 ReduceL2 ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum"
_BROADCASTING = "Add Divide GreaterEqual Maximum Minimum Multiply Select SquaredDifference Subtract"
_TOLD = "AvgPoolBackward ConvTransposeBackwardWeights ConvolutionBackwardData ConvolutionBackwardWeights"

_RULES: dict[str, _Rule] = {
    **dict.fromkeys(_BROADCASTING.split(), _broadcast),
    **dict.fromkeys(_REDUCTIONS.split(), _reduced),
    **dict.fromkeys(_TOLD.split(), _from_attribute),
    **dict.fromkeys(("AvgPool", "MaxPool"), _pooled),
    **dict.fromkeys(("BatchNormForwardTraining", "BatchNormTrainingBackward"), _per_channel),
    **dict.fromkeys(("ConvTranspose", "ConvTransposeBackwardData", "Convolution"), _convolved),
    **dict.fromkeys(("Dropout", "PReLUBackward"), _both),
    **dict.fromkeys(("GroupNorm", "LayerNorm", "RMSNorm"), _normalized),
    "BiasAddBackward": _bias_gradient,
    "Concat": _concatenated,
    "Interpolate": _interpolated,
    "LayerNormBackward": _layer_norm_backward,
    "MatMul": _product,
    "SoftMax": _soft_max,
    "StaticReshape": _reshaped,
    "StaticTranspose": _transposed,
    "Wildcard": _unknown,
}
"""Op kind -> rule for the shape of its outputs; the output of other kinds has the shape of the first input."""

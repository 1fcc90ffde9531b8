"""Reading a ConvTranspose node as ONNX Runtime does.

Notation per spatial axis: X size of the input, K of the kernel, s stride, d dilation, E = (K-1)*d + 1, F = s*(X-1) + E,
op output padding, Y size of the output, b and e begin and end padding. ONNX Runtime, at every opset:

* NOTSET and VALID: Y = F - b - e + op.
* SAME: the total padding t = max(F + op - s*X, 0) is halved, and Y = F + op - t. Since F - s*X is E - s, neither t nor
  the paddings depend on X.
* output_shape gives Y and overrules pads: t = max(F + op - Y, 0). SAME_UPPER puts the smaller half in front, everything
  else the larger one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx_ir as ir

from ortconv.convolution_arithmetic import AutoPad, conv_transpose_size, extent, given_size_padding, split
from ortconv.opset.bodies.convolutions import CAST_LIKE
from ortconv.optimizer.site import Ints, Left, Site
from ortconv.optimizer.values import Dims, Sizes, element_type

__all__ = ["read", "require_numbers_that_fit"]

_TYPES = (ir.DataType.FLOAT, ir.DataType.FLOAT16)
_MAX_SPATIAL = 6
_MAX_SIZE = (1 << 31) - 1
"""What the numbers in its attributes may be."""
_MAX_NUMBER = (1 << 62) - 1


def read(node: ir.Node, sizes: Sizes, opset: int) -> Site:
    """Returns what a ConvTranspose becomes when nothing around it is fused.

    Raises:
        Left: It cannot be replaced, or ONNX Runtime does not run it.
    """
    x, w, bias = (*node.inputs, None, None, None)[:3]
    if x is None or w is None:
        raise Left("an input is missing")
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        raise Left("its attributes are those of a function")
    dtype = _dtype((w, x, bias, node.outputs[0]), opset)
    w_sizes = sizes.of(w) or _kernel_shape(node)
    rank = _rank(node, w_sizes, x)
    kernel = (None,) * rank if w_sizes is None else w_sizes[2:]
    ones, zeros = (1,) * rank, (0,) * rank
    strides, dilations = _ints(node, "strides", ones, 1), _ints(node, "dilations", ones, 1)
    output_padding = _ints(node, "output_padding", zeros, 0)
    rule, begin, end = _padding(node, kernel, strides, dilations, output_padding)
    output_shape = _ints(node, "output_shape", zeros, 1) if "output_shape" in node.attributes else None
    group = node.attributes.get_int("group", 1)
    if group < 1:
        raise Left(f"group = {group}")
    x_sizes = sizes.of(x)
    if x_sizes is None or len(x_sizes) != rank + 2:
        x_sizes = (None,) * (rank + 2)
    if output_shape is None:
        padding = [b + e - more for b, e, more in zip(begin, end, output_padding, strict=True)]
        least, exact = _extent(x_sizes[2:], kernel, strides, dilations, padding)
    else:
        least, exact = output_shape, (True,) * rank
    same = tuple(range(rank + 2))
    return Site(
        node=node,
        x=x,
        w=w,
        bias=bias,
        dtype=dtype,
        strides=strides,
        dilations=dilations,
        group=group,
        begin=begin,
        end=end,
        output_padding=output_padding,
        output_shape=output_shape,
        rule=rule,
        least=least,
        exact=exact,
        channels=_channels(w_sizes, group, bias, sizes),
        x_perm=same,
        w_perm=same,
        y_perm=same,
        output=node.outputs[0],
        batch=x_sizes[0],
    )


def require_numbers_that_fit(site: Site) -> None:
    """Checks that what the new node says of itself fits into 64 bits, with room for sums.

    Raises:
        Left: A number does not.
    """
    numbers = (*site.begin, *site.end, *site.output_padding, *site.least, site.channels or 0, site.batch or 0)
    if any(abs(number) > _MAX_NUMBER for number in numbers):
        raise Left("its sizes or paddings go beyond 62 bits")


def _dtype(values: Iterable[ir.Value | None], opset: int) -> ir.DataType:
    """Returns the element type that the values share."""
    dtype = next((found for value in values if (found := element_type(value))), None)
    if dtype is None:
        raise Left("its element type is not stated; onnx.shape_inference adds it")
    if dtype not in _TYPES:
        raise Left(f"its element type is {dtype}; ONNX Runtime has kernels for FLOAT and FLOAT16")
    if dtype == ir.DataType.FLOAT16 and opset < CAST_LIKE:
        raise Left(f"its element type is {dtype}; ours of that type needs opset {CAST_LIKE}, the model has {opset}")
    return dtype


def _padding(
    node: ir.Node, kernel: Dims, strides: Ints, dilations: Ints, output_padding: Ints
) -> tuple[AutoPad, Ints, Ints]:
    """Returns the rule that an output_shape has, and the padding that ONNX Runtime computes where there is none."""
    zeros = (0,) * len(kernel)
    pads = _ints(node, "pads", zeros * 2, 0)
    auto_pad = node.attributes.get_string("auto_pad", "NOTSET")
    if auto_pad not in ("NOTSET", "VALID", "SAME_UPPER", "SAME_LOWER"):
        raise Left(f"auto_pad = {auto_pad!r}")
    if auto_pad != "NOTSET" and any(pads):
        raise Left(f"pads stand beside auto_pad = {auto_pad}, which ONNX Runtime refuses")
    rule = AutoPad.SAME_UPPER if auto_pad == "SAME_UPPER" else AutoPad.SAME_LOWER
    if "output_shape" in node.attributes:
        return rule, zeros, zeros
    if auto_pad.startswith("SAME"):
        return rule, *_same(rule, kernel, strides, dilations, output_padding)
    return rule, pads[: len(kernel)], pads[len(kernel) :]


def _extent(
    x_sizes: Dims, kernel: Dims, strides: Ints, dilations: Ints, padding: Sequence[int]
) -> tuple[Ints, tuple[bool, ...]]:
    """Returns the spatial sizes of the result for the smallest input, and which of them are those of every input."""
    least = tuple(
        conv_transpose_size(size or 1, taps or 1, stride, dilation, total)
        for size, taps, stride, dilation, total in zip(x_sizes, kernel, strides, dilations, padding, strict=True)
    )
    return least, tuple(bool(size) and taps is not None for size, taps in zip(x_sizes, kernel, strict=True))


def _channels(w_sizes: Dims | None, group: int, bias: ir.Value | None, sizes: Sizes) -> int | None:
    """Returns the number of output channels, or None where only the length of a bias tells it at run time."""
    if w_sizes is not None and w_sizes[1] is not None:
        return w_sizes[1] * group
    if bias is None:
        raise Left("its number of output channels is not known")
    bias_sizes = sizes.of(bias)
    return bias_sizes[0] if bias_sizes is not None and len(bias_sizes) == 1 else None


def _kernel_shape(node: ir.Node) -> Dims | None:
    if "kernel_shape" not in node.attributes:
        return None
    return (None, None, *node.attributes["kernel_shape"].as_ints())


def _rank(node: ir.Node, w_sizes: Dims | None, x: ir.Value) -> int:
    """Returns the number of spatial axes."""
    if w_sizes is not None:
        rank = len(w_sizes) - 2
    elif x.shape is not None:
        rank = len(x.shape) - 2
    else:
        listed = [
            name for name in ("strides", "dilations", "output_padding", "output_shape") if name in node.attributes
        ]
        if not listed:
            raise Left("its rank is not known")
        rank = len(node.attributes[listed[0]].as_ints())
    if not 1 <= rank <= _MAX_SPATIAL:
        raise Left(f"it has {rank} spatial axes; allowed: 1 to {_MAX_SPATIAL}")
    return rank


def _ints(node: ir.Node, name: str, default: Ints, least: int) -> Ints:
    if name not in node.attributes:
        return default
    values = tuple(node.attributes[name].as_ints())
    if len(values) != len(default) or any(not least <= value <= _MAX_SIZE for value in values):
        raise Left(f"{name} = {list(values)}; allowed: {len(default)} integers from {least} to {_MAX_SIZE}")
    return values


def _same(rule: AutoPad, kernel: Dims, strides: Ints, dilations: Ints, output_padding: Ints) -> tuple[Ints, Ints]:
    if None in kernel:
        raise Left(f"auto_pad = {rule.name} and the size of its kernel is not known")
    pads = [
        split(rule, given_size_padding(extent(taps or 0, d), s, more))
        for taps, s, d, more in zip(kernel, strides, dilations, output_padding, strict=True)
    ]
    return tuple(begin for begin, _ in pads), tuple(end for _, end in pads)

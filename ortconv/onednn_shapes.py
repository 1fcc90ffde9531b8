"""Output shapes and types of oneDNN ops, for the builder: what follows from inputs and attributes, else unknown.

Nothing is checked here. Where sizes contradict each other the shape is left unknown, and converting says what is wrong.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

__all__ = ["Shape", "result_dtype", "result_shape"]

Shape = tuple[int | None, ...] | None

_SAME_SHAPE = """
    Abs BatchNormForwardTraining BatchNormInference BatchNormTrainingBackward BiasAdd Clamp Dequantize Dropout
    DynamicDequantize DynamicQuantize Elu Exp GELU GenIndex GroupNorm HardSigmoid HardSwish LayerNorm LayerNormBackward
    LeakyReLU Log LogSoftmax LogSoftmaxBackward Mish PReLU PReLUBackward Pow Quantize RMSNorm ReLU Reciprocal Reorder
    Round Sigmoid SoftMax SoftMaxBackward SoftPlus Sqrt Square Tanh TypeCast
"""
_BROADCAST = """
    Add Divide GreaterEqual Maximum Minimum Multiply Select SquaredDifference Subtract
"""
_SIZES = range(1 << 63)
_FIXED_DTYPE = {"GenIndex": "s32", "GreaterEqual": "boolean"}


def result_dtype(kind: str, first: str) -> str:
    """Returns the element type of an op's first output, given that of its first input."""
    return _FIXED_DTYPE.get(kind, first)


def result_shape(kind: str, inputs: Sequence[Shape], attributes: Mapping[str, object]) -> Shape:
    """Returns the shape of an op's first output, or None when it does not follow from what is given."""
    shape = _follows(kind, inputs, attributes)
    if shape is None or any(dim is not None and dim not in _SIZES for dim in shape):
        return None
    return shape


def _follows(kind: str, inputs: Sequence[Shape], attributes: Mapping[str, object]) -> Shape:
    if kind in _SAME_SHAPE.split():
        return inputs[0]
    if kind in _BROADCAST.split():
        return _broadcast(inputs)
    shape_attribute = {"ConvolutionBackwardData": "dst_shape"}.get(kind, "weights_shape")
    if kind in ("ConvolutionBackwardData", "ConvolutionBackwardWeights", "ConvTransposeBackwardWeights"):
        return _ints(attributes, shape_attribute) or None if len(inputs) == 2 else None
    if kind in ("Convolution", "ConvTranspose", "ConvTransposeBackwardData"):
        return _convolution(kind, inputs, attributes)
    if kind == "StaticTranspose" and inputs[0] is not None:
        order, rank = _ints(attributes, "order"), len(inputs[0])
        if sorted(axis % rank for axis in order) == list(range(rank)):
            return tuple(inputs[0][axis] for axis in order)
    if kind == "StaticReshape" and min(_ints(attributes, "shape"), default=1) > 0:
        return _ints(attributes, "shape")
    return None


def _broadcast(shapes: Sequence[Shape]) -> Shape:
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


def _convolution(kind: str, inputs: Sequence[Shape], attributes: Mapping[str, object]) -> Shape:
    src, weights = inputs[0], inputs[1]
    if src is None or weights is None or len(src) < 3 or len(src) != len(weights):
        return None
    spatial = len(src) - 2
    channels_last = attributes.get("data_format", "NXC") == "NXC"
    kernel_first = str(attributes.get("weights_format", "X")).startswith("X")
    sizes = src[1:-1] if channels_last else src[2:]
    kernel = weights[:spatial] if kernel_first else weights[2:]
    # XIO and XOI hold the axes of OIX and IOX in reverse.
    first, second = (weights[-1], weights[-2]) if kernel_first else weights[:2]
    groups = attributes.get("groups", 1)
    channels = first if kind != "ConvTranspose" else None
    if kind == "ConvTranspose" and second is not None and isinstance(groups, int):
        channels = second * groups
    rows = [sizes, kernel, *(_ints(attributes, key) for key in ("strides", "dilations", "pads_begin", "pads_end"))]
    if any(len(row) != spatial for row in rows):
        return None
    padding = _ints(attributes, "output_padding") or (0,) * spatial
    auto_pad = str(attributes.get("auto_pad", "none")).casefold()
    size = _transposed_size if kind == "ConvTranspose" else _forward_size
    result = tuple(size(auto_pad, *axis) for axis in zip(*rows, padding, strict=False))
    return (src[0], *result, channels) if channels_last else (src[0], channels, *result)


def _forward_size(
    auto_pad: str, x: int | None, k: int | None, s: int, d: int, begin: int, end: int, _: int
) -> int | None:
    if x is None or k is None or s < 1:
        return None
    if auto_pad.startswith("same"):
        return -(-x // s)
    pads = 0 if auto_pad == "valid" else begin + end
    return (x + pads - (k - 1) * d - 1) // s + 1


def _transposed_size(
    auto_pad: str, x: int | None, k: int | None, s: int, d: int, begin: int, end: int, padding: int
) -> int | None:
    if x is None or k is None:
        return None
    extent = (k - 1) * d + 1
    pads = {"valid": 0, "none": begin + end}.get(auto_pad, max(extent - s, 0))
    return s * (x - 1) + extent - pads + padding


def _ints(attributes: Mapping[str, object], name: str) -> tuple[int, ...]:
    value = attributes.get(name, ())
    assert isinstance(value, tuple)
    return value

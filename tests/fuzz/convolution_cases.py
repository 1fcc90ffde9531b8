"""Random convolutions: of every element type, and of 8-bit integers."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from ortconv.convolution_arithmetic import AutoPad
from ortconv.opset.convolution_terms import ACCUMULATION
from ortconv.opset.operator import Operator
from ortconv.opset.ops import CONVOLUTIONS
from ortconv.opset.ops.conv_integer_to_float import CONV_INTEGER_TO_FLOAT
from ortconv.opset.ops.convolution import CONVOLUTION
from ortconv.opset.ops.qlinear_convolution import QLINEAR_CONVOLUTION
from ortconv.opset.ops.quantized_transposed_convolutions import (
    QLINEAR_TRANSPOSED_CONVOLUTION,
    QLINEAR_TRANSPOSED_CONVOLUTION_ADD,
    TRANSPOSED_CONVOLUTION_INTEGER_TO_FLOAT,
)
from ortconv.opset.ops.transposed_convolution import TRANSPOSED_CONVOLUTION
from ortconv.opset.ops.transposed_convolution_to_shape import TRANSPOSED_CONVOLUTION_TO_SHAPE
from tests.fuzz.drawing import ELEMENTS, Draw, constants_of
from tests.fuzz.operator_case import Case

__all__ = ["CASES"]

_QUANTIZED = (
    TRANSPOSED_CONVOLUTION_INTEGER_TO_FLOAT, QLINEAR_TRANSPOSED_CONVOLUTION, QLINEAR_TRANSPOSED_CONVOLUTION_ADD
)  # fmt: skip


@dataclasses.dataclass
class _Geometry:
    """Sizes of a convolution, whose result is small."""

    batch: int
    group: int
    channels: tuple[int, int]  # of input and output, in a group
    source: list[int]
    kernel: list[int]
    strides: list[int]
    dilations: list[int]
    result: list[int]

    @staticmethod
    def draw(draw: Draw, huge: bool) -> _Geometry:
        axes = draw.of(1, 1, 2, 2, 2, 3, 6)
        most = 3 if axes < 6 else 1
        kernel = [draw.of(1, 1, 2, 3, 3 + most) if axes < 6 else draw.of(1, 1, 2) for _ in range(axes)]
        return _Geometry(
            draw.of(0, 1, 1, 1, 2),
            draw.of(1, 1, 2, 3),
            (draw.of(0, 1, 1, 2, 3, 5), draw.of(0, 1, 1, 2, 3, 17)),
            [draw.of(0, 1, 2, 3, 5, 3 * most) for _ in range(axes)],
            kernel,
            [draw.size(huge) for _ in range(axes)],
            [draw.size(huge) for _ in range(axes)],
            [draw.of(0, 1, 1, 2, 2 + most) for _ in range(axes)],
        )

    def extents(self) -> list[int]:
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    def full(self) -> list[int]:
        return [max(s * (x - 1) + e, 0) for s, x, e in zip(self.strides, self.source, self.extents(), strict=True)]

    def conv_pads(self, draw: Draw) -> list[int]:
        """Returns pads with which the result of a convolution has about the size that was drawn."""
        splits = [
            draw.split(e + s * (max(y, 1) - 1) - x + draw.random.randint(0, min(s, 3) - 1))
            for e, s, y, x in zip(self.extents(), self.strides, self.result, self.source, strict=True)
        ]
        return [begin for begin, _ in splits] + [end for _, end in splits]


def _convolution(op: Operator, draw: Draw) -> Case:
    huge = draw.happens(0.6)
    g = _Geometry.draw(draw, huge)
    dtype = np.dtype(draw.of(*ELEMENTS))
    rank = len(g.source) + 2
    perms = [list(range(rank)) for _ in range(3)]
    for perm in perms:
        if draw.happens(0.3):
            draw.random.shuffle(perm)
    attributes: dict[str, Any] = {"strides": g.strides, "dilations": g.dilations, "group": g.group}
    if op is CONVOLUTION:
        auto_pad = draw.of(AutoPad.NOTSET, *AutoPad)
        pads = g.conv_pads(draw) if auto_pad == AutoPad.NOTSET else [0] * 2 * len(g.source)
        attributes |= {"auto_pad": auto_pad, "pads": pads}
    elif op is TRANSPOSED_CONVOLUTION_TO_SHAPE:
        auto_pad = draw.of(AutoPad.NOTSET, *AutoPad)
        begin = [draw.split(f)[0] if auto_pad == AutoPad.NOTSET else 0 for f in g.full()]
        extra = [draw.size(huge) - 1 for _ in g.source]
        attributes |= {"auto_pad": auto_pad, "pads_begin": begin, "output_padding": extra}
    else:
        extra = [draw.of(0, 0, 1, 2, -1) for _ in g.source]
        splits = [draw.split(f + o - y) for f, o, y in zip(g.full(), extra, g.result, strict=True)]
        pads = [begin for begin, _ in splits] + [end for _, end in splits]
        attributes |= {"pads": pads, "output_padding": extra}
        g.result = [
            f + o - b - e for f, o, (b, e) in zip(g.full(), extra, splits, strict=True)
        ]  # fmt: skip
    attributes |= dict(zip(("x_perm", "w_perm", "y_perm"), perms, strict=True))
    attributes["accumulation_type"] = ACCUMULATION[helper.np_dtype_to_tensor_dtype(dtype)]
    sums_in_float = attributes["accumulation_type"] == TensorProto.FLOAT
    if sums_in_float and draw.happens(0.3):
        attributes["activation"] = [draw.of(0.0, 0.5, 1.0, 2.0), draw.of(-2.0, -np.inf), draw.of(3.0, np.inf)]
    (c, m), inverse = g.channels, [list(np.argsort(perm)) for perm in perms]

    def tensor(plain: Sequence[int], order: list[Any]) -> np.ndarray:
        return draw.integers([plain[axis] for axis in order], dtype)

    x = tensor([g.batch, g.group * c, *g.source], inverse[0])
    weights = [g.group * m, c, *g.kernel] if op is CONVOLUTION else [g.group * c, m, *g.kernel]
    inputs: dict[str, Any] = {"X": x, "W": tensor(weights, inverse[1])}
    if op is TRANSPOSED_CONVOLUTION_TO_SHAPE:
        inputs["output_shape"] = np.array(g.result, np.int64)
    elif op not in (CONVOLUTION, TRANSPOSED_CONVOLUTION):
        sizes = [g.batch, g.group * m, *(size if 0 <= size < 99 else 1 for size in g.result)]
        inputs["R"] = draw.integers([sizes[axis] for axis in perms[2]], dtype)
    inputs["B"] = draw.integers([g.group * m], dtype) if draw.happens(0.5) else None
    return Case(
        op.name, attributes, inputs, constants_of(draw, ["W", "B"]), draw.happens(0.5), not huge and min(g.result) >= 0
    )


def _integer_convolution(draw: Draw) -> Case:
    huge = draw.happens(0.6)
    g = _Geometry.draw(draw, huge)
    if draw.happens(0.3):  # depthwise
        g.group, g.channels = draw.of(1, 4, 9), (1, draw.of(1, 1, 2, 5))
    (c, m), kinds = g.channels, (draw.of(np.int8, np.uint8), draw.of(np.int8, np.uint8))
    per_channel, has_zeros = draw.happens(0.5), draw.happens(0.6)
    count = (g.group * m,) if per_channel else draw.of((), (1,))
    inputs = {
        "X": draw.integers([g.batch, g.group * c, *g.source], kinds[0]),
        "W": draw.integers([g.group * m, c, *g.kernel], kinds[1]),
        "x_scale": np.array(draw.of(0.5, 1, 2), np.float32).reshape(draw.of((), (1,))),
        "w_scale": np.asarray(np.exp2(draw.integers(count, np.float32))),
        "x_zero_point": draw.integers(draw.of((), (1,)), kinds[0]) if has_zeros else None,
        "w_zero_point": draw.integers(count, kinds[1]) if has_zeros else None,
        "B": draw.integers([g.group * m], np.float32) if draw.happens(0.5) else None,
    }
    attributes = {"strides": g.strides, "pads": g.conv_pads(draw), "dilations": g.dilations, "group": g.group}
    constants = constants_of(draw, list(inputs)[1:])
    return Case(CONV_INTEGER_TO_FLOAT.name, attributes, inputs, constants, draw.happens(0.5), not huge)


def _qlinear_convolution(draw: Draw) -> Case:
    """Scales are powers of two, so that every number is exact."""
    plain = _integer_convolution(draw)
    x, w = plain.inputs["X"], plain.inputs["W"]
    assert isinstance(x, np.ndarray)
    assert isinstance(w, np.ndarray)
    kind, count = draw.of(np.int8, np.uint8), w.shape[0]
    attributes = {
        **plain.attributes,
        "activation": [draw.of(0.0, 0.5, 1.0, 2.0), draw.of(-2.0, -np.inf), draw.of(3.0, np.inf)],
    }
    if draw.happens(0.3):
        attributes["hard_sigmoid"] = [draw.of(0.25, -0.5), draw.of(0.5, 1.0)]
    axes = len(x.shape) - 2
    window = zip(x.shape[2:], w.shape[2:], plain.attributes["strides"], plain.attributes["dilations"], strict=True)
    pads = plain.attributes["pads"]
    sizes = [
        (size + pads[i] + pads[i + axes] - (k - 1) * d - 1) // s + 1 for i, (size, k, s, d) in enumerate(window)
    ]  # fmt: skip
    image = [size if 0 <= size < 99 else 1 for size in sizes] if draw.happens(0.5) else [1] * axes
    drawn = {
        **plain.inputs,
        "x_zero_point": draw.integers(draw.of((), (1,)), x.dtype),
        "w_zero_point": draw.integers(draw.of((), (1,)), w.dtype),
        "y_scale": np.asarray(np.exp2(draw.integers(draw.of((), (1,)), np.float32))),
        "y_zero_point": draw.integers(draw.of((), (1,)), kind),
        "B": draw.integers([count, *image], np.float32),
        "factor": draw.integers([count], np.float32),
        "addend": draw.integers([count], np.float32),
    }
    inputs: dict[str, Any] = {each.name: drawn[each.name] for each in QLINEAR_CONVOLUTION.inputs}
    constants = constants_of(draw, [name for name in inputs if name != "X"])
    return Case(QLINEAR_CONVOLUTION.name, attributes, inputs, constants, plain.open_sizes, plain.is_plain)


def _quantized_transposed_convolution(op: Operator, draw: Draw) -> Case:
    """Scales are powers of two, so that every number is exact."""
    plain = _convolution(TRANSPOSED_CONVOLUTION, draw)
    x, w = plain.inputs["X"], plain.inputs["W"]
    attributes = {name: plain.attributes[name] for name in ("strides", "dilations", "group", "pads", "output_padding")}
    activation = [draw.of(0.0, 0.5, 1.0, 2.0), draw.of(-2.0, -np.inf), draw.of(3.0, np.inf)]
    attributes["activation"] = activation if draw.happens(0.5) else [1.0, -np.inf, np.inf]
    assert isinstance(x, np.ndarray)
    assert isinstance(w, np.ndarray)
    x_shape, w_shape = (
        [data.shape[axis] for axis in plain.attributes[perm]] for data, perm in ((x, "x_perm"), (w, "w_perm"))
    )
    kinds = [draw.of(np.int8, np.uint8) for _ in range(3)]
    if draw.happens(0.3):  # depthwise
        attributes["group"] = w_shape[0] = x_shape[1] = draw.of(1, 4, 9)
    count = w_shape[1] * attributes["group"]
    sizes = [
        max(s * (size - 1) + (k - 1) * d + 1, 0) + more - begin - end
        for s, size, k, d, more, begin, end in zip(
            attributes["strides"], x_shape[2:], w_shape[2:], attributes["dilations"], attributes["output_padding"],
            attributes["pads"][: len(x_shape) - 2], attributes["pads"][len(x_shape) - 2 :], strict=True,
        )
    ]  # fmt: skip
    residual = [x_shape[0], count, *(size if 0 <= size < 99 else 1 for size in sizes)]

    def scale(shape: Any = None) -> np.ndarray:
        return np.asarray(np.exp2(draw.integers(draw.of((), (1,)) if shape is None else shape, np.float32)))

    def zero(kind: Any) -> np.ndarray:
        return draw.integers(draw.of((), (1,)), kind)

    drawn = {
        "X": draw.integers(x_shape, kinds[0]), "x_scale": scale(), "x_zero_point": zero(kinds[0]),
        "W": draw.integers(w_shape, kinds[1]), "w_scale": scale(draw.of(None, (count,))),
        "w_zero_point": zero(kinds[1]), "y_scale": scale(), "y_zero_point": zero(kinds[2]),
        "B": draw.integers([count], np.float32), "R": draw.integers(residual, kinds[2]), "r_scale": scale(),
        "r_zero_point": zero(kinds[2]),
    }  # fmt: skip
    inputs: dict[str, Any] = {each.name: drawn[each.name] for each in op.inputs}
    constants = constants_of(draw, [name for name in inputs if name not in "XR"])
    return Case(op.name, attributes, inputs, constants, draw.happens(0.5), plain.is_plain and min(sizes) >= 0)


CASES: Mapping[str, Callable[[Draw], Case]] = {
    **{op.name: functools.partial(_convolution, op) for op in CONVOLUTIONS},
    CONV_INTEGER_TO_FLOAT.name: _integer_convolution,
    QLINEAR_CONVOLUTION.name: _qlinear_convolution,
    **{op.name: functools.partial(_quantized_transposed_convolution, op) for op in _QUANTIZED},
}
"""Op type -> what draws a case."""

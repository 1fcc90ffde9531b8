"""Random and hostile models of one node of ours, and the numbers that they must give.

Data are small integers, so that sums are exact in every floating-point type whatever their order: an element that is
off is off by much.
"""

from __future__ import annotations

import dataclasses
import functools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ortconv.convolution_arithmetic import AutoPad
from ortconv.opset.convolution_terms import ACCUMULATION
from ortconv.opset.domain import DOMAIN
from ortconv.opset.operator import Operator
from ortconv.opset.ops import BY_NAME, CONVOLUTIONS
from ortconv.opset.ops.compressed_weights import BLOCK_SIZE
from ortconv.opset.ops.conv_integer_to_float import CONV_INTEGER_TO_FLOAT
from ortconv.opset.ops.convolution import CONVOLUTION
from ortconv.opset.ops.forward_stft import FORWARD_STFT
from ortconv.opset.ops.fourier_transform import FOURIER_TRANSFORM
from ortconv.opset.ops.inverse_stft import INVERSE_STFT
from ortconv.opset.ops.overlap_add import OVERLAP_ADD
from ortconv.opset.ops.qlinear_convolution import QLINEAR_CONVOLUTION
from ortconv.opset.ops.quantized_transposed_convolutions import (
    QLINEAR_TRANSPOSED_CONVOLUTION,
    QLINEAR_TRANSPOSED_CONVOLUTION_ADD,
    TRANSPOSED_CONVOLUTION_INTEGER_TO_FLOAT,
)
from ortconv.opset.ops.transposed_convolution import TRANSPOSED_CONVOLUTION
from ortconv.opset.ops.transposed_convolution_to_shape import TRANSPOSED_CONVOLUTION_TO_SHAPE
from ortconv.opset.reference import convolutions

__all__ = ["OPERATORS", "Case", "make_case"]

_HUGE = [1 << bits for bits in (12, 16, 20, 24, 28, 31, 32, 40, 52, 60)]
_HOSTILE = [
    *_HUGE, 0, -1, 1, 2, 3, (1 << 31) - 1, (1 << 61) - 1, 1 << 61, 1 << 62, (1 << 63) - 1, -(1 << 31), -(1 << 61),
    -(1 << 63),
]  # fmt: skip
_FLOATS = [np.float32, np.float32, np.float16, ml_dtypes.bfloat16]
_ELEMENTS = [*_FLOATS, np.float64, np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32, np.int64, np.uint64]
_SPECTRAL = frozenset(op.name for op in (FORWARD_STFT, INVERSE_STFT, OVERLAP_ADD, FOURIER_TRANSFORM))
_QUANTIZED = (
    TRANSPOSED_CONVOLUTION_INTEGER_TO_FLOAT, QLINEAR_TRANSPOSED_CONVOLUTION, QLINEAR_TRANSPOSED_CONVOLUTION_ADD
)  # fmt: skip
_OF_INTEGERS = frozenset(op.name for op in (CONV_INTEGER_TO_FLOAT, QLINEAR_CONVOLUTION, *_QUANTIZED))
_MOST_FED = 1 << 16
"""Elements of an input, at most; sizes that a mutation makes larger come without data."""


@dataclasses.dataclass
class Case:
    """A node and its inputs.

    Attributes:
        op: Operator type.
        attributes: Of the node, which may hold anything.
        inputs: Names and data; None where the node has no such input. A tuple instead of data is an empty shape, and
            the type of a tensor that the model has of it.
        constants: Which of them are initializers.
        open_sizes: Whether the sizes of the graph's inputs are not stated.
        is_plain: Whether nothing about it is out of the ordinary, so that it must run.
    """

    op: str
    attributes: dict[str, Any]
    inputs: dict[str, np.ndarray | tuple[tuple[int, ...], int] | None]
    constants: frozenset[str]
    open_sizes: bool
    is_plain: bool

    @property
    def feeds(self) -> dict[str, np.ndarray]:
        """What a run is given."""
        return {
            name: data
            for name, data in self.inputs.items()
            if isinstance(data, np.ndarray) and name not in self.constants
        }

    def model(self, open_sizes: bool | None = None) -> onnx.ModelProto:
        """Returns the model, without function bodies."""
        open_sizes = self.open_sizes if open_sizes is None else open_sizes
        names = [name if data is not None else "" for name, data in self.inputs.items()]
        while not names[-1]:
            names.pop()
        node = helper.make_node(self.op, names, ["Y"], name="n", domain=DOMAIN)
        for name, value in self.attributes.items():
            node.attribute.append(_attribute(name, value))
        inputs, stored = [], []
        for name, data in self.inputs.items():
            if isinstance(data, tuple):
                stored.append(TensorProto(name=name, dims=data[0], data_type=data[1], raw_data=b""))
            elif data is not None and name in self.constants:
                stored.append(numpy_helper.from_array(data, name))
            elif data is not None:
                shape = [None] * data.ndim if open_sizes else data.shape
                inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(data.dtype), shape))
        first = next(iter(self.inputs.values()))
        assert isinstance(first, np.ndarray)
        like = self.inputs.get("y_zero_point", first)
        kind = (
            np.dtype(np.float32) if self.op in _OF_INTEGERS and like is first else getattr(like, "dtype", first.dtype)
        )
        element = helper.np_dtype_to_tensor_dtype(kind)
        graph = helper.make_graph(
            [node], "g", inputs, [onnx.ValueInfoProto(name="Y", type=helper.make_tensor_type_proto(element, None))],
            stored,
        )  # fmt: skip
        imports = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def expected(self) -> np.ndarray:
        """Returns what the operator gives by its definition, floats in float64.

        Raises:
            Exception: The definition does not allow the node, or numpy has no such tensors.
        """
        arrays = [numpy_helper.to_array(_tensor(data)) if isinstance(data, tuple) else data for data in
                  self.inputs.values()]  # fmt: skip
        attributes = dict(self.attributes)
        if any(each.name == BLOCK_SIZE for each in BY_NAME[self.op].attributes):
            first = arrays[0]
            assert first is not None
            wide = [data.astype(np.int64) if i in (1, 4) and data is not None and data.dtype.itemsize == 1 and
                    data.dtype != np.int64 else data for i, data in enumerate(arrays)]  # fmt: skip
            return BY_NAME[self.op].reference(*wide, **attributes)
        if self.op in _SPECTRAL:
            given = [
                None if data is None else data.astype(np.float64) if data.dtype.kind != "i" else data for data in arrays
            ]
            return BY_NAME[self.op].reference(*given, **attributes)
        if self.op in _OF_INTEGERS:
            return BY_NAME[self.op].reference(*arrays, **attributes)
        first = arrays[0]
        assert first is not None
        if attributes.pop("accumulation_type") != ACCUMULATION[helper.np_dtype_to_tensor_dtype(first.dtype)]:
            raise ValueError("accumulation_type")
        exact = convolutions.accumulation_dtype(first.dtype).kind != "f"
        return BY_NAME[self.op].reference(*arrays, accumulate=None if exact else np.float64, **attributes)


def _tensor(empty: tuple[tuple[int, ...], int]) -> TensorProto:
    return TensorProto(dims=empty[0], data_type=empty[1], raw_data=b"")


def _attribute(name: str, value: Any) -> onnx.AttributeProto:
    """Makes an attribute, of an empty list, too."""
    if isinstance(value, list) and not value:
        return onnx.AttributeProto(name=name, type=onnx.AttributeProto.INTS)
    return helper.make_attribute(name, value)


def make_case(op: str, seed: int) -> Case:
    """Makes the case of an operator that has this number."""
    draw = _Draw(random.Random(f"{op} {seed}"), np.random.default_rng(seed))
    case = _CASES[op](draw)
    if draw.happens(0.4):
        _mutate(case, draw)
    for name, value in case.attributes.items():
        if isinstance(value, list) and value and isinstance(value[0], int):
            case.attributes[name] = [min(max(each, -(1 << 63)), (1 << 63) - 1) for each in value]
    return case


@dataclasses.dataclass
class _Draw:
    """What is drawn at random."""

    random: random.Random
    numbers: np.random.Generator

    def happens(self, probability: float) -> bool:
        return self.random.random() < probability

    def of(self, *choices: Any) -> Any:
        return self.random.choice(choices)

    def integers(self, shape: Sequence[int], dtype: Any) -> np.ndarray:
        low = 0 if np.dtype(dtype).kind == "u" else -3
        return self.numbers.integers(low, 4, tuple(shape)).astype(dtype)

    def size(self, huge: bool) -> int:
        """Returns a size of 1 or more."""
        if huge and self.happens(0.5):
            return max(int(self.of(*_HUGE)) + self.random.randint(-2, 2), 1)
        return int(self.of(1, 1, 2, 3, 4))

    def split(self, total: int) -> tuple[int, int]:
        """Splits a padding."""
        total = max(total, 0)
        begin = self.of(0, total, total // 2, max(total - 2, 0), self.random.randint(0, total))
        return begin, total - begin


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
    def draw(draw: _Draw, huge: bool) -> _Geometry:
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

    def conv_pads(self, draw: _Draw) -> list[int]:
        """Returns pads of which the result of a convolution becomes about what was drawn."""
        splits = [
            draw.split(e + s * (max(y, 1) - 1) - x + draw.random.randint(0, min(s, 3) - 1))
            for e, s, y, x in zip(self.extents(), self.strides, self.result, self.source, strict=True)
        ]
        return [begin for begin, _ in splits] + [end for _, end in splits]


def _convolution(op: Operator, draw: _Draw) -> Case:
    huge = draw.happens(0.6)
    g = _Geometry.draw(draw, huge)
    dtype = np.dtype(draw.of(*_ELEMENTS))
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
        op.name, attributes, inputs, _constants(draw, ["W", "B"]), draw.happens(0.5), not huge and min(g.result) >= 0
    )


def _integer_convolution(draw: _Draw) -> Case:
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
    constants = _constants(draw, list(inputs)[1:])
    return Case(CONV_INTEGER_TO_FLOAT.name, attributes, inputs, constants, draw.happens(0.5), not huge)


def _qlinear_convolution(draw: _Draw) -> Case:
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
    constants = _constants(draw, [name for name in inputs if name != "X"])
    return Case(QLINEAR_CONVOLUTION.name, attributes, inputs, constants, plain.open_sizes, plain.is_plain)


def _quantized_transposed_convolution(op: Operator, draw: _Draw) -> Case:
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
    constants = _constants(draw, [name for name in inputs if name not in "XR"])
    return Case(op.name, attributes, inputs, constants, draw.happens(0.5), plain.is_plain and min(sizes) >= 0)


def _product(op: str, draw: _Draw) -> Case:
    gathers, has_codebook = op.startswith("Gather"), "Codebook" in op
    block, blocks = draw.of(1, 2, 3, 16, 33), draw.of(1, 1, 2, 5)
    n, e, k = draw.of(0, 1, 2, 7, 65), draw.of(0, 1, 2, 3), block * blocks
    rows, slots = draw.of(0, 1, 1, 3, 17), draw.of(0, 1, 2)
    dtype = draw.of(*_FLOATS)
    matrix = ([e] if gathers else []) + [n]
    kinds = [np.uint8, np.int8, ml_dtypes.uint4, ml_dtypes.int4]
    code = np.dtype(ml_dtypes.uint4 if has_codebook else draw.of(*kinds))

    def codes(shape: list[int]) -> np.ndarray:
        return draw.integers(shape, np.int8 if code.kind == "i" or code == ml_dtypes.int4 else np.uint8).astype(code)

    shape = [rows, draw.of(1, slots), k] if gathers else [*draw.of([], [2], [0], [1, 3]), rows, k]
    inputs: dict[str, Any] = {
        "X": draw.integers(shape, dtype),
        "data": codes([*matrix, k]),
        "scale": np.exp2(draw.integers([*matrix, blocks], np.float32)).astype(dtype),
    }
    if gathers:
        index = draw.numbers.integers(-1, e + 1, (rows, slots))
        index[draw.numbers.random(index.shape) < 0.05] = draw.of(*_HOSTILE)
        inputs["index"] = index
    if has_codebook:
        inputs["codebook"] = np.arange(-8, 8, dtype=np.float32)
    else:
        inputs["zero_point"] = codes([*matrix, blocks]) if draw.happens(0.5) else None
    constants = _constants(draw, [name for name in inputs if name != "X"])
    return Case(op, {"block_size": block}, inputs, constants, draw.happens(0.5), True)


def _spectral(op: str, draw: _Draw) -> Case:
    n = draw.of(1, 2, 3, 4, 5, 8, 12, 16, 30)
    taps, parts, batch = draw.random.randint(1, n), draw.of(0, 1, 2), draw.of(0, 1, 1, 2)
    frames, hop, dtype = draw.of(0, 1, 2, 9, 17), draw.of(1, 2, 5, n), np.dtype(draw.of(*_FLOATS, np.float64))
    bins = draw.random.randint(1, n)
    channels, window = bins * (1 if parts else 2), draw.integers([taps], dtype)
    attributes: dict[str, Any] = {"n_fft": n, "hop": [hop], "pads": [0, 0], "parts": parts}
    inputs: dict[str, Any]
    if op == FORWARD_STFT.name:
        begin, end = attributes["pads"] = draw.of([0, 0], [1, 2], [n, n])
        length = max(max(frames - 1, 0) * hop + taps - begin - end, 0)
        gains = draw.integers([channels], dtype)
        inputs = {"signal": draw.integers([batch, 1, length], dtype), "window": window, "gains": gains}
    else:
        added = draw.of(0, 0, 3)
        attributes |= {"output_padding": [added]}
        attributes["pads"] = [*draw.split(min(max((frames - 1) * hop + taps, 0) + added, draw.of(0, 2, n)))]
        if op == OVERLAP_ADD.name:
            del attributes["n_fft"], attributes["parts"]
            inputs = {"frames": draw.integers([batch, taps, frames], dtype), "window": window}
        else:
            splits = parts == 0 and draw.happens(0.5)
            shape = [batch, bins if splits else channels, frames]
            inputs = {"spectrum": draw.integers(shape, dtype), "window": window}
            inputs["gains"] = draw.integers([channels], dtype)
            inputs["sines"] = draw.integers(shape, dtype) if splits else None
    constants = _constants(draw, [name for name in ("window", "gains") if name in inputs])
    return Case(op, attributes, inputs, constants, draw.happens(0.5), True)


def _fourier(draw: _Draw) -> Case:
    dtype, inverse, onesided = np.dtype(draw.of(*_FLOATS, np.float64)), draw.of(0, 1), draw.of(0, 1)
    parts = (2 if inverse else 1) if onesided else draw.of(1, 2)
    shape = [draw.of(0, 1, 2, 5, 9) for _ in range(draw.of(1, 2, 2, 3))]
    axis = draw.random.randrange(len(shape))
    shape[axis] = draw.of(2, 3, 8, 13, 30, 101)
    length = draw.of(None, None, np.array(draw.of(1, 2, 9, 32, 60), np.int64))
    inputs: dict[str, Any] = {"X": draw.integers([*shape, parts], dtype), "length": length}
    attributes = {"axis": draw.of(axis, axis - len(shape) - 1), "inverse": inverse, "onesided": onesided}
    constants = _constants(draw, ["length"] if length is not None else [])
    return Case(FOURIER_TRANSFORM.name, attributes, inputs, constants, draw.happens(0.5), True)


def _constants(draw: _Draw, names: Sequence[str]) -> frozenset[str]:
    if draw.happens(0.5):
        return frozenset(names)
    return frozenset(name for name in names if draw.happens(0.4))


def _mutate(case: Case, draw: _Draw) -> None:
    """Changes something of a case to something hostile."""
    case.is_plain = False
    for _ in range(draw.of(1, 1, 2, 3)):
        (_mutate_attribute if draw.happens(0.6) else _mutate_input)(case, draw)


def _mutate_attribute(case: Case, draw: _Draw) -> None:
    if not case.attributes:
        return
    name = draw.of(*case.attributes)
    value = case.attributes[name]
    if draw.happens(0.06):
        del case.attributes[name]
    elif draw.happens(0.06):
        case.attributes[name] = draw.of(1.5, "text", [0.5], [], 1, [1, 2])
    elif isinstance(value, list) and value and isinstance(value[0], int):
        changed = list(value)
        if draw.happens(0.1):
            changed = draw.of(changed[1:], [*changed, 1])
        if changed:
            changed[draw.random.randrange(len(changed))] = draw.of(*_HOSTILE)
        case.attributes[name] = changed
    elif isinstance(value, list):
        case.attributes[name] = [draw.of(0.0, -1.0, np.nan, np.inf, -np.inf, 3e38) for _ in range(draw.of(2, 3, 3, 3))]
    elif isinstance(value, int):
        case.attributes[name] = draw.of(*_HOSTILE)


def _mutate_input(case: Case, draw: _Draw) -> None:
    name = draw.of(*(name for name, data in case.inputs.items() if isinstance(data, np.ndarray)))
    data = case.inputs[name]
    assert isinstance(data, np.ndarray)
    if name == "length":
        case.inputs[name] = np.array(draw.of(*_HOSTILE), np.int64)
        return
    if name == "output_shape" and data.size and draw.happens(0.8):
        data = data.copy()
        data[draw.random.randrange(data.size)] = draw.of(*_HOSTILE)
        case.inputs[name] = data
        return
    shape = list(data.shape)
    if shape and draw.happens(0.15):
        shape.pop(draw.random.randrange(len(shape)))
    elif draw.happens(0.1):
        shape.insert(draw.random.randint(0, len(shape)), draw.of(0, 1, 2))
    elif shape:
        shape[draw.random.randrange(len(shape))] = draw.of(0, 0, 1, 2, 3, 64)
    if 0 in shape and name in case.constants and draw.happens(0.3):
        huge = tuple(size and draw.of(size, *_HUGE) for size in shape)
        case.inputs[name] = (huge, helper.np_dtype_to_tensor_dtype(data.dtype))
    elif np.prod(shape) <= _MOST_FED:
        case.inputs[name] = np.resize(data if data.size else np.zeros(1, data.dtype), shape)


_CASES: Mapping[str, Callable[[_Draw], Case]] = {
    **{op.name: functools.partial(_convolution, op) for op in CONVOLUTIONS},
    CONV_INTEGER_TO_FLOAT.name: _integer_convolution,
    QLINEAR_CONVOLUTION.name: _qlinear_convolution,
    **{op.name: functools.partial(_quantized_transposed_convolution, op) for op in _QUANTIZED},
    **{
        op.name: functools.partial(_product, op.name)
        for op in BY_NAME.values()
        if any(each.name == BLOCK_SIZE for each in op.attributes)
    },
    **{op.name: functools.partial(_spectral, op.name) for op in (FORWARD_STFT, INVERSE_STFT, OVERLAP_ADD)},
    FOURIER_TRANSFORM.name: _fourier,
}

OPERATORS = tuple(_CASES)
"""Op types of which there are cases."""

"""Dropout with oneDNN's random number generator: equal seeds and offsets drop the same elements as in oneDNN."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ortconv.converters.onednn_graph.lib.data_format import known_dims
from ortconv.converters.onednn_graph.lib.dtypes import check_type, one_type
from ortconv.converters.onednn_graph.registry import REGISTRY
from ortconv.errors import ShapeError
from ortconv.graph.builder import Builder

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
_KEY_INCREMENTS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_WORD_MASK = (1 << 32) - 1
_WORDS_PER_BLOCK = 4


@REGISTRY.lowering("Dropout")
def dropout(
    b: Builder, src: ir.Value, seed: ir.Value, offset: ir.Value, probability: ir.Value, /
) -> tuple[ir.Value, ir.Value]:
    """Lowers to Philox4x32-10 in 64-bit integers: keeps and scales elements whose random number exceeds the threshold.

    The counter consists of the offset and the index of the first of four elements. An offset of 0 selects oneDNN's
    legacy counter, with which all four elements have the same random number.
    """
    one_type(b, src=src)
    for name, value, dtype in (("seed", seed, "s64"), ("offset", offset, "s64"), ("probability", probability, "f32")):
        check_type(name, value.dtype, [dtype])
        dims = known_dims(value)
        if dims is None or any(dim != 1 for dim in dims):
            raise ShapeError(name, dims, "a single number is required.")
    words = _words(b, src, _scalar(b, seed), _scalar(b, offset))
    # The comparison in double is exact: rounding the threshold never moves it across a 32-bit integer.
    limited = b.op("Clip", _scalar(b, probability), b.constant(0.0, np.float32), b.constant(1.0, np.float32))
    threshold = b.op("Mul", b.cast(limited, ir.DataType.DOUBLE), b.constant(float(_WORD_MASK), np.float64))
    keep = b.typed(b.op("Greater", b.cast(words, ir.DataType.DOUBLE), threshold), ir.DataType.BOOL, src.shape)
    x, one = b.cast(src, ir.DataType.FLOAT), b.constant(1.0, np.float32)
    scale = b.op("Div", one, b.op("Sub", one, _scalar(b, probability)))
    dst = b.typed(b.op("Where", keep, b.op("Mul", x, scale), b.constant(0.0, np.float32)), x.dtype, src.shape)
    mask = b.typed(b.op("Cast", keep, to=int(ir.DataType.UINT8)), ir.DataType.UINT8, src.shape)
    return b.cast(dst, b.node.outputs[0].dtype), mask


def _scalar(b: Builder, value: ir.Value) -> ir.Value:
    """Reshapes a tensor of one element to a scalar."""
    return value if known_dims(value) == [] else b.typed(b.op("Reshape", value, b.constant([])), value.dtype, [])


def _words(b: Builder, src: ir.Value, seed: ir.Value, offset: ir.Value) -> ir.Value:
    """Emits a random word of 32 bits, as int64, for every element of src."""
    dims = known_dims(src)
    if dims is not None and all(isinstance(dim, int) for dim in dims):
        shape = b.constant([dim for dim in dims if isinstance(dim, int)])
        size = b.constant(int(np.prod([dim for dim in dims if isinstance(dim, int)], dtype=np.int64)))
    else:
        shape = b.op("Shape", src)
        size = b.op("ReduceProd", shape, keepdims=0)  # ONNX Runtime has no Size kernel for bfloat16
    zero, four = b.constant(0), b.constant(_WORDS_PER_BLOCK)
    index = b.typed(
        b.op("Range", zero, b.op("Add", size, b.constant(_WORDS_PER_BLOCK - 1)), four), ir.DataType.INT64, None
    )
    legacy = b.op("Equal", offset, zero)
    low, high = _halves(b, offset)
    counter = [
        b.op("Where", legacy, index, low),
        b.op("Where", legacy, b.op("Add", index, b.constant(1)), high),
        b.op("BitwiseAnd", index, b.constant(_WORD_MASK)),
        b.op("Where", legacy, b.op("Add", index, b.constant(3)), _halves(b, index)[1]),
    ]
    key_low, key_high = _halves(b, seed)
    words = _philox(b, counter, [key_low, b.op("Where", legacy, key_low, key_high)])
    columns = [b.op("Unsqueeze", b.op("Where", legacy, words[2], word), b.constant([1])) for word in words]
    flat = b.op("Reshape", b.op("Concat", *columns, axis=1), b.constant([-1]))
    used = b.op("Slice", flat, b.constant([0]), b.op("Reshape", size, b.constant([1])))
    return b.typed(b.op("Reshape", used, shape, allowzero=1), ir.DataType.INT64, src.shape)


def _halves(b: Builder, value: ir.Value) -> tuple[ir.Value, ir.Value]:
    """Splits an int64 into its lower and upper 32 bits."""
    shifted = b.op(
        "BitShift", b.op("Cast", value, to=int(ir.DataType.UINT64)), b.constant(32, np.uint64), direction="RIGHT"
    )
    return b.op("BitwiseAnd", value, b.constant(_WORD_MASK)), b.op("Cast", shifted, to=int(ir.DataType.INT64))


def _philox(b: Builder, counter: Sequence[ir.Value], key: Sequence[ir.Value]) -> list[ir.Value]:
    """Emits Philox4x32-10 on 32-bit words stored in int64; Mul gives the same 64 bits as for unsigned integers."""
    words = list(counter)
    for round_number in range(_ROUNDS):
        keys = [
            b.op(
                "BitwiseAnd",
                b.op("Add", half, b.constant(round_number * increment & _WORD_MASK)),
                b.constant(_WORD_MASK),
            )
            for half, increment in zip(key, _KEY_INCREMENTS, strict=True)
        ]
        products = [b.op("Mul", words[2 * i], b.constant(multiplier)) for i, multiplier in enumerate(_MULTIPLIERS)]
        (low_0, high_0), (low_1, high_1) = (_halves(b, product) for product in products)
        words = [
            b.op("BitwiseXor", b.op("BitwiseXor", high_1, words[1]), keys[0]),
            low_1,
            b.op("BitwiseXor", b.op("BitwiseXor", high_0, words[3]), keys[1]),
            low_0,
        ]
    return words

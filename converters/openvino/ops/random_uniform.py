"""RandomUniform."""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.constants import int64_vector, one_number
from ortconv.converters.openvino.lib.element_types import DTYPES
from ortconv.converters.openvino.lib.seeds import warn_of_unseeded
from ortconv.converters.openvino.parity.random_generators import (
    drawn_seed,
    mersenne_twister,
    philox,
    seeded_state,
)
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ConversionError, UnsupportedAttributeError
from ortconv.graph.builder import Builder

_F16, _F32, _F64 = ir.DataType.FLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE
_I32, _I64 = ir.DataType.INT32, ir.DataType.INT64
_WIDEST = 2**31 - 1
"""The largest integer range that OpenVINO's CPU plugin computes correctly."""

Alignment = Literal["TENSORFLOW", "PYTORCH", "tensorflow", "pytorch"]


@REGISTRY.lowering("RandomUniform", since=8)
def random_uniform(
    b: Builder,
    shape: ir.Value,
    minval: ir.Value,
    maxval: ir.Value,
    /,
    *,
    output_type: str,
    global_seed: int = 0,
    op_seed: int = 0,
    alignment: Alignment = "TENSORFLOW",
) -> ir.Value:
    """The random generator in integer ops in a Loop, and scaling of its numbers."""
    for label, seed in (("global_seed", global_seed), ("op_seed", op_seed)):
        if seed < 0:
            raise UnsupportedAttributeError(label, seed, "an integer of at least 0")
    to = DTYPES.get(output_type.lower())
    if to not in (_F16, _F32, _F64, _I32, _I64):
        raise UnsupportedAttributeError(
            "output_type",
            output_type,
            "f16, f32, f64, i32, i64",
            hint="For bf16 the results of OpenVINO's CPU plugin depend on the processor.",
        )
    twister = alignment.upper() == "PYTORCH"
    sizes = int64_vector(b, shape)
    count = b.op("ReduceProd", sizes, b.constant([0]), keepdims=1)
    if shape.shape is not None and 0 in shape.shape:
        b.warn("shape is empty: the scalar gets a number; OpenVINO's CPU plugin leaves what was in memory")
    if not global_seed and not op_seed:
        warn_of_unseeded(b)
        bits = philox(b, drawn_seed(b), 0, count)
    elif twister:
        bits = mersenne_twister(b, seeded_state(global_seed), count)
    elif b.repeated:
        raise ConversionError("a loop body draws other numbers in each iteration; allowed there: alignment PYTORCH.")
    else:
        b.warn("seeds: each run gives the numbers of the first; OpenVINO's second inference goes on where it ended")
        bits = philox(b, global_seed, op_seed, count)
    if to in (_I32, _I64):
        values = _whole(b, bits, minval, maxval)
    else:
        if to == _F64:
            b.follow("f64: f32 random numbers, as in OpenVINO's CPU plugin; the specification draws more bits")
        values = _fractions(b, bits, minval, maxval, twister)
    return b.op("Reshape", b.cast(values, to), sizes, allowzero=1)


def _bound(b: Builder, value: ir.Value, dtype: ir.DataType) -> ir.Value:
    """Returns a bound as a vector of one entry."""
    return b.typed(b.op("Reshape", b.cast(value, dtype), b.constant([1])), dtype, [1])


def _fractions(b: Builder, bits: ir.Value, minval: ir.Value, maxval: ir.Value, twister: bool) -> ir.Value:
    """Emits float32: 23 or 24 bits of each number as a fraction of 1, scaled."""
    low, high = (_bound(b, bound, _F32) for bound in (minval, maxval))
    width = b.typed(b.op("Sub", high, low), _F32, [1])
    digits = 24 if twister else 23
    kept = b.op("Cast", b.op("Mod", bits, b.constant(1 << digits)), to=int(_F32))
    part = b.typed(b.op("Mul", kept, b.constant(2.0**-digits, np.float32)), _F32, [None])
    if twister:
        return b.typed(b.op("Add", b.op("Mul", part, width), low), _F32, [None])
    # One rounding for the product and the sum.
    product = b.op("Mul", b.cast(part, _F64), b.cast(width, _F64))
    total = b.typed(b.op("Add", product, b.cast(low, _F64)), _F64, [None])
    return b.cast(total, _F32)


def _whole(b: Builder, bits: ir.Value, minval: ir.Value, maxval: ir.Value) -> ir.Value:
    """Emits int64: the lower bound plus the remainders of the numbers."""
    known = one_number(b, minval, "minval"), one_number(b, maxval, "maxval")
    if known[0] is not None and known[1] is not None:
        low, high = int(known[0]), int(known[1])
        if not -(2**31) <= low < high < 2**31 or high - low > _WIDEST:
            raise ConversionError(
                f"minval is {low} and maxval {high}; allowed: 32-bit integers, maxval greater by 1 to {_WIDEST}.",
                hint="OpenVINO's CPU plugin does not give usable numbers for other bounds.",
            )
    bounds = [_bound(b, bound, _I64) for bound in (minval, maxval)]
    # An empty range, possible only for runtime bounds, gives its lower bound.
    width = b.op("Max", b.op("Sub", bounds[1], bounds[0]), b.constant(1))
    return b.typed(b.op("Add", b.op("Mod", bits, width), bounds[0]), _I64, [None])

"""Ops that make data out of a few numbers: Range."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.builder import Builder
from ortconv.converters.openvino.ops.types import FLOATS, INTEGERS, compute, name
from ortconv.converters.openvino.precision import DTYPES
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import UnsupportedAttributeError


@REGISTRY.lowering("Range")
def range_(b: Builder, start: ir.Value, stop: ir.Value, step: ir.Value, /) -> ir.Value:
    """Range."""
    return _range(b, start, stop, step)


@REGISTRY.lowering("Range", since=4)
def range_4(b: Builder, start: ir.Value, stop: ir.Value, step: ir.Value, /, *, output_type: str) -> ir.Value:
    """Range of the inputs cast to output_type; floats into integers are refused."""
    to = DTYPES.get(output_type.lower())
    if to not in (*FLOATS, *INTEGERS):
        raise UnsupportedAttributeError("output_type", output_type, ", ".join(map(name, (*FLOATS, *INTEGERS))))
    if to in INTEGERS and any(value.dtype in FLOATS for value in (start, stop, step)):
        # The length follows from the fractions, the values from the integers.
        raise UnsupportedAttributeError("output_type", output_type, "a float type, since an input is a float")
    return _range(b, *(b.cast(value, to) for value in (start, stop, step)))


def _range(b: Builder, *bounds: ir.Value) -> ir.Value:
    scalars = [
        value if value.shape == () else b.typed(b.op("Reshape", value, b.constant([])), value.dtype, ())
        for value in bounds
    ]
    return compute(b, lambda *values: b.op("Range", *values), *scalars, kernels=("Range",), modular=True)

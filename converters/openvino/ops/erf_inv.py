"""ErfInv, which ONNX lacks."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import FLOATS, dtype_of, polynomial, require, single
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.graph.builder import Builder

_CENTRAL = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087,
    -0.00125372503, -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_TAILS = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773,
    -0.0076224613, -0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip
"""Coefficients of M. Giles, "Approximating the erfinv function" (2010), for single precision; highest power first. The
seventh of the tails is positive there; OpenVINO's CPU plugin has it negative."""

_BORDER = 5.0
_F32 = ir.DataType.FLOAT


@REGISTRY.lowering("ErfInv", since=17)
def erfinv(b: Builder, data: ir.Value, /) -> ir.Value:
    """Two polynomials in the logarithm of 1 - x², in float32."""
    require(data, "data", FLOATS)
    b.follow(
        "follows OpenVINO's CPU plugin near -1 and 1, where its error is up to 0.5 percent; "
        "from 0.5 on its error is up to 0.01 percent, and the exact result is returned"
    )
    x = b.cast(data, _F32)
    one = single(b, 1.0)
    depth = b.op("Neg", b.op("Log", b.op("Sub", one, b.op("Mul", x, x))))
    near = polynomial(b, b.op("Sub", depth, single(b, 2.5)), _CENTRAL)
    far = polynomial(b, b.op("Sub", b.op("Sqrt", depth), single(b, 3.0)), _TAILS)
    slope = b.op("Where", b.op("Less", depth, single(b, _BORDER)), near, far)
    value = b.op("Mul", slope, x)
    at_ends = b.op("Equal", b.op("Abs", x), one)
    infinite = b.op("Mul", x, single(b, np.inf))
    result = b.op("Where", at_ends, b.op("Where", at_ends, infinite, x), value)
    return b.cast(b.typed(result, _F32, None), dtype_of(data))

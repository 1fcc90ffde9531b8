"""Reductions."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.builder import Builder
from ortconv.converters.openvino.ops.constants import int64_vector, known_ints
from ortconv.converters.openvino.ops.types import FLOATS, INTEGERS, compute, require
from ortconv.converters.openvino.ops.unary import NO_FRACTIONS
from ortconv.converters.openvino.registry import REGISTRY

_EXACT = {"ReduceMax": 1, "ReduceMin": 1, "ReduceProd": 1, "ReduceSum": 1, "ReduceL1": 4}
_FLOAT = {"ReduceMean": 1, "ReduceL2": 4}
_LOGICAL = {"ReduceLogicalAnd": "ReduceMin", "ReduceLogicalOr": "ReduceMax"}


def _register(op_type: str, onnx_op: str, since: int, allowed: tuple[ir.DataType, ...], hint: str) -> None:
    def lower(b: Builder, data: ir.Value, axes: ir.Value, /, *, keep_dims: bool = False) -> ir.Value:
        require(data, "data", allowed, hint=hint)
        known = known_ints(b, axes)
        if known == ():
            return b.op("Identity", data)
        along = int64_vector(b, axes)
        return compute(
            b,
            lambda x: b.op(onnx_op, x, along, keepdims=int(keep_dims), noop_with_empty_axes=1),
            data,
            kernels=(onnx_op,),
            modular=onnx_op in ("ReduceProd", "ReduceSum"),
        )

    lower.__doc__ = f"{onnx_op}; Identity for an empty list of axes."
    REGISTRY.lowering(op_type, since=since)(lower)


for _op_type, _since in _EXACT.items():
    _register(_op_type, _op_type, _since, (*FLOATS, *INTEGERS), "")
for _op_type, _since in _FLOAT.items():
    _register(_op_type, _op_type, _since, FLOATS, NO_FRACTIONS)
for _op_type, _onnx_op in _LOGICAL.items():
    _register(_op_type, _onnx_op, 1, (ir.DataType.BOOL,), "")

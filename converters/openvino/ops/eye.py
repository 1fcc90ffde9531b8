"""Eye."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import FLOATS, INTEGERS, compute, name
from ortconv.converters.openvino.lib.constants import int64_vector
from ortconv.converters.openvino.lib.element_types import DTYPES
from ortconv.converters.openvino.plugin_bugs.empty_inputs import EMPTY_BATCH_SHAPE
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import UnsupportedAttributeError
from ortconv.graph.builder import Builder

_BOOL, _I64 = ir.DataType.BOOL, ir.DataType.INT64
_EYES = (*FLOATS, *INTEGERS, _BOOL)


@REGISTRY.lowering("Eye", since=9)
def eye(
    b: Builder,
    num_rows: ir.Value,
    num_columns: ir.Value,
    diagonal_index: ir.Value,
    batch_shape: ir.Value | None = None,
    /,
    *,
    output_type: str,
) -> ir.Value:
    """Cast of an Equal of row and column numbers."""
    to = DTYPES.get(output_type.lower())
    if to not in _EYES:
        raise UnsupportedAttributeError("output_type", output_type, ", ".join(map(name, _EYES)))
    rows, columns = (_numbers(b, value) for value in (num_rows, num_columns))
    diagonal = b.op("Sub", columns, int64_vector(b, diagonal_index))
    ones = b.op("Equal", b.op("Unsqueeze", rows, b.constant([1])), diagonal)
    matrix = b.op("Cast", ones, to=int(to))
    if batch_shape is None:
        return matrix
    if batch_shape.shape is not None and tuple(batch_shape.shape) == (0,):
        EMPTY_BATCH_SHAPE.warn(b)
    shape = b.op("Concat", int64_vector(b, batch_shape), b.op("Shape", matrix), axis=0)
    b.typed(matrix, to, [None, None])
    return compute(b, lambda x: b.op("Expand", x, shape), matrix, op_types=("Expand",), modular=True)


def _numbers(b: Builder, count: ir.Value) -> ir.Value:
    """Returns the numbers from 0 up to a count."""
    end = b.op("Reshape", b.cast(count, _I64), b.constant([]))
    return b.op("Range", b.constant(0), end, b.constant(1))

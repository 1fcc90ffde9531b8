"""Experts in one If each, which computes the rows that chose the expert; for float weights and ``--target onnx``."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.patterns.mixture_of_experts.match import BINARY, Mixture, size_of
from ortconv.converters.openvino.weights.codebook import CodebookWeights
from ortconv.converters.openvino.weights.lazy_tensors import part
from ortconv.converters.openvino.weights.matmul import matmul, matmul_operands
from ortconv.converters.openvino.weights.quantized_weights import QuantizedWeights
from ortconv.graph.builder import Builder
from ortconv.graph.match import operand_of

__all__ = ["conditional_sum"]


def conditional_sum(b: Builder, mixture: Mixture) -> ir.Value:
    """Emits the sum over experts [rows, columns], or [rows, 1, columns] if the mixture keeps the axis."""
    width = size_of(mixture.results, 2)
    assert width is not None
    zero = b.constant(np.float32(0))
    sizes = b.op("Concat", b.op("Shape", mixture.rows, start=0, end=1), b.constant([width]), axis=0)
    shape = ir.Shape([None, width])
    total = b.typed(b.op("Expand", zero, sizes), ir.DataType.FLOAT, shape)
    chosen = b.op("Cast", b.op("Not", b.op("Equal", mixture.table, zero)), to=int(ir.DataType.INT32))
    counts = b.op("ReduceSum", chosen, b.constant([0]), keepdims=0)
    some = b.op("Cast", counts, to=int(ir.DataType.BOOL))
    flags = b.op("Split", some, outputs=mixture.count, axis=0, num_outputs=mixture.count)
    columns = b.op("Split", mixture.table, outputs=mixture.count, axis=1, num_outputs=mixture.count)
    for expert, (flag, column) in enumerate(zip(flags, columns, strict=True)):
        with b.body() as computed:
            own = b.op("Gather", b.op("NonZero", column), b.constant(0), axis=0)
            data = b.typed(
                b.op("Gather", mixture.rows, own, axis=0), ir.DataType.FLOAT, [None, size_of(mixture.rows, 1)]
            )
            result = _of_one(b, mixture.results, expert, {mixture.copies: data})
            share = b.op("Mul", result, b.op("Gather", column, own, axis=0))
            more = b.op("ScatterND", total, b.op("Unsqueeze", own, b.constant([1])), share, reduction="add")
            then_branch = computed.graph([b.typed(more, ir.DataType.FLOAT, shape)])
        with b.body() as idle:
            else_branch = idle.graph([total])
        total = b.op("If", flag, then_branch=then_branch, else_branch=else_branch)
        b.typed(total, ir.DataType.FLOAT, shape)
    b.note(f"each of {mixture.count} experts computes the rows that its factors are not zero for")
    if not mixture.keeps_axis:
        return total
    return b.op("Unsqueeze", total, b.constant([1]))


def _of_one(b: Builder, value: ir.Value, expert: int, made: dict[ir.Value, ir.Value]) -> ir.Value:
    """Emits the slice of a value [experts, rows, columns] that belongs to one expert: [rows, columns]."""
    if value in made:
        return made[value]
    if value.const_value is not None:
        return _row(b, value, expert)
    if (product := matmul_operands(value)) is not None:
        data, matrices, transpose = product
        matrix = _matrix(b, matrices, expert)
        result = matmul(b, _of_one(b, data, expert, made), matrix, transpose_b=transpose)
    else:
        node = value.producer()
        assert node is not None
        attributes = {name: attribute.value for name, attribute in node.attributes.items()}
        inputs = list(node.inputs)
        if node.op_type == "Slice":
            inputs[3] = b.constant([1])
        own = len(inputs) if node.op_type in BINARY else 1
        for index, each in enumerate(inputs[:own]):
            assert each is not None
            inputs[index] = _of_one(b, each, expert, made)
        result = b.op(node.op_type, *inputs, **attributes)
    made[value] = b.typed(result, ir.DataType.FLOAT, [None, size_of(value, 2)])
    return made[value]


def _matrix(b: Builder, value: ir.Value, expert: int) -> ir.Value:
    """Returns the matrix of one expert."""
    if value.const_value is not None:
        return b.constant(part(value.const_value, expert))
    stored = operand_of(value, "Reshape") or value
    own: CodebookWeights | QuantizedWeights | None
    if (codebook := CodebookWeights.of(stored)) is not None:
        own = codebook.part(b, expert)
    else:
        compressed = QuantizedWeights.of(stored)
        own = None if compressed is None else compressed.part(b, expert)
    assert own is not None
    sizes = [size for axis in (1, 2) if (size := size_of(value, axis)) is not None]
    if own.sizes == sizes:
        return own.emit(b)
    return b.typed(b.op("Reshape", own.emit(b), b.constant(sizes)), value.dtype, sizes)


def _row(b: Builder, value: ir.Value, expert: int) -> ir.Value:
    """Returns the row of one expert from a constant [experts or 1, 1, columns or 1], or of fewer axes."""
    array = b.array(value)
    assert array is not None
    if array.ndim == 3:
        array = array[expert if len(array) > 1 else 0]
    return b.constant(array.reshape(()) if array.size == 1 else array.reshape(1, -1))

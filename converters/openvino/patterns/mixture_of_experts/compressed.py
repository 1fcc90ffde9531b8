"""Experts with weight-only quantized matrices: MatMul with an expert index for each row.

Values are [rows, choices, columns] instead of [experts, rows, columns]; products are GatherMatMulCompressed or
GatherMatMulCodebook of ``org.ortconv``.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from ortconv.converters.openvino.patterns.mixture_of_experts.match import BINARY, Mixture, same_rows, size_of
from ortconv.converters.openvino.weights.compressed_matrix import CompressedMatrix
from ortconv.converters.openvino.weights.matmul import matmul_operands
from ortconv.graph.builder import Builder
from ortconv.graph.match import operand_of, producer
from ortconv.opset.ops.compressed_weights import OLDEST_OPSET
from ortconv.opset.ops.gather_matmul_codebook import GATHER_MATMUL_CODEBOOK
from ortconv.opset.ops.gather_matmul_compressed import GATHER_MATMUL_COMPRESSED

__all__ = ["compressed_sum"]

_INDICES = (ir.DataType.INT32, ir.DataType.INT64)
"""Types that hold every expert index."""


def compressed_sum(b: Builder, mixture: Mixture) -> ir.Value | None:
    """Emits the sum over the experts that each row chose.

    Args:
        b: The builder.
        mixture: The experts.

    Returns:
        [rows, columns], or [rows, 1, columns] if the mixture keeps the axis; None where operators of ours are unwanted,
        or the experts' matrices are not weight-only quantized.
    """
    if b.options.target == "onnx" or b.options.opset < OLDEST_OPSET or not _has_products(mixture):
        return None
    choices = _choices(mixture)
    if choices is None:
        return None
    index, weights = b.cast(choices[0], ir.DataType.INT64), choices[1]
    wide = b.typed(
        b.op("Unsqueeze", mixture.rows, b.constant([1])), ir.DataType.FLOAT, [None, 1, size_of(mixture.rows, 1)]
    )
    results = _Emission(b, mixture, index, {mixture.copies: wide}).of(mixture.results)
    shares = b.op("Mul", results, b.op("Unsqueeze", weights, b.constant([2])))
    total = b.op("ReduceSum", shares, b.constant([1]), keepdims=1 if mixture.keeps_axis else 0)
    b.note(f"of {mixture.count} experts each row is multiplied by the matrices of those that it chose")
    return total


def _has_products(mixture: Mixture) -> bool:
    """Tells whether every product that the results depend on is by weight-only quantized matrices."""
    seen, left = {mixture.copies}, [mixture.results]
    while left:
        value = left.pop()
        if value in seen or value.const_value is not None:
            continue
        seen.add(value)
        if (product := matmul_operands(value)) is not None:
            data, matrices, transpose = product
            if _matrices(matrices, transpose=transpose) is None:
                return False
            left.append(data)
        else:
            node = value.producer()
            assert node is not None
            left.extend(each for each in node.inputs if each is not None)
    return True


def _matrices(value: ir.Value, *, transpose: bool) -> CompressedMatrix | None:
    return CompressedMatrix.of(value, transpose=not transpose, rank=3)


def _choices(mixture: Mixture) -> tuple[ir.Value, ir.Value] | None:
    """Returns the expert indices and routing weights [rows, choices] of a table.

    None if the indices are not those of one TopK, which are different in each row.
    """
    node = producer(mixture.table, "ScatterElements")
    if node is None or "reduction" in node.attributes or node.attributes.get_int("axis", 0) not in (1, -1):
        return None
    base, index, weights = node.inputs
    if index is None or weights is None or not _are_zeros(base) or not same_rows(mixture.rows, index):
        return None
    return (index, weights) if _are_best(index, mixture.count) else None


def _are_zeros(base: ir.Value | None) -> bool:
    value = operand_of(base, "Expand") or base
    return value is not None and value.const_value is not None and not value.const_value.numpy().any()


def _are_best(index: ir.Value, count: int) -> bool:
    """Tells whether expert indices come from a TopK of `count` columns."""
    while (before := operand_of(index, "Cast")) is not None and index.dtype in _INDICES:
        index = before
    best = producer(index, "TopK")
    if best is None or index is not best.outputs[1] or best.attributes.get_int("axis", -1) not in (1, -1):
        return False
    data = best.inputs[0]
    return data is not None and data.shape is not None and list(data.shape)[1:] == [count]


@dataclasses.dataclass(frozen=True)
class _Emission:
    """Emits values [experts, rows, columns] as [rows, choices or 1, columns].

    Attributes:
        b: The builder.
        mixture: The experts.
        index: Expert indices [rows, choices].
        made: The values emitted so far.
    """

    b: Builder
    mixture: Mixture
    index: ir.Value
    made: dict[ir.Value, ir.Value]

    def of(self, value: ir.Value) -> ir.Value:
        if value.const_value is not None:
            return self._constant(value)
        if value not in self.made:
            self.made[value] = self.b.typed(self._computed(value), ir.DataType.FLOAT, [None, None, size_of(value, 2)])
        return self.made[value]

    def _computed(self, value: ir.Value) -> ir.Value:
        if (product := matmul_operands(value)) is not None:
            return self._product(*product)
        node = value.producer()
        assert node is not None
        attributes = {name: attribute.value for name, attribute in node.attributes.items()}
        inputs, own = list(node.inputs), len(node.inputs) if node.op_type in BINARY else 1
        inputs[:own] = [None if each is None else self.of(each) for each in inputs[:own]]
        result: ir.Value = self.b.op(node.op_type, *inputs, **attributes)
        return result

    def _product(self, data: ir.Value, matrices: ir.Value, transpose: bool) -> ir.Value:
        own = _matrices(matrices, transpose=transpose)
        assert own is not None
        return own.product(self.b, GATHER_MATMUL_COMPRESSED, GATHER_MATMUL_CODEBOOK, self.of(data), self.index)

    def _constant(self, value: ir.Value) -> ir.Value:
        """Returns a constant with a row for each expert, gathered by the expert index, or one for all as it is."""
        array = self.b.array(value)
        assert array is not None
        if array.ndim < 3 or len(array) == 1:
            return value
        return self.b.op("Gather", self.b.constant(array[:, 0]), self.index, axis=0)

"""Recognizes mixtures of experts.

In the exported graph each expert computes every row, and routing weights [rows, experts], most of them zeros, scale the
results before their sum.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from ortconv.converters.openvino.weights.codebook import CodebookWeights
from ortconv.converters.openvino.weights.matmul import matmul_operands
from ortconv.converters.openvino.weights.quantized_weights import QuantizedWeights
from ortconv.graph.match import operand_of, producer

__all__ = ["BINARY", "Mixture", "same_rows", "size_of"]

_MOST_EXPERTS = 1024

_UNARY = frozenset(
    {"Abs", "Clip", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Neg", "Relu"}
    | {"Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Tanh", "ThresholdedRelu"}
)
"""Elementwise ops; all inputs but the first are constants."""
BINARY = frozenset({"Add", "Div", "Max", "Min", "Mul", "Pow", "Sub"})
"""Elementwise ops of two inputs."""
_ALONG_LAST_AXIS = frozenset({"Concat", "Softmax", "TopK"})
"""Ops whose result has the rows of their first input if their axis is the last."""
_WITH_ROWS = _UNARY | {"Cast", "ScatterElements"}
"""Ops whose result always has the rows of their first input."""


@dataclasses.dataclass(frozen=True)
class Mixture:
    """A mixture of experts.

    Attributes:
        count: The number of experts.
        rows: The data [rows, columns].
        copies: The data repeated for each expert [experts, rows, columns].
        table: Routing weights [rows, experts], zero where the row did not choose the expert.
        results: The results of the experts [experts, rows, columns].
        keeps_axis: Whether the sum has an axis of size 1 behind that of the rows.
    """

    count: int
    rows: ir.Value
    copies: ir.Value
    table: ir.Value
    results: ir.Value
    keeps_axis: bool

    @classmethod
    def of(cls, results: ir.Value, weights: ir.Value) -> Mixture | None:
        """Returns the mixture that results and routing weights belong to, or None if they are something else."""
        table = _table(weights)
        count = None if table is None else size_of(table, 1)
        if table is None or count is None or not 1 < count <= _MOST_EXPERTS or _rank(results) != _rank(weights):
            return None
        keeps_axis = _rank(results) == 4
        whole = _before_split(results, table) if keeps_axis else results
        copies = None if whole is None else _copies(whole)
        tile = producer(operand_of(copies, "Reshape"), "Tile")
        if whole is None or copies is None or tile is None or tile.inputs[0] is None or tile.inputs[1] is None:
            return None
        rows, repeats = tile.inputs[0], tile.inputs[1].const_value
        if repeats is None or repeats.numpy().tolist() != [count, 1] or _rank(rows) != 2:
            return None
        if _rank(copies) != 3 or _rank(whole) != 3 or size_of(whole, 2) is None:
            return None
        if any(value.dtype != ir.DataType.FLOAT for value in (rows, table, whole)):
            return None
        if any(size_of(value, 0) != count for value in (copies, whole)) or size_of(copies, 2) != size_of(rows, 1):
            return None
        if size_of(rows, 1) is None or not same_rows(rows, table):
            return None
        found = cls(count, rows, copies, table, whole, keeps_axis)
        return found if found._is_known(whole, set()) else None

    def _is_known(self, value: ir.Value, seen: set[ir.Value]) -> bool:
        """Tells whether a slice of a value [experts, rows, columns] can be computed for one expert alone."""
        if value is self.copies or value in seen:
            return True
        seen.add(value)
        if (product := matmul_operands(value)) is not None:
            return self._is_known(product[0], seen) and _has_matrices(product[1], self.count)
        node = value.producer()
        if node is None or node.domain:
            return False
        data, *others = node.inputs
        if node.op_type in BINARY:
            return all(self._is_part(each, seen) for each in node.inputs)
        if data is None or any(other is not None and other.const_value is None for other in others):
            return False
        if node.op_type == "Slice":
            along = None if len(others) < 3 or others[2] is None else others[2].const_value
            return along is not None and along.numpy().tolist() in ([2], [-1]) and self._is_known(data, seen)
        return node.op_type in _UNARY and self._is_known(data, seen)

    def _is_part(self, value: ir.Value | None, seen: set[ir.Value]) -> bool:
        """Tells whether `_is_known` is true, or the value is a constant with one row for each expert or for all."""
        if value is None:
            return False
        if value.const_value is None:
            return self._is_known(value, seen)
        sizes = [1, 1, 1, *value.const_value.shape.numpy()][-3:]
        return len(value.const_value.shape) <= 3 and sizes[0] in (1, self.count) and sizes[1] == 1


def _rank(value: ir.Value) -> int | None:
    return None if value.shape is None else len(value.shape)


def size_of(value: ir.Value, axis: int) -> int | None:
    """Returns a size of a value of known rank, or None if it is dynamic."""
    size = None if value.shape is None else value.shape[axis]
    return size if isinstance(size, int) else None


def _table(weights: ir.Value) -> ir.Value | None:
    """Returns the table [rows, experts] that is transposed to routing weights [experts, rows, 1, ...], or None."""
    if weights.shape is None or not 3 <= len(weights.shape) <= 4 or any(size != 1 for size in weights.shape[2:]):
        return None
    value: ir.Value | None = weights
    while (before := operand_of(value, "Unsqueeze") or operand_of(value, "Reshape")) is not None:
        value = before
    turned = producer(value, "Transpose")
    if turned is None or list(turned.attributes.get_ints("perm", ())) != [1, 0]:
        return None
    table = turned.inputs[0]
    if table is None or producer(table, "ScatterElements") is None or _rank(table) != 2:
        return None
    return table if size_of(table, 1) == size_of(weights, 0) else None


def _before_split(results: ir.Value, table: ir.Value) -> ir.Value | None:
    """Returns the input [experts, rows, columns] of a Reshape to [experts, rows, 1, columns], or None."""
    node, whole = producer(results, "Reshape"), operand_of(results, "Reshape")
    if node is None or whole is None or _rank(whole) != 3 or size_of(whole, 0) is None:
        return None
    if size_of(table, 0) is not None:
        sizes = [size_of(results, axis) for axis in range(4)]
        return whole if sizes == [size_of(whole, 0), size_of(table, 0), 1, size_of(whole, 2)] else None
    target = producer(node.inputs[1], "Concat")
    if target is None or len(target.inputs) != 4:
        return None
    count, rows, one, columns = target.inputs
    known = [
        None if each is None or each.const_value is None else each.const_value.numpy().tolist()
        for each in (count, one, columns)
    ]
    if known[0] != [size_of(whole, 0)] or known[1] not in ([-1], [1]) or known[2] != [size_of(whole, 2)]:
        return None
    asked = _value_of_row_count(rows)
    return whole if asked is not None and same_rows(asked, table) else None


def _copies(value: ir.Value | None) -> ir.Value | None:
    """Returns the data repeated for each expert that results are computed from, or None."""
    while value is not None:
        if producer(operand_of(value, "Reshape"), "Tile") is not None:
            return value
        product, node = matmul_operands(value), value.producer()
        if product is not None:
            value = product[0]
        elif node is None or node.op_type not in _UNARY | BINARY | {"Slice"}:
            return None
        else:
            value = next((each for each in node.inputs if each is not None and each.const_value is None), None)
    return None


def _value_of_row_count(size: ir.Value | None) -> ir.Value | None:
    """Returns the value whose first dimension a value is, or None."""
    node = producer(size, "Gather")
    if node is None:
        return None
    index, shape = node.inputs[1], producer(node.inputs[0], "Shape")
    if index is None or index.const_value is None or index.const_value.numpy().ravel().tolist() != [0]:
        return None
    return shape.inputs[0] if shape is not None and shape.attributes.get_int("start", 0) == 0 else None


def same_rows(left: ir.Value, right: ir.Value) -> bool:
    """Tells whether two matrices certainly have the same number of rows."""
    sizes = size_of(left, 0), size_of(right, 0)
    return _source_of_rows(left) is _source_of_rows(right) or (sizes[0] is not None and sizes[0] == sizes[1])


def _source_of_rows(value: ir.Value) -> ir.Value:
    """Returns the earliest value known to have the same number of rows as a value [rows, columns]."""
    while True:
        before = _before(value)
        if before is None:
            return value
        value = before


def _before(value: ir.Value) -> ir.Value | None:
    """Returns an input of a matrix's producer with the same number of rows, or None."""
    node = value.producer()
    if node is None or _rank(value) != 2 or not node.inputs or (data := node.inputs[0]) is None:
        return None
    if node.op_type == "Expand":
        sizes, whole = producer(node.inputs[1], "Concat"), producer(node.inputs[1], "Shape")
        if data.const_value is None or data.const_value.size != 1:
            return None
        if whole is not None:
            return whole.inputs[0] if whole.attributes.get_int("start", 0) == 0 else None
        return None if sizes is None else _value_of_row_count(sizes.inputs[0])
    if _rank(data) != 2:
        return None
    if node.op_type in _WITH_ROWS:
        return data
    if node.op_type in _ALONG_LAST_AXIS:
        return data if node.attributes.get_int("axis", -1) in (-1, 1) else None
    if node.op_type in ("Gemm", "MatMul", "MatMulCodebook", "MatMulCompressed"):
        is_turned = node.op_type == "Gemm" and node.attributes.get_int("transA", 0) != 0
        return data if not is_turned and node.inputs[1] is not None and _rank(node.inputs[1]) == 2 else None
    if node.op_type in BINARY and (other := node.inputs[1]) is not None and other.const_value is not None:
        return data if len(other.const_value.shape) < 2 or size_of(other, 0) == 1 else None
    return None


def _has_matrices(value: ir.Value, count: int) -> bool:
    """Tells whether a value is a plain or quantized constant with one matrix for each expert."""
    if _rank(value) != 3 or size_of(value, 0) != count or None in (size_of(value, 1), size_of(value, 2)):
        return False
    if value.const_value is not None:
        return value.dtype == ir.DataType.FLOAT
    stored = operand_of(value, "Reshape") or value
    if (coded := CodebookWeights.of(stored)) is not None:
        return coded.sizes[0] == count and value.dtype == ir.DataType.FLOAT
    compressed = QuantizedWeights.of(stored)
    if compressed is None or compressed.sizes[0] != count or value.dtype != ir.DataType.FLOAT:
        return False
    return compressed.block_size is None or compressed.axis != 0

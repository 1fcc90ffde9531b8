"""Mixtures of experts as exporters write them.

Each expert computes every row, and a table, most of which is zeros, weighs the results before they are added up.
"""

from __future__ import annotations

import dataclasses

import onnx_ir as ir

from ortconv.converters.openvino.ops.matmul import factors
from ortconv.converters.openvino.weights.codebook import Coded
from ortconv.converters.openvino.weights.dequantization import Compressed
from ortconv.graph.match import made_by, maker

__all__ = ["TOGETHER", "Mixture", "share_rows", "size_of"]

_MOST_EXPERTS = 1024

_ALONE = frozenset(
    {"Abs", "Clip", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Neg", "Relu"}
    | {"Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Tanh", "ThresholdedRelu"}
)
"""Ops on each element of their first input; the others are constants."""
TOGETHER = frozenset({"Add", "Div", "Max", "Min", "Mul", "Pow", "Sub"})
"""Ops on each pair of elements."""
_ALONG_COLUMNS = frozenset({"Concat", "Softmax", "TopK"})
"""Ops whose result has as many rows as their first input, where their axis is that of the columns."""
_WITH_ROWS = _ALONE | {"Cast", "ScatterElements"}
"""Ops whose result always has."""


@dataclasses.dataclass(frozen=True)
class Mixture:
    """Experts, what they compute and for which rows.

    Attributes:
        count: How many there are.
        rows: Their data [rows, columns].
        copies: The same once for each expert.
        table: Factors [rows, experts], zero where an expert was not chosen.
        results: What they give [experts, rows, columns].
        apart: Whether the results get an axis of size 1 behind that of the rows.
    """

    count: int
    rows: ir.Value
    copies: ir.Value
    table: ir.Value
    results: ir.Value
    apart: bool

    @classmethod
    def of(cls, results: ir.Value, weights: ir.Value) -> Mixture | None:
        """Returns the mixture that results and their factors belong to, or None where they are something else."""
        table = _table(weights)
        count = None if table is None else size_of(table, 1)
        if table is None or count is None or not 1 < count <= _MOST_EXPERTS or _rank(results) != _rank(weights):
            return None
        apart = _rank(results) == 4
        whole = _before_split(results, table) if apart else results
        copies = None if whole is None else _copies(whole)
        tile = maker(made_by(copies, "Reshape"), "Tile")
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
        if size_of(rows, 1) is None or not share_rows(rows, table):
            return None
        found = cls(count, rows, copies, table, whole, apart)
        return found if found._is_known(whole, set()) else None

    def _is_known(self, value: ir.Value, seen: set[ir.Value]) -> bool:
        """Tells whether what one expert has of a value [experts, rows, columns] can be computed alone."""
        if value is self.copies or value in seen:
            return True
        seen.add(value)
        if (product := factors(value)) is not None:
            return self._is_known(product[0], seen) and _has_matrices(product[1], self.count)
        node = value.producer()
        if node is None or node.domain:
            return False
        data, *others = node.inputs
        if node.op_type in TOGETHER:
            return all(self._is_part(each, seen) for each in node.inputs)
        if data is None or any(other is not None and other.const_value is None for other in others):
            return False
        if node.op_type == "Slice":
            along = None if len(others) < 3 or others[2] is None else others[2].const_value
            return along is not None and along.numpy().tolist() in ([2], [-1]) and self._is_known(data, seen)
        return node.op_type in _ALONE and self._is_known(data, seen)

    def _is_part(self, value: ir.Value | None, seen: set[ir.Value]) -> bool:
        """Tells whether a value is known of one expert, or a constant that has one row for each expert or for all."""
        if value is None:
            return False
        if value.const_value is None:
            return self._is_known(value, seen)
        sizes = [1, 1, 1, *value.const_value.shape.numpy()][-3:]
        return len(value.const_value.shape) <= 3 and sizes[0] in (1, self.count) and sizes[1] == 1


def _rank(value: ir.Value) -> int | None:
    return None if value.shape is None else len(value.shape)


def size_of(value: ir.Value, axis: int) -> int | None:
    """Returns a size of a value of known rank, if it is known."""
    size = None if value.shape is None else value.shape[axis]
    return size if isinstance(size, int) else None


def _table(weights: ir.Value) -> ir.Value | None:
    """Returns the table [rows, experts] that factors [experts, rows, 1, ...] are made of, or None."""
    if weights.shape is None or not 3 <= len(weights.shape) <= 4 or any(size != 1 for size in weights.shape[2:]):
        return None
    value: ir.Value | None = weights
    while (before := made_by(value, "Unsqueeze") or made_by(value, "Reshape")) is not None:
        value = before
    turned = maker(value, "Transpose")
    if turned is None or list(turned.attributes.get_ints("perm", ())) != [1, 0]:
        return None
    table = turned.inputs[0]
    if table is None or maker(table, "ScatterElements") is None or _rank(table) != 2:
        return None
    return table if size_of(table, 1) == size_of(weights, 0) else None


def _before_split(results: ir.Value, table: ir.Value) -> ir.Value | None:
    """Returns the results [experts, rows, columns] of which a Reshape made [experts, rows, 1, columns], or None."""
    node, whole = maker(results, "Reshape"), made_by(results, "Reshape")
    if node is None or whole is None or _rank(whole) != 3 or size_of(whole, 0) is None:
        return None
    if size_of(table, 0) is not None:
        sizes = [size_of(results, axis) for axis in range(4)]
        return whole if sizes == [size_of(whole, 0), size_of(table, 0), 1, size_of(whole, 2)] else None
    target = maker(node.inputs[1], "Concat")
    if target is None or len(target.inputs) != 4:
        return None
    count, rows, one, columns = target.inputs
    known = [
        None if each is None or each.const_value is None else each.const_value.numpy().tolist()
        for each in (count, one, columns)
    ]
    if known[0] != [size_of(whole, 0)] or known[1] not in ([-1], [1]) or known[2] != [size_of(whole, 2)]:
        return None
    asked = _whose_rows(rows)
    return whole if asked is not None and share_rows(asked, table) else None


def _copies(value: ir.Value | None) -> ir.Value | None:
    """Returns the data, once for each expert, that results are computed from, or None."""
    while value is not None:
        if maker(made_by(value, "Reshape"), "Tile") is not None:
            return value
        product, node = factors(value), value.producer()
        if product is not None:
            value = product[0]
        elif node is None or node.op_type not in _ALONE | TOGETHER | {"Slice"}:
            return None
        else:
            value = next((each for each in node.inputs if each is not None and each.const_value is None), None)
    return None


def _whose_rows(size: ir.Value | None) -> ir.Value | None:
    """Returns the value whose first size something is, or None."""
    node = maker(size, "Gather")
    if node is None:
        return None
    index, shape = node.inputs[1], maker(node.inputs[0], "Shape")
    if index is None or index.const_value is None or index.const_value.numpy().ravel().tolist() != [0]:
        return None
    return shape.inputs[0] if shape is not None and shape.attributes.get_int("start", 0) == 0 else None


def share_rows(left: ir.Value, right: ir.Value) -> bool:
    """Tells whether two matrices have as many rows for certain."""
    sizes = size_of(left, 0), size_of(right, 0)
    return _source_of_rows(left) is _source_of_rows(right) or (sizes[0] is not None and sizes[0] == sizes[1])


def _source_of_rows(value: ir.Value) -> ir.Value:
    """Returns the value that a value [rows, columns] has its rows of, one for one, as far as that can be seen."""
    while True:
        before = _before(value)
        if before is None:
            return value
        value = before


def _before(value: ir.Value) -> ir.Value | None:
    """Returns an input of the node that makes a matrix, which has as many rows for certain; None for none."""
    node = value.producer()
    if node is None or _rank(value) != 2 or not node.inputs or (data := node.inputs[0]) is None:
        return None
    if node.op_type == "Expand":
        sizes, whole = maker(node.inputs[1], "Concat"), maker(node.inputs[1], "Shape")
        if data.const_value is None or data.const_value.size != 1:
            return None
        if whole is not None:
            return whole.inputs[0] if whole.attributes.get_int("start", 0) == 0 else None
        return None if sizes is None else _whose_rows(sizes.inputs[0])
    if _rank(data) != 2:
        return None
    if node.op_type in _WITH_ROWS:
        return data
    if node.op_type in _ALONG_COLUMNS:
        return data if node.attributes.get_int("axis", -1) in (-1, 1) else None
    if node.op_type in ("Gemm", "MatMul", "MatMulCodebook", "MatMulCompressed"):
        is_turned = node.op_type == "Gemm" and node.attributes.get_int("transA", 0) != 0
        return data if not is_turned and node.inputs[1] is not None and _rank(node.inputs[1]) == 2 else None
    if node.op_type in TOGETHER and (other := node.inputs[1]) is not None and other.const_value is not None:
        return data if len(other.const_value.shape) < 2 or size_of(other, 0) == 1 else None
    return None


def _has_matrices(value: ir.Value, count: int) -> bool:
    """Tells whether a value is a constant, perhaps compressed, that has one matrix for each expert."""
    if _rank(value) != 3 or size_of(value, 0) != count or None in (size_of(value, 1), size_of(value, 2)):
        return False
    if value.const_value is not None:
        return value.dtype == ir.DataType.FLOAT
    stored = made_by(value, "Reshape") or value
    if (coded := Coded.of(stored)) is not None:
        return coded.sizes[0] == count and value.dtype == ir.DataType.FLOAT
    compressed = Compressed.of(stored)
    if compressed is None or compressed.sizes[0] != count or value.dtype != ir.DataType.FLOAT:
        return False
    return compressed.block is None or compressed.axis != 0

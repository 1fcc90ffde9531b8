"""Mixtures of experts: where a table says which rows go to which expert, each expert computes its own rows only.

Exporters write that every expert computes every row, and multiply the results by the table, most of which is zeros,
before they add them up. OpenVINO's CPU plugin computes the rows that were chosen, and so does this: an If for each
expert, which gathers its rows and adds its results to those of the experts before.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from ortconv.builder import Builder
from ortconv.converters.openvino.ops.compression import Compressed
from ortconv.converters.openvino.ops.matmul import factors, multiply
from ortconv.converters.openvino.ops.parts import compressed_part, part
from ortconv.producers import made_by, maker

__all__ = ["routed_sum"]

_MOST_EXPERTS = 1024

_ALONE = frozenset(
    {"Abs", "Clip", "Elu", "Erf", "Exp", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "Neg", "Relu"}
    | {"Selu", "Sigmoid", "Softplus", "Softsign", "Sqrt", "Tanh", "ThresholdedRelu"}
)
"""Ops on each element of their first input; the others are constants."""
_TOGETHER = frozenset({"Add", "Div", "Max", "Min", "Mul", "Pow", "Sub"})
"""Ops on each pair of elements."""
_ALONG_COLUMNS = frozenset({"Concat", "Softmax", "TopK"})
"""Ops whose result has as many rows as their first input, where their axis is that of the columns."""
_WITH_ROWS = _ALONE | {"Cast", "ScatterElements"}
"""Ops whose result always has."""


def routed_sum(b: Builder, data: ir.Value) -> ir.Value | None:
    """Returns the sum over the first axis of what experts give, or None where the data are something else.

    Args:
        b: The builder.
        data: Results of experts [experts, rows, ...] times the table's numbers.
    """
    node = data.producer()
    if b.repeated or node is None or (node.domain, node.op_type) != ("", "Mul"):
        return None
    for results, weights in (node.inputs, reversed(node.inputs)):
        mixture = None if results is None or weights is None else _Mixture.of(results, weights)
        if mixture is not None:
            return mixture.emit(b)
    return None


@dataclasses.dataclass(frozen=True)
class _Mixture:
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
    def of(cls, results: ir.Value, weights: ir.Value) -> _Mixture | None:
        """Returns the mixture that results and their factors belong to, or None where they are something else."""
        table = _table(weights)
        count = None if table is None else _size(table, 1)
        if table is None or count is None or not 1 < count <= _MOST_EXPERTS or _rank(results) != _rank(weights):
            return None
        apart = _rank(results) == 4
        whole = _before_split(results, table) if apart else results
        copies = None if whole is None else _copies(whole)
        tile = maker(made_by(copies, "Reshape"), "Tile")
        if whole is None or copies is None or tile is None or tile.inputs[0] is None or tile.inputs[1] is None:
            return None
        rows, repeats = tile.inputs[0], tile.inputs[1].const_value
        if repeats is None or repeats.numpy().tolist() != [count, 1] or _rank(rows) != 2 or _rank(whole) != 3:
            return None
        if any(value.dtype != ir.DataType.FLOAT for value in (rows, table, whole)) or _size(whole, 2) is None:
            return None
        if any(_size(value, 0) != count for value in (copies, whole)) or _size(copies, 2) != _size(rows, 1):
            return None
        if _size(rows, 1) is None or not _share_rows(rows, table):
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
        if node.op_type in _TOGETHER:
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

    def emit(self, b: Builder) -> ir.Value:
        """Emits the sum [rows, columns], with an axis of size 1 between where the results have it."""
        width = _size(self.results, 2)
        assert width is not None
        zero = b.constant(np.float32(0))
        sizes = b.op("Concat", b.op("Shape", self.rows, start=0, end=1), b.constant([width]), axis=0)
        shape = ir.Shape([None, width])
        total = b.typed(b.op("Expand", zero, sizes), ir.DataType.FLOAT, shape)
        chosen = b.op("Cast", b.op("Not", b.op("Equal", self.table, zero)), to=int(ir.DataType.INT32))
        counts = b.op("ReduceSum", chosen, b.constant([0]), keepdims=0)
        some = b.op("Cast", counts, to=int(ir.DataType.BOOL))
        flags = b.op("Split", some, outputs=self.count, axis=0, num_outputs=self.count)
        columns = b.op("Split", self.table, outputs=self.count, axis=1, num_outputs=self.count)
        for expert, (flag, column) in enumerate(zip(flags, columns, strict=True)):
            with b.body() as computed:
                own = b.op("Gather", b.op("NonZero", column), b.constant(0), axis=0)
                data = b.typed(b.op("Gather", self.rows, own, axis=0), ir.DataType.FLOAT, [None, _size(self.rows, 1)])
                result = self._of_one(b, self.results, expert, {self.copies: data})
                share = b.op("Mul", result, b.op("Gather", column, own, axis=0))
                more = b.op("ScatterND", total, b.op("Unsqueeze", own, b.constant([1])), share, reduction="add")
                then_branch = computed.graph([b.typed(more, ir.DataType.FLOAT, shape)])
            with b.body() as idle:
                else_branch = idle.graph([total])
            total = b.op("If", flag, then_branch=then_branch, else_branch=else_branch)
            b.typed(total, ir.DataType.FLOAT, shape)
        b.note(f"each of {self.count} experts computes the rows that its factors are not zero for")
        if not self.apart:
            return total
        return b.op("Unsqueeze", total, b.constant([1]))

    def _of_one(self, b: Builder, value: ir.Value, expert: int, made: dict[ir.Value, ir.Value]) -> ir.Value:
        """Emits what one expert has of a value: [rows, columns]."""
        if value in made:
            return made[value]
        if value.const_value is not None:
            return _row(b, value, expert)
        if (product := factors(value)) is not None:
            data, matrices, transpose = product
            matrix = _matrix(b, matrices, expert)
            result = multiply(b, self._of_one(b, data, expert, made), matrix, transpose_b=transpose)
        else:
            node = value.producer()
            assert node is not None
            attributes = {name: attribute.value for name, attribute in node.attributes.items()}
            inputs = list(node.inputs)
            if node.op_type == "Slice":
                inputs[3] = b.constant([1])
            own = len(inputs) if node.op_type in _TOGETHER else 1
            for index, each in enumerate(inputs[:own]):
                assert each is not None
                inputs[index] = self._of_one(b, each, expert, made)
            result = b.op(node.op_type, *inputs, **attributes)
        made[value] = b.typed(result, ir.DataType.FLOAT, [None, _size(value, 2)])
        return made[value]


def _rank(value: ir.Value) -> int | None:
    return None if value.shape is None else len(value.shape)


def _size(value: ir.Value, axis: int) -> int | None:
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
    if turned is None or list(turned.attributes["perm"].as_ints()) != [1, 0]:
        return None
    table = turned.inputs[0]
    if table is None or maker(table, "ScatterElements") is None or _rank(table) != 2:
        return None
    return table if _size(table, 1) == _size(weights, 0) else None


def _before_split(results: ir.Value, table: ir.Value) -> ir.Value | None:
    """Returns the results [experts, rows, columns] of which a Reshape made [experts, rows, 1, columns], or None."""
    node, whole = maker(results, "Reshape"), made_by(results, "Reshape")
    if node is None or whole is None or _rank(whole) != 3 or _size(whole, 0) is None:
        return None
    if _size(table, 0) is not None:
        sizes = [_size(results, axis) for axis in range(4)]
        return whole if sizes == [_size(whole, 0), _size(table, 0), 1, _size(whole, 2)] else None
    target = maker(node.inputs[1], "Concat")
    if target is None or len(target.inputs) != 4:
        return None
    count, rows, one, columns = target.inputs
    known = [
        None if each is None or each.const_value is None else each.const_value.numpy().tolist()
        for each in (count, one, columns)
    ]
    if known[0] != [_size(whole, 0)] or known[1] not in ([-1], [1]) or known[2] != [_size(whole, 2)]:
        return None
    asked = _whose_rows(rows)
    return whole if asked is not None and _share_rows(asked, table) else None


def _copies(value: ir.Value | None) -> ir.Value | None:
    """Returns the data, once for each expert, that results are computed from, or None."""
    while value is not None:
        if maker(made_by(value, "Reshape"), "Tile") is not None:
            return value
        product, node = factors(value), value.producer()
        if product is not None:
            value = product[0]
        elif node is None or node.op_type not in _ALONE | _TOGETHER | {"Slice"}:
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


def _share_rows(left: ir.Value, right: ir.Value) -> bool:
    """Tells whether two matrices have as many rows for certain."""
    sizes = _size(left, 0), _size(right, 0)
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
    if node.op_type in ("Gemm", "MatMul", "MatMulCompressed"):
        is_turned = node.op_type == "Gemm" and node.attributes.get_int("transA", 0) != 0
        return data if not is_turned and node.inputs[1] is not None and _rank(node.inputs[1]) == 2 else None
    if node.op_type in _TOGETHER and (other := node.inputs[1]) is not None and other.const_value is not None:
        return data if len(other.const_value.shape) < 2 or _size(other, 0) == 1 else None
    return None


def _has_matrices(value: ir.Value, count: int) -> bool:
    """Tells whether a value is a constant, perhaps compressed, that has one matrix for each expert."""
    if _rank(value) != 3 or _size(value, 0) != count or None in (_size(value, 1), _size(value, 2)):
        return False
    if value.const_value is not None:
        return value.dtype == ir.DataType.FLOAT
    compressed = Compressed.of(made_by(value, "Reshape") or value)
    if compressed is None or compressed.sizes[0] != count or value.dtype != ir.DataType.FLOAT:
        return False
    return compressed.block is None or compressed.axis != 0


def _matrix(b: Builder, value: ir.Value, expert: int) -> ir.Value:
    """Returns the matrix of one expert."""
    if value.const_value is not None:
        return b.constant(part(value.const_value, expert))
    compressed = Compressed.of(made_by(value, "Reshape") or value)
    own = None if compressed is None else compressed_part(b, compressed, expert)
    assert own is not None
    sizes = [size for axis in (1, 2) if (size := _size(value, axis)) is not None]
    if own.sizes == sizes:
        return own.emit(b)
    return b.typed(b.op("Reshape", own.emit(b), b.constant(sizes)), value.dtype, sizes)


def _row(b: Builder, value: ir.Value, expert: int) -> ir.Value:
    """Returns what one expert has of a constant [experts or 1, 1, columns or 1], or with fewer axes."""
    array = b.array(value)
    assert array is not None
    if array.ndim == 3:
        array = array[expert if len(array) > 1 else 0]
    return b.constant(array.reshape(()) if array.size == 1 else array.reshape(1, -1))

"""Mixtures of experts as exporters write them: each expert computes the rows that chose it, as in OpenVINO's plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import openvino
import pytest
from openvino import opset1, opset3, opset4, opset8, opset11, opset12

from ortconv.api import Conversion, conversion
from tests.openvino.live import Feed, assert_close, check, model_of, numbers, run_onnx, run_openvino
from tests.openvino.ops.test_compressed_products import compressed
from tests.openvino.weights import CODED, coded
from tests.running import WAYS, run

EXPERTS, COLUMNS, INNER, CHOSEN = 5, 32, 64, 2
FEEDS = [[numbers(rows, COLUMNS, seed=rows, low=-1, high=1)] for rows in (7, 1, 12)]


def ints(*values: int) -> Any:
    return opset1.constant(np.array(values, np.int64))


def matrices(element: str, rows: int, columns: int, seed: int) -> Any:
    """Returns a matrix [rows, columns] for each expert, as floats or compressed."""
    if element == "f32":
        return opset1.constant(numbers(EXPERTS, rows, columns, seed=seed, low=-0.3, high=0.3))
    if element == "f16":
        return opset1.convert(
            opset1.constant(numbers(EXPERTS, rows, columns, dtype=np.float16, seed=seed, low=-0.3, high=0.3)), "f32"
        )
    if element in ("u8", "i8"):
        value, _ = compressed(element, (EXPERTS, rows, columns), (EXPERTS, rows, 1), "f16", points=element == "u8")
        return opset1.convert(value, "f32")
    shapes = (EXPERTS, rows, columns // 16, 16), (EXPERTS, rows, columns // 16, 1)
    if element in CODED:
        value, _ = coded(element, *shapes, "f16", seed=seed)
    else:
        value, _ = compressed(element, *shapes, "f16", points=element == "u4")
    return opset1.convert(opset1.reshape(value, ints(EXPERTS, rows, columns), False), "f32")


def table(x: Any, gate: Any = None) -> tuple[Any, Any]:
    """Returns factors [rows, experts], most of them zeros, and how many rows there are, as a vector."""
    gate = opset1.matmul(x, numbers(EXPERTS, COLUMNS, seed=5), False, True) if gate is None else gate
    best = opset11.topk(opset8.softmax(gate, -1), np.int64(CHOSEN), -1, "max", "value", "i64")
    rows = opset8.gather(opset3.shape_of(best.output(1)), ints(0), np.int64(0))
    zeros = opset3.broadcast(np.float32(0), opset1.concat([rows, ints(EXPERTS)], 0))
    updated = opset12.scatter_elements_update(zeros, best.output(1), best.output(0), np.int64(1))
    return updated, rows


def gated(x: Any, element: str, *, apart: bool = False) -> Any:
    """Three products with Swish between them; where `apart`, with biases, limits, and one axis more in the end."""
    copies = opset1.reshape(opset1.tile(x, ints(EXPERTS, 1)), ints(EXPERTS, -1, COLUMNS), False)
    if apart:
        both = opset1.matmul(copies, matrices(element, 2 * INNER, COLUMNS, 1), False, True)
        both = opset1.add(both, numbers(EXPERTS, 1, 2 * INNER, seed=8))
        gate, up = (opset8.slice(both, ints(start), ints(np.iinfo(np.int64).max), ints(2), ints(2)) for start in (0, 1))
        gate = opset1.minimum(gate, np.full((1, 1, 1), 0.7, np.float32))
        up = opset1.add(opset1.clamp(up, -1.0, 1.0), np.ones((1, 1, 1), np.float32))
        inner = opset1.multiply(up, opset1.multiply(gate, opset1.sigmoid(gate)))
    else:
        gate = opset1.matmul(copies, matrices(element, INNER, COLUMNS, 1), False, True)
        up = opset1.matmul(copies, matrices(element, INNER, COLUMNS, 2), False, True)
        inner = opset1.multiply(opset4.swish(gate), up)
    results = opset1.matmul(inner, matrices(element, COLUMNS, INNER, 3), False, True)
    factors, rows = table(x)
    turned = opset1.transpose(factors, ints(1, 0))
    if not apart:
        return opset1.reduce_sum(opset1.multiply(results, opset1.unsqueeze(turned, ints(2))), ints(0), False)
    results = opset1.add(results, numbers(EXPERTS, 1, COLUMNS, seed=9))
    split = opset1.reshape(results, opset1.concat([ints(EXPERTS), rows, ints(-1), ints(COLUMNS)], 0), False)
    column = opset1.unsqueeze(opset1.reshape(turned, opset1.concat([ints(EXPERTS), rows, ints(1)], 0), False), ints(3))
    return opset1.reduce_sum(opset1.multiply(split, column), ints(0), False)


def conditions(converted: Conversion) -> int:
    return [node.op_type for node in converted.model.graph].count("If")


def gathered(converted: Conversion, op: str = "GatherMatMulCompressed") -> int:
    return [node.op_type for node in converted.model.graph].count(op)


def bodies(model: onnx.ModelProto) -> list[onnx.GraphProto]:
    return [attribute.g for node in model.graph.node if node.op_type == "If" for attribute in node.attribute]


@pytest.mark.parametrize("element", ["f32", "f16", "u8", "i8", "u4", "i4", *CODED])
@pytest.mark.parametrize("apart", [False, True])
def test_rows_go_to_their_experts(element: str, apart: bool) -> None:
    source = model_of(lambda x: gated(x, element, apart=apart), FEEDS)
    converted, expected = conversion(source), run_openvino(source, FEEDS)
    is_compressed = element not in ("f32", "f16")
    assert conditions(converted) == (0 if is_compressed else EXPERTS)
    op = "GatherMatMulCodebook" if element in CODED else "GatherMatMulCompressed"
    assert gathered(converted, op) == ((2 if apart else 3) if is_compressed else 0)
    model = converted.to_proto()
    kinds = {node.op_type for node in model.graph.node} | {node.op_type for body in bodies(model) for node in body.node}
    assert not kinds & {"DequantizeLinear", "Tile"}
    assert ("ScatterElements" in kinds) != is_compressed
    assert "Where" not in kinds  # no row chose an expert twice
    for feed, (theirs,) in zip(FEEDS, expected, strict=True):
        for way in WAYS:
            (mine,) = run(model, {model.graph.input[0].name: feed[0]}, way)
            assert_close(mine, theirs, 64, way)


@pytest.mark.parametrize("element", ["f32", "u4"])
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("target", ["auto", "onnx"])
def test_sizes_that_are_known(element: str, apart: bool, target: Any) -> None:
    converted = check(model_of(lambda x: gated(x, element, apart=apart), FEEDS[:1]), FEEDS[0], bound=64, target=target)
    assert conditions(converted) == (EXPERTS if element == "f32" or target == "onnx" else 0)


@pytest.mark.parametrize("element", ["f32", "u4"])
def test_no_rows(element: str) -> None:
    converted = conversion(model_of(lambda x: gated(x, element), FEEDS))
    (y,) = run_onnx(converted, [[np.zeros((0, COLUMNS), np.float32)]])[0]
    assert y.shape == (0, COLUMNS)


def test_an_expert_that_nobody_chose_may_give_infinities() -> None:
    """Its results times zero would be no numbers."""

    def build(x: Any) -> Any:
        copies = opset1.reshape(opset1.tile(x, ints(EXPERTS, 1)), ints(EXPERTS, -1, COLUMNS), False)
        weights = numbers(EXPERTS, COLUMNS, COLUMNS, low=-0.3, high=0.3)
        results = opset1.matmul(copies, weights, False, True)
        results = opset1.exp(
            opset1.multiply(opset1.abs(results), np.array([[[1e4]], *[[[1]]] * (EXPERTS - 1)], np.float32))
        )
        factors, _ = table(x)
        column = opset1.unsqueeze(opset1.transpose(factors, ints(1, 0)), ints(2))
        return opset1.reduce_sum(opset1.multiply(results, column), ints(0), False)

    rows = numbers(40, COLUMNS, seed=3, low=-1, high=1)
    best = np.argsort(rows @ numbers(EXPERTS, COLUMNS, seed=5).T)[:, -CHOSEN:]
    feed = [rows[(best != 0).all(axis=1)]]
    assert len(feed[0])
    converted = conversion(model_of(build, FEEDS))
    assert conditions(converted) == EXPERTS
    ((y,),) = run_onnx(converted, [feed])
    assert np.isfinite(y).all()


def test_a_sum_that_keeps_the_axis_of_the_experts_stays() -> None:
    def build(x: Any) -> Any:
        copies = opset1.reshape(opset1.tile(x, ints(EXPERTS, 1)), ints(EXPERTS, -1, COLUMNS), False)
        results = opset1.matmul(copies, matrices("f32", COLUMNS, COLUMNS, 1), False, True)
        column = opset1.unsqueeze(opset1.transpose(table(x)[0], ints(1, 0)), ints(2))
        return opset1.reduce_sum(opset1.multiply(results, column), ints(0), True)

    assert not conditions(check(model_of(build, FEEDS), *FEEDS, bound=64))


LIKE: dict[str, Callable[[Any, Any, Any], Any]] = {
    "other rows": lambda x, _, y: mixed(x, table(y)[0], ints(EXPERTS, 1)),
    "no table": lambda x, y, _: mixed(x, y, ints(EXPERTS, 1)),
    "other copies": lambda x, _, __: mixed(x, table(x)[0], ints(1, EXPERTS)),
}


def mixed(x: Any, factors: Any, repeats: Any) -> Any:
    copies = opset1.reshape(opset1.tile(x, repeats), ints(EXPERTS, -1, COLUMNS), False)
    results = opset1.matmul(copies, numbers(EXPERTS, COLUMNS, COLUMNS, low=-0.3, high=0.3), False, True)
    column = opset1.unsqueeze(opset1.transpose(factors, ints(1, 0)), ints(2))
    return opset1.reduce_sum(opset1.multiply(results, column), ints(0), False)


@pytest.mark.parametrize("like", LIKE)
def test_what_only_looks_like_it(like: str) -> None:
    feeds: list[Feed] = [
        [numbers(rows, COLUMNS), numbers(rows, EXPERTS, seed=1), numbers(rows, COLUMNS, seed=2)] for rows in (3, 1)
    ]
    source = model_of(LIKE[like], feeds, [[-1, COLUMNS], [-1, EXPERTS], [-1, COLUMNS]])
    assert conditions(check(source, *feeds, bound=64)) == 0


def test_one_row_of_factors_for_all_rows() -> None:
    """Sizes that are one at run time broadcast."""
    source = model_of(
        lambda x, y: mixed(x, table(y)[0], ints(EXPERTS, 1)),
        [[numbers(3, COLUMNS), numbers(1, COLUMNS)]],
        [[-1, COLUMNS], [-1, COLUMNS]],
    )
    converted = check(source, [numbers(3, COLUMNS), numbers(1, COLUMNS, seed=4)], bound=64)
    assert conditions(converted) == 0


def test_the_matrices_lie_in_the_file_once(tmp_path: Any) -> None:
    openvino.save_model(model_of(lambda x: gated(x, "u4"), FEEDS), tmp_path / "model.xml", compress_to_fp16=False)
    packed = 2 * EXPERTS * COLUMNS * INNER // 2  # two of the three are equal here
    conversion(tmp_path / "model.xml").save(tmp_path / "model.onnx")
    stored = [each for each in onnx.load(tmp_path / "model.onnx").graph.initializer if each.data_type == 21]
    assert sum(len(each.raw_data) for each in stored if len(each.dims) == 3 and each.dims[2] > 4) == packed


def test_as_many_experts_as_columns() -> None:
    """OpenVINO takes the shape of the table from the data then."""

    def build(x: Any) -> Any:
        gate = opset1.matmul(x, numbers(EXPERTS, EXPERTS, seed=5), False, True)
        best = opset11.topk(opset8.softmax(gate, -1), np.int64(CHOSEN), -1, "max", "value", "i64")
        zeros = opset3.broadcast(np.float32(0), opset3.shape_of(x))
        factors = opset12.scatter_elements_update(zeros, best.output(1), best.output(0), np.int64(1))
        copies = opset1.reshape(opset1.tile(x, ints(EXPERTS, 1)), ints(EXPERTS, -1, EXPERTS), False)
        results = opset1.matmul(copies, numbers(EXPERTS, EXPERTS, EXPERTS, seed=6), False, True)
        column = opset1.unsqueeze(opset1.transpose(factors, ints(1, 0)), ints(2))
        return opset1.reduce_sum(opset1.multiply(results, column), ints(0), False)

    feeds = [[numbers(rows, EXPERTS)] for rows in (6, 1)]
    assert conditions(check(model_of(build, feeds), *feeds, bound=64)) == EXPERTS


def twice_chosen(x: Any, *, numbers_of: int = EXPERTS, quotient: bool = False) -> Any:
    """Each row chooses an expert by each of two gates, which may be the same; the table has the second factor then."""
    best = [
        opset11.topk(
            opset1.matmul(x, numbers(numbers_of, COLUMNS, seed=seed), False, True),
            np.int64(1),
            -1,
            "max",
            "value",
            "i64",
        )
        for seed in (5, 6)
    ]
    index = opset1.concat([each.output(1) for each in best], 1)
    rows = opset8.gather(opset3.shape_of(index), ints(0), np.int64(0))
    zeros = opset3.broadcast(np.float32(0), opset1.concat([rows, ints(EXPERTS)], 0))
    factors = opset12.scatter_elements_update(
        zeros, index, opset1.concat([each.output(0) for each in best], 1), np.int64(1)
    )
    copies = opset1.reshape(opset1.tile(x, ints(EXPERTS, 1)), ints(EXPERTS, -1, COLUMNS), False)
    results = opset1.matmul(copies, matrices("u4", COLUMNS, COLUMNS, 1), False, True)
    if quotient:
        results = opset1.divide(results, opset1.abs(results))
    column = opset1.unsqueeze(opset1.transpose(factors, ints(1, 0)), ints(2))
    return opset1.reduce_sum(opset1.multiply(results, column), ints(0), False)


@pytest.mark.parametrize("quotient", [False, True])
def test_a_row_that_chooses_an_expert_twice(quotient: bool) -> None:
    """The choice that does not count has zeros, of which a quotient is no number."""
    feeds = [[numbers(rows, COLUMNS, seed=rows, low=-1, high=1)] for rows in (40, 1)]
    gates = [feeds[0][0] @ numbers(EXPERTS, COLUMNS, seed=seed).T for seed in (5, 6)]
    assert (gates[0].argmax(1) == gates[1].argmax(1)).any()
    assert gathered(check(model_of(lambda x: twice_chosen(x, quotient=quotient), feeds), *feeds, bound=64)) == 1


def test_choices_among_fewer_experts_stay_conditions() -> None:
    feeds = [[numbers(rows, COLUMNS, seed=rows, low=-1, high=1)] for rows in (7, 1)]
    converted = check(model_of(lambda x: twice_chosen(x, numbers_of=EXPERTS - 1), feeds), *feeds, bound=64)
    assert (gathered(converted), conditions(converted)) == (0, EXPERTS)


def scattered(x: Any, base: Any) -> Any:
    gate = opset1.matmul(x, numbers(EXPERTS, COLUMNS, seed=5), False, True)
    best = opset11.topk(gate, np.int64(CHOSEN), -1, "max", "value", "i64")
    rows = opset8.gather(opset3.shape_of(best.output(1)), ints(0), np.int64(0))
    zeros = opset3.broadcast(base, opset1.concat([rows, ints(EXPERTS)], 0))
    factors = opset12.scatter_elements_update(zeros, best.output(1), best.output(0), np.int64(1))
    copies = opset1.reshape(opset1.tile(x, ints(EXPERTS, 1)), ints(EXPERTS, -1, COLUMNS), False)
    results = opset1.matmul(copies, matrices("u8", COLUMNS, COLUMNS, 1), False, True)
    column = opset1.unsqueeze(opset1.transpose(factors, ints(1, 0)), ints(2))
    return opset1.reduce_sum(opset1.multiply(results, column), ints(0), False)


@pytest.mark.parametrize("base", [0.0, 0.5])
def test_a_table_that_is_not_zeros_otherwise(base: float) -> None:
    converted = check(model_of(lambda x: scattered(x, np.float32(base)), FEEDS), *FEEDS, bound=64)
    assert (gathered(converted), conditions(converted)) == ((1, 0) if base == 0 else (0, EXPERTS))


@pytest.mark.parametrize("element", ["u4", "i8"])
def test_matrices_that_lie_the_other_way(element: str) -> None:
    """Their columns are transposed; scales of groups of rows then are scales of a row."""

    def build(x: Any) -> Any:
        copies = opset1.reshape(opset1.tile(x, ints(EXPERTS, 1)), ints(EXPERTS, -1, COLUMNS), False)
        bits = {"u4": (16, 1), "i8": (COLUMNS, 1)}[element]
        shape = (EXPERTS, COLUMNS // bits[0], bits[0], INNER)
        value, _ = compressed(element, shape, (EXPERTS, COLUMNS // bits[0], 1, INNER), "f16", points=element == "u4")
        weights = opset1.convert(opset1.reshape(value, ints(EXPERTS, COLUMNS, INNER), False), "f32")
        results = opset1.matmul(copies, weights, False, False)
        column = opset1.unsqueeze(opset1.transpose(table(x)[0], ints(1, 0)), ints(2))
        return opset1.reduce_sum(opset1.multiply(results, column), ints(0), False)

    assert gathered(check(model_of(build, FEEDS), *FEEDS, bound=64)) == 1


def test_rows_that_chose_nothing() -> None:
    """The table has more rows than there are choices, and is zeros there."""

    def build(x: Any) -> Any:
        gate = opset1.matmul(x, numbers(EXPERTS, COLUMNS, seed=5), False, True)
        most = opset8.slice(gate, ints(1), ints(np.iinfo(np.int64).max), ints(1), ints(0))
        best = opset11.topk(most, np.int64(CHOSEN), -1, "max", "value", "i64")
        zeros = opset3.broadcast(np.float32(0), opset3.shape_of(gate))
        factors = opset12.scatter_elements_update(zeros, best.output(1), best.output(0), np.int64(1))
        copies = opset1.reshape(opset1.tile(x, ints(EXPERTS, 1)), ints(EXPERTS, -1, COLUMNS), False)
        results = opset1.matmul(copies, matrices("u8", COLUMNS, COLUMNS, 1), False, True)
        column = opset1.unsqueeze(opset1.transpose(factors, ints(1, 0)), ints(2))
        return opset1.reduce_sum(opset1.multiply(results, column), ints(0), False)

    converted = check(model_of(build, FEEDS), *FEEDS, bound=64)
    assert (gathered(converted), conditions(converted)) == (0, EXPERTS)


def summed_choices(x: Any) -> Any:
    """Each row chooses twice, and the factors of the same expert are added up."""
    gates = [opset1.matmul(x, numbers(EXPERTS, COLUMNS, seed=seed), False, True) for seed in (5, 6)]
    best = [opset11.topk(gate, np.int64(1), -1, "max", "value", "i64") for gate in gates]
    zeros = opset3.broadcast(np.float32(0), opset3.shape_of(gates[0]))
    index, factors = (opset1.concat([each.output(port) for each in best], 1) for port in (1, 0))
    return opset12.scatter_elements_update(zeros, index, factors, np.int64(1), "sum")


def scattered_along_rows(x: Any) -> Any:
    """The numbers that a row chose are rows of the table, of which the same may be chosen by several."""
    gate = opset1.matmul(x, numbers(EXPERTS, COLUMNS, seed=5), False, True)
    best = opset11.topk(gate, np.int64(CHOSEN), -1, "max", "value", "i64")
    zeros = opset3.broadcast(np.float32(0), opset3.shape_of(gate))
    return opset12.scatter_elements_update(zeros, best.output(1), best.output(0), np.int64(0))


def best_rows(x: Any) -> Any:
    """Each column has numbers of rows, which are taken for those of experts: a row may have the same one twice."""
    gate = opset1.matmul(x, numbers(EXPERTS, COLUMNS, seed=5), False, True)
    best = opset11.topk(gate, np.int64(3), 0, "max", "value", "i64")
    zeros = opset3.broadcast(np.float32(0), opset3.shape_of(gate))
    return opset12.scatter_elements_update(zeros, best.output(1), best.output(0), np.int64(1))


@pytest.mark.parametrize(("factors", "rows"), [(summed_choices, 40), (scattered_along_rows, 7), (best_rows, 3)])
def test_tables_of_other_choices(factors: Callable[[Any], Any], rows: int) -> None:
    def build(x: Any) -> Any:
        copies = opset1.reshape(opset1.tile(x, ints(EXPERTS, 1)), ints(EXPERTS, -1, COLUMNS), False)
        results = opset1.matmul(copies, matrices("u8", COLUMNS, COLUMNS, 1), False, True)
        column = opset1.unsqueeze(opset1.transpose(factors(x), ints(1, 0)), ints(2))
        return opset1.reduce_sum(opset1.multiply(results, column), ints(0), False)

    feed = [numbers(rows, COLUMNS, low=-1, high=1)]
    converted = check(model_of(build, [feed]), feed, bound=64)
    assert (gathered(converted), conditions(converted)) == (0, EXPERTS)


def scores(x: Any) -> Any:
    return opset1.matmul(x, numbers(EXPERTS, COLUMNS, seed=5), False, True)


def weighed(results: Any, factors: Any) -> Any:
    column = opset1.unsqueeze(opset1.transpose(factors, ints(1, 0)), ints(2))
    return opset1.reduce_sum(opset1.multiply(results, column), ints(0), False)


def multiplied(x: Any, columns: int = COLUMNS) -> Any:
    copies = opset1.reshape(opset1.tile(x, ints(EXPERTS, 1)), ints(EXPERTS, -1, columns), False)
    return opset1.matmul(copies, numbers(EXPERTS, columns, columns, low=-0.3, high=0.3), False, True)


def in_one_table(x: Any, _: Any) -> Any:
    """Matrices one below the other in groups that know of no experts."""
    value, _ = compressed("u4", (EXPERTS * COLUMNS, 2, 16), (EXPERTS * COLUMNS, 2, 1), "f16", points=True)
    matrices = opset1.convert(opset1.reshape(value, ints(EXPERTS, COLUMNS, COLUMNS), False), "f32")
    copies = opset1.reshape(opset1.tile(x, ints(EXPERTS, 1)), ints(EXPERTS, -1, COLUMNS), False)
    return weighed(opset1.matmul(copies, matrices, False, True), table(x)[0])


def as_many_rows_as_columns(_: Any, y: Any) -> Any:
    """Of factors; the data have one."""
    x = opset1.matmul(y, numbers(7, COLUMNS), False, False)
    best = opset11.topk(scores(x), np.int64(CHOSEN), -1, "max", "value", "i64")
    sizes = opset1.concat([opset8.gather(opset3.shape_of(y), ints(1), np.int64(0)), ints(EXPERTS)], 0)
    zeros = opset3.broadcast(np.float32(0), sizes)
    return weighed(multiplied(x), opset12.scatter_elements_update(zeros, best.output(1), best.output(0), np.int64(1)))


ROW, ROWS = [numbers(1, COLUMNS), numbers(1, 7)], [numbers(7, COLUMNS), numbers(7, 7)]
NEARLY: dict[str, tuple[Callable[[Any, Any], Any], Feed, list[list[int]] | None]] = {
    "a number for each row": (
        lambda x, _: weighed(opset1.add(multiplied(x), numbers(1, 7, COLUMNS)), table(x)[0]),
        ROWS,
        None,
    ),
    "copies of other data": (
        lambda x, _: weighed(opset1.multiply(multiplied(x), multiplied(opset1.relu(x))), table(x)[0]),
        ROWS,
        None,
    ),
    "a mean": (
        lambda x, _: weighed(
            opset1.subtract(multiplied(x), opset1.reduce_mean(multiplied(x), ints(1), True)), table(x)[0]
        ),
        ROWS,
        None,
    ),
    "halves of rows": (
        lambda x, _: weighed(multiplied(x, COLUMNS // 2), table(x)[0]),
        ROW,
        [[-1, COLUMNS], [-1, 7]],
    ),
    "a sum of scores of several rows": (
        lambda x, y: weighed(
            multiplied(x),
            table(x, opset1.add(scores(x), opset1.matmul(y, numbers(7, EXPERTS), False, False)))[0],
        ),
        [ROW[0], ROWS[1]],
        [[-1, COLUMNS], [-1, 7]],
    ),
    "one row of factors for as many rows as experts": (
        lambda x, y: weighed(multiplied(x), table(x, opset1.matmul(y, numbers(7, EXPERTS), False, False))[0]),
        [numbers(EXPERTS, COLUMNS), ROW[1]],
        None,
    ),
    "matrices in one table": (in_one_table, ROWS, None),
    "as many rows as columns": (as_many_rows_as_columns, ROW, [[-1, COLUMNS], [-1, -1]]),
}


@pytest.mark.parametrize("name", NEARLY)
@pytest.mark.parametrize("target", ["auto", "onnx"])
def test_what_nearly_is_a_mixture(name: str, target: Any) -> None:
    build, feed, declared = NEARLY[name]
    converted = check(model_of(build, [feed], declared), feed, bound=256, target=target)
    assert (gathered(converted), conditions(converted)) == (0, 0)


@pytest.mark.parametrize("axis", [0, 1])
def test_results_in_another_order(axis: int) -> None:
    """Of the experts, or of the rows."""

    def build(x: Any) -> Any:
        copies = opset1.reshape(opset1.tile(x, ints(EXPERTS, 1)), ints(EXPERTS, -1, COLUMNS), False)
        results = opset1.matmul(copies, numbers(EXPERTS, COLUMNS, COLUMNS), False, True)
        results = opset8.slice(results, ints(-1), ints(np.iinfo(np.int64).min), ints(-1), ints(axis))
        column = opset1.unsqueeze(opset1.transpose(table(x)[0], ints(1, 0)), ints(2))
        return opset1.reduce_sum(opset1.multiply(results, column), ints(0), False)

    assert conditions(check(model_of(build, FEEDS), *FEEDS, bound=64)) == 0


def test_factors_of_columns() -> None:
    """Of a table of two rows come factors of two columns, for all rows."""

    def build(x: Any) -> Any:
        copies = opset1.reshape(opset1.tile(x, ints(EXPERTS, 1)), ints(EXPERTS, 2, 2), False)
        results = opset1.matmul(copies, numbers(EXPERTS, 2, 2), False, True)
        gate = opset1.matmul(x, numbers(EXPERTS, 2, seed=5), False, True)
        turned = opset1.transpose(table(x, gate)[0], ints(1, 0))
        return opset1.reduce_sum(opset1.multiply(results, opset1.unsqueeze(turned, ints(1))), ints(0), False)

    feed = [numbers(2, 2)]
    assert conditions(check(model_of(build, [feed]), feed, bound=64)) == 0


@pytest.mark.parametrize("element", ["f32", "u8"])
@pytest.mark.parametrize("lead", [(), (1,)])
def test_a_matrix_that_all_experts_share(element: str, lead: tuple[int, ...]) -> None:
    """Each expert has numbers of its own besides."""

    def build(x: Any) -> Any:
        copies = opset1.reshape(opset1.tile(x, ints(EXPERTS, 1)), ints(EXPERTS, -1, COLUMNS), False)
        copies = opset1.multiply(copies, numbers(EXPERTS, 1, COLUMNS))
        shape = (*lead, COLUMNS, COLUMNS)
        if element == "f32":
            matrix = opset1.constant(numbers(*shape))
        else:
            matrix = opset1.convert(compressed(element, shape, (*lead, COLUMNS, 1), "f16", points=True)[0], "f32")
        results = opset1.matmul(copies, matrix, False, True)
        column = opset1.unsqueeze(opset1.transpose(table(x)[0], ints(1, 0)), ints(2))
        return opset1.reduce_sum(opset1.multiply(results, column), ints(0), False)

    converted = check(model_of(build, FEEDS), *FEEDS, bound=64)
    assert (gathered(converted), conditions(converted)) == (0, 0)


@pytest.mark.parametrize(("number_type", "op_type"), [("i32", "GatherMatMulCompressed"), ("i8", "If")])
def test_numbers_of_experts_that_become_another_type(number_type: str, op_type: str) -> None:
    """Of 160 experts the last 32 are negative in 8 bits, which a table counts from its end."""
    count = 160

    def build(x: Any) -> Any:
        gate = opset1.matmul(x, numbers(count, COLUMNS, seed=5), False, True)
        best = opset11.topk(gate, np.int64(CHOSEN), -1, "max", "value", "i64")
        index = opset1.convert(opset1.convert(best.output(1), number_type), "i64")
        rows = opset8.gather(opset3.shape_of(index), ints(0), np.int64(0))
        zeros = opset3.broadcast(np.float32(0), opset1.concat([rows, ints(count)], 0))
        factors = opset12.scatter_elements_update(zeros, index, best.output(0), np.int64(1))
        copies = opset1.reshape(opset1.tile(x, ints(count, 1)), ints(count, -1, COLUMNS), False)
        value, _ = compressed("u8", (count, 4, COLUMNS), (count, 4, 1), "f16", points=True)
        results = opset1.matmul(copies, opset1.convert(value, "f32"), False, True)
        column = opset1.unsqueeze(opset1.transpose(factors, ints(1, 0)), ints(2))
        return opset1.reduce_sum(opset1.multiply(results, column), ints(0), False)

    feeds = [[numbers(rows, COLUMNS, seed=rows)] for rows in (60, 1)]
    chosen = np.argsort(feeds[0][0] @ numbers(count, COLUMNS, seed=5).T)[:, -CHOSEN:]
    assert (chosen >= 128).any()
    assert {node.op_type for node in check(model_of(build, feeds), *feeds, bound=64).model.graph} & {
        "GatherMatMulCompressed",
        "If",
    } == {op_type}


def test_copies_of_one_row_that_have_no_axis_for_it() -> None:
    def build(x: Any) -> Any:
        copies = opset1.reshape(opset1.tile(x, ints(EXPERTS, 1)), ints(EXPERTS, COLUMNS), False)
        column = opset1.unsqueeze(opset1.transpose(table(x)[0], ints(1, 0)), ints(2))
        results = opset1.add(copies, numbers(EXPERTS, 1, 1))
        return opset1.reduce_sum(opset1.multiply(results, column), ints(0), False)

    feed = [numbers(1, COLUMNS)]
    assert not conditions(check(model_of(build, [feed], [[-1, COLUMNS]]), feed, bound=64))

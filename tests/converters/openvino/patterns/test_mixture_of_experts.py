"""Mixtures of experts as exporters write them: each expert computes the rows that chose it, as in OpenVINO's plugin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import openvino
import pytest
from openvino import opset1, opset3, opset8, opset11, opset12

from ortconv.api import conversion
from tests.converters.openvino.live import assert_close, check, model_of, numbers, run_onnx, run_openvino
from tests.converters.openvino.patterns.mixtures import (
    CHOSEN,
    COLUMNS,
    EXPERTS,
    FEEDS,
    INNER,
    bodies,
    conditions,
    gated,
    gathered,
    ints,
    matrices,
    table,
)
from tests.converters.openvino.weights.test_compressed_matmul import compressed
from tests.converters.openvino.weights.weight_models import CODED
from tests.running import WAYS, run


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
    """Choices by several TopK stay conditions."""
    feeds = [[numbers(rows, COLUMNS, seed=rows, low=-1, high=1)] for rows in (40, 1)]
    gates = [feeds[0][0] @ numbers(EXPERTS, COLUMNS, seed=seed).T for seed in (5, 6)]
    assert (gates[0].argmax(1) == gates[1].argmax(1)).any()
    converted = check(model_of(lambda x: twice_chosen(x, quotient=quotient), feeds), *feeds, bound=64)
    assert (gathered(converted), conditions(converted)) == (0, EXPERTS)


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

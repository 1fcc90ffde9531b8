"""What looks like a mixture of experts and is none, or none that could be one operator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from openvino import opset1, opset3, opset8, opset11, opset12

from tests.converters.openvino.live import Feed, check, model_of, numbers
from tests.converters.openvino.patterns.mixtures import (
    CHOSEN,
    COLUMNS,
    EXPERTS,
    FEEDS,
    conditions,
    gathered,
    ints,
    matrices,
    table,
)
from tests.converters.openvino.weights.test_compressed_matmul import compressed


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


def test_copies_of_one_row_that_have_no_axis_for_it() -> None:
    def build(x: Any) -> Any:
        copies = opset1.reshape(opset1.tile(x, ints(EXPERTS, 1)), ints(EXPERTS, COLUMNS), False)
        column = opset1.unsqueeze(opset1.transpose(table(x)[0], ints(1, 0)), ints(2))
        results = opset1.add(copies, numbers(EXPERTS, 1, 1))
        return opset1.reduce_sum(opset1.multiply(results, column), ints(0), False)

    feed = [numbers(1, COLUMNS)]
    assert not conditions(check(model_of(build, [feed], [[-1, COLUMNS]]), feed, bound=64))

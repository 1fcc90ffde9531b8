"""Layer and instance normalisations become one node; whatever is not quite one stays the formula that it was."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import openvino
import pytest
from openvino import opset1, opset6

from tests.converters.openvino.live import check, model_of, numbers

Node = openvino.Node

FORMULA = Counter(ReduceMean=2, Sub=1, Mul=1, Add=1, Sqrt=1, Div=1)
LAYER, INSTANCE = Counter(LayerNormalization=1), Counter(InstanceNormalization=1)
SCALE, SHIFT = Counter(Mul=1), Counter(Add=1)


def standardized(x: Node, *axes: int, mode: str = "inside_sqrt") -> Node:
    return opset6.mvn(x, np.array(axes), True, 1e-3, mode)


def scaled(x: Node, *shape: int) -> Node:
    return opset1.multiply(x, numbers(*shape, seed=1))


def shifted(x: Node, *shape: int) -> Node:
    return opset1.add(x, numbers(*shape, seed=2))


def emitted(build: Callable[[Node], Node], *shapes: tuple[int, ...]) -> Counter[str]:
    feeds = [[numbers(*shape, seed=number) + np.float32(40)] for number, shape in enumerate(shapes)]
    converted = check(model_of(build, feeds), *feeds, bound=256)
    used = {value for node in converted.model.graph for value in node.inputs}
    assert set(converted.model.graph.initializers.values()) <= used
    return Counter(node.op_type for node in converted.model.graph)


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda x: shifted(scaled(standardized(x, -1), 6), 6), LAYER),
        (lambda x: shifted(scaled(standardized(x, 2), 1, 1, 6), 6), LAYER),
        (lambda x: shifted(scaled(standardized(x, -1, 1), 5, 6), 1, 5, 6), LAYER),
        (lambda x: scaled(standardized(x, -1), 6), LAYER),
        (lambda x: shifted(scaled(standardized(x, -1), 6), 5, 6), LAYER + SHIFT),
        (lambda x: shifted(scaled(standardized(x, -1), 6), 1), LAYER + SHIFT),
        (lambda x: shifted(scaled(standardized(x, -1), 1, 1, 1, 6), 6), LAYER + SCALE + SHIFT),
        (lambda x: shifted(scaled(standardized(x, -1), 5, 6), 6), LAYER + SCALE + SHIFT),
        (lambda x: shifted(scaled(standardized(x, -1), 1), 6), LAYER + SCALE + SHIFT),
        (lambda x: scaled(standardized(x, -1, 1), 1), FORMULA + SCALE),
        (lambda x: shifted(scaled(standardized(x, 0, -1), 6), 6), FORMULA + SCALE + SHIFT),
        (lambda x: shifted(scaled(standardized(x, -1, mode="outside_sqrt"), 6), 6), FORMULA + SCALE + SHIFT),
        (lambda x: shifted(standardized(x, -1), 6), LAYER + SHIFT),
        (lambda x: standardized(x, -1), LAYER),
        (lambda x: shifted(scaled(standardized(x, 2), 5, 1), 1, 5, 1), INSTANCE),
        (lambda x: scaled(standardized(x, 2), 5, 1), LAYER + SCALE),
        (lambda x: shifted(scaled(standardized(x, 2), 5, 1), 1), LAYER + SCALE + SHIFT),
    ],
)
@pytest.mark.parametrize("shapes", [((2, 5, 6),), ((2, 5, 6), (3, 5, 6))])
def test_normalization(
    build: Callable[[Node], Node], expected: Counter[str], shapes: tuple[tuple[int, ...], ...]
) -> None:
    assert emitted(build, *shapes) == expected


@pytest.mark.parametrize("sizes", [((4, 6), (4, 6)), ((4, 6), (7, 3))])
def test_instances_of_an_image(sizes: tuple[tuple[int, int], ...]) -> None:
    found = emitted(lambda x: shifted(scaled(standardized(x, 2, 3), 1, 5, 1, 1), 5, 1, 1), *((2, 5, *s) for s in sizes))
    assert found == INSTANCE


def test_instances_without_scale_that_data_scale() -> None:
    def build(x: Node) -> Node:
        return opset1.multiply(standardized(x, 2, 3), opset1.sigmoid(opset1.reduce_mean(x, np.array([2, 3]), True)))

    found = emitted(build, (2, 5, 4, 6), (3, 5, 7, 2))
    assert found == INSTANCE + Counter(ReduceMean=1, Sigmoid=1, Mul=1)


def test_size_of_the_last_axis_must_be_known() -> None:
    def build(x: Node) -> Node:
        return shifted(scaled(standardized(x, -1), 6), 6)

    x = opset1.parameter([2, -1], np.float32)
    converted = check(openvino.Model([build(x)], [x]), [numbers(2, 6)], bound=256)
    assert "LayerNormalization" not in {node.op_type for node in converted.model.graph}


@pytest.mark.parametrize("kept", range(3))
def test_what_is_an_output_too_stays(kept: int) -> None:
    x = opset1.parameter([2, 6], np.float32)
    distance = opset1.subtract(x, opset1.reduce_mean(x, np.array([1]), True))
    variance = opset1.reduce_mean(opset1.multiply(distance, distance), np.array([1]), True)
    standard = opset1.divide(distance, opset1.sqrt(opset1.add(variance, np.float32(1e-3))))
    multiplied = scaled(standard, 6)
    model = openvino.Model([shifted(multiplied, 6), (distance, standard, multiplied)[kept]], [x])
    converted = check(model, [numbers(2, 6)], bound=256)
    found = Counter(node.op_type for node in converted.model.graph)
    assert found == (FORMULA + SCALE + SHIFT, LAYER + SCALE + SHIFT, LAYER + SHIFT)[kept]


def test_formula_of_the_source_is_one_too() -> None:
    def build(x: Node) -> Node:
        distance = opset1.subtract(x, opset1.reduce_mean(x, np.array([1]), True))
        variance = opset1.reduce_mean(opset1.multiply(distance, distance), np.array([1]), True)
        return scaled(opset1.divide(distance, opset1.sqrt(opset1.add(variance, np.float32(1e-3)))), 6)

    assert emitted(build, (2, 6)) == LAYER


def test_layers_share_their_constants() -> None:
    scale, shift = numbers(1, 1, 6, seed=1), numbers(1, 1, 6, seed=2)

    def build(x: Node) -> Node:
        for _ in range(3):
            x = opset1.add(opset1.multiply(standardized(x, 2), scale.copy()), shift.copy())
        return x

    feed = [numbers(2, 3, 6)]
    converted = check(model_of(build, [feed]), feed, bound=256)
    assert Counter(node.op_type for node in converted.model.graph) == Counter(LayerNormalization=3)
    assert len({name for node in converted.model.graph for name in (node.inputs[1], node.inputs[2])}) == 2

"""Random shapes: what is drawn."""

from __future__ import annotations

import math

import pytest

from benchmarks.distributions import DISTRIBUTIONS, has_gaps, shapes

DRAWN = {distribution: shapes(1, 400, distribution) for distribution in DISTRIBUTIONS}

each_distribution = pytest.mark.parametrize("distribution", list(DISTRIBUTIONS))


@each_distribution
def test_a_seed_names_one_list(distribution: str) -> None:
    drawn = DRAWN[distribution]
    assert shapes(1, 40, distribution) == drawn[:40]
    assert shapes(2, 40, distribution) != drawn[:40]
    assert len({shape.name for shape in drawn}) == len(drawn)


@each_distribution
def test_shapes_are_what_the_distribution_says(distribution: str) -> None:
    for shape in DRAWN[distribution]:
        assert min(shape.y_shape) >= 1
        assert 0 < shape.flops <= 2e9
        assert max(map(math.prod, (shape.x_shape, shape.w_shape, shape.y_shape))) <= 1 << 24
        assert shape.inputs % shape.group == shape.outputs % shape.group == 0
        assert all(extra < stride for extra, stride in zip(shape.extras, shape.strides, strict=True))
    assert {shape.axes for shape in DRAWN[distribution]} == {1, 2, 3}
    for covered in (
        lambda shape: shape.group == shape.inputs > 1,
        lambda shape: 1 < shape.group < shape.inputs,
        lambda shape: max(shape.dilations) > 1,
        lambda shape: shape.outputs == shape.group == 1,
        lambda shape: shape.inputs > 1024,
        lambda shape: shape.batch > 4,
    ):
        assert sum(map(covered, DRAWN[distribution])) >= 4


def test_any_shape_has_gaps_and_long_kernels() -> None:
    assert sum(map(has_gaps, DRAWN["any"])) >= 4
    assert sum(max(shape.kernels) > 512 for shape in DRAWN["any"]) >= 4


def test_shapes_of_models_have_no_gaps() -> None:
    assert not any(map(has_gaps, DRAWN["models"]))


def test_most_shapes_of_models_grow_by_their_stride() -> None:
    def grows(x: int, y: int, stride: int) -> bool:
        return y == x * stride

    growing = [all(map(grows, shape.size, shape.y_shape[2:], shape.strides)) for shape in DRAWN["models"]]
    assert sum(growing) > len(growing) / 2

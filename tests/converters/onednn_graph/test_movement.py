"""Concat, GenIndex, StaticTranspose, Dropout, Wildcard."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import ortconv
from ortconv import onednn
from ortconv.errors import ConversionErrors, ShapeError, UnsupportedAttributeError, UnsupportedOpError
from tests.converters.onednn_graph.agreement import FLOATS, check, graph_of, numbers
from tests.converters.onednn_graph.documents import graph, op, tensor, write
from tests.converters.onednn_graph.references.call import DTYPES
from tests.converters.onednn_graph.references.movement import word
from tests.running import run


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_concat(dtype: str, axis: int, count: int) -> None:
    shapes = [[2, 3, 4] for _ in range(count)]
    for size, shape in enumerate(shapes):
        shape[axis] = size + 1
    check("Concat", [numbers(shape, dtype, seed) for seed, shape in enumerate(shapes)], [dtype], {"axis": axis})


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
def test_gen_index(dtype: str, axis: int) -> None:
    check("GenIndex", [numbers((2, 3, 4), dtype)], ["s32"], {"axis": axis})


def test_gen_index_of_a_size_that_only_the_run_knows() -> None:
    g = onednn.Graph()
    g.op("GenIndex", [g.tensor("x", "f32", [2, None])], axis=1, name="y")
    (found,) = run(ortconv.convert(g), {"x": np.zeros((2, 5), np.float32)}, "none")
    np.testing.assert_array_equal(found, np.int32([[0, 1, 2, 3, 4]] * 2))


def test_an_empty_order_reverses_the_axes() -> None:
    check("StaticTranspose", [numbers((2, 3, 4))], ["f32"], {"order": []})


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("offset", [0, 1, 7, -5, 2**35 + 3])
@pytest.mark.parametrize("seed", [0, 1234, 2**40 + 5, -1])
@pytest.mark.parametrize("p", [0.0, 0.25, 0.5, 1.0])
def test_dropout_keeps_what_the_library_keeps(dtype: str, offset: int, seed: int, p: float) -> None:
    x = numbers((3, 7), dtype, low=1)
    scalars = [np.array(seed, np.int64), np.array(offset, np.int64), np.array(p, np.float32)]
    check("Dropout", [x, *scalars], [dtype, "u8"])


def test_random_words_are_the_librarys() -> None:
    # Kept by oneDNN 3.13's MatMul with a Dropout behind it, of 16 elements, with probability 1/2.
    for seed, offset, kept in KEPT:
        assert [word(index, seed, offset) > (2**32 - 1) / 2 for index in range(16)] == [digit == "1" for digit in kept]


KEPT = [
    (1234, 7, "1011111110111011"),
    (1234, 0, "0000111100000000"),
    (2**40 + 5, 2**35 + 3, "1011000100000000"),
    (2**40 + 5, 0, "0000111111111111"),
    (-1, -5, "0000001011001101"),
]


@pytest.mark.parametrize("dtype", FLOATS)
def test_dropout_of_sizes_that_only_the_run_knows(dtype: str) -> None:
    g = onednn.Graph()
    x = g.tensor("x", dtype, [None, 3])
    names = (("seed", "s64"), ("offset", "s64"), ("p", "f32"))
    scalars = [g.tensor(name, dtype, [], host_scalar=True) for name, dtype in names]
    g.op("Dropout", [x, *scalars], name="y")
    feeds = {
        "x": np.ones((3, 3), DTYPES[dtype]),
        "seed": np.array(9),
        "offset": np.array(4),
        "p": np.array(0.5, np.float32),
    }
    (found,) = run(ortconv.convert(g), feeds, "none")
    expected = [2.0 * (word(index, 9, 4) > (2**32 - 1) / 2) for index in range(9)]
    np.testing.assert_array_equal(found.ravel().astype(np.float32), expected)


def test_a_wildcard_is_refused_with_the_reason(tmp_path: pathlib.Path) -> None:
    document = graph(op(0, "Wildcard", [tensor(0), tensor(1)], [tensor(2), tensor(3)]))
    with pytest.raises(ConversionErrors) as caught:
        ortconv.convert(write(tmp_path, document))
    (error,) = caught.value.exceptions
    assert isinstance(error, UnsupportedOpError)
    assert "it stands for an operation that the file describes by its name only" in error.problem


@pytest.mark.parametrize(
    ("shapes", "axis", "kind"),
    [
        ([(2, 3), (2, 4)], 0, ShapeError),
        ([(2, 3), (3,)], 0, ShapeError),
        ([(2, 3), (2, 3)], 2, UnsupportedAttributeError),
    ],
)
def test_what_cannot_be_concatenated(shapes: list[tuple[int, ...]], axis: int, kind: type) -> None:
    with pytest.raises(ConversionErrors) as caught:
        ortconv.convert(graph_of("Concat", [numbers(shape) for shape in shapes], ["f32"], {"axis": axis}))
    (error,) = caught.value.exceptions
    assert isinstance(error, kind)


def test_scalars_of_dropout_must_be_scalars() -> None:
    inputs = [numbers((4,)), np.zeros(2, np.int64), np.zeros((), np.int64), np.zeros((), np.float32)]
    with pytest.raises(ConversionErrors) as caught:
        ortconv.convert(graph_of("Dropout", inputs, ["f32"], {}))
    (error,) = caught.value.exceptions
    assert isinstance(error, ShapeError)
    assert (error.input, error.shape) == ("seed", (2,))

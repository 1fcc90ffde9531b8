"""Where OpenVINO's CPU plugin gives numbers that mean nothing: the page is followed, and the conversion says so."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import (
    opset1,
    opset2,
    opset3,
    opset4,
    opset5,
    opset7,
    opset8,
    opset9,
    opset10,
    opset11,
    opset14,
    opset15,
    opset16,
)

from ortconv.api import conversion
from tests.converters.openvino.live import Feed, assert_close, check, model_of, numbers, run_onnx, run_openvino
from tests.processor import with_avx512

F32, I64 = np.float32, np.int64
NONE = np.zeros(0, I64)


@dataclasses.dataclass(frozen=True)
class Case:
    """A variant of an op.

    Attributes:
        name: What it shows.
        build: Makes the op.
        feed: Its data.
        expected: What the page says.
        warning: A part of what the conversion says.
        shapes: Declared shapes, where they are not those of the data.
        bound: See `assert_close`.
    """

    name: str
    build: Callable[..., Any]
    feed: Feed
    expected: np.ndarray
    warning: str
    shapes: Sequence[Sequence[int]] | None = None
    bound: float = 0

    def __str__(self) -> str:
        return self.name


def _to_batch(x: np.ndarray, block: int) -> np.ndarray:
    """Moves blocks of the first axis behind the batch to the batch, after padding at their end."""
    padded = np.pad(x, [(0, 0), (0, -x.shape[1] % block), (0, 0)])
    batch, size, rest = padded.shape
    return padded.reshape(batch, size // block, block, rest).transpose(2, 0, 1, 3).reshape(-1, size // block, rest)


def _parts(x: np.ndarray) -> np.ndarray:
    return np.stack([x.real, x.imag], -1).astype(F32)


def _complex(x: np.ndarray) -> np.ndarray:
    return x[..., 0] + 1j * x[..., 1]


def _recurrent(x: openvino.Node) -> openvino.Node:
    """Makes a sequence of one step whose state becomes the data, clipped."""
    zeros, ones = np.zeros((1, 3, 3), F32), np.eye(3, dtype=F32)[None]
    state = np.zeros((2, 1, 3), F32)
    return opset5.rnn_sequence(x, state, np.array([1, 1]), ones, zeros, zeros[:, 0], 3, "forward", ["relu"], clip=1.0)


X = numbers(2, 1, 3)
TIMES = numbers(2, 1, 3, low=0, high=2)
LARGE = np.array([2**24 + 1, -(2**24) - 3], np.int32)
SPECTRUM = numbers(5, 6, 3, 2)
TABLE = numbers(4, 3)
WIDE = numbers(1, 2, 3, 4)
SQUARE = numbers(4, 4) + 8 * np.eye(4, dtype=F32)
BATCHED = numbers(2, 5, 6, 3, 2)

CUBE, ROW = numbers(3, 2, 3), numbers(3, seed=1)

CASES = [
    Case(
        "pdpd from the first axis of three, where the last one is as long",
        lambda x, y: opset1.subtract(x, y, "PDPD"),
        [CUBE, ROW],
        CUBE - ROW[:, None, None],
        "align the shapes at the last axis",
    ),
    Case("squeeze without axes", lambda x: opset1.squeeze(x, NONE), [X], X[:, 0], "empty axes and", [[-1, 1, -1]]),
    Case("tile without repeats", lambda x: opset1.tile(x, NONE), [X], X, "empty repeats"),
    Case(
        "roll by one shift of two axes",
        lambda x: opset7.roll(x, np.array(1), np.array([0, 2])),
        [X],
        np.roll(X, 1, (0, 2)),
        "one shift of several axes",
    ),
    Case(
        "space_to_batch of less than a block",
        lambda x: opset2.space_to_batch(x, np.array([1, 2, 1]), np.array([0, 0, 0]), np.array([0, 1, 0])),
        [X],
        _to_batch(X, 2),
        "size 1, begin padding 0, block 2",
    ),
    Case(
        "segment_max that fills with the lowest number of 16 bits",
        lambda x: opset16.segment_max(x, np.array([0, 0, 2]), fill_mode="LOWEST"),
        [np.array([1, 2, 3], np.int16)],
        np.array([2, -(2**15), 3], np.int16),
        "the low bits",
    ),
    Case(
        "embedding_segments_sum without a default row",
        lambda x: opset3.embedding_segments_sum(x, np.array([1, 2]), np.array([0, 2]), np.array(4), np.array(-1)),
        [TABLE],
        np.stack([TABLE[1], np.zeros(3, F32), TABLE[2], np.zeros(3, F32)]),
        "default_index -1",
    ),
    Case(
        "ctc_loss of no labels, repeated ones collapsed",
        lambda x: opset4.ctc_loss(
            x, np.array([3]), np.array([[0, 1, 1]]), np.array([0]), preprocess_collapse_repeated=True
        ),
        [np.log(np.array([[[0.5, 0.25, 0.25], [0.25, 0.25, 0.5], [0.25, 0.5, 0.25]]], F32))],
        -np.log(np.array([0.25 * 0.5 * 0.25], F32)),
        "uses its first label",
        bound=8,
    ),
    Case(
        "unique, unsorted, of which no places are used",
        lambda x: opset10.unique(x, sorted=False).output(1),
        [np.array([2, -1, 2, 0, -1, 5], F32)],
        np.array([0, 1, 3, 5]),
        "no consumer of the third output",
    ),
    Case(
        "eye of an empty batch",
        lambda x: opset9.eye(x, np.array(3), np.array(1), "f32", NONE),
        [np.array(2)],
        np.eye(2, 3, 1, dtype=F32),
        "an empty batch_shape",
    ),
    Case(
        "the inverse of a constant as weights",
        lambda x: opset1.matmul(x, opset14.inverse(opset1.constant(SQUARE), adjoint=False), False, False),
        [numbers(2, 4)],
        numbers(2, 4) @ np.linalg.inv(SQUARE),
        "the inverse of a constant",
        bound=8,
    ),
    Case(
        "top_k that is stable and sorted by index",
        lambda x: opset11.topk(x, np.array(2), 0, "max", "index", stable=True).output(1),
        [np.array([1, 3, 1, 1, 2], F32)],
        np.array([1, 4], np.int32),
        "of equal values",
    ),
    Case(
        "irdft of three axes behind another, cut along the first of them",
        lambda x: opset9.irdft(x, np.array([1, 2, 3]), np.array([4, 6, 4])),
        [BATCHED],
        np.fft.irfftn(_complex(BATCHED), (4, 6, 4), (1, 2, 3)).astype(F32),
        "axis 1",
        bound=8,
    ),
    Case(
        "interpolate over the batch, of dynamic sizes",
        lambda x: opset11.interpolate(x, np.array([2, 2]), "nearest", "sizes", axes=np.array([0, 1])),
        [WIDE],
        np.repeat(WIDE, 2, 0),
        "the batch, or in some modes channels",
        [[-1, -1, -1, -1]],
    ),
    Case(
        "space_to_batch of sizes of the run",
        lambda x: opset2.space_to_batch(x, np.array([1, 2, 1]), np.array([0, 0, 0]), np.array([0, 1, 0])),
        [X],
        _to_batch(X, 2),
        "sizes known only at run time",
        [[-1, -1, -1]],
    ),
    *(
        Case(
            f"range from {first} to {last} by {step}, {kind}",
            lambda *bounds, kind=kind: opset4.range(*bounds, kind),
            [np.array(number, dtype) for number in (first, last, step)],
            np.zeros(0, dtype),
            "leads away from stop",
        )
        for kind, dtype in (("f32", F32), ("i32", np.int32), ("i64", I64))
        for first, last, step in ((5, 0, 1), (0, 3, -2))
    ),
    Case(
        "rdft that is filled up by sizes of the run",
        lambda x: opset9.rdft(x, np.array([1]), np.array([4])),
        [TABLE],
        _parts(np.fft.rfft(TABLE, 4, 1)),
        "may extend an axis",
        [[-1, -1]],
        bound=4,
    ),
    Case(
        "irdft of three axes, cut along the second",
        lambda x: opset9.irdft(x, np.array([0, 1, 2]), np.array([5, 5, 4])),
        [SPECTRUM],
        np.fft.irfft(np.fft.ifft(np.fft.ifft(_complex(SPECTRUM), axis=0), 5, 1), 4, 2).astype(F32),
        "axis 1",
        bound=8,
    ),
    Case(
        "irdft of three axes, cut along the last",
        lambda x: opset9.irdft(x, np.array([0, 1, 2]), np.array([5, 6, 3])),
        [SPECTRUM],
        np.fft.irfft(np.fft.ifft2(_complex(SPECTRUM), axes=(0, 1)), 3, 2).astype(F32),
        "axis 2",
        bound=32,
    ),
    Case(
        "reduce_sum of integers beyond 2^24",
        lambda x: opset1.reduce_sum(x, np.array([0])),
        [np.array([2**24, 1, 2], np.int32)],
        np.array(2**24 + 3, np.int32),
        "does not wrap",
    ),
    Case(
        "reduce_max of integers beyond 2^24",
        lambda x: opset1.reduce_max(x, np.array([0])),
        [np.array([2**24 + 1, 1], I64)],
        np.array(2**24 + 1),
        "above 2^24",
    ),
    Case(
        "reverse_sequence of integers beyond 2^24",
        lambda x: opset1.reverse_sequence(x, np.array([2]), 0, 1),
        [np.array([[1, 2**24 + 1]], np.int32)],
        np.array([[2**24 + 1, 1]], np.int32),
        "above 2^24",
    ),
    Case("floor of integers beyond 2^24", opset1.floor, [LARGE], LARGE, "above 2^24"),
    Case("round of integers beyond 2^24", lambda x: opset5.round(x, "half_to_even"), [LARGE], LARGE, "above 2^24"),
    Case("relu of integers beyond 2^24", opset1.relu, [LARGE], np.maximum(LARGE, 0), "above 2^24"),
    Case(
        "mod of integers beyond 2^24",
        lambda x: opset1.mod(x, np.array([10], np.int32)),
        [LARGE],
        np.fmod(LARGE, 10),
        "above 2^24",
    ),
    Case(
        "floor_mod of integers beyond 2^24",
        lambda x: opset1.floor_mod(x, np.array([10], np.int32)),
        [LARGE],
        np.mod(LARGE, 10),
        "above 2^24",
    ),
    Case(
        "power of integers beyond 2^24",
        lambda x: opset1.power(x, np.array(1, I64)),
        [LARGE.astype(I64)],
        LARGE.astype(I64),
        "above 2^24",
    ),
    Case(
        "matmul of integers beyond 2^24",
        lambda x: opset1.matmul(x, np.ones((2, 1), np.int32), False, False),
        [LARGE[None]],
        LARGE[None].sum(1, keepdims=True).astype(np.int32),
        "above 2^24",
    ),
    Case(
        "a last state that is multiplied",
        lambda x: opset1.multiply(_recurrent(x).output(1), F32(2)),
        [TIMES],
        2 * np.clip(TIMES[:, :1], -1, 1),
        "another shape",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_followed(case: Case) -> None:
    converted = conversion(model_of(case.build, [case.feed], case.shapes))
    assert_close(run_onnx(converted, [case.feed])[0][0], case.expected, case.bound)
    (warning,) = converted.warnings
    assert case.warning in warning


def test_not_warned_about_elsewhere() -> None:
    for build, feed in (
        (lambda x: opset1.squeeze(x, NONE), [X]),
        (lambda x: opset1.tile(x, np.array([2])), [X]),
        (lambda x: opset11.topk(x, np.array(2), 2, "max", "value", stable=True), [X]),
        (lambda x: opset7.roll(x, np.array(1), np.array([2])), [X]),
        (lambda x: opset2.space_to_batch(x, np.array([1, 2, 1]), np.array([0, 1, 0]), np.array([0, 0, 0])), [X]),
        (lambda x: opset16.segment_max(x, np.array([0, 0, 1]), fill_mode="ZERO"), [np.array([1, 2, 3], np.int16)]),
        (
            lambda x: opset3.embedding_segments_sum(x, np.array([1, 2]), np.array([0, 2]), np.array(4), np.array(1)),
            [TABLE],
        ),
        (lambda x: opset1.reduce_sum(opset1.convert(opset1.greater(x, F32(0)), "i32"), np.array([0])), [TABLE]),
        (lambda x: opset1.reduce_prod(opset3.shape_of(x), np.array([0])), [TABLE]),
        (lambda x: opset1.reduce_max(x, np.array([0])), [np.array([2, 3], np.int16)]),
        (lambda x: opset9.rdft(x, np.array([1]), np.array([2])), [TABLE]),
        (lambda x: opset9.irdft(x, np.array([0, 1, 2]), np.array([4, 6, 4])), [SPECTRUM]),
        (lambda x: list(_recurrent(x).outputs()), [TIMES]),
    ):
        assert not check(model_of(build, [feed]), feed, bound=16).warnings


def test_ranges_over_sizes_of_the_run() -> None:
    feeds = [[numbers(4, 2)], [numbers(0, 3)]]

    def size(x: openvino.Node, axis: int) -> openvino.Node:
        return opset8.gather(opset3.shape_of(x), np.array(axis), np.array(0))

    def up(x: openvino.Node) -> openvino.Node:
        return opset4.range(np.array(0), opset1.add(size(x, 0), size(x, 1)), np.array(1), "i64")

    def on(x: openvino.Node) -> openvino.Node:
        first = size(x, 1)
        return opset4.range(first, opset1.add(first, size(x, 0)), np.array(1), "i64")

    def down(x: openvino.Node) -> openvino.Node:
        return opset4.range(np.array(0), opset1.subtract(size(x, 0), size(x, 1)), np.array(1), "i64")

    for build in (up, on):
        assert not check(model_of(build, feeds), *feeds).warnings
    (warning,) = conversion(model_of(down, feeds)).warnings
    assert "leads away" in warning


@with_avx512
def test_slices_of_16_bits_are_scattered() -> None:
    feed = [numbers(5, 4), numbers(2, 4)]
    model = model_of(
        lambda x, u: opset15.slice_scatter(
            opset1.convert(x, "bf16"), opset1.convert(u, "bf16"), np.array([1]), np.array([5]), np.array([2])
        ),
        [feed],
    )
    check(model, feed, bound=0)


def test_empty_data() -> None:
    """ONNX Runtime keeps the last axis where there is nothing to sum, unless it is counted from the front."""
    for shape in ((5, 0), (0, 3), ()):
        feed = [numbers(*shape)]
        check(model_of(lambda x: opset3.bucketize(x, np.array([0.5, 1], F32)), [feed]), feed)
    feed = [numbers(6), numbers(0)]
    check(model_of(opset3.bucketize, [feed], [[-1], [-1]]), feed)
    feed = [np.array(3, F32)]
    (places,) = check(model_of(opset3.non_zero, [feed]), feed).to_proto().graph.output
    assert not places.type.tensor_type.shape.dim[0].HasField("dim_value")


def test_squeeze_of_an_axis_whose_interval_excludes_one() -> None:
    """The axis stays, as the shape that the source declares for the result tells."""
    feeds = [[numbers(size, 1)] for size in (3, 5)]
    x = opset1.parameter(openvino.PartialShape([openvino.Dimension(2, 9), 1]), F32)
    check(openvino.Model([opset15.squeeze(x, np.array([0, 1]))], [x]), *feeds, bound=0)


@pytest.mark.parametrize("channels", [2, 1])
def test_weights_shared_by_a_convolution_and_a_transposed_one(channels: int) -> None:
    """OpenVINO's CPU plugin computes the latter with weights in the order of the former."""
    weights = opset1.constant(numbers(channels, channels, 3, 3))
    rest = ([1, 1], [0, 0], [0, 0], [1, 1])
    feed = [numbers(1, channels, 5, 6)]
    together = model_of(
        lambda x: [opset1.convolution(x, weights, *rest), opset1.convolution_backprop_data(x, weights, rest[0])], [feed]
    )
    alone = model_of(lambda x: opset1.convolution_backprop_data(x, weights, rest[0]), [feed])
    converted = conversion(together)
    assert_close(run_onnx(converted, [feed])[0][1], run_openvino(alone, [feed])[0][0], 16)
    assert any("a transposed one share weights" in text for text in converted.warnings) == (channels > 1)
    assert not conversion(alone).warnings

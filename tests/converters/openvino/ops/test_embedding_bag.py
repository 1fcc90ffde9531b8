"""Embedding bags and segments against OpenVINO's CPU plugin."""

from __future__ import annotations

import numpy as np
import pytest
from openvino import opset1, opset3, opset15, opset16

from ortconv.api import conversion
from tests.converters.openvino.live import Row, assert_close, check_row, ints, model_of, numbers, run_onnx

I32, I64 = np.int32, np.int64


BYTES = np.array([[100, -7], [100, 3], [115, -120]])

ROWS = [
    Row(
        f"embedding_bag_packed_sum, weighted {weighted}, by {kind.__name__}",
        opset3.embedding_bag_packed_sum,
        [
            [numbers(6, 3, n), numbers(4, 2, dtype=kind, low=0, high=5), *([numbers(4, 2, seed=1)] if weighted else [])]
            for n in (2, 4)
        ],
    )
    for weighted in (False, True)
    for kind in (I64, I32)
]
ROWS += [
    Row(
        f"embedding_bag_offsets_sum {what}",
        build,
        [[numbers(6, n), ints(1, 5, 0, 2, 2), numbers(5, seed=2)] for n in (2, 4)],
    )
    for what, build in {
        "plain": lambda t, i, w: opset3.embedding_bag_offsets_sum(t, i, ints(0, 2, 2, 4)),
        "with a default": lambda t, i, w: opset3.embedding_bag_offsets_sum(
            t, i, ints(0, 2, 2, 4), opset3.constant(3, np.int64)
        ),
        "with a default and weights": lambda t, i, w: opset3.embedding_bag_offsets_sum(
            t, i, ints(0, 2, 2, 4), opset3.constant(3, np.int64), w
        ),
    }.items()
]
ROWS += [
    Row(
        f"embedding_segments_sum {what}",
        build,
        [[numbers(6, 2, n), ints(1, 5, 0, 2, 2), numbers(5, seed=2)] for n in (2, 4)],
    )
    for what, build in {
        "plain": lambda t, i, w: opset3.embedding_segments_sum(t, i, ints(0, 0, 1, 3, 3), np.array(5)),
        "with a default": lambda t, i, w: opset3.embedding_segments_sum(
            t, i, ints(0, 0, 1, 3, 3), np.array(5), np.array(4)
        ),
        "with a default and weights": lambda t, i, w: opset3.embedding_segments_sum(
            t, i, ints(0, 0, 1, 3, 3), np.array(5), np.array(4), w
        ),
    }.items()
]
ROWS += [
    Row(
        f"embedding_bag_offsets-15 {reduction}, default {default}",
        lambda t, i, o, reduction=reduction, default=default: opset15.embedding_bag_offsets(
            t, i, o, *([] if default is None else [np.array(default)]), reduction=reduction
        ),
        [[numbers(6, 2), ints(1, 5, 0, 2, 2), ints(*o)] for o in ((0, 2, 2, 4), (0, 1, 3, 4))],
    )
    for reduction in ("sum", "mean")
    for default in (None, 3, -1)
]
ROWS += [
    Row(
        f"embedding_bag_offsets-15 {reduction}, entries before the first bag, default {default}, {kind} offsets",
        (
            lambda t, i, reduction=reduction, default=default: opset15.embedding_bag_offsets(
                t, i, ints(2, 2, 4), *([] if default is None else [np.array(default)]), reduction=reduction
            )
        )
        if kind == "constant"
        else (
            lambda t, i, o, reduction=reduction, default=default: opset15.embedding_bag_offsets(
                t, i, o, *([] if default is None else [np.array(default)]), reduction=reduction
            )
        ),
        [[numbers(6, 2), ints(1, 5, 0, 2, 2), *([ints(2, 2, 4)] if kind == "runtime" else [])]],
    )
    for reduction in ("sum", "mean")
    for default in (None, 3)
    for kind in ("constant", "runtime")
]
ROWS += [
    Row(
        f"embedding_segments_sum, ids beyond num_segments, {what}",
        build,
        [[numbers(6, 2), ints(1, 5, 0, 2, 2), *more]],
    )
    for what, build, more in (
        ("constant", lambda t, i: opset3.embedding_segments_sum(t, i, ints(0, 0, 1, 3, 4), np.array(3)), []),
        (
            "runtime",
            lambda t, i, s: opset3.embedding_segments_sum(t, i, s, np.array(3), np.array(4)),
            [ints(0, 0, 1, 3, 4)],
        ),
    )
]
ROWS += [
    Row(
        f"embedding_bag_packed-15 {reduction}",
        lambda t, i, reduction=reduction: opset15.embedding_bag_packed(t, i, reduction=reduction),
        [[numbers(6, 2), numbers(n, 3, dtype=I64, low=0, high=5)] for n in (2, 4)],
    )
    for reduction in ("sum", "mean")
]
ROWS += [
    Row(
        f"embedding_bag_packed-15 {reduction} of {np.dtype(kind)}, which wraps, weighted {weighted}",
        lambda t, i, *w, reduction=reduction: opset15.embedding_bag_packed(t, i, *w, reduction=reduction),
        [
            [BYTES.astype(kind), numbers(n, 3, dtype=I64, low=0, high=2), *([np.full((n, 3), 2, kind)] * weighted)]
            for n in ((2,) if weighted else (2, 4))
        ],
    )
    for kind in (np.uint8, np.int8, np.int16, np.int32)
    for reduction, weighted in (("sum", False), ("mean", False), ("sum", True))
]
ROWS += [
    Row(
        f"segment_max of {dtype}, {fill}, {count} segments",
        lambda x, fill=fill, count=count: opset16.segment_max(
            x, ints(0, 0, 2, 2, 4), fill_mode=fill, **({} if count is None else {"num_segments": np.array(count)})
        ),
        [[numbers(5, n, dtype=dtype)] for n in (2, 4)],
    )
    for dtype in ("float32", "int32")
    for fill in ("ZERO", "LOWEST")
    for count in (None, 7, 2)
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


def test_weights_of_a_last_bag_that_is_empty_are_warned_about() -> None:
    """OpenVINO's CPU plugin multiplies its row by what lies behind the weights, and may crash."""
    table, weights = numbers(6, 2), np.array([10, 20, 30], np.float32)
    feed = [table, ints(1, 5, 0), ints(0, 0, 3), weights]
    for build in (
        lambda t, i, o, w: opset3.embedding_bag_offsets_sum(t, i, o, opset1.constant(np.array(4)), w),
        lambda t, i, o, w: opset15.embedding_bag_offsets(t, i, o, opset1.constant(np.array(4)), w),
    ):
        converted = conversion(model_of(build, [feed]))
        (warning,) = converted.warnings
        assert "an empty last bag" in warning
        rows = [table[4], weights @ table[[1, 5, 0]], table[4]]
        assert_close(run_onnx(converted, [feed])[0][0], np.stack(rows), 4)

"""Decoding, matrices and sparse tensors against OpenVINO's CPU plugin."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from openvino import opset1, opset4, opset6, opset9, opset14, opset16

from tests.converters.openvino.live import Row, check_row, ints, numbers

I32, I64 = np.int32, np.int64


def mask(*lengths: int, steps: int) -> np.ndarray:
    """Returns ones up to each length, [step, batch]."""
    return (np.arange(steps)[:, None] < np.array(lengths)).astype(np.float32)


DECODERS = [
    Row(
        f"ctc_greedy_decoder, merging {merge}",
        lambda x, m, merge=merge: opset1.ctc_greedy_decoder(x, m, merge),
        [[numbers(n, 3, 4), mask(n, n - 2, 1, steps=n)] for n in (8, 12)],
    )
    for merge in (True, False)
]
DECODERS += [
    Row(
        f"ctc_greedy_decoder_seq_len, merging {merge}, blank {blank}, into {classes} and {lengths}",
        lambda x, n, merge=merge, blank=blank, c=classes, s=lengths: list(
            opset6.ctc_greedy_decoder_seq_len(
                x, n, None if blank is None else np.array([blank], I32), merge, c, s
            ).outputs()
        ),
        [[numbers(3, n, 4), ints(n, n - 2, 0, dtype=I32)] for n in (8, 12)],
    )
    for merge in (True, False)
    for blank in (None, 1)
    for classes, lengths in (("i32", "i32"), ("i64", "i64"))
]
DECODERS += [
    Row(f"{name} of {np.dtype(dtype)}", build, [[numbers(6, 6, 4).astype(dtype), lengths.astype(kind or dtype)]])
    for dtype in (np.float16, ml_dtypes.bfloat16)
    for name, build, lengths, kind in (
        ("ctc_greedy_decoder", opset1.ctc_greedy_decoder, mask(6, 4, 1, 2, 3, 5, steps=6), None),
        (
            "ctc_greedy_decoder_seq_len",
            lambda x, n: list(opset6.ctc_greedy_decoder_seq_len(x, n).outputs()),
            ints(6, 4, 0, 2, 3, 5),
            I32,
        ),
    )
]

TREES = [
    Row(
        f"gather_tree of {dtype}, ending with {end}",
        lambda s, p, n, end=end, dtype=dtype: opset1.gather_tree(s, p, n, np.array(end, dtype)),
        [
            [
                numbers(n, 2, 3, dtype=I32, low=1, high=9).astype(dtype),
                numbers(n, 2, 3, dtype=I32, low=0, high=2, seed=1).astype(dtype),
                np.array([n, 2], dtype),
            ]
            for n in (5, 7, 0)
        ],
    )
    for dtype in ("float32", "int32")
    for end in (10, 5, 3)
]

MATRICES = [
    Row(
        f"eye of {output}, diagonal {diagonal}",
        lambda r, c, diagonal=diagonal, output=output: opset9.eye(r, c, np.array(diagonal), output),
        [[ints(3), ints(5)], [ints(4), ints(2)]],
    )
    for output, diagonal in (("f32", 0), ("f32", 1), ("i32", -2), ("i64", 9), ("u8", 0), ("i8", -1), ("boolean", 1))
]
MATRICES += [
    Row(
        "eye of constants",
        lambda x: opset1.add(x, opset9.eye(np.array(3), np.array(2), np.array(0), "f32")),
        [[numbers(3, 2)]],
    ),
    Row("eye in batches", lambda r: opset9.eye(r, np.array(3), np.array(0), "i32", ints(2, 2)), [[ints(3)], [ints(2)]]),
]
MATRICES += [
    Row(
        f"inverse of {shape}, adjoint {adjoint}",
        lambda x, adjoint=adjoint: opset14.inverse(x, adjoint),
        [[numbers(*shape, seed=seed)] for seed in (0, 1)],
        bound=1024,
    )
    for shape in ((1, 1), (4, 4), (2, 3, 3), (2, 2, 5, 5))
    for adjoint in (False, True)
]
MATRICES += [
    Row(f"inverse of nothing, {shape}", lambda x: opset14.inverse(x, False), [[numbers(*shape)]])
    for shape in ((0, 0), (2, 0, 0), (0, 3, 3))
]
MATRICES.append(
    Row(
        "inverse of dynamic batches",
        lambda x: opset14.inverse(x, False),
        [[numbers(n, 3, 3)] for n in (2, 4)],
        bound=1024,
    )
)
MATRICES.append(
    Row(
        "inverse of what has zeros on the diagonal",
        lambda x: opset14.inverse(x, False),
        [[np.array([[0, 2, 1], [1, 0, 0], [0, 1, 3]], np.float32)]],
        bound=64,
    )
)

SPARSE = [
    Row(
        f"sparse_fill_empty_rows of {kind.__name__}",
        lambda v, i, kind=kind: list(
            opset16.sparse_fill_empty_rows(v, ints(5, 4, dtype=kind), i, np.float32(9)).outputs()
        ),
        [
            [numbers(4), np.array([[1, 0], [1, 2], [3, 1], [0, 1]], kind)],
            [numbers(2), np.array([[2, 0], [2, 2]], kind)],
        ],
    )
    for kind in (I32, I64)
]


LOSSES = [
    Row(
        f"ctc_loss, collapsing {collapse}, merging {merge}, unique {unique}, blank {blank}",
        lambda x, n, labels, m, k=(collapse, merge, unique), blank=blank: opset4.ctc_loss(
            x, n, labels, m, None if blank is None else np.array(blank, I32), *k
        ),
        [
            [
                numbers(3, n, 4),
                ints(n, n - 1, n, dtype=I32),
                numbers(3, n, dtype=I32, low=0 if blank is None else 1, high=2),
                ints(3, 2, 1, dtype=I32),
            ]
            for n in (6, 9)
        ],
        bound=64,
    )
    for collapse in (False, True)
    for merge in (False, True)
    for unique in (False, True)
    for blank in ((None, 0) if merge and not unique else (None,))
]


@pytest.mark.parametrize("row", LOSSES + DECODERS + TREES + MATRICES + SPARSE, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)

"""Rolls, reversals, blocks, shuffles, patches, bits and Einsum against OpenVINO's CPU plugin."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as ir
import openvino
import pytest
from openvino import opset1, opset2, opset3, opset7, opset13, opset15
from openvino.utils.node_factory import NodeFactory
from openvino.utils.types import as_nodes

from ortconv.api import conversion
from tests.converters.openvino.live import Row, check_row, ints, model_of, numbers, run_onnx

I32, I64 = np.int32, np.int64


ROLLS = [
    Row(
        f"roll by {shift} along {axes} of {dtype}",
        lambda x, shift=shift, axes=axes: opset7.roll(x, np.array(shift), np.array(axes)),
        [[numbers(n, 3, 4, dtype=dtype)] for n in (2, 5)],
    )
    for shift, axes, dtype in (
        (1, [0], "float32"),
        ([-1, 5], [1, -1], "float32"),
        ([2], [2], "int32"),
        ([1, 1], [0, 0], "float32"),
        ([3, 8], [1, 2], "int64"),
    )
]
ROLLS.append(
    Row(
        "roll by shifts of the run",
        lambda x, s: opset7.roll(x, s, ints(0, 1)),
        [[numbers(4, 3), ints(*s)] for s in ((1, -1), (6, 0))],
    )
)

REVERSALS = [
    Row(
        f"reverse_sequence along {seq} of batches along {batch} by {kind}",
        lambda x, n, batch=batch, seq=seq: opset1.reverse_sequence(x, n, batch, seq),
        [[numbers(*shape[:2], n, dtype=dtype), np.array(lengths, kind)] for n in (4, 6)],
    )
    for batch, seq, shape, lengths, dtype, kind in (
        (0, 1, (2, 5), (3, 5), "float32", "int32"),
        (1, 0, (5, 2), (1, 5), "float32", "int64"),
        (0, 2, (2, 3), (4, 2), "float32", "int32"),
        (1, -1, (3, 2), (4, 2), "int32", "int32"),
        (0, 1, (2, 5), (3, 2), "float32", "float32"),
    )
]

BLOCKS = [
    Row(
        f"shuffle_channels along {axis} in {group} groups of {dtype}",
        lambda x, axis=axis, group=group: opset3.shuffle_channels(x, axis, group),
        [[numbers(2, 6, n, 4, dtype=dtype)] for n in (3, 5)],
    )
    for axis, group, dtype in ((1, 2, "float32"), (1, 3, "int32"), (-1, 2, "float32"), (0, 2, "float16"))
]
BLOCKS += [
    Row(
        f"space_to_batch by {block}, {begin} and {end} of {dtype}",
        lambda x, block=block, begin=begin, end=end: opset2.space_to_batch(x, ints(*block), ints(*begin), ints(*end)),
        [[numbers(n, *shape, dtype=dtype)] for n in (2, 3)],
    )
    for shape, block, begin, end, dtype in (
        ((4, 6), (1, 2, 3), (0, 0, 0), (0, 0, 0), "float32"),
        ((3, 5, 2), (1, 2, 3, 1), (0, 1, 0, 0), (0, 0, 1, 0), "float32"),
        ((3, 5, 2), (1, 1, 2, 2), (0, 0, 1, 2), (0, 0, 2, 0), "int32"),
        ((4, 4, 2, 3), (1, 2, 2, 1, 3), (0, 0, 0, 0, 0), (0, 0, 0, 0, 0), "float32"),
    )
]
BLOCKS += [
    Row(
        f"batch_to_space by {block}, {begin} and {end} of {dtype}",
        lambda x, block=block, begin=begin, end=end: opset2.batch_to_space(x, ints(*block), ints(*begin), ints(*end)),
        [[numbers(n, *shape, dtype=dtype)] for n in (12, 24)],
    )
    for shape, block, begin, end, dtype in (
        ((4, 6), (1, 2, 3), (0, 0, 0), (0, 0, 0), "float32"),
        ((3, 5, 2), (1, 2, 3, 1), (0, 1, 0, 0), (0, 0, 1, 0), "float32"),
        ((3, 5, 2), (1, 1, 2, 2), (0, 0, 1, 2), (0, 0, 2, 0), "int32"),
    )
]

PATCHES = [
    Row(
        f"extract_image_patches of {sizes} every {strides} at {rates}, {pad}",
        lambda x, s=sizes, t=strides, r=rates, p=pad: opset3.extract_image_patches(x, list(s), list(t), list(r), p),
        [[numbers(2, 3, n, 7)] for n in (6, 9)],
    )
    for pad in ("valid", "same_upper", "same_lower")
    for sizes, strides, rates in (((3, 3), (1, 1), (1, 1)), ((2, 3), (2, 3), (1, 1)), ((2, 2), (3, 2), (2, 3)))
]

PATCHES.append(
    Row(
        "extract_image_patches of images smaller than a patch",
        lambda x: opset3.extract_image_patches(x, [3, 3], [2, 2], [1, 1], "valid"),
        [[numbers(1, 2, *space)] for space in ((7, 7), (2, 2), (3, 4))],
    )
)

BITS = [
    Row(
        f"{op.__name__} of {dtype}",
        op,
        [
            [numbers(n, 3, dtype=dtype, low=-100, high=100), numbers(1, 3, dtype=dtype, low=-100, seed=1)]
            for n in (2, 4)
        ],
    )
    for op in (opset13.bitwise_and, opset13.bitwise_or, opset13.bitwise_xor)
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "int64", "bool")
]
BITS += [
    Row(f"bitwise_not of {dtype}", opset13.bitwise_not, [[numbers(n, 3, dtype=dtype, low=-9)] for n in (2, 4)])
    for dtype in ("int8", "uint8", "int32", "int64", "bool")
]
BITS += [
    Row(
        f"{op.__name__} of {dtype}",
        op,
        [
            [numbers(n, 3, dtype=dtype, low=-100, high=100), numbers(3, dtype=dtype, low=0, high=6, seed=1)]
            for n in (2, 4)
        ],
    )
    for op in (opset15.bitwise_left_shift, opset15.bitwise_right_shift)
    for dtype in ("int8", "uint8", "int16", "uint16", "int32", "int64")
]

REVERSED = [
    Row(
        f"reverse {mode} {axes}",
        lambda x, mode=mode, axes=axes: NodeFactory("opset1").create(
            "Reverse", as_nodes(x, np.array(axes, bool if mode == "mask" else I64), name=""), {"mode": mode}
        ),
        [[numbers(n, 3, 4)] for n in (2, 3)],
    )
    for mode, axes in (("index", [0]), ("index", [-1, 1]), ("mask", [True, False, True]), ("index", []))
]

IMAGES = [
    Row(
        f"col2im of {kernel} every {strides} at {dilations}, pads {pads}",
        lambda x, k=kernel, s=strides, d=dilations, p=pads: opset15.col2im(x, ints(5, 6), ints(*k), s, d, p, p),
        [[numbers(n, 2 * kernel[0] * kernel[1], count)] for n in (1, 3)],
    )
    for kernel, strides, dilations, pads, count in (
        ((2, 3), [1, 1], [1, 1], [0, 0], 16),
        ((2, 2), [2, 1], [1, 1], [1, 0], 15),
        ((2, 2), [1, 1], [2, 3], [1, 1], 25),
    )
]
IMAGES += [
    Row(
        "col2im of int32 that float32 does not hold",
        lambda x: opset15.col2im(x, ints(4, 5), ints(2, 2)),
        [[np.random.default_rng(n).integers(-(2**29), 2**29, (n, 8, 12), np.int32)] for n in (1, 3)],
    ),
    Row(
        "col2im of int32 by a kernel of the run",
        lambda x, k: opset15.col2im(x, ints(4, 5), k),
        [[numbers(n, 8, 12, dtype=np.int32), ints(2, 2)] for n in (1, 3)],
    ),
]
IMAGES.append(Row("col2im without a batch", lambda x: opset15.col2im(x, ints(4, 4), ints(2, 2)), [[numbers(8, 9)]]))

BLOCKS = [
    Row(
        f"{op.__name__} {mode} of {shapes}", lambda x, op=op, mode=mode: op(x, mode, 2), [[numbers(*s)] for s in shapes]
    )
    for op, mode, shapes in (
        (opset1.depth_to_space, "blocks_first", ((1, 16, 2, 2, 2), (1, 16, 0, 2, 2))),
        (opset1.depth_to_space, "depth_first", ((1, 16, 2), (1, 16, 0))),
        (opset1.space_to_depth, "depth_first", ((1, 3, 4, 4), (1, 3, 2, 6))),
        (opset1.space_to_depth, "blocks_first", ((1, 3, 4, 4, 2), (1, 3, 2, 4, 4))),
    )
]

EINSUMS = [
    Row(
        f"einsum of {dtype} saturates",
        lambda *x: opset7.einsum(list(x), "bij,jk->bik"),
        [
            [numbers(2, n, 5, dtype=dtype, low=-20, high=30), numbers(5, 4, dtype=dtype, low=-20, high=30)]
            for n in (3, 4)
        ],
    )
    for dtype in ("int8", "uint8")
]
EINSUMS += [
    Row(
        f"einsum {equation} of {dtype}",
        lambda *x, equation=equation: opset7.einsum(list(x), equation.partition(", of")[0]),
        [[numbers(*shape, dtype=dtype, seed=seed) for seed, shape in enumerate(shapes)]],
        bound=16,
    )
    for equation, shapes in {
        "ij,jk->ik": ((2, 3), (3, 4)),
        "bij,bjk->bik": ((2, 3, 4), (2, 4, 5)),
        "ij,jk": ((2, 3), (3, 4)),
        "...ij,...jk->...ik": ((5, 2, 3), (5, 3, 4)),
        "ii->i": ((3, 3),),
        "ii->": ((3, 3),),
        "ij->ji": ((2, 3),),
        "ij->j": ((2, 3),),
        "i,j->ij": ((3,), (4,)),
        "ab,cd,ef->acf": ((2, 3), (4, 2), (3, 5)),
        "abc,cd,def->abef": ((2, 3, 4), (4, 5), (5, 2, 3)),
        "bhwc,hkc->bhwk": ((1, 2, 3, 4), (2, 5, 4)),
        "Ab,bC->CA": ((2, 3), (3, 4)),
        "...ij,...jk->...ik, of unlike ranks": ((2, 3, 4), (4, 5)),
        "a...b,c...->ac..., of unlike ranks": ((9, 1, 4, 3), (3, 4)),
        "a...b,b...->a..., of no axes": ((2, 5, 3), (3,)),
    }.items()
    for dtype in (("float32", "int32") if equation == "ij,jk->ik" else ("float32",))
]


def test_right_shift_keeps_the_sign_of_64_bits() -> None:
    """OpenVINO's CPU plugin has 32 of them."""
    x = np.array([2**31, -(2**31) - 1, 2**62 + 5, -(2**63), 2**32 - 1, -1])
    for by in (0, 3, 31, 40, 63):
        feed = [x, np.full(x.shape, by)]
        ((shifted,),) = run_onnx(conversion(model_of(opset15.bitwise_right_shift, [feed])), [feed])
        np.testing.assert_array_equal(shifted, x >> by, strict=True)


@pytest.mark.parametrize("row", ROLLS + REVERSALS + BLOCKS + PATCHES + BITS + REVERSED + IMAGES + EINSUMS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


@pytest.mark.parametrize("op", [opset15.bitwise_left_shift, opset15.bitwise_right_shift])
def test_shifts_that_pdpd_broadcasts(op: Callable[..., openvino.Node]) -> None:
    data, shift = np.arange(24, dtype=np.int32).reshape(2, 3, 4), np.array([[0, 1, 2], [3, 1, 0]], np.int32)
    converted = conversion(model_of(lambda x, y: op(x, y, "PDPD"), [[data, shift]]))
    (warning,) = converted.warnings
    assert "other numbers" in warning
    by = shift[:, :, None]
    expected = data << by if op is opset15.bitwise_left_shift else data >> by
    np.testing.assert_array_equal(run_onnx(converted, [[data, shift]])[0][0], expected)


def test_blocks_of_the_run_leave_no_value_without_a_type(caplog: pytest.LogCaptureFixture) -> None:
    """A value that has a shape alone is left out of the file, and onnx_ir says so."""
    feed = [numbers(8, 3, 2), ints(1, 2, 2), ints(0, 0, 1), ints(0, 1, 0)]
    converted = conversion(model_of(opset2.batch_to_space, [feed], [[-1, 3, -1], [3], [3], [3]]))
    ir.serde.serialize_model(converted.model)
    assert not caplog.records

"""Interpolate over batch and channels, and over axes that only the run decides on."""

from __future__ import annotations

import itertools

import numpy as np
import onnx
import onnx.helper
import pytest
from onnx.reference import ReferenceEvaluator
from openvino import opset11

from ortconv.api import conversion
from tests.openvino.live import Row, assert_close, check_row, model_of, numbers, run_onnx, run_openvino
from tests.openvino.ops.test_interpolate import AXES, F32, LOOSE, scales, sizes

# Axes that are not spatial, and sizes of the run for all axes.
ALL = {3: (5, 7, 3), 4: (3, 5, 7, 4), 5: (3, 5, 4, 3, 6)}
ROWS = [
    Row(
        f"{m} {c} along axis {axis} of rank {rank}",
        sizes(m, (t,), (axis,), coordinate_transformation_mode=c),
        [[x]],
        LOOSE,
    )
    for m, c, (rank, axis), t in itertools.product(
        ("nearest", "linear", "linear_onnx", "cubic"), ("half_pixel", "align_corners"), ((1, 0), (3, 1), (4, 1)), (3, 8)
    )
    for x in [numbers(*{1: (5,), 3: (2, 5, 4), 4: (2, 5, 3, 4)}[rank])]
]
ROWS += [
    Row("linear along all axes of rank 3", sizes("linear", (5, 7, 3), (0, 1, 2)), [[numbers(2, 5, 4)]], LOOSE),
    Row("linear along the batch of rank 3", sizes("linear", (5, 7), (2, 0)), [[numbers(2, 5, 4)]], LOOSE),
    Row("cubic along the batch of rank 5", sizes("cubic", (3, 5, 7), (0, 3, 4)), [[numbers(2, 2, 2, 4, 5)]], LOOSE),
    *(
        Row(
            f"{m} to sizes of the run for all axes",
            lambda x, s, m=m: opset11.interpolate(x, s, m, "sizes"),
            [[numbers(n, 2, 5, 6), np.array([n, 2, 10, 2 * n + 1])] for n in (1, 3)],
            LOOSE,
        )
        for m in ("nearest", "linear", "linear_onnx", "cubic")
    ),
    *(
        Row(
            f"{m} by scales of the run that leave a size as it is",
            lambda x, s, m=m: opset11.interpolate(x, s, m, "scales", axes=AXES),
            [[numbers(1, 2, n, 6), np.array([1.3, 1.6], F32)] for n in (2, 5)],
            LOOSE,
        )
        for m in ("nearest", "linear", "linear_onnx", "cubic")
    ),
    Row(
        "linear by scales that may leave a size as it is",
        scales("linear", (1.3, 1.5)),
        [[numbers(1, 2, n, 6)] for n in (2, 5)],
        LOOSE,
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("rank", [3, 4, 5])
@pytest.mark.parametrize("known", [True, False])
def test_every_axis_as_the_page_says(mode: str, rank: int, known: bool) -> None:
    """OpenVINO's CPU plugin goes wrong here; onnx's reference does not."""
    data, goal = numbers(*(2, 4, 3, 5, 4)[:rank]), np.array(ALL[rank])
    feed = [data] if known else [data, goal]
    model = model_of(lambda x, s=goal: opset11.interpolate(x, s, mode, "sizes"), [feed])
    converted = conversion(model)
    ((actual,),) = run_onnx(converted, [feed])
    resize = onnx.helper.make_node("Resize", ["x", "", "", "s"], ["y"], mode=mode, cubic_coeff_a=-0.75)
    (expected,) = ReferenceEvaluator(
        onnx.helper.make_model(
            onnx.helper.make_graph(
                [resize],
                "resize",
                [
                    onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, None),
                    onnx.helper.make_tensor_value_info("s", onnx.TensorProto.INT64, None),
                ],
                [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)],
            ),
            opset_imports=[onnx.helper.make_opsetid("", 19)],
        )
    ).run(None, {"x": data, "s": goal})
    assert_close(actual, expected.astype(F32), LOOSE)
    assert bool(converted.warnings) == (mode == "cubic" or rank > 3)


@pytest.mark.parametrize(
    ("mode", "rank", "axis"), [("bilinear_pillow", 4, 0), ("bicubic_pillow", 5, 3), ("bicubic_pillow", 3, 0)]
)
def test_pillow_along_any_axis(mode: str, rank: int, axis: int) -> None:
    """What OpenVINO's CPU plugin gives along an axis of an image, it must be along any."""
    data = numbers(*(6, 2, 3, 6, 2)[:rank])
    along = np.moveaxis(data, axis, -2)
    flat = np.ascontiguousarray(along.reshape(1, -1, *along.shape[-2:]))
    build = sizes(mode, (4,), (2,), cube_coeff=-0.5)
    ((expected,),) = run_openvino(model_of(build, [[flat]]), [[flat]])
    expected = np.moveaxis(expected.reshape(*along.shape[:-2], 4, along.shape[-1]), -2, axis)
    ((actual,),) = run_onnx(conversion(model_of(sizes(mode, (4,), (axis,), cube_coeff=-0.5), [[data]])), [[data]])
    assert_close(actual, expected, LOOSE)

"""Interpolate over batch and channels, and over axes that only the run decides on."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import onnx
import onnx.helper
import pytest
from onnx.reference import ReferenceEvaluator
from openvino import opset10, opset11

from ortconv.api import conversion
from ortconv.errors import ShapeError, UnsupportedAttributeError, UnsupportedTypeError
from tests.converters.openvino.live import (
    Refusal,
    Row,
    assert_close,
    assert_refused,
    check_row,
    model_of,
    numbers,
    run_onnx,
    run_openvino,
)
from tests.converters.openvino.ops.test_interpolate import AXES, COORDINATES, F32, LOOSE, NEAREST, TF, scales, sizes

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


def running(mode: str, by: str, **attributes: object) -> Callable[..., object]:
    """Returns a builder of an Interpolate-11 along axes of the run."""
    return lambda x, target, axes: opset11.interpolate(x, target, mode, by, axes=axes, **attributes)


def running_4(mode: str, by: str, **attributes: object) -> Callable[..., object]:
    """Returns a builder of an Interpolate-4 along axes of the run."""
    return lambda x, target, axes: opset10.interpolate(
        x,
        target if by == "sizes" else np.array([1, 1]),
        target if by == "scales" else np.array([1, 1], F32),
        mode,
        by,
        axes=axes,
        **attributes,
    )


TARGETS: dict[str, tuple[np.ndarray, np.ndarray]] = {
    "sizes": (np.array([9, 4]), np.array([5, 12])),
    "scales": (np.array([1.5, 0.7], F32), np.array([0.6, 2], F32)),
}
MODES = ("nearest", "linear", "linear_onnx", "cubic")
ROWS += [
    Row(
        f"{build.__name__} {m} {c} by {by}",
        build(m, by, coordinate_transformation_mode=c),
        [[numbers(1, 2, n, 6), target, AXES] for n, target in zip((5, 8), TARGETS[by], strict=True)],
        LOOSE,
    )
    for build, m, by, c in itertools.product((running, running_4), MODES, TARGETS, (*COORDINATES, TF))
]
ROWS += [
    Row(
        f"nearest {n} by {by} along axes of the run",
        running("nearest", by, nearest_mode=n, coordinate_transformation_mode="asymmetric"),
        [[numbers(1, 2, n, 6), target, AXES] for n, target in zip((5, 8), TARGETS[by], strict=True)],
        0,
    )
    for n, by in itertools.product(NEAREST, TARGETS)
]
ROWS += [
    Row(
        f"{m} by {by} along axes of the run in another order",
        running(m, by),
        [
            [numbers(1, 2, n, 6), target, np.array(axes, np.int32)]
            for n, target, axes in zip((5, 8), TARGETS[by], ([3, 2], [2, 3]), strict=True)
        ],
        LOOSE,
    )
    for m, by in itertools.product(("nearest", "linear", "cubic"), TARGETS)
]
ROWS += [
    Row(
        f"{m} of {len(shape)} along {axes} of the run",
        running(m, "sizes", **({"cube_coeff": -0.5} if m == "bicubic_pillow" else {})),
        [[numbers(*shape), np.array([7, 3, 5][: len(axes)]), np.array(axes)]],
        LOOSE,
    )
    for shape, axes, modes in (
        ((5,), (0,), ("nearest", "linear", "cubic")),
        ((4, 5), (0, 1), (*MODES, "bilinear_pillow", "bicubic_pillow")),
        ((2, 3, 5), (2,), ("nearest", "linear", "cubic")),
        ((1, 5, 6, 3), (1, 2), ("nearest", "linear", "cubic", "bilinear_pillow", "bicubic_pillow")),
        ((1, 5, 6, 3), (2, 3), (*MODES, "bilinear_pillow", "bicubic_pillow")),
        ((1, 2, 4, 5, 3), (2, 3, 4), MODES),
        ((1, 2, 4, 5, 3), (3, 4), ("nearest", "linear", "cubic")),
    )
    for m in modes
]
ROWS += [
    Row(
        f"{m} after padding, along axes of the run",
        running(m, "scales", pads_begin=[0, 0, 0, 1], pads_end=[0, 0, 2]),
        [[numbers(1, 2, n, 6), target, AXES] for n, target in zip((5, 8), TARGETS["scales"], strict=True)],
        LOOSE,
    )
    for m in MODES
]
ROWS += [
    Row(
        f"nearest of {np.dtype(dtype).name} along axes of the run",
        running("nearest", "sizes"),
        [[numbers(1, 2, 5, 6, dtype=dtype), TARGETS["sizes"][0], AXES]],
        0,
    )
    for dtype in (np.uint8, np.int8, np.float16)
]


@pytest.mark.parametrize("by", TARGETS)
@pytest.mark.parametrize("mode", MODES)
def test_axes_of_the_run_from_the_end(mode: str, by: str) -> None:
    """OpenVINO's CPU plugin crashes on these; along the same axes, counted from the front, it does not."""
    feeds = [[numbers(1, 2, n, 6), target, np.array([-1, 2])] for n, target in zip((5, 8), TARGETS[by], strict=True)]
    converted = conversion(model_of(running(mode, by), feeds))
    assert any("may return wrong numbers" in warning for warning in converted.warnings)
    for feed, (actual,) in zip(feeds, run_onnx(converted, feeds), strict=True):
        known = (sizes if by == "sizes" else scales)(mode, tuple(feed[1][::-1]))
        ((expected,),) = run_openvino(model_of(known, [feed[:1]]), [feed[:1]])
        assert_close(actual, expected, LOOSE)


REFUSALS = [
    Refusal(
        "smoothing along axes of the run",
        running("linear", "sizes", antialias=True),
        [numbers(1, 2, 5, 6), *TARGETS["sizes"][:1], AXES],
        UnsupportedAttributeError,
        {"attribute": "antialias", "value": True},
    ),
    *(
        Refusal(
            f"{mode} of integers along axes of the run",
            running(mode, "sizes"),
            [numbers(1, 2, 5, 6, dtype=np.uint8), *TARGETS["sizes"][:1], AXES],
            UnsupportedTypeError,
            {"dtype": "u8"},
        )
        for mode in (*MODES[1:], "bilinear_pillow")
    ),
    Refusal(
        "more sizes than axes of the run",
        running("nearest", "sizes"),
        [numbers(1, 2, 5, 6), np.array([5, 6, 7]), AXES],
        ShapeError,
        {"input": "sizes"},
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refused(refusal: Refusal) -> None:
    assert_refused(refusal)


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

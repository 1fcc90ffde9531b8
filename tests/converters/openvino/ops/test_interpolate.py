"""Interpolate against OpenVINO's CPU plugin."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import openvino
import pytest
from openvino import opset1, opset10, opset11

from ortconv.api import conversion
from ortconv.errors import ShapeError, UnsupportedAttributeError, UnsupportedTypeError
from tests.converters.openvino.live import Refusal, Row, assert_refused, check, check_row, model_of, numbers

F32 = np.float32
COORDINATES = ("half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners")
NEAREST = ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil", "simple")
LOOSE = 32
AXES = np.array([2, 3])


def sizes(mode: str, target: tuple[int, ...], axes: object = AXES, **attributes: object) -> Callable[..., object]:
    """Returns a builder of an Interpolate-11 to given sizes."""
    return lambda x: opset11.interpolate(x, np.array(target), mode, "sizes", axes=np.array(axes), **attributes)


def scales(mode: str, target: tuple[float, ...], axes: object = AXES, **attributes: object) -> Callable[..., object]:
    """Returns a builder of an Interpolate-11 by given scales."""
    return lambda x: opset11.interpolate(x, np.array(target, F32), mode, "scales", axes=np.array(axes), **attributes)


IMAGE = [numbers(1, 2, 5, 6)]
WHOLE = [numbers(1, 2, 5, 6, dtype=np.int64)]
ROWS = [
    Row(
        f"nearest {c} {n} to {t}",
        sizes("nearest", t, coordinate_transformation_mode=c, nearest_mode=n),
        [IMAGE],
        0,
    )
    for c, n, t in itertools.product(COORDINATES, NEAREST, ((10, 12), (3, 4), (7, 4)))
]
ROWS.append(Row("nearest i64", sizes("nearest", (10, 3)), [WHOLE]))
ROWS += [
    Row(
        f"nearest tf_half_pixel_for_nn to {t}",
        sizes("nearest", t, coordinate_transformation_mode="tf_half_pixel_for_nn", nearest_mode="floor"),
        [IMAGE],
        0,
    )
    for t in ((10, 12), (3, 4), (7, 9))
]
ROWS += [
    Row(f"{m} {c} to {t}", sizes(m, t, coordinate_transformation_mode=c), [IMAGE], LOOSE)
    for m, c, t in itertools.product(("linear", "linear_onnx", "cubic"), COORDINATES, ((10, 12), (3, 4), (7, 4)))
]
ROWS += [
    Row(
        f"{m} by scales {t}",
        scales(m, t, coordinate_transformation_mode=c),
        [[numbers(1, 2, n, 6)] for n in (5, 8)],
        LOOSE,
    )
    for (m, c), t in itertools.product(
        (("nearest", "asymmetric"), ("linear_onnx", "half_pixel"), ("cubic", "half_pixel")), ((2, 2), (1.5, 0.5))
    )
]
ROWS += [
    *(
        Row(
            f"{m} pytorch_half_pixel to {t}",
            sizes(m, t, coordinate_transformation_mode="pytorch_half_pixel"),
            [IMAGE],
            LOOSE,
        )
        for m, t in itertools.product(("linear", "linear_onnx", "cubic"), ((1, 1), (1, 12), (10, 1)))
    ),
    Row("cubic with another coefficient", sizes("cubic", (9, 8), cube_coeff=-0.5), [IMAGE], LOOSE),
    Row("linear with antialias, growing", sizes("linear", (10, 9), antialias=True), [IMAGE], LOOSE),
    *(
        Row(
            f"linear to {target} with antialias {c}",
            sizes("linear", target, antialias=True, coordinate_transformation_mode=c),
            [IMAGE],
            LOOSE,
        )
        for target in ((3, 2), (3, 6), (1, 1), (4, 12))
        for c in ("half_pixel", "align_corners")
    ),
    *(
        Row(
            f"linear of volumes to {target} with antialias",
            sizes("linear", target, (2, 3, 4), antialias=True),
            [[numbers(1, 2, 8, 6, 7)]],
            LOOSE,
        )
        for target in ((3, 2, 5), (8, 3, 2), (1, 6, 1))
    ),
    Row("cubic with antialias, which has no effect", sizes("cubic", (3, 2), antialias=True), [IMAGE], LOOSE),
    Row("bilinear_pillow shrinking", sizes("bilinear_pillow", (3, 2)), [IMAGE], LOOSE),
    Row("bilinear_pillow growing", sizes("bilinear_pillow", (10, 9)), [IMAGE], LOOSE),
    Row("bicubic_pillow shrinking", sizes("bicubic_pillow", (3, 2), cube_coeff=-0.5), [IMAGE], LOOSE),
    Row("bicubic_pillow growing", sizes("bicubic_pillow", (10, 9), cube_coeff=-0.5), [IMAGE], LOOSE),
    Row(
        "linear with padding",
        sizes("linear_onnx", (10, 12), pads_begin=[0, 0, 1, 0], pads_end=[0, 0, 0, 2]),
        [IMAGE],
        LOOSE,
    ),
    Row(
        "nearest with short padding lists",
        sizes("nearest", (3, 10, 12), (1, 2, 3), pads_begin=[0, 1], pads_end=[0]),
        [IMAGE],
        0,
    ),
    Row(
        "nearest of all axes",
        lambda x: opset11.interpolate(x, np.array([1, 2, 10, 12]), "nearest", "sizes"),
        [IMAGE],
        0,
    ),
    Row(
        "linear of all axes, two of which stay",
        lambda x: opset11.interpolate(x, np.array([1, 2, 10, 12]), "linear", "sizes"),
        [IMAGE],
        LOOSE,
    ),
    Row("nothing to do", sizes("linear", (5, 6)), [IMAGE], 0, emits=["Identity"]),
    Row("linear of rank 3", sizes("linear", (9,), (2,)), [[numbers(1, 2, 5)]], LOOSE),
    Row("linear of rank 5", sizes("linear", (4, 9, 8), (2, 3, 4)), [[numbers(1, 2, 3, 5, 6)]], LOOSE),
    Row("linear of NHWC", sizes("linear", (9, 8), (1, 2)), [[numbers(1, 5, 6, 3)]], LOOSE),
    *(
        Row(
            f"{mode} {by.__name__} between Transposes",
            lambda x, mode=mode, by=by: opset1.transpose(
                by(mode, (2, 3) if by is scales else (10, 9))(opset1.transpose(x, np.array([0, 3, 1, 2]))),
                np.array([0, 2, 3, 1]),
            ),
            [[numbers(1, n, 4, 3)] for n in (5, 6)],
            LOOSE,
        )
        for mode, by in itertools.product(("nearest", "linear_onnx"), (sizes, scales))
    ),
    Row("linear along one axis", sizes("linear_onnx", (9, 6)), [IMAGE], LOOSE),
    Row("linear, axes in another order", sizes("linear_onnx", (9, 8), (3, 2)), [IMAGE], LOOSE),
    Row("linear f16", sizes("linear_onnx", (10, 12)), [[numbers(1, 2, 5, 6, dtype=np.float16)]], 4),
    Row(
        "linear to sizes of the run",
        lambda x, s: opset11.interpolate(x, s, "linear_onnx", "sizes", axes=AXES),
        [[numbers(1, 2, 5, n), np.array([10, 2 * n])] for n in (6, 7)],
        LOOSE,
    ),
    Row(
        "nearest by scales of the run",
        lambda x, s: opset11.interpolate(
            x, s, "nearest", "scales", coordinate_transformation_mode="asymmetric", nearest_mode="floor", axes=AXES
        ),
        [[numbers(1, 2, 5, n), np.array([2, 3], F32)] for n in (6, 7)],
        0,
    ),
    Row(
        "interpolate-4 to sizes",
        lambda x: opset10.interpolate(x, np.array([10, 12]), np.array([2, 2], F32), "linear_onnx", "sizes", axes=AXES),
        [IMAGE],
        LOOSE,
    ),
    Row(
        "interpolate-4 by scales",
        lambda x: opset10.interpolate(x, np.array([0, 0]), np.array([2, 1.5], F32), "nearest", "scales", axes=AXES),
        [[numbers(1, 2, n, 6)] for n in (5, 8)],
        0,
    ),
]
ROWS += [
    Row(f"nearest {dtype}", sizes("nearest", (10, 4), nearest_mode="floor"), [[numbers(1, 2, 5, 6, dtype=dtype)]], 0)
    for dtype in ("float16", "int8", "uint8", "int32")
]
ROWS += [
    Row(
        f"interpolate-1 {m} align_corners {a} of {len(shape)} to {t}",
        lambda x, m=m, a=a, t=t: opset1.interpolate(
            x, np.array(t), {"axes": np.arange(2, 2 + len(t)), "mode": m, "align_corners": a}
        ),
        [[numbers(*shape)]],
        LOOSE,
    )
    for m, a, (shape, t) in itertools.product(
        ("nearest", "linear", "cubic"),
        (True, False),
        (((1, 2, 5, 6), (10, 12)), ((1, 2, 5, 6), (3, 4)), ((1, 2, 5), (9,)), ((1, 2, 3, 5, 6), (4, 9, 8))),
    )
    if not (m == "cubic" and len(shape) != 4)
]

ROWS += [
    Row(
        f"interpolate-1 {m} align_corners {a} after padding {begin} {end} to {t}",
        lambda x, m=m, a=a, p=(begin, end), t=t: opset1.interpolate(
            x,
            np.array(t),
            {"axes": AXES, "mode": m, "align_corners": a, "pads_begin": np.array(p[0]), "pads_end": np.array(p[1])},
        ),
        [[numbers(1, 2, n, 6)] for n in (5, 7)],
        LOOSE,
    )
    for m, a, ((begin, end), t) in itertools.product(
        ("nearest", "linear", "cubic"),
        (True, False),
        ((([0, 0, 1], [0]), (10, 12)), (([0, 0, 1, 2], [0, 0, 0, 1]), (4, 9)), (([0], [0, 0, 2, 1]), (3, 7))),
    )
]


ROWS += [
    Row("nearest simple of which one axis stays", sizes("nearest", (10, 6), nearest_mode="simple"), [IMAGE], 0),
    Row("nearest simple that changes nothing", sizes("nearest", (5, 6), nearest_mode="simple"), [IMAGE], 0),
    Row("scales that are quotients become sizes", scales("cubic", (1.3, 0.7)), [[numbers(1, 2, 10, 10)]], LOOSE),
    Row("scales that leave a size as it is", scales("linear", (1.3, 2)), [[numbers(1, 2, 2, 6)]], LOOSE, "runtime"),
    Row(
        "bilinear_pillow by scales",
        scales("bilinear_pillow", (0.7, 1.6)),
        [[numbers(1, 2, n, 6)] for n in (5, 9)],
        LOOSE,
    ),
    Row("bicubic_pillow of another coefficient", sizes("bicubic_pillow", (3, 9)), [IMAGE], LOOSE),
]


# What ONNX Resize or ONNX Runtime's kernel lacks.
TF = "tf_half_pixel_for_nn"
ROWS += [
    Row(
        f"nearest {TF} {n} to {t}, of any size",
        sizes("nearest", t, coordinate_transformation_mode=TF, nearest_mode=n),
        [[numbers(1, 2, size, 6)] for size in (5, 8)],
        0,
    )
    for n, t in itertools.product(NEAREST, ((10, 12), (3, 6), (8, 4)))
]
ROWS += [
    Row(
        f"{m} {TF} to {t}",
        sizes(m, t, coordinate_transformation_mode=TF),
        [[numbers(1, 2, size, 6)] for size in (5, 8)],
        LOOSE,
    )
    for m, t in itertools.product(("linear", "linear_onnx", "cubic"), ((10, 12), (3, 6), (8, 4)))
]
ROWS += [
    Row(
        f"nearest {c} simple of any size",
        sizes("nearest", (6, 7), coordinate_transformation_mode=c, nearest_mode="simple"),
        [[numbers(1, 2, size, 6)] for size in (5, 8)],
        0,
    )
    for c in COORDINATES
]
ROWS += [
    Row(
        f"nearest {c} simple by scales, of any size",
        scales("nearest", (1.5, 0.6), coordinate_transformation_mode=c, nearest_mode="simple"),
        [[numbers(1, 2, size, 7)] for size in (5, 8)],
        0,
    )
    for c in COORDINATES
]
ROWS += [
    Row(
        f"cubic {c} of rank {rank}",
        sizes("cubic", (9, 3, 5)[: rank - 2], range(2, rank), coordinate_transformation_mode=c),
        [[numbers(1, 2, *[n, 6, 4][: rank - 2])] for n in (5, 7)],
        LOOSE,
    )
    for c, rank in itertools.product(COORDINATES, (3, 5))
]
ROWS += [
    Row(
        f"linear {TF} of u8",
        sizes("linear", (10, 12), coordinate_transformation_mode=TF),
        [[numbers(1, 2, 5, 6, dtype=np.uint8, high=200)]],
    ),
    Row(
        f"linear_onnx {TF} of f16",
        sizes("linear_onnx", (10, 12), coordinate_transformation_mode=TF),
        [[numbers(1, 2, 5, 6, dtype=np.float16)]],
    ),
]

# Five axes: OpenVINO's CPU plugin smooths there, and does not round 8 bits.
VOLUME_AXES = (2, 3, 4)
GOALS = ((8, 9, 12), (3, 4, 4), (3, 9, 4), (5, 9, 4), (1, 6, 7), (5, 6, 14), (5, 6, 7))
ROWS += [
    Row(
        f"linear {c} smoothed to {t}",
        sizes("linear", t, VOLUME_AXES, coordinate_transformation_mode=c, antialias=True),
        [[numbers(1, 2, *shape)] for shape in ((5, 6, 7), (4, 6, 9))],
        LOOSE,
    )
    for c, t in itertools.product(COORDINATES, GOALS)
]
ROWS += [
    Row(
        "linear smoothed by scales",
        scales("linear", (1.7, 0.6), (3, 4), antialias=True),
        [[numbers(1, 2, 5, *shape)] for shape in ((6, 7), (8, 11))],
        LOOSE,
    ),
    Row(
        "linear smoothed, of f16",
        sizes("linear", (3, 9, 4), VOLUME_AXES, antialias=True),
        [[numbers(1, 2, 5, 6, 7, dtype=np.float16)]],
        LOOSE,
    ),
]
ROWS += [
    Row(
        f"linear {c} of rank 5, {np.dtype(dtype).name}, to {t}",
        sizes("linear", t, VOLUME_AXES, coordinate_transformation_mode=c),
        [[numbers(1, 2, *shape, dtype=dtype, low=-128, high=255)] for shape in ((5, 6, 7), (4, 6, 9))],
    )
    for c, t in itertools.product(COORDINATES, GOALS)
    for dtype in (np.uint8, np.int32)
]
ROWS += [
    Row(
        f"linear of rank 5, {np.dtype(dtype).name}, antialias {antialias}",
        sizes("linear", (8, 9), (2, 4), antialias=antialias),
        [[numbers(1, 2, 5, 6, 7, dtype=dtype, low=-100, high=100)]],
    )
    for dtype in (np.uint8, np.int8, np.int32, np.int64)
    for antialias in (False, True)
]
ROWS.append(
    Row(
        "linear of rank 5, u8, by scales",
        scales("linear", (1.7, 0.6), (3, 4)),
        [[numbers(1, 2, 5, *shape, dtype=np.uint8, high=255)] for shape in ((6, 7), (8, 11))],
    )
)


@pytest.mark.parametrize("target", [(3, 2), (7, 9)])
def test_coefficient_counts_for_constants_which_openvino_folds(target: tuple[int, int]) -> None:
    resized = sizes("bicubic_pillow", target)
    feed = [numbers(1, 2, *target, seed=1)]
    converted = check(model_of(lambda x: opset1.add(resized(opset1.constant(IMAGE[0])), x), [feed]), feed, bound=LOOSE)
    assert not converted.warnings


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (scales("linear", (1.3, 2)), "copied"),
        (sizes("bicubic_pillow", (3, 9)), "cube_coeff = -0.5 instead of -0.75"),
        (sizes("linear", (3, 2), antialias=True), "antialias"),
        (sizes("nearest", (3,), (1,), pads_begin=[0, 1, 0, 0]), "pads other axes"),
        (sizes("nearest", (3,), (0,)), "the batch, or in some modes channels"),
        (
            lambda x: opset1.interpolate(
                x, np.array([10, 12]), {"axes": AXES, "mode": "nearest", "pads_begin": np.array([0, 0, 1])}
            ),
            "pads count from the first axis",
        ),
    ],
)
def test_differences_are_warned_about(build: Callable[..., object], text: str) -> None:
    feed = [numbers(1, 2, 2, 6)] if text == "copied" else IMAGE
    (warning,) = conversion(model_of(build, [feed])).warnings
    assert text in warning


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


DYNAMIC = [[1, 2, -1, -1]]
REFUSALS = [
    Refusal(
        "a scale whose product is next to an integer",
        scales("nearest", (1.3, 0.6)),
        [numbers(1, 2, 10, 4)],
        UnsupportedAttributeError,
        {"attribute": "shape_calculation_mode", "value": "scales"},
    ),
    *(
        Refusal(
            f"cubic of {np.dtype(dtype).name} of rank 5",
            sizes("cubic", (3, 4, 5), VOLUME_AXES),
            [numbers(1, 2, 4, 5, 6, dtype=dtype)],
            UnsupportedTypeError,
            {"dtype": spelled},
        )
        for dtype, spelled in ((np.uint8, "u8"), (np.int32, "i32"))
    ),
    Refusal(
        "integers of rank 5 along channels",
        sizes("linear", (4, 3), (1, 3)),
        [numbers(1, 2, 4, 5, 6, dtype=np.uint8)],
        UnsupportedTypeError,
        {"dtype": "u8"},
    ),
    Refusal(
        "antialias of integers that shrink",
        sizes("linear", (5, 10, 3), VOLUME_AXES, antialias=True),
        [numbers(1, 2, 4, 5, 6, dtype=np.uint8)],
        UnsupportedAttributeError,
        {"attribute": "antialias", "value": True},
    ),
    Refusal(
        "antialias along channels",
        sizes("linear", (4, 3), (1, 3), antialias=True),
        [numbers(1, 2, 4, 5, 6)],
        UnsupportedAttributeError,
        {"attribute": "antialias", "value": True},
    ),
    Refusal(
        "nothing left",
        scales("nearest", (0.1, 1)),
        IMAGE,
        ShapeError,
        {"input": "data"},
    ),
    Refusal(
        "area",
        lambda x: opset1.interpolate(x, np.array([10, 12]), {"axes": AXES, "mode": "area"}),
        IMAGE,
        UnsupportedAttributeError,
        {"attribute": "mode", "value": "area"},
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refused(refusal: Refusal) -> None:
    assert_refused(refusal)


@pytest.mark.parametrize(("target", "emitted"), [((10, 12), "half_pixel"), ((10, 1), "pytorch_half_pixel")])
def test_pytorch_half_pixel_is_half_pixel_where_no_size_is_one(target: tuple[int, int], emitted: str) -> None:
    """ONNX Runtime has faster kernels for that; here one that keeps the layout of a convolution."""
    kernel = opset1.constant(numbers(16, 16, 3, 3))

    def build(x: openvino.Node) -> openvino.Node:
        convolved = opset1.convolution(x, kernel, [1, 1], [1, 1], [1, 1], [1, 1])
        return sizes("linear", target, coordinate_transformation_mode="pytorch_half_pixel")(convolved)

    feed = [numbers(1, 16, 5, 6)]
    converted = check(model_of(build, [feed]), feed, bound=64)
    (resize,) = [node for node in converted.model.graph if node.op_type == "Resize"]
    assert resize.attributes["coordinate_transformation_mode"].as_string() == emitted

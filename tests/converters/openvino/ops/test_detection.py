"""GridSample, ROI ops, prior boxes and YOLO's ops against OpenVINO's CPU plugin."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from openvino import opset1, opset2, opset3, opset8, opset9, opset15

from ortconv.errors import ShapeError, UnsupportedAttributeError
from tests.converters.openvino.live import Refusal, Row, assert_refused, check, check_row, model_of, numbers

F32 = np.float32
BOUND = 64


def sampler(mode: str, padding: str, corners: bool) -> Any:
    attributes = {"mode": mode, "padding_mode": padding, "align_corners": corners}
    return lambda data, grid: opset9.grid_sample(data, grid, attributes)


def spatial(x: Any) -> Any:
    """Returns the spatial sizes of an image."""
    return opset8.gather(opset3.shape_of(x), np.array([2, 3]), np.array(0))


GRIDS = [
    [numbers(2, 3, 5, 6), numbers(2, 4, 3, 2, low=-1.5, high=1.5)],
    [numbers(2, 3, 4, 7), numbers(2, 2, 5, 2, low=-1.5, high=1.5)],
]
ROWS = [
    Row(f"grid_sample {mode} {padding} align_corners {corners}", sampler(mode, padding, corners), GRIDS, BOUND)
    for mode in ("bilinear", "bicubic", "nearest")
    for padding in ("zeros", "border", "reflection")
    for corners in (False, True)
]
ROWS += [
    Row(
        f"grid_sample {dtype}",
        sampler("bilinear", "zeros", False),
        [[numbers(2, 3, 5, 6, dtype=dtype), numbers(2, 4, 3, 2, low=-1, high=1)]],
        BOUND,
    )
    for dtype in ("float16", "float64", "int32", "uint8")
]

BOXES = np.array([[0, 0, 4, 4], [1, 1.5, 7.3, 5.1], [-2, -1, 3, 12], [5, 5, 4, 4]], F32)
TURNED = np.array([[4, 4, 4, 3, 0.3], [3, 2, 6, 5, -1.2], [0, 0, 9, 12, 2]], F32)
OWNERS = np.array([0, 1, 1, 0], np.int32)


def boxed(count: int, boxes: np.ndarray = BOXES) -> list[list[np.ndarray]]:
    return [[numbers(2, 3, 8, 9), boxes[:count], OWNERS[:count]]]


ROWS += [
    Row(
        f"roi_align-3 {mode} ratio {ratio} scale {scale}",
        lambda x, r, i, m=mode, s=ratio, z=scale: opset3.roi_align(x, r, i, 2, 3, s, z, m),
        boxed(4),
        BOUND,
    )
    for mode in ("avg", "max")
    for ratio in (0, 1, 3)
    for scale in (1.0, 0.5)
]
ROWS += [
    Row(
        f"roi_align-9 {mode} ratio {ratio} {aligned}",
        lambda x, r, i, m=mode, s=ratio, a=aligned: opset9.roi_align(x, r, i, 2, 3, s, 0.7, m, a),
        boxed(3),
        BOUND,
    )
    for mode in ("avg", "max")
    for ratio in (0, 2)
    for aligned in ("asymmetric", "half_pixel_for_nn", "half_pixel")
]
ROWS += [
    Row(
        f"roi_align_rotated ratio {ratio} clockwise {clockwise}",
        lambda x, r, i, s=ratio, c=clockwise: opset15.roi_align_rotated(x, r, i, 2, 3, s, 0.7, c),
        boxed(3, TURNED),
        BOUND,
    )
    for ratio in (0, 1, 2)
    for clockwise in (False, True)
]

NORMAL_BOXES = np.array(
    [[0, 0, 0, 0.5, 0.6], [1, 0.1, 0.2, 1, 1], [1, 0.3, 0.3, 1.2, 0.9], [0, -0.1, 0, 0.4, 0.5]], F32
)
OWNED = np.concatenate([OWNERS[:, None].astype(F32), BOXES], axis=1)
POSITIVE = np.array([[0, 0, 0, 4, 4], [1, 1, 1.5, 7.3, 5.1], [1, 2, 1, 8, 6.4]], F32)
ROWS += [
    Row(
        f"roi_pooling max to {goal} scale {scale} {dtype}",
        lambda x, r, g=goal, z=scale: opset2.roi_pooling(x, r, output_roi=list(g), spatial_scale=z, method="max"),
        [[numbers(2, 3, 8, 9, dtype=dtype), OWNED.astype(dtype)]],
        0,
    )
    for goal in ((1, 1), (2, 3), (7, 7))
    for scale in (1.0, 0.5)
    for dtype in ("float32", "float16")
]
ROWS += [
    Row(
        f"roi_pooling bilinear to {goal}",
        lambda x, r, g=goal: opset2.roi_pooling(x, r, output_roi=list(g), spatial_scale=1.0, method="bilinear"),
        [[numbers(2, 3, 8, 9), NORMAL_BOXES]],
        BOUND,
    )
    for goal in ((1, 1), (2, 3), (7, 7))
]
ROWS += [
    Row(
        f"psroi_pooling average to {goal} scale {scale}",
        lambda x, r, g=goal, z=scale: opset1.psroi_pooling(x, r, 2, g, z, 1, 1, "average"),
        [[numbers(2, 2 * goal * goal, 8, 9), POSITIVE]],
        BOUND,
    )
    for goal in (1, 2, 3)
    for scale in (1.0, 0.5, 0.7)
]
ROWS += [
    Row(
        f"psroi_pooling average to {goal}, boxes beyond the image and turned round, scale {scale}",
        lambda x, r, g=goal, z=scale: opset1.psroi_pooling(x, r, 2, g, z, 1, 1, "average"),
        [
            [
                numbers(2, 2 * goal * goal, 6, 7),
                np.array(
                    [
                        [0, 5, 5, 8, 7],
                        [1, 5, 2, 7, 4],
                        [0, 7, 2, 9, 4],
                        [1, 3, 1, 8, 0],
                        [0, -3, 6, 3, 3],
                        [1, -4, -4, 2, 2],
                    ],
                    np.float32,
                )
                * np.array([1, *[1 / scale] * 4], np.float32),
            ]
        ],
        BOUND,
    )
    for goal in (1, 2, 3)
    for scale in (1.0, 0.5)
]
ROWS += [
    Row(
        f"psroi_pooling bilinear to {goal}, {across} by {down} bins",
        lambda x, r, g=goal, w=across, h=down: opset1.psroi_pooling(x, r, 2, g, 1.0, w, h, "bilinear"),
        [[numbers(2, 2 * across * down, 8, 9), np.abs(NORMAL_BOXES)]],
        BOUND,
    )
    for goal in (1, 2, 3)
    for across, down in ((1, 1), (2, 3))
]
ROWS += [
    Row(
        f"deformable_psroi_pooling to {goal}, {across} by {down} bins, scale {scale}, offsets {moved}",
        lambda x, r, *o, g=goal, w=across, h=down, z=scale: opset1.deformable_psroi_pooling(
            x, r, 2, z, g, "bilinear_deformable", w, h, 0.3, g, *o
        ),
        [[numbers(2, 2 * goal * goal, 8, 9), POSITIVE, *[numbers(3, 4, goal, goal, low=-0.5, high=0.5)] * moved]],
        BOUND,
    )
    for goal in (1, 2, 3)
    for across, down in ((1, 1), (2, 3))
    for scale in (1.0, 0.5)
    for moved in (False, True)
]

ENDED = [np.insert(POSITIVE, where, [-1, 0, 0, 0, 0], axis=0) for where in (0, 1, 3)]
"""Boxes up to one of batch -1, which is how Proposal fills up; nothing counts from there on."""

ROWS += [
    Row(
        f"{name} of boxes that end early, {dtype}",
        build,
        [[numbers(2, 8, 8, 9, dtype=dtype), boxes.astype(dtype)]],
        BOUND,
    )
    for name, build in (
        ("roi_pooling max", lambda x, r: opset2.roi_pooling(x, r, [2, 2], 0.5, "max")),
        ("roi_pooling bilinear", lambda x, r: opset2.roi_pooling(x, r, [2, 2], 0.1, "bilinear")),
        ("psroi_pooling average", lambda x, r: opset1.psroi_pooling(x, r, 2, 2, 0.5, 1, 1, "average")),
        ("psroi_pooling bilinear", lambda x, r: opset1.psroi_pooling(x, r, 2, 2, 0.1, 2, 2, "bilinear")),
        (
            "deformable_psroi_pooling",
            lambda x, r: opset1.deformable_psroi_pooling(x, r, 2, 0.5, 2, "bilinear_deformable", 2, 2, 0.3, 2),
        ),
    )
    for boxes in ENDED
    for dtype in ("float32", "float16")
]
ROWS.append(
    Row(
        "roi_pooling of constant boxes that end early",
        lambda x: opset2.roi_pooling(x, ENDED[1], [2, 2], 0.5, "max"),
        [[numbers(2, 8, 8, 9)]],
        0,
    )
)
ROWS.append(
    Row(
        "roi_pooling of constant boxes",
        lambda x: opset2.roi_pooling(x, POSITIVE, [2, 2], 0.5, "max"),
        [[numbers(2, 8, 8, 9)]],
        0,
        emits=["MaxRoiPool"],
    )
)

ROWS += [
    Row(
        f"psroi_pooling {mode} of float16 in boxes of float32",
        lambda x, r, m=mode: opset1.psroi_pooling(x, r, 2, 2, 0.1, 2, 2, m),
        [[numbers(2, 8, 8, 9, dtype="float16"), POSITIVE]],
        BOUND,
    )
    for mode in ("average", "bilinear")
]

PRIORS: dict[str, Any] = {
    "offset": 0.5,
    "min_size": [10.0],
    "max_size": [20.0],
    "aspect_ratio": [2.0, 3.0],
    "flip": True,
    "clip": False,
    "step": 0.0,
    "variance": [0.1, 0.1, 0.2, 0.2],
}
FIXED = {"fixed_size": [16.0, 31.5], "density": [2.0, 1.0], "min_size": [], "max_size": [], "aspect_ratio": []}
PRIOR_VARIANTS: dict[str, dict[str, Any]] = {
    "with all defaults": {},
    "clipped": {"clip": True},
    "without flip": {"flip": False},
    "with a step": {"step": 8.0, "offset": 0.3},
    "of one variance": {"variance": [0.3]},
    "of no variance": {"variance": []},
    "without max_size": {"max_size": []},
    "of two sizes": {"min_size": [10.0, 15.0], "max_size": [20.0, 30.0]},
    "of two sizes and one max_size": {"min_size": [10.0, 15.0]},
    "by fractions of the image": {"scale_all_sizes": False, "min_size": [0.2, 0.3], "max_size": [], "step": 0.0},
    "by fractions, with a step": {"scale_all_sizes": False, "min_size": [0.2, 0.3], "max_size": [], "step": 0.1},
    "of fixed sizes": FIXED,
    "of fixed sizes and a ratio": FIXED | {"fixed_ratio": [2.0]},
    "of fixed sizes and as many ratios": FIXED | {"aspect_ratio": [2.0], "fixed_ratio": [1.5, 3.0], "flip": False},
    "of fixed sizes and as many ratios, flipped": FIXED | {"aspect_ratio": [2.0], "fixed_ratio": [1.5, 3.0, 1.0]},
    "of fixed sizes and aspect ratios": FIXED | {"aspect_ratio": [2.0]},
}
SIZES = [
    [np.array([3, 4], np.int64), np.array([40, 60], np.int64)],
    [np.array([2, 5], np.int64), np.array([30, 30], np.int64)],
]
ROWS += [
    Row(
        f"prior_box-{version} {name}",
        lambda s, i, o=op, a=PRIORS | variant: o(s, i, a),
        SIZES,
        BOUND,
    )
    for version, op in ((1, opset1.prior_box), (8, opset8.prior_box))
    for name, variant in PRIOR_VARIANTS.items()
]
CLUSTERED: dict[str, Any] = {
    "offset": 0.5,
    "width": [10.0, 20.0],
    "height": [8.0, 30.0],
    "clip": False,
    "step": 0.0,
    "step_w": 0.0,
    "step_h": 0.0,
    "variance": [0.1, 0.1, 0.2, 0.2],
}
ROWS += [
    Row(
        f"prior_box_clustered {name}",
        lambda s, i, a=CLUSTERED | variant: opset1.prior_box_clustered(s, i, a),
        SIZES,
        BOUND,
    )
    for name, variant in {
        "plain": {},
        "clipped": {"clip": True},
        "with a step": {"step": 8.0},
        "with two steps": {"step_w": 8.0, "step_h": 6.0},
        "with a step across": {"step_w": 8.0, "step": 5.0},
        "of one variance": {"variance": [0.3]},
        "of no variance": {"variance": []},
    }.items()
]
ROWS += [
    Row(
        "prior_box of a map's and an image's sizes",
        lambda x, y: opset8.prior_box(spatial(x), spatial(y), PRIORS),
        [[numbers(1, 2, n, 4), numbers(1, 3, 10 * n, 50)] for n in (3, 5)],
        BOUND,
    )
]


ROWS += [
    Row(
        f"region_yolo softmax {softmax} axes {axis} to {end}",
        lambda x, s=softmax, a=axis, e=end: opset1.region_yolo(x, 4, 5, 3, s, [0, 1, 2], a, e, [1.0, 2.0]),
        [[numbers(2, 30, n, 4)] for n in (3, 5)],
        BOUND,
    )
    for softmax in (False, True)
    for axis, end in ((1, 3), (0, 3), (1, 2), (2, 3), (1, 1))
]
ROWS.append(
    Row(
        "region_yolo of no images",
        lambda x: opset1.region_yolo(x, 4, 5, 3, True, [0, 1, 2], 1, 3, [1.0, 2.0]),
        [[numbers(n, 30, 3, 4)] for n in (2, 0)],
        BOUND,
    )
)
ROWS += [
    Row(
        f"region_yolo {dtype}",
        lambda x: opset1.region_yolo(x, 4, 5, 9, False, [0, 1, 2], 1, 3, [1.0, 2.0]),
        [[numbers(2, 30, 3, 4, dtype=dtype)]],
        BOUND,
    )
    for dtype in ("float16", "float32", "float64")
]
ROWS += [
    Row(
        f"reorg_yolo by {step}",
        lambda x, s=step: opset2.reorg_yolo(x, [s]),
        [[numbers(2, 36, n, 12)] for n in (6, 12)],
        0,
    )
    for step in (1, 2, 3)
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


@pytest.mark.parametrize(
    ("build", "feed"),
    [
        (lambda x, r, i: opset9.roi_align(x, r, i, 2, 3, 0, 0.7, "avg", "half_pixel"), boxed(3)[0]),
        (
            lambda x, r: opset2.roi_pooling(x, r, output_roi=[2, 3], spatial_scale=0.5, method="max"),
            [numbers(2, 3, 8, 9), OWNED],
        ),
    ],
    ids=["roi_align", "roi_pooling"],
)
def test_newest_opset_without_a_kernel(build: Any, feed: list[np.ndarray]) -> None:
    """ONNX Runtime has no kernel of RoiAlign-22 and MaxRoiPool-22."""
    check(model_of(build, [feed]), feed, bound=BOUND, opset=25)


REFUSALS = [
    *(
        Refusal(
            f"{name} of a negative number of points",
            lambda x, r, i, f=build: f(x, r, i, 2, 3, -1),
            [numbers(2, 3, 8, 9), numbers(len(OWNERS), size), OWNERS],
            UnsupportedAttributeError,
            {"attribute": "sampling_ratio", "value": -1, "allowed": "0 or a positive number"},
        )
        for name, size, build in (
            ("roi_align", 4, lambda *given: opset9.roi_align(*given, 1.0, "avg", "asymmetric")),
            ("roi_align_rotated", 5, lambda *given: opset15.roi_align_rotated(*given, 1.0, True)),
        )
    ),
    Refusal(
        "regions that do not make the channels",
        lambda x: opset1.region_yolo(x, 4, 5, 3, True, [0, 1, 2], 1, 3, [1.0]),
        [numbers(1, 31, 3, 4)],
        ShapeError,
        {"input": "data", "problem": "30 channels"},
    ),
    Refusal(
        "fixed and other sizes",
        lambda s, i: opset8.prior_box(s, i, PRIORS | {"fixed_size": [16.0], "density": [1.0]}),
        SIZES[0],
        UnsupportedAttributeError,
        {"attribute": "min_size"},
    ),
    Refusal(
        "two fixed ratios",
        lambda s, i: opset8.prior_box(s, i, PRIORS | FIXED | {"fixed_ratio": [1.0, 2.0]}),
        SIZES[0],
        UnsupportedAttributeError,
        {"attribute": "fixed_ratio", "allowed": "1, as many as"},
    ),
    Refusal(
        "fewer fixed ratios than aspect ratios",
        lambda s, i: opset8.prior_box(s, i, PRIORS | FIXED | {"fixed_ratio": [2.0], "aspect_ratio": [3.0]}),
        SIZES[0],
        UnsupportedAttributeError,
        {"attribute": "fixed_ratio", "allowed": "3, as many as"},
    ),
    Refusal(
        "fractions of the image with a max_size",
        lambda s, i: opset8.prior_box(s, i, PRIORS | {"scale_all_sizes": False, "step": 0.1}),
        SIZES[0],
        UnsupportedAttributeError,
        {"attribute": "max_size"},
    ),
    Refusal(
        "more of max_size than of min_size",
        lambda s, i: opset8.prior_box(s, i, PRIORS | {"max_size": [20.0, 30.0, 40.0, 50.0]}),
        SIZES[0],
        UnsupportedAttributeError,
        {"attribute": "max_size"},
    ),
    Refusal(
        "fixed sizes without density",
        lambda s, i: opset8.prior_box(s, i, PRIORS | {"fixed_size": [16.0], "density": []}),
        SIZES[0],
        UnsupportedAttributeError,
        {"attribute": "density"},
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refused(refusal: Refusal) -> None:
    assert_refused(refusal)

"""Normalisations and FakeQuantize against OpenVINO's CPU plugin."""

from __future__ import annotations

import numpy as np
import openvino
import pytest
from openvino import opset1, opset2, opset5, opset6, opset12

from ortconv.api import conversion
from ortconv.errors import ConversionError, ShapeError, UnsupportedAttributeError, UnsupportedTypeError
from tests.converters.openvino.live import (
    Refusal,
    Row,
    assert_close,
    assert_refused,
    check,
    check_row,
    model_of,
    numbers,
    run_onnx,
    run_openvino,
)

F32 = np.float32
LOOSE = 64


def channels(n: int = 4, *, dtype: object = F32) -> list[np.ndarray]:
    """Returns gamma, beta, mean and variance."""
    return [numbers(n, dtype=dtype, seed=seed, low=low) for seed, low in ((1, -2), (2, -2), (3, -2), (4, 0.5))]


def axes(*values: int) -> np.ndarray:
    return np.array(values, np.int64)


def normalize_l2(data: openvino.Node, along: np.ndarray, eps: float, mode: str) -> openvino.Node:
    """Builds a NormalizeL2; the function of openvino's opset drops eps_mode."""
    node = opset1.normalize_l2(data, along, eps, mode)
    node.set_attribute("eps_mode", mode)
    return node


def feeds_of(rank: int, dtype: str) -> list[list[np.ndarray]]:
    return [[numbers(2, 4, *[n, 3][: rank - 2], dtype=dtype)] for n in (5, 6)]


ROWS = [
    Row(
        f"batch_norm_inference-{v} of rank {r}",
        lambda x, *p, op=op: op(x, *p, 1e-3),
        [[numbers(2, 4, *[n, 3][: r - 2]), *channels()] for n in (5, 6)],
        16,
    )
    for v, op in ((1, opset1.batch_norm_inference), (5, opset5.batch_norm_inference))
    for r in (2, 3, 4)
]
ROWS += [
    Row(
        f"batch_norm_inference of constants {np.dtype(dtype)}",
        lambda x, dtype=dtype: opset5.batch_norm_inference(
            x, *[opset1.constant(p) for p in channels(dtype=dtype)], 1e-3
        ),
        [[numbers(2, 4, n, 3, dtype=dtype)] for n in (5, 6)],
        16,
    )
    for dtype in (np.float32, np.float16, np.float64)
]
ROWS += [
    Row(
        f"mvn-6 along {along.tolist()} {mode} variance {variance}",
        lambda x, a=along, m=mode, v=variance: opset6.mvn(x, a, v, 0.5, m),
        [[numbers(2, 4, n, 3)] for n in (5, 6)],
        LOOSE,
    )
    for along in (axes(2, 3), axes(-1), axes(1, 2, 3), axes(0, 2, 3))
    for mode in ("inside_sqrt", "outside_sqrt")
    for variance in (True, False)
]
ROWS += [
    Row(
        f"mvn-1 across channels {across} variance {variance} of rank {rank}",
        lambda x, c=across, v=variance: opset2.mvn(x, c, v, 0.5),
        [[numbers(2, 4, *[n, 3][: rank - 2])] for n in (5, 6)],
        LOOSE,
    )
    for across in (True, False)
    for variance in (True, False)
    for rank in (3, 4)
]
ROWS += [
    Row(
        f"normalize_l2 along {along.tolist()} {mode}",
        lambda x, a=along, m=mode: normalize_l2(x, a, 5, m),
        [[numbers(2, 4, n, 3)] for n in (5, 6)],
        16,
    )
    for along in (axes(1), axes(-1), axes(1, 2, 3), axes(2, 3), axes())
    for mode in ("add", "max")
]
ROWS += [
    Row(
        f"normalize_l2 along no axis of rank {rank} {mode}",
        lambda x, m=mode: normalize_l2(x, axes(), 5, m),
        [[numbers(*[n, 3, 2, 2, 2][:rank])] for n in (5, 6)],
        16,
    )
    for rank in (1, 3, 5)
    for mode in ("add", "max")
]
ROWS += [
    Row(
        f"group_normalization of {groups} groups, rank {rank}",
        lambda x, s, c, g=groups: opset12.group_normalization(x, s, c, g, 1e-3),
        [[numbers(2, 4, *[n, 3, 2][: rank - 2]), *channels()[:2]] for n in (5, 6)],
        LOOSE,
        # A Reshape to the same shape goes.
        emits=("Reshape", "InstanceNormalization", "Reshape", "Unsqueeze", "Mul", "Unsqueeze", "Add")
        if groups < 4
        else None,
    )
    for groups in (1, 2, 4)
    for rank in (3, 4, 5)
]


ROWS.append(
    Row(
        "group_normalization of no images",
        lambda x, s, c: opset12.group_normalization(x, s, c, 2, 1e-3),
        [[numbers(n, 4, 3), *channels()[:2]] for n in (2, 0)],
        LOOSE,
    )
)
ROWS += [
    Row(
        f"group_normalization of {dtype}",
        lambda x, s, c: opset12.group_normalization(x, s, c, 2, 1e-3),
        [[each.astype(dtype) for each in (numbers(2, 4, n, 3), *channels()[:2])] for n in (5, 6)],
        LOOSE,
    )
    for dtype in ("float16", "float64")
]
ROWS += [
    Row(f"grn of rank {rank} {dtype}", lambda x: opset1.grn(x, 0.5), feeds_of(rank, dtype), 16)
    for rank, dtype in ((2, "float32"), (3, "float32"), (4, "float32"), (4, "float16"), (4, "float64"), (4, "int32"))
]
ROWS += [
    Row(
        f"lrn of {size} along {along.tolist()}, rank {len(shape)}",
        lambda x, a=along, s=size: opset1.lrn(x, a, 0.7, 0.75, 2.0, s),
        [[numbers(*shape)]],
        16,
    )
    for along, shape in (
        (axes(1), (1, 6, 4, 4)),
        (axes(1), (2, 5)),
        (axes(1), (2, 5, 4)),
        (axes(1), (2, 5, 3, 3, 2)),
        (axes(2), (2, 5, 4)),
        (axes(2, 3), (1, 6, 4, 4)),
        (axes(3, 2), (1, 6, 4, 4)),
        (axes(1, 2, 3), (2, 6, 4, 4)),
        (axes(0, 2), (2, 5, 4)),
    )
    for size in (1, 3, 5)
]
ROWS += [
    Row(
        "lrn of dynamic sizes",
        lambda x: opset1.lrn(x, axes(1), 0.7, 0.75, 2.0, 3),
        [[numbers(1, 6, n, 4)] for n in (4, 5)],
        16,
    ),
    Row(
        "lrn whose bias has a fraction, as the plugin has it",
        lambda x: opset1.lrn(x, axes(1), 0.7, 0.75, 2.5, 3),
        [[numbers(1, 6, 4, 4)]],
        16,
    ),
]
ROWS += [
    Row(
        f"lrn of {size} channels, as the plugin has it, rank {len(shape)}",
        lambda x, s=size: opset1.lrn(x, axes(1), 0.7, 0.75, 2.0, s),
        [[numbers(*shape)], [numbers(*shape[:-1], 7)]],
        16,
    )
    for size in (2, 4)
    for shape in ((1, 6, 4, 4), (2, 5, 4), (2, 5, 3, 3, 2))
]
ROWS += [
    Row(f"{name} {dtype}", build, [[numbers(2, 4, 5, 4, dtype=dtype)]], 64)
    for name, build in (
        ("mvn-6", lambda x: opset6.mvn(x, axes(2, 3), True, 0.5, "inside_sqrt")),
        ("lrn", lambda x: opset1.lrn(x, axes(1), 0.7, 0.75, 2.0, 3)),
    )
    for dtype in ("float16", "float64", "int16", "int32", "int64")
]


def fake_quantize(levels: int, *bounds: object) -> object:
    return lambda x: opset1.fake_quantize(x, *[np.array(bound, F32) for bound in bounds], levels)


PER_CHANNEL = [
    numbers(1, 4, 1, 1, seed=seed, low=low, high=high)
    for seed, low, high in ((1, -4, -2), (2, 2, 4), (3, -1, 0), (4, 1, 2))
]
QUANTIZED = [
    Row(name, build, [[numbers(2, 4, n, 3, low=-5, high=5)] for n in (5, 6)], 8)
    for name, build in {
        "fake_quantize to 256 levels": fake_quantize(256, -4, 4, -4, 4),
        "fake_quantize to 255 levels": fake_quantize(255, -3.8, 3.8, -3.8, 3.8),
        "fake_quantize to 16 levels": fake_quantize(16, -1, 3, -1, 3),
        "fake_quantize to unequal ranges": fake_quantize(256, -4, 4, 0, 255),
        "fake_quantize to a reversed range": fake_quantize(16, -4, 4, 10, -5),
        "fake_quantize per channel": fake_quantize(256, *PER_CHANNEL),
        "fake_quantize per channel to one range": fake_quantize(32, *PER_CHANNEL[:2], 0, 31),
        "fake_quantize to 2 levels": fake_quantize(2, -1, 1.5, -1, 1),
        "fake_quantize of ties": fake_quantize(5, 0, 4, 0, 4),
    }.items()
]
QUANTIZED += [
    Row("fake_quantize of ties to even", fake_quantize(11, -5, 5, -5, 5), [[np.arange(-12, 13, dtype=F32) / 2]], 0),
    Row(
        "fake_quantize by bounds of the run",
        lambda x, a, c, d, e: opset1.fake_quantize(x, a, c, d, e, 64),
        [[numbers(2, 4, 3, 3), *PER_CHANNEL]],
        8,
    ),
    Row(
        "fake_quantize of float16 by bounds of float32",
        fake_quantize(256, -4, 4, -4, 4),
        [[numbers(2, 4, n, 3, low=-5, high=5).astype(np.float16)] for n in (5, 6)],
        1,
    ),
]


@pytest.mark.parametrize("row", ROWS + QUANTIZED, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


LRN_REFUSALS = [
    Refusal(
        "an image's window of an even size",
        lambda x: opset1.lrn(x, axes(2, 3), 0.7, 0.75, 2.0, 4),
        [numbers(1, 6, 4, 4)],
        UnsupportedAttributeError,
        {"attribute": "size", "value": 4},
    ),
    Refusal(
        "some of the spatial axes",
        lambda x: opset1.lrn(x, axes(2), 0.7, 0.75, 2.0, 3),
        [numbers(1, 6, 4, 4)],
        ConversionError,
        {"problem": "axes"},
    ),
]


@pytest.mark.parametrize(
    ("size", "channels", "text"),
    [(4, 6, "has one channel less"), (3, -1, "return nothing"), (3, 6, None)],
)
def test_what_the_plugin_makes_of_lrn_is_warned_about(size: int, channels: int, text: str | None) -> None:
    feed = [numbers(1, 6, 4, 4)]
    model = model_of(lambda x: opset1.lrn(x, axes(1), 0.7, 0.75, 2.0, size), [feed], [[1, channels, 4, 4]])
    converted = conversion(model)
    assert [text in warning for warning in converted.warnings] == ([] if text is None else [True])
    if channels == -1:
        static = model_of(lambda x: opset1.lrn(x, axes(1), 0.7, 0.75, 2.0, size), [feed])
        assert_close(run_onnx(converted, [feed])[0][0], run_openvino(static, [feed])[0][0], 16)


@pytest.mark.parametrize("refusal", LRN_REFUSALS, ids=str)
def test_lrn_refused(refusal: Refusal) -> None:
    assert_refused(refusal)


@pytest.mark.parametrize(
    ("levels", "bounds"),
    [(256, (-1.3, 1.3)), (256, (0, 2.9361947)), (255, (-1.1, 2.2)), (4096, (-1.2, 1.1)), (256, (1.2, 3.1))],
)
def test_fake_quantize_between_levels(levels: int, bounds: tuple[float, float]) -> None:
    """Which of two levels is the nearest hangs on the last bit of data that lie in the middle."""
    low, high = bounds
    middles = np.linspace(low, high, levels)[:255].astype(F32) + F32((high - low) / (levels - 1) / 2)
    feed = [np.stack([np.nextafter(middles, F32(towards)) for towards in (-10, 10)])[None]]
    converted = check(model_of(fake_quantize(levels, low, high, low, high), [feed]), feed)
    emitted = [node.op_type for node in converted.model.graph]
    assert emitted == (["Clip", "Mul", "Add", "Round", "Mul", "Add"] if low else ["Clip", "Mul", "Round", "Mul"])


@pytest.mark.parametrize(
    ("shape", "ranges", "fused"),
    [
        ((3, 85), (1,), True),
        ((3, 85), (85,), True),
        ((3, 85), (3, 1), False),
        ((3, 5, 17), (5, 1), True),
        ((3, 5, 17), (3, 1, 1), False),
        ((3, 5, 1, 17), (1, 1, 1, 1), True),
        ((3, 5, 1, 17), (1, 5, 1, 1), True),
        ((3, 5, 1, 17), (17,), False),
        ((3, 5, 1, 1, 17), (1,), True),
        ((3, 5, 1, 1, 1, 17), (1,), False),
        ((255,), (1,), False),
    ],
    ids=str,
)
@pytest.mark.parametrize("bounds", [(-1.3, 1.7), (-0.19237547, 2.2604117)], ids=str)
def test_fake_quantize_between_levels_in_dynamic_sizes(
    shape: tuple[int, ...], ranges: tuple[int, ...], fused: bool, bounds: tuple[float, float]
) -> None:
    """OpenVINO's CPU plugin multiplies and adds there with one rounding in some cases and with two in others."""
    stretch = np.linspace(1, 1.3, int(np.prod(ranges)), dtype=F32).reshape(ranges)
    low, high = (F32(bound) * stretch for bound in bounds)
    middles = low + (high - low) * (np.arange(255, dtype=F32) + F32(0.5)).reshape(shape) / 255
    feeds = [[np.nextafter(middles, F32(towards))] for towards in (-10, 10)]
    converted = check(model_of(fake_quantize(256, low, high, low, high), feeds, [[-1] * len(shape)]), *feeds)
    assert ("Cast" in [node.op_type for node in converted.model.graph]) == fused


@pytest.mark.parametrize("bounds", [(-1, 1), (0, 2), ([[-1], [-2], [-3]], [[1], [2], [1.5]])])
def test_fake_quantize_that_openvino_leaves_out(bounds: tuple[object, object]) -> None:
    """Of as many levels as 16 bits have, with the same range before and after; the limits go with it."""
    low, high = bounds
    feed = [numbers(2, 3, 5)]
    quantized = fake_quantize(65536, low, high, low, high)
    converted = check(model_of(lambda x: opset1.relu(quantized(x)), [feed]), feed, bound=0)
    (warning,) = converted.warnings
    assert "removes a FakeQuantize to 65536 levels of the same range" in warning
    other = check(model_of(fake_quantize(65536, low, high, -3, 3), [feed]), feed)
    assert not other.warnings
    assert [node.op_type for node in other.model.graph].count("Round") == 1


@pytest.mark.parametrize("last", [4, np.full((3, 1, 1), 4)])
def test_fake_quantize_with_results_of_different_sizes(last: object) -> None:
    """OpenVINO's CPU plugin takes other channels' numbers where only one of output_low and output_high has several."""
    first = np.array([-1, -2, -3]).reshape(3, 1, 1)
    x = numbers(2, 3, 4, 5)
    converted = conversion(model_of(fake_quantize(16, -2, 2, first, last), [[x]]))
    steps = np.round((np.clip(x, -2, 2) + 2) / F32(4 / 15))
    expected = steps / 15 * (np.asarray(last) - first) + first
    assert_close(run_onnx(converted, [[x]])[0][0], expected.astype(F32), 4)
    assert [text.partition(": ")[2] for text in converted.warnings] == [
        text.partition(": ")[2]
        for text in converted.warnings
        if "output_low and output_high have different sizes" in text
    ]
    assert bool(converted.warnings) == (np.size(last) == 1)


def test_fake_quantize_with_equal_bounds() -> None:
    """The page allows them for two levels; OpenVINO's CPU plugin makes NaN of them."""
    feed = [np.array([-1, 0.5, 0.50001, 3], F32)]
    converted = conversion(model_of(fake_quantize(2, 0.5, 0.5, -1, 1), [feed]))
    assert_close(run_onnx(converted, [feed])[0][0], np.array([-1, -1, 1, 1], F32), 0)
    assert len(converted.warnings) == 1
    assert "input_low equals input_high" in converted.warnings[0]


@pytest.mark.parametrize(
    ("shape", "along", "warned"), [((1, 2, 3, 8), (1, 2), 1), ((2, 3, 8), (1,), 1), ((2, 8, 3, 5), (2, 3), 0)], ids=str
)
def test_fake_quantize_per_channel_behind_a_reduction(
    shape: tuple[int, ...], along: tuple[int, ...], warned: int
) -> None:
    """OpenVINO's CPU plugin fuses the three, and takes the numbers along the axis of the data that is reduced."""
    x, factors = numbers(*shape), numbers(1, 8, low=0.5, high=1.5)

    def build(x: openvino.Node) -> openvino.Node:
        mean = opset1.reduce_mean(x, axes(*along), False)
        return opset1.fake_quantize(opset1.multiply(mean, factors), F32(-3), F32(3), F32(-3), F32(3), 256)

    converted = conversion(model_of(build, [[x]]))
    places = np.clip((x.astype(np.float64).mean(along) * factors + 3) / 6, 0, 1) * 255
    assert np.abs(places - np.floor(places) - 0.5).min() > 1e-4, "nothing lies between two levels"
    assert_close(run_onnx(converted, [[x]])[0][0], (np.round(places) / 255 * 6 - 3).astype(F32), 4)
    assert len(converted.warnings) == warned
    if not warned:
        check(model_of(build, [[x]]), [x])


def test_fake_quantize_with_exchanged_bounds() -> None:
    """The page has a formula for them; OpenVINO's CPU plugin makes one number of all data that is no vector."""
    x = np.array([[-2, -1, -0.9, -0.2, 0.3, 0.9, 1, 1.1]], F32)
    converted = conversion(model_of(fake_quantize(5, 1, -1, 0, 10), [[x]]))
    expected = np.where(x <= -1, 0, np.where(x > 1, 10, np.round((x - 1) / -2 * 4) / 4 * 10))
    assert_close(run_onnx(converted, [[x]])[0][0], expected.astype(F32), 0)
    assert len(converted.warnings) == 1
    assert "input_low is greater than input_high" in converted.warnings[0]
    check(model_of(fake_quantize(5, 1, -1, 0, 10), [[x[0]]]), [x[0]])


def test_mvn_does_not_normalise_over_the_batch() -> None:
    feed = [numbers(3, 2, 4)]
    converted = conversion(model_of(lambda x: opset2.mvn(x, True, False, 0.5), [feed]))
    expected = feed[0] - feed[0].mean(axis=(1, 2), keepdims=True)
    assert_close(run_onnx(converted, [feed])[0][0], expected, 4)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint16])
@pytest.mark.parametrize(
    ("shape", "along"),
    [((9,), (0,)), ((3, 9), (1,)), ((2, 3, 8), (2,)), ((2, 3, 5, 5), (2, 3)), ((2, 3, 5, 5), (-1, 1, 2))],
)
def test_mvn_of_integers(dtype: type, shape: tuple[int, ...], along: tuple[int, ...]) -> None:
    feed = [numbers(*shape, dtype=dtype, low=-100, high=200)]
    check(model_of(lambda x: opset6.mvn(x, axes(*along), True, 1e-5, "inside_sqrt"), [feed]), feed)


def test_normalize_l2_of_six_axes_along_none_is_refused() -> None:
    """OpenVINO's CPU plugin squares some elements and leaves others out."""
    refusal = Refusal(
        "along no axis of six",
        lambda x: normalize_l2(x, axes(), 5, "add"),
        [numbers(2, 1, 2, 1, 2, 2)],
        ShapeError,
        {"input": "data"},
    )
    assert_refused(refusal)


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.uint16])
@pytest.mark.parametrize(("shape", "along"), [((3, 9), (0,)), ((2, 3, 8), (0, 1, 2)), ((2, 3, 4, 5), (3,))])
def test_mvn_of_integers_along_other_axes_is_refused(
    dtype: type, shape: tuple[int, ...], along: tuple[int, ...]
) -> None:
    assert_refused(
        Refusal(
            f"along {along} of {shape}",
            lambda x: opset6.mvn(x, axes(*along), True, 1e-5, "inside_sqrt"),
            [numbers(*shape, dtype=dtype)],
            UnsupportedTypeError,
            {"input": "data", "hint": f"axes {list(along)} of rank {len(shape)}"},
        )
    )

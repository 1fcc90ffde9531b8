"""Quantizing and dequantizing: rounding, saturation, every way in which scales lie over a tensor, every type."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ortconv
from ortconv import onednn
from ortconv.errors import (
    ConversionError,
    ConversionErrors,
    ShapeError,
    UnsupportedAttributeError,
    UnsupportedTypeError,
)
from tests.converters.onednn_graph.agreement import check, graph_of, numbers
from tests.converters.onednn_graph.references import evaluate
from tests.converters.onednn_graph.references.call import DTYPES, Call, Slot
from tests.running import run

BYTES = ("u8", "s8")
F8 = ("f8_e4m3", "f8_e5m2")
LIMITS = {"u8": (0, 255), "s8": (-128, 127), "s4": (-8, 7), "u4": (0, 15)}


def ties(scale: float = 1) -> np.ndarray:
    """Halves, their neighbours, and what saturates."""
    halves = np.arange(-300, 300, dtype=np.float32) / 2
    wide = np.concatenate([halves, np.float32([1e9, -1e9, np.inf, -np.inf]), halves * np.float32(1 + 2**-20)])
    return wide * np.float32(scale)


def whole(dtype: str) -> np.ndarray:
    """Every value of an integer type, or numbers of a float type."""
    if dtype in LIMITS:
        low, high = LIMITS[dtype]
        return np.arange(low, high + 1).astype(DTYPES[dtype]).reshape(2, -1)
    bits = np.arange(256, dtype=np.uint8).view(DTYPES[dtype])
    return bits[np.isfinite(bits.astype(np.float32))].reshape(2, -1)


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("zp", [None, 0, 1, 3, -3, 100, 128, 7, 300, -1001])
def test_quantize_rounds_after_adding_the_zero_point(dtype: str, zp: int | None) -> None:
    attributes = {"scales": [1.0]} | ({} if zp is None else {"zps": [zp]})
    # An even zero point is left to QuantizeLinear, which is more exact than a float32 sum just beside a tie.
    check("Quantize", [ties() if not zp or zp % 2 else ties()[:604]], [dtype], attributes)


def test_a_tie_shows_the_difference_from_quantize_linear() -> None:
    x = np.float32([0.5, 1.5, 2.5, -0.5, -1.5])
    (found,) = run(ortconv.convert(graph_of("Quantize", [x], ["u8"], {"scales": [1.0], "zps": [1]})), {"x0": x}, "none")
    np.testing.assert_array_equal(found, np.uint8([2, 2, 4, 0, 0]))


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("scale", [0.1, 0.25, 3.7, -0.5])
@pytest.mark.parametrize("zp", [0, 5])
def test_quantize_scales(dtype: str, scale: float, zp: int) -> None:
    check("Quantize", [numbers((50, 50), low=-90, high=90)], [dtype], {"scales": [scale], "zps": [zp]})


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("axis", [None, 0, 1, 2, -1, -3])
@pytest.mark.parametrize("odd", [0, 1])
def test_quantize_per_channel(dtype: str, axis: int | None, odd: int) -> None:
    x = numbers((3, 4, 5), low=-60, high=60)
    count = x.shape[1 if axis is None else axis]
    attributes: dict[str, Any] = {"scales": np.linspace(0.25, 2, count), "zps": [2 * i + odd for i in range(count)]}
    attributes |= {"qtype": "per_channel"} | ({} if axis is None else {"axis": axis})
    check("Quantize", [x], [dtype], attributes)
    check("Dequantize", [numbers((3, 4, 5), dtype, low=0, high=9)], ["f32"], attributes)


@pytest.mark.parametrize("dtype", F8)
@pytest.mark.parametrize("scale", [1.0, 0.3])
def test_quantize_to_eight_bit_floats_goes_through_f16_and_does_not_saturate(dtype: str, scale: float) -> None:
    edges = np.float32([448, 464, 465, 1e6, -1e6, 57344, 61440, 65520, 2**-10, 2**-9 * 1.01, np.inf, -np.inf, -0.0])
    x = np.concatenate([edges, numbers((5000,), low=-500, high=500)])
    check("Quantize", [x], [dtype], {"scales": [scale]})


@pytest.mark.parametrize("level", ["a Relu before", "nothing before"])
def test_no_relu_is_lost_before_eight_bit_floats(level: str) -> None:
    g = onednn.Graph()
    x = g.tensor("x", "f32", [4])
    y = g.op("ReLU", [x]) if level == "a Relu before" else x
    g.op("Quantize", [y], dtype="f8_e4m3", scales=[1.0], name="y")
    data = np.float32([-2, -1, 1, 2])
    (found,) = run(ortconv.convert(g), {"x": data}, "none")
    expected = np.maximum(data, 0) if level == "a Relu before" else data
    np.testing.assert_array_equal(found.astype(np.float32), expected)


@pytest.mark.parametrize("dtype", [*BYTES, *F8])
@pytest.mark.parametrize("scale", [1.0, 0.3, -2.0])
def test_dequantize_every_value(dtype: str, scale: float) -> None:
    check("Dequantize", [whole(dtype)], ["f32"], {"scales": [scale]})


@pytest.mark.parametrize("dtype", BYTES)
@pytest.mark.parametrize("zp", [0, 1, 128, 255, -128, 1000])
def test_dequantize_any_zero_point(dtype: str, zp: int) -> None:
    check("Dequantize", [whole(dtype)], ["f32"], {"scales": [0.5], "zps": [zp]})


@pytest.mark.parametrize("scales", [(), (1,), (1, 1)])
@pytest.mark.parametrize("zps", [None, "u8", "s8", "s32"])
@pytest.mark.parametrize("dtype", [*BYTES, "s4", "u4"])
def test_dynamic_quantize_per_tensor(dtype: str, zps: str | None, scales: tuple[int, ...]) -> None:
    inputs = [ties(0.5), np.full(scales, 0.5, np.float32)]
    inputs += [np.full(scales, 3, DTYPES[zps])] if zps else []
    check("DynamicQuantize", inputs, [dtype])


@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("zps", [None, "s8", "s32"])
def test_dynamic_quantize_per_channel(axis: int | None, full: bool, zps: str | None) -> None:
    x = numbers((3, 4, 5), low=-60, high=60)
    along = 1 if axis is None else axis % 3
    shape = [dim if at == along else 1 for at, dim in enumerate(x.shape)] if full else [x.shape[along]]
    inputs = [x, numbers(shape, low=0.5, high=2, seed=1)] + ([numbers(shape, zps, 2)] if zps else [])
    attributes = {"qtype": "per_channel"} | ({} if axis is None else {"axis": axis})
    check("DynamicQuantize", inputs, ["s8"], attributes)


@pytest.mark.parametrize("dtype", F8)
def test_dynamic_quantize_to_eight_bit_floats(dtype: str) -> None:
    check("DynamicQuantize", [numbers((50, 20), low=-300, high=300), np.float32([0.7])], [dtype])


@pytest.mark.parametrize("kind", ["DynamicQuantize", "DynamicDequantize"])
@pytest.mark.parametrize(
    ("mask", "shape"), [(0, ()), (2, (4,)), (2, (1, 4, 1)), (5, (3, 5)), (5, (3, 1, 5)), (7, (3, 4, 5))]
)
def test_a_mask_names_the_axes_with_values_of_their_own(kind: str, mask: int, shape: tuple[int, ...]) -> None:
    x = numbers((3, 4, 5), low=-60, high=60) if kind == "DynamicQuantize" else numbers((3, 4, 5), "s8", low=-9, high=9)
    result = "s8" if kind == "DynamicQuantize" else "f32"
    check(kind, [x, numbers(shape, low=0.5, high=2, seed=1), numbers(shape, "s32", 2)], [result], {"mask": mask})


@pytest.mark.parametrize("dtype", [*BYTES, "s4", "u4", *F8])
@pytest.mark.parametrize("result", ["f32", "bf16", "f16"])
def test_dynamic_dequantize_every_value(dtype: str, result: str) -> None:
    check("DynamicDequantize", [whole(dtype), numbers((1,), result, low=0.1, high=0.2)], [result], slack=1)


@pytest.mark.parametrize(
    ("dtype", "zps"), [("s8", "u8"), ("u8", "s8"), ("u8", "s32"), ("s4", "u4"), ("u4", "s4"), ("u4", "s32")]
)
@pytest.mark.parametrize("result", ["f32", "bf16", "f16"])
@pytest.mark.parametrize(
    ("group_shape", "count"),
    [
        ((1, 2, 1), (3, 4, 5)),
        ((1, 8, 1), (3, 1, 5)),
        ((3, 1, 1), (1, 8, 5)),
        ((1, 4, 5), (3, 2, 1)),
        ((1, 1, 1), (3, 8, 5)),
        ((3, 8, 5), (1, 1, 1)),
        ((3, 4, 5), (2,)),
    ],
)
def test_groups(dtype: str, zps: str, result: str, group_shape: tuple[int, ...], count: tuple[int, ...]) -> None:
    low, high = LIMITS[dtype]
    inputs = [
        numbers((3, 8, 5), dtype, 0, low, high),
        numbers(count, result, 1, 0.1, 2),
        numbers(count, zps, 2, 0 if zps.startswith("u") else -7, 7),
    ]
    attributes = {"qtype": "per_group", "group_shape": list(group_shape)}
    for given in (inputs, inputs[:2]):
        check("DynamicDequantize", given, [result], attributes, slack=1)
    check("DynamicDequantize", inputs, [result], attributes, slack=1, constants=[0, 1, 2])


@pytest.mark.parametrize(
    ("shape", "attributes", "count"),
    [
        ((None, 6), {"qtype": "per_channel", "axis": 0}, (4,)),
        ((None, 6), {"qtype": "per_channel", "axis": 1}, (6,)),
        ((None, 6), {"mask": 3}, (4, 6)),
        ((4, None), {"mask": 2}, (6,)),
        ((None, 6), {"qtype": "per_group", "group_shape": [2, 1]}, (2, 6)),
        ((4, None), {"qtype": "per_group", "group_shape": [1, 3]}, (4, 2)),
        ((None, 6), {"qtype": "per_group", "group_shape": [4, 3]}, (1, 2)),
        ((None, 6), {"qtype": "per_group", "group_shape": [4, 6]}, (1, 1)),
    ],
)
def test_sizes_that_only_the_run_knows(
    shape: tuple[int | None, ...], attributes: dict[str, Any], count: tuple[int, ...]
) -> None:
    inputs = [numbers((4, 6), "s8", 0, -99, 99), numbers(count, "f32", 1, 0.1, 2), numbers(count, "s32", 2, 0, 7)]
    g = onednn.Graph()
    sizes: list[Any] = [shape, count, count]
    dtypes = ("s8", "f32", "s32")
    tensors = [g.tensor(name, dtype, dims) for name, dtype, dims in zip("xsz", dtypes, sizes, strict=True)]
    g.op("DynamicDequantize", tensors, dtype="f32", **attributes)
    (found,) = run(ortconv.convert(g), dict(zip("xsz", inputs, strict=True)), "none")
    (expected,) = evaluate(Call("DynamicDequantize", inputs, attributes, [Slot("f32", (4, 6))]))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def warnings_of(kind: str, inputs: list[np.ndarray], output: str, **attributes: Any) -> tuple[str, ...]:
    return ortconv.conversion(graph_of(kind, inputs, [output], attributes)).warnings


@pytest.mark.parametrize(
    ("axis", "library"), [(-1, "refuses the op"), (-2, "the first scale for all"), (1, ""), (0, "")]
)
@pytest.mark.parametrize("kind", ["Quantize", "Dequantize", "DynamicQuantize", "DynamicDequantize"])
def test_the_library_does_not_count_axes_from_the_end(kind: str, axis: int, library: str) -> None:
    source, output = ("s8", "f32") if kind in ("Dequantize", "DynamicDequantize") else ("f32", "s8")
    x = numbers((3, 3), source)
    for qtype, expected in (("per_channel", bool(library)), ("per_tensor", False)):
        scales = [1.0, 2.0, 3.0] if qtype == "per_channel" else [2.0]
        given: dict[str, Any] = {"qtype": qtype, "axis": axis}
        if kind.startswith("Dynamic"):
            warnings = warnings_of(kind, [x, np.float32(scales)], output, **given)
        else:
            warnings = warnings_of(kind, [x], output, scales=scales, **given)
        assert len(warnings) == expected
        assert all(library in warning for warning in warnings)


@pytest.mark.parametrize("dtype", ["f32", "bf16", "f16"])
def test_the_library_misreads_one_narrow_scale(dtype: str) -> None:
    q = numbers((2, 3), "s8")
    warnings = warnings_of("DynamicDequantize", [q, numbers((1,), dtype, 1, 1, 2)], dtype)
    assert len(warnings) == (dtype != "f32")
    assert all(f"the scale of {dtype}" in warning for warning in warnings)
    assert not warnings_of("DynamicDequantize", [q, numbers((3,), dtype, 1, 1, 2)], dtype, qtype="per_channel")


def test_one_zero_point_for_all_groups() -> None:
    inputs = [numbers((4, 6), "s8", high=9), numbers((2, 6), seed=1), np.int32([3])]
    check("DynamicDequantize", inputs, ["f32"], {"qtype": "per_group", "group_shape": [2, 1]})


@pytest.mark.parametrize("weights_format", ["IOX", "XOI"])
def test_scales_of_a_grouped_transposed_convolution_cover_all_groups(weights_format: str) -> None:
    groups, per_group, inputs = 2, 3, 4
    scales = np.linspace(0.5, 3, groups * per_group).astype(np.float32)
    w = numbers((inputs, per_group, 2), "s8", low=-5, high=5)
    x = numbers((1, inputs, 6))
    g = onednn.Graph()
    source = g.tensor("x", "f32", x.shape)
    first = weights_format == "IOX"
    stored = w if first else np.ascontiguousarray(w.transpose(2, 1, 0))
    weights = g.tensor("w", "s8", stored.shape)
    scaled = g.op("Dequantize", [weights], dtype="f32", qtype="per_channel", axis=1, scales=scales)
    window = {"strides": [1], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    g.op("ConvTranspose", [source, scaled], groups=groups, weights_format=weights_format, data_format="NCX", **window)
    (found,) = run(ortconv.convert(g), {"x": x, "w": stored}, "none")
    expected = np.zeros((1, groups * per_group, 7))
    for i in range(inputs):
        group = i // (inputs // groups)
        for o in range(per_group):
            channel = group * per_group + o
            expected[0, channel] += np.convolve(x[0, i].astype(np.float64), w[i, o] * np.float64(scales[channel]))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_weights_in_four_bits_are_not_multiplied_approximately() -> None:
    g = onednn.Graph()
    x, w = g.tensor("x", "f32", [4, 128]), g.tensor("w", "s4", [128, 64], constant=True)
    s = g.tensor("s", "f32", [4, 64], constant=True)
    g.op("MatMul", [x, g.op("DynamicDequantize", [w, s], dtype="f32", qtype="per_group", group_shape=[32, 1])])
    data = {"x": numbers((4, 128)), "w": numbers((128, 64), "s4", 1, -8, 7), "s": numbers((4, 64), seed=2)}
    (found,) = run(ortconv.convert(g, tensors={"w": data["w"], "s": data["s"]}), {"x": data["x"]}, "none")
    wide = data["w"].astype(np.float64) * np.repeat(data["s"].astype(np.float64), 32, axis=0)
    expected = data["x"].astype(np.float64) @ wide
    assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize("integer_source", [False, True])
def test_constant_weights_in_eight_bits_are_not_either(integer_source: bool) -> None:
    g = onednn.Graph()
    x, w = g.tensor("x", "u8" if integer_source else "f32", [4, 128]), g.tensor("w", "s8", [64, 128], constant=True)
    left = g.op("Dequantize", [x], dtype="f32", scales=[0.5], zps=[3]) if integer_source else x
    right = g.op("Dequantize", [w], dtype="f32", scales=np.linspace(0.1, 1, 64), qtype="per_channel", axis=0)
    g.op("MatMul", [left, g.op("StaticTranspose", [right], order=[1, 0])])
    data = {
        "x": numbers((4, 128), "u8" if integer_source else "f32", high=200),
        "w": numbers((64, 128), "s8", 1, -128, 127),
    }
    model = ortconv.convert(g, tensors={"w": data["w"]})
    (found,) = run(model, {"x": data["x"]}, "none")
    source = (data["x"].astype(np.float64) - 3) * 0.5 if integer_source else data["x"].astype(np.float64)
    expected = source @ (data["w"] * np.linspace(0.1, 1, 64).astype(np.float32).astype(np.float64)[:, None]).T
    assert np.abs(found - expected).max() < 1e-5 * np.abs(expected).max()
    kinds = [node.op_type for node in model.graph.node]
    assert kinds.count("DequantizeLinear") == (2 if integer_source else 0)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("zp", [0, 3])
def test_weights_of_floats_between_codes_stay_floats(relu: bool, zp: int) -> None:
    """ONNX Runtime would round them to 8 bits, of which one large weight leaves nothing for the others."""
    g = onednn.Graph()
    x, w = g.tensor("x", "u8", [1, 3, 8, 8]), g.tensor("w", "f32", [4, 3, 3, 3], constant=True)
    pads: dict[str, Any] = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    left = g.op("Dequantize", [x], dtype="f32", scales=[0.02], zps=[zp])
    sums = g.op("Convolution", [left, w], data_format="NCX", weights_format="OIX", **pads)
    g.op("Quantize", [g.op("ReLU", [sums]) if relu else sums], dtype="u8", scales=[0.02], zps=[0 if relu else 128])
    weights = numbers((4, 3, 3, 3), low=-0.1, high=0.1)
    weights[0, 0, 0, 0] = 40
    data = numbers((1, 3, 8, 8), "u8", low=0, high=255)
    (found,) = run(ortconv.convert(g, tensors={"w": weights}), {"x": data}, "none")
    wide = np.pad((data.astype(np.float64) - zp) * 0.02, [(0, 0), (0, 0), (1, 1), (1, 1)])
    windows = np.lib.stride_tricks.sliding_window_view(wide, (3, 3), (2, 3))
    expected = np.einsum("nchwij,mcij->nmhw", windows, weights.astype(np.float64))
    levels = np.clip(np.round((np.maximum(expected, 0) if relu else expected) / 0.02) + (0 if relu else 128), 0, 255)
    assert np.abs(found.astype(np.float64) - levels).max() <= 1
    assert np.mean(found != levels) < 0.02


@pytest.mark.parametrize(("opset", "kinds"), [(19, ["DequantizeLinear", "Reshape"]), (21, ["Cast", "Mul", "Reshape"])])
def test_integers_that_move_keep_their_sign(opset: int, kinds: list[str]) -> None:
    """ONNX Runtime before 1.28 takes int8 behind a Reshape for uint8 where no zero point tells."""
    g = onednn.Graph()
    x = g.op("Dequantize", [g.tensor("x", "s8", [2, 6])], dtype="f32", scales=[0.5])
    g.op("StaticReshape", [x], shape=[3, 4], special_zero=False)
    model = ortconv.convert(g, opset=opset)
    assert [node.op_type for node in model.graph.node] == kinds
    assert all(len(node.input) == 3 for node in model.graph.node if node.op_type == "DequantizeLinear")
    data = numbers((2, 6), "s8", low=-128, high=127)
    (found,) = run(model, {"x": data}, "none")
    np.testing.assert_array_equal(found, data.reshape(3, 4) * np.float32(0.5))


def refusal(
    kind: str, inputs: list[np.ndarray], output: str, attributes: dict[str, Any], opset: int = 21
) -> ConversionError:
    with pytest.raises(ConversionErrors) as caught:
        ortconv.convert(graph_of(kind, inputs, [output], attributes), opset=opset)
    (error,) = caught.value.exceptions
    assert isinstance(error, ConversionError)
    return error


X = numbers((2, 6))
Q = numbers((2, 6), "s8")


@pytest.mark.parametrize(
    ("kind", "inputs", "output", "attributes", "attribute", "value"),
    [
        ("Quantize", [X], "s8", {"scales": []}, "scales", ()),
        ("Quantize", [X], "s8", {"scales": [1, 2]}, "scales", (1, 2)),
        ("Quantize", [X], "s8", {"scales": [0]}, "scales", (0,)),
        ("Quantize", [X], "s8", {"scales": [1], "zps": [1, 2]}, "zps", (1, 2)),
        ("Quantize", [X], "f8_e4m3", {"scales": [1], "zps": [1]}, "zps", (1,)),
        ("Dequantize", [Q], "f32", {"scales": [1], "zps": [2**40]}, "zps", (2**40,)),
        ("Quantize", [X], "s8", {"scales": [1] * 6, "qtype": "per_channel", "axis": 2}, "axis", 2),
        ("DynamicQuantize", [X, X[0]], "s8", {"qtype": "per_channel", "axis": -3}, "axis", -3),
        ("DynamicQuantize", [X, X[0]], "s8", {"mask": 4}, "mask", 4),
        ("DynamicQuantize", [X, X[0]], "s8", {"mask": 2, "qtype": "per_channel"}, "qtype", "per_channel"),
        ("DynamicDequantize", [Q, X[0]], "f32", {"qtype": "per_group"}, "group_shape", None),
        ("DynamicDequantize", [Q, X], "f32", {"qtype": "per_group", "group_shape": [1, 4]}, "group_shape", (1, 4)),
        ("DynamicDequantize", [Q, X], "f32", {"qtype": "per_group", "group_shape": [2]}, "group_shape", (2,)),
        ("DynamicDequantize", [Q, X], "f32", {"qtype": "per_channel", "group_shape": [1, 2]}, "qtype", "per_channel"),
    ],
)
def test_attributes_out_of_range(
    kind: str, inputs: list[np.ndarray], output: str, attributes: dict[str, Any], attribute: str, value: object
) -> None:
    error = refusal(kind, inputs, output, attributes)
    assert isinstance(error, UnsupportedAttributeError)
    assert (error.attribute, error.value) == (attribute, value)


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes", "argument", "shape"),
    [
        ("Dequantize", [Q], {"scales": [1] * 4, "qtype": "per_channel"}, "src", (2, 6)),
        ("DynamicDequantize", [Q, X[0, :4]], {"qtype": "per_channel"}, "scales", (4,)),
        ("DynamicDequantize", [Q, X[0, :2]], {}, "scales", (2,)),
        ("DynamicDequantize", [Q, X, Q[0]], {"qtype": "per_group", "group_shape": [1, 1]}, "zps", (6,)),
    ],
)
def test_shapes_that_do_not_fit(
    kind: str, inputs: list[np.ndarray], attributes: dict[str, Any], argument: str, shape: tuple[int, ...]
) -> None:
    error = refusal(kind, inputs, "f32", attributes)
    assert isinstance(error, ShapeError)
    assert (error.input, error.shape) == (argument, shape)


@pytest.mark.parametrize(
    ("kind", "inputs", "output", "argument", "dtype"),
    [
        ("Quantize", [X.astype(np.float16)], "s8", "src", "f16"),
        ("Quantize", [X], "s32", "dst", "s32"),
        ("Dequantize", [X], "f32", "src", "f32"),
        ("Dequantize", [Q], "f16", "dst", "f16"),
        ("DynamicQuantize", [X, X[0, :1], Q[0, :1]], "f8_e5m2", "dst", "f8_e5m2"),
        ("DynamicDequantize", [X.astype(ml_dtypes.float8_e5m2), X[0, :1], Q[0, :1]], "f32", "src", "f8_e5m2"),
    ],
)
def test_types_outside_of_the_specification(
    kind: str, inputs: list[np.ndarray], output: str, argument: str, dtype: str
) -> None:
    error = refusal(kind, inputs, output, {} if kind.startswith("Dynamic") else {"scales": [1]})
    assert isinstance(error, UnsupportedTypeError)
    assert (error.input, error.dtype) == (argument, dtype)


@pytest.mark.parametrize(
    ("kind", "src", "output", "argument"),
    [("DynamicDequantize", whole("s4"), "f32", "src"), ("DynamicQuantize", X, "s4", "dst")],
)
def test_four_bits_need_a_newer_opset(kind: str, src: np.ndarray, output: str, argument: str) -> None:
    error = refusal(kind, [src, np.float32([1])], output, {}, opset=20)
    assert isinstance(error, UnsupportedTypeError)
    assert (error.input, error.dtype, error.hint) == (argument, "s4", "4-bit types need opset 21.")

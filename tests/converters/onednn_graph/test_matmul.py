"""MatMul: transpositions, ranks, broadcasting, bias, types."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ortconv
from ortconv import onednn
from ortconv.errors import ConversionErrors, ShapeError, UnsupportedTypeError
from tests.converters.onednn_graph.agreement import FLOATS, check, graph_of, numbers
from tests.running import run

SHAPES = [
    ((3, 4), (4, 5)),
    ((2, 3, 4), (4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((1, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (6, 4, 5)),
    ((3, 4), (2, 1, 4, 5)),
    ((4,), (4, 5)),
    ((4,), (2, 4, 5)),
    ((3, 4), (4,)),
    ((2, 3, 4), (4,)),
    ((4,), (4,)),
    ((0, 4), (4, 5)),
]


@pytest.mark.parametrize("transpose_a", [None, False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(("left", "right"), SHAPES)
def test_shapes(left: tuple[int, ...], right: tuple[int, ...], transpose_a: bool | None, transpose_b: bool) -> None:
    x, w = numbers(left), numbers(right, seed=1)
    if transpose_a and x.ndim > 1:
        x = np.ascontiguousarray(np.swapaxes(x, -1, -2))
    if transpose_b and w.ndim > 1:
        w = np.ascontiguousarray(np.swapaxes(w, -1, -2))
    attributes = {"transpose_b": transpose_b} | ({} if transpose_a is None else {"transpose_a": transpose_a})
    check("MatMul", [x, w], ["f32"], attributes, slack=8)


@pytest.mark.parametrize(("dtype", "result"), [*((each, each) for each in FLOATS), ("bf16", "f32"), ("f16", "f32")])
@pytest.mark.parametrize("bias", [None, (), (5,), (1,), (3, 1), (1, 5), (3, 5)])
def test_types_and_bias(dtype: str, result: str, bias: tuple[int, ...] | None) -> None:
    inputs = [numbers((3, 64), dtype), numbers((64, 5), dtype, 1)]
    check("MatMul", inputs + ([] if bias is None else [numbers(bias, dtype, 2)]), [result], slack=8)


@pytest.mark.parametrize("narrow", ["bf16", "f16"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("first", [False, True])
def test_one_operand_may_be_f32_beside_a_narrow_one(narrow: str, bias: bool, first: bool) -> None:
    types = (narrow, "f32") if first else ("f32", narrow)
    inputs = [numbers((3, 64), types[0]), numbers((64, 5), types[1], 1)]
    check("MatMul", inputs + ([numbers((5,), narrow, 2)] if bias else []), [narrow], slack=8)


@pytest.mark.parametrize("mode", ["strict", "relaxed", "any", "f32", "f16"])
def test_accumulation_modes_are_explained(mode: str) -> None:
    g = graph_of("MatMul", [numbers((2, 3)), numbers((3, 2))], ["f32"], {"accumulation_mode": mode})
    notes = ortconv.conversion(g).steps[0].notes
    assert bool(notes) is (mode not in ("strict", "f32"))
    assert all(note.startswith(f"accumulation_mode is {mode}:") for note in notes)


def test_sums_in_half_precision_are_rounded_once() -> None:
    inputs = [np.full((1, 4096), 1, np.float16), np.full((4096, 1), 1 / 1024, np.float16), np.float16([[2**-10]])]
    check("MatMul", inputs, ["f16"], slack=0.5)


def test_a_chain_of_integers_is_exact_in_onnx_runtime_too() -> None:
    g = onednn.Graph()
    x, w = g.tensor("x", "u8", [16, 256]), g.tensor("w", "s8", [256, 32], constant=True)
    left = g.op("Dequantize", [x], dtype="f32", scales=[0.125], zps=[128])
    right = g.op("Dequantize", [w], dtype="f32", scales=np.exp2(-np.arange(32.0) % 8), qtype="per_channel", axis=1)
    g.op("Quantize", [g.op("MatMul", [left, right])], dtype="s8", scales=[16.0])
    data = {"x": numbers((16, 256), "u8", 0, 0, 255), "w": numbers((256, 32), "s8", 1, -128, 127)}
    exact = (data["x"].astype(np.float64) - 128) * 0.125 @ (data["w"] * np.exp2(-np.arange(32.0) % 8))
    expected = np.clip(np.rint(exact / 16), -128, 127).astype(np.int8)
    for tensors in ({}, {"w": data["w"]}):
        feeds = {name: value for name, value in data.items() if name not in tensors}
        (found,) = run(ortconv.convert(g, tensors=tensors), feeds, "none")
        np.testing.assert_array_equal(found, expected)


def refusal(inputs: list[np.ndarray], output: str = "f32", **attributes: Any) -> Exception:
    with pytest.raises(ConversionErrors) as caught:
        ortconv.convert(graph_of("MatMul", inputs, [output], attributes))
    (error,) = caught.value.exceptions
    return error


@pytest.mark.parametrize(
    ("shapes", "argument"),
    [
        ([(2, 3), (4, 5)], "weights"),
        ([(2, 3), (4,)], "weights"),
        ([(2, 3, 4), (3, 4, 5)], "weights"),
        ([(), (4, 5)], "src"),
        ([(3, 4), ()], "weights"),
        ([(3, 4), (4, 5), (4,)], "bias"),
        ([(3, 4), (4, 5), (1, 3, 5)], "bias"),
    ],
)
def test_shapes_that_do_not_fit(shapes: list[tuple[int, ...]], argument: str) -> None:
    error = refusal([numbers(shape) for shape in shapes])
    assert isinstance(error, ShapeError)
    assert (error.input, error.shape) == (argument, shapes[["src", "weights", "bias"].index(argument)])


@pytest.mark.parametrize(
    ("dtypes", "output", "argument"),
    [
        (["f32", "bf16"], "f32", "dst"),
        (["bf16", "f32"], "f32", "dst"),
        (["bf16", "f16"], "bf16", "weights"),
        (["f32", "bf16", "f32"], "bf16", "bias"),
        (["s8", "s8"], "f32", "src"),
        (["bf16", "bf16", "f32"], "f32", "bias"),
        (["bf16", "bf16"], "f16", "dst"),
        (["f32", "f32"], "bf16", "dst"),
    ],
)
def test_types_outside_of_the_specification(dtypes: list[str], output: str, argument: str) -> None:
    shapes = [(3, 4), (4, 5), (5,)]
    error = refusal([numbers(shape, dtype) for shape, dtype in zip(shapes, dtypes, strict=False)], output)
    assert isinstance(error, UnsupportedTypeError)
    assert error.input == argument

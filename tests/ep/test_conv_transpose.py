"""Standard ConvTranspose nodes through the execution provider."""

from __future__ import annotations

import ast
import itertools
import os
import pathlib
import subprocess
import sys
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from ortconv.convolution_arithmetic import AutoPad, split
from tests.ep.sessions import claims, plain, session, with_provider
from tests.optimizer.models import parsed, rand

pytestmark = pytest.mark.usefixtures("library")

TYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
ROUNDING = {np.dtype(kind): float(ml_dtypes.finfo(kind).eps) for kind in TYPES}


def node_model(kind: Any, x: list[Any], w: np.ndarray, b: np.ndarray | None, **attributes: Any) -> onnx.ModelProto:
    element = helper.np_dtype_to_tensor_dtype(np.dtype(kind))
    names = ["x", "w"] if b is None else ["x", "w", "b"]
    stored = [numpy_helper.from_array(data, name) for name, data in (("w", w), ("b", b)) if data is not None]
    graph = helper.make_graph(
        [helper.make_node("ConvTranspose", names, ["y"], name="c", **attributes)],
        "g",
        [helper.make_tensor_value_info("x", element, x)],
        [helper.make_tensor_value_info("y", element, [None] * len(x))],
        stored,
    )
    opset = 22 if np.dtype(kind) == ml_dtypes.bfloat16 else 18
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def defined(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray | None,
    *,
    strides: list[int],
    dilations: list[int] | None = None,
    group: int = 1,
    pads: list[int] | None = None,
    output_padding: list[int] | None = None,
    auto_pad: str = "NOTSET",
    output_shape: list[int] | None = None,
) -> np.ndarray:
    """The definition in float64: every input position is spread by the kernel, and what pads say is taken off."""
    axes = x.ndim - 2
    dilations, added = dilations or [1] * axes, output_padding or [0] * axes
    kernel = w.shape[2:]
    full = [
        (size - 1) * s + (k - 1) * d + 1 for size, s, k, d in zip(x.shape[2:], strides, kernel, dilations, strict=True)
    ]
    begin, end = (pads or [0] * 2 * axes)[:axes], (pads or [0] * 2 * axes)[axes:]
    if output_shape or auto_pad.startswith("SAME"):
        sizes = output_shape or [size * s for size, s in zip(x.shape[2:], strides, strict=True)]
        rule = AutoPad.SAME_UPPER if auto_pad == "SAME_UPPER" else AutoPad.SAME_LOWER
        halves = [split(rule, max(f + p - y, 0)) for f, p, y in zip(full, added, sizes, strict=True)]
        begin, end = [first for first, _ in halves], [last for _, last in halves]
        if output_shape:
            end = [f + p - b_ - y for f, p, b_, y in zip(full, added, begin, output_shape, strict=True)]
    per_group = w.shape[1]
    y = np.zeros(
        (x.shape[0], per_group * group, *(f + max(p, 0) + max(-e, 0) for f, p, e in zip(full, added, end, strict=True)))
    )
    inputs = x.shape[1] // group
    for g, tap in itertools.product(range(group), itertools.product(*map(range, kernel))):
        source = x[:, g * inputs : (g + 1) * inputs].astype(np.float64)
        weights = w[(slice(g * inputs, (g + 1) * inputs), slice(None), *tap)].astype(np.float64)
        places = tuple(
            slice(t * d, t * d + (size - 1) * s + 1, s)
            for t, d, s, size in zip(tap, dilations, strides, x.shape[2:], strict=True)
        )
        y[(slice(None), slice(g * per_group, (g + 1) * per_group), *places)] += np.einsum(
            "nc...,co->no...", source, weights
        )
    cut = tuple(slice(b_, f + p - e) for b_, f, p, e in zip(begin, full, added, end, strict=True))
    y = y[(slice(None), slice(None), *cut)]
    return y if b is None else y + b.astype(np.float64).reshape(-1, *[1] * axes)


CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "asymmetric_pads": ((1, 4, 7, 5), (4, 3, 3, 4), {"strides": [2, 3], "pads": [0, 2, 1, 0]}),
    "groups_and_dilations": ((2, 6, 5, 6), (6, 2, 3, 2), {"strides": [1, 2], "dilations": [2, 3], "group": 3}),
    "output_padding": ((1, 3, 4, 4), (3, 5, 2, 3), {"strides": [3, 4], "output_padding": [2, 1], "pads": [1, 1, 0, 0]}),
    "one_axis": ((2, 8, 33), (8, 4, 16), {"strides": [8], "pads": [4, 4]}),
    "three_axes": ((1, 3, 3, 4, 2), (3, 2, 2, 3, 3), {"strides": [2, 1, 2], "pads": [0, 1, 1, 1, 0, 0]}),
    "same_upper": ((1, 2, 5, 4), (2, 3, 4, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    "same_lower": ((1, 2, 5, 4), (2, 3, 4, 5), {"strides": [1, 2], "auto_pad": "SAME_LOWER"}),
    "same_with_output_padding": (
        (1, 2, 3, 3),
        (2, 1, 3, 3),
        {"strides": [2, 2], "auto_pad": "SAME_UPPER", "output_padding": [1, 1]},
    ),
    "output_shape": ((1, 2, 5, 4), (2, 3, 4, 3), {"strides": [3, 2], "output_shape": [14, 8]}),
    "output_shape_upper": (
        (1, 2, 5, 4),
        (2, 3, 4, 4),
        {"strides": [3, 2], "output_shape": [13, 9], "auto_pad": "SAME_UPPER"},
    ),
    "depthwise": ((1, 16, 9, 9), (16, 1, 4, 4), {"strides": [2, 2], "pads": [1, 1, 1, 1], "group": 16}),
}


@pytest.mark.parametrize("kind", TYPES, ids=lambda kind: np.dtype(kind).name)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("sizes", ["known", "open"])
def test_results_are_those_of_the_definition(name: str, kind: Any, sizes: str) -> None:
    x_shape, w_shape, attributes = CASES[name]
    x, w = (rand(*shape).astype(kind) for shape in (x_shape, w_shape))
    b = rand(w_shape[1] * attributes.get("group", 1)).astype(kind)
    expected = defined(x, w, b, **attributes)
    stated = list(x_shape) if sizes == "known" else ["N", x_shape[1], *"xyz"[: len(x_shape) - 2]]
    (y,) = with_provider(node_model(kind, stated, w, b, **attributes), {"x": x}, "c")
    assert (y.dtype, y.shape) == (kind, expected.shape)
    scale = max(1.0, float(np.abs(expected).max()))
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=0, atol=8 * ROUNDING[np.dtype(kind)] * scale)


FUSED = {
    "c BatchNormalization Relu": """
        c = ConvTranspose <strides = [2, 2]> (x, w, b)
        n = BatchNormalization <epsilon = 0.01> (c, scale, shift, mean, variance)
        y = Relu (n)""",
    "c Transpose Mul Add Transpose Clip": """
        t = Transpose <perm = [0, 3, 1, 2]> (x_last)
        c = ConvTranspose <strides = [2, 1]> (t, w)
        m = Mul (c, gain)
        a = Add (b_channels, m)
        l = Transpose <perm = [0, 2, 3, 1]> (a)
        y = Clip (l, low, high)""",
    "c Add LeakyRelu": """
        skip = Conv (x, point)
        c = ConvTranspose <pads = [1, 1, 1, 1]> (x, w, b)
        a = Add (c, skip)
        y = LeakyRelu <alpha = 0.2> (a)""",
    "c Pad": """
        c = ConvTranspose <strides = [2, 2], pads = [1, 1, 0, 0]> (x, w)
        y = Pad (c, around)""",
    "c Slice Sub Relu": """
        c = ConvTranspose <strides = [3, 2]> (x, w, b)
        s = Slice (c, starts, ends, axes)
        d = Sub (s, b_channels)
        y = Relu (d)""",
    "c": """
        c = ConvTranspose <strides = [2, 2]> (x, w, b)
        y = Sigmoid (c)""",
}


@pytest.mark.parametrize("half", [False, True], ids=["float32", "float16"])
@pytest.mark.parametrize("expected", FUSED)
def test_neighbours_are_fused(expected: str, half: bool) -> None:
    kind: Any = np.float16 if half else np.float32
    tensors: dict[str, Any] = {
        "w": rand(3, 4, 3, 3, dtype=kind),
        "b": rand(4, dtype=kind),
        "b_channels": rand(4, 1, 1, dtype=kind),
        "gain": rand(1, 4, 1, 1, dtype=kind),
        "point": rand(4, 3, 1, 1, dtype=kind),
        "scale": rand(4, dtype=kind),
        "shift": rand(4, dtype=kind),
        "mean": rand(4, dtype=kind),
        "variance": np.abs(rand(4, dtype=kind)) + kind(0.5),
        "low": np.array(-1, kind),
        "high": np.array(1.5, kind),
        "around": [0, 0, -1, 0, 0, 0, 1, -2],
        "starts": [1, 0],
        "ends": [-2, 1 << 40],
        "axes": [2, 3],
    }
    body = FUSED[expected]
    used = {
        name: data
        for name, data in tensors.items()
        if name in body.replace("(", " ").replace(")", ",").replace(",", " ").split()
    }
    x = rand(2, 3, 6, 5, dtype=kind)
    name, data = ("x_last", np.ascontiguousarray(x.transpose(0, 2, 3, 1))) if "x_last" in body else ("x", x)
    element, shape = ("float16" if half else "float"), ",".join(map(str, data.shape))
    model = parsed(f"g ({element}[{shape}] {name}) => ({element}[a, b_, c_, d_] y) {{{body}}}", **used)
    model.graph.node[[each.op_type for each in model.graph.node].index("ConvTranspose")].name = "c"
    right = plain(model, {name: data})[0]
    if "BatchNormalization" in expected and "BatchNormalization" not in claims(model)[0].fused[0]:
        expected = "c Relu"  # ONNX Runtime folds the other one itself, from version 1.31 on.
    (y,) = with_provider(model, {name: data}, expected)
    assert (y.dtype, y.shape) == (right.dtype, right.shape)
    np.testing.assert_allclose(
        y.astype(np.float64), right.astype(np.float64), rtol=1e-2 if half else 1e-5, atol=2e-2 if half else 1e-5
    )
    (alone,) = session(model, fuse="0").run(None, {name: data})
    np.testing.assert_allclose(
        alone.astype(np.float64), right.astype(np.float64), rtol=1e-2 if half else 1e-5, atol=2e-2 if half else 1e-5
    )


def test_weights_of_the_run() -> None:
    text = """g (float[2,3,5,5] x, float[3,2,k,l] w) => (float[n,m,h,v] y) {
        c = ConvTranspose <strides = [2, 2]> (x, w)
        y = Relu (c)
    }"""
    model = parsed(text)
    model.graph.node[0].name = "c"
    made = session(model)
    for taps in (3, 1, 4):
        x, w = rand(2, 3, 5, 5), rand(3, 2, taps, taps)
        expected = np.maximum(defined(x, w, None, strides=[2, 2]), 0)
        np.testing.assert_allclose(made.run(None, {"x": x, "w": w})[0], expected, atol=1e-4)


def test_a_node_that_is_left_says_why() -> None:
    model = node_model(np.float32, [1, 3, 4, 4], rand(3, 2, 3, 3), None, kernel_shape=[2, 2])
    reason = "kernel_shape = [2, 2] and its weights have shape [3, 2, 3, 3]"
    assert [each.reason for each in claims(model)] == [reason]


def test_a_node_that_onnx_runtime_computes_faster_is_left(tmp_path: pathlib.Path) -> None:
    # With portable kernels alone, whatever the CPU has.
    file = tmp_path / "model.onnx"
    onnx.save(node_model(np.float32, [1, 64, 32, 32], rand(64, 64, 4, 4), None, strides=[2, 2]), file)
    code = f"""
import onnx
from tests.ep.sessions import claims
model = onnx.load({os.fspath(file)!r})
print([each.reason for each in claims(model, claim_all="0") + claims(model)])"""
    environment = {**os.environ, "ORTCONV_MAX_ISA": "portable"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    left, claimed = ast.literal_eval(done.stdout)
    assert left.startswith("ours is estimated to take ")
    assert claimed == ""


def test_a_neighbour_that_stays_says_why() -> None:
    model = parsed(
        """g (float[1,3,4,4] x) => (float[a,b,c,d] y) {
            t = ConvTranspose (x, w)
            y = Pad (t, front)
        }""",
        w=rand(3, 2, 3, 3),
        front=[0, 0, 1, 0, 0, 0, 0, 0],
    )
    model.graph.node[0].name, model.graph.node[1].name = "first", "pad"
    (found,) = claims(model)
    assert (found.node, found.reason, found.kept) == ("first", "", ("Pad pad: it puts 1 positions in front",))

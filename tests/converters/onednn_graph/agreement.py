"""Converting one op, running it in ONNX Runtime, and comparing with its reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx

import ortconv
from ortconv import onednn
from ortconv.converters.onednn_graph import FRONTEND
from ortconv.verification.onednn import OneDnnReference
from tests.converters.onednn_graph.references import evaluate
from tests.converters.onednn_graph.references.call import DTYPES, Call, Slot
from tests.running import run

NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}

EPSILON = {"f32": 2.0**-23, "f16": 2.0**-10, "bf16": 2.0**-7, "f8_e4m3": 0.0, "f8_e5m2": 0.0}
"""Relative error of rounding twice to a type, half a unit each; floats of eight bits are compared exactly."""

FLOATS = ("f32", "bf16", "f16")


def numbers(shape: Sequence[int], dtype: str = "f32", seed: int = 0, low: float = -4, high: float = 4) -> np.ndarray:
    """Evenly distributed numbers; integers include both ends."""
    random = np.random.default_rng(seed)
    if dtype in FLOATS or dtype.startswith("f8"):
        return random.uniform(low, high, shape).astype(DTYPES[dtype])
    return random.integers(int(low), int(high), shape, endpoint=True).astype(DTYPES[dtype])


def graph_of(
    kind: str, inputs: Sequence[np.ndarray], outputs: Sequence[str], attributes: Mapping[str, Any]
) -> onednn.Graph:
    """A graph of one op whose results have no declared shapes: the converter has to find them."""
    g = onednn.Graph(kind)
    tensors = [g.tensor(f"x{i}", NAMES[value.dtype], value.shape) for i, value in enumerate(inputs)]
    g.op(kind, tensors, outputs=[g.tensor(f"y{i}", dtype, None) for i, dtype in enumerate(outputs)], **attributes)
    return g


def check(
    kind: str,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[str] = ("f32",),
    attributes: Mapping[str, Any] | None = None,
    *,
    slack: float = 4,
    opset: int = 21,
    constants: Sequence[int] = (),
    expected: Sequence[np.ndarray] | None = None,
) -> onnx.ModelProto:
    """Asserts that an op's results have the reference's types, shapes and values, and those of `ortconv verify` too.

    Args:
        kind: Op kind.
        inputs: Data.
        outputs: Types of the results.
        attributes: As in the op's specification.
        slack: How many roundings of the result's type it may be off, relative to its largest element.
        opset: Version to convert to.
        constants: Inputs that are known when converting.
        expected: Right results, for a kind that `references` lacks.
    """
    attributes = attributes or {}
    g = graph_of(kind, inputs, outputs, attributes)
    model = ortconv.convert(g, opset=opset, tensors={f"x{i}": inputs[i] for i in constants})
    feeds = {f"x{i}": value for i, value in enumerate(inputs) if i not in constants}
    found = run(model, feeds, "none")
    if expected is None:
        expected = evaluate(Call(kind, inputs, attributes, [Slot(dtype) for dtype in outputs]))
    given = {f"x{i}": value for i, value in enumerate(inputs)}
    verified = OneDnnReference(FRONTEND.read(g, {}), "spec").run(given, everything=False).outputs
    for value, got, shipped, right in zip(model.graph.output, found, verified, expected, strict=True):
        declared = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        assert declared == list(right.shape), f"{kind} declares {declared}, expected {right.shape}"
        assert_close(got, right, slack, kind)
        assert_close(shipped, right, slack, f"{kind} in `ortconv verify`")
    return model


def assert_close(found: np.ndarray, expected: np.ndarray, slack: float, what: str) -> None:
    """Asserts types, shapes, and values up to `slack` roundings of the largest element."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), what
    name = NAMES[expected.dtype]
    if name not in EPSILON:
        np.testing.assert_array_equal(found, expected, err_msg=what)
        return
    x, y = found.astype(np.float64), expected.astype(np.float64)
    finite = np.abs(y[np.isfinite(y)])
    bound = slack * EPSILON[name]
    np.testing.assert_allclose(x, y, rtol=bound, atol=bound * max(finite.max(initial=0), 1e-30), err_msg=what)

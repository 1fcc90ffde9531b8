"""One op with declared results, converted under either semantics and with open sizes, against its reference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np
import onnx

import ortconv
from ortconv import onednn
from ortconv.converters.onednn_graph import FRONTEND
from ortconv.options import Semantics
from ortconv.verification.onednn import OneDnnReference
from tests.converters.onednn_graph.references import evaluate
from tests.converters.onednn_graph.references.call import DTYPES, Call, Slot
from tests.running import run

NAMES = {np.dtype(dtype): name for name, dtype in DTYPES.items()}
"""NumPy type -> its name in the format."""

Shape = tuple[int, ...] | None


def build(
    kind: str,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[tuple[str, Shape]],
    attributes: Mapping[str, Any],
    *,
    dynamic: bool = False,
) -> onednn.Graph:
    """Returns a graph of one op, with tensors x0, x1, ... and y0, y1, ...; `dynamic` leaves the inputs' sizes open."""
    graph = onednn.Graph(kind)
    tensors = [
        graph.tensor(f"x{i}", NAMES[x.dtype], [None] * x.ndim if dynamic and x.ndim > 1 else x.shape)
        for i, x in enumerate(inputs)
    ]
    made = [graph.tensor(f"y{i}", dtype, shape) for i, (dtype, shape) in enumerate(outputs)]
    graph.op(kind, tensors, outputs=made, name="op", **attributes)
    return graph


def check(
    kind: str,
    inputs: Sequence[np.ndarray],
    outputs: Sequence[tuple[str, Shape]],
    attributes: Mapping[str, Any],
    *,
    semantics: Semantics = "spec",
    opset: int = 21,
    dynamic: bool = False,
    constants: Mapping[str, np.ndarray] | None = None,
    exact: bool = False,
) -> onnx.ModelProto:
    """Converts an op, runs it on standard ops and function bodies alone, and compares every result.

    Args:
        kind: Op kind.
        inputs: Data, which also says the inputs' types.
        outputs: Types and declared shapes of the results.
        attributes: As in the op's specification.
        semantics: Which reading is wanted where specification and library differ.
        opset: Version to emit.
        dynamic: Whether the inputs' sizes are left open.
        constants: Inputs whose data the converter sees, by name; they need not be repeated in `inputs`.
        exact: Whether the results must be equal, not only close.

    Returns:
        The model.
    """
    graph = build(kind, inputs, outputs, attributes, dynamic=dynamic)
    given = dict(constants or {})
    model = ortconv.conversion(graph, semantics=semantics, opset=opset, tensors=given).to_proto()
    feeds = {f"x{i}": x for i, x in enumerate(inputs) if f"x{i}" not in given}
    found = run(model, feeds, "none")
    slots = [Slot(dtype, shape) for dtype, shape in outputs]
    expected = evaluate(Call(kind, list(inputs), attributes, slots, semantics))
    assert len(found) == len(expected[: len(outputs)])
    everything = given | {f"x{i}": x for i, x in enumerate(inputs)}
    shipped = OneDnnReference(FRONTEND.read(graph, {}), semantics).run(everything, everything=False).outputs
    for got, right in zip((*found, *shipped), (*expected, *expected), strict=False):
        assert got.dtype == right.dtype
        assert got.shape == right.shape
        if exact:
            np.testing.assert_array_equal(got, right)
            continue
        # A result of float32 arithmetic, rounded once.
        bound = max(2.0**-18, 1.01 * float(ml_dtypes.finfo(right.dtype).eps))
        np.testing.assert_allclose(got.astype(np.float64), right.astype(np.float64), rtol=bound, atol=bound)
    return model

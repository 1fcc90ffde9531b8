"""oneDNN's sample graphs: each converts, runs, and agrees with an interpreter written from the specification."""

from __future__ import annotations

import pathlib
import warnings

import numpy as np
import pytest

import ortconv
from ortconv.converters.onednn_graph import FRONTEND
from ortconv.errors import SemanticsWarning
from ortconv.verification.onednn import OneDnnReference
from tests.converters.onednn_graph.agreement import EPSILON, NAMES
from tests.converters.onednn_graph.data import feeds
from tests.converters.onednn_graph.references.interpreter import Program, load
from tests.running import run
from tests.shared import SHARED

FOLDER = SHARED / "onednn_graphs"
FILES = sorted(FOLDER.rglob("*.json"))

LARGE = 1 << 22
"""Graphs with more elements than this in one tensor are only run in the sweep."""

ABSENT = f"needs oneDNN's sample graphs in {FOLDER} (ORTCONV_SHARED names another place)"

SUMMED = 1e-5
"""Sums in float32, relative to the largest element of a result."""


def size(program: Program) -> int:
    """The largest number of elements of a tensor."""
    return max(int(np.prod(slot.shape)) for slot in program.slots.values() if slot.shape is not None)


def cases() -> list[object]:
    if not FILES:
        return [pytest.param(None, marks=pytest.mark.skip(reason=ABSENT))]
    marks = {path: [pytest.mark.sweep] if size(load(path)) > LARGE else [] for path in FILES}
    return [pytest.param(path, id=str(path.relative_to(FOLDER)), marks=marks[path]) for path in FILES]


@pytest.mark.parametrize("path", cases())
def test_a_graph_converts_runs_and_agrees(path: pathlib.Path) -> None:
    program = load(path)
    data = feeds(program)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SemanticsWarning)
        model = ortconv.convert(path, semantics="runtime")
    found = run(model, {f"tensor_{identity}": value for identity, value in data.items()}, "none")
    by_name = dict(zip((output.name for output in model.graph.output), found, strict=True))
    expected = program.run(data, "runtime")
    source = FRONTEND.read(path, {})
    verified = OneDnnReference(source, "runtime").run(
        {f"tensor_{identity}": value for identity, value in data.items()}, everything=False
    )
    shipped = dict(zip((output.name for output in source.outputs), verified.outputs, strict=True))
    assert set(by_name) == {f"tensor_{identity}" for identity in program.outputs}
    coarsest = max(EPSILON[slot.dtype] for slot in program.slots.values() if slot.dtype in EPSILON)
    for identity in program.outputs:
        compare(by_name[f"tensor_{identity}"], expected[identity], coarsest, f"tensor_{identity}")
        compare(shipped[f"tensor_{identity}"], expected[identity], coarsest, f"tensor_{identity} in `ortconv verify`")


@pytest.mark.skipif(not FILES, reason=ABSENT)
def test_a_graph_too_large_to_run_here_converts() -> None:
    for path in FILES:
        if size(load(path)) > LARGE:
            ortconv.conversion(path)


def compare(found: np.ndarray, expected: np.ndarray, coarsest: float, what: str) -> None:
    """Asserts agreement within the rounding of the types on the way; integers may be off by one where they round."""
    assert (found.dtype, found.shape) == (expected.dtype, expected.shape), what
    name = NAMES[expected.dtype]
    x, y = found.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_array_equal(np.isnan(x), np.isnan(y), err_msg=what)
    finite = np.isfinite(y)
    np.testing.assert_array_equal(x[~finite & ~np.isnan(y)], y[~finite & ~np.isnan(y)], err_msg=what)
    difference = np.abs(x[finite] - y[finite])
    if name not in EPSILON:
        assert difference.max(initial=0) <= 1, what
        assert np.count_nonzero(difference) <= 0.01 * difference.size, what
        return
    # A result of eight bits may fall on the other side of a rounding; everything before it is as exact as its types.
    step = {"f8_e4m3": 2.0**-3, "f8_e5m2": 2.0**-2}.get(name, 4 * coarsest)
    bound = (SUMMED + step) * np.abs(y[finite]).max(initial=0)
    assert difference.max(initial=0) <= bound, f"{what}: off by {difference.max()}, allowed {bound}"

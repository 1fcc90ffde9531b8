"""Each entry in the table of plugin bugs: the plugin still has it, and the conversion warns of it and is right."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import openvino
import pytest

from ortconv.api import conversion
from ortconv.converters.openvino.plugin_bugs.bug import Live
from ortconv.converters.openvino.plugin_bugs.table import bugs
from tests.converters.openvino.live import assert_close, model_of, run_onnx, run_openvino
from tests.operations import BUGS_PAGE, with_plugin_bugs

BUGS = bugs()


def built(
    build: Callable[..., Any], feed: Sequence[np.ndarray], shapes: Sequence[Sequence[int]] | None
) -> openvino.Model:
    """Returns a model; `build` may return one itself, where it has states."""
    parameters = [
        openvino.opset1.parameter(list(each.shape) if shapes is None else list(shapes[index]), each.dtype)
        for index, each in enumerate(feed)
    ]
    made = build(openvino, *parameters)
    return made if isinstance(made, openvino.Model) else model_of(functools.partial(build, openvino), [feed], shapes)


def right_result(live: Live) -> np.ndarray:
    if isinstance(live.right, np.ndarray):
        return live.right
    model = built(live.right or live.build, live.feed, live.right_shapes)
    return run_openvino(model, [live.feed])[0][live.output]


def plugin_is_right(live: Live, model: openvino.Model, right: np.ndarray) -> bool:
    try:
        theirs = run_openvino(model, [live.feed])[0][live.output]
    except RuntimeError:
        return False
    if right.dtype.kind in "iu":
        return np.array_equal(theirs, right)
    return theirs.shape == right.shape and np.allclose(theirs, right, 1e-3, 1e-3)


@pytest.mark.parametrize("name", BUGS)
def test_entry(name: str) -> None:
    bug = BUGS[name]
    live = bug.live
    model = built(live.build, live.feed, live.shapes)
    converted = conversion(model)
    assert any(bug.case in text and bug.fault in text for text in converted.warnings), converted.warnings
    if model.get_sinks():  # states are inputs of the ONNX model
        return
    ours = run_onnx(converted, [live.feed])[0][live.output]
    right = right_result(live)
    assert_close(ours, right.astype(ours.dtype), live.bound)
    if live.steady:
        assert not plugin_is_right(live, model, right), f"OpenVINO {openvino.__version__} has mended it"


def test_names_say_which_entry() -> None:
    assert len(BUGS) > 50
    assert len({bug.case for bug in BUGS.values()}) == len(BUGS)


def test_the_page_lists_the_entries() -> None:
    text = BUGS_PAGE.read_text(encoding="utf-8")
    assert with_plugin_bugs(text) == text, "run `make docs`"

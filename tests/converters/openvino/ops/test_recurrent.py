"""Recurrent cells and sequences against OpenVINO's CPU plugin."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable, Sequence

import numpy as np
import openvino
import pytest
from openvino import opset1, opset3, opset4, opset5

from ortconv.api import conversion
from ortconv.errors import UnsupportedAttributeError
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

BATCH, INPUT, HIDDEN = 2, 3, 5
GATES = {"lstm": 4, "gru": 3, "rnn": 1}
ACTIVATIONS = {"lstm": ["sigmoid", "tanh", "tanh"], "gru": ["sigmoid", "tanh"], "rnn": ["tanh"]}
OTHERS = {"lstm": ["relu", "sigmoid", "relu"], "gru": ["relu", "sigmoid"], "rnn": ["relu"]}
SEQUENCES = {"lstm": opset5.lstm_sequence, "gru": opset5.gru_sequence, "rnn": opset5.rnn_sequence}
CELLS = {"lstm": opset4.lstm_cell, "gru": opset3.gru_cell, "rnn": opset3.rnn_cell}

Build = Callable[..., object]


def _weights(kind: str, directions: Sequence[int], bias_gates: int | None = None) -> list[np.ndarray]:
    gates = GATES[kind] * HIDDEN
    shapes = ((gates, INPUT), (gates, HIDDEN), ((bias_gates or GATES[kind]) * HIDDEN,))
    return [numbers(*directions, *shape, low=-1, high=1, seed=seed) for seed, shape in enumerate(shapes)]


def sequence(
    kind: str, direction: str = "forward", activations: list[str] | None = None, clip: float = 0.0, linear: bool = False
) -> Build:
    """Returns a builder of a sequence over x, the lengths and the initial states."""
    weights = _weights(kind, [2 if direction == "bidirectional" else 1], 4 if linear else None)
    extra = {"linear_before_reset": True} if linear else {}

    def build(x: openvino.Node, lengths: openvino.Node, *states: openvino.Node) -> list[openvino.Output]:
        functions = activations or ACTIVATIONS[kind]
        node = SEQUENCES[kind](x, *states, lengths, *weights, HIDDEN, direction, functions, [], [], clip, **extra)
        return list(node.outputs())

    return build


def cell(kind: str, activations: list[str] | None = None, clip: float = 0.0, linear: bool = False) -> Build:
    """Returns a builder of a cell over x and the initial states."""
    weights = _weights(kind, [], 4 if linear else None)
    extra = {"linear_before_reset": True} if linear else {}

    def build(x: openvino.Node, *states: openvino.Node) -> list[openvino.Output]:
        functions = activations or ACTIVATIONS[kind]
        return list(CELLS[kind](x, *states, *weights, HIDDEN, functions, [], [], clip, **extra).outputs())

    return build


def states(kind: str, *shape: int) -> list[np.ndarray]:
    """Returns the initial states."""
    return [numbers(*shape, HIDDEN, low=-1, high=1, seed=seed) for seed in range(8, 10 if kind == "lstm" else 9)]


def feed(kind: str, steps: int, lengths: Sequence[int], directions: int = 1) -> list[np.ndarray]:
    """Returns data of some sequences."""
    x = numbers(len(lengths), steps, INPUT, low=-1, high=1, seed=7)
    return [x, np.array(lengths, np.int32), *states(kind, len(lengths), directions)]


ROWS = [
    Row(
        f"{kind}_sequence {direction}, lengths {lengths}",
        sequence(kind, direction),
        [feed(kind, 6, lengths, 2 if direction == "bidirectional" else 1)],
        bound=16,
    )
    for kind in SEQUENCES
    for direction in ("forward", "reverse", "bidirectional")
    for lengths in ((6, 6), (3, 2), (1, 4))
]
ROWS += [
    Row(
        f"{kind}_sequence {direction} of dynamic {what}",
        sequence(kind, direction),
        [feed(kind, *sizes, 2 if direction == "bidirectional" else 1) for sizes in feeds],
        bound=16,
    )
    for kind in SEQUENCES
    for direction in ("forward", "bidirectional")
    for what, feeds in (("steps", ((4, (4, 4)), (6, (6, 6)))), ("batches", ((4, (4, 4)), (4, (4, 4, 4)))))
]
ROWS += [
    Row(
        f"{kind}_sequence of dynamic steps, lengths ignored",
        sequence(kind),
        [feed(kind, n, (3, 2)) for n in (4, 6)],
        bound=16,
    )
    for kind in SEQUENCES
]
ROWS += [
    Row(
        f"{kind}_sequence of dynamic steps with {activations or 'its own functions'} and clip {clip}, lengths kept",
        sequence(kind, "bidirectional", activations, clip),
        [feed(kind, n, (3, 2), 2) for n in (4, 6)],
        bound=16,
    )
    for kind in SEQUENCES
    for activations, clip in ((None, 0.3), (OTHERS[kind], 0.0))
    if clip or kind != "rnn"
]
ROWS += [
    Row(
        f"{kind}_sequence with {activations or 'its own functions'} and clip {clip}, linear {linear}",
        sequence(kind, "bidirectional", activations, clip, linear),
        [feed(kind, 4, (4, 3), 2)],
        bound=16,
    )
    for kind in SEQUENCES
    for activations in (None, OTHERS[kind])
    for clip in (0.0, 0.3)
    for linear in ((False, True) if kind == "gru" else (False,))
]
ROWS += [
    Row(
        f"{kind}_sequence with activations of both directions",
        sequence(kind, "bidirectional", 2 * functions),
        [feed(kind, 4, (4, 3), 2)],
        bound=16,
    )
    for kind, functions in ACTIVATIONS.items()
]
ROWS += [
    Row(
        f"{kind}_cell with {activations or 'its own functions'} and clip {clip}, linear {linear}",
        cell(kind, activations, clip, linear),
        [[numbers(n, INPUT, low=-1, high=1), *states(kind, n)] for n in (2, 3)],
        bound=16,
    )
    for kind in CELLS
    for activations in (None, OTHERS[kind])
    for clip in (0.0, 0.3)
    for linear in ((False, True) if kind == "gru" else (False,))
]
ROWS += [
    Row(
        f"{kind}_sequence of {dtype}",
        lambda x, n, *states, kind=kind, dtype=dtype: list(
            SEQUENCES[kind](
                x,
                *states,
                n,
                *(w.astype(dtype) for w in _weights(kind, [1])),
                HIDDEN,
                "forward",
                ACTIVATIONS[kind],
                [],
                [],
            ).outputs()
        ),
        [[array if array.dtype == np.int32 else array.astype(dtype) for array in feed(kind, 4, (4, 2))]],
        bound=64,
    )
    for kind in SEQUENCES
    for dtype in ("float16", "float64")
]
ROWS += [
    Row(
        f"{kind}_sequence by weights of the run",
        lambda x, n, *more, kind=kind: list(
            SEQUENCES[kind](
                x,
                *more[:-3],
                n,
                *more[-3:],
                HIDDEN,
                "forward",
                ACTIVATIONS[kind],
                [],
                [],
            ).outputs()
        ),
        [[*feed(kind, steps, (4, 2)), *_weights(kind, [1])] for steps in (4, 5)],
        bound=16,
    )
    for kind in SEQUENCES
]
ROWS += [
    Row(
        "lstm_cell-1",
        lambda x, h, c: list(opset1.lstm_cell(x, h, c, *_weights("lstm", []), HIDDEN).outputs()),
        [[numbers(n, INPUT, low=-1, high=1), *states("lstm", n)] for n in (2, 3)],
        bound=16,
    ),
    Row("gru_sequence, an empty one among them", sequence("gru"), [feed("gru", 4, (0, 3))], bound=16),
    Row("lstm_sequence, an empty one among them", sequence("lstm"), [feed("lstm", 4, (0, 3))], bound=16),
    Row("rnn_sequence, an empty one among them", sequence("rnn", "reverse"), [feed("rnn", 4, (3, 0))], bound=16),
    Row(
        "gru_sequence of constant lengths",
        lambda x, h: list(
            opset5.gru_sequence(
                x, h, np.array([4, 4], np.int32), *_weights("gru", [1]), HIDDEN, "forward", ACTIVATIONS["gru"]
            ).outputs()
        ),
        [[feed("gru", 4, (4, 4))[0], *states("gru", 2, 1)]],
        bound=16,
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    if row.semantics == "runtime":
        check(model_of(row.build, row.feeds), *row.feeds, bound=row.bound, semantics=row.semantics)
    else:
        check_row(row)


def test_ignored_lengths_are_warned_about() -> None:
    feeds = [feed("lstm", n, (3, 2)) for n in (4, 6)]
    (warning,) = conversion(model_of(sequence("lstm"), feeds)).warnings
    assert "ignores sequence_lengths" in warning
    assert not conversion(model_of(sequence("lstm", clip=0.3), feeds)).warnings


@pytest.mark.parametrize("quantized", [np.float16, np.int8])
def test_compressed_weights_are_constants_too(quantized: type) -> None:
    def build(x: openvino.Node, lengths: openvino.Node, *states: openvino.Node) -> list[openvino.Output]:
        weights = [
            opset1.multiply(opset1.convert(opset1.constant((each * 64).astype(quantized)), "f32"), np.float32(1 / 64))
            for each in _weights("lstm", [1])
        ]
        node = opset5.lstm_sequence(x, *states, lengths, *weights, HIDDEN, "forward")
        return list(node.outputs())

    feeds = [feed("lstm", n, (3, 2)) for n in (4, 6)]
    converted = check(model_of(build, feeds), *feeds, bound=16)
    assert any("ignores sequence_lengths" in warning for warning in converted.warnings)


REFUSALS = [
    Refusal(
        "a cell with a function that ONNX has not",
        cell("rnn", ["hardsigmoid"]),
        [numbers(2, INPUT), *states("rnn", 2)],
        UnsupportedAttributeError,
        {"attribute": "activations", "allowed": "1 of sigmoid, tanh, relu"},
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refused(refusal: Refusal) -> None:
    assert_refused(refusal)


PEEPHOLES = (
    '<layer id="90" name="p" type="Const" version="opset1">'
    f'<data element_type="f32" shape="{3 * HIDDEN}" offset="0" size="{12 * HIDDEN}"/>'
    f'<output><port id="0" precision="FP32"><dim>{3 * HIDDEN}</dim></port></output></layer>'
)


@pytest.mark.parametrize(
    "attribute", ["", *(f'weights_format="{order}"' for order in ("fico", "icof", "iofc")), 'input_forget="true"']
)
@pytest.mark.parametrize("peepholes", [False, True])
def test_lstm_cell_1(attribute: str, peepholes: bool, tmp_path: pathlib.Path) -> None:
    """What it has beyond LSTMCell-4, OpenVINO's CPU plugin ignores."""
    feed = [numbers(BATCH, INPUT), *states("lstm", BATCH)]
    path = tmp_path / "cell.xml"
    openvino.save_model(model_of(cell("lstm"), [feed]), path, compress_to_fp16=False)
    text = path.read_text()
    text = re.sub(r'(<layer id="(\d+)"[^>]*)"LSTMCell" version="opset4"', r'\1"LSTMCell" version="opset1"', text)
    text = re.sub(r'(<data hidden_size="\d+")', rf"\1 {attribute}", text)
    if peepholes:
        number = re.search(r'<layer id="(\d+)"[^>]*"LSTMCell"', text)[1]
        port = f'<port id="60" precision="FP32"><dim>{3 * HIDDEN}</dim></port>'
        text = re.sub(r'("LSTMCell".*?)(</input>)', rf"\1{port}\2", text, count=1, flags=re.DOTALL)
        text = re.sub(r'(<layer id="\d+"[^>]*"LSTMCell")', rf"{PEEPHOLES}\1", text)
        edge = f'<edge from-layer="90" from-port="0" to-layer="{number}" to-port="60"/>'
        text = text.replace("</edges>", f"{edge}</edges>")
    path.write_text(text)
    ours = conversion(path)
    ignored = (attribute not in ("", 'weights_format="fico"')) + peepholes
    assert len([text for text in ours.warnings if "ignores" in text]) == ignored
    (actual,), (expected,) = run_onnx(ours, [feed]), run_openvino(openvino.Core().read_model(path), [feed])
    for mine, other in zip(actual, expected, strict=True):
        assert_close(mine, other, 16)

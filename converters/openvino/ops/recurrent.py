"""Recurrent ops: cells and sequences of LSTM, GRU and plain RNN.

ONNX has an op for each, of which a cell is one step. OpenVINO keeps the batch first, orders the gates of an LSTM
forget, input, cell, output (ONNX: input, output, forget, cell), and adds the two biases up beforehand.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal

import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import FLOATS, dtype_of, require, scalar
from ortconv.converters.openvino.lib.constants import known_ints
from ortconv.converters.openvino.plugin_bugs.states import LAST_STATE_SCALED
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import UnsupportedAttributeError
from ortconv.graph.builder import Builder

_I32 = ir.DataType.INT32

Direction = Literal["forward", "reverse", "bidirectional"]
Words = tuple[str, ...]
Numbers = tuple[float, ...]

_ACTIVATIONS = {"sigmoid": "Sigmoid", "tanh": "Tanh", "relu": "Relu"}
_DIRECTIONS = {"forward": 1, "reverse": 1, "bidirectional": 2}
_FICO = "fico"
"""The gates of an LSTM in OpenVINO's order."""


@dataclasses.dataclass(frozen=True)
class _Attributes:
    """Attributes of recurrent ops, named as in the source."""

    hidden_size: int
    activations: Words
    clip: float
    direction: Direction = "forward"

    @property
    def directions(self) -> int:
        return _DIRECTIONS[self.direction]

    @property
    def functions(self) -> Words:
        return tuple(word.strip().lower() for word in self.activations)

    def onnx(self, allowed: int) -> dict[str, Any]:
        """Returns the attributes in ONNX's spelling.

        Args:
            allowed: How many activation functions there are for each direction.

        Raises:
            UnsupportedAttributeError: One has no counterpart.
        """
        functions = self.functions
        # OpenVINO's ONNX frontend lists the activations of both directions.
        if functions == functions[:allowed] * self.directions:
            functions = functions[:allowed]
        names = [_ACTIVATIONS.get(word) for word in functions]
        if None in names or len(names) != allowed:
            raise UnsupportedAttributeError("activations", list(self.activations), f"{allowed} of sigmoid, tanh, relu")
        if self.hidden_size < 1:
            raise UnsupportedAttributeError("hidden_size", self.hidden_size, "a positive integer")
        if self.clip < 0:
            raise UnsupportedAttributeError("clip", self.clip, "0 for none, or a positive number")
        return {
            "hidden_size": self.hidden_size,
            "activations": names * self.directions,
            "clip": float(self.clip) if self.clip else None,
            "direction": self.direction,
        }


@REGISTRY.lowering("LSTMSequence", since=5, how="composed")
def lstm_sequence(
    b: Builder,
    x: ir.Value,
    initial_hidden_state: ir.Value,
    initial_cell_state: ir.Value,
    sequence_lengths: ir.Value,
    w: ir.Value,
    r: ir.Value,
    bias: ir.Value,
    /,
    *,
    hidden_size: int,
    direction: Direction,
    activations: Words = ("sigmoid", "tanh", "tanh"),
    activations_alpha: Numbers = (),
    activations_beta: Numbers = (),
    clip: float = 0.0,
) -> tuple[ir.Value, ...]:
    """LSTM, with the gates in ONNX's order."""
    attributes = _Attributes(hidden_size, activations, clip, direction)
    lengths = _lengths(b, x, sequence_lengths, (w, r, bias), attributes, ("sigmoid", "tanh", "tanh"))
    weights = [_lstm_gates(b, value, 1, _FICO) for value in (w, r, bias)]
    states = [initial_hidden_state, initial_cell_state]
    return _sequence(b, "LSTM", x, lengths, weights, states, attributes.onnx(3))


@REGISTRY.lowering("GRUSequence", since=5, how="composed")
def gru_sequence(
    b: Builder,
    x: ir.Value,
    initial_hidden_state: ir.Value,
    sequence_lengths: ir.Value,
    w: ir.Value,
    r: ir.Value,
    bias: ir.Value,
    /,
    *,
    hidden_size: int,
    direction: Direction,
    activations: Words = ("sigmoid", "tanh"),
    activations_alpha: Numbers = (),
    activations_beta: Numbers = (),
    clip: float = 0.0,
    linear_before_reset: bool = False,
) -> tuple[ir.Value, ...]:
    """GRU."""
    shared = _Attributes(hidden_size, activations, clip, direction)
    attributes = shared.onnx(2)
    attributes["linear_before_reset"] = int(linear_before_reset)
    lengths = _lengths(b, x, sequence_lengths, (w, r, bias), shared, ("sigmoid", "tanh"))
    both = _gru_bias(b, bias, 1, hidden_size) if linear_before_reset else bias
    return _sequence(b, "GRU", x, lengths, [w, r, both], [initial_hidden_state], attributes)


@REGISTRY.lowering("RNNSequence", since=5, how="composed")
def rnn_sequence(
    b: Builder,
    x: ir.Value,
    initial_hidden_state: ir.Value,
    sequence_lengths: ir.Value,
    w: ir.Value,
    r: ir.Value,
    bias: ir.Value,
    /,
    *,
    hidden_size: int,
    direction: Direction,
    activations: Words = ("tanh",),
    activations_alpha: Numbers = (),
    activations_beta: Numbers = (),
    clip: float = 0.0,
) -> tuple[ir.Value, ...]:
    """RNN."""
    attributes = _Attributes(hidden_size, activations, clip, direction)
    lengths = _lengths(b, x, sequence_lengths, (w, r, bias), attributes, None)
    return _sequence(b, "RNN", x, lengths, [w, r, bias], [initial_hidden_state], attributes.onnx(1))


@REGISTRY.lowering("LSTMCell", since=4, without=["peepholes", "input_forget", "weights_format"])
@REGISTRY.lowering("LSTMCell", since=1)
def lstm_cell(
    b: Builder,
    x: ir.Value,
    initial_hidden_state: ir.Value,
    initial_cell_state: ir.Value,
    w: ir.Value,
    r: ir.Value,
    bias: ir.Value | None = None,
    peepholes: ir.Value | None = None,
    /,
    *,
    hidden_size: int,
    activations: Words = ("sigmoid", "tanh", "tanh"),
    activations_alpha: Numbers = (),
    activations_beta: Numbers = (),
    clip: float = 0.0,
    input_forget: bool = False,
    weights_format: Literal["fico", "icof", "ifco", "ifoc", "iofc"] = "fico",
) -> tuple[ir.Value, ...]:
    """LSTM of one step; in version 1 without peepholes, with forget gates, and with the gates in OpenVINO's order."""
    array = None if peepholes is None else b.array(peepholes)
    for what, present in (
        ("peepholes", peepholes is not None and (array is None or array.any())),
        ("input_forget", input_forget),
        ("weights_format", weights_format != _FICO),
    ):
        if present:
            b.follow(f"follows OpenVINO's CPU plugin: ignores {what}")
    attributes = _Attributes(hidden_size, activations, clip).onnx(3)
    weights = [None if value is None else _lstm_gates(b, value, 0, _FICO) for value in (w, r, bias)]
    return _cell(b, "LSTM", x, weights, [initial_hidden_state, initial_cell_state], attributes)


@REGISTRY.lowering("GRUCell", since=3)
def gru_cell(
    b: Builder,
    x: ir.Value,
    initial_hidden_state: ir.Value,
    w: ir.Value,
    r: ir.Value,
    bias: ir.Value | None = None,
    /,
    *,
    hidden_size: int,
    activations: Words = ("sigmoid", "tanh"),
    activations_alpha: Numbers = (),
    activations_beta: Numbers = (),
    clip: float = 0.0,
    linear_before_reset: bool = False,
) -> tuple[ir.Value, ...]:
    """GRU of one step."""
    attributes = _Attributes(hidden_size, activations, clip).onnx(2)
    attributes["linear_before_reset"] = int(linear_before_reset)
    if linear_before_reset and bias is not None:
        bias = _gru_bias(b, bias, 0, hidden_size)
    return _cell(b, "GRU", x, [w, r, bias], [initial_hidden_state], attributes)


@REGISTRY.lowering("RNNCell", since=1)
def rnn_cell(
    b: Builder,
    x: ir.Value,
    initial_hidden_state: ir.Value,
    w: ir.Value,
    r: ir.Value,
    bias: ir.Value | None = None,
    /,
    *,
    hidden_size: int,
    activations: Words = ("tanh",),
    activations_alpha: Numbers = (),
    activations_beta: Numbers = (),
    clip: float = 0.0,
) -> tuple[ir.Value, ...]:
    """RNN of one step."""
    attributes = _Attributes(hidden_size, activations, clip).onnx(1)
    return _cell(b, "RNN", x, [w, r, bias], [initial_hidden_state], attributes)


def _lstm_gates(b: Builder, value: ir.Value, axis: int, order: str) -> ir.Value:
    """Reorders the blocks of four gates from OpenVINO's to ONNX's order."""
    gates = b.op("Split", value, outputs=4, axis=axis, num_outputs=4)
    moved = b.op("Concat", *(gates[order.index(gate)] for gate in "iofc"), axis=axis)
    return b.typed(moved, value.dtype, value.shape)


def _gru_bias(b: Builder, bias: ir.Value, axis: int, hidden_size: int) -> ir.Value:
    """Returns both of ONNX's biases, of which the recurrent one acts on the hidden gate only."""
    parts = b.constant([3 * hidden_size, hidden_size])
    first, hidden = b.op("Split", bias, parts, outputs=2, axis=axis)
    zeros = _zeros(b, b.op("Slice", first, b.constant([0]), b.constant([2 * hidden_size]), b.constant([axis])), bias)
    return b.typed(b.op("Concat", first, zeros, hidden, axis=axis), bias.dtype, None)


def _zeros(b: Builder, like: ir.Value, of_type: ir.Value) -> ir.Value:
    return b.typed(b.op("Expand", scalar(b, 0, of_type), b.op("Shape", like)), of_type.dtype, None)


def _lengths(
    b: Builder,
    x: ir.Value,
    lengths: ir.Value,
    weights: Sequence[ir.Value],
    attributes: _Attributes,
    functions: Words | None,
) -> ir.Value | None:
    """Returns how many steps each sequence has, or None for all of them.

    In dynamic shapes OpenVINO's CPU plugin ignores the lengths, unless it splits the sequence into cells, which
    it does where it has no kernel for the whole sequence: if weights are runtime values, values are clipped, or the
    activations of an LSTM or GRU are not the default ones.

    `functions` are those of the plugin's kernel; None stands for any.
    """
    taken_apart = (
        attributes.clip != 0
        or (functions is not None and attributes.functions != functions)
        or not all(_is_constant(value) for value in weights)
    )
    states = [value for index, value in enumerate(b.node.outputs) if index and index not in b.node.unused]
    if taken_apart and attributes.directions == 1 and not b.returned.issuperset(states):
        LAST_STATE_SCALED.warn(b)
    known = known_ints(b, lengths)
    longest = None if x.shape is None or len(x.shape) < 2 else x.shape[1]
    if known is not None and isinstance(longest, int) and set(known) == {longest}:
        return None
    if taken_apart or (x.shape is not None and x.shape.is_static()):
        return lengths
    b.follow("follows OpenVINO's CPU plugin: ignores sequence_lengths if a dimension of x is dynamic")
    return None


def _is_constant(value: ir.Value | None) -> bool:
    """Tells whether a value is a constant, compressed or not."""
    if value is None or value.const_value is not None:
        return True
    node = value.producer()
    return node is not None and all(_is_constant(each) for each in node.inputs)


def _sequence(
    b: Builder,
    op_type: str,
    x: ir.Value,
    lengths: ir.Value | None,
    weights: list[ir.Value],
    states: list[ir.Value],
    attributes: dict[str, Any],
) -> tuple[ir.Value, ...]:
    steps = b.op("Transpose", x, perm=[1, 0, 2])
    first = [b.op("Transpose", state, perm=[1, 0, 2]) for state in states]
    counts = None if lengths is None else b.cast(lengths, _I32)
    y, *last = _emit(b, op_type, b.typed(steps, x.dtype, None), weights, counts, first, attributes)
    states_last = [b.op("Transpose", state, perm=[1, 0, 2]) for state in last]
    return b.op("Transpose", y, perm=[2, 1, 0, 3]), *states_last


def _cell(
    b: Builder,
    op_type: str,
    x: ir.Value,
    weights: list[ir.Value | None],
    states: list[ir.Value],
    attributes: dict[str, Any],
) -> tuple[ir.Value, ...]:
    front = b.constant([0])

    def raised(value: ir.Value) -> ir.Value:
        return b.typed(b.op("Unsqueeze", value, front), value.dtype, None)

    matrices = [None if value is None else raised(value) for value in weights]
    _, *last = _emit(b, op_type, raised(x), matrices, None, [raised(state) for state in states], attributes)
    return tuple(b.op("Squeeze", state, front) for state in last)


def _emit(
    b: Builder,
    op_type: str,
    x: ir.Value,
    weights: list[ir.Value | None] | list[ir.Value],
    lengths: ir.Value | None,
    states: list[ir.Value],
    attributes: dict[str, Any],
) -> list[ir.Value]:
    """Emits the op; a bias for the inputs alone gets a recurrent one of zeros."""
    require(x, "x", FLOATS)
    own, inner = dtype_of(x), ir.DataType.FLOAT
    if own == ir.DataType.DOUBLE:
        b.follow("f64: ONNX Runtime has no kernel; computed in f32, as in OpenVINO's CPU plugin")
    w, r, bias = weights
    assert w is not None
    assert r is not None
    if bias is not None:
        doubled = attributes.get("linear_before_reset") == 1
        bias = b.cast(bias, inner)
        bias = bias if doubled else b.op("Concat", bias, _zeros(b, bias, bias), axis=-1)
    operands = [b.cast(value, inner) for value in (x, w, r)]
    first = [b.cast(b.typed(state, own, None), inner) for state in states]
    results = b.op(op_type, *operands, bias, lengths, *first, outputs=1 + len(states), **attributes)
    return [b.cast(b.typed(result, inner, None), own) for result in results]

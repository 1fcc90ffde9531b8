"""FakeQuantize."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import AutoBroadcast, aligned
from ortconv.converters.openvino.lib.compute_types import (
    FLOATS,
    compute,
    dtype_of,
    in_one_type,
    narrowed,
    require,
    scalar,
)
from ortconv.converters.openvino.plugin_bugs.fake_quantize import (
    EQUAL_INPUT_BOUNDS,
    EXCHANGED_INPUT_BOUNDS,
    OUTPUT_BOUNDS_OF_DIFFERENT_SIZES,
    PER_CHANNEL_BEHIND_REDUCTION,
    set_levels,
)
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.converters.openvino.weights.fake_quantized import is_folded, quantized_constant
from ortconv.errors import ConversionError, UnsupportedAttributeError
from ortconv.graph.builder import Builder
from ortconv.graph.fake_quantize import mark_quantizer

_KERNELS = ("Add", "Clip", "Div", "Greater", "LessOrEqual", "Max", "Min", "Mul", "Round", "Sub", "Where")
_STRIPPED = 65536
"""The number of levels of 16 bits."""


@REGISTRY.lowering("FakeQuantize")
def fake_quantize(
    b: Builder,
    data: ir.Value,
    input_low: ir.Value,
    input_high: ir.Value,
    output_low: ir.Value,
    output_high: ir.Value,
    /,
    *,
    levels: int,
    auto_broadcast: AutoBroadcast = "numpy",
    auto_broadcast_auto_broadcast_axis: int = 0,
) -> ir.Value:
    """The specification's formula in single ops, with Round half to even; bounds may differ per element.

    Of constant bounds it becomes two linear functions around the Round, with the numbers that OpenVINO's CPU plugin
    makes of the bounds, and rounded where it rounds: what lies between two levels then goes to the same one. Constants
    become the bytes that they are rounded to, with their scales.
    """
    require(data, "data", FLOATS)
    if levels < 2:
        raise UnsupportedAttributeError("levels", levels, "an integer of at least 2")
    given: Sequence[ir.Value] = (input_low, input_high, output_low, output_high)
    _require_bounds(b, given)
    if _is_left_out(b, levels, given):
        b.follow(
            f"follows OpenVINO's CPU plugin: it removes a FakeQuantize to {levels} levels of the same range, "
            "so that values are not clipped"
        )
        return b.op("Identity", data)
    own = dtype_of(data)
    data, *given = in_one_type(b, data, *given)
    _warn_of_ranges(b, data, given)
    _warn_of_reduction(b, data, given)
    bounds = [aligned(b, data, bound, auto_broadcast, auto_broadcast_auto_broadcast_axis)[1] for bound in given]
    constant = quantized_constant(b, data, levels, [b.array(bound) for bound in bounds])
    if constant is not None and own == ir.DataType.FLOAT:
        set_levels(b, constant, levels, *given[2:])
        return constant

    def formula(x: ir.Value, low: ir.Value, high: ir.Value, first: ir.Value, last: ir.Value) -> ir.Value:
        arrays = [b.array(bound) for bound in (low, high, first, last)]
        fused = _is_fused(data.shape, arrays)
        lines = None if is_folded(data, levels, arrays) else _lines(levels, arrays, fused=fused)
        if lines is not None:
            within = _clipped(b, x, low, high)
            place = (_fused if fused and x.dtype == ir.DataType.FLOAT else _linear)(b, within, *lines[0])
            result = _linear(b, b.op("Round", place), *lines[1])
            _mark(b, levels, x, within, result, arrays)
            return result
        if data.const_value is None:
            b.note(f"is computed in floats: {_obstacle(arrays)}")
        steps = scalar(b, levels - 1, x)
        place = b.op("Div", b.op("Sub", x, low), b.op("Sub", high, low))
        step = b.op("Round", b.op("Mul", place, steps))
        value = b.op("Add", b.op("Mul", b.op("Div", step, steps), b.op("Sub", last, first)), first)
        below = b.op("LessOrEqual", x, b.op("Min", low, high))
        above = b.op("Greater", x, b.op("Max", low, high))
        return b.op("Where", below, first, b.op("Where", above, last, value))

    result = compute(b, formula, data, *bounds, op_types=_KERNELS)
    set_levels(b, result, levels, *given[2:])
    return narrowed(b, result, data, own)


def _is_fused(shape: ir.Shape | None, bounds: Sequence[np.ndarray | None]) -> bool:
    """Returns whether OpenVINO's CPU plugin multiplies and adds with one rounding.

    It has a kernel of its own for dynamic sizes of 2 to 5 axes and bounds per tensor or along axis 1. Everything else
    is computed by its elementwise kernels.
    """
    if shape is None or shape.is_static() or not 2 <= len(shape) <= 5:
        return False
    varying = {
        len(shape) - bound.ndim + axis
        for bound in bounds
        if bound is not None
        for axis, size in enumerate(bound.shape)
        if size != 1
    }
    return varying <= {1}


_Line = tuple[np.ndarray, np.ndarray]
"""Factor and offset of a linear function."""


def _known(bounds: Sequence[np.ndarray | None]) -> tuple[np.ndarray, ...] | None:
    """Returns the bounds where all of them are known: of the data, then the results of the outer levels."""
    known = tuple(bound for bound in bounds if bound is not None)
    return known if len(known) == len(bounds) else None


def _lines(levels: int, bounds: Sequence[np.ndarray | None], *, fused: bool) -> tuple[_Line, _Line] | None:
    """Returns the linear functions from data to level numbers, and from these to results.

    Args:
        levels: How many levels there are.
        bounds: See `_known`.
        fused: See `_is_fused`; that kernel computes the numbers in another order, too.

    Returns:
        None where a bound is not known, or where a range is empty, turned round or too large.
    """
    known = _known(bounds)
    if known is None or (known[0] >= known[1]).any():
        return None
    low, high, first, last = known
    steps = low.dtype.type(levels - 1)
    with np.errstate(over="ignore", invalid="ignore"):
        factor = np.asarray(steps / (high - low))
        forth = factor, np.asarray(-low * steps / (high - low) if fused else -low * factor)
        back = np.asarray((last - first) / steps), np.asarray(first)
    finite = all(np.isfinite(numbers).all() for numbers in (*forth, *back))
    return (forth, back) if finite and factor.all() else None


def _mark(
    b: Builder, levels: int, x: ir.Value, within: ir.Value, result: ir.Value, bounds: Sequence[np.ndarray | None]
) -> None:
    """Marks the formula as a quantizer if QuantizeLinear and DequantizeLinear compute the same; else notes why not."""
    low, high = bounds[:2]
    assert low is not None
    assert high is not None
    reason: str | None = "the results have another range than the data"
    if _returns_to_range(bounds):
        clip = within.producer()
        inner = None if clip is None or clip.op_type == "Clip" else clip.inputs[0]
        reason = mark_quantizer(x, within if inner is None else inner, within, result, levels, low, high)
    if reason is not None and x.const_value is None:
        b.note(f"is computed in floats: {reason}")


def _obstacle(bounds: Sequence[np.ndarray | None]) -> str:
    """Returns why the formula is no pair of linear functions."""
    if _known(bounds) is None:
        return "the model computes its ranges"
    return "a range is empty, turned round or too large"


def _returns_to_range(bounds: Sequence[np.ndarray | None]) -> bool:
    """Tells whether the bounds of the results are those of the data."""
    known = _known(bounds)
    return known is not None and np.array_equal(known[0], known[2]) and np.array_equal(known[1], known[3])


def _clipped(b: Builder, x: ir.Value, low: ir.Value, high: ir.Value) -> ir.Value:
    bounds = [_constant(b, x, array) for bound in (low, high) if (array := b.array(bound)) is not None]
    if all(bound.shape == () for bound in bounds):
        return b.op("Clip", x, *bounds)
    return b.op("Min", b.op("Max", x, bounds[0]), bounds[1])


def _linear(b: Builder, x: ir.Value, factor: np.ndarray, shift: np.ndarray) -> ir.Value:
    product = x if (factor == 1).all() else b.op("Mul", x, _constant(b, x, factor))
    return b.op("Add", product, _constant(b, x, shift)) if shift.any() else product


def _fused(b: Builder, x: ir.Value, factor: np.ndarray, shift: np.ndarray) -> ir.Value:
    """Returns x * factor + offset of floats with one rounding: float64 holds the product exactly."""
    if not shift.any():
        return _linear(b, x, factor, shift)
    wide = b.cast(x, ir.DataType.DOUBLE)
    return b.cast(_linear(b, wide, factor.astype(np.float64), shift.astype(np.float64)), ir.DataType.FLOAT)


def _constant(b: Builder, x: ir.Value, numbers: np.ndarray) -> ir.Value:
    """Returns a constant that is broadcast onto x, as a scalar where it is one number."""
    scalar_does = numbers.size == 1 and x.shape is not None and numbers.ndim <= len(x.shape)
    return b.constant(numbers.reshape(()) if scalar_does else numbers)


def _is_left_out(b: Builder, levels: int, bounds: Sequence[ir.Value]) -> bool:
    """Tells whether OpenVINO's CPU plugin drops the node when it compiles the model."""
    return levels == _STRIPPED and _returns_to_range([b.array(bound) for bound in bounds])


def _require_bounds(b: Builder, bounds: Sequence[ir.Value]) -> None:
    """Rejects constant bounds whose shapes do not broadcast, or are too large."""
    shapes = [known.shape for bound in bounds if (known := b.array(bound)) is not None]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise ConversionError(f"has bounds of shapes {', '.join(map(str, shapes))}, which do not broadcast.") from None
    b.budget.require("the bounds", shapes, *shape, np.dtype(np.float64).itemsize)


def _warn_of_ranges(b: Builder, data: ir.Value, bounds: Sequence[ir.Value]) -> None:
    """Warns of input ranges that OpenVINO's CPU plugin does not quantize as specified."""
    known = _known([b.array(bound) for bound in bounds])
    if known is None:
        return
    low, high, first, last = known
    # For vectors, the plugin computes the specified formula.
    if (low > high).any() and (data.shape is None or len(data.shape) != 1):
        EXCHANGED_INPUT_BOUNDS.warn(b)
    if first.size != last.size:
        OUTPUT_BOUNDS_OF_DIFFERENT_SIZES.warn(b)
    if (np.equal(low, high) & np.not_equal(first, last)).any():
        EQUAL_INPUT_BOUNDS.warn(b)


def _warn_of_reduction(b: Builder, data: ir.Value, bounds: Sequence[ir.Value]) -> None:
    """Warns of numbers per channel behind a reduction, which OpenVINO's CPU plugin fuses with it and FakeQuantize."""
    node = data.producer()
    per_channel = any(_is_vector(b, bound) for bound in bounds)
    if node is not None and node.op_type in ("Add", "Mul"):
        constant = next((index for index, value in enumerate(node.inputs) if _is_vector(b, value)), None)
        other = None if constant is None else node.inputs[1 - constant]
        node, per_channel = (None if other is None else other.producer()), True
    if node is None or not per_channel or not node.op_type.startswith("Reduce") or len(node.inputs) < 2:
        return
    reduced, axes = node.inputs[0], b.array(node.inputs[1])
    rank = None if reduced is None or reduced.shape is None else len(reduced.shape)
    if rank is None or rank < 3 or axes is None:
        return
    if rank == 3 or any(axis % rank < 2 for axis in axes.ravel()):
        PER_CHANNEL_BEHIND_REDUCTION.warn(b)


def _is_vector(b: Builder, value: ir.Value | None) -> bool:
    numbers = b.array(value)
    return numbers is not None and numbers.size > 1

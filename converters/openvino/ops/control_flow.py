"""Ops with bodies: If, Loop and TensorIterator.

Bodies see the outer graph: what goes into a body unchanged is not an input of the ONNX body, but used from outside.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.broadcasting import rank_of
from ortconv.converters.openvino.lib.compute_types import name as type_name
from ortconv.converters.openvino.lib.constants import as_scalar, known_ints, normalized
from ortconv.converters.openvino.lib.loops import iteration
from ortconv.converters.openvino.plugin_bugs.slicing import NEGATIVE_SLICE_AXIS, STATE_IN_A_SLICE, may_lie_in_a_slice
from ortconv.converters.openvino.reader.bodies import Branch, BranchNode, IterationNode, Port, Slice
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ConversionError, ShapeError
from ortconv.frontend.source_graph import SourceNode, SourceValue
from ortconv.graph.builder import Builder

_INT64, _BOOL = ir.DataType.INT64, ir.DataType.BOOL
_FOREVER = np.iinfo(np.int64).max


@REGISTRY.lowering("If", since=8, how="exact")
def if_(b: Builder, condition: ir.Value, /, *inputs: ir.Value) -> tuple[ir.Value, ...]:
    """If; the branch itself where the condition is a constant."""
    node = b.node
    assert isinstance(node, BranchNode)
    known = b.array(condition)
    if known is not None and known.size == 1:
        b.note(f"the condition is always {bool(known.item())}")
        return _side(b, node, node.then if known.item() else node.otherwise, (condition, *inputs))
    graphs = []
    for branch in (node.then, node.otherwise):
        with b.body() as body:
            graphs.append(body.graph(_side(b, node, branch, (condition, *inputs))))
    results = b.op("If", condition, outputs=len(node.outputs), then_branch=graphs[0], else_branch=graphs[1])
    for result, first, second in zip(results, graphs[0].outputs, graphs[1].outputs, strict=True):
        if first.shape is not None and second.shape is not None and len(first.shape) == len(second.shape):
            b.typed(result, first.dtype, [None] * len(first.shape))
    return results


def _side(b: Builder, node: BranchNode, branch: Branch, inputs: Sequence[ir.Value]) -> tuple[ir.Value, ...]:
    """Lowers a branch inline; returns the node's outputs."""
    given = {port.inner: inputs[port.outer] for port in branch.into}
    results = b.inline(branch.body, [given[index] for index in range(len(branch.body.inputs))])
    return _in_order(node, {port.outer: results[port.inner] for port in branch.out_of}, branch.body.name)


def _in_order(node: SourceNode, found: Mapping[int, ir.Value], body: str) -> tuple[ir.Value, ...]:
    """Returns the outputs of a node by their numbers.

    Raises:
        ConversionError: One is missing.
    """
    for index, output in enumerate(node.outputs):
        if index not in found:
            raise ConversionError(f"output {output.name} has no source in {body}; it is required.")
    return tuple(found[index] for index in range(len(node.outputs)))


@REGISTRY.lowering("TensorIterator", how="composed")
def tensor_iterator(b: Builder, /, *inputs: ir.Value) -> tuple[ir.Value, ...]:
    """Loop over the slices of the sliced inputs."""
    node = b.node
    assert isinstance(node, IterationNode)
    if not any(port.slice for port in node.into):
        raise ConversionError("has no sliced input, which would give the number of iterations; allowed: at least one.")
    return _iterate(b, node, inputs, None, None)


@REGISTRY.lowering("Loop", since=5, how="composed")
def loop(b: Builder, trip_count: ir.Value, execution_condition: ir.Value, /, *inputs: ir.Value) -> tuple[ir.Value, ...]:
    """Loop; concatenated outputs are scan outputs with their axis moved into place."""
    node = b.node
    assert isinstance(node, IterationNode)
    known = known_ints(b, trip_count)
    trips: ir.Value | None
    if known is not None:
        trips = None if known[0] < 0 else b.constant(known[0])
    else:
        count = as_scalar(b, b.cast(trip_count, _INT64), _INT64)
        negative = b.op("Less", count, b.constant(0))
        trips = b.op("Where", negative, b.constant(_FOREVER), count)
    begins = b.array(execution_condition)
    if begins is not None and not begins.any():
        return _never(b, node, (trip_count, execution_condition, *inputs))
    condition = None if begins is not None and begins.all() else as_scalar(b, execution_condition, _BOOL)
    return _iterate(b, node, (trip_count, execution_condition, *inputs), trips, condition)


def _never(b: Builder, node: IterationNode, inputs: Sequence[ir.Value]) -> tuple[ir.Value, ...]:
    """Returns the outputs of a Loop whose condition is always false."""
    sources = {port.inner: port.outer for port in node.into}
    initial = {result: inputs[sources[parameter]] for result, parameter in node.back_edges}
    inner = {port.outer: port.inner for port in node.out_of if port.slice is None}
    results: list[ir.Value] = []
    for index, output in enumerate(node.outputs):
        sizes = [dim for dim in output.shape or () if isinstance(dim, int)]
        if 0 in sizes and len(sizes) == len(output.shape or ()):
            b.follow("follows OpenVINO: outputs are empty if the condition is always false")
            results.append(b.filled(sizes, 0, output.dtype))
        elif inner.get(index) in initial:
            results.append(initial[inner[index]])
        else:
            raise ConversionError(f"output {output.name} has no value, as the condition is always false.")
    return tuple(results)


def _iterate(
    b: Builder,
    node: IterationNode,
    inputs: Sequence[ir.Value],
    trips: ir.Value | None,
    condition: ir.Value | None,
) -> tuple[ir.Value, ...]:
    """Emits a Loop.

    Args:
        b: The builder.
        node: The source node.
        inputs: Its inputs.
        trips: How often at most; None for as often as the sliced inputs have parts, or without limit.
        condition: Whether to begin; None for yes.
    """
    for port in node.into:
        _require_type(node.body.inputs[port.inner], inputs[port.outer])
    sources = {port.inner: port for port in node.into}
    sliced = [port for port in node.into if port.slice]
    slices = {node.body.inputs[port.inner] for port in sliced}
    if any(may_lie_in_a_slice(node.body.outputs[result].value, node.body, slices) for result, _ in node.back_edges):
        STATE_IN_A_SLICE.warn(b)
    counts = {port: _count(b, inputs[port.outer], port) for port in sliced}
    if trips is None and sliced:
        trips = counts[sliced[0]]
    whole = {port.inner for port in node.out_of if port.slice is None}
    carried = [result for result, _ in node.back_edges] + sorted(whole - {result for result, _ in node.back_edges})
    scanned = [port for port in node.out_of if port.slice]
    with b.body(repeated=True) as body:
        number = iteration(body, "iteration")
        initial: list[ir.Value | None] = []
        given: dict[int, ir.Value] = {}
        for result, parameter in node.back_edges:
            declared, following = node.body.inputs[parameter], node.body.outputs[result].value
            if declared.dtype != following.dtype:
                raise ConversionError(
                    f"the body's input {declared.name} is {type_name(declared.dtype)} first and "
                    f"{type_name(following.dtype)} from {following.name} afterwards; allowed: one type."
                )
            given[parameter] = body.input(declared.name, declared.dtype, declared.shape)
            initial.append(inputs[sources[parameter].outer])
        for result in carried[len(node.back_edges) :]:
            declared = node.body.outputs[result].value
            body.input(declared.name, declared.dtype, None)
            initial.append(None)
        for port in node.into:
            if port.slice:
                given[port.inner] = _part(b, inputs[port.outer], port, number, counts[port])
            else:
                given.setdefault(port.inner, inputs[port.outer])
        if node.iteration is not None:
            given[node.iteration] = _as_declared(b, number, node)
        results = b.inline(node.body, [given[index] for index in range(len(node.body.inputs))])
        go_on = b.constant(True) if node.condition is None else as_scalar(b, results[node.condition], _BOOL)
        outputs = [go_on, *(results[index] for index in carried)]
        outputs += [_scan_output(b, results[port.inner], port) for port in scanned]
        graph = body.graph(outputs)
    starts = [
        _nothing(b, node, index) if value is None else value for value, index in zip(initial, carried, strict=True)
    ]
    begins = b.constant(True) if condition is None else condition
    emitted = b.op("Loop", trips, begins, *starts, outputs=len(outputs) - 1, body=graph)
    for outside, inside in zip(emitted, outputs[1:], strict=True):
        b.typed(outside, inside.dtype, None)
    last = {result: emitted[carried.index(result)] for result in carried}
    return _results(b, node, results, last, dict(zip(scanned, emitted[len(carried) :], strict=True)))


def _results(
    b: Builder,
    node: IterationNode,
    results: Sequence[ir.Value],
    last: Mapping[int, ir.Value],
    stacked: Mapping[Port, ir.Value],
) -> tuple[ir.Value, ...]:
    """Returns the outputs of a node.

    Args:
        b: The builder.
        node: The source node.
        results: What its body gives.
        last: By their numbers, those of the last iteration.
        stacked: By the ports that want them, those of all iterations.
    """
    found: dict[int, ir.Value] = {}
    for port in node.out_of:
        if port.slice is None:
            shape = results[port.inner].shape
            found[port.outer] = b.typed(last[port.inner], None, None if shape is None else [None] * len(shape))
        else:
            found[port.outer] = _concatenated(b, stacked[port], results[port.inner], port.slice)
    return _in_order(node, found, "the body")


def _require_type(declared: SourceValue, given: ir.Value) -> None:
    """Rejects a body input whose type differs from the value passed to it, which OpenVINO allows."""
    if given.dtype is not None and given.dtype != declared.dtype:
        raise ConversionError(
            f"the body's input {declared.name} is {type_name(declared.dtype)}, and is given {type_name(given.dtype)}; "
            "allowed: one type."
        )


def _sliced_axis(b: Builder, port: Port, value: ir.Value, input: str) -> tuple[int, Slice, int]:
    """Returns the axis and the slice rule of a tensor, and the number of remaining elements.

    The specification lets parts begin and end anywhere; OpenVINO's CPU plugin begins at an end of the tensor, whatever
    start is, and start and end say how many parts there are.
    """
    rule = port.slice
    assert rule is not None
    (axis,) = normalized((rule.axis,), rank_of(value, input), "axis")
    if rule.axis < 0:
        NEGATIVE_SLICE_AXIS.warn(b)
    assert value.shape is not None
    size = value.shape[axis]
    first, last = (rule.start, rule.end) if rule.stride > 0 else (rule.end, rule.start)
    if abs(rule.stride) != rule.part_size or rule.part_size < 1:
        raise ConversionError(
            f"{input}: stride {rule.stride} with part_size {rule.part_size} is not supported; allowed: parts that "
            "neither overlap nor leave gaps."
        )
    if isinstance(size, int):
        first = 0 if first == -size - 1 else first
        last = -1 if last == size else last
    if first < 0 or last >= 0:
        raise ConversionError(
            f"{input}: start {rule.start} and end {rule.end} are not supported; allowed: one counted from the front, "
            "the other from the end."
        )
    left = first - 1 - last
    if left and (rule.start if rule.stride > 0 else rule.start + 1):
        b.follow(
            f"follows OpenVINO's CPU plugin: slices of {input} start at one of its ends, not at start = {rule.start}"
        )
    if isinstance(size, int) and (left > size or (size - left) % rule.part_size):
        raise ShapeError(input, value.shape, f"part_size = {rule.part_size} does not divide the size of axis {axis}.")
    return axis, rule, left


def _count(b: Builder, value: ir.Value, port: Port) -> ir.Value:
    """Returns the number of slices of an input as a scalar."""
    axis, rule, left = _sliced_axis(b, port, value, f"input {port.outer}")
    size = b.op("Shape", value, start=axis, end=axis + 1)
    if left:
        size = b.op("Sub", size, b.constant([left]))
    parts = size if rule.part_size == 1 else b.op("Div", size, b.constant([rule.part_size]))
    return as_scalar(b, parts, _INT64)


def _part(b: Builder, value: ir.Value, port: Port, iteration: ir.Value, count: ir.Value) -> ir.Value:
    """Returns the slice of an input for one iteration."""
    axis, rule, left = _sliced_axis(b, port, value, f"input {port.outer}")
    index = iteration
    if rule.stride < 0:
        index = b.op("Sub", b.op("Sub", count, b.constant(1)), iteration)
    first = b.op("Unsqueeze", index, b.constant([0]))
    size = b.constant([rule.part_size])
    start = first if rule.part_size == 1 else b.op("Mul", first, size)
    if left and rule.stride < 0:
        start = b.op("Add", start, b.constant([left]))
    if rule.part_size == 1:
        part = b.op("Gather", value, start, axis=axis)
    else:
        part = b.op("Slice", value, start, b.op("Add", start, size), b.constant([axis]))
    assert value.shape is not None
    shape = [rule.part_size if place == axis else dim for place, dim in enumerate(value.shape)]
    return b.typed(part, value.dtype, ir.Shape(shape))


def _scan_output(b: Builder, result: ir.Value, port: Port) -> ir.Value:
    """Returns the scan output of the Loop: the slice, without its axis if that has one entry."""
    assert port.slice is not None
    (axis,) = normalized((port.slice.axis,), rank_of(result, f"output {port.outer}"), "axis")
    assert result.shape is not None
    size = result.shape[axis]
    if isinstance(size, int) and size != port.slice.part_size:
        problem = f"parts of {port.slice.part_size} along axis {axis} are not what the body gives."
        raise ShapeError(f"output {port.outer}", result.shape, problem)
    if port.slice.part_size != 1:
        return result
    rest = [dim for place, dim in enumerate(result.shape) if place != axis]
    return b.typed(b.op("Squeeze", result, b.constant([axis])), result.dtype, ir.Shape(rest))


def _concatenated(b: Builder, stacked: ir.Value, part: ir.Value, rule: Slice) -> ir.Value:
    """Concatenates slices, stacked along a new first axis, along the axis of the rule."""
    rank = rank_of(part, "output")
    (axis,) = normalized((rule.axis,), rank, "axis")
    if rule.axis < 0:
        NEGATIVE_SLICE_AXIS.warn(b)
    first, last = (rule.start, rule.end) if rule.stride > 0 else (rule.end, rule.start)
    if abs(rule.stride) != rule.part_size or (first, last) != (0, -1):
        raise ConversionError(
            f"an output with start {rule.start}, end {rule.end}, stride {rule.stride} and part_size {rule.part_size} "
            "is not supported; allowed: parts that fill the whole axis."
        )
    if rule.stride < 0:
        last_first = [b.constant([number]) for number in (-1, np.iinfo(np.int64).min, 0, -1)]
        stacked = b.typed(b.op("Slice", stacked, *last_first), part.dtype, None)
    if rule.part_size == 1:
        return b.op("Transpose", stacked, perm=[*range(1, axis + 1), 0, *range(axis + 1, rank)])
    moved = b.op("Transpose", stacked, perm=[*range(1, axis + 1), 0, *range(axis + 1, rank + 1)])
    before = [b.op("Shape", moved, start=0, end=axis)] if axis else []
    behind = [b.op("Shape", moved, start=axis + 2)] if axis + 1 < rank else []
    return b.op("Reshape", moved, b.op("Concat", *before, b.constant([-1]), *behind, axis=0))


def _nothing(b: Builder, node: IterationNode, result: int) -> ir.Value:
    """Returns the initial value of a result that only the last iteration defines: zeros.

    OpenVINO leaves the output of a Loop without iterations to what the memory holds.
    """
    declared = node.body.outputs[result].value
    shape = [dim if isinstance(dim, int) else 0 for dim in declared.shape or ()]
    return b.filled(shape, 0, declared.dtype)


def _as_declared(b: Builder, iteration: ir.Value, node: IterationNode) -> ir.Value:
    """Returns the iteration number in the type and shape that the body requires."""
    assert node.iteration is not None
    declared = node.body.inputs[node.iteration]
    number = b.cast(iteration, declared.dtype)
    if declared.shape:
        number = b.typed(b.op("Reshape", number, b.constant([1])), declared.dtype, [1])
    return number

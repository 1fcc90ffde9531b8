"""If, Loop and TensorIterator against OpenVINO's CPU plugin."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable

import numpy as np
import openvino
import pytest
from openvino import opset1, opset5, opset6, opset8

from ortconv.api import conversion
from ortconv.errors import ConversionError, ConversionErrors, ModelFormatError, ShapeError
from tests.converters.openvino.live import Feed, check, numbers, run_onnx

F32, I64, BOOL = np.float32, np.int64, np.bool_
Node = openvino.Node


def body(outputs: list[Node], parameters: list[Node]) -> openvino.Model:
    return openvino.Model([opset1.result(each) for each in outputs], parameters, "body")


def iterator(
    x: Node,
    shape: list[int],
    step: Callable[[Node], Node],
    *,
    axis: int = 1,
    rule: tuple[int, int, int, int] = (0, 1, 1, -1),
    out: tuple[int, int, int, int] = (0, 1, 1, -1),
) -> openvino.Output:
    """A TensorIterator over the parts of x; rules are start, stride, part_size, end."""
    part = opset1.parameter(shape, F32)
    inside = body([step(part)], [part])
    node = opset1.tensor_iterator()
    node.set_function(inside)
    node.set_sliced_input(part, x.output(0), *rule, axis)
    return node.get_concatenated_slices(inside.results[0].output(0), *out, axis)


def scaled(part: Node) -> Node:
    return opset1.multiply(part, F32(3))


FORWARD, BACKWARD = (0, 1, 1, -1), (-1, -1, 1, 0)
PAIRS, PAIRS_BACKWARD = (0, 2, 2, -1), (-1, -2, 2, 0)


@pytest.mark.parametrize("rule", [FORWARD, BACKWARD, PAIRS, PAIRS_BACKWARD], ids=str)
@pytest.mark.parametrize("out", [FORWARD, BACKWARD], ids=str)
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_iterator_cuts_and_concatenates(axis: int, rule: tuple[int, ...], out: tuple[int, ...]) -> None:
    shape = [4, 6, 2]
    part = [rule[2] if index == axis else size for index, size in enumerate(shape)]
    out = (out[0], out[1] * rule[2], rule[2], out[3])
    x = opset1.parameter(shape, F32)
    check(openvino.Model([iterator(x, part, scaled, axis=axis, rule=rule, out=out)], [x]), [numbers(*shape)])


INSIDE = [(1, 1, 1, -1), (0, 1, 1, -2), (2, 1, 1, -2), (-1, -1, 1, 1), (-3, -1, 1, 1), (2, 2, 2, -1), (-3, -2, 2, 0)]


@pytest.mark.parametrize("rule", INSIDE, ids=str)
@pytest.mark.parametrize("size", [6, -1])
def test_iterator_over_a_part_of_the_axis(rule: tuple[int, ...], size: int) -> None:
    """OpenVINO's CPU plugin begins at an end of the axis."""
    out = (0, rule[2], rule[2], -1)
    x = opset1.parameter([2, size, 3], F32)
    model = openvino.Model([iterator(x, [2, rule[2], 3], scaled, rule=rule, out=out)], [x])
    check(model, *([numbers(2, n, 3)] for n in ((6,) if size > 0 else (6, 8))))


def test_start_that_is_not_followed_is_warned_about() -> None:
    x = opset1.parameter([2, 6, 3], F32)
    for rule, warned in (((1, 1, 1, -1), True), ((0, 1, 1, -2), False), ((-1, -1, 1, 1), False)):
        warnings = conversion(openvino.Model([iterator(x, [2, 1, 3], scaled, rule=rule)], [x])).warnings
        assert any("not at start" in text for text in warnings) == warned


def test_iterator_over_an_open_axis() -> None:
    x = opset1.parameter([2, -1, 3], F32)
    model = openvino.Model([iterator(x, [2, 1, 3], scaled, rule=BACKWARD)], [x])
    check(model, [numbers(2, 4, 3)], [numbers(2, 7, 3)])


def recurrence(batch: int, steps: int) -> openvino.Model:
    """A TensorIterator with a state: all of its values, the last one, and a last value that is not carried over."""
    x, first = opset1.parameter([batch, steps, 3], F32), opset1.parameter([batch, 3], F32)
    weights = opset1.parameter([3, 3], F32)
    part, state, inner = (opset1.parameter(shape, F32) for shape in ([batch, 1, 3], [batch, 3], [3, 3]))
    sums = opset1.add(opset1.squeeze(part, np.array([1])), opset1.matmul(state, inner, False, False))
    after = opset1.tanh(sums)
    inside = body([after, opset1.unsqueeze(after, np.array([1]))], [part, state, inner])
    node = opset1.tensor_iterator()
    node.set_function(inside)
    node.set_sliced_input(part, x.output(0), 0, 1, 1, -1, 1)
    node.set_merged_input(state, first.output(0), inside.results[0].output(0))
    node.set_invariant_input(inner, weights.output(0))
    every = node.get_concatenated_slices(inside.results[1].output(0), 0, 1, 1, -1, 1)
    last = node.get_iter_value(inside.results[0].output(0), -1)
    return openvino.Model([every, last, node.get_iter_value(inside.results[1].output(0), -1)], [x, first, weights])


def test_iterator_carries_a_state_and_uses_what_does_not_change() -> None:
    check(recurrence(-1, -1), *([numbers(n, t, 3), numbers(n, 3), numbers(3, 3)] for n, t in ((2, 5), (4, 3))))


def test_iterator_of_static_shapes_carries_its_state() -> None:
    """OpenVINO 2026.4's CPU plugin overwrites the state of this one, so that NumPy says what is right."""
    x, state, weights = numbers(2, 5, 3), numbers(2, 3), numbers(3, 3)
    ((every, last, unchanged),) = run_onnx(conversion(recurrence(2, 5)), [[x, state, weights]])
    states = []
    for step in range(5):
        state = np.tanh(x[:, step] + state @ weights)
        states.append(state)
    np.testing.assert_allclose(every, np.stack(states, 1), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(last, state, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(unchanged, state[:, np.newaxis], rtol=1e-5, atol=1e-5)


def counting(
    trips: Node, begins: Node, x: Node, go_on: Callable[[Node, Node], Node], iteration: type = I64, shape: tuple = ()
) -> tuple[openvino.Output, ...]:
    """A Loop that adds the number of the iteration to x; its last value, and those of all iterations."""
    number = opset1.parameter(list(shape), iteration)
    value = opset1.parameter(x.get_output_partial_shape(0), F32)
    after = opset1.add(value, opset1.convert(number, "f32"))
    inside = body([go_on(number, after), after, opset1.unsqueeze(after, np.array([0]))], [number, value])
    node = opset5.loop(trips.output(0), begins.output(0))
    node.set_function(inside)
    node.set_special_body_ports([0, 0])
    node.set_merged_input(value, x.output(0), inside.results[1].output(0))
    last = node.get_iter_value(inside.results[1].output(0), -1)
    return last, node.get_concatenated_slices(inside.results[2].output(0), 0, 1, 1, -1, 0)


def always(number: Node, value: Node) -> Node:
    return opset1.constant(np.array(True))


def until_three(number: Node, value: Node) -> Node:
    return opset1.less(number, opset1.constant(np.array(3, I64)))


@pytest.mark.parametrize("go_on", [always, until_three])
def test_loop_with_a_constant_trip_count(go_on: Callable[[Node, Node], Node]) -> None:
    x = opset1.parameter([2, 3], F32)
    trips, begins = opset1.constant(np.array(6, I64)), opset1.constant(np.array(True))
    check(openvino.Model([*counting(trips, begins, x, go_on)], [x]), [numbers(2, 3)])


def test_loop_whose_iteration_is_a_vector_of_int32() -> None:
    x = opset1.parameter([2, 3], F32)
    trips, begins = opset1.constant(np.array([4], np.int32)), opset1.constant(np.array([True]))
    check(openvino.Model([*counting(trips, begins, x, always, np.int32, (1,))], [x]), [numbers(2, 3)])


def test_loop_without_limit_ends_by_its_condition() -> None:
    x = opset1.parameter([2, 3], F32)
    trips, begins = opset1.constant(np.array(-1, I64)), opset1.constant(np.array(True))
    check(openvino.Model([*counting(trips, begins, x, until_three)], [x]), [numbers(2, 3)])


def test_loop_with_trip_count_and_condition_of_the_run() -> None:
    x, trips, begins = opset1.parameter([2, 3], F32), opset1.parameter([], I64), opset1.parameter([], BOOL)
    model = openvino.Model([counting(trips, begins, x, until_three)[0]], [x, trips, begins])
    feeds: list[Feed] = [
        [numbers(2, 3), np.array(count, I64), np.array(flag)] for count, flag in ((2, True), (9, True), (5, False))
    ]
    check(model, *feeds)


def branches(
    condition: Node, x: Node, then: Callable[[Node], Node], otherwise: Callable[[Node], Node]
) -> openvino.Output:
    first, second = (opset1.parameter(x.get_output_partial_shape(0), F32) for _ in range(2))
    bodies = body([then(first)], [first]), body([otherwise(second)], [second])
    node = opset8.if_op(condition.output(0))
    node.set_then_body(bodies[0])
    node.set_else_body(bodies[1])
    node.set_input(x.output(0), first, second)
    return node.set_output(bodies[0].results[0], bodies[1].results[0])


@pytest.mark.parametrize("shape", [[2, 3], [-1, 3]])
def test_if(shape: list[int]) -> None:
    condition, x = opset1.parameter([], BOOL), opset1.parameter(shape, F32)
    model = openvino.Model([branches(condition, x, opset1.relu, scaled)], [condition, x])
    converted = check(model, *([np.array(flag), numbers(2, 3)] for flag in (True, False)))
    assert [node.op_type for node in converted.model.graph] == ["If"]


def test_if_whose_branches_differ_in_shape_and_pass_their_input_on() -> None:
    condition, x = opset1.parameter([], BOOL), opset1.parameter([2, 3], F32)
    twice = branches(condition, x, lambda y: opset1.concat([y, y], 0), lambda y: y)
    model = openvino.Model([twice], [condition, x])
    check(model, *([np.array(flag), numbers(2, 3)] for flag in (True, False)))


@pytest.mark.parametrize("flag", [True, False])
def test_if_with_a_constant_condition_is_its_branch(flag: bool) -> None:
    x = opset1.parameter([2, 3], F32)
    model = openvino.Model([branches(opset1.constant(np.array(flag)), x, opset1.relu, opset1.negative)], [x])
    converted = check(model, [numbers(2, 3)])
    assert [node.op_type for node in converted.model.graph] == ["Relu" if flag else "Neg"]


def test_if_in_a_loop_in_an_if() -> None:
    condition, x = opset1.parameter([], BOOL), opset1.parameter([2, 4, 3], F32)

    def step(part: Node) -> Node:
        total = opset1.reduce_sum(part, np.array([0, 1, 2]), False)
        return branches(opset1.greater(total, F32(0)), part, opset1.relu, scaled).get_node()

    outer = branches(condition, x, lambda y: iterator(y, [2, 1, 3], step).get_node(), opset1.negative)
    model = openvino.Model([outer], [condition, x])
    check(model, *([np.array(flag), numbers(2, 4, 3)] for flag in (True, False)))


def test_iterator_whose_result_is_a_scalar() -> None:
    x, first = opset1.parameter([4, 3], F32), opset1.parameter([], F32)
    part, total = opset1.parameter([1, 3], F32), opset1.parameter([], F32)
    after = opset1.add(total, opset1.reduce_sum(part, np.array([0, 1]), False))
    inside = body([after], [part, total])
    node = opset1.tensor_iterator()
    node.set_function(inside)
    node.set_sliced_input(part, x.output(0), *FORWARD, 0)
    node.set_merged_input(total, first.output(0), inside.results[0].output(0))
    model = openvino.Model([node.get_iter_value(inside.results[0].output(0), -1)], [x, first])
    check(model, [numbers(4, 3), np.array(2, F32)])


@pytest.mark.parametrize(
    ("pattern", "replacement", "message"),
    [
        (r"<body>.*</body>", "", "element <body> is missing"),
        (r'internal_layer_id="0"', 'internal_layer_id="77"', "internal_layer_id = 77 is no id of a Parameter"),
        (r'internal_layer_id="([1-9])"', 'internal_layer_id="0"', "internal_layer_id = 0 is no id of a Result"),
        (r'external_port_id="0"', 'external_port_id="77"', "layer 1 has no input port 77"),
        (r'external_port_id="0"', 'external_port_id="-1" purpose="fun"', "attribute purpose = 'fun' is unknown"),
        (r'stride="1"', 'stride="fast"', "attribute stride = 'fast' is not an integer"),
        (r'(<input axis="1"[^>]*/>)', r"\1\1", "of the body has 2 sources; allowed: one"),
        (r'<input axis="1"[^>]*/>', "", "of the body has 0 sources; allowed: one"),
        (r"</port_map>", '</port_map><back_edges><edge from-layer="9" to-layer="0"/></back_edges>', "from-layer = 9"),
    ],
)
def test_malformed_bodies_are_refused(tmp_path: pathlib.Path, pattern: str, replacement: str, message: str) -> None:
    x, path = opset1.parameter([2, 6, 3], F32), tmp_path / "model.xml"
    model = openvino.Model([iterator(x, [2, 1, 3], scaled)], [x])
    openvino.save_model(model, path, compress_to_fp16=False)
    text = path.read_text(encoding="utf-8")
    damaged = re.sub(pattern, replacement, text, count=1, flags=re.DOTALL)
    assert damaged != text
    path.write_text(damaged, encoding="utf-8")
    with pytest.raises(ModelFormatError) as caught:
        conversion(path)
    assert message in str(caught.value)


def refusal(model: openvino.Model) -> ConversionError:
    with pytest.raises(ConversionErrors) as caught:
        conversion(model)
    (error,) = caught.value.exceptions
    return error


def test_parts_counted_from_one_side_are_refused() -> None:
    x = opset1.parameter([2, 6, 3], F32)
    error = refusal(openvino.Model([iterator(x, [2, 1, 3], scaled, rule=(1, 1, 1, 4))], [x]))
    assert error.node is not None
    assert error.node.op_type == "TensorIterator"
    assert error.problem.startswith("input 0: start 1 and end 4 are not supported; allowed: one counted from the front")


@pytest.mark.parametrize("shape", [[2, 3], [-1, 3]])
@pytest.mark.parametrize("axis", [0, -2])
def test_axes_of_slices_counted_from_the_end(axis: int, shape: list[int]) -> None:
    """OpenVINO's CPU plugin reads and writes wrong memory there."""
    x = opset1.parameter(shape, F32)
    out = iterator(x, [1, 3], scaled, axis=axis, rule=BACKWARD)
    converted = conversion(openvino.Model([out], [x]))
    data = numbers(2, 3)
    np.testing.assert_array_equal(run_onnx(converted, [[data]])[0][0], data[::-1] * F32(3))
    assert any("axis below zero" in text for text in converted.warnings) == (axis < 0)


def test_parts_of_another_size_than_the_body_gives_are_refused() -> None:
    """OpenVINO's CPU plugin refuses them, dies of them or gives nothing, as it happens."""
    x = opset1.parameter([2, 3], F32)
    trips, begins = opset1.constant(np.array(3, I64)), opset1.constant(np.array(True))
    number, value = opset1.parameter([], I64), opset1.parameter([2, 3], F32)
    inside = body([opset1.constant(np.array(True)), scaled(value)], [number, value])
    node = opset5.loop(trips.output(0), begins.output(0))
    node.set_function(inside)
    node.set_special_body_ports([0, 0])
    node.set_merged_input(value, x.output(0), inside.results[1].output(0))
    error = refusal(openvino.Model([node.get_concatenated_slices(inside.results[1].output(0), 0, 1, 1, -1, 1)], [x]))
    assert isinstance(error, ShapeError)
    assert "parts of 1 along axis 1 are not what the body gives" in str(error)


def test_loop_whose_condition_is_always_false() -> None:
    """OpenVINO declares tensors without elements; of dynamic data it gives the initial value."""
    trips, begins = opset1.constant(np.array(3, I64)), opset1.constant(np.array(False))
    x = opset1.parameter([2, 3], F32)
    converted = check(openvino.Model([counting(trips, begins, x, always)[0]], [x]), [numbers(2, 3)])
    assert len(converted.warnings) == 1
    # The plugin does not run this one.
    ((first, second),) = run_onnx(
        conversion(openvino.Model([*counting(trips, begins, x, always)], [x])), [[numbers(2, 3)]]
    )
    assert (first.shape, second.shape) == ((0, 3), (0,))
    x = opset1.parameter([-1, 3], F32)
    check(openvino.Model([*counting(trips, begins, x, always)], [x]), [numbers(2, 3)])


def test_error_in_a_body_names_the_node_and_its_place() -> None:
    x = opset1.parameter([2, 6, 3], F32)

    def step(part: Node) -> Node:
        bytes_ = opset6.mvn(opset1.convert(part, "i8"), np.array([1]), True, 0.5, "inside_sqrt")
        return opset1.add(part, opset1.convert(bytes_, "f32"))

    error = refusal(openvino.Model([iterator(x, [2, 1, 3], step)], [x]))
    assert error.node is not None
    assert error.node.op_type == "MVN"
    assert error.node.id.count("/") == 1


def test_states_that_change_their_type_are_refused() -> None:
    x = opset1.parameter([2, 3], F32)
    trips, begins = opset1.constant(np.array(2, I64)), opset1.constant(np.array(True))
    value = opset1.parameter([2, 3], F32)
    inside = body([opset1.constant(np.array(True)), opset1.convert(value, "i32")], [value])
    node = opset5.loop(trips.output(0), begins.output(0))
    node.set_function(inside)
    node.set_special_body_ports([-1, 0])
    node.set_merged_input(value, x.output(0), inside.results[1].output(0))
    error = refusal(openvino.Model([node.get_iter_value(inside.results[1].output(0), -1)], [x]))
    assert error.node is not None
    assert error.node.op_type == "Loop"
    assert "is f32 first and i32 from" in error.problem


def test_bodies_that_are_given_float16_compute_in_float32() -> None:
    x = opset1.parameter([2, 6, 3], np.float16)
    check(openvino.Model([iterator(x, [2, 1, 3], scaled)], [x]), [numbers(2, 6, 3, dtype=np.float16)])


def test_bodies_that_are_given_another_type_are_refused() -> None:
    x = opset1.parameter([2, 6, 3], np.float64)
    error = refusal(openvino.Model([iterator(x, [2, 1, 3], scaled)], [x]))
    assert error.node is not None
    assert error.node.op_type == "TensorIterator"
    assert "is f32, and is given f64" in error.problem

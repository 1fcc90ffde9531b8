"""ReadValue and Assign become inputs and outputs, and the numbers are those of OpenVINO's states."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import ml_dtypes
import numpy as np
import openvino
import pytest
from openvino import opset1, opset3, opset6, opset8, opset13

import ortconv
from ortconv.api import conversion
from ortconv.errors import ConversionErrors, ModelFormatError
from ortconv.verification import declared_inputs
from tests.converters.openvino.conftest import IrWriter
from tests.converters.openvino.live import numbers
from tests.converters.openvino.patterns.test_grouped_query_attention import decoder as masked_decoder

F32 = np.float32


def accumulating(version: int, shape: list[int]) -> openvino.Model:
    """y = tanh(state + x); the state becomes 2 y."""
    x = opset1.parameter(shape, F32)
    first = opset1.multiply(x, F32(0))
    read = (
        opset3.read_value(first, "memory")
        if version == 3
        else opset6.read_value(first, "memory", openvino.Type.f32, shape)
    )
    y = opset1.tanh(opset1.add(read, x))
    after = opset1.multiply(y, F32(2))
    write = opset3.assign(after, "memory") if version == 3 else opset6.assign(after, "memory")
    return openvino.Model([opset1.result(y)], [write], [x], "accumulating")


@pytest.mark.parametrize("shape", [[2, 3], [-1, 3]])
@pytest.mark.parametrize("version", [3, 6])
def test_calls_in_a_row(version: int, shape: list[int]) -> None:
    model = accumulating(version, shape)
    converted = conversion(model).to_proto()
    assert [each.name for each in converted.graph.input][1:] == ["memory"]
    assert [each.name for each in converted.graph.output][1:] == ["memory.next"]
    properties = {entry.key: entry.value for entry in converted.metadata_props}
    assert json.loads(properties["ortconv.states"]) == [
        {"variable": "memory", "input": "memory", "output": "memory.next"}
    ]
    request = openvino.Core().compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    session = ortconv.InferenceSession(converted, backend="none")
    state = np.zeros((2, 3), F32)
    for step in range(3):
        x = numbers(2, 3, seed=step)
        request.infer([x])
        name = session.get_inputs()[0].name
        y, state = session.run(None, {name: x, "memory": state})
        np.testing.assert_allclose(y, request.get_output_tensor(0).data, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(state, request.query_state()[0].state.data, rtol=1e-6, atol=1e-6)


def test_what_computes_the_first_value_is_left_out() -> None:
    converted = conversion(accumulating(6, [2, 3]))
    assert sorted(node.op_type for node in converted.model.graph) == ["Add", "Mul", "Tanh"]


@pytest.mark.parametrize("layers", [False, True])
def test_verify_compares_outputs_and_new_states(tmp_path: pathlib.Path, layers: bool) -> None:
    openvino.save_model(accumulating(6, [2, 3]), tmp_path / "model.xml")
    found = ortconv.verify(tmp_path / "model.xml", layers=layers)
    (outputs,) = found.outputs.values()
    assert [each.name for each in outputs][1:] == ["memory.next"]
    assert found.agrees
    assert not found.first
    assert not layers or found.first_difference is None
    np.testing.assert_array_equal(found.feeds["memory"].shape, (2, 3))


def test_state_that_nothing_reads_is_refused(write_ir: IrWriter) -> None:
    parameter = write_ir.layer(
        0, "Parameter", data='shape="2" element_type="f32"', outputs=[(0, 'precision="FP32"', "2")]
    )
    port = (0, 'precision="FP32"', "2")
    assign = write_ir.layer(1, "Assign", opset="opset6", data='variable_id="lost"', inputs=[port])
    result = write_ir.layer(2, "Result", inputs=[port])
    edges = [write_ir.edge(0, 0, 1, 0), write_ir.edge(0, 0, 2, 0)]
    with pytest.raises(ModelFormatError, match="no ReadValue reads variable_id = 'lost'"):
        conversion(write_ir([parameter, assign, result], edges, b""))


def beginning(first: str) -> openvino.Model:
    """y = state + x, and the state becomes y; what it is at first is up to the caller."""
    x = opset1.parameter([2, 3], F32, name="x")
    value = {
        "zeros": lambda: opset1.constant(np.zeros((2, 3), F32)),
        "spread zeros": lambda: opset1.broadcast(opset1.reshape(opset1.constant(F32([0])), [1, 1], False), [2, 3]),
        "ones": lambda: opset1.constant(np.ones((2, 3), F32), name="ones"),
        "computed": lambda: opset1.exp(x, name="grown"),
        "moved": lambda: opset1.transpose(opset1.reshape(opset1.exp(x, name="grown"), [3, 2], False), [1, 0]),
    }[first]()
    y = opset1.add(opset6.read_value(value, "memory", openvino.Type.f32, [2, 3]), x)
    return openvino.Model([opset1.result(y)], [opset6.assign(y, "memory")], [x])


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("zeros", None),
        ("spread zeros", None),
        (
            "ones",
            r"the first value of variable 'memory' is layer \d+ 'ones' \(Const\), not zero, and is for the caller",
        ),
        (
            "computed",
            r"the first value of variable 'memory' comes from layer \d+ 'grown' \(Exp\), and is for the caller",
        ),
        ("moved", r"the first value of variable 'memory' comes from layer \d+ 'grown' \(Exp\), and is for the caller"),
    ],
)
def test_a_first_value_that_is_not_zero_is_told(first: str, said: str | None) -> None:
    warnings = conversion(beginning(first)).warnings
    if said is None:
        assert not warnings
    else:
        (warning,) = warnings
        assert re.search(said, warning)


def test_a_first_value_in_a_circle_is_refused(write_ir: IrWriter) -> None:
    port = (0, 'precision="FP32"', "2")
    convert = write_ir.layer(0, "Convert", data='destination_type="f32"', inputs=[port], outputs=[port])
    read = write_ir.layer(
        1,
        "ReadValue",
        opset="opset6",
        data='variable_id="memory" variable_type="f32" variable_shape="2"',
        inputs=[port],
        outputs=[port],
    )
    result = write_ir.layer(2, "Result", inputs=[port])
    edges = [write_ir.edge(0, 0, 0, 0), write_ir.edge(0, 0, 1, 0), write_ir.edge(1, 0, 2, 0)]
    with pytest.raises(ModelFormatError, match="circle"):
        conversion(write_ir([convert, read, result], edges, b""))


@pytest.mark.parametrize("dtype", ["int64", "float64"])
def test_a_state_of_64_bits_is_warned_about(dtype: str) -> None:
    """OpenVINO's CPU plugin gives other numbers on every run, or crashes."""
    x = opset1.parameter([2], np.dtype(dtype))
    y = opset1.add(opset6.read_value(np.zeros(2, dtype), "memory", openvino.Type(np.dtype(dtype)), [2]), x)
    converted = conversion(openvino.Model([opset1.result(y)], [opset6.assign(y, "memory")], [x], "wide"))
    (warning,) = converted.warnings
    assert "a state of 64-bit numbers" in warning
    session = ortconv.InferenceSession(converted.to_proto(), backend="none")
    name = session.get_inputs()[0].name
    first, after = session.run(None, {name: np.array([1, 2], dtype), "memory": np.array([3, 4], dtype)})
    np.testing.assert_array_equal(first, np.array([4, 6], dtype))
    np.testing.assert_array_equal(after, np.array([4, 6], dtype))


def decoder(*, reordered: bool) -> openvino.Model:
    """Attention whose keys and values are appended to states, which an index may reorder by batch."""
    shape = [-1, 2, -1, 4]
    x, order = opset1.parameter(shape, F32), opset1.parameter([-1], np.int32)
    past = [
        opset6.read_value(np.zeros((1, 2, 0, 4), F32), name, openvino.Type.f32, shape) for name in ("keys", "values")
    ]
    moved = [opset8.gather(each, order, np.array(0)) if reordered else each for each in past]
    whole = [opset1.concat([each, opset1.multiply(x, F32(k + 1))], 2) for k, each in enumerate(moved)]
    writes = [opset6.assign(each, name) for each, name in zip(whole, ("keys", "values"), strict=True)]
    repeated = [
        opset1.reshape(opset1.tile(each, np.array([1, 2, 1, 1])), np.array([0, 4, -1, 4]), True) for each in whole
    ]
    query = opset1.concat([x, x], 1)
    y = opset13.scaled_dot_product_attention(query, *repeated)
    return openvino.Model([opset1.result(y)], writes, [x, order] if reordered else [x], "decoder")


def test_a_cache_that_openvino_keeps_in_8_bits_is_told() -> None:
    (warning,) = [each for each in conversion(decoder(reordered=True)).warnings if "8 bits" in each]
    assert "KV_CACHE_PRECISION" in warning
    assert not [each for each in conversion(decoder(reordered=False)).warnings if "8 bits" in each]


@pytest.mark.parametrize("reordered", [False, True])
def test_a_cache_of_full_precision(reordered: bool) -> None:
    model = decoder(reordered=reordered)
    converted = conversion(model).to_proto()
    properties = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}
    request = openvino.Core().compile_model(model, "CPU", properties).create_infer_request()
    session = ortconv.InferenceSession(converted, backend="none")
    states = {name: np.zeros((1, 2, 0, 4), F32) for name in ("keys", "values")}
    for step, count in enumerate((3, 1, 1)):
        feed = [numbers(1, 2, count, 4, seed=step), *([np.zeros(1, np.int32)] * reordered)]
        request.infer(feed)
        names = [each.name for each in session.get_inputs()[: len(feed)]]
        y, *after = session.run(None, dict(zip(names, feed, strict=True)) | states)
        states = {
            each.name.removesuffix(".next"): value for each, value in zip(session.get_outputs()[1:], after, strict=True)
        }
        np.testing.assert_allclose(y, request.get_output_tensor(0).data, rtol=1e-5, atol=1e-5)


def test_verify_begins_with_the_first_value_of_a_state_of_open_sizes(tmp_path: pathlib.Path) -> None:
    openvino.save_model(masked_decoder(openvino.Type.f32), tmp_path / "model.xml")
    shapes = dict.fromkeys("qkv", (2, 2, 4, 8))
    data = {"beams": np.array([1, 0], np.int32)}
    found = ortconv.verify(tmp_path / "model.xml", shapes={**shapes, "mask": (2, 1, 4, 4)}, data=data)
    assert found.agrees
    assert found.first == {"keys", "values"}
    assert found.feeds["keys"].shape == found.feeds["values"].shape == (2, 2, 0, 8)
    cached = dict.fromkeys(("keys", "values"), (2, 2, 3, 8))
    given = ortconv.verify(tmp_path / "model.xml", shapes={**shapes, **cached, "mask": (2, 1, 4, 7)}, data=data)
    assert given.agrees
    assert not given.first
    assert given.feeds["keys"].any()


def test_a_first_value_that_is_computed_is_what_verify_begins_with(tmp_path: pathlib.Path) -> None:
    x = opset1.parameter([-1, 3], F32, name="x")
    read = opset6.read_value(opset1.exp(x), "memory", openvino.Type.f32, openvino.PartialShape([-1, 3]))
    y = opset1.add(read, x)
    openvino.save_model(openvino.Model([opset1.result(y)], [opset6.assign(y, "memory")], [x]), tmp_path / "model.xml")
    found = ortconv.verify(tmp_path / "model.xml", shapes={"x": (2, 3)})
    assert found.agrees
    np.testing.assert_allclose(found.feeds["memory"], np.exp(found.feeds["x"]), rtol=1e-6)


def test_a_state_of_open_sizes_that_has_no_first_value(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "model.xml"
    openvino.save_model(accumulating(6, [-1, 3]), path)
    text = path.read_text()
    (read,) = re.findall(r'<layer id="\d+" name="[^"]*" type="ReadValue".*?</layer>', text, re.DOTALL)
    text = text.replace(read, re.sub(r"<input>.*?</input>", "", read, flags=re.DOTALL))
    number = read.split('"')[1]
    path.write_text(re.sub(rf'<edge [^>]*to-layer="{number}"[^>]*/>', "", text))
    name = declared_inputs(path)[0].name
    found = ortconv.verify(path, shapes={name: (2, 3)})
    assert found.agrees
    assert (found.chosen, found.first) == ({"memory": (2, 3)}, frozenset())
    assert ortconv.verify(path, shapes={name: (2, 3), "memory": (2, 3)}).agrees


def test_all_open_shapes_get_sizes_with_which_source_and_model_run(tmp_path: pathlib.Path) -> None:
    left, right = (opset1.parameter(shape, F32, name=name) for name, shape in (("left", [-1, 3]), ("right", [-1, -1])))
    filters = opset1.constant(np.ones((1, 1, 2, 3), F32))
    image = opset1.reshape(opset1.add(left, right), np.array([1, 1, -1, 3]), False)
    convolved = opset1.convolution(image, filters, [1, 1], [0, 0], [0, 0], [1, 1])
    openvino.save_model(openvino.Model([convolved], [left, right]), tmp_path / "model.xml")
    found = ortconv.verify(tmp_path / "model.xml")
    assert found.agrees
    assert found.chosen == {"left": (3, 3), "right": (3, 3)}
    free = opset1.parameter(openvino.PartialShape.dynamic(), F32, name="free")
    openvino.save_model(openvino.Model([opset1.relu(free)], [free]), tmp_path / "free.xml")
    with pytest.raises(ConversionErrors):
        ortconv.verify(tmp_path / "free.xml")


def translating() -> openvino.Model:
    """Attends to keys that are made of an encoder's output in the first call, and are a state from then on."""
    encoded = opset1.parameter([-1, -1, 4], F32, name="encoded")
    x = opset1.parameter([-1, -1, 4], F32, name="x")
    beams = opset1.parameter([-1], np.int32, name="beams")
    keys = opset1.add(opset1.matmul(encoded, numbers(4, 4), False, True), encoded)
    read = opset6.read_value(keys, "keys", openvino.Type.f32, openvino.PartialShape([-1, -1, 4]))
    chosen = opset8.gather(read, beams, np.int64(0))
    y = opset1.matmul(opset1.add(x, opset1.reduce_mean(encoded, np.array([1]), True)), chosen, False, True)
    return openvino.Model([opset1.result(y)], [opset6.assign(chosen, "keys")], [encoded, x, beams])


def test_a_state_without_elements_is_the_first_value(tmp_path: pathlib.Path) -> None:
    source = translating()
    converted = conversion(source)
    assert not converted.warnings
    model = converted.to_proto()
    (choice,) = (node for node in model.graph.node if node.op_type == "If")
    inside = {attribute.name: [node.op_type for node in attribute.g.node] for attribute in choice.attribute}
    assert inside == {"then_branch": ["MatMul", "Add", "Identity"], "else_branch": ["Identity"]}
    request = openvino.Core().compile_model(source, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    session = ortconv.InferenceSession(model, backend="none")
    state = np.zeros((2, 0, 4), F32)
    for call, beams in enumerate(([0, 1], [1, 0], [1, 1])):
        feed = {"encoded": numbers(2, 5, 4, seed=call), "x": numbers(2, 1, 4, seed=call + 9)}
        feed["beams"] = np.array(beams, np.int32)
        request.infer(feed)
        y, state = session.run(None, feed | {"keys": state})
        np.testing.assert_allclose(y, request.get_output_tensor(0).data, rtol=1e-5, atol=1e-5)
        np.testing.assert_allclose(state, request.query_state()[0].state.data, rtol=1e-6, atol=1e-6)
    openvino.save_model(source, tmp_path / "model.xml")
    shapes = {"encoded": (2, 5, 4), "x": (2, 1, 4)}
    found = ortconv.verify(tmp_path / "model.xml", shapes=shapes, data={"beams": np.array([1, 1], np.int32)})
    assert found.agrees
    assert found.feeds["keys"].shape == (2, 5, 4)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "i32", "u8", "boolean"])
def test_a_first_value_of_other_types(dtype: str) -> None:
    x = opset1.parameter([-1, 3], F32, name="x")
    first = opset1.convert(opset1.abs(opset1.multiply(x, F32(9))), dtype)
    read = opset6.read_value(first, "memory", getattr(openvino.Type, dtype), openvino.PartialShape([-1, 3]))
    source = openvino.Model([opset1.result(opset1.convert(read, "f32"))], [opset6.assign(read, "memory")], [x])
    request = openvino.Core().compile_model(source, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    session = ortconv.InferenceSession(conversion(source).to_proto(), backend="none")
    held = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "i32": np.int32, "u8": np.uint8, "boolean": np.bool_}[dtype]
    state: Any = np.zeros((0, 3), held)
    for call in range(2):
        feed = numbers(2, 3, seed=call)
        request.infer([feed])
        y, state = session.run(None, {"x": feed, "memory": state})
        np.testing.assert_array_equal(y, request.get_output_tensor(0).data)


def test_a_state_that_two_layers_read_has_no_first_value_of_its_own() -> None:
    """OpenVINO's CPU plugin does not run it: which of two first values would be the one?"""
    x = opset1.parameter([-1, 3], F32, name="x")
    shape = openvino.PartialShape([-1, 3])
    reads = [opset6.read_value(op(x), "memory", openvino.Type.f32, shape) for op in (opset1.exp, opset1.sin)]
    y = opset1.add(opset1.multiply(reads[0], x), reads[1])
    converted = conversion(openvino.Model([opset1.result(y)], [opset6.assign(y, "memory")], [x]))
    (warning,) = converted.warnings
    assert "is for the caller to feed" in warning
    session = ortconv.InferenceSession(converted.to_proto(), backend="none")
    feed, state = numbers(2, 3), numbers(2, 3, seed=1)
    np.testing.assert_allclose(session.run(None, {"x": feed, "memory": state})[0], state * feed + state, rtol=1e-6)


def encoding(kind: str) -> openvino.Model:
    """Two states whose first values are computed from what something else reads, too."""
    x = opset1.parameter([-1, 3], F32, name="x")
    shape = openvino.PartialShape([-1, 3])
    common = opset1.exp(x)
    if kind == "in a body":
        inner = opset1.parameter([-1, 3], F32)
        other = opset1.parameter([-1, 3], F32)
        bodies = [openvino.Model([op(value)], [value]) for op, value in ((opset1.sin, inner), (opset1.cos, other))]
        is_large = opset1.greater(opset1.reduce_sum(x, np.array([0, 1]), False), F32(0))
        branch = opset8.if_op(is_large.output(0))
        branch.set_then_body(bodies[0])
        branch.set_else_body(bodies[1])
        branch.set_input(common.output(0), inner, other)
        first = branch.set_output(bodies[0].results[0], bodies[1].results[0])
    else:
        first = opset1.tanh(common).output(0)
    second = opset1.sqrt(common) if kind == "another state" else opset1.abs(x)
    reads = [opset6.read_value(each, name, openvino.Type.f32, shape) for each, name in ((first, "a"), (second, "b"))]
    results = [opset1.add(opset1.multiply(reads[0], reads[1]), x)]
    results += [common] if kind == "an output" else []
    results += [opset1.relu(common)] if kind == "another node" else []
    writes = [opset6.assign(opset1.multiply(read, x), name) for read, name in zip(reads, "ab", strict=True)]
    return openvino.Model([opset1.result(each) for each in results], writes, [x])


@pytest.mark.parametrize("kind", ["alone", "an output", "another node", "another state", "in a body"])
def test_what_computes_a_first_value_moves_only_if_nothing_else_needs_it(kind: str) -> None:
    source = encoding(kind)
    model = conversion(source).to_proto()
    assert ("Exp" in [node.op_type for node in model.graph.node]) == (kind not in ("alone", "in a body"))
    request = openvino.Core().compile_model(source, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    session = ortconv.InferenceSession(model, backend="none")
    states = dict.fromkeys("ab", np.zeros((0, 3), F32))
    names = [each.name for each in session.get_outputs()]
    for call in range(3):
        feed = numbers(2, 3, seed=call)
        request.infer([feed])
        found = dict(zip(names, session.run(None, {"x": feed} | states), strict=True))
        for index in range(len(source.outputs)):
            theirs = request.get_output_tensor(index).data
            np.testing.assert_allclose(found[names[index]], theirs, rtol=1e-5, atol=1e-6)
        states = {name: found[f"{name}.next"] for name in "ab"}

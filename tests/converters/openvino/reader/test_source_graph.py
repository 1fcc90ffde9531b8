"""The reader against files that OpenVINO writes, with OpenVINO's own reading of them as the oracle."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from ortconv.converters.openvino import FRONTEND
from ortconv.converters.openvino.lib.element_types import DTYPES
from ortconv.converters.openvino.reader.source_graph import NAMES_KEY, SHAPE_KEY
from ortconv.converters.openvino.reader.tensor_names import split_names
from ortconv.frontend.source_graph import SourceGraph, SourceValue
from ortconv.options import Options

ov = pytest.importorskip("openvino", reason="the oracle is OpenVINO itself")
op = pytest.importorskip("openvino.opset15", reason="the oracle is OpenVINO itself")


def save(model: Any, folder: pathlib.Path) -> pathlib.Path:
    path = folder / "model.xml"
    ov.save_model(model, path, compress_to_fp16=False)
    return path


def all_names(value: SourceValue) -> set[str]:
    return {value.name, *split_names(value.metadata.get(NAMES_KEY, ""))}


def dims(partial_shape: Any) -> tuple[int | None, ...] | None:
    if partial_shape.rank.is_dynamic:
        return None
    return tuple(None if dim.is_dynamic else dim.get_length() for dim in partial_shape)


def dtype(element_type: Any) -> ir.DataType:
    return DTYPES[element_type.get_type_name()]


def mixed_network() -> Any:
    """Duplicate friendly names, several outputs of one op, aliases, intervals, dynamic rank, a constant output."""
    image = op.parameter([-1, 3, ov.Dimension(10, 20)], np.float16, name="image")
    image.output(0).set_names({"pic,ture", "zz"})
    other = op.parameter([3, 1], np.float16, name="other")
    free = op.parameter(ov.PartialShape.dynamic(), np.int32, name="free")
    total = op.add(image, op.constant(np.arange(3, dtype=np.float16).reshape(3, 1), name="same"), name="same")
    total.output(0).set_names({"total", "alias"})
    swapped = op.subtract(other, total, name="same")
    split = op.split(op.constant(np.arange(6, dtype=np.float32).reshape(2, 3)), op.constant(np.int64(0)), 2, name="two")
    count = op.gather(op.shape_of(image), op.constant(np.int64(0)), op.constant(np.int64(0)), name="count")
    results = [
        op.result(swapped),
        op.result(split.output(1)),
        op.result(total),
        op.result(op.convert(free, "f32")),
        op.result(op.constant(np.array([True, False, True]))),
        op.result(count),
        op.result(other),
        op.result(total),
    ]
    return ov.Model(results, [other, free, image], "mixed")


def unet_decoder() -> Any:
    """A deconvolution whose spatial size is computed at run time."""
    low = op.parameter([-1, 4, -1, -1], np.float32, name="low")
    skip = op.parameter([-1, 2, -1, -1], np.float32, name="skip")
    size = op.slice(op.shape_of(skip, output_type="i64"), *(op.constant(np.array([v], np.int64)) for v in (2, 4, 1, 0)))
    up = op.convolution_backprop_data(
        low, op.constant(np.ones((4, 2, 2, 2), np.float32)), [2, 2], size, [0, 0], [0, 0], [1, 1], "same_upper", [0, 0]
    )
    return ov.Model([op.result(op.concat([op.relu(up), skip], 1), name="merged")], [low, skip], "decoder")


STATED = Options(io="source", compute="f16")
"""Asks for the types that a file states."""

NETWORKS: list[Callable[[], Any]] = [mixed_network, unet_decoder]


@pytest.mark.parametrize("network", NETWORKS)
def test_inputs_and_outputs_equal_what_openvino_reports(network: Callable[[], Any], tmp_path: pathlib.Path) -> None:
    path = save(network(), tmp_path)
    expected = ov.Core().read_model(path)
    graph = FRONTEND.read(path, {}, STATED)
    assert graph.path == str(path)
    assert graph.format == "openvino"
    assert graph.name == expected.get_friendly_name()
    assert len(graph.inputs) == len(expected.inputs)
    for value, port in zip(graph.inputs, expected.inputs, strict=True):
        assert value.name == port.any_name
        assert all_names(value) == port.names
        assert value.dtype == dtype(port.element_type)
        assert value.shape == dims(port.partial_shape)
    assert len(graph.outputs) == len(expected.outputs)
    seen = {value.name for value in graph.inputs}
    for output, port in zip(graph.outputs, expected.outputs, strict=True):
        repeated = port.any_name in seen
        assert output.name == (f"{port.any_name}_2" if repeated else port.any_name)
        assert output.value.dtype == dtype(port.element_type)
        assert output.value.shape == dims(port.partial_shape)
        seen.add(output.name)


@pytest.mark.parametrize("network", NETWORKS)
def test_nodes_equal_what_openvino_reports(network: Callable[[], Any], tmp_path: pathlib.Path) -> None:
    path = save(network(), tmp_path)
    expected = [
        node
        for node in ov.Core().read_model(path).get_ordered_ops()
        if node.get_type_name() not in ("Parameter", "Constant", "Result")
    ]
    graph = FRONTEND.read(path, {}, STATED)
    spelled = {"Relu": "ReLU"}

    def key(name: str, kind: str, outputs: list[Any]) -> tuple[Any, ...]:
        return name, kind, tuple(outputs)

    assert sorted(
        key(
            node.get_friendly_name(),
            spelled.get(node.get_type_name(), node.get_type_name()),
            [(dtype(port.element_type).name, str(dims(port.partial_shape))) for port in node.outputs()],
        )
        for node in expected
    ) == sorted(
        key(node.ref.name, node.ref.op_type, [(out.dtype.name, str(out.shape)) for out in node.outputs])
        for node in graph.nodes
    )


def test_wires_follow_ids_where_names_collide(tmp_path: pathlib.Path) -> None:
    graph = FRONTEND.read(save(mixed_network(), tmp_path), {}, STATED)
    nodes = {node.ref.op_type: node for node in graph.nodes}
    image, other = graph.inputs[2], graph.inputs[0]
    assert (image.name, other.name) == ("pic,ture", "other")
    added = nodes["Add"].inputs
    assert added[0] is image
    assert added[1] is not None
    assert added[1].constant is not None
    np.testing.assert_array_equal(added[1].constant.numpy(), np.arange(3, dtype=np.float16).reshape(3, 1))
    assert nodes["Subtract"].inputs == (other, nodes["Add"].outputs[0])
    assert nodes["Split"].outputs[1] is graph.outputs[1].value
    assert [node.ref.name for node in graph.nodes].count("same") == 2
    names = [value.name for node in graph.nodes for value in node.outputs]
    assert len(set(names)) == len(names)


def test_names_aliases_and_intervals_are_kept(tmp_path: pathlib.Path) -> None:
    graph = FRONTEND.read(save(mixed_network(), tmp_path), {}, STATED)
    image = graph.inputs[2]
    assert image.metadata == {NAMES_KEY: "zz", SHAPE_KEY: "?,3,10..20"}
    assert graph.inputs[1].metadata[SHAPE_KEY] == "..."
    assert graph.outputs[2].name == graph.outputs[2].value.name == "alias"
    assert graph.outputs[2].value.metadata[NAMES_KEY] == "total"
    assert (graph.outputs[7].name, graph.outputs[7].value) == ("alias_2", graph.outputs[2].value)
    assert (graph.outputs[6].name, graph.outputs[6].value) == ("other_2", graph.inputs[0])


@pytest.mark.parametrize(
    ("friendly", "names", "chosen"),
    [
        ("px", {"44", "input.1", "px"}, "px"),
        ("px", set(), "px"),
        ("px", {"image:0"}, "image:0"),
        ("Parameter_1", {"44", "input.1"}, "input.1"),
        ("Parameter_1", {"9", "44"}, "44"),
    ],
)
def test_an_input_has_the_name_that_its_user_knows(
    friendly: str, names: set[str], chosen: str, tmp_path: pathlib.Path
) -> None:
    image = op.parameter([1, 3], np.float32, name=friendly)
    image.output(0).set_names(names)
    total = op.relu(image)
    total.output(0).set_names({"55", "scores"})
    graph = FRONTEND.read(save(ov.Model([op.result(total)], [image], "net"), tmp_path), {}, STATED)
    assert graph.inputs[0].name == chosen
    assert all_names(graph.inputs[0]) == names | {chosen}
    assert graph.outputs[0].name == "scores"


def test_scalar_and_dynamic_rank_are_told_apart(tmp_path: pathlib.Path) -> None:
    graph = FRONTEND.read(save(mixed_network(), tmp_path), {}, STATED)
    shapes = {node.ref.op_type: node.outputs[0].shape for node in graph.nodes}
    assert shapes["Convert"] is None
    assert shapes["Gather"] == ()


def test_rank_that_follows_from_data_is_unknown(tmp_path: pathlib.Path) -> None:
    data = op.parameter([-1], np.float32, name="data")
    pattern = op.parameter([-1], np.int64, name="pattern")
    step = op.parameter([], np.float32, name="step")
    axis = op.parameter([], np.int64, name="axis")
    squeezed, reshaped = op.squeeze(data), op.reshape(data, pattern, False)
    moved = (op.squeeze(data, axis), op.unsqueeze(data, axis))
    results = [op.result(x) for x in (squeezed, reshaped, op.relu(reshaped), *moved, op.multiply(step, step))]
    graph = FRONTEND.read(save(ov.Model(results, [data, pattern, step, axis], "m"), tmp_path), {}, STATED)
    assert [output.value.shape for output in graph.outputs] == [None, None, None, None, None, ()]


CONSTANTS = [
    ("f64", [0.1, -2.0, 1e300]),
    ("f32", [1.5, -2.0, 3.25]),
    ("f16", [1.5, -2.0, 65504.0]),
    ("bf16", [1.5, -2.0, 3.0]),
    ("f8e4m3", [1.5, -2.0, 448.0]),
    ("f8e5m2", [1.5, -2.0, 57344.0]),
    ("i64", [1, -2, 2**62]),
    ("i32", [1, -2, 2**31 - 1]),
    ("i16", [1, -2, 32767]),
    ("i8", [1, -2, 127]),
    ("i4", [1, -2, 7]),
    ("u64", [1, 2, 2**62]),
    ("u32", [1, 2, 2**32 - 1]),
    ("u16", [1, 2, 65535]),
    ("u8", [1, 2, 255]),
    ("u4", [1, 2, 15]),
    ("u1", [1, 0, 1, 0, 0, 0, 0, 0, 1, 1]),
    ("boolean", [1, 0, 1]),
]


@pytest.mark.parametrize(("kind", "values"), CONSTANTS, ids=[kind for kind, _ in CONSTANTS])
def test_constants_of_every_type_keep_their_values(kind: str, values: list[float], tmp_path: pathlib.Path) -> None:
    odd = op.constant(np.array([7], np.uint8), name="shifts the offset")
    if kind == "f64":  # the other constructor goes through float32
        constant = ov.op.Constant(np.array([values]))
    else:
        constant = ov.op.Constant(getattr(ov.Type, kind), ov.Shape([1, len(values)]), values)
    model = ov.Model([op.result(odd), op.result(constant)], [], "constants")
    graph = FRONTEND.read(save(model, tmp_path), {}, STATED)
    value = graph.outputs[1].value
    assert value.dtype == DTYPES[kind]
    assert value.shape == (1, len(values))
    assert value.constant is not None
    assert value.constant.dtype == value.dtype
    assert value.constant.shape.numpy() == (1, len(values))
    exact = object if kind in ("i64", "u64") else np.float64
    assert value.constant.numpy().astype(exact).tolist() == [values]
    onnx_copy = ir.from_proto(ir.to_proto(value.constant))
    assert isinstance(onnx_copy, ir.TensorProtocol)
    assert onnx_copy.numpy().astype(exact).tolist() == [values]


def test_constant_without_elements(tmp_path: pathlib.Path) -> None:
    empty = ov.op.Constant(np.zeros((0, 4), np.float32))
    graph = FRONTEND.read(save(ov.Model([op.result(empty)], [], "m"), tmp_path), {}, STATED)
    constant = graph.outputs[0].value.constant
    assert constant is not None
    assert constant.numpy().shape == (0, 4)


def test_compressed_weights_stay_compressed(tmp_path: pathlib.Path) -> None:
    data = op.parameter([1, 8], np.float32, name="data")
    weights = op.convert(ov.op.Constant(ov.Type.u4, ov.Shape([8, 2]), list(range(16))), "f32")
    shifted = op.multiply(op.subtract(weights, op.constant(np.float32(8))), op.constant(np.float32(0.5)))
    model = ov.Model([op.result(op.matmul(data, shifted, False, False))], [data], "int4")
    graph = FRONTEND.read(save(model, tmp_path), {}, STATED)
    (source,) = (node.inputs[0] for node in graph.nodes if node.ref.op_type == "Convert")
    assert source is not None
    assert source.dtype == ir.DataType.UINT4
    assert isinstance(source.constant, ir.PackedTensor)
    assert source.constant.nbytes == 8


def test_float16_compression_is_read_as_written(tmp_path: pathlib.Path) -> None:
    data = op.parameter([2, 2], np.float32, name="data")
    model = ov.Model([op.result(op.add(data, op.constant(np.full((2, 2), 0.5, np.float32))))], [data], "half")
    path = tmp_path / "model.xml"
    ov.save_model(model, path, compress_to_fp16=True)
    graph = FRONTEND.read(path, {}, STATED)
    convert, _ = graph.nodes
    assert convert.ref.op_type == "Convert"
    assert convert.attributes == {"destination_type": "f32"}
    assert convert.inputs[0] is not None
    assert convert.inputs[0].dtype == ir.DataType.FLOAT16


def test_compressed_constant_that_is_a_result_has_its_own_type(tmp_path: pathlib.Path) -> None:
    """OpenVINO states float16 at the port of the Convert to float32, and reads float32."""
    path = tmp_path / "model.xml"
    model = ov.Model([op.result(op.constant(np.full((2, 2), 0.5, np.float32)))], [], "half")
    ov.save_model(model, path, compress_to_fp16=True)
    assert 'precision="FP16"' in path.read_text().split('type="Convert"')[1].split("<output>")[1]
    (output,) = FRONTEND.read(path, {}, STATED).outputs
    (expected,) = ov.Core().read_model(path).outputs
    assert output.value.dtype == DTYPES[expected.element_type.to_string()] == ir.DataType.FLOAT


def test_bodies_and_states_are_kept_as_nodes(tmp_path: pathlib.Path) -> None:
    data = op.parameter([2, 3], np.float32, name="data")
    inner = op.parameter([1, 3], np.float32)
    body = ov.Model([op.relu(inner)], [inner], "body")
    loop = op.tensor_iterator()
    loop.set_body(body)
    loop.set_sliced_input(inner, data.output(0), 0, 1, 1, -1, 0)
    rows = loop.get_concatenated_slices(body.results[0].output(0), 0, 1, 1, -1, 0)
    state = op.read_value(data, "state")
    model = ov.Model([op.result(rows)], [op.assign(op.relu(state), "state")], [data], "stateful")
    graph = FRONTEND.read(save(model, tmp_path), {}, STATED)
    assert [node.ref.op_type for node in graph.nodes] == ["ReadValue", "ReLU", "TensorIterator", "Assign"]
    assert [value.name for value in graph.inputs] == ["data", "state"]
    assert [output.name for output in graph.outputs][1:] == ["state.next"]
    assert [node.version for node in graph.nodes] == [6, 1, 1, 6]


def summary(graph: SourceGraph) -> list[Any]:
    nodes = [
        (
            node.ref.op_type,
            node.ref.name,
            [
                value and (value.name, value.shape, value.constant and value.constant.numpy().tolist())
                for value in node.inputs
            ],
            [(value.name, value.dtype, value.shape, dict(value.metadata)) for value in node.outputs],
            dict(node.attributes),
        )
        for node in graph.nodes
    ]
    return [nodes, [(value.name, value.shape) for value in graph.inputs], [output.name for output in graph.outputs]]


@pytest.mark.parametrize("network", NETWORKS)
def test_model_object_equals_its_file(
    network: Callable[[], Any], tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = network()
    from_file = FRONTEND.read(save(model, tmp_path), {}, STATED)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(scratch))
    assert FRONTEND.detect(model)
    from_object = FRONTEND.read(model, {}, STATED)
    assert from_object.path == f"<Model {model.get_friendly_name()}>"
    assert from_object.nodes[0].ref.file == from_object.path
    assert list(scratch.iterdir()) == []
    assert summary(from_object) == summary(from_file)


def test_detect_looks_at_suffix_and_type(tmp_path: pathlib.Path) -> None:
    for good in ("m.xml", pathlib.Path("dir/M.XML")):
        assert FRONTEND.detect(good)
    for bad in ("m.json", "m.xml.bin", "xml", object(), None, 3, ov.Core(), b"m.xml"):
        assert not FRONTEND.detect(bad)


def test_reading_a_file_does_not_import_openvino(tmp_path: pathlib.Path) -> None:
    path = save(mixed_network(), tmp_path)
    script = textwrap.dedent(
        """
        import sys
        from ortconv.converters.openvino import FRONTEND
        assert FRONTEND.detect(sys.argv[1]) and not FRONTEND.detect(object())
        FRONTEND.read(sys.argv[1], {})
        assert not any(name.partition(".")[0] == "openvino" for name in sys.modules)
        """
    )
    subprocess.run([sys.executable, "-c", script, str(path)], check=True, timeout=120)


def test_reading_twice_gives_the_same_graph(tmp_path: pathlib.Path) -> None:
    path = save(mixed_network(), tmp_path)
    assert summary(FRONTEND.read(path, {}, STATED)) == summary(FRONTEND.read(str(path), {}, STATED))


@pytest.mark.parametrize("case", [str.lower, str.upper, str.swapcase])
def test_op_types_in_any_case_of_letters(case: Callable[[str], str], tmp_path: pathlib.Path) -> None:
    """OpenVINO's reader takes them, but for constants, and drops inputs and outputs."""
    path = save(mixed_network(), tmp_path)
    expected = summary(FRONTEND.read(path, {}, STATED))
    types = re.compile(r'(?<= type=")(?!Const|Parameter|Result)\w+(?=" version)')
    path.write_text(types.sub(lambda match: case(match[0]), path.read_text()))
    assert ov.Core().read_model(path).inputs
    assert summary(FRONTEND.read(path, {}, STATED)) == expected

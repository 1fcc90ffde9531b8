"""The reader on files that no current writer produces: version 10, odd port numbers, missing precisions and edges."""

from __future__ import annotations

import pathlib
import sys
import tracemalloc
from typing import Any

import numpy as np
import onnx_ir as ir
import openvino
import pytest

from ortconv.converters.openvino import FRONTEND
from ortconv.converters.openvino.reader.shapes import parse_dim, parse_shape
from ortconv.converters.openvino.reader.source_graph import NAMES_KEY, SHAPE_KEY
from ortconv.converters.openvino.reader.tensor_names import join_names, split_names, unique_names
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import ModelFormatError

F16 = 'precision="FP16"'
F32 = 'precision="FP32"'


def test_version_10_takes_float16_as_float32_and_falls_back_to_friendly_names(write_ir: Any) -> None:
    path = write_ir(
        [
            write_ir.layer(7, "Parameter", name="in", data='element_type="f16" shape="1,3"', outputs=[(0, F16, "1,3")]),
            write_ir.layer(
                3,
                "Const",
                name="w",
                data='element_type="f16" shape="1,3" offset="0" size="6"',
                outputs=[(1, F16, "1,3")],
            ),
            write_ir.layer(
                5,
                "VariadicSplit",
                name="cut",
                inputs=[(0, F16, "1,3"), (1, F16, "1,3"), (3, F16, "1,3")],
                outputs=[(4, F16, "1,1"), (2, F16, "1,2")],
            ),
            write_ir.layer(6, "Result", name="out", inputs=[(0, F16, "1,2")]),
            write_ir.layer(8, "Result", name="out", inputs=[(0, F16, "1,3")]),
        ],
        [
            write_ir.edge(7, 0, 5, 0),
            write_ir.edge(3, 1, 5, 1),
            write_ir.edge(3, 1, 5, 3),
            write_ir.edge(5, 2, 6, 0),
            write_ir.edge(3, 1, 8, 0),
        ],
        np.arange(3, dtype=np.float16).tobytes(),
        version=10,
    )
    graph = FRONTEND.read(path, {})
    assert [(value.name, value.dtype, value.shape) for value in graph.inputs] == [("in", ir.DataType.FLOAT, (1, 3))]
    (node,) = graph.nodes
    assert node.ref.id == "5"
    assert node.inputs[0] is graph.inputs[0]
    assert [value.name for value in node.outputs] == ["cut.0", "cut.1"]
    assert [value.shape for value in node.outputs] == [(1, 1), (1, 2)]
    assert [output.name for output in graph.outputs] == ["cut.1", "w"]
    assert graph.outputs[0].value is node.outputs[1]
    constant = graph.outputs[1].value.constant
    assert constant is not None
    np.testing.assert_array_equal(constant.numpy(), np.arange(3, dtype=np.float16)[None])


def test_precision_of_the_layer_or_of_its_data_stands_in_for_a_missing_one(write_ir: Any) -> None:
    path = write_ir(
        [
            write_ir.layer(0, "Parameter", data='element_type="bf16" shape="2"', outputs=[(0, "", "2")]),
            write_ir.layer(1, "ReLU", inputs=[(0, "", "2")], outputs=[(1, "", "2")], extra='precision="BF16"'),
            write_ir.layer(2, "Result", inputs=[(0, "", "2")]),
        ],
        [write_ir.edge(0, 0, 1, 0), write_ir.edge(1, 1, 2, 0)],
        version=10,
    )
    graph = FRONTEND.read(path, {})
    assert [graph.inputs[0].dtype, graph.outputs[0].value.dtype] == [ir.DataType.BFLOAT16] * 2


def test_absent_inputs_in_the_middle_are_none_and_at_the_end_dropped(write_ir: Any) -> None:
    ports = [(number, F32, "2") for number in (10, 11, 12, 13)]
    path = write_ir(
        [
            write_ir.layer(0, "Parameter", data='element_type="f32" shape="2"', outputs=[(0, F32, "2")]),
            write_ir.layer(1, "Custom", inputs=ports, outputs=[(0, F32, "2")], opset="extension"),
            write_ir.layer(2, "Result", inputs=[(0, F32, "2")]),
        ],
        [write_ir.edge(0, 0, 1, 12), write_ir.edge(0, 0, 1, 10), write_ir.edge(1, 0, 2, 0)],
    )
    (node,) = FRONTEND.read(path, {}).nodes
    assert node.inputs == (node.inputs[0], None, node.inputs[0])
    assert (node.version, node.ref.version) == (0, "extension")


@pytest.mark.parametrize(
    ("type", "opset", "version"),
    [
        ("MVN", "opset1", 2),
        ("ROIPooling", "opset1", 2),
        ("ReorgYolo", "opset1", 2),
        ("MVN", "opset6", 6),
        ("Add", "opset1", 1),
        ("X", "custom", 0),
        ("Proposal", "experimental", 4),
        ("ExperimentalDetectronTopKROIs", "extension", 6),
        ("Add", "experimental", 0),
        ("Add", "opset16", 1),
        ("Gather", "opset2", 1),
        ("Gather", "opset16", 8),
        ("NonMaxSuppression", "opset4", 4),
        ("NonMaxSuppression", "opset8", 5),
        ("Gather", "opset18", 18),
        ("GRUCell", "opset2", 2),
        ("RMS", "opset16", 16),
    ],
)
def test_opset_names_become_numbers(write_ir: Any, type: str, opset: str, version: int) -> None:
    lowering = REGISTRY.find(type, version) or REGISTRY.any_version(type)
    ports = range(0 if lowering is None else len(lowering.inputs))
    path = write_ir(
        [
            write_ir.layer(0, "Parameter", data='element_type="f32" shape="2"', outputs=[(0, F32, "2")]),
            write_ir.layer(1, type, inputs=[(port, F32, "2") for port in ports], outputs=[(9, F32, "2")], opset=opset),
            write_ir.layer(2, "Result", inputs=[(0, F32, "2")]),
        ],
        [*(write_ir.edge(0, 0, 1, port) for port in ports), write_ir.edge(1, 9, 2, 0)],
    )
    (node,) = FRONTEND.read(path, {}).nodes
    assert (node.version, node.ref.version) == (version, opset)


@pytest.mark.parametrize("opset", range(1, 17))
@pytest.mark.parametrize(
    ("type", "data"),
    [
        ("Gelu", ""),
        ("ReLU", ""),
        ("SoftMax", 'axis="0"'),
        ("MVN", 'across_channels="false" normalize_variance="true" eps="1e-5" eps_mode="inside_sqrt"'),
    ],
)
def test_an_opset_has_the_forms_of_earlier_ones(write_ir: Any, type: str, data: str, opset: int) -> None:
    path = write_ir(
        [
            write_ir.layer(0, "Parameter", data='element_type="f32" shape="2,3,4"', outputs=[(0, F32, "2,3,4")]),
            write_ir.layer(
                1, type, data=data, inputs=[(0, F32, "2,3,4")], outputs=[(1, F32, "2,3,4")], opset=f"opset{opset}"
            ),
            write_ir.layer(2, "Result", inputs=[(0, F32, "2,3,4")]),
        ],
        [write_ir.edge(0, 0, 1, 0), write_ir.edge(1, 1, 2, 0)],
    )
    if type == "MVN" and opset >= 6:
        with pytest.raises(ModelFormatError, match="input axes"):
            FRONTEND.read(path, {})
        with pytest.raises(RuntimeError):
            openvino.Core().read_model(path)
        return
    (node,) = FRONTEND.read(path, {}).nodes
    try:
        (layer,) = (
            each for each in openvino.Core().read_model(path).get_ops() if each.get_friendly_name() == node.ref.name
        )
    except RuntimeError:  # no such op yet
        assert (type, node.version) == ("Gelu", 1)
    else:
        theirs = int(layer.get_type_info().version_id.removeprefix("opset"))
        assert REGISTRY.lookup(type, node.version) is REGISTRY.lookup(type, theirs)


def test_hints_are_not_attributes(write_ir: Any) -> None:
    path = write_ir(
        [
            write_ir.layer(0, "Parameter", data='element_type="f32" shape="2"', outputs=[(0, F32, "2")]),
            write_ir.layer(
                1,
                "Elu",
                inputs=[(0, F32, "2")],
                outputs=[(1, F32, "2")],
                data='alpha="2" PrimitivesPriority="cpu:jit" alt_width="80"',
            ),
            write_ir.layer(2, "Result", inputs=[(0, F32, "2")]),
        ],
        [write_ir.edge(0, 0, 1, 0), write_ir.edge(1, 1, 2, 0)],
    )
    (node,) = FRONTEND.read(path, {}).nodes
    assert node.attributes == {"alpha": "2"}


def test_only_what_results_and_states_need_is_read_and_parameters_stay(write_ir: Any) -> None:
    path = write_ir(
        [
            write_ir.layer(0, "Result", inputs=[(0, F32, "2")], extra='output_names="y"'),
            write_ir.layer(1, "ReLU", inputs=[(0, F32, "2")], outputs=[(1, f'{F32} names="b,a"', "2")]),
            write_ir.layer(2, "Parameter", data='element_type="f32" shape="2"', outputs=[(0, F32, "2")], name="unused"),
            write_ir.layer(3, "Parameter", data='element_type="f32" shape="2"', outputs=[(0, F32, "2")], name="used"),
            write_ir.layer(4, "Sin", inputs=[(0, F32, "2")], outputs=[(1, 'precision="NF4"', "2")]),
            write_ir.layer(
                5, "Const", data='element_type="string" shape="9" offset="0" size="9"', outputs=[(0, "", "")]
            ),
            write_ir.layer(6, "Assign", inputs=[(0, F32, "2")], opset="opset6", data='variable_id="v"'),
            write_ir.layer(7, "ReadValue", outputs=[(0, F32, "2")], opset="opset6", data='variable_id="v"'),
        ],
        [write_ir.edge(3, 0, 1, 0), write_ir.edge(1, 1, 0, 0), write_ir.edge(3, 0, 4, 0), write_ir.edge(3, 0, 6, 0)],
    )
    graph = FRONTEND.read(path, {})
    assert [value.name for value in graph.inputs] == ["unused", "used", "v"]
    assert [node.ref.op_type for node in graph.nodes] == ["ReLU", "Assign", "ReadValue"]
    assert [output.name for output in graph.outputs] == ["y", "v.next"]
    assert graph.outputs[0].value.metadata == {NAMES_KEY: "a,b"}


def test_interval_in_a_port_is_unknown_and_kept_for_an_input(write_ir: Any) -> None:
    path = write_ir(
        [
            write_ir.layer(
                0, "Parameter", data='element_type="f32" shape="1..16,?,5"', outputs=[(0, F32, "1..16,-1,5")]
            ),
            write_ir.layer(1, "ReLU", inputs=[(0, F32, "")], outputs=[(1, F32, "1..16,-1,5")]),
            write_ir.layer(2, "Result", inputs=[(0, F32, "")]),
        ],
        [write_ir.edge(0, 0, 1, 0), write_ir.edge(1, 1, 2, 0)],
    )
    graph = FRONTEND.read(path, {})
    assert graph.inputs[0].shape == graph.outputs[0].value.shape == (None, None, 5)
    assert graph.inputs[0].metadata == {SHAPE_KEY: "1..16,?,5"}


def test_layers_are_sorted_when_needed_and_stay_in_file_order_otherwise(write_ir: Any) -> None:
    def relu(number: int) -> str:
        return str(write_ir.layer(number, "ReLU", inputs=[(0, F32, "2")], outputs=[(1, F32, "2")]))

    parameter = write_ir.layer(9, "Parameter", data='element_type="f32" shape="2"', outputs=[(0, F32, "2")])
    results = [write_ir.layer(number, "Result", inputs=[(0, F32, "2")]) for number in (5, 6, 7)]
    path = write_ir(
        [*results, relu(4), relu(2), relu(3), parameter],
        [
            write_ir.edge(9, 0, 4, 0),
            write_ir.edge(9, 0, 3, 0),
            write_ir.edge(3, 1, 2, 0),
            write_ir.edge(2, 1, 5, 0),
            write_ir.edge(3, 1, 6, 0),
            write_ir.edge(4, 1, 7, 0),
        ],
    )
    assert [node.ref.id for node in FRONTEND.read(path, {}).nodes] == ["4", "3", "2"]


def test_boolean_bytes_other_than_one_are_true(write_ir: Any) -> None:
    data = 'element_type="boolean" shape="3" offset="1" size="3"'
    path = write_ir(
        [
            write_ir.layer(0, "Const", data=data, outputs=[(0, 'precision="BOOL"', "3")]),
            write_ir.layer(1, "Result", inputs=[(0, "", "3")]),
        ],
        [write_ir.edge(0, 0, 1, 0)],
        bytes([9, 0, 1, 255]),
    )
    constant = FRONTEND.read(path, {}).outputs[0].value.constant
    assert constant is not None
    assert constant.numpy().tolist() == [False, True, True]


def test_constants_are_views_of_the_file(write_ir: Any) -> None:
    count = 1 << 28
    data = f'element_type="f32" shape="{count}" offset="1" size="{4 * count}"'
    path: pathlib.Path = write_ir(
        [
            write_ir.layer(0, "Const", data=data, outputs=[(0, F32, str(count))]),
            write_ir.layer(1, "Result", inputs=[(0, F32, str(count))]),
        ],
        [write_ir.edge(0, 0, 1, 0)],
    )
    with path.with_suffix(".bin").open("wb") as file:
        file.truncate(4 * count + 1)
        file.write(b"x")
        file.seek(1)
        file.write(np.float32(2.5).tobytes())
    tracemalloc.start()
    try:
        constant = FRONTEND.read(path, {}).outputs[0].value.constant
        assert constant is not None
        assert constant.numpy()[0] == 2.5
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


def lines_to_read(path: pathlib.Path) -> int:
    """Returns how many lines of Python run while a file is read."""
    lines = 0

    def trace(_frame: object, event: str, _argument: object) -> Any:
        nonlocal lines
        lines += event == "line"
        return trace

    former = sys.gettrace()
    sys.settrace(trace)
    try:
        FRONTEND.read(path, {})
    finally:
        sys.settrace(former)
    return lines


def chain(write_ir: Any, count: int) -> pathlib.Path:
    """Writes layers of one name, in reverse order."""
    layers = [
        write_ir.layer(number, "ReLU", name="same", inputs=[(0, F32, "2")], outputs=[(1, F32, "2")])
        for number in reversed(range(1, count))
    ]
    parameter = write_ir.layer(
        0, "Parameter", data='element_type="f32" shape="2"', outputs=[(1, F32, "2")], name="same"
    )
    result = write_ir.layer(count, "Result", inputs=[(0, F32, "2")])
    path: pathlib.Path = write_ir([result, *layers, parameter], [write_ir.edge(n, 1, n + 1, 0) for n in range(count)])
    return path


def test_work_grows_linearly_with_layers_and_with_equal_names(write_ir: Any) -> None:
    few, many = (lines_to_read(chain(write_ir, count)) for count in (200, 400))
    assert many < 2.2 * few, (few, many)


def test_many_layers_of_one_name_are_told_apart(write_ir: Any) -> None:
    count = 2000
    graph = FRONTEND.read(chain(write_ir, count), {})
    assert [node.ref.id for node in graph.nodes] == [str(number) for number in range(1, count)]
    names = {value.name for node in graph.nodes for value in node.outputs} | {"same"}
    assert len(names) == count


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("", ()),
        ("b,a", ("a", "b")),
        (r"x\,y,z", ("x,y", "z")),
        (",a,,", ("a",)),
        ("sum/sink_port_0,a:0", ("a:0", "sum/sink_port_0")),
        ("a,a", ("a",)),
    ],
)
def test_split_names(text: str, names: tuple[str, ...]) -> None:
    assert split_names(text) == names
    assert split_names(join_names(names)) == names


def test_unique_names_leaves_wanted_names_to_their_owners() -> None:
    wanted = {0: "x", 1: "x", 2: "x_2", 3: "x", 4: "y"}
    assert unique_names(wanted) == {0: "x", 1: "x_3", 2: "x_2", 3: "x_4", 4: "y"}


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("", ()),
        ("...", None),
        ("1,3", (1, 3)),
        ("3, 1", (3, 1)),
        ("?,-1,0", (None, None, 0)),
        ("1..16,..4,2..,..", (None,) * 4),
        (str(2**59), (2**59,)),
    ],
)
def test_parse_shape(text: str, shape: tuple[int | None, ...] | None) -> None:
    assert parse_shape(text) == shape


@pytest.mark.parametrize(
    "text", ["-2", "1.5", "a", "1,", "1,,2", "0x3", "1e3", "...,3", str(2**59 + 1), str(2**63), "\u0661", "1 2", "+1"]
)
def test_parse_shape_refuses(text: str) -> None:
    with pytest.raises(ValueError, match=r"size|dimensions"):
        parse_shape(text)


def test_parse_shape_limits_the_rank() -> None:
    assert parse_shape(",".join("1" * 32)) == (1,) * 32
    with pytest.raises(ValueError, match="at most 32"):
        parse_shape(",".join("1" * 33))


def test_parse_dim_refuses_an_empty_one() -> None:
    with pytest.raises(ValueError, match="interval"):
        parse_dim(" ")

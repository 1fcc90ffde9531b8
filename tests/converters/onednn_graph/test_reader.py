"""What the reader makes of well-formed files."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import onnx_ir as ir
import pytest

import ortconv
from ortconv import onednn
from ortconv.converters.onednn_graph import FRONTEND
from ortconv.converters.onednn_graph.reader.document import read_document
from ortconv.frontend.source_graph import SourceGraph
from tests.converters.onednn_graph.documents import UNKNOWN, Json, backward_data, graph, op, tensor, write
from tests.running import run


def read(folder: pathlib.Path, document: object) -> SourceGraph:
    return FRONTEND.read(write(folder, document), {})


def relu(id: int, source: int, result: int, **fields: object) -> Json:
    return op(id, "ReLU", [tensor(source)], [tensor(result)], **fields)


def test_a_file_becomes_a_source_graph(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, backward_data(), "up.json")
    source = FRONTEND.read(path, {})
    assert (source.path, source.format, source.name) == (str(path), "onednn", "up")
    assert [value.name for value in source.inputs] == ["tensor_0", "tensor_1"]
    assert [output.name for output in source.outputs] == ["tensor_3"]
    node = source.nodes[0]
    assert (node.ref.op_type, node.ref.name, node.ref.id, node.version) == (
        "ConvolutionBackwardData",
        "ConvolutionBackwardData_0",
        "0",
        1,
    )
    assert node.attributes["strides"] == (2, 2)
    assert node.attributes["dst_shape"] == (1, 2, 7, 7)
    assert node.inputs[1] is source.inputs[1]
    assert source.inputs[1].dtype == ir.DataType.FLOAT
    assert source.inputs[1].shape == (4, 2, 3, 3)
    assert source.inputs[1].metadata == {
        "ortconv.source.tensor_id": "1",
        "ortconv.source.property_type": "constant",
    }


def test_the_converted_model_keeps_ids_names_and_origin(tmp_path: pathlib.Path) -> None:
    path = write(tmp_path, backward_data())
    model = ortconv.convert(path)
    assert [value.name for value in model.graph.input] == ["tensor_0", "tensor_1"]
    assert [value.name for value in model.graph.output] == ["tensor_3"]
    assert {"ortconv.source.tensor_id": "0"}.items() <= {
        p.key: p.value for p in model.graph.input[0].metadata_props
    }.items()
    origin = {p.key: p.value for p in model.graph.node[0].metadata_props}
    assert origin["ortconv.source.op_type"] == "ConvolutionBackwardData"
    assert origin["ortconv.source.file"] == path.name


@pytest.mark.parametrize(
    ("ports", "expected"),
    [
        ({}, ["tensor_5", "tensor_4"]),
        ({"input_ports": [4, 5]}, ["tensor_4", "tensor_5"]),
        ({"input_ports": [4, 4, 5, 4]}, ["tensor_4", "tensor_5"]),
        ({"input_ports": [4]}, ["tensor_5", "tensor_4"]),
        ({"input_ports": [4, 5, 6]}, ["tensor_5", "tensor_4"]),
    ],
    ids=["none", "a permutation", "repeated", "one missing", "one too many"],
)
def test_ports_decide_the_order_of_inputs_only_where_they_name_them_all(
    tmp_path: pathlib.Path, ports: dict[str, list[int]], expected: list[str]
) -> None:
    add = op(0, "Add", [tensor(5), tensor(4)], [tensor(6)])
    assert [value.name for value in read(tmp_path, graph(add, **ports)).inputs] == expected


@pytest.mark.parametrize(("ports", "expected"), [([], [1, 2]), ([2, 1], [2, 1]), ([2], [1, 2]), ([1, 0], [1, 2])])
def test_ports_decide_the_order_of_outputs_only_where_they_name_them_all(
    tmp_path: pathlib.Path, ports: list[int], expected: list[int]
) -> None:
    source = read(tmp_path, graph(relu(0, 0, 1), relu(1, 0, 2), output_ports=ports))
    assert [output.name for output in source.outputs] == [f"tensor_{tensor_id}" for tensor_id in expected]


@pytest.mark.parametrize(
    ("ports", "expected"),
    [([1, 3], [1, 3]), ([3, 1], [3, 1]), ([1], [3, 1]), ([3], [3]), ([1, 1, 3, 7, 0], [3, 1])],
    ids=["in order", "the other way", "the last one missing", "the last one", "repeated, unknown and an input"],
)
def test_a_partition_may_hand_out_what_it_uses_itself(
    tmp_path: pathlib.Path, ports: list[int], expected: list[int]
) -> None:
    path = write(tmp_path, graph(relu(0, 0, 1), relu(1, 1, 2), relu(2, 2, 3), output_ports=ports))
    model = ortconv.convert(path)
    assert [output.name for output in model.graph.output] == [f"tensor_{tensor_id}" for tensor_id in expected]
    x = np.float32([[1, -2, 3], [-4, 5, -6]])
    for found in run(model, {"tensor_0": x}, "none"):
        np.testing.assert_array_equal(found, np.maximum(x, 0))


def test_operations_are_sorted_and_otherwise_stay_in_order(tmp_path: pathlib.Path) -> None:
    source = read(tmp_path, graph(relu(7, 2, 3), relu(9, 1, 2), relu(1, 0, 8), relu(8, 0, 1)))
    assert [node.ref.id for node in source.nodes] == ["8", "9", "7", "1"]
    assert [output.name for output in source.outputs] == ["tensor_3", "tensor_8"]


def test_a_long_chain_in_reverse_order_is_sorted_without_recursion(tmp_path: pathlib.Path) -> None:
    source = read(tmp_path, graph(*(relu(i, i, i + 1) for i in reversed(range(5000)))))
    assert [node.ref.id for node in source.nodes] == [str(i) for i in range(5000)]


def test_end_marks_an_output_and_emits_nothing(tmp_path: pathlib.Path) -> None:
    document = graph(relu(0, 0, 1), relu(1, 1, 2), op(2, "End", [tensor(1)], []))
    model = ortconv.convert(write(tmp_path, document))
    assert [value.name for value in model.graph.output] == ["tensor_1", "tensor_2"]
    assert [node.op_type for node in model.graph.node] == ["Relu", "Relu"]


def test_an_operation_without_attrs_or_name_is_read(tmp_path: pathlib.Path) -> None:
    bare = relu(3, 0, 1)
    del bare["attrs"], bare["name"]
    node = read(tmp_path, graph(bare)).nodes[0]
    assert (node.ref.name, node.attributes) == ("", {})


def test_vectors_of_twelve_defaults_count_as_absent(tmp_path: pathlib.Path) -> None:
    document = backward_data()
    document["graph"][0]["attrs"]["dst_shape"]["value"] = [0] * 12
    assert {"output_padding", "dst_shape"}.isdisjoint(read(tmp_path, document).nodes[0].attributes)
    pool = op(
        0,
        "MaxPool",
        [tensor(0, (1, 1, 4))],
        [tensor(1, (1, 1, 4))],
        {"dilations": ("s64[]", [1] * 12), "strides": ("s64[]", [1] * 12), "pads_begin": ("s64[]", [0] * 12)},
    )
    assert set(read(tmp_path, graph(pool)).nodes[0].attributes) == {"strides", "pads_begin"}


def test_a_vector_of_twelve_with_something_in_it_is_kept(tmp_path: pathlib.Path) -> None:
    document = backward_data()
    document["graph"][0]["attrs"]["output_padding"]["value"] = [1] + [0] * 11
    assert read(tmp_path, document).nodes[0].attributes["output_padding"] == (1,) + (0,) * 11


def test_what_partitioning_adds_is_left_out(tmp_path: pathlib.Path) -> None:
    attrs = {"partition_id": ("string", "0"), "backend": ("string", "dnnl")}
    assert read(tmp_path, graph(op(0, "ReLU", [tensor(0)], [tensor(1)], attrs))).nodes[0].attributes == {}


def test_attribute_types_become_python_values(tmp_path: pathlib.Path) -> None:
    attrs = {
        "scales": ("f32[]", [1, 0.5]),
        "zps": ("s64[]", [0, -1]),
        "qtype": ("string", "per_channel"),
        "axis": ("s64", -1),
    }
    quantize = op(0, "Quantize", [tensor(0)], [tensor(1, dtype="u8")], attrs)
    clamp = op(1, "Clamp", [tensor(0)], [tensor(2)], {"min": ("f32", 0), "max": ("f32", 6.5)})
    pool = op(2, "AvgPool", [tensor(0)], [tensor(3)], {"exclude_pad": ("bool", 1)})
    reduce = op(3, "ReduceSum", [tensor(0)], [tensor(4)], {"keep_dims": ("bool", False)})
    nodes = read(tmp_path, graph(quantize, clamp, pool, reduce)).nodes
    assert nodes[0].attributes == {"scales": (1.0, 0.5), "zps": (0, -1), "qtype": "per_channel", "axis": -1}
    assert nodes[1].attributes == {"min": 0.0, "max": 6.5}
    assert isinstance(nodes[1].attributes["min"], float)
    assert nodes[2].attributes["exclude_pad"] is True
    assert nodes[3].attributes["keep_dims"] is False


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ([UNKNOWN], [UNKNOWN], None),
        ([UNKNOWN], [2, 3], (2, 3)),
        ([2, 3], [UNKNOWN], (2, 3)),
        ([UNKNOWN, 3], [UNKNOWN, 3], (None, 3)),
        ([UNKNOWN, 3], [2, UNKNOWN], (2, 3)),
        ([], [], ()),
        ([0, 3], [0, 3], (0, 3)),
    ],
)
def test_what_one_copy_of_a_tensor_leaves_open_another_fills_in(
    tmp_path: pathlib.Path, first: list[int], second: list[int], expected: tuple[int | None, ...] | None
) -> None:
    document = graph(
        op(0, "ReLU", [tensor(0)], [tensor(1, shape=first, stride=[UNKNOWN], layout_type="undef")]),
        op(1, "ReLU", [tensor(1, shape=second, dtype="f32", property_type="variable")], [tensor(2)]),
    )
    value = read(tmp_path, document).nodes[0].outputs[0]
    assert value.shape == expected
    assert value.metadata["ortconv.source.property_type"] == "variable"


def test_the_op_that_computes_a_tensor_knows_its_sizes_best(tmp_path: pathlib.Path) -> None:
    document = graph(
        op(1, "ReLU", [tensor(1, (1, 1, 2))], [tensor(2, (1, 3, 2))]),
        op(0, "ReLU", [tensor(0)], [tensor(1, (1, 3, 2))]),
    )
    producer, consumer = read(tmp_path, document).nodes
    assert producer.outputs[0].shape == (1, 3, 2)
    assert producer.warnings == ()
    assert consumer.warnings == (
        "input 1 is said to have shape [1, 1, 2]; the operation that computes it says [1, 3, 2], which counts",
    )


def test_attributes_that_a_kind_does_not_have_are_ignored_with_a_warning(tmp_path: pathlib.Path) -> None:
    document = graph(op(0, "ReLU", [tensor(0)], [tensor(1)], {"slope": ("f32", 1), "partition_id": ("string", "7")}))
    node = read(tmp_path, document).nodes[0]
    assert node.attributes == {}
    assert node.warnings == ("attribute slope = 1 is ignored: ReLU has none of that name",)
    assert node.notes == ("partition_id is 7",)
    step = ortconv.conversion(tmp_path / "model.json").steps[0]
    assert (step.warnings, step.notes) == (list(node.warnings), list(node.notes))


@pytest.mark.parametrize("kind", ["AbsBackprop", "BiasAddBackprop", "SigmoidBackprop"])
def test_old_spellings_are_read(tmp_path: pathlib.Path, kind: str) -> None:
    inputs = [tensor(0)] if kind == "BiasAddBackprop" else [tensor(0), tensor(2)]
    node = read(tmp_path, graph(op(0, kind, inputs, [tensor(1)]))).nodes[0]
    assert node.ref.op_type == kind.replace("Backprop", "Backward")
    assert node.notes == (f"{kind} is {node.ref.op_type} today",)


def test_what_a_file_says_of_itself_is_kept_and_explained(tmp_path: pathlib.Path) -> None:
    header = {"engine_kind": "gpu", "fpmath_mode": "bf16", "fpmath_mode_apply_to_int": "true"}
    done = ortconv.conversion(write(tmp_path, graph(relu(0, 0, 1), **header)))
    properties = done.model.metadata_props
    assert {name: properties[f"ortconv.source.{name}"] for name in ("version", *header)} == {
        "version": "3.7.0",
        **header,
    }
    assert [text.partition(":")[0] for text in done.notes] == [
        "fpmath_mode is bf16",
        "fpmath_mode_apply_to_int is true",
        "engine_kind is gpu",
    ]
    assert ortconv.conversion(write(tmp_path, graph(relu(0, 0, 1)))).notes == ()


def test_an_undefined_type_is_filled_in_too(tmp_path: pathlib.Path) -> None:
    document = graph(relu(0, 0, 1), op(1, "ReLU", [tensor(1, dtype="bf16")], [tensor(2)]))
    document["graph"][0]["outputs"][0]["dtype"] = "undef"
    assert read(tmp_path, document).nodes[0].outputs[0].dtype == ir.DataType.BFLOAT16


def test_a_host_scalar_is_an_input_without_dimensions(tmp_path: pathlib.Path) -> None:
    scalar = tensor(1, (), property_type="host_scalar")
    value = read(tmp_path, graph(op(0, "Multiply", [tensor(0), scalar], [tensor(2)]))).inputs[1]
    assert value.shape == ()
    assert value.metadata["ortconv.source.property_type"] == "host_scalar"


@pytest.mark.parametrize(
    ("shape", "stride", "kept"),
    [
        ((2, 3, 4, 5), (60, 20, 5, 1), None),
        ((2, 3, 4, 5), (60, 1, 15, 3), "60,1,15,3"),
        ((2, 3, 4, 5), (120, 40, 10, 2), "120,40,10,2"),
        ((2, 3, 4, 5), (0, 0, 0, 0), None),
        ((2, 1, 4, 5), (20, 999, 5, 1), None),
        ((2, 1, 4, 5), (20, 0, 1, 4), "20,0,1,4"),
        ((2, 3), (UNKNOWN,), None),
    ],
    ids=["dense", "channels last", "with gaps", "missing", "size one", "size one permuted", "unknown"],
)
def test_a_stride_is_kept_where_it_says_more_than_the_shape(
    tmp_path: pathlib.Path, shape: tuple[int, ...], stride: tuple[int, ...], kept: str | None
) -> None:
    document = graph(op(0, "ReLU", [tensor(0, shape, stride=list(stride))], [tensor(1, shape)]))
    assert read(tmp_path, document).inputs[0].metadata.get("ortconv.source.stride") == kept


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("f16", ir.DataType.FLOAT16),
        ("bf16", ir.DataType.BFLOAT16),
        ("f64", ir.DataType.DOUBLE),
        ("s64", ir.DataType.INT64),
        ("s32", ir.DataType.INT32),
        ("s8", ir.DataType.INT8),
        ("u8", ir.DataType.UINT8),
        ("s4", ir.DataType.INT4),
        ("u4", ir.DataType.UINT4),
        ("boolean", ir.DataType.BOOL),
        ("f8_e5m2", ir.DataType.FLOAT8E5M2),
        ("f8_e4m3", ir.DataType.FLOAT8E4M3FN),
        ("undef", ir.DataType.UNDEFINED),
    ],
)
def test_element_types(tmp_path: pathlib.Path, name: str, dtype: ir.DataType) -> None:
    assert read(tmp_path, graph(op(0, "ReLU", [tensor(0, dtype=name)], [tensor(1)]))).inputs[0].dtype == dtype


def test_ids_may_be_any_unsigned_number_and_names_any_text(tmp_path: pathlib.Path) -> None:
    huge = 2**64 - 1
    document = graph(op(huge, "ReLU", [tensor(huge)], [tensor(14512)], name="a/b c \u00e9"))
    source = read(tmp_path, document)
    assert source.inputs[0].name == f"tensor_{huge}"
    assert (source.nodes[0].ref.id, source.nodes[0].ref.name) == (str(huge), "a/b c \u00e9")


def test_a_byte_order_mark_and_unknown_fields_are_tolerated(tmp_path: pathlib.Path) -> None:
    text = "\ufeff" + json.dumps(graph(relu(0, 0, 1), fpmath_mode_apply_to_int="false", future=[{"a": None}]))
    assert len(read(tmp_path, text.encode()).nodes) == 1


def test_names_of_our_own_files_are_kept(tmp_path: pathlib.Path) -> None:
    document = graph(relu(0, 0, 1))
    document["ortconv"] = {"name": "net", "tensor_names": {"1": "tensor_0", "0": "x"}}
    source = read(tmp_path, document)
    assert source.name == "net"
    assert [source.inputs[0].name, source.outputs[0].name] == ["x", "tensor_0"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("a.json", True),
        (pathlib.Path("A.JSON"), True),
        (onednn.Graph(), True),
        ("a.xml", False),
        ("json", False),
        (3, False),
        ({"graph": []}, False),
    ],
    ids=["path text", "path, any case", "graph", "another suffix", "no suffix", "a number", "a dict"],
)
def test_detection(source: object, expected: bool) -> None:
    assert FRONTEND.detect(source) is expected


def test_documents_say_what_the_file_says(tmp_path: pathlib.Path) -> None:
    document = read_document(write(tmp_path, backward_data()))
    assert document.input_ports == (0, 1)
    assert document.output_ports == (3,)
    assert document.ops[0].inputs[1] == onednn.Tensor(1, "f32", (4, 2, 3, 3), property_type="constant")

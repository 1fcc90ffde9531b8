"""Defining graphs in Python, and the files they become."""

from __future__ import annotations

import inspect
import json
import pathlib
import re
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ortconv
from ortconv import onednn
from ortconv.converters.onednn_graph import FRONTEND
from ortconv.converters.onednn_graph.reader.document import read_document
from ortconv.onednn.op_schema import ATTRIBUTE_TYPES, DTYPES, KINDS, is_unset
from tests.converters.onednn_graph.documents import UNKNOWN

CONV = {"strides": [2, 2], "pads_begin": [0, 0], "pads_end": [0, 0], "dilations": [1, 1]}


def upsampling() -> onednn.Graph:
    g = onednn.Graph("up")
    x = g.tensor("diff_dst", "f32", [1, 16, 16, 64])
    w = g.tensor("weights", "f32", [4, 4, 32, 64], constant=True)
    g.op("ConvolutionBackwardData", [x, w], auto_pad="same_lower", dst_shape=[1, 32, 32, 32], name="up", **CONV)
    return g


def test_five_lines_define_and_convert_a_gradient() -> None:
    model = ortconv.convert(upsampling())
    assert [value.name for value in model.graph.input] == ["diff_dst", "weights"]
    assert [value.name for value in model.graph.output] == ["up"]
    assert model.graph.name == "up"
    dims = [dim.dim_value for dim in model.graph.output[0].type.tensor_type.shape.dim]
    assert dims == [1, 32, 32, 32]


def test_formats_in_lower_case_give_the_shape_that_is_converted() -> None:
    g = onednn.Graph("lower case")
    x, w = g.tensor("src", "f32", [1, 8, 9, 4]), g.tensor("weights", "f32", [3, 3, 4, 16])
    y = g.op("Convolution", [x, w], data_format="nxc", weights_format="xio", **CONV)
    assert y.shape == (1, 3, 4, 16)
    (output,) = ortconv.convert(g).graph.output
    assert [dim.dim_value for dim in output.type.tensor_type.shape.dim] == [1, 3, 4, 16]


def test_the_file_is_what_benchdnn_reads(tmp_path: pathlib.Path) -> None:
    g = upsampling()
    g.save(tmp_path / "up.json")
    document = json.loads((tmp_path / "up.json").read_text())
    assert list(document) == [
        *("version", "engine_kind", "fpmath_mode", "fpmath_mode_apply_to_int", "input_ports", "output_ports", "graph"),
        "ortconv",
    ]
    assert (document["input_ports"], document["output_ports"]) == ([0, 1], [2])
    op = document["graph"][0]
    assert list(op) == ["id", "name", "kind", "attrs", "inputs", "outputs"]
    assert op["attrs"]["strides"] == {"type": "s64[]", "value": [2, 2]}
    assert list(op["attrs"]["strides"]) == ["type", "value"]
    assert op["inputs"][1] == {
        "id": 1,
        "dtype": "f32",
        "shape": [4, 4, 32, 64],
        "stride": [8192, 2048, 64, 1],
        "layout_type": "strided",
        "property_type": "constant",
    }


def test_what_is_not_known_is_written_as_the_library_does() -> None:
    g = onednn.Graph()
    x = g.tensor("x", "f32", None)
    y = g.tensor("y", "f32", [None, 3])
    g.op("Add", [x, y])
    first, second = json.loads(g.to_json())["graph"][0]["inputs"]
    assert (first["shape"], first["stride"], first["layout_type"]) == ([UNKNOWN], [UNKNOWN], "undef")
    assert (second["shape"], second["stride"]) == ([UNKNOWN, 3], [UNKNOWN])


def test_a_graph_and_its_file_convert_to_the_same_model(tmp_path: pathlib.Path) -> None:
    g = upsampling()
    g.save(tmp_path / "up.json")
    direct, through_file = (FRONTEND.read(source, {}) for source in (g, tmp_path / "up.json"))
    assert [(v.name, v.dtype, v.shape) for v in direct.inputs] == [
        (v.name, v.dtype, v.shape) for v in through_file.inputs
    ]
    assert [node.attributes for node in direct.nodes] == [node.attributes for node in through_file.nodes]
    assert direct.name == through_file.name


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "s64": st.integers(-(2**63), 2**63 - 1),
    "f32": st.floats(width=32, allow_nan=False, allow_infinity=False),
    "bool": st.booleans(),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
}
VALUES |= {f"{kind}[]": st.lists(VALUES[kind], max_size=13).map(tuple) for kind in ("s64", "f32")}
NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=6).filter(
    lambda name: not name.isdecimal()
)
SHAPES = st.none() | st.lists(st.none() | st.integers(0, 40), max_size=5).filter(lambda shape: shape != [None])


@st.composite
def graphs(draw: st.DrawFn) -> onednn.Graph:
    """Any graph that the format can hold, whether or not it makes sense."""
    g = onednn.Graph(draw(NAMES))
    tensors: list[onednn.Tensor] = []
    taken: set[str] = set()

    def make() -> onednn.Tensor:
        name = draw(NAMES.filter(lambda text: text not in taken))
        taken.add(name)
        kind = draw(st.sampled_from(["constant", "host_scalar", ""]))
        return g.tensor(name, draw(st.sampled_from(DTYPES)), draw(SHAPES), **({kind: True} if kind else {}))

    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.sampled_from(sorted(set(KINDS) - {"End"})))
        schema = KINDS[kind]
        count = len(schema.inputs) + (draw(st.integers(0, 3)) if schema.variadic else 0)
        count -= draw(st.integers(0, schema.optional_inputs))
        inputs = [draw(st.sampled_from(tensors)) if tensors and draw(st.booleans()) else make() for _ in range(count)]
        attributes = {
            name: draw(VALUES[ATTRIBUTE_TYPES[name]])
            for name, required in schema.attributes.items()
            if required or draw(st.booleans())
        }
        left_off = draw(st.integers(0, min(schema.optional_outputs, len(schema.outputs) - 1)))
        outputs = [make() for _ in range(len(schema.outputs) - left_off)]
        g.op(
            kind,
            inputs,
            outputs=outputs,
            name=draw(st.text(st.characters(exclude_categories=["Cs"]), max_size=4)),
            **attributes,
        )
        tensors += inputs + outputs
        if draw(st.integers(0, 4)) == 0:
            g.end(draw(st.sampled_from(outputs)))
    return g


@given(graphs())
@settings(max_examples=150, suppress_health_check=list(HealthCheck))
def test_saving_and_reading_is_exact(tmp_path_factory: pytest.TempPathFactory, g: onednn.Graph) -> None:
    path = tmp_path_factory.mktemp("saved") / "graph.json"
    g.save(path)
    document = read_document(path)
    assert document.ops == g.ops
    assert document.name == g.name
    assert document.input_ports == tuple(tensor.id for tensor in g.inputs)
    assert document.output_ports == tuple(tensor.id for tensor in g.outputs)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_defaults_written_out_twelvefold_are_not_set(kind: str) -> None:
    for name, required in KINDS[kind].attributes.items():
        default = 1 if name == "dilations" else 0
        assert is_unset(kind, name, (default,) * 12) is not required
        assert not is_unset(kind, name, (default,) * 11)
        assert not is_unset(kind, name, (2,) * 12)


@pytest.mark.parametrize(
    ("kind", "shapes", "attributes", "expected"),
    [
        ("ReLU", [(2, 3)], {}, (2, 3)),
        ("Add", [(2, 1, 4), (3, 1)], {}, (2, 3, 4)),
        ("Add", [(2, None), (5,)], {}, (2, 5)),
        ("Add", [(2, None), (2, 1)], {}, (2, None)),
        ("Add", [(2,), (3,)], {}, None),
        ("Add", [None, (3,)], {}, None),
        ("BiasAdd", [(2, 3, 4), (4,)], {}, (2, 3, 4)),
        ("StaticTranspose", [(2, 3, 4)], {"order": [-1, 0, 1]}, (4, 2, 3)),
        ("StaticReshape", [(2, 3)], {"shape": [3, 2], "special_zero": False}, (3, 2)),
        ("StaticReshape", [(2, 3)], {"shape": [0, -1], "special_zero": True}, (2, 3)),
        ("StaticReshape", [(2, 3, 4)], {"shape": [-1, 4], "special_zero": False}, (6, 4)),
        ("StaticReshape", [(2, None)], {"shape": [0, -1], "special_zero": True}, None),
        ("StaticReshape", [(2, 3)], {"shape": [4, -1], "special_zero": False}, None),
        ("StaticReshape", [(0, 3)], {"shape": [3, 0], "special_zero": False}, (3, 0)),
        ("Convolution", [(1, 9, 9, 4), (3, 3, 4, 8)], {}, (1, 4, 4, 8)),
        ("Convolution", [(1, 4, 9, 9), (8, 4, 3, 3)], {"data_format": "NCX", "weights_format": "OIX"}, (1, 8, 4, 4)),
        ("Convolution", [(1, 9, None, 4), (3, 3, 4, 8)], {"auto_pad": "SAME_UPPER"}, (1, 5, None, 8)),
        ("Convolution", [(1, 1, 1, 4), (9, 9, 4, 8)], {}, None),
        ("ConvTranspose", [(1, 4, 4, 6), (3, 3, 5, 6)], {"groups": 2, "output_padding": [1, 0]}, (1, 10, 9, 10)),
        ("ConvTranspose", [(1, 4, 4, 6), (3, 3, 5, 6)], {"auto_pad": "same_lower"}, (1, 8, 8, 5)),
        ("ConvTransposeBackwardData", [(1, 9, 9, 5), (3, 3, 5, 6)], {}, (1, 4, 4, 6)),
        ("ConvolutionBackwardData", [(1, 4, 4, 8), (3, 3, 4, 8)], {"dst_shape": [1, 9, 9, 4]}, (1, 9, 9, 4)),
        ("ConvolutionBackwardData", [(1, 4, 4, 8), (3, 3, 4, 8), (4,)], {"dst_shape": [1, 9, 9, 4]}, None),
        ("ConvolutionBackwardWeights", [(1, 9, 9, 4), (1, 4, 4, 8)], {"weights_shape": [3, 3, 4, 8]}, (3, 3, 4, 8)),
        ("MatMul", [(2, 3), (3, 4)], {}, (2, 4)),
        ("MatMul", [(5, 1, 3, 2), (6, 4, 3)], {"transpose_a": True, "transpose_b": True}, (5, 6, 2, 4)),
        ("MatMul", [(3,), (2, 3, 4)], {}, (2, 4)),
        ("MatMul", [(2, 4, 3), (3,)], {"transpose_b": True}, (2, 4)),
        ("MatMul", [(3,), (3,)], {}, ()),
        ("MatMul", [(2, 3), (4, 5)], {}, None),
        ("ReduceSum", [(2, 3, 4)], {"axes": [0, -1]}, (3,)),
        ("ReduceMax", [(2, 3, 4)], {"axes": [0, -1], "keep_dims": True}, (1, 3, 1)),
        ("ReduceMin", [(2, 3, 4)], {"axes": [3]}, None),
        ("ReduceL1", [(2, 3), (1,)], {}, None),
        ("Concat", [(2, 3), (2, 4)], {"axis": -1}, (2, 7)),
        ("Concat", [(2, 3), (2, None)], {"axis": 1}, None),
        ("StaticTranspose", [(2, 3, 4)], {"order": []}, (4, 3, 2)),
        ("BiasAddBackward", [(2, 3, 4)], {"data_format": "NCX"}, (3,)),
        ("SoftMax", [(2, 3, 4)], {}, (2, 3, 4)),
        ("TanhBackward", [(2, 3), (2, 3)], {}, (2, 3)),
        ("Interpolate", [(1, 5, 5, 3)], {"mode": "nearest", "scales": [2, 0.5]}, (1, 10, 2, 3)),
        ("Interpolate", [(1, 3, 5)], {"mode": "nearest", "sizes": [7], "data_format": "NCX"}, (1, 3, 7)),
    ],
)
def test_shapes_of_results(kind: str, shapes: list[Any], attributes: dict[str, Any], expected: Any) -> None:
    g = onednn.Graph()
    inputs = [
        g.tensor(f"x{i}", "s32" if i == 2 and "Data" in kind else "bf16", shape) for i, shape in enumerate(shapes)
    ]
    result = g.op(kind, inputs, **({**CONV} if kind.startswith("Conv") else {}), **attributes)
    assert (result.shape, result.dtype) == (expected, "bf16")


POOL: dict[str, Any] = {"kernel": [3, 3], "strides": [2, 2], "pads_begin": [1, 0], "pads_end": [0, 0]}


@pytest.mark.parametrize(
    ("kind", "attributes", "expected"),
    [
        ("MaxPool", {}, (1, 4, 3, 8)),
        ("MaxPool", {"dilations": [2, 1]}, (1, 3, 3, 8)),
        ("MaxPool", {"rounding_type": "ceil"}, (1, 5, 4, 8)),
        ("MaxPool", {"auto_pad": "SAME_UPPER"}, (1, 5, 4, 8)),
        ("AvgPool", {"exclude_pad": True, "auto_pad": "valid"}, (1, 4, 3, 8)),
    ],
)
def test_shapes_of_pools(kind: str, attributes: dict[str, Any], expected: Any) -> None:
    g = onednn.Graph()
    assert g.op(kind, [g.tensor("x", "f32", [1, 9, 8, 8])], **(POOL | attributes)).shape == expected


@pytest.mark.parametrize(
    ("kind", "shapes", "attributes", "expected"),
    [
        ("LayerNorm", [(2, 3, 4)], {}, [(2, 3, 4), (2, 3), (2, 3)]),
        ("LayerNorm", [(2, 3, 4)], {"keep_stats": False}, [(2, 3, 4)]),
        ("LayerNorm", [(2, 3, 4)], {"begin_norm_axis": 1}, [(2, 3, 4), (2,), (2,)]),
        ("GroupNorm", [(2, 4, 5)], {"groups": 2, "data_format": "NCX"}, [(2, 4, 5), (2, 2), (2, 2)]),
        ("GroupNorm", [None], {"groups": 2}, [None, None, None]),
        ("LayerNormBackward", [(2, 3), (2, 3), (2,), (2,), (3,), (3,)], {}, [(2, 3), (3,), (3,)]),
        ("LayerNormBackward", [(2, 3), (2, 3), (2,), (2,)], {"use_affine": False}, [(2, 3)]),
        ("BatchNormForwardTraining", [(2, 5, 3), (3,), (3,)], {"epsilon": 0.1}, [(2, 5, 3), *[(3,)] * 4]),
        ("BatchNormTrainingBackward", [(2, 3, 5), (2, 3, 5), (3,), (3,)], {"epsilon": 0.1}, [(2, 3, 5)]),
        (
            "BatchNormTrainingBackward",
            [(2, 3, 5), (2, 3, 5), (3,), (3,), (3,)],
            {"epsilon": 0.1, "data_format": "NCX"},
            [(2, 3, 5), (3,), (3,)],
        ),
        ("PReLUBackward", [(2, 3), (3,), (2, 3)], {}, [(2, 3), (3,)]),
        ("Wildcard", [(2, 3)], {}, [None]),
    ],
)
def test_all_results_are_made(kind: str, shapes: list[Any], attributes: dict[str, Any], expected: list[Any]) -> None:
    g = onednn.Graph()
    g.op(kind, [g.tensor(f"x{i}", "f32", shape) for i, shape in enumerate(shapes)], name="n", **attributes)
    made = g.ops[-1].outputs
    assert [tensor.shape for tensor in made] == expected
    assert {tensor.dtype for tensor in made} == {"f32"}
    assert made[0].name == "n"
    assert all(tensor.name.startswith("n_") for tensor in made[1:])


def test_results_that_are_optional_are_made_on_demand() -> None:
    g = onednn.Graph()
    x = g.tensor("x", "bf16", [2, 3])
    g.op("SoftMax", [x], results=2, axis=1)
    assert [(tensor.shape, tensor.dtype) for tensor in g.ops[-1].outputs] == [((2, 3), "bf16"), ((2, 1), "f32")]
    scalars = [g.tensor(name, dtype, []) for name, dtype in (("s", "s64"), ("o", "s64"), ("p", "f32"))]
    g.op("Dropout", [x, *scalars], results=2)
    assert [(tensor.shape, tensor.dtype) for tensor in g.ops[-1].outputs] == [((2, 3), "bf16"), ((2, 3), "u8")]


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"Wildcard"}))
def test_lowerings_take_the_attributes_of_their_kinds(kind: str) -> None:
    lowering = FRONTEND.registry.find(kind, 1)
    assert lowering is not None
    required = {name: default is inspect.Parameter.empty for name, (_, default) in lowering.attributes.items()}
    assert required == KINDS[kind].attributes


def test_types_of_results() -> None:
    g = onednn.Graph()
    x = g.tensor("x", "f32", [2])
    assert g.op("GreaterEqual", [x, x]).dtype == "boolean"
    assert g.op("GenIndex", [x], axis=0).dtype == "s32"
    assert g.op("TypeCast", [x], dtype="bf16").dtype == "bf16"
    q = g.op("Quantize", [x], dtype="s8", scales=[1])
    assert g.op("Dequantize", [q], scales=[1]).dtype == "f32"
    assert g.op("DynamicDequantize", [q, g.tensor("scale", "f16", [1])]).dtype == "f16"


def test_numpy_numbers_are_numbers() -> None:
    g = onednn.Graph()
    x = g.tensor("x", "f32", np.array([2, 3]))
    g.op("StaticTranspose", [x], order=np.array([1, 0]))
    g.op("Elu", [x], alpha=np.float32(0.5))
    assert [op.attributes for op in g.ops] == [{"order": (1, 0)}, {"alpha": 0.5}]
    json.loads(g.to_json())


def test_names_of_results_are_unique() -> None:
    g = onednn.Graph()
    x = g.tensor("relu", "f32", [2])
    names = [g.op("ReLU", [x], name=name).name for name in ("relu", "relu", "7", "", "ok")]
    assert names == ["relu_2", "relu_3", "7_out", "_out", "ok"]


def test_further_results_and_outputs_in_the_middle() -> None:
    g = onednn.Graph()
    x = g.tensor("x", "f32", [2, 3])
    stats = [g.tensor("dst", "f32", [2, 3]), g.tensor("stats", "f32", [2, 1])]
    assert g.op("SoftMax", [x], outputs=stats, axis=1) is stats[0]
    assert g.ops[-1].outputs == tuple(stats)
    y = g.op("ReLU", [stats[0]])
    assert g.outputs == (stats[1], y)
    g.end(stats[0])
    assert g.outputs == (*stats, y)


@pytest.mark.parametrize(
    ("build", "problem"),
    [
        (lambda g, x: g.tensor("x", "f32", [1]), "is taken"),
        (lambda g, x: g.tensor("12", "f32", [1]), "a number"),
        (lambda g, x: g.tensor("y", "float32", [1]), "allowed: f32"),
        (lambda g, x: g.tensor("y", "f32", [-1]), "none negative"),
        (lambda g, x: g.tensor("y", "f32", [1] * 13), "up to 12"),
        (lambda g, x: g.tensor("y", "f32", [None]), "unknown rank"),
        (lambda g, x: g.op("Relu", [x]), "allowed: Abs"),
        (lambda g, x: g.op("End", [x]), "not one that computes"),
        (lambda g, x: g.op("ReLU", [x, x]), "has 2 inputs; allowed: src"),
        (lambda g, x: g.op("Add", [x]), "has 1 inputs; allowed: src_0, src_1"),
        (lambda g, x: g.op("ReLU", [x], outputs=[]), "has 0 outputs"),
        (lambda g, x: g.op("ReLU", [x], results=2), "has 2 outputs; allowed: dst"),
        (lambda g, x: g.op("SoftMax", [x], results=0), "has 0 outputs"),
        (lambda g, x: g.op("Quantize", [x], scales=[1]), "Quantize needs dtype"),
        (lambda g, x: g.op("ReLU", [x], outputs=[g.op("ReLU", [x])]), "computed already"),
        (lambda g, x: g.op("SoftMax", [x], outputs=[g.tensor("y", "f32", [2, 2])] * 2, axis=1), "computed already"),
        (lambda g, x: g.op("ReLU", [onednn.Graph().tensor("y", "f32", [2, 2])]), "'y' is not of this graph"),
        (lambda g, x: g.op("ReLU", [x], outputs=[onednn.Graph().tensor("y", "f32", [2, 2])]), "not of this graph"),
        (lambda g, x: g.op("Add", [x, None]), "None is not a tensor of this graph"),
        (lambda g, x: g.end(onednn.Graph().tensor("x", "f32", [3])), "'x' is not of this graph"),
        (lambda g, x: g.op("ReLU", [x], axis=1), "ReLU has no attribute axis; allowed: none"),
        (lambda g, x: g.op("Elu", [x]), "lacks its required attributes alpha"),
        (lambda g, x: g.op("Elu", [x], alpha="1"), "alpha: '1' is not a finite"),
        (lambda g, x: g.op("Elu", [x], alpha=float("nan")), "nan is not a finite"),
        (lambda g, x: g.op("Concat", [x], axis=2**63), "is not a 64-bit integer"),
        (lambda g, x: g.op("StaticTranspose", [x], order="01"), "not of type s64[]"),
        (lambda g, x: g.op("StaticTranspose", [x], order=[0, 1.0]), "1.0 is not a 64-bit integer"),
        (lambda g, x: g.op("MatMul", [x, x], transpose_a=1), "not of type bool"),
        (lambda g, x: g.op("GELU", [x], mode=b"tanh"), "not of type string"),
    ],
)
def test_misuse_is_a_value_error_that_says_what_is_allowed(build: Any, problem: str) -> None:
    g = onednn.Graph()
    x = g.tensor("x", "f32", [2, 2])
    with pytest.raises(ValueError, match=re.escape(problem)):
        build(g, x)


def test_the_data_of_constants_is_given_when_converting() -> None:
    data = np.arange(4 * 4 * 32 * 64, dtype=np.float32).reshape(4, 4, 32, 64)
    model = ortconv.convert(upsampling(), tensors={"weights": data})
    assert [value.name for value in model.graph.input] == ["diff_dst"]

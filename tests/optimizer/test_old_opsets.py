"""Models of opset 7 to 12, and outputs without a shape: what ONNX Runtime computes stays, or it is refused."""

from __future__ import annotations

import dataclasses
import itertools
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.defs
import onnx.parser
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import ortconv
from ortconv.optimizer import optimization
from ortconv.optimizer.opsets import upgraded
from tests.command_line import run_cli
from tests.optimizer.models import CT, op_types, parsed, rand, stock
from tests.running import run

X = np.random.default_rng(1).standard_normal((2, 3, 4, 5)).astype(np.float32)
ENDLESS = np.array([[np.inf, -np.inf, 3.4e38, 1, np.nan, -5]], np.float32)
PARAMETERS = {name: np.linspace(0.5, 1.5, 3).astype(np.float32) for name in ("scale", "bias", "mean", "var")}


@dataclasses.dataclass(frozen=True)
class Case:
    """One node, the opsets that have its form, its data and constants."""

    op_type: str
    opsets: range
    attributes: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    constants: Mapping[str, np.ndarray] = dataclasses.field(default_factory=dict)
    data: np.ndarray = dataclasses.field(default_factory=lambda: X)
    outputs: int = 1

    def __str__(self) -> str:
        return f"{self.op_type} {dict(self.attributes)} {self.opsets.start}"


ALL = range(7, 13)
SCALES = ([1, 1, 2, 2], [1, 1, 2.5, 1.7], [1, 1, 1, 1.3])
SMALLER = ([1, 1, 0.5, 0.6], [1, 1, 0.3, 2])
MODES = ("nearest", "linear")
CASES = [
    *(Case(op, ALL, {"axis": axis}) for op in ("Softmax", "LogSoftmax") for axis in range(4)),
    Case("Softmax", range(11, 13), {"axis": -3}),
    Case("Softmax", ALL),
    Case("Hardmax", range(11, 13), {"axis": -1}),
    *(
        Case("Clip", range(7, 11), bounds, data=ENDLESS)
        for bounds in ({}, {"min": 0.0}, {"max": 2.0}, {"min": -1.0, "max": 6.0})
    ),
    Case("Clip", range(11, 13), {}, {"min": np.array(0, np.float32)}, ENDLESS),
    *(
        Case("Pad", range(7, 11), {"pads": [0, 0, 1, 2, 0, 0, 1, 0], "mode": mode, **value})
        for mode in ("constant", "reflect", "edge")
        for value in ({}, {"value": 1.5})
    ),
    Case("Pad", range(7, 11), {"pads": [0, 0, -1, 2, 0, 0, 1, 0]}),
    Case("Slice", range(7, 10), {"starts": [1, -3], "ends": [1000, -1], "axes": [2, 3]}),
    Case("Slice", range(7, 10), {"starts": [0, 1], "ends": [2, 2**31 - 1]}),
    Case("TopK", range(7, 10), {"k": 2, "axis": 1}, outputs=2),
    Case("TopK", range(10, 13), {}, {"k": np.array([2])}, outputs=2),
    Case("Dropout", range(7, 12), {"ratio": 0.3}),
    Case("Dropout", range(7, 12)),
    Case("Dropout", range(12, 13), outputs=2),
    Case("BatchNormalization", ALL, {"epsilon": 0.1}, PARAMETERS),
    Case("BatchNormalization", range(7, 9), {"spatial": 1}, PARAMETERS),
    Case("ReduceSum", ALL, {"axes": [1, 2], "keepdims": 0}),
    Case("ReduceSum", ALL),
    Case("ReduceSum", range(11, 13), {"axes": [-1]}),
    Case("ReduceMean", ALL, {"axes": [1]}),
    Case("Split", ALL, {"axis": 2}, outputs=2),
    Case("Split", ALL, {"axis": 3, "split": [1, 4]}, outputs=2),
    Case("Squeeze", ALL, {"axes": [0, 2]}, data=X[:1, :, :1]),
    Case("Squeeze", ALL, data=X[:1, :, :1]),
    Case("Unsqueeze", ALL, {"axes": [0, 3]}),
    Case("MaxPool", ALL, {"kernel_shape": [2, 2], "strides": [2, 1], "pads": [1, 0, 0, 1]}),
    Case("AveragePool", ALL, {"kernel_shape": [2, 2], "pads": [1, 0, 0, 1]}),
    Case("AveragePool", ALL, {"kernel_shape": [2, 2], "pads": [1, 0, 0, 1], "count_include_pad": 1}),
    Case("DepthToSpace", ALL, {"blocksize": 2}, data=X.reshape(1, 4, 6, 5)),
    Case("ArgMax", ALL, {"axis": 2}, data=np.round(X)),
    Case("ArgMin", ALL, {"axis": 2}, data=np.round(X)),
    Case("Gemm", ALL, {"alpha": 0.5, "beta": 2.0}, {"b": X[0, 0].T.copy(), "c": X[0, 0, 0, :4]}, X[1, 1]),
    Case("GatherND", range(11, 13), {}, {"i": np.array([[0, 1], [1, 2]])}),
    Case("QuantizeLinear", range(10, 13), {}, {"s": np.array(0.1, np.float32), "z": np.array(3, np.uint8)}),
    Case(
        "DequantizeLinear",
        range(10, 13),
        {},
        {"s": np.array(0.1, np.float32), "z": np.array(3, np.uint8)},
        np.arange(6, dtype=np.uint8),
    ),
    Case("Scatter", range(9, 11), {"axis": 0}, {"i": np.array([[1, 0, 2]]), "u": X[0, 0, :1, :3]}, X[0, 0, :, :3]),
    *(
        each
        for mode in MODES
        for scales in SCALES
        for each in (
            Case("Upsample", range(7, 9), {"scales": [float(s) for s in scales], "mode": mode}),
            Case("Upsample", range(9, 10), {"mode": mode}, {"s": np.array(scales, np.float32)}),
        )
    ),
    *(
        Case("Resize", range(10, 11), {"mode": mode}, {"s": np.array(scales, np.float32)})
        for mode in MODES
        for scales in (*SCALES, *(SMALLER if mode == "linear" else ()))
    ),
    *(
        Case(
            "Resize",
            range(11, 13),
            {"mode": mode, "coordinate_transformation_mode": rule},
            {"roi": np.zeros(0, np.float32), "s": np.array(scales, np.float32)},
        )
        for mode in MODES
        for rule in ("half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "tf_half_pixel_for_nn")
        for scales in (SCALES[1], SMALLER[0])
    ),
]
UNTRIED = {"Constant", "Scan"}
"""One has more forms than it had, the other's old one is refused."""


def one_node(case: Case, opset: int) -> onnx.ModelProto:
    """A model of a node, of the IR version of its time."""
    ir_version = 3 if opset < 9 else 4
    names = list(case.constants)
    node = helper.make_node(
        case.op_type, ["x", *names], [f"y{i}" for i in range(case.outputs)], name="n", **case.attributes
    )
    given = {"x": case.data, **(case.constants if ir_version < 4 else {})}
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape) for n, a in given.items()],
        [helper.make_empty_tensor_value_info(name) for name in node.output],
        [numpy_helper.from_array(array, name) for name, array in case.constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=ir_version)
    return onnx.shape_inference.infer_shapes(model)


def assert_exactly_the_same(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> onnx.ModelProto:
    before = model.SerializeToString(deterministic=True)
    newer = upgraded(model, "m")
    assert model.SerializeToString(deterministic=True) == before
    assert next(entry.version for entry in newer.opset_import if not entry.domain) == 13
    onnx.checker.check_model(newer, full_check=True)
    for right, got in zip(stock(model, feeds), stock(newer, feeds), strict=True):
        assert (got.dtype, got.shape) == (right.dtype, right.shape)
        np.testing.assert_array_equal(got, right)
    return newer


@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_number_stays(case: Case) -> None:
    for opset in case.opsets:
        assert_exactly_the_same(one_node(case, opset), {"x": case.data})


def test_every_op_whose_form_changed_is_tried() -> None:
    def form(schema: Any) -> Any:
        return (
            [(each.name, each.option) for each in schema.inputs],
            [(each.name, each.option) for each in schema.outputs],
            sorted((each.name, each.required, str(each.default_value)) for each in schema.attributes.values()),
        )

    forms: dict[str, dict[int, Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain and schema.since_version <= 13:
            forms.setdefault(schema.name, {})[schema.since_version] = schema
    changed = set()
    for name, history in forms.items():
        versions = sorted(history)
        for old, new in itertools.pairwise(versions):
            if new > 7 and (history[new].deprecated or form(history[old]) != form(history[new])):
                changed.add(name)
    assert changed - {case.op_type for case in CASES} == UNTRIED


@pytest.mark.parametrize(
    ("case", "where", "problem"),
    [
        (
            Case(
                "BatchNormalization", range(7, 9), {"spatial": 0}, {n: np.ones(X.shape[1:], np.float32) for n in "abcd"}
            ),
            "BatchNormalization n",
            "spatial = 0",
        ),
        (Case("Dropout", range(7, 12), outputs=2), "Dropout n", "mask"),
        (Case("Hardmax", ALL, {"axis": 1}), "Hardmax n", "all axes from axis on"),
        (Case("Hardmax", ALL), "Hardmax n", "all axes from axis on"),
        *(
            (Case("Resize", range(10, 11), {}, {"s": np.array(scales, np.float32)}), "Resize n", "rounds up")
            for scales in SMALLER
        ),
    ],
    ids=str,
)
def test_what_would_change_is_refused_by_name(case: Case, where: str, problem: str) -> None:
    for opset in case.opsets:
        model = one_node(case, opset)
        with pytest.raises(ortconv.ModelFormatError) as caught:
            upgraded(model, "m.onnx")
        assert (caught.value.path, caught.value.where) == ("m.onnx", where)
        assert problem in caught.value.problem


def test_scans_of_opset_8_are_refused() -> None:
    model = parsed("g (float[1,2] x) => (float[1,2] y) { y = Scan (, x) }", opset=8, ir=3)
    with pytest.raises(ortconv.ModelFormatError, match="Scan y: takes sequence_lens"):
        upgraded(model, "m")


def test_sizes_that_callers_give_are_refused() -> None:
    model = one_node(Case("Resize", range(10, 11), {}, {"s": np.array([1, 1, 2, 2], np.float32)}), 10)
    model.graph.input.append(helper.make_tensor_value_info("s", onnx.TensorProto.FLOAT, [4]))
    with pytest.raises(ortconv.ModelFormatError, match="Resize n: rounds up"):
        upgraded(model, "m")


def test_bodies_are_converted_too() -> None:
    text = """g (float[1,2,4] x, bool c) => (float[1,2,4] y) { y = If (c) <
        then_branch = a () => (float[1,2,4] t) { t = Softmax <axis = 1> (x) },
        else_branch = b () => (float[1,2,4] u) { u = Relu (x) }> }"""
    for take in (True, False):
        assert_exactly_the_same(parsed(text, opset=11, ir=6), {"x": rand(1, 2, 4), "c": np.array(take)})


def test_bodies_read_what_the_converter_renames() -> None:
    text = """g (float[1,1,2,4] x, bool c) => (float[1,1,4,8] y) {
        s = Constant <value = float[4] {1, 1, 2, 2}> () u = Upsample (x, s) y = If (c) <
        then_branch = a () => (float[1,1,4,8] t) { t = Tanh (u) },
        else_branch = b () => (float[1,1,4,8] v) { v = Relu (u) }> }"""
    for take in (True, False):
        assert_exactly_the_same(parsed(text, opset=9, ir=4), {"x": rand(1, 1, 2, 4), "c": np.array(take)})


def test_what_the_converter_would_lose() -> None:
    model = parsed("g (float[2] x) => (float[2] y) { y = com.microsoft.Gelu (x) }", opset=11, ir=6)
    model.graph.node[0].domain = "com.microsoft"
    model.opset_import.add(domain="com.microsoft", version=1)
    model.producer_name, model.producer_version, model.domain, model.model_version = "p", "1", "d", 3
    helper.set_model_props(model, {"key": "value"})
    newer = assert_exactly_the_same(model, {"x": rand(2)})
    for field in ("producer_name", "producer_version", "domain", "model_version", "metadata_props"):
        assert getattr(newer, field) == getattr(model, field)
    other = parsed("g (float[2] x) => (float[2] y) { y = Relu (x) }", opset=11, ir=6)
    other.graph.value_info.append(helper.make_tensor_sequence_value_info("s", onnx.TensorProto.FLOAT, None))
    with pytest.raises(ortconv.ModelFormatError, match="value s: is no tensor"):
        upgraded(other, "m")
    other = parsed("g (float[2] x) => (float[2] y) { y = Sideways (x) }", opset=9, ir=4)
    with pytest.raises(ortconv.ModelFormatError, match="cannot be converted to 13"):
        upgraded(other, "m")


GENERATOR = """g (float[N,4,H,W] x{}) => (float[N,3,P,Q] y) {{
    u = Upsample <mode = "linear", scales = [1.0, 1.0, 1.5, 1.5]> (x)
    p = Pad <pads = [0, 0, 1, 0, 0, 0, 0, 1]> (u)
    c = ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1]> (p, w)
    n = BatchNormalization (c, s, s, m, v)
    r = Relu (n)
    d = ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1]> (r, k, b)
    a = Clip <min = 0.0, max = 6.0> (d)
    y = Slice <axes = [2], starts = [1], ends = [-1]> (a)
}}"""


@pytest.mark.parametrize(("opset", "ir"), [(7, 3), (8, 3), (8, 4)])
def test_a_generator_of_its_time(opset: int, ir: int, tmp_path: pathlib.Path) -> None:
    weights = {"w": rand(4, 6, 4, 4), "k": rand(6, 3, 4, 4), "b": rand(3)}
    weights |= {"s": rand(6), "m": rand(6), "v": np.linspace(1, 2, 6).astype(np.float32)}
    listed = "".join(f", float[{','.join(map(str, array.shape))}] {name}" for name, array in weights.items())
    model = parsed(GENERATOR.format(listed if ir < 4 else ""), opset=opset, ir=ir, **weights)
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    onnx.save(copy, tmp_path / "old.onnx", save_as_external_data=True, location="old.bin", size_threshold=100)
    result = run_cli("optimize", tmp_path / "old.onnx", "-o", tmp_path / "new.onnx")
    assert result.exit_code == 0, result.stderr
    new = onnx.load(tmp_path / "new.onnx")
    onnx.checker.check_model(new, full_check=True)
    types = op_types(new.graph)
    assert types.count(CT) == 2
    assert not {"BatchNormalization", "Relu", "Clip", "Slice"} & set(types)
    assert [value.name for value in new.graph.input] == ["x"]
    feeds = {"x": rand(2, 4, 3, 2)}
    (right,) = stock(model, feeds)
    for way in ("native", "none"):
        (got,) = run(new, feeds, way)
        np.testing.assert_allclose(got, right, rtol=1e-4, atol=1e-5)


def test_a_model_that_nothing_is_rewritten_in_stays_what_it_was() -> None:
    text = "g (double[1,2,4] x) => (double[1,3,P] y) { c = ConvTranspose (x, w) y = Softmax (c) }"
    model = parsed(text, opset=11, ir=6, w=rand(2, 3, 3).astype(np.float64))
    done = optimization(model)
    assert "its element type is DOUBLE" in done.outcomes[0].reason
    got = done.to_proto()
    assert (got.opset_import, got.graph.node, got.ir_version) == (model.opset_import, model.graph.node, 6)


@pytest.mark.parametrize("opset", [11, 21])
@pytest.mark.parametrize("tail", ["y = Relu (c)", "y = Reshape (c, shape)"])
def test_outputs_without_a_shape(tail: str, opset: int, tmp_path: pathlib.Path) -> None:
    text = f"""g (float[1,2,L] x, int64[K] shape) => (float[1] y) {{
        c = ConvTranspose <strides = [2], auto_pad = "SAME_UPPER", output_padding = [1]> (x, w) {tail} }}"""
    model = parsed(text, opset=opset, ir=7, w=rand(2, 3, 3))
    model.graph.output[0].type.tensor_type.ClearField("shape")
    onnx.save(model, tmp_path / "bare.onnx")
    result = run_cli("optimize", tmp_path / "bare.onnx", "-o", tmp_path / "new.onnx")
    assert result.exit_code == 0, result.stderr
    new = onnx.load(tmp_path / "new.onnx")
    assert CT in op_types(new.graph)
    known = new.graph.output[0].type.tensor_type.HasField("shape")
    assert known == ("Relu" in tail)
    if known:
        ortconv.check(tmp_path / "new.onnx")
    feeds = {"x": rand(1, 2, 5), "shape": np.array([-1, 3])}
    session = onnxruntime.InferenceSession(tmp_path / "bare.onnx", providers=["CPUExecutionProvider"])
    used = {value.name: feeds[value.name] for value in session.get_inputs()}
    (right,) = session.run(None, used)
    for way in ("native", "none"):
        np.testing.assert_allclose(run(new, used, way)[0], right, rtol=1e-5, atol=1e-5)

"""Verifying conversions and models against the float64 reference and OpenVINO, wrong models included."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest

import ortconv
from ortconv.api import detect
from ortconv.errors import ExecutionError
from ortconv.verification import Verification
from ortconv.verification.compare import default_tolerance
from tests.command_line import activation, upsampling

NONE: tuple[Any, ...] = ("none",)


def test_default_tolerance_follows_the_narrowest_computed_type() -> None:
    def tolerance(dtype: str) -> float:
        source = activation(dtype)
        allowed = default_tolerance(detect(source).read(source, {}), ir.DataType.DOUBLE)
        assert allowed.of(np.zeros(1, np.int8)) == 0.0
        return allowed.of(np.zeros(1, np.float32))

    assert tolerance("f32") == 2e-5
    assert tolerance("f16") == 5 * 2**-10
    assert tolerance("bf16") == 5 * 2**-7


@pytest.mark.parametrize("backends", [("gpu",), ("native", "None")])
def test_unknown_backend_is_refused_also_where_no_operator_of_ours_needs_one(backends: tuple[Any, ...]) -> None:
    with pytest.raises(ValueError, match=rf"backend '{backends[-1]}' is unknown; allowed: native, python, none"):
        ortconv.verify(activation(), shapes={"x": [1, 2, 3]}, backends=backends)


def test_no_backend_is_refused() -> None:
    with pytest.raises(ValueError, match="backends is empty; allowed: some of native, python, none"):
        ortconv.verify(activation(), shapes={"x": [1, 2, 3]}, backends=())


def saved(source: object, path: pathlib.Path, change: Callable[[onnx.ModelProto], None] = lambda model: None) -> str:
    """Converts a source, changes the model, and returns the file."""
    model = ortconv.conversion(source).to_proto()
    change(model)
    onnx.save(model, path)
    return str(path)


class TestOneDnnVerification:
    def test_conversion_agrees(self) -> None:
        found = ortconv.verify(upsampling(), backends=NONE, layers=True)
        assert isinstance(found, Verification)
        assert found.agrees
        assert (found.oracle, found.semantics, found.model) == ("float64 reference", "spec", "")
        assert [layer.node.op_type for layer in found.layers] == ["ConvolutionBackwardData", "ReLU", "Sigmoid"]
        assert found.first_difference is None

    def test_runtime_semantics_agree_with_themselves_and_not_with_spec(self, tmp_path: pathlib.Path) -> None:
        assert ortconv.verify(upsampling(), semantics="runtime", backends=NONE).agrees
        model = saved(upsampling(), tmp_path / "spec.onnx")
        assert ortconv.verify(upsampling(), model, backends=NONE).semantics == "spec"
        assert not ortconv.verify(upsampling(), model, semantics="runtime", backends=NONE).agrees

    def test_wrong_model_differs_and_the_first_layer_is_named(self, tmp_path: pathlib.Path) -> None:
        model = saved(upsampling("SAME_LOWER"), tmp_path / "wrong.onnx")
        found = ortconv.verify(upsampling("SAME_UPPER"), model, backends=NONE, layers=True)
        assert not found.agrees
        first = found.first_difference
        assert first is not None
        assert first.node.op_type == "ConvolutionBackwardData"
        assert first.comparison.wrong > 0

    def test_difference_behind_good_layers_is_found(self, tmp_path: pathlib.Path) -> None:
        def scale(model: onnx.ModelProto) -> None:
            (node,) = (node for node in model.graph.node if node.op_type == "Sigmoid")
            node.op_type = "HardSigmoid"

        found = ortconv.verify(
            upsampling(), saved(upsampling(), tmp_path / "m.onnx", scale), backends=NONE, layers=True
        )
        assert not found.agrees
        assert [layer.comparison.agrees for layer in found.layers] == [True, True, False]
        assert found.first_difference is not None
        assert found.first_difference.node.op_type == "Sigmoid"

    def test_nan_in_the_model_alone_differs(self, tmp_path: pathlib.Path) -> None:
        def poison(model: onnx.ModelProto) -> None:
            output = model.graph.output[0].name
            (node,) = (node for node in model.graph.node if output in node.output)
            node.output[0] = "before"
            model.graph.node.append(onnx.helper.make_node("Sub", ["before", "before"], ["zero"]))
            model.graph.node.append(onnx.helper.make_node("Div", ["zero", "zero"], [output]))

        found = ortconv.verify(upsampling(), saved(upsampling(), tmp_path / "m.onnx", poison), backends=NONE)
        (comparison,) = found.outputs["none"]
        assert comparison.wrong == 128

    def test_another_shape_is_reported(self, tmp_path: pathlib.Path) -> None:
        def flatten(model: onnx.ModelProto) -> None:
            output = model.graph.output[0]
            (node,) = (node for node in model.graph.node if output.name in node.output)
            node.output[0] = "before"
            model.graph.node.append(onnx.helper.make_node("Flatten", ["before"], [output.name]))
            output.type.tensor_type.ClearField("shape")
            output.type.CopyFrom(onnx.helper.make_tensor_type_proto(1, [1, 128]))

        found = ortconv.verify(upsampling(), saved(upsampling(), tmp_path / "m.onnx", flatten), backends=NONE)
        assert found.outputs["none"][0].problem == "shape [1, 128] instead of [1, 8, 8, 2]"

    def test_tolerance_of_zero_finds_rounding(self) -> None:
        assert not ortconv.verify(upsampling(), tolerance=0.0, backends=NONE).agrees

    def test_model_with_other_inputs_is_refused(self, tmp_path: pathlib.Path) -> None:
        model = saved(activation(), tmp_path / "other.onnx")
        with pytest.raises(ExecutionError, match=r"inputs x; the source has w, x\."):
            ortconv.verify(upsampling(), model, backends=NONE)

    def test_every_backend_agrees(self) -> None:
        source = upsampling()
        pytest.importorskip("onnxruntime_extensions", reason="the Python ops need onnxruntime-extensions")
        found = ortconv.verify(source, target="plugin", backends=("native", "python", "none"))
        assert found.agrees
        assert set(found.outputs) == {"native", "python", "none"}

    def test_backend_that_cannot_run_is_skipped_unless_it_is_the_only_one(
        self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("ORTCONV_LIBRARY", str(tmp_path / "missing.so"))
        found = ortconv.verify(upsampling(), target="plugin")
        assert set(found.outputs) == {"none"}
        assert "not a file" in found.skipped["native"]
        with pytest.raises(ortconv.PluginError):
            ortconv.verify(upsampling(), target="plugin", backends=("native",))


class TestOpenVinoVerification:
    @pytest.fixture
    def network(self, tmp_path: pathlib.Path) -> pathlib.Path:
        openvino = pytest.importorskip("openvino", reason="OpenVINO is the oracle")
        op = pytest.importorskip("openvino.opset13")
        x = op.parameter([-1, 4, -1, -1], openvino.Type.f32, name="x")
        weights = np.random.default_rng(0).standard_normal((4, 2, 3, 3)).astype(np.float32)
        shape = op.constant(np.array([9, 10], np.int64))
        up = op.convolution_backprop_data(x, op.constant(weights), [2, 2], shape, name="up")
        relu = op.relu(up, name="relu")
        path = tmp_path / "network.xml"
        openvino.save_model(
            openvino.Model([relu, op.sigmoid(relu, name="s")], [x], "net"), path, compress_to_fp16=False
        )
        return path

    SHAPES = {"x": [1, 4, 5, 5]}  # noqa: RUF012

    def test_conversion_agrees_with_openvino(self, network: pathlib.Path) -> None:
        found = ortconv.verify(network, shapes=self.SHAPES, backends=NONE, layers=True)
        assert found.agrees
        assert found.oracle.startswith("OpenVINO")
        assert found.semantics == "runtime"
        assert [layer.node.name for layer in found.layers] == ["up", "relu", "s"]
        assert found.warnings == ()

    @pytest.mark.parametrize(
        ("element", "precision"), [("f16", "FP16"), ("i64", "I64"), ("u8", "U8"), ("boolean", "BOOL")]
    )
    def test_types_that_openvino_reads_otherwise_in_version_10(
        self, tmp_path: pathlib.Path, element: str, precision: str
    ) -> None:
        pytest.importorskip("openvino", reason="OpenVINO is the oracle")
        port = f'precision="{precision}"><dim>2</dim><dim>3</dim></port>'
        (tmp_path / "old.xml").write_text(
            f"""<?xml version="1.0"?>
<net name="old" version="10"><layers>
<layer id="0" name="x" type="Parameter" version="opset1">
<data element_type="{element}" shape="2,3"/><output><port id="0" {port}</output></layer>
<layer id="1" name="y" type="ShuffleChannels" version="opset1"><data axis="0" group="2"/>
<input><port id="0" {port}</input><output><port id="1" {port}</output></layer>
<layer id="2" name="r" type="Result" version="opset1"><input><port id="0" {port}</input></layer>
</layers><edges><edge from-layer="0" from-port="0" to-layer="1" to-port="0"/>
<edge from-layer="1" from-port="1" to-layer="2" to-port="0"/></edges></net>"""
        )
        found = ortconv.verify(tmp_path / "old.xml", backends=NONE, layers=True)
        assert found.agrees
        assert [layer.comparison.agrees for layer in found.layers] == [True]

    def test_model_object_verifies_like_its_file(self, network: pathlib.Path) -> None:
        import openvino

        model = openvino.Core().read_model(network)
        found = ortconv.verify(model, shapes=self.SHAPES, backends=NONE)
        assert found.agrees
        assert len(model.outputs) == 2

    def test_spec_model_differs_with_a_warning_that_says_why(
        self, network: pathlib.Path, tmp_path: pathlib.Path
    ) -> None:
        model = saved(network, tmp_path / "spec.onnx")
        found = ortconv.verify(network, model, shapes=self.SHAPES, backends=NONE, layers=True)
        assert found.semantics == "spec"
        assert not found.agrees
        assert found.first_difference is not None
        assert found.first_difference.node.name == "up"
        (warning,) = found.warnings
        assert "'up'" in warning

    def test_warnings_that_follow_openvino_explain_no_difference(self, tmp_path: pathlib.Path) -> None:
        openvino = pytest.importorskip("openvino", reason="OpenVINO is the oracle")
        x = openvino.opset13.parameter([4], np.int32, name="x")
        divided = openvino.opset13.divide(x, openvino.opset13.constant(np.int32([3, -3, 5, 7])))
        openvino.save_model(openvino.Model([divided], [x], "divided"), tmp_path / "divided.xml")
        conversion = ortconv.conversion(tmp_path / "divided.xml")
        assert len(conversion.warnings) == 1
        conversion.save(tmp_path / "divided.onnx")
        found = ortconv.verify(tmp_path / "divided.xml", tmp_path / "divided.onnx", backends=NONE)
        assert found.semantics == "spec"
        assert found.warnings == ()

    def test_openvino_missing_is_said(self, network: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(__import__("sys").modules, "openvino", None)
        with pytest.raises(ExecutionError) as caught:
            ortconv.verify(network, shapes=self.SHAPES, backends=NONE)
        assert caught.value.runtime == "OpenVINO"
        assert "ortconv[openvino]" in caught.value.hint

    def test_products_by_compressed_weights_are_compared_as_floats(self, tmp_path: pathlib.Path) -> None:
        """By default, OpenVINO rounds to 8 bits what is multiplied by them."""
        openvino = pytest.importorskip("openvino", reason="OpenVINO is the oracle")
        op = pytest.importorskip("openvino.opset13")
        x = op.parameter([4, 256], openvino.Type.f32, name="x")
        numbers = np.random.default_rng(0).integers(-127, 128, (64, 256)).astype(np.int8)
        weights = op.convert(op.constant(numbers), openvino.Type.f32)
        scaled = op.multiply(weights, op.constant(np.full((64, 1), 0.01, np.float32)))
        path = tmp_path / "compressed.xml"
        openvino.save_model(
            openvino.Model([op.matmul(x, scaled, False, True)], [x], "net"), path, compress_to_fp16=False
        )
        assert ortconv.verify(path, backends=NONE).agrees

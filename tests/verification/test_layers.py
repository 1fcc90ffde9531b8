"""Comparing layer by layer, each on the source's own intermediate results; quantised models."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnx
import pytest

import ortconv
from ortconv.model_io.input_data import Array
from ortconv.verification.openvino import OpenVinoRuntime
from ortconv.verification.oracle import Results
from tests.command_line import run_cli, upsampling
from tests.verification.test_verify import NONE, saved

FEEDS = {"x": np.random.default_rng(1).standard_normal((2, 3, 8, 8)).astype(np.float32)}


def after(model: onnx.ModelProto, op_type: str, *nodes: tuple[str, list[str]]) -> None:
    """Puts nodes, each the op type and its further inputs, behind the only node of a type."""
    (node,) = (node for node in model.graph.node if node.op_type == op_type)
    name = node.output[0]
    current = node.output[0] = f"{name}.before"
    for index, (kind, further) in enumerate(nodes):
        target = name if index == len(nodes) - 1 else f"{name}.{index}"
        model.graph.node.insert(
            list(model.graph.node).index(node) + 1 + index, onnx.helper.make_node(kind, [current, *further], [target])
        )
        current = target


class TestLayers:
    def test_layer_behind_a_wrong_one_agrees(self, tmp_path: pathlib.Path) -> None:
        model = saved(upsampling(), tmp_path / "m.onnx", lambda model: after(model, "Relu", ("Neg", [])))
        found = ortconv.verify(upsampling(), model, backends=NONE, layers=True)
        assert not found.agrees
        assert [layer.comparison.agrees for layer in found.layers] == [True, False, True]
        assert found.first_difference is not None
        assert found.first_difference.node.op_type == "ReLU"

    def test_names_that_end_as_ours_would_are_kept_apart(self, tmp_path: pathlib.Path) -> None:
        def add(model: onnx.ModelProto) -> None:
            (node,) = (node for node in model.graph.node if node.op_type == "Relu")
            one = onnx.numpy_helper.from_array(np.ones((), np.float32), f"{node.output[0]}.computed")
            after(model, "Relu", ("Mul", [one.name]))
            model.graph.initializer.append(one)

        model = saved(upsampling(), tmp_path / "m.onnx", add)
        assert ortconv.verify(upsampling(), model, backends=NONE, layers=True).agrees

    def test_result_of_another_shape_is_passed_on_as_the_model_has_it(self, tmp_path: pathlib.Path) -> None:
        def flatten(model: onnx.ModelProto) -> None:
            after(model, "Relu", ("Flatten", []))
            after(model, "Sigmoid", ("MatMul", ["identity"]), ("Reshape", ["shape"]))
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.eye(128, dtype=np.float32), "identity"))
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([1, 8, 8, 2]), "shape"))
            del model.graph.value_info[:]

        found = ortconv.verify(
            upsampling(), saved(upsampling(), tmp_path / "m.onnx", flatten), backends=NONE, layers=True
        )
        assert found.agrees
        assert [layer.comparison.problem for layer in found.layers] == [
            "",
            "shape [1, 128] instead of [1, 8, 8, 2]",
            "",
        ]


@pytest.fixture
def quantized(tmp_path: pathlib.Path) -> pathlib.Path:
    """Two convolutions of quantised data by quantised weights."""
    openvino = pytest.importorskip("openvino", reason="OpenVINO is the oracle")
    op = pytest.importorskip("openvino.opset13")
    rng = np.random.default_rng(0)

    def rounded(data: Any, bound: float, levels: int, name: str) -> Any:
        bounds = [op.constant(np.float32(each)) for each in (-bound, bound, -bound, bound)]
        return op.fake_quantize(data, *bounds, levels, name=name)

    x = value = op.parameter([2, 3, 8, 8], openvino.Type.f32, name="x")
    for name, channels in (("first", 3), ("second", 4)):
        weights = rounded(op.constant(rng.standard_normal((4, channels, 3, 3)).astype(np.float32)), 3, 255, f"{name}/w")
        value = rounded(value, 4, 256, f"{name}/x")
        value = op.convolution(value, weights, [1, 1], [1, 1], [1, 1], [1, 1], name=name)
    path = tmp_path / "quantized.xml"
    openvino.save_model(openvino.Model([value], [x], "net"), path, compress_to_fp16=False)
    return path


def moved(monkeypatch: pytest.MonkeyPatch, chosen: Callable[[OpenVinoRuntime, bool], bool]) -> None:
    """Lets OpenVINO's outputs be off by a thousandth in chosen runs: of a runtime, with intermediate results or not."""
    run = OpenVinoRuntime.run

    def elsewhere(self: OpenVinoRuntime, feeds: Mapping[str, Array], *, everything: bool) -> Results:
        found = run(self, feeds, everything=everything)
        factor = np.float32(1.001 if chosen(self, everything) else 1)
        return Results(tuple(array * factor for array in found.outputs), found.values)

    monkeypatch.setattr(OpenVinoRuntime, "run", elsewhere)


class TestQuantized:
    def test_layers_agree(self, quantized: pathlib.Path) -> None:
        found = ortconv.verify(quantized, data=FEEDS, backends=NONE, layers=True)
        assert found.agrees
        names = {layer.node.name for layer in found.layers}
        assert names == {"first/x", "second/x", "second"}
        assert all(layer.comparison.agrees for layer in found.layers)

    def test_int8_kernels_may_round_otherwise(self, quantized: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        moved(monkeypatch, lambda runtime, everything: not runtime.title.endswith("without int8 kernels"))
        found = ortconv.verify(quantized, data=FEEDS, backends=NONE)
        assert not found.outputs["none"][0].agrees
        assert found.analysis is not None
        assert found.analysis.oracle.endswith("CPU, float32 without int8 kernels")
        assert found.agrees

    def test_layers_decide_where_rounding_is_magnified(
        self, quantized: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        moved(monkeypatch, lambda runtime, everything: not everything)
        found = ortconv.verify(quantized, data=FEEDS, backends=NONE)
        assert found.analysis is not None
        assert not found.analysis.outputs["none"][0].agrees
        assert len(found.analysis.layers["none"].layers) == 3
        assert found.agrees
        assert found.first_difference is None

    def test_output_that_differs_by_itself_is_found(self, quantized: pathlib.Path, tmp_path: pathlib.Path) -> None:
        def scale(model: onnx.ModelProto) -> None:
            output = model.graph.output[0].name
            (node,) = (node for node in model.graph.node if output in node.output)
            node.output[0] = "before"
            model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(1.001), "factor"))
            model.graph.node.append(onnx.helper.make_node("Mul", ["before", "factor"], [output]))

        found = ortconv.verify(quantized, saved(quantized, tmp_path / "m.onnx", scale), data=FEEDS, backends=NONE)
        assert not found.agrees
        assert found.analysis is not None
        (output,) = found.analysis.layers["none"].outputs
        assert output.spread is not None
        assert output.spread < 1e-4
        assert output.wrong > 400

    def test_wrong_quantisation_is_found(self, quantized: pathlib.Path, tmp_path: pathlib.Path) -> None:
        def shift(model: onnx.ModelProto) -> None:
            node = next(node for node in model.graph.node if node.op_type == "QuantizeLinear")
            (scale,) = (each for each in model.graph.initializer if each.name == node.input[1])
            wrong = onnx.numpy_helper.to_array(scale) * np.float32(1.05)
            model.graph.initializer.append(onnx.numpy_helper.from_array(wrong, "wrong"))
            node.input[1] = "wrong"

        model = saved(quantized, tmp_path / "m.onnx", shift)
        found = ortconv.verify(quantized, model, data=FEEDS, backends=NONE)
        assert not found.agrees
        assert found.first_difference is not None
        assert found.first_difference.node.name == "first/x"

    def test_command_says_what_decided(self, quantized: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        report = quantized.with_suffix(".json")
        moved(monkeypatch, lambda runtime, everything: not everything)
        result = run_cli("verify", quantized, "--backend", "none", "--json", report)
        assert result.exit_code == 0
        assert "OK: the outputs differ by rounding alone: each of 3 intermediate results agrees" in result.stdout
        found = json.loads(report.read_text())
        assert found["agrees"]
        assert not found["outputs"][0]["agrees"]
        assert found["analysis"]["agrees"]
        (inside,) = found["analysis"]["inside"]
        assert (inside["backend"], inside["agree"], len(inside["layers"])) == ("none", True, 3)

        moved(monkeypatch, lambda runtime, everything: "int8" not in runtime.title)
        result = run_cli("verify", quantized, "--backend", "none")
        assert result.exit_code == 0


class TestOutputsThatSayNothing:
    @pytest.fixture
    def detector(self, tmp_path: pathlib.Path) -> pathlib.Path:
        """The places of scores that exceed a threshold, which none does."""
        openvino = pytest.importorskip("openvino", reason="OpenVINO is the oracle")
        op = pytest.importorskip("openvino.opset13")
        x = op.parameter([1, 3, 8, 8], openvino.Type.f32, name="x")
        weights = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
        y = op.convolution(x, op.constant(weights), [1, 1], [1, 1], [1, 1], [1, 1], name="conv")
        places = op.non_zero(op.greater(op.sigmoid(y), op.constant(np.float32(2))), "i64")
        path = tmp_path / "detector.xml"
        openvino.save_model(openvino.Model([places], [x], "net"), path, compress_to_fp16=False)
        return path

    def test_layers_decide(self, detector: pathlib.Path, tmp_path: pathlib.Path) -> None:
        def move(model: onnx.ModelProto) -> None:
            (node,) = (node for node in model.graph.node if node.op_type == "Conv")
            pads = next(each for each in node.attribute if each.name == "pads")
            pads.ints[:] = [0, 0, 2, 2]

        right = ortconv.verify(detector, backends=NONE)
        assert right.vacuous
        assert right.agrees
        assert right.analysis is not None
        assert right.analysis.layers["none"].layers
        wrong = ortconv.verify(detector, saved(detector, tmp_path / "m.onnx", move), semantics="runtime", backends=NONE)
        assert all(comparison.agrees for comparison in wrong.outputs["none"])
        assert not wrong.agrees
        assert wrong.first_difference is not None
        assert wrong.first_difference.node.name == "conv"
        result = run_cli("verify", detector, tmp_path / "m.onnx", "--semantics", "runtime", "--backend", "none")
        assert result.exit_code == 1
        assert "DIFFERS: the outputs say nothing" in result.output


def test_int8_weights_are_a_layer_by_themselves(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime does not load a model in which it converts weights whose dequantized values are an output."""
    monkeypatch.setattr("ortconv.runtime.saturation.saturate", lambda: True)
    op = pytest.importorskip("openvino.opset13", reason="OpenVINO is the oracle")
    openvino = pytest.importorskip("openvino")
    x = op.parameter([4, 12], openvino.Type.f32, name="x")
    codes = np.random.default_rng(0).integers(-127, 128, (12, 6)).astype(np.int8)
    weights = op.multiply(op.convert(op.constant(codes), openvino.Type.f32), op.constant(np.float32(0.01)), name="w")
    path = tmp_path / "network.xml"
    openvino.save_model(openvino.Model([op.matmul(x, weights, False, False, name="m")], [x], "n"), path, False)
    data = {"x": np.random.default_rng(1).standard_normal((4, 12)).astype(np.float32)}

    def dequantized(scale: float) -> pathlib.Path:
        def change(model: onnx.ModelProto) -> None:
            (output,) = (each.name for each in model.graph.output)
            tensors = {"codes": codes, "scale": np.float32(scale), "point": np.int8(0)}
            del model.graph.node[:], model.graph.initializer[:]
            model.graph.initializer.extend(
                onnx.numpy_helper.from_array(np.asarray(data), name) for name, data in tensors.items()
            )
            model.graph.node.append(onnx.helper.make_node("DequantizeLinear", [*tensors], ["w"]))
            model.graph.node.append(onnx.helper.make_node("MatMul", ["x", "w"], [output]))

        return saved(path, tmp_path / "m.onnx", change)

    for scale, agrees in ((0.01, True), (0.0101, False)):
        found = ortconv.verify(path, dequantized(scale), data=data, backends=NONE, layers=True)
        assert [layer.node.name for layer in found.layers] == ["w", "m"]
        assert found.layers[0].comparison.agrees == agrees

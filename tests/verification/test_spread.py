"""What rounding may do: right models whose results differ pass, wrong ones that differ as little do not."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest

import ortconv
from ortconv.model_io.input_data import Array
from ortconv.verification import Verification
from tests.verification.test_verify import NONE, saved

openvino = pytest.importorskip("openvino", reason="OpenVINO is the oracle")
op = pytest.importorskip("openvino.opset13")

Build = Callable[[Any], Any]
Change = Callable[[onnx.ModelProto], None]


def network(build: Build, data: Array, folder: pathlib.Path) -> pathlib.Path:
    x = op.parameter(list(data.shape), openvino.Type.f32, name="x")
    path = folder / "network.xml"
    openvino.save_model(openvino.Model([build(x)], [x], "net"), path, compress_to_fp16=False)
    return path


def verified(build: Build, data: Array, folder: pathlib.Path, change: Change | None = None) -> Verification:
    path = network(build, data, folder)
    model = saved(path, folder / "m.onnx", change) if change else None
    return ortconv.verify(path, model, data={"x": data}, semantics="runtime", backends=NONE)


def shifted(op_type: str, amount: float) -> Change:
    """Adds a number to the input of the only node of a type."""

    def change(model: onnx.ModelProto) -> None:
        (node,) = (node for node in model.graph.node if node.op_type == op_type)
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.float32(amount), "amount"))
        position = list(model.graph.node).index(node)
        model.graph.node.insert(position, onnx.helper.make_node("Add", [node.input[0], "amount"], ["shifted"]))
        model.graph.node[position + 1].input[0] = "shifted"

    return change


TAIL = np.linspace(-13, -12, 64, dtype=np.float32).reshape(1, 64)
"""ONNX Runtime's Sigmoid errs by some 1e-8 there, one percent of what it gives."""


def test_tail_of_a_sigmoid_is_rounded_beside_one(tmp_path: pathlib.Path) -> None:
    found = verified(lambda x: op.sigmoid(x, name="s"), TAIL, tmp_path)
    assert not found.outputs["none"][0].agrees
    assert found.agrees
    assert found.analysis is not None
    (output,) = found.analysis.layers["none"].outputs
    assert output.spread is not None
    assert output.max_rel < output.spread < 1.0


def test_shift_in_the_tail_is_no_rounding(tmp_path: pathlib.Path) -> None:
    found = verified(lambda x: op.sigmoid(x, name="s"), TAIL, tmp_path, shifted("Sigmoid", 0.2))
    assert not found.agrees
    assert found.analysis is not None
    (output,) = found.analysis.layers["none"].outputs
    assert output.wrong


def constant_channels() -> Array:
    """Returns images of one number each, whose sums in order err by ever the same rounding."""
    return np.broadcast_to(np.linspace(0.0767, 0.0768, 72, dtype=np.float32).reshape(1, 72, 1, 1), (1, 72, 40, 40))


def mean(x: Any) -> Any:
    return op.reduce_mean(x, np.array([2, 3]), True, name="mean")


def test_mean_of_equal_numbers_is_rounded_as_they_are_added(tmp_path: pathlib.Path) -> None:
    found = verified(mean, constant_channels(), tmp_path)
    assert found.agrees


def test_mean_that_is_shifted_by_more_is_wrong(tmp_path: pathlib.Path) -> None:
    assert not verified(mean, constant_channels(), tmp_path, shifted("GlobalAveragePool", 1e-5)).agrees


def canceling() -> Array:
    """Returns rows whose sums are a hundred thousandth of their numbers."""
    rng = np.random.default_rng(0)
    half = rng.uniform(1, 2, (8, 5000)).astype(np.float32)
    rest = rng.uniform(-1, 1, (8, 100)).astype(np.float32) * np.float32(1e-4)
    return rng.permuted(np.concatenate([half, -half, rest], axis=1), axis=1)


def total(x: Any) -> Any:
    return op.matmul(x, op.constant(np.ones((10100, 3), np.float32)), False, False, name="m")


def test_sum_that_cancels_out_is_rounded_as_its_terms(tmp_path: pathlib.Path) -> None:
    found = verified(total, canceling(), tmp_path)
    assert not found.outputs["none"][0].agrees
    assert found.agrees


def test_shift_of_a_sum_that_cancels_out_is_no_rounding(tmp_path: pathlib.Path) -> None:
    assert not verified(total, canceling(), tmp_path, shifted("MatMul", 1e-4)).agrees


def test_a_number_in_the_middle_between_two_levels_goes_either_way(tmp_path: pathlib.Path) -> None:
    low, high = np.float32(-2.9), np.float32(2.9)
    step = (np.float64(high) - np.float64(low)) / 255
    middles = (np.float64(low) + step * (np.arange(255) + 0.5)).astype(np.float32).reshape(1, 255)

    def rounded(x: Any) -> Any:
        bounds = [op.constant(each) for each in (low, high, low, high)]
        return op.multiply(op.fake_quantize(x, *bounds, 256, name="q"), op.constant(np.float32(3)), name="y")

    assert verified(rounded, middles, tmp_path).agrees
    beside = middles + np.float32(0.02 * step)
    moved = verified(rounded, beside, tmp_path, shifted("Round", -0.04))
    assert not moved.agrees
    assert moved.first_difference is not None
    assert moved.first_difference.node.name == "q"


def test_equal_scores_come_in_any_order(tmp_path: pathlib.Path) -> None:
    data = np.random.default_rng(0).integers(0, 9, (4, 300)).astype(np.float32)

    def order(x: Any) -> Any:
        best = op.topk(x, op.constant(np.int64(40)), 1, "max", "value", name="t")
        return op.gather(op.sin(op.add(x, op.constant(np.arange(300, dtype=np.float32)))), best.output(1), 1, 1)

    assert verified(order, data, tmp_path).agrees

    def reverse(model: onnx.ModelProto) -> None:
        (node,) = (node for node in model.graph.node if node.op_type == "TopK")
        (largest,) = (each for each in node.attribute if each.name == "largest")
        largest.i = 0

    assert not verified(order, data, tmp_path, reverse).agrees


def test_old_files_call_layers_like_results_of_others(tmp_path: pathlib.Path) -> None:
    dims = "<dim>2</dim><dim>3</dim></port>"

    def layer(number: int, name: str, kind: str, result: str) -> str:
        return (
            f'<layer id="{number}" name="{name}" type="{kind}" version="opset1"><input><port id="0" precision="FP32">'
            f'{dims}</input><output><port id="1" precision="FP32" names="{result}">{dims}</output></layer>'
        )

    edges = "".join(
        f'<edge from-layer="{i}" from-port="{int(i > 0)}" to-layer="{i + 1}" to-port="0"/>' for i in range(4)
    )
    (tmp_path / "old.xml").write_text(
        f"""<?xml version="1.0"?><net name="old" version="11"><layers>
<layer id="0" name="x" type="Parameter" version="opset1"><data element_type="f32" shape="2,3"/><output>
<port id="0" precision="FP32" names="x">{dims}</output></layer>
{layer(1, "a", "Sigmoid", "b")}{layer(2, "b", "Tanh", "c")}{layer(3, "c", "Exp", "a")}
<layer id="4" name="r" type="Result" version="opset1"><input><port id="0" precision="FP32">{dims}</input></layer>
</layers><edges>{edges}</edges></net>"""
    )
    found = ortconv.verify(tmp_path / "old.xml", backends=NONE, layers=True)
    assert found.agrees
    assert [layer.comparison.agrees for layer in found.layers] == [True] * 3

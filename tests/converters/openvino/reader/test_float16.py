"""float16 of a file: computed in float32, as OpenVINO's CPU plugin does, and stored as it is."""

from __future__ import annotations

import pathlib
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import openvino
import pytest
from openvino import opset1, opset3, opset4, opset6

import ortconv
from ortconv.api import Conversion, conversion
from ortconv.verification import verify
from tests.converters.openvino.live import assert_close, check, model_of, numbers, run_onnx, run_openvino
from tests.processor import with_dot_products
from tests.shared import SHARED

F16, F32 = ir.DataType.FLOAT16, ir.DataType.FLOAT
SHAPE = (1, 8, 9, 9)


def halves(*shape: int, seed: int = 0, low: float = -1, high: float = 1) -> np.ndarray:
    return numbers(*shape, dtype=np.float16, seed=seed, low=low, high=high)


def network(x: Any) -> Any:
    """Sums that float16 does not hold, by weights that are worth storing as they are."""
    conv = opset1.convolution(x, halves(32, 8, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1])
    flat = opset1.reshape(opset1.relu(conv), np.array([1, -1]), False)
    return opset1.matmul(flat, halves(32 * 81, 8, seed=1), False, False)


def quantized(x: Any, element: str = "f16") -> Any:
    """As NNCF writes it: 8-bit weights and a FakeQuantize in front."""
    dtype = np.float16 if element == "f16" else np.float32
    data = opset1.fake_quantize(x, *(np.full((1, 1, 1, 1), bound, dtype) for bound in (0, 255, 0, 255)), 256)
    stored = opset1.constant(np.random.default_rng(0).integers(-127, 127, (32, 8, 3, 3)).astype(np.int8))
    scale = halves(32, 1, 1, 1, low=0.01, high=0.02).astype(dtype)
    weights = opset1.multiply(opset1.convert(stored, element), scale)
    bias = halves(1, 32, 1, 1).astype(dtype)
    return opset1.relu(opset1.add(opset1.convolution(data, weights, [1, 1], [0, 0], [0, 0], [1, 1]), bias))


def saved(folder: pathlib.Path, model: openvino.Model, version: int = 10) -> pathlib.Path:
    """Writes a model as a file of a version."""
    path = folder / "model.xml"
    openvino.save_model(model, path, compress_to_fp16=False)
    text = re.sub("<rt_info>.*?</rt_info>", "", path.read_text(), flags=re.DOTALL)
    path.write_text(text.replace('version="11"', f'version="{version}"'))
    return path


def built(build: Callable[..., Any], shape: Sequence[int] = SHAPE) -> openvino.Model:
    return model_of(build, [[np.zeros(shape, np.float16)]])


def types(converted: Conversion) -> list[ir.DataType]:
    graph = converted.model.graph
    return [value.dtype for value in (*graph.inputs, *graph.outputs) if value.dtype is not None]


def computed(converted: Conversion) -> set[ir.DataType | None]:
    """The types of what nodes give, but for casts."""
    nodes = ir.traversal.RecursiveGraphIterator(converted.model.graph)
    return {value.dtype for node in nodes if node.op_type != "Cast" for value in node.outputs}


@pytest.mark.parametrize("build", [network, pytest.param(quantized, marks=with_dot_products)])
def test_files_of_version_10_take_and_give_float32(tmp_path: pathlib.Path, build: Callable[..., Any]) -> None:
    path = saved(tmp_path, built(build))
    feed = [numbers(*SHAPE, low=0, high=255)]
    source = openvino.Core().read_model(path)
    for semantics in ("spec", "runtime"):
        converted = conversion(path, semantics=semantics)
        assert types(converted) == [F32, F32]
        assert F16 not in computed(converted)
        ((actual,),) = run_onnx(converted, [feed])
        assert_close(actual, run_openvino(source, [feed])[0][0], 64)


def test_files_of_version_11_take_and_give_float16() -> None:
    converted = check(built(network), [halves(*SHAPE)])
    assert types(converted) == [F16, F16]
    assert F16 not in computed(converted)


def test_the_types_that_a_file_states(tmp_path: pathlib.Path) -> None:
    path = saved(tmp_path, built(network))
    feed = numbers(*SHAPE)
    expected = run_openvino(openvino.Core().read_model(path), [[feed.astype(np.float16).astype(np.float32)]])[0][0]
    for io, compute, outside, inside in (
        ("source", "f32", F16, F32),
        ("source", "f16", F16, F16),
        ("runtime", "f16", F32, F16),
    ):
        converted = conversion(path, io=io, compute=compute)  # type: ignore[arg-type]
        assert types(converted) == [outside, outside]
        assert computed(converted) >= {inside}
        assert F32 not in computed(converted) or inside == F32
        ((actual,),) = run_onnx(converted, [[feed.astype(outside.numpy())]])
        assert_close(actual, expected.astype(outside.numpy()), 4 if outside == F16 else 2**16)


def test_names_stay_with_inputs_and_outputs() -> None:
    x = opset1.parameter([2, 3], np.float16, name="x")
    x.output(0).set_names({"data"})
    y = opset1.relu(x)
    y.output(0).set_names({"rectified"})
    source = openvino.Model([opset1.result(y), opset1.result(opset1.sigmoid(y))], [x])
    converted = conversion(source)
    assert [value.name for value in converted.model.graph.inputs] == ["data"]
    assert converted.model.graph.outputs[0].name == "rectified"
    check(source, [halves(2, 3)])


def test_large_numbers_become_infinite_where_they_leave() -> None:
    source = built(lambda x: [opset1.multiply(x, np.float16(512)), opset1.multiply(opset1.multiply(x, x), x)], [4])
    check(source, [np.array([1, -128, 200, 40], np.float16)], bound=0)


def test_no_types_between_the_layers_of_a_quantized_network(tmp_path: pathlib.Path) -> None:
    """They would keep ONNX Runtime from multiplying integers."""
    converted = conversion(saved(tmp_path, built(quantized)))
    single = conversion(model_of(lambda x: quantized(x, "f32"), [[np.zeros(SHAPE, np.float32)]]))
    kinds = [Counter(node.op_type for node in each.model.graph) for each in (converted, single)]
    assert kinds[0] == kinds[1]
    assert kinds[0]["ConvIntegerToFloat"] + kinds[0]["QuantizeLinear"] >= 1


def anchors(x: Any) -> Any:
    """Places on an image, of its size and of constants."""
    count = opset1.convert(opset3.shape_of(x), "f16")
    grid = opset1.multiply(
        opset4.range(np.float16(0), np.float16(6), np.float16(1), "f16"), halves(6, low=100, high=200)
    )
    return opset1.add(opset1.multiply(opset1.add(grid, np.float16(0.1)), count), opset1.sqrt(halves(6, low=2, high=3)))


@pytest.mark.parametrize(
    "place",
    [
        lambda x: opset1.convert(opset1.multiply(x, anchors(x)), "f32"),
        lambda x: opset1.multiply(opset1.convert(x, "f32"), opset1.convert(anchors(x), "f32")),
        lambda x: opset1.convert(opset1.add(x, opset1.convert(numbers(6), "f16")), "f32"),
        lambda x: opset1.add(opset1.convert(x, "f32"), opset1.convert(opset1.convert(numbers(6), "f16"), "f32")),
    ],
    ids=["rounded", "not rounded", "converted", "converted to and fro"],
)
def test_constants_that_openvino_computes_in_float16(place: Callable[..., Any]) -> None:
    check(built(place, [6]), [np.ones(6, np.float16)], bound=1)


def test_states_are_float16() -> None:
    """They are rounded from one call to the next."""
    x = opset1.parameter([1, 3], np.float16, name="x")
    read = opset6.read_value(np.zeros((1, 3), np.float16), "state", openvino.Type.f16, openvino.PartialShape([1, 3]))
    total = opset1.add(opset1.multiply(x, np.float16(1.001)), read)
    source = openvino.Model([opset1.result(total)], [opset6.assign(total, "state")], [x])
    converted = conversion(source)
    assert types(converted) == [F16] * 4
    session = ortconv.InferenceSession(converted.to_proto())
    request = openvino.Core().compile_model(source, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}).create_infer_request()
    state = np.zeros((1, 3), np.float16)
    for number in (1, 1e-4, 0.3, 1000):
        feed = np.full((1, 3), number, np.float16)
        result, state = session.run(None, {"x": feed, "state": state})
        np.testing.assert_array_equal(result, request.infer([feed])[0])


def test_verify_reads_what_a_model_was_converted_to(tmp_path: pathlib.Path) -> None:
    path = saved(tmp_path, built(network))
    for io in ("runtime", "source"):
        conversion(path, io=io).save(tmp_path / "model.onnx")  # type: ignore[arg-type]
        assert verify(path, tmp_path / "model.onnx").agrees


def test_weights_are_stored_as_they_are(tmp_path: pathlib.Path) -> None:
    """And ONNX Runtime folds the casts when it loads the model."""
    path = saved(tmp_path, built(network))
    narrow, wide = (conversion(path, weights=weights) for weights in ("source", "f32"))  # type: ignore[arg-type]
    sizes = [len(each.to_proto().SerializeToString()) for each in (narrow, wide)]
    stored = path.with_suffix(".bin").stat().st_size
    assert sizes[0] < stored + 10_000
    assert sizes[1] > 2 * stored
    feed = [numbers(*SHAPE)]
    np.testing.assert_array_equal(run_onnx(narrow, [feed])[0][0], run_onnx(wide, [feed])[0][0])
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "loaded.onnx")
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
    onnxruntime.InferenceSession(narrow.to_proto().SerializeToString(), options)
    loaded = onnx.load(tmp_path / "loaded.onnx").graph
    assert "Cast" not in {node.op_type for node in loaded.node}
    assert {each.data_type for each in loaded.initializer} <= {onnx.TensorProto.FLOAT, onnx.TensorProto.INT64}


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("target", ["auto", "plugin"])
def test_decompressed_weights_are_stored_as_they_are(dtype: str, target: Any) -> None:
    """Our kernels take what a folded Cast gives for constants."""
    element, shape = getattr(openvino.Type, dtype), openvino.Shape([8, 16, 4, 4])
    stored = openvino.op.Constant(element, shape, numbers(8, 16, 4, 4).ravel().tolist())
    weights = opset1.convert(stored, "f32")
    source = model_of(
        lambda x: opset1.convolution_backprop_data(x, weights, [2, 2], pads_begin=[1, 1], pads_end=[1, 1]),
        [[np.zeros((1, 8, 9, 9), np.float32)]],
    )
    feed = numbers(1, 8, 9, 9)
    results = []
    for weights_are in ("source", "f32"):
        model = conversion(source, target=target, weights=weights_are).to_proto()  # type: ignore[arg-type]
        kinds = {each.data_type for each in model.graph.initializer}
        assert (onnx.TensorProto.FLOAT in kinds) == (weights_are == "f32")
        for backend in ("native", "none"):
            session = ortconv.InferenceSession(model, backend=backend)  # type: ignore[arg-type]
            results.append(session.run(None, {model.graph.input[0].name: feed})[0])
    np.testing.assert_array_equal(results[0], results[2])
    np.testing.assert_array_equal(results[1], results[3])


PUBLIC = {
    "head-pose-estimation-adas-0001.v10.FP16": False,
    "single-image-super-resolution-1032.v10.FP16": False,
    "face-detection-adas-0001.v10.FP16": True,
    "face-reidentification-retail-0095.v11.FP16": True,
    "person-detection-0203.v10.FP16": True,
}
"""Networks of public repositories, and whether they take long."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.sweep] if slow else []) for name, slow in PUBLIC.items()]
)
def test_public_networks(name: str) -> None:
    path = SHARED / "public_irs" / name / "model.xml"
    if not path.exists():
        pytest.skip(f"needs the public IR files beside the repository: {path} does not exist")
    source = openvino.Core().read_model(path)
    feed = [numbers(*each.shape, low=0, high=255) for each in source.inputs]
    (actual,), (expected,) = run_onnx(conversion(path), [feed]), run_openvino(source, [feed])
    assert len(actual) == len(expected)
    for mine, theirs in zip(actual, expected, strict=True):
        assert mine.shape == theirs.shape
        np.testing.assert_allclose(mine, theirs, rtol=0, atol=5e-5 * np.abs(theirs).max(initial=1))

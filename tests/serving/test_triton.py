"""Model repositories for Triton: read by Triton's own protobuf, and run as Triton's backend runs them."""

from __future__ import annotations

import importlib.util
import pathlib
import sys
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import ortconv
from ortconv.errors import InputError
from ortconv.serving import triton
from tests.command_line import run_cli
from tests.folders import ROOT

REPOSITORY = ROOT / "samples" / "serving" / "repository"


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def parsed(config: pathlib.Path) -> Any:
    """Parses a configuration by the message of tritonclient, without the gRPC that its package imports."""
    text_format = pytest.importorskip("google.protobuf.text_format")
    found = importlib.util.find_spec("tritonclient")
    if found is None or found.origin is None:
        pytest.skip("needs tritonclient, which has Triton's protobuf: `make test-serve` installs it")
    path = pathlib.Path(found.origin).parent / "grpc" / "model_config_pb2.py"
    spec = importlib.util.spec_from_file_location("triton_model_config_pb2", path)
    assert spec is not None
    assert spec.loader is not None
    if spec.name not in sys.modules:
        sys.modules[spec.name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(sys.modules[spec.name])
    return text_format.Parse(config.read_text(encoding="utf-8"), sys.modules[spec.name].ModelConfig())


def saved(text: str, name: str = "m.onnx") -> pathlib.Path:
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> g {text}')
    onnx.save(model, name)
    return pathlib.Path(name)


def decoder() -> pathlib.Path:
    ortconv.conversion(ROOT / "samples" / "sources" / "unet_decoder.xml").save("unet_decoder.onnx")
    return pathlib.Path("unet_decoder.onnx")


def test_repository_of_a_model_with_our_operators() -> None:
    result = run_cli("bundle", decoder(), "--for", "triton", "-o", "models", "--instances", 2, "--delay", 250)
    assert (result.exit_code, result.stderr) == (0, "")
    folder = pathlib.Path("models/unet_decoder")
    library = pathlib.Path(ortconv.library_path()).name
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files == {"config.pbtxt", "1/model.onnx", library}
    found = parsed(folder / "config.pbtxt")
    assert (found.name, found.backend, found.max_batch_size) == ("unet_decoder", "onnxruntime", 8)
    assert [(each.name, list(each.dims)) for each in found.input] == [
        ("bottom", [32, -1, -1]),
        ("skip_2", [16, -1, -1]),
        ("skip_1", [8, -1, -1]),
    ]
    assert [(each.name, list(each.dims)) for each in found.output] == [("mask", [2, -1, -1])]
    kind = found.instance_group[0]
    assert (kind.count, kind.Kind.Name(kind.kind)) == (2, "KIND_CPU")
    assert found.dynamic_batching.max_queue_delay_microseconds == 250
    assert list(found.model_operations.op_library_filename) == [f"/models/unet_decoder/{library}"]


def test_what_the_backend_does_with_it_gives_the_same_numbers() -> None:
    """Triton's backend registers the library by its path, loads 1/model.onnx, and runs stacked requests."""
    path = decoder()
    written = triton.write(
        path, pathlib.Path("models"), triton.Options("net", seen_at=str(pathlib.Path("models").absolute()))
    )
    config = parsed(written.files[0])
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(config.model_operations.op_library_filename[0])
    session = onnxruntime.InferenceSession("models/net/1/model.onnx", options, providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(0)
    shapes = {"bottom": (32, 4, 3), "skip_2": (16, 8, 5), "skip_1": (8, 15, 9)}
    requests = [{name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()} for _ in range(3)]
    stacked = {name: np.stack([each[name] for each in requests]) for name in shapes}
    (together,) = session.run(None, stacked)
    alone = ortconv.InferenceSession(path, backend="none")
    for request, found in zip(requests, together, strict=True):
        (expected,) = alone.run(None, {name: data[None] for name, data in request.items()})
        np.testing.assert_allclose(found, expected[0], atol=1e-5)


def test_committed_sample_is_what_the_command_writes() -> None:
    run_cli("bundle", decoder(), "--for", "triton", "-o", "models")
    committed = REPOSITORY / "unet_decoder" / "config.pbtxt"
    assert pathlib.Path("models/unet_decoder/config.pbtxt").read_text() == committed.read_text()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("(float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }", "the first dimension of x is not dynamic"),
        ("(float[N, 3] x) => (float[3] y) { y = ReduceMax <keepdims = 0> (x) }", "the first dimension of y is"),
        (
            "(float[N, 3] x) => (float[N, 3] y) { m = ReduceMean(x) y = Sub(x, m) }",
            "y of a batch is not y of its examples",
        ),
    ],
)
def test_no_batches_of_a_model_that_would_mix_examples(text: str, reason: str) -> None:
    path = saved(text)
    result = run_cli("bundle", path, "--for", "triton", "-o", "models")
    assert result.exit_code == 0
    assert reason in result.stderr
    found = parsed(pathlib.Path("models/m/config.pbtxt"))
    assert found.max_batch_size == 0
    assert not found.HasField("dynamic_batching")
    assert not found.HasField("model_operations"), "it has no operators of ours"
    assert len(found.input[0].dims) == len(onnx.load(path).graph.input[0].type.tensor_type.shape.dim)
    forced = run_cli("bundle", path, "--for", "triton", "-o", "forced", "--max-batch-size", 4)
    assert forced.exit_code == 1
    assert f"cannot take batches of 4: {reason}" in forced.stderr
    assert not pathlib.Path("forced").exists()


def test_scalars_strange_names_types_and_external_weights() -> None:
    path = saved("(float16[N, 3] x, int64 count) => (float16[N, 3] y, int64 z) { y = Add(x, w) z = Neg(count) }")
    model = onnx.load(path)
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.ones((1, 3), np.float16), "w"))
    strange = 'a "quoted"\\ näme\n'
    for names in (model.graph.input[0], model.graph.node[0]):
        if isinstance(names, onnx.NodeProto):
            names.input[0] = strange
        else:
            names.name = strange
    onnx.save(model, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    written = triton.write(path, pathlib.Path("models"), triton.Options("m", gpu=True))
    found = parsed(written.files[0])
    kind = found.instance_group[0]
    assert kind.Kind.Name(kind.kind) == "KIND_GPU"
    types = [
        type(found).DESCRIPTOR.file.enum_types_by_name["DataType"].values_by_number[e.data_type].name
        for e in found.input
    ]
    assert [each.name for each in found.input] == [strange, "count"]
    assert types == ["TYPE_FP16", "TYPE_INT64"]
    scalar = found.input[1]
    assert (list(scalar.dims), scalar.HasField("reshape"), list(scalar.reshape.shape)) == ([1], True, [])
    assert pathlib.Path("models/m/1/weights.bin").exists()
    feeds = {strange: np.zeros((2, 3), np.float16), "count": np.array(3)}
    session = onnxruntime.InferenceSession("models/m/1/model.onnx", providers=["CPUExecutionProvider"])
    np.testing.assert_array_equal(session.run(None, feeds)[0], np.ones((2, 3)))


@pytest.mark.parametrize("name", ["", "a/b", "..", ".hidden", "a b"])
def test_names_that_are_no_folder_are_refused(name: str) -> None:
    path = saved("(float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }")
    with pytest.raises(InputError, match="is not allowed; allowed: letters, digits"):
        triton.write(path, pathlib.Path("models"), triton.Options(name))
    assert not pathlib.Path("models").exists()


def test_types_that_triton_lacks_are_refused() -> None:
    path = saved("(float8e4m3fn[N] x) => (float[N] y) { y = Cast <to = 1> (x) }")
    result = run_cli("bundle", path, "--for", "triton", "-o", "models")
    assert result.exit_code == 1
    assert "x has type float8e4m3fn; allowed: int8, " in result.stderr
    assert not pathlib.Path("models").exists()


def test_function_bodies_run_without_the_library() -> None:
    run_cli("bundle", decoder(), "--for", "triton", "-o", "models", "--no-plugin")
    assert not parsed(pathlib.Path("models/unet_decoder/config.pbtxt")).HasField("model_operations")
    assert [path.name for path in pathlib.Path("models/unet_decoder").iterdir() if path.suffix == ".so"] == []

"""`ortconv.InferenceSession`: what it takes, its backends, and types that numpy lacks."""

from __future__ import annotations

import gc
import pathlib
import pickle
import subprocess
import sys
import tempfile
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

import ortconv
from ortconv.errors import CheckError, PluginError
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops import BY_NAME
from ortconv.runtime import library, session
from ortconv.runtime.library import Backend
from ortconv.runtime.session import InferenceSession

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)
FLOAT32 = np.dtype(np.float32)


def make_model(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, int],
    outputs: dict[str, int],
    initializers: list[onnx.TensorProto] | None = None,
    metadata: dict[str, str] | None = None,
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "test",
        [helper.make_tensor_value_info(name, element, None) for name, element in inputs.items()],
        [helper.make_tensor_value_info(name, element, None) for name, element in outputs.items()],
        initializers or [],
    )
    imports = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    helper.set_model_props(model, metadata or {})
    return model


def identity(element: int) -> onnx.ModelProto:
    return make_model([helper.make_node("Identity", ["x"], ["y"])], {"x": element}, {"y": element})


def scale() -> onnx.ModelProto:
    """y = 3x."""
    three = onnx.numpy_helper.from_array(np.full((2, 2), 3, np.float32), "w")
    node = helper.make_node("Mul", ["x", "w"], ["y"])
    return make_model([node], {"x": TensorProto.FLOAT}, {"y": TensorProto.FLOAT}, [three])


@pytest.fixture
def saved(tmp_path: pathlib.Path) -> pathlib.Path:
    path = tmp_path / "scale.onnx"
    onnx.save(scale(), path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    assert (tmp_path / "weights.bin").is_file()
    return path


@pytest.mark.parametrize("backend", ["none", "python", "native"])
@pytest.mark.parametrize("form", ["path", "text", "bytes", "proto"])
def test_takes_a_model_in_any_form(
    form: str, backend: Any, saved: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    if backend == "native":
        request.getfixturevalue("library")
    proto = scale()
    before = proto.SerializeToString()
    given = {"path": saved, "text": str(saved), "bytes": before, "proto": proto}[form]
    run = InferenceSession(given, backend=backend)
    assert isinstance(run, onnxruntime.InferenceSession)
    x = np.array([[1, 2], [3, 4]], np.float32)
    np.testing.assert_array_equal(run.run(None, {"x": x})[0], 3 * x)
    assert proto.SerializeToString() == before


@pytest.mark.parametrize("backend", ["none", "python"])
def test_model_beyond_a_message_goes_through_a_file(
    backend: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.setattr(session, "_serialize", lambda model: None)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    run = InferenceSession(scale(), backend=backend)
    assert sorted(path.name for path in tmp_path.glob("ortconv-*/*")) == ["model.data", "model.onnx"]
    x = np.ones((2, 2), np.float32)
    np.testing.assert_array_equal(run.run(["y"], {"x": x})[0], 3 * x)
    run.set_providers(["CPUExecutionProvider"])
    np.testing.assert_array_equal(run.run(["y"], {"x": x})[0], 3 * x)
    del run
    gc.collect()
    assert not list(tmp_path.iterdir())


def test_serialize_tells_what_does_not_fit_a_message() -> None:
    class Large:
        def SerializeToString(self) -> bytes:  # noqa: N802
            raise ValueError("exceeds maximum protobuf size of 2GB")

    assert session._serialize(Large()) is None  # type: ignore[arg-type]
    assert session._serialize(scale()) == scale().SerializeToString()


def test_native_runs_every_case(op_case: Any, library: str) -> None:
    for dtype in (FLOAT32, BFLOAT16):
        inputs = op_case.inputs(dtype)
        (y,) = InferenceSession(op_case.model(dtype)).run(None, op_case.feeds(inputs))
        expected = BY_NAME[op_case.op].reference(*inputs, **op_case.attributes)
        assert y.dtype == dtype
        tolerance = 1e-5 if dtype == FLOAT32 else 2e-2
        np.testing.assert_allclose(y.astype(np.float32), expected.astype(np.float32), tolerance, tolerance)


def test_session_options_serve_many_sessions(library: str, cases: dict[str, Any]) -> None:
    model = cases["conv_plain"].model(FLOAT32)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.register_custom_ops_library(library)
    for _ in range(3):
        run = InferenceSession(model, options, ["CPUExecutionProvider"])
        assert run.get_session_options().intra_op_num_threads == 1
    run.set_providers(["CPUExecutionProvider"])
    run.run(None, cases["conv_plain"].feeds(cases["conv_plain"].inputs(FLOAT32)))


@pytest.mark.parametrize("extensions_first", [True, False])
def test_beside_onnxruntime_extensions(extensions_first: bool, library: str, cases: dict[str, Any]) -> None:
    extensions = pytest.importorskip("onnxruntime_extensions")
    case = cases["conv_plain"]
    model = case.model(FLOAT32)
    model.graph.node.append(helper.make_node("NegPos", ["Y"], ["N", "P"], domain="ai.onnx.contrib"))
    model.graph.output.extend(helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in "NP")
    model.opset_import.append(helper.make_opsetid("ai.onnx.contrib", 1))
    options = onnxruntime.SessionOptions()
    if not extensions_first:
        ortconv.register(options)
    options.register_custom_ops_library(extensions.get_library_path())
    y, n, p = InferenceSession(model, options).run(None, case.feeds(case.inputs(FLOAT32)))
    np.testing.assert_array_equal(n + p, y)


def test_missing_library(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setenv(library.LIBRARY_VARIABLE, str(tmp_path / "none.so"))
    with pytest.raises(PluginError, match="which is not a file"):
        InferenceSession(scale())
    InferenceSession(scale(), backend="none")


def test_onnxruntime_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "__version__", "1.20.1")
    with pytest.raises(PluginError, match=r"ONNX Runtime 1\.20\.1 is too old; allowed: 1\.24 or newer"):
        InferenceSession(scale())


def test_unknown_backend() -> None:
    with pytest.raises(ValueError, match="backend 'cuda' is unknown; allowed: native, python, none"):
        InferenceSession(scale(), backend="cuda")  # type: ignore[arg-type]


def test_ortconv_imports_without_onnxruntime() -> None:
    code = (
        "import sys; sys.modules['onnxruntime'] = None\n"
        "import ortconv\n"
        "try: ortconv.InferenceSession\n"
        "except ortconv.PluginError as error: print(error.hint)\n"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "ortconv[cpu]" in result.stdout
    assert ortconv.InferenceSession is InferenceSession


def without_bodies(inside_if: bool) -> onnx.ModelProto:
    """Returns a model of ours as another tool may write it: nodes kept, functions dropped."""
    node = helper.make_node("Convolution", ["x", "x"], ["z"], domain=DOMAIN)
    if not inside_if:
        node.output[0] = "y"
        return make_model([node], {"x": 1}, {"y": 1})
    branch = helper.make_graph([node], "branch", [], [helper.make_tensor_value_info("z", 1, None)])
    condition = helper.make_node("Constant", [], ["c"], value=helper.make_tensor("c", TensorProto.BOOL, [], [True]))
    choice = helper.make_node("If", ["c"], ["y"], then_branch=branch, else_branch=branch)
    return make_model([condition, choice], {"x": 1}, {"y": 1})


@pytest.mark.parametrize("inside_if", [False, True])
@pytest.mark.parametrize("form", ["path", "bytes", "proto"])
def test_model_without_bodies_says_that_it_needs_the_plugin(inside_if: bool, form: str, tmp_path: pathlib.Path) -> None:
    model = without_bodies(inside_if)
    path = tmp_path / "model.onnx"
    onnx.save(model, path)
    given = {"path": path, "bytes": model.SerializeToString(), "proto": model}[form]
    with pytest.raises(PluginError) as caught:
        InferenceSession(given, backend="none")
    assert caught.value.problem.startswith("the model needs the ortconv plugin")
    assert caught.value.hint == "Use backend='native' or backend='python'."


def test_other_failures_are_onnxruntimes_own() -> None:
    model = make_model([helper.make_node("NoSuchOperator", ["x"], ["y"])], {"x": 1}, {"y": 1})
    with pytest.raises(Exception, match="ONNXRuntimeError") as caught:
        InferenceSession(model, backend="none")
    assert not isinstance(caught.value, PluginError)


@pytest.mark.parametrize("backend", ["native", "python", "none"])
@pytest.mark.parametrize(
    ("model", "problem"),
    [
        (b"garbage", "is not an ONNX model"),
        ("no/such/file.onnx", "cannot be read: No such file"),
        (pathlib.Path("/dev/zero"), "cannot be read: is not a regular file"),
    ],
)
def test_what_is_no_model_is_refused(model: Any, problem: str, backend: Backend) -> None:
    with pytest.raises(CheckError, match=problem):
        InferenceSession(model, backend=backend)


def test_files_in_onnxruntimes_own_format(tmp_path: pathlib.Path) -> None:
    options = onnxruntime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "model.ort")
    InferenceSession(identity(TensorProto.FLOAT), options, backend="none")
    x = np.array([1.5, -2], np.float32)
    for given in (tmp_path / "model.ort", (tmp_path / "model.ort").read_bytes()):
        np.testing.assert_array_equal(InferenceSession(given, backend="none").run(None, {"x": x})[0], x)
        with pytest.raises(PluginError, match="ONNX Runtime's own"):
            InferenceSession(given, backend="python")


@pytest.mark.parametrize(
    ("extra", "element"),
    [
        (ml_dtypes.bfloat16, TensorProto.BFLOAT16),
        (ml_dtypes.float8_e4m3fn, TensorProto.FLOAT8E4M3FN),
        (ml_dtypes.float8_e4m3fnuz, TensorProto.FLOAT8E4M3FNUZ),
        (ml_dtypes.float8_e5m2, TensorProto.FLOAT8E5M2),
        (ml_dtypes.float8_e5m2fnuz, TensorProto.FLOAT8E5M2FNUZ),
    ],
)
@pytest.mark.parametrize("shape", [(2, 3), (0, 3), ()])
def test_types_that_numpy_lacks_go_in_and_out(extra: Any, element: int, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(1).standard_normal(shape).astype(extra)
    (y,) = InferenceSession(identity(element), backend="none").run(None, {"x": x})
    assert y.dtype == extra
    assert y.shape == shape
    assert y.tobytes() == x.tobytes()
    assert y.flags.writeable


def test_bfloat16_beside_other_types() -> None:
    model = make_model(
        [helper.make_node("Cast", ["x"], ["y"], to=1), helper.make_node("Cast", ["z"], ["w"], to=16)],
        {"x": TensorProto.BFLOAT16, "z": TensorProto.FLOAT},
        {"y": TensorProto.FLOAT, "w": TensorProto.BFLOAT16},
    )
    run = InferenceSession(model, backend="none")
    x = np.arange(6).astype(BFLOAT16).reshape(2, 3).T
    z = onnxruntime.OrtValue.ortvalue_from_numpy(np.array([1.5, 2.5], np.float32))
    w, y = run.run(["w", "y"], {"x": x, "z": z})
    assert (y.dtype, w.dtype) == (FLOAT32, BFLOAT16)
    np.testing.assert_array_equal(y, x.astype(np.float32))
    assert w.tolist() == [1.5, 2.5]
    (y,) = run.run(["y"], {"x": x, "z": np.zeros(2, np.float32)})
    np.testing.assert_array_equal(y, x.astype(np.float32))


def test_types_that_onnxruntimes_python_cannot_take_are_refused() -> None:
    x = np.zeros(2, ml_dtypes.int2)
    with pytest.raises(TypeError, match="input x has type int2; allowed beside numpy's own types: bfloat16, float8"):
        InferenceSession(identity(TensorProto.FLOAT), backend="none").run(None, {"x": x})


def test_wrong_type_and_missing_input_are_refused() -> None:
    run = InferenceSession(identity(TensorProto.FLOAT), backend="none")
    with pytest.raises(Exception, match="Unexpected input data type"):
        run.run(None, {"x": np.zeros(2, BFLOAT16)})
    with pytest.raises(ValueError, match=r"Required inputs \(\['x'\]\) are missing"):
        run.run(None, {})


def test_binding_keeps_data_of_any_type_where_it_is_computed() -> None:
    model = make_model(
        [helper.make_node("Cast", ["x"], ["y"], to=1), helper.make_node("Neg", ["z"], ["w"])],
        {"x": TensorProto.BFLOAT16, "z": TensorProto.FLOAT},
        {"y": TensorProto.FLOAT, "w": TensorProto.FLOAT},
    )
    session = InferenceSession(model, backend="none")
    x = np.arange(6).astype(BFLOAT16).reshape(2, 3).T
    binding = session.bind({"x": x, "z": np.array([1.5, 2.5], np.float32)}, "cpu")
    gc.collect()
    for _ in range(2):
        session.run_with_iobinding(binding)
        y, w = binding.copy_outputs_to_cpu()
        np.testing.assert_array_equal(y, x.astype(np.float32))
        assert w.tolist() == [-1.5, -2.5]
    with pytest.raises(TypeError, match="input x has type int4; allowed beside numpy's own types: bfloat16, float8"):
        session.bind({"x": np.zeros(2, ml_dtypes.int4)}, "cpu")


@pytest.mark.parametrize("form", ["path", "relative", "bytes", "proto"])
@pytest.mark.parametrize("backend", ["native", "none"])
def test_a_session_pickles(form: str, backend: Any, saved: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(saved.parent)
    given = {"path": saved, "relative": saved.name, "bytes": scale().SerializeToString(), "proto": scale()}[form]
    first = InferenceSession(given, providers=["CPUExecutionProvider"], backend=backend)
    data = pickle.dumps(first)
    monkeypatch.chdir("/")
    again = pickle.loads(data)
    assert isinstance(again, InferenceSession)
    x = np.eye(2, dtype=np.float32)
    np.testing.assert_array_equal(again.run(None, {"x": x})[0], first.run(None, {"x": x})[0])


def test_a_session_that_does_not_pickle_says_why(saved: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_options = InferenceSession(saved, onnxruntime.SessionOptions())
    with pytest.raises(TypeError, match=r"does not pickle: onnxruntime\.SessionOptions does not; make one from the"):
        pickle.dumps(with_options)
    monkeypatch.setattr(session, "_serialize", lambda model: None)
    with pytest.raises(TypeError, match="does not pickle: its model exceeds protobuf's 2 GiB"):
        pickle.dumps(InferenceSession(onnx.load(saved)))

"""Sessions on the GPU: sizes, threads, streams, graphs, memory, and what is said when something is missing."""

from __future__ import annotations

import concurrent.futures
import ctypes
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import ortconv
from ortconv.opset.convolution_terms import ACCUMULATION
from ortconv.opset.domain import DOMAIN
from ortconv.runtime import cuda
from tests import oracle
from tests.command_line import run_cli, upsampling
from tests.cuda import device
from tests.operators.convolutions import Case
from tests.operators.native import with_constants

FLOAT = np.dtype(np.float32)


def large(make_case: Callable[..., Any]) -> Case:
    """A node whose weights are worth packing."""
    case: Case = make_case(
        "TransposedConvolution", (2, 32, 9, 8), (32, 24, 3, 4), strides=[2, 2], pads=[1, 1, 1, 1], output_padding=[1, 0]
    )
    return case


def reference(case: Case, feeds: dict[str, np.ndarray], w: np.ndarray) -> np.ndarray:
    at = case.attributes
    extents = [(k - 1) * d + 1 for k, d in zip(case.w[2:], at["dilations"], strict=True)]
    full = [s * (x - 1) + e for s, x, e in zip(at["strides"], feeds["X"].shape[2:], extents, strict=True)]
    size = [f - at["pads"][i] - at["pads"][i + len(full)] + at["output_padding"][i] for i, f in enumerate(full)]
    return oracle.transposed(
        feeds["X"],
        w,
        strides=at["strides"],
        dilations=at["dilations"],
        begin=at["pads"][: len(full)],
        size=size,
        group=at["group"],
        bias=feeds["B"],
    )


def assert_close(actual: np.ndarray, expected: np.ndarray) -> None:
    np.testing.assert_allclose(actual, expected, rtol=0, atol=2e-5 * float(np.abs(expected).max()))


@pytest.mark.parametrize("constant", [True, False])
def test_one_session_takes_any_sizes(constant: bool, library: str, make_case: Callable[..., Any]) -> None:
    case = large(make_case)
    w = np.random.default_rng(1).standard_normal(case.w, np.float32)
    made = None
    for index in range(80):  # more than are kept ready
        batch, height, width = 1 + index % 3, 1 + index % 7, 1 + index % 40
        feeds = {
            "X": np.random.default_rng(index).standard_normal((batch, 32, height, width), np.float32),
            "W": w,
            "B": np.linspace(-1, 1, 24, dtype=np.float32),
        }
        model = with_constants(case.model(FLOAT), feeds, "W") if constant else case.model(FLOAT)
        made = made or device.session(model)
        assert_close(made.run(None, feeds)[0], reference(case, feeds, w))


@pytest.mark.parametrize("constant", [True, False])
def test_concurrent_runs_of_several_sessions(constant: bool, library: str, make_case: Callable[..., Any]) -> None:
    case = large(make_case)
    feeds = case.feeds(case.inputs(FLOAT))
    w = feeds["W"]
    model = with_constants(case.model(FLOAT), feeds, "W") if constant else case.model(FLOAT)
    sessions = [device.session(model) for _ in range(2)]
    inputs = [{**feeds, "X": feeds["X"] * np.float32(factor)} for factor in (1, 2, -1, 0.5)]
    expected = [reference(case, one, w) for one in inputs]

    def repeat(index: int) -> None:
        for number in range(4 if device.EMULATED else 200):
            result = sessions[(index + number) % 2].run(None, inputs[index])[0]
            assert_close(result, expected[index])

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(repeat, index) for index in range(4)]:
            done.result()


def chain(count: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """A model of several of our nodes, of different weights, that all read X; its outputs are Y0, Y1, ..."""
    rng = np.random.default_rng(3)
    nodes, outputs, tensors = [], [], {}
    identity = [0, 1, 2, 3]
    for i in range(count):
        tensors[f"W{i}"] = rng.integers(-3, 4, (16, 8 + i, 2, 2)).astype(np.float32)
        nodes.append(
            helper.make_node(
                "TransposedConvolution",
                ["X", f"W{i}"],
                [f"Y{i}"],
                name=f"node{i}",
                domain=DOMAIN,
                strides=[2, 2],
                dilations=[1, 1],
                group=1,
                pads=[0] * 4,
                output_padding=[0, 0],
                x_perm=identity,
                w_perm=identity,
                y_perm=identity,
                accumulation_type=ACCUMULATION[TensorProto.FLOAT],
            )
        )
        outputs.append(helper.make_tensor_value_info(f"Y{i}", TensorProto.FLOAT, [1, 8 + i, 12, 10]))
    graph = helper.make_graph(
        nodes,
        "chain",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [1, 16, 6, 5])],
        outputs,
        [numpy_helper.from_array(w, name) for name, w in tensors.items()],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10), tensors


def doubled(x: np.ndarray, w: np.ndarray) -> np.ndarray:
    return oracle.transposed(x, w, strides=[2, 2], dilations=[1, 1], begin=[0, 0], size=[12, 10])


def test_several_nodes_share_a_session(library: str) -> None:
    model, tensors = chain(5)
    x = np.random.default_rng(0).integers(-3, 4, (1, 16, 6, 5)).astype(np.float32)
    results = device.session(model).run(None, {"X": x})
    for result, w in zip(results, tensors.values(), strict=True):
        np.testing.assert_array_equal(result, doubled(x, w))


@device.needs_gpu
def test_nodes_run_on_the_gpu_without_copies_between_them(
    library: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model, _ = chain(3)
    options = device.options()
    options.enable_profiling = True
    made = device.session(model, options)
    assert made.get_providers()[0] == cuda.PROVIDER
    made.run(None, {"X": np.ones((1, 16, 6, 5), np.float32)})
    events = json.loads(pathlib.Path(made.end_profiling()).read_text())
    ran = [event["args"] for event in events if event["cat"] == "Node" and "provider" in event.get("args", {})]
    assert [each["provider"] for each in ran if each["op_name"] == "TransposedConvolution"] == [cuda.PROVIDER] * 3
    assert not [each for each in ran if each["op_name"].startswith("Memcpy")]


@device.needs_gpu
@pytest.mark.parametrize("constant", [True, False])
def test_cuda_graph(constant: bool, library: str, make_case: Callable[..., Any]) -> None:
    case = large(make_case)
    feeds = case.feeds(case.inputs(FLOAT))
    w = feeds["W"]
    model = with_constants(case.model(FLOAT), feeds, "W") if constant else case.model(FLOAT)
    made = device.session(model, enable_cuda_graph=1)
    values = {name: onnxruntime.OrtValue.ortvalue_from_numpy(data, "cuda", 0) for name, data in feeds.items()}
    shape = reference(case, feeds, w).shape
    y = onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape, np.float32, "cuda", 0)
    binding = made.io_binding()
    for name, value in values.items():
        binding.bind_ortvalue_input(name, value)
    binding.bind_ortvalue_output("Y", y)
    for seed in range(5):  # warm-up, capture, replays
        x = np.random.default_rng(seed).standard_normal(feeds["X"].shape, np.float32)
        values["X"].update_inplace(x)
        made.run_with_iobinding(binding)
        binding.synchronize_outputs()
        assert_close(y.numpy(), reference(case, {**feeds, "X": x}, w))


@device.needs_gpu
def test_streams_of_the_caller(library: str, make_case: Callable[..., Any]) -> None:
    torch = pytest.importorskip("torch", reason="streams are made by torch")
    case = large(make_case)
    feeds = case.feeds(case.inputs(FLOAT))
    w = feeds["W"]
    stream = torch.cuda.Stream()
    made = device.session(with_constants(case.model(FLOAT), feeds, "W"), user_compute_stream=str(stream.cuda_stream))
    expected = reference(case, feeds, w)
    for _ in range(20):
        assert_close(made.run(None, feeds)[0], expected)


def free_bytes() -> int:
    """The GPU's free memory, from the driver."""
    driver = ctypes.CDLL("libcuda.so.1")
    context, free, total = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
    assert driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0
    assert driver.cuCtxPushCurrent_v2(context) == 0
    assert driver.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
    assert driver.cuCtxPopCurrent_v2(ctypes.byref(context)) == 0
    assert driver.cuDevicePrimaryCtxRelease_v2(0) == 0
    return free.value


@device.needs_gpu
def test_memory_stays_flat(library: str, make_case: Callable[..., Any]) -> None:
    case = large(make_case)
    feeds = case.feeds(case.inputs(FLOAT))
    model = with_constants(case.model(FLOAT), feeds, "W")
    pages = pathlib.Path("/proc/self/statm")
    slack = 2 << 20

    def runs(made: ortconv.InferenceSession, count: int) -> None:
        for index in range(count):
            made.run(None, {**feeds, "X": feeds["X"][:, :, : 1 + index % 9]})

    made = device.session(model)
    runs(made, 300)
    before, resident = free_bytes(), int(pages.read_text().split()[1])
    runs(made, 3000)
    assert free_bytes() >= before - slack
    assert int(pages.read_text().split()[1]) - resident < 512

    def sessions(count: int) -> None:
        for _ in range(count):
            runs(device.session(model), 9)

    sessions(5)
    before = free_bytes()
    sessions(30)
    assert free_bytes() >= before - slack


def in_new_process(folder: pathlib.Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Runs a model in a process of its own, which prints the sum of its first result."""
    model, _ = chain(2)
    onnx.save(model, folder / "m.onnx")
    code = f"""
import contextlib
with contextlib.suppress(ImportError):
    import torch
import numpy as np
import ortconv
session = ortconv.InferenceSession({str(folder / "m.onnx")!r}, providers=[{device.PROVIDER!r}])
print(session.run(None, {{"X": np.ones((1, 16, 6, 5), np.float32)}})[0].sum())
"""
    return subprocess.run(
        [sys.executable, "-P", "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


def test_compiler_is_missing(library: str, tmp_path: pathlib.Path) -> None:
    done = in_new_process(tmp_path, ORTCONV_NVRTC="/nowhere/libnvrtc.so")
    assert done.returncode == 1
    assert (
        "org.ortconv.TransposedConvolution 'node0': NVIDIA's runtime compiler NVRTC cannot be used from where"
        in done.stderr
    )


def test_programs_are_kept_for_the_next_process(library: str, tmp_path: pathlib.Path) -> None:
    kept = tmp_path / "kept"
    first = in_new_process(tmp_path, ORTCONV_CUDA_CACHE=str(kept))
    assert first.returncode == 0, first.stderr
    written = {path: path.stat().st_mtime_ns for path in kept.iterdir()}
    assert written
    assert all(path.suffix == ".bin" for path in written)
    again = in_new_process(tmp_path, ORTCONV_CUDA_CACHE=str(kept))
    assert (again.returncode, again.stdout) == (0, first.stdout), again.stderr
    assert {path: path.stat().st_mtime_ns for path in kept.iterdir()} == written


def test_damaged_programs_are_compiled_again(library: str, tmp_path: pathlib.Path) -> None:
    kept = tmp_path / "kept"
    first = in_new_process(tmp_path, ORTCONV_CUDA_CACHE=str(kept))
    assert first.returncode == 0, first.stderr
    whole = {path: path.read_bytes() for path in kept.iterdir()}
    for path, data in whole.items():
        path.write_bytes(data[:-100])
    again = in_new_process(tmp_path, ORTCONV_CUDA_CACHE=str(kept))
    assert (again.returncode, again.stdout) == (0, first.stdout), again.stderr
    assert {path: path.read_bytes() for path in kept.iterdir()} == whole


@device.needs_gpu
def test_second_device(library: str) -> None:
    driver = ctypes.CDLL("libcuda.so.1")
    count = ctypes.c_int()
    assert driver.cuInit(0) == 0
    assert driver.cuDeviceGetCount(ctypes.byref(count)) == 0
    if count.value < 2:
        pytest.skip("there is one GPU only")
    model, tensors = chain(2)
    x = np.ones((1, 16, 6, 5), np.float32)
    for number in (1, 0, 1):
        results = device.session(model, device_id=number).run(None, {"X": x})
        np.testing.assert_array_equal(results[1], doubled(x, tensors["W1"]))


@device.needs_gpu
def test_too_large_a_problem_is_an_error(library: str) -> None:
    """The scratch or the result exceeds what the provider may take; the session works on."""
    model, tensors = chain(1)
    model.graph.input[0].CopyFrom(helper.make_tensor_value_info("X", TensorProto.FLOAT, [1, 16, None, None]))
    del model.graph.output[0].type.tensor_type.shape.dim[2:]
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("Y0", TensorProto.FLOAT, [1, 8, None, None]))
    made = device.session(model, gpu_mem_limit=64 << 20)
    with pytest.raises(Exception, match=r"(?i)memory"):
        made.run(None, {"X": np.ones((1, 16, 2048, 2048), np.float32)})
    x = np.ones((1, 16, 6, 5), np.float32)
    np.testing.assert_array_equal(made.run(None, {"X": x})[0], doubled(x, tensors["W0"]))


@device.needs_gpu
@pytest.mark.parametrize("command", ["run", "bench"])
def test_commands_take_the_provider(
    command: str, library: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    weights = np.random.default_rng(0).standard_normal((3, 3, 2, 3)).astype(np.float32)
    onnx.save(ortconv.convert(upsampling(), target="plugin", tensors={"w": weights}), "m.onnx")
    more = ("--rounds", "3", "--seconds", "0.01") if command == "bench" else ()
    result = run_cli(command, "m.onnx", "--provider", "cuda", *more)
    assert result.exit_code == 0, result.stderr


@device.needs_gpu
def test_verify_takes_the_provider(library: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    upsampling().save("up.json")
    result = run_cli("verify", "up.json", "--target", "plugin", "--backend", "native", "--provider", "cuda")
    assert result.exit_code == 0, result.stdout

"""The CUDA provider on a machine without a GPU: what is looked for, what is said, and that nothing else changes."""

from __future__ import annotations

import ctypes
import importlib
import pathlib
import sys
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import ortconv
from ortconv.errors import PluginError
from ortconv.runtime import cuda
from tests.command_line import run_cli

FLOAT = np.dtype(np.float32)
HAS_PROVIDER = cuda.PROVIDER in onnxruntime.get_available_providers()
without_provider = pytest.mark.skipif(HAS_PROVIDER, reason="this ONNX Runtime has the CUDA provider")


def has_driver() -> bool:
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


@pytest.fixture
def model(cases: dict[str, Any]) -> onnx.ModelProto:
    result: onnx.ModelProto = cases["conv_plain"].model(FLOAT)
    return result


@pytest.fixture
def wheels(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """An empty folder that the package ``nvidia`` of wheels lies in."""
    folder = tmp_path / "nvidia"
    folder.mkdir()
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    for name in [name for name in sys.modules if name.split(".")[0] == "nvidia"]:
        monkeypatch.delitem(sys.modules, name)
    return folder


def put(folder: pathlib.Path, *paths: str) -> list[str]:
    for path in paths:
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).touch()
    return [str(folder / path) for path in paths]


def test_compiler_is_found_in_wheels_newest_first(wheels: pathlib.Path) -> None:
    found = put(wheels, "cu13/lib/libnvrtc.so.13", "cuda_nvrtc/lib/libnvrtc.so.12")
    put(wheels, "cu13/lib/libnvrtc-builtins.so.13.2", "cu13/lib/libnvrtc.alt.so.13", "cublas/lib/libcublas.so.12")
    assert cuda.nvrtc_paths() == tuple(found)


def test_compiler_is_found_in_wheels_for_windows(wheels: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "win32")
    found = put(wheels, "cu13/bin/x86_64/nvrtc64_130_0.dll", "cuda_nvrtc/bin/nvrtc64_120_0.dll")
    put(wheels, "cuda_nvrtc/bin/nvrtc-builtins64_128.dll")
    assert cuda.nvrtc_paths() == tuple(found)


@pytest.mark.parametrize("entry", ["", "."])
def test_compiler_in_the_current_folder_is_not_used(
    wheels: pathlib.Path, monkeypatch: pytest.MonkeyPatch, entry: str
) -> None:
    put(wheels, "cu13/lib/libnvrtc.so.13")
    monkeypatch.chdir(wheels.parent)
    for path in (entry, str(wheels.parent)):
        monkeypatch.setattr(sys, "path", [path])
        importlib.invalidate_caches()
        assert cuda.nvrtc_paths() == ()


def test_compiler_is_not_there(wheels: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cuda.nvrtc_paths() == ()
    monkeypatch.setattr(sys, "path", [])
    assert cuda.nvrtc_paths() == ()


def test_library_is_told_where_the_compiler_is(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: [cuda.PROVIDER, "CPUExecutionProvider"])
    monkeypatch.setattr(cuda, "nvrtc_paths", lambda: ("/one/libnvrtc.so.13", "/two/libnvrtc.so.12"))
    options = onnxruntime.SessionOptions()
    ortconv.register(options)
    assert options.get_session_config_entry(cuda.NVRTC_ENTRY) == "/one/libnvrtc.so.13:/two/libnvrtc.so.12"


@pytest.mark.parametrize("value", ["0", "1"])
def test_tf32_is_a_setting_of_the_session(value: str, library: str, model: onnx.ModelProto) -> None:
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry(cuda.TF32_ENTRY, value)
    for _ in range(2):  # registered once
        ortconv.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def test_tf32_is_yes_or_no(library: str) -> None:
    options = onnxruntime.SessionOptions()
    options.add_session_config_entry(cuda.TF32_ENTRY, "true")
    with pytest.raises(PluginError, match="use_tf32 = 'true' is not supported; allowed: 0, 1"):
        ortconv.register(options)


def test_tf32_cannot_be_changed_afterwards(library: str) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    ortconv.register(options)
    options.add_session_config_entry(cuda.TF32_ENTRY, "1")
    with pytest.raises(PluginError, match="use_tf32 was changed after the ops were registered"):
        ortconv.register(options)


@pytest.mark.parametrize(
    ("providers", "expected"),
    [
        (None, False),
        ([], False),
        (["CPUExecutionProvider"], False),
        (["TensorrtExecutionProvider", "CUDAExecutionProvider"], True),
        ([("CUDAExecutionProvider", {"device_id": 1}), "CPUExecutionProvider"], True),
    ],
)
def test_is_requested(providers: Any, expected: bool) -> None:
    assert cuda.is_requested(providers) is expected


@without_provider
def test_session_on_a_gpu_needs_the_provider(library: str, model: onnx.ModelProto) -> None:
    with pytest.raises(PluginError) as caught:
        ortconv.InferenceSession(model, providers=["CUDAExecutionProvider", "CPUExecutionProvider"])
    assert caught.value.problem == f"this ONNX Runtime {onnxruntime.__version__} has no CUDA provider."
    assert "ortconv[gpu]" in caught.value.hint


@without_provider
@pytest.mark.filterwarnings("ignore:Specified provider 'CUDAExecutionProvider':UserWarning")
def test_session_falls_back_when_it_is_told_so(library: str, model: onnx.ModelProto) -> None:
    providers = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    session = ortconv.InferenceSession(model, providers=providers, enable_fallback=1)
    assert session.get_providers() == ["CPUExecutionProvider"]


@pytest.mark.skipif(not HAS_PROVIDER or has_driver(), reason="needs onnxruntime-gpu on a machine without a GPU")
def test_session_on_a_gpu_needs_the_driver(library: str, model: onnx.ModelProto, capfd: Any) -> None:
    with pytest.raises(PluginError) as caught:
        ortconv.InferenceSession(model, providers=["CUDAExecutionProvider"])
    assert caught.value.problem.startswith("the CUDA provider cannot be used: there is no NVIDIA driver (libcuda.so.1")
    assert "https://www.nvidia.com/drivers" in caught.value.hint
    assert capfd.readouterr() == ("", "")


def test_what_is_missing_when_the_provider_is_not_active() -> None:
    cuda.require(["CUDAExecutionProvider", "CPUExecutionProvider"])
    with pytest.raises(PluginError, match=r"ONNX Runtime's log says why. CUDA's libraries come with .*ortconv\[gpu\]"):
        cuda.require(["CPUExecutionProvider"])


@without_provider
@pytest.mark.parametrize("command", ["run", "bench", "verify"])
def test_commands_need_the_provider(command: str, tmp_path: pathlib.Path, model: onnx.ModelProto) -> None:
    onnx.save(model, tmp_path / "m.onnx")
    result = run_cli(command, tmp_path / "m.onnx", "--provider", "cuda")
    assert result.exit_code == 2
    assert "--provider: cuda is not available; available: " in result.stderr
    assert 'pip install "ortconv[gpu]".' in result.stderr


def test_an_error_on_a_gpu_is_no_error_of_a_session_on_the_cpu(
    library: str, model: onnx.ModelProto, cases: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernels for the GPU are registered, and neither driver nor compiler is touched."""
    monkeypatch.setenv("ORTCONV_NVRTC", "/nowhere/libnvrtc.so")
    case = cases["conv_plain"]
    session = ortconv.InferenceSession(model, providers=["CPUExecutionProvider"])
    assert session.run(None, case.feeds(case.inputs(FLOAT)))[0].shape == (2, 2, 3, 3)

"""Finding the native library and registering it, and what is said when that cannot be done."""

from __future__ import annotations

import importlib.resources
import pathlib
import sys
from typing import Any

import numpy as np
import onnxruntime
import pytest

import ortconv
from ortconv.errors import PluginError
from ortconv.runtime import library


@pytest.fixture
def model(cases: dict[str, Any]) -> bytes:
    """A model without function bodies: it loads only where the library is registered."""
    return bytes(cases["conv_plain"].model(np.dtype(np.float32)).SerializeToString())


def test_library_is_a_file(library: str) -> None:
    assert pathlib.Path(library).is_file()


def test_environment_names_another_library(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    other = tmp_path / "other.so"
    other.touch()
    monkeypatch.setenv(library.LIBRARY_VARIABLE, str(other))
    assert ortconv.library_path() == str(other)


def test_environment_names_no_library(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    monkeypatch.setenv(library.LIBRARY_VARIABLE, str(tmp_path / "none.so"))
    with pytest.raises(PluginError) as caught:
        ortconv.library_path()
    assert caught.value.problem == f"ORTCONV_LIBRARY is {str(tmp_path / 'none.so')!r}, which is not a file."
    assert "Unset ORTCONV_LIBRARY" in caught.value.hint


@pytest.mark.parametrize(
    ("platform", "name"),
    [("linux", "libortconv_ops.so"), ("darwin", "libortconv_ops.dylib"), ("win32", "ortconv_ops.dll")],
)
def test_library_is_not_installed(
    platform: str, name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.delenv(library.LIBRARY_VARIABLE, raising=False)
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(importlib.resources, "files", lambda package: tmp_path / package)
    monkeypatch.setattr(library, "_installed_path", lambda name: None)
    expected = tmp_path / "ortconv" / "lib" / name
    with pytest.raises(PluginError) as caught:
        ortconv.library_path()
    assert str(expected) in caught.value.problem
    assert "backend='python'" in caught.value.hint
    expected.parent.mkdir(parents=True)
    expected.touch()
    assert ortconv.library_path() == str(expected)


def test_library_of_an_installation_that_the_sources_hide(
    monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path
) -> None:
    monkeypatch.delenv(library.LIBRARY_VARIABLE, raising=False)
    installed = ortconv.library_path()
    monkeypatch.setattr(importlib.resources, "files", lambda package: tmp_path / package)
    assert pathlib.Path(ortconv.library_path()).samefile(installed)


def test_onnxruntime_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(PluginError) as caught:
        library.import_onnxruntime()
    assert caught.value.problem.startswith("ONNX Runtime cannot be imported")
    assert "ortconv[cpu]" in caught.value.hint
    assert "ortconv[gpu]" in caught.value.hint


@pytest.mark.parametrize("version", ["1.23.2", "1.9.0", "0.5", "unknown"])
def test_onnxruntime_is_too_old(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "__version__", version)
    with pytest.raises(PluginError) as caught:
        ortconv.register(onnxruntime.SessionOptions())
    assert caught.value.problem == f"ONNX Runtime {version} is too old; allowed: 1.24 or newer."
    assert "onnxruntime>=1.24" in caught.value.hint


@pytest.mark.parametrize("version", ["1.24.0", "1.24.0rc1", "1.31.1", "1.100.0.dev1+cu13", "2.0"])
def test_onnxruntime_is_new_enough(version: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "__version__", version)
    assert library.import_onnxruntime() is onnxruntime


def test_register_takes_session_options_only() -> None:
    with pytest.raises(TypeError, match=r"takes an onnxruntime\.SessionOptions, not a str"):
        ortconv.register("model.onnx")


def test_library_cannot_be_loaded(monkeypatch: pytest.MonkeyPatch, tmp_path: pathlib.Path) -> None:
    broken = tmp_path / "broken.so"
    broken.write_text("not a library")
    monkeypatch.setenv(library.LIBRARY_VARIABLE, str(broken))
    with pytest.raises(PluginError) as caught:
        ortconv.register(onnxruntime.SessionOptions())
    assert f"ONNX Runtime {onnxruntime.__version__} cannot load {broken}" in caught.value.problem


def test_registering_twice_is_harmless(library: str, model: bytes) -> None:
    options = onnxruntime.SessionOptions()
    ortconv.register(options)
    ortconv.register(options)
    options.register_custom_ops_library(library)
    for _ in range(2):
        onnxruntime.InferenceSession(model, options)


def test_registering_on_options_that_have_the_library_already(library: str, model: bytes) -> None:
    options = onnxruntime.SessionOptions()
    options.register_custom_ops_library(library)
    ortconv.register(options)
    onnxruntime.InferenceSession(model, options)


def test_registering_on_the_copy_of_the_options_that_a_session_gives(library: str, model: bytes) -> None:
    options = onnxruntime.SessionOptions()
    ortconv.register(options)
    options.log_severity_level = 3  # ONNX Runtime warns that the entry which tells the options apart is overwritten
    copy = onnxruntime.InferenceSession(model, options).get_session_options()
    ortconv.register(copy)
    onnxruntime.InferenceSession(model, copy)


@pytest.mark.parametrize("ours_first", [True, False])
def test_beside_onnxruntime_extensions(ours_first: bool, library: str, model: bytes) -> None:
    extensions = pytest.importorskip("onnxruntime_extensions")
    options = onnxruntime.SessionOptions()
    if ours_first:
        ortconv.register(options)
    options.register_custom_ops_library(extensions.get_library_path())
    if not ours_first:
        ortconv.register(options)
    onnxruntime.InferenceSession(model, options)

"""Which implementation computes a convolution: asked for by name, told in a file, measured and remembered."""

from __future__ import annotations

import pathlib
import re
import shutil
import subprocess
import sys

import numpy as np
import onnx
import onnxruntime
import pytest

import ortconv
from ortconv.errors import PluginError
from ortconv.runtime import choices
from ortconv.runtime.choices import CHOICES_ENTRY, IMPLEMENTATION_ENTRY, TUNE_ENTRY
from tests.native.single_layers import Layer, data, definition, error, model, run

LAYERS = {
    "kernel 4, stride 2": Layer("ConvTranspose", [2, 36, 9, 8], [36, 34, 4, 4], [2, 2], pads=[1, 1, 1, 1]),
    "kernel as long as the stride": Layer("ConvTranspose", [1, 20, 8, 16], [20, 12, 2, 2], [2, 2]),
    "depthwise": Layer("ConvTranspose", [1, 24, 7, 9], [24, 1, 3, 3], [1, 1], pads=[1, 1, 1, 1], group=24),
    "head": Layer("ConvTranspose", [1, 300, 40], [300, 2, 5], [1]),
    "gaps": Layer("ConvTranspose", [1, 8, 30], [8, 6, 2], [5]),
    "convolution": Layer("Conv", [1, 40, 12, 12], [34, 40, 3, 3], [1, 1], pads=[1, 1, 1, 1]),
}
ALL = {
    "winograd",
    "winograd_separate",
    "depth_to_space",
    "disjoint_windows",
    "sliding_src",
    "sliding_weights",
    "tapwise",
    "channel_lanes",
    "depthwise",
    "phases",
    "gemm_col2im",
    "columns",
    "im2col",
    "col2im",
}


def session(layer: Layer, weights: bool = True, **entries: str) -> onnxruntime.InferenceSession:
    """Returns a session of a layer, with constant weights or without, and config entries of ours."""
    options = onnxruntime.SessionOptions()
    for name, value in entries.items():
        options.add_session_config_entry(f"ortconv.{name}", value)
    w = data(layer, np.float32)["w"] if weights else None
    return ortconv.InferenceSession(model(layer, w, True, onnx.TensorProto.FLOAT), options)


@pytest.mark.parametrize("weights", [True, False], ids=["constant", "run-time"])
@pytest.mark.parametrize("name", LAYERS)
def test_each_implementation_gives_the_same(name: str, weights: bool, tmp_path: pathlib.Path) -> None:
    layer = LAYERS[name]
    feeds = data(layer, np.float32)
    expected = definition(layer, feeds["x"], feeds["w"])
    file = tmp_path / "choices"
    run(session(layer, weights, choices=str(file)), feeds)
    (choice, *_) = choices.read(file)
    assert choice.seconds.keys() <= ALL
    assert choice.implementation == min(choice.seconds, key=lambda each: choice.seconds[each])
    for implementation in choice.seconds:
        file = tmp_path / implementation
        found = run(session(layer, weights, implementation=implementation, choices=str(file)), feeds)
        assert error(found, expected) < 1e-6
        assert choices.read(file)[0].implementation == implementation


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(PluginError, match=r"ortconv.implementation = 'fft' is not supported; allowed: winograd, "):
        session(LAYERS["head"], implementation="fft")


def test_an_unknown_entry_is_refused() -> None:
    expected = r"session config entry ortconv.tuned is unknown; allowed: ortconv.implementation, ortconv.choices, "
    with pytest.raises(PluginError, match=expected):
        session(LAYERS["head"], tuned="file")


def test_what_cannot_compute_a_layer_leaves_it_to_others() -> None:
    layer = LAYERS["head"]
    feeds = data(layer, np.float32)
    found = run(session(layer, implementation="depthwise"), feeds)
    assert error(found, definition(layer, feeds["x"], feeds["w"])) < 1e-6


@pytest.mark.parametrize("weights", [True, False], ids=["constant", "run-time"])
def test_what_was_measured_is_remembered(weights: bool, tmp_path: pathlib.Path) -> None:
    layer, memory = LAYERS["kernel 4, stride 2"], tmp_path / "tuned"
    feeds = data(layer, np.float32)
    expected = definition(layer, feeds["x"], feeds["w"])
    tuned = session(layer, weights, tune=str(memory))
    for _ in range(3):
        assert error(run(tuned, feeds), expected) < 1e-6
    (line,) = memory.read_text().splitlines()
    key, name = line.split()
    assert name in ALL
    # Another session believes the file, also one that names something slower.
    memory.write_text(f"{key} col2im\n")
    again, file = tmp_path / "again", tmp_path / "choices"
    again.write_text(memory.read_text())
    assert error(run(session(layer, weights, tune=str(again), choices=str(file)), feeds), expected) < 1e-6
    assert choices.read(file)[-1 if weights else 0].implementation == "col2im"


@pytest.mark.parametrize("content", [b"", b"\x00\xff\n\n nothing\n", b"a b c\nd\n"])
def test_a_file_that_says_nothing_is_no_error(content: bytes, tmp_path: pathlib.Path) -> None:
    layer, memory = LAYERS["gaps"], tmp_path / "tuned"
    memory.write_bytes(content)
    feeds = data(layer, np.float32)
    found = run(session(layer, tune=str(memory)), feeds)
    assert error(found, definition(layer, feeds["x"], feeds["w"])) < 1e-6
    assert memory.read_bytes().startswith(content)


@pytest.mark.parametrize("entry", ["tune", "choices"])
@pytest.mark.parametrize("name", ["", "no/folder"], ids=["folder", "in a missing folder"])
def test_a_file_that_cannot_be_opened_is_refused(entry: str, name: str, tmp_path: pathlib.Path) -> None:
    file = str(tmp_path / name)
    expected = f"ortconv.{entry} = '{file}' cannot be opened; allowed: a file that can be written"
    with pytest.raises(PluginError, match=re.escape(expected)):
        session(LAYERS["gaps"], **{entry: file})


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux keeps root from writing a running program")
def test_what_was_measured_may_lie_in_a_file_that_is_only_read(tmp_path: pathlib.Path) -> None:
    layer, memory = LAYERS["gaps"], tmp_path / "tuned"
    shutil.copy(shutil.which("sleep") or "", memory)
    content = memory.read_bytes()
    feeds = data(layer, np.float32)
    with subprocess.Popen([memory, "60"]) as program:
        found = run(session(layer, tune=str(memory)), feeds)
        program.kill()
    assert error(found, definition(layer, feeds["x"], feeds["w"])) < 1e-6
    assert memory.read_bytes() == content


def test_the_environment_counts_where_there_is_no_entry(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer, told = LAYERS["convolution"], tmp_path / "told"
    feeds = data(layer, np.float32)
    monkeypatch.setenv("ORTCONV_CHOICES", str(told))
    monkeypatch.setenv("ORTCONV_IMPLEMENTATION", "im2col")
    run(session(layer), feeds)
    run(session(layer, implementation="phases"), feeds)
    assert [choice.implementation for choice in choices.read(told)] == ["im2col", "phases"]


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("ORTCONV_IMPLEMENTATION", "fft", "winograd, "),
        ("ORTCONV_CUDA_USE_TF32", "yes", "0, 1"),
        ("ORTCONV_FOURIER_OPERATORS", "2", "0, 1"),
    ],
)
def test_an_unknown_value_in_the_environment_is_refused(
    variable: str, value: str, allowed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(
        PluginError, match=f"environment variable {variable} = '{value}' is not supported; allowed: {allowed}"
    ):
        session(LAYERS["head"])


def test_entries_have_these_names() -> None:
    assert (CHOICES_ENTRY, IMPLEMENTATION_ENTRY, TUNE_ENTRY) == (
        "ortconv.choices",
        "ortconv.implementation",
        "ortconv.tune",
    )

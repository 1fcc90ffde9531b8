"""Every sample runs, and prints what its text says."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys
import wave

import numpy as np
import pytest
from PIL import Image

from tests.folders import ROOT

SAMPLES = ROOT / "samples"


def run(name: str, folder: pathlib.Path, *arguments: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-W", "error::DeprecationWarning", str(SAMPLES / name), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def test_picture_is_enlarged_fourfold_and_drawn_beside_the_original(tmp_path: pathlib.Path) -> None:
    printed = run("upsample_picture.py", tmp_path, "drawn.png")
    assert "(1, 3, 80, 112) -> (1, 3, 320, 448)" in printed
    error = re.search(r"off by (\S+)", printed)
    assert error is not None
    assert float(error[1]) < 1e-6
    with Image.open(tmp_path / "drawn.png") as image:
        assert image.size == (2 * 448 + 12 + 24, 320 + 40)
        pixels = np.asarray(image, np.float64)
    before, after = pixels[28:348, 12:460], pixels[28:348, 472:920]
    assert before.std() > 20, "the picture is not flat"
    assert np.abs(before - after).mean() < 6, "the enlarged picture shows the same"
    blocks, smooth = (np.abs(np.diff(side, axis=1)).max(axis=2) for side in (before, after))
    assert np.count_nonzero(blocks) < np.count_nonzero(smooth) / 2, "before: blocks; after: gradients"
    assert smooth.max() < 0.6 * blocks.max(), "after: no hard edges"


def test_decoder_grows_to_the_sizes_of_its_skip_connections(tmp_path: pathlib.Path) -> None:
    lines = run("unet_decoder.py", tmp_path).splitlines()
    assert len(lines) == 3
    for line, size in zip(lines, ["32, 48", "33, 47", "61, 35"], strict=True):
        assert f"(1, 2, {size})" in line
        share = re.search(r"foreground (\S+)%", line)
        assert share is not None
        assert 1 < float(share[1]) < 99


def test_sound_loses_its_clicks_and_keeps_its_tones(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("matplotlib", reason="the sample draws spectrograms with matplotlib")
    printed = run("resynthesize_sound.py", tmp_path, "out")
    assert "analysis: Conv -> ForwardSTFT; n_fft 1024, hop 256, window 1024, bins 513" in printed
    assert "synthesis: ConvTranspose -> InverseSTFT; n_fft 1024, hop 256, window 1024, bins 513" in printed
    errors = re.findall(r"error (\S+) of the RMS, agrees with float64", printed)
    assert len(errors) == 2
    assert max(map(float, errors)) < 1e-5
    assert re.search(r"time: ONNX Runtime \S+ ms, optimized \S+ ms, \S+ times as fast", printed)
    folder = tmp_path / "out"
    plain, optimized = (folder / f"resynthesize_sound{each}.onnx" for each in ("", "_optimized"))
    assert optimized.stat().st_size < plain.stat().st_size / 20, "no basis is stored"
    before, after = (samples(folder / name) for name in ("input.wav", "output.wav"))
    assert len(before) == len(after) == 188 * 256
    inner = slice(4000, -4000)
    seconds = np.arange(len(before)) / 16000
    heard = [np.exp(-2j * np.pi * frequency * seconds[inner]) for frequency in (523.25, 1567.98)]
    for wave_, amplitude in zip(heard, (0.25, 0.1), strict=True):
        assert 2 * abs(np.mean(after[inner] * wave_)) == pytest.approx(amplitude, rel=0.02)
    # What remains without the tones is clicks, which become much quieter.
    left = []
    for sound in (before, after):
        tones = sum(2 * (np.mean(sound[inner] * wave_) / wave_).real for wave_ in heard)
        left.append(np.sqrt(np.mean((sound[inner] - tones) ** 2)))
    assert left[0] > 0.02
    assert left[1] < left[0] / 5
    with Image.open(folder / "resynthesize_sound.png") as image:
        assert image.width > 800
        assert np.asarray(image.convert("L"), np.float64).std() > 20, "the picture is not flat"


def samples(path: pathlib.Path) -> np.ndarray:
    with wave.open(str(path)) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 16000)
        return np.frombuffer(file.readframes(file.getnframes()), "<i2") / 32767


def test_onednn_graph_follows_the_page_or_the_library(tmp_path: pathlib.Path) -> None:
    lines = run("onednn_backward_data.py", tmp_path).splitlines()
    assert lines[0].split(maxsplit=1) == ["spec", "[1, 10, 102, 20, 203, 30, 304, 40]"]
    assert lines[1].split(maxsplit=1) == ["runtime", "[10, 102, 20, 203, 30, 304, 40, 400]"]
    assert (
        "ConvolutionBackwardData pads begin [0, 0], end [0, 1]; the library pads begin [0, 1], end [0, 0]" in lines[2]
    )


def test_demo_agrees_with_the_source_runtimes(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("openvino", reason="the demo compares with OpenVINO")
    printed = run("demo.py", tmp_path, "out")
    assert printed.count("agrees") == 6
    assert "DIFFERS" not in printed
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        "upsample_picture.onnx",
        "upsample_picture.png",
        "unet_decoder.onnx",
        "onednn_upsample.onnx",
    }

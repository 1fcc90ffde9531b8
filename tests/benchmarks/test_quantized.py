"""The benchmark of quantised networks checks answers before it times anything; NNCF is not needed to see that."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import click.testing
import numpy as np
import openvino
import pytest
from openvino import opset1

from benchmarks import quantized, quantized_sources

SAID = np.array([[3, -4]], np.float32)
FILE = pathlib.Path("zoo", "net", "model.xml")


def _stub(monkeypatch: pytest.MonkeyPatch, openvino: np.ndarray, ours: np.ndarray) -> dict[str, int]:
    """Puts engines of these answers in the place of the real ones; returns how often each has run."""
    runs = dict.fromkeys(("OpenVINO", "ortconv", "float32"), 0)

    def engine(name: str, answer: np.ndarray) -> Callable[[], list[np.ndarray]]:
        def run() -> list[np.ndarray]:
            runs[name] += 1
            return [answer]

        return run

    def engines(*_: Any) -> tuple[dict[str, Callable[[], list[np.ndarray]]], list[np.ndarray]]:
        answers = {"OpenVINO": openvino, "ortconv": ours, "float32": SAID}
        return {name: engine(name, answer) for name, answer in answers.items()}, [SAID]

    monkeypatch.setattr(quantized, "_engines", engines)
    return runs


def _compared(rounds: int) -> dict[str, float]:
    return quantized.compare_files("net", FILE, FILE, [], rounds, 0.01)


@pytest.mark.parametrize(("openvino", "ours"), [(0.1, 0.14), (0.1, 0.0), (0.0, 0.01)])
def test_answers_as_close_as_those_of_openvino_are_timed(
    monkeypatch: pytest.MonkeyPatch, openvino: float, ours: float
) -> None:
    runs = _stub(monkeypatch, SAID + np.float32(openvino), SAID - np.float32(ours))
    found = _compared(3)
    assert list(found) == ["OpenVINO", "ortconv", "float32"]
    assert all(milliseconds > 0 for milliseconds in found.values())
    assert all(count > 3 for count in runs.values())


@pytest.mark.parametrize(("openvino", "ours"), [(0.1, 0.2), (0.0, 0.1), (0.1, float("nan"))])
def test_others_are_not(monkeypatch: pytest.MonkeyPatch, openvino: float, ours: float) -> None:
    runs = _stub(monkeypatch, SAID + np.float32(openvino), SAID - np.float32(ours))
    with pytest.raises(click.ClickException, match="net: ortconv is off by"):
        _compared(1)
    assert runs == {"OpenVINO": 1, "ortconv": 1, "float32": 0}


def test_numbers_of_objects_may_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    _stub(monkeypatch, SAID, np.zeros((2, 2), np.float32))
    assert list(_compared(1)) == ["OpenVINO", "ortconv", "float32"]


def test_a_file_is_compared_with_its_float_form(tmp_path: pathlib.Path) -> None:
    rng, folder = np.random.default_rng(0), tmp_path / "net"
    folder.mkdir()
    x = opset1.parameter([1, 3, 9, 9], np.float32)
    bounds = [np.float32(each) for each in (0, 255, 0, 255)]
    codes = opset1.convert(opset1.constant(rng.integers(-127, 128, (4, 3, 3, 3)).astype(np.int8)), "f32")
    weights = opset1.multiply(codes, np.float32(0.01))
    y = opset1.convolution(opset1.fake_quantize(x, *bounds, 256), weights, [1, 1], [1, 1], [1, 1], [1, 1])
    openvino.save_model(openvino.Model([y], [x]), folder / "model.xml", compress_to_fp16=False)
    done = click.testing.CliRunner().invoke(
        quantized.main, ["--file", str(folder / "model.xml"), "--rounds", "1", "--seconds", "0.01"]
    )
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[2].startswith("| net | ")
    assert len(done.output.splitlines()) == 4


def test_the_table_ends_with_the_means(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"resnet18": (2.0, 4.0, 8.0), "resnet50": (8.0, 4.0, 16.0)}
    monkeypatch.setattr(quantized, "NETWORKS", dict.fromkeys(times, 224))
    monkeypatch.setattr(quantized, "compare", lambda name, *_: dict(zip("abc", times[name], strict=True)))
    done = click.testing.CliRunner().invoke(quantized.main, ["--network", "resnet"])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[2:] == [
        "| resnet18 | 2.00 | 4.00 | 8.00 | 0.50 | 2.00 |",
        "| resnet50 | 8.00 | 4.00 | 16.00 | 2.00 | 4.00 |",
        "| geometric mean | | | | 1.00 | 2.83 |",
    ]


def test_networks_of_packages_that_are_missing_are_skipped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quantized_sources.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(quantized, "NETWORKS", {"resnet18": 224})
    times = quantized.compare
    found = {"OpenVINO": 2.0, "ortconv": 4.0, "float32": 8.0}
    monkeypatch.setattr(quantized, "compare", lambda name, *more: found if name == "resnet18" else times(name, *more))
    done = click.testing.CliRunner().invoke(quantized.main)
    assert done.exit_code == 0, done.output
    assert "PP-OCRv4 detector is skipped: rapidocr-onnxruntime is not installed" in done.stderr
    assert "U-Net is skipped: torch is not installed" in done.stderr
    assert "| resnet18 | 2.00 | 4.00 | 8.00 | 0.50 | 2.00 |" in done.stdout


def test_an_unknown_network_is_wrong_usage() -> None:
    done = click.testing.CliRunner().invoke(quantized.main, ["--network", "alexander"])
    assert done.exit_code == 2
    assert "alexander" in done.output

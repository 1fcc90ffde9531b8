"""The benchmark of the execution provider compares answers before it times anything; none is exported here."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import click.testing
import numpy as np
import onnx
import pytest

from benchmarks import provider, provider_networks
from benchmarks.provider import Found
from benchmarks.quantized_sources import Missing
from tests.optimizer.models import parsed, rand

ANSWER = np.array([[3, -4]], np.float32)


def _stub(monkeypatch: pytest.MonkeyPatch, *answers: np.ndarray) -> list[int]:
    """Puts engines of these answers in the place of the real ones; returns how often each has run."""
    runs = [0] * len(answers)

    def engine(index: int) -> Callable[[], list[np.ndarray]]:
        def run() -> list[np.ndarray]:
            runs[index] += 1
            return [answers[index]]

        return run

    monkeypatch.setattr(provider, "_engines", lambda *_: [engine(index) for index in range(len(answers))])
    monkeypatch.setattr(provider, "_claimed", lambda _: 2)
    return runs


def test_engines_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = _stub(monkeypatch, ANSWER, ANSWER * (1 + 1e-6), ANSWER)
    found = provider.compare("network", pathlib.Path("network.onnx"), 1e-5, 3, 0.01)
    assert found.claimed == 2
    assert all(milliseconds > 0 for milliseconds in found.milliseconds)
    assert all(count > 6 for count in runs)


@pytest.mark.parametrize("wrong", [ANSWER + 0.01, ANSWER * np.float32("nan")])
@pytest.mark.parametrize("engine", ["provider", "optimized"])
def test_a_wrong_answer_is_not_timed(monkeypatch: pytest.MonkeyPatch, wrong: np.ndarray, engine: str) -> None:
    answers = {"provider": ANSWER, "optimized": ANSWER, engine: wrong}
    runs = _stub(monkeypatch, ANSWER, *answers.values())
    with pytest.raises(click.ClickException, match=f"network: {engine} differs from ONNX Runtime"):
        provider.compare("network", pathlib.Path("network.onnx"), 1e-5, 1, 0.01)
    assert max(runs) == 1


def test_a_network_without_and_with_the_provider(tmp_path: pathlib.Path) -> None:
    model = parsed(
        "g (float[1,16,32,32] x) => (float[1,32,H,W] y) { y = ConvTranspose <strides = [2, 2]> (x, w) }",
        w=rand(16, 32, 4, 4),
    )
    onnx.save(model, tmp_path / "network.onnx")
    found = provider.compare("network", tmp_path / "network.onnx", 1e-5, 1, 0.01)
    assert found.claimed == 1


def test_tables_end_with_the_means_and_how_many_are_slower(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"a": (2.0, 1.0, 4.0), "b": (8.0, 16.0, 8.0)}

    def missing(_: pathlib.Path) -> None:
        raise Missing("torch is not installed")

    def write(_: pathlib.Path) -> None:
        return

    monkeypatch.setattr(provider, "GROUPS", {"Some": {"a": write, "b": write, "c": missing}, "None": {"d": missing}})
    monkeypatch.setattr(provider, "compare", lambda name, *_: Found(1, times[name]))
    done = click.testing.CliRunner().invoke(provider.main)
    assert done.exit_code == 0, done.output
    assert done.stdout.splitlines()[1:] == [
        "## Some",
        "",
        "| network | claimed | plain, ms | provider, ms | optimized, ms | plain / provider | plain / optimized |",
        "|---|--:|--:|--:|--:|--:|--:|",
        "| a | 1 | 2.00 | 1.00 | 4.00 | 2.00 | 0.50 |",
        "| b | 1 | 8.00 | 16.00 | 8.00 | 0.50 | 1.00 |",
        "| geometric mean | | | | | 1.00 | 0.71 |",
        "",
        "2 networks; 1 take more than 3% longer with the provider.",
    ]
    assert "c is skipped: torch is not installed" in done.stderr


def test_an_unknown_network_is_wrong_usage() -> None:
    done = click.testing.CliRunner().invoke(provider.main, ["--network", "alexander"])
    assert done.exit_code == 2
    assert "alexander" in done.output


def test_at_least_40_networks_of_different_names() -> None:
    names = [name for networks in provider_networks.GROUPS.values() for name in networks]
    assert len(names) == len(set(names)) >= 40


def test_networks_that_are_onnx_models_already(tmp_path: pathlib.Path) -> None:
    write: Any = provider_networks.GROUPS["Fourier transforms"]["WhisperFrontEnd"]
    write(tmp_path / "network.onnx")
    assert [node.op_type for node in onnx.load(tmp_path / "network.onnx").graph.node][:2] == ["Pad", "Conv"]

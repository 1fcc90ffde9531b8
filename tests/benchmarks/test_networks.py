"""The benchmark of networks compares answers before it times anything; torch itself is not needed to see that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click.testing
import numpy as np
import pytest

from benchmarks import networks

ANSWER = np.array([[3, -4]], np.float32)


class _Tensor:
    def numpy(self) -> np.ndarray:
        return ANSWER


def _stub(monkeypatch: pytest.MonkeyPatch, *answers: np.ndarray) -> list[int]:
    """Puts engines of these answers in the place of the real ones; returns how often each has run."""
    runs = [0] * len(answers)

    def engine(index: int) -> Callable[[], np.ndarray]:
        def run() -> np.ndarray:
            runs[index] += 1
            return answers[index]

        return run

    def engines(*_: Any) -> list[Callable[[], np.ndarray]]:
        return [engine(index) for index in range(len(answers))]

    monkeypatch.setattr(networks, "network", lambda name: (lambda image: _Tensor(), None))
    monkeypatch.setattr(networks, "_engines", engines)
    return runs


def test_engines_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = _stub(monkeypatch, ANSWER, ANSWER * (1 + 1e-6), ANSWER)
    found = networks.compare("resnet18", 3, 0.01)
    assert list(found) == ["torch's export", "OpenVINO", "ortconv"]
    assert all(milliseconds > 0 for milliseconds in found.values())
    assert all(count > 6 for count in runs)


@pytest.mark.parametrize("wrong", [ANSWER + 0.01, ANSWER * np.float32("nan")])
def test_a_wrong_answer_is_not_timed(monkeypatch: pytest.MonkeyPatch, wrong: np.ndarray) -> None:
    runs = _stub(monkeypatch, ANSWER, ANSWER, wrong)
    with pytest.raises(click.ClickException, match="resnet18: ortconv differs from torch"):
        networks.compare("resnet18", 1, 0.01)
    assert runs == [1, 1, 1]


def test_the_table_ends_with_the_means(monkeypatch: pytest.MonkeyPatch) -> None:
    times = {"resnet18": (2.0, 8.0, 4.0), "resnet50": (8.0, 2.0, 4.0)}
    monkeypatch.setattr(networks, "NETWORKS", dict.fromkeys(times, 224))
    monkeypatch.setattr(networks, "compare", lambda name, *_: dict(zip("abc", times[name], strict=True)))
    done = click.testing.CliRunner().invoke(networks.main, ["--network", "resnet"])
    assert done.exit_code == 0, done.output
    assert done.output.splitlines()[2:] == [
        "| resnet18 | 2.00 | 8.00 | 4.00 | 0.50 | 2.00 |",
        "| resnet50 | 8.00 | 2.00 | 4.00 | 2.00 | 0.50 |",
        "| geometric mean | | | | 1.00 | 1.00 |",
    ]


def test_an_unknown_network_is_wrong_usage() -> None:
    done = click.testing.CliRunner().invoke(networks.main, ["--network", "alexander"])
    assert done.exit_code == 2
    assert "alexander" in done.output

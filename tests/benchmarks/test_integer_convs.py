"""The benchmark of convolutions of 8-bit integers compares every engine with exact sums before it times any."""

from __future__ import annotations

import click
import numpy as np
import pytest

from benchmarks import integer_convs
from benchmarks.integer_convs import Layer

LAYER = Layer("some", 4, 6, 3, 2, 9, 2)


def test_engines_are_timed() -> None:
    for layer in (LAYER, Layer("some", 5, 5, 5, 1, 7, 5)):
        found = integer_convs.compare(layer, 1, 0.01)
        assert list(found) == ["Conv of floats", "QLinearConv", "ortconv"]
        assert all(each > 0 for each in found.values())


@pytest.mark.parametrize("engine", ["Conv of floats", "QLinearConv", "ortconv"])
def test_wrong_answer_is_not_timed(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    right = integer_convs._engines

    def engines(layer: Layer, data: dict[str, np.ndarray]) -> object:
        runs = right(layer, data)
        wrong = np.roll(runs[engine](), 1, axis=1)
        return {**runs, engine: lambda: wrong}

    monkeypatch.setattr(integer_convs, "_engines", engines)
    with pytest.raises(click.ClickException, match=f"{engine} is wrong by"):
        integer_convs.compare(LAYER, 1, 0.01)

"""The benchmark of products by compressed weights compares every engine with float64 before it times any."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click
import numpy as np
import pytest

from benchmarks import compressed
from benchmarks.compressed import Layer


@pytest.fixture(autouse=True)
def _few_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compressed, "_BYTES", 1 << 12)


@pytest.mark.parametrize(("codes", "block"), [("u4", 16), ("i4", 32), ("u8", 0), ("i8", 64)])
def test_all_engines_are_right_and_timed(codes: str, block: int) -> None:
    found = compressed.compare(Layer(codes, block, 48, 64), 3, 1, 0.01)
    assert list(found) == ["standard operators", "OpenVINO", "ortconv"]
    assert all(microseconds > 0 for microseconds in found.values())


@pytest.mark.parametrize("wrong", [1.001, np.nan])
def test_a_wrong_answer_is_not_timed(monkeypatch: pytest.MonkeyPatch, wrong: float) -> None:
    right = compressed._engines

    def engines(model: Any, x: np.ndarray) -> dict[str, Callable[[], np.ndarray]]:
        runs = right(model, x)
        ours = runs["ortconv"]
        return runs | {"ortconv": lambda: ours() * np.float32(wrong)}

    monkeypatch.setattr(compressed, "_engines", engines)
    with pytest.raises(click.ClickException, match="ortconv is wrong"):
        compressed.compare(Layer("u4", 16, 48, 64), 1, 1, 0.01)

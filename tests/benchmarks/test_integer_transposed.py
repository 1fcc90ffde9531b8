"""The comparison of transposed convolutions of 8-bit integers, on a small layer."""

from __future__ import annotations

import click
import pytest

from benchmarks import integer_transposed
from benchmarks.integer_transposed import Layer, compare

SMALL = Layer("none", 8, 6, 4, 2, 1, 5, 2)


def test_engines_agree_and_are_timed() -> None:
    times = compare(SMALL, 1, 0.001)
    assert {"ortconv int8", "ortconv float32", "ONNX Runtime, QDQ", "ONNX Runtime float32"} <= times.keys()
    assert all(time > 0 for time in times.values())


def test_a_wrong_answer_ends_the_comparison(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(integer_transposed, "_STEPS", 0.1)
    with pytest.raises(click.ClickException, match="is wrong by"):
        compare(SMALL, 1, 0.001)

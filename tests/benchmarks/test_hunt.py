"""The hunt on random shapes: what is drawn, and a short run. No rate is asserted."""

from __future__ import annotations

import json
import math
import pathlib
import subprocess
import sys

import pytest

from benchmarks.hunt import has_gaps, shapes
from tests.folders import ROOT

DRAWN = shapes(1, 400)


def test_a_seed_names_one_list() -> None:
    assert shapes(1, 40) == DRAWN[:40]
    assert shapes(2, 40) != DRAWN[:40]
    assert len({shape.name for shape in DRAWN}) == len(DRAWN)


def test_shapes_are_what_the_distribution_says() -> None:
    for shape in DRAWN:
        assert min(shape.y_shape) >= 1
        assert 0 < shape.flops <= 2e9
        assert max(map(math.prod, (shape.x_shape, shape.w_shape, shape.y_shape))) <= 1 << 24
        assert shape.inputs % shape.group == shape.outputs % shape.group == 0
        assert all(extra < stride for extra, stride in zip(shape.extras, shape.strides, strict=True))
    assert {shape.axes for shape in DRAWN} == {1, 2, 3}
    for covered in (
        lambda shape: has_gaps(shape),
        lambda shape: shape.group == shape.inputs > 1,
        lambda shape: 1 < shape.group < shape.inputs,
        lambda shape: max(shape.dilations) > 1,
        lambda shape: shape.outputs == shape.group == 1,
        lambda shape: shape.inputs > 1024,
        lambda shape: max(shape.kernels) > 512,
        lambda shape: shape.batch > 4,
    ):
        assert sum(map(covered, DRAWN)) >= 4


@pytest.mark.slow
def test_short_run(tmp_path: pathlib.Path) -> None:
    arguments = (
        "--seed",
        "3",
        "--count",
        "3",
        "--rounds",
        "1",
        "--seconds",
        "0.001",
        "--json",
        tmp_path / "found.json",
    )
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.hunt", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "ONNX Runtime over" in done.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert len(found["shapes"]) == 3
    for entry in found["shapes"]:
        assert set(entry["seconds"]) == {"ort", "ours"}
        assert entry["ratio"] > 0
        assert not entry["wrong"]

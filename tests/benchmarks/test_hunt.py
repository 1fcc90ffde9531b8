"""The hunt on random shapes: a short run. No rate is asserted."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import pytest

from tests.folders import ROOT


@pytest.mark.slow
@pytest.mark.parametrize("distribution", ["any", "models"])
def test_short_run(tmp_path: pathlib.Path, distribution: str) -> None:
    arguments = (
        "--distribution",
        distribution,
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
    assert found["distribution"] == distribution
    assert len(found["shapes"]) == 3
    for entry in found["shapes"]:
        assert set(entry["seconds"]) == {"ort", "ours"}
        assert entry["ratio"] > 0
        assert not entry["wrong"]

"""The layers of the native library include each other in one direction."""

from __future__ import annotations

import pathlib
import re

import pytest

from tests.folders import ROOT

NATIVE = ROOT / "ortconv" / "native"

LAYERS = {
    "base": set(),
    "third_party": set(),
    "kernels": {"base", "third_party"},
    "ops": {"base", "kernels"},
    "cuda/params": set(),
    "cuda/device": {"cuda/params"},
    "cuda/plan": {"base", "kernels", "cuda/params"},
    "cuda/host": {"base", "cuda/params", "cuda/plan"},
    "ort/abi": {"base", "ops", "cuda/params", "cuda/plan", "cuda/host"},
    "ort": {"base", "kernels", "ops", "cuda/params", "cuda/plan", "cuda/host", "ort/abi"},
}
"""What each folder of the library may include, besides itself. Nothing includes testing/ or tests/."""


def layer(path: str) -> str:
    first, second, *_ = [*path.split("/"), ""]
    return f"{first}/{second}" if f"{first}/{second}" in LAYERS else first


def sources(folder: str) -> list[pathlib.Path]:
    return [p for p in sorted((NATIVE / folder).rglob("*")) if p.suffix in {".cc", ".cu", ".h"}]


@pytest.mark.parametrize("folder", LAYERS)
def test_includes_point_one_way(folder: str) -> None:
    assert sources(folder)
    allowed = LAYERS[folder] | {folder}
    wrong = [
        f"{path.relative_to(NATIVE)} includes {included}"
        for path in sources(folder)
        for included in re.findall(r'#include "([^"]+)"', path.read_text())
        if layer(included) not in allowed
    ]
    assert not wrong

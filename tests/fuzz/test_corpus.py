"""The corpus of the fuzz targets, inputs that once were findings among it, and what mutators make of it."""

from __future__ import annotations

import importlib
import pathlib
import random

import pytest

from tests.fuzz import oracle

CORPUS = pathlib.Path(__file__).parent / "corpus"
FILES = [(name, path) for name in oracle.TARGETS for path in sorted((CORPUS / name).iterdir())]


@pytest.mark.parametrize(("name", "path"), FILES, ids=[f"{name}-{path.stem}" for name, path in FILES])
def test_each_file_and_a_damaged_one(name: str, path: pathlib.Path, tmp_path: pathlib.Path) -> None:
    target = importlib.import_module(f"tests.fuzz.{name}")
    data = path.read_bytes()
    oracle.judge(target, data, tmp_path)
    others = [other.read_bytes() for _, other in FILES if _ == name]
    changed = target.mutate(data, random.Random(path.stem), others)
    if changed is not None:
        oracle.judge(target, changed, tmp_path)


@pytest.mark.parametrize("name", oracle.TARGETS)
def test_mutators_make_files_that_are_accepted_and_such_that_are_not(name: str, tmp_path: pathlib.Path) -> None:
    target = importlib.import_module(f"tests.fuzz.{name}")
    files = [path.read_bytes() for other, path in FILES if other == name]
    rng = random.Random(0)
    made = [target.mutate(rng.choice(files), rng, files) for _ in range(100)]
    outcomes = {oracle.judge(target, data, tmp_path) for data in made if data is not None}
    assert outcomes == {True, False}

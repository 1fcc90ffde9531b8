"""``samples/batch_inference.py``: results, how it goes on, what it refuses; in this process and with two workers."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import numpy as np
import onnx
import onnx.parser
import pytest
from PIL import Image

from tests.folders import ROOT

COUNT = 21


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    pathlib.Path("pictures").mkdir()
    rng = np.random.default_rng(0)
    for number in range(COUNT):
        pixels = rng.integers(0, 256, (5, 7, 3), dtype=np.uint8)
        Image.fromarray(pixels).save(f"pictures/{number}.png")
    pathlib.Path("pictures/notes.txt").write_text("no picture")


def model(batch: str = "N", size: str = "5, 7") -> None:
    text = f"g (float[{batch}, 3, {size}] x) => (float[{batch}, 3] mean, float[{batch}, 3, {size}] negative)"
    body = "{ mean = ReduceMean <keepdims = 0> (x, axes) negative = Neg(x) }"
    parsed = onnx.parser.parse_model(
        f'<ir_version: 10, opset_import: ["": 21]> {text} <int64[2] axes = {{2, 3}}> {body}'
    )
    onnx.save(parsed, "m.onnx")


def run(*arguments: str, code: int = 0) -> tuple[str, str]:
    done = subprocess.run(
        [sys.executable, str(ROOT / "samples" / "batch_inference.py"), "m.onnx", "pictures", "results", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout, done.stderr


def check_results(count: int = COUNT) -> None:
    """Asserts that each picture has its own results, and that nothing else was written."""
    assert len(list(pathlib.Path("results").iterdir())) == count
    for path in pathlib.Path("results").iterdir():
        with Image.open(pathlib.Path("pictures", path.name.removesuffix(".npz"))) as image:
            pixels = np.asarray(image, np.float32).transpose(2, 0, 1) / 255
        with np.load(path) as found:
            np.testing.assert_allclose(found["mean"], pixels.mean((1, 2)), rtol=1e-5)
            np.testing.assert_array_equal(found["negative"], -pixels)


@pytest.mark.parametrize("batch", ["N", "1", "4"])
def test_results_in_this_process(batch: str) -> None:
    model(batch)
    printed, _ = run("--actors", "0")
    assert printed.startswith(f"{COUNT} pictures, 0 of them done before\n{COUNT} pictures in ")
    check_results()


def test_a_second_run_does_what_is_missing() -> None:
    model()
    run("--actors", "0")
    kept = {path: path.stat().st_mtime_ns for path in sorted(pathlib.Path("results").iterdir())}
    for path in list(kept)[:5]:
        path.unlink()
        del kept[path]
    pathlib.Path("results/killed.part").write_bytes(b"half")
    printed, _ = run("--actors", "0")
    assert printed.startswith(f"{COUNT} pictures, {COUNT - 5} of them done before\n5 pictures in ")
    check_results()
    assert {path: path.stat().st_mtime_ns for path in kept} == kept
    assert run("--actors", "0")[0] == f"{COUNT} pictures, {COUNT} of them done before\n"


def test_a_broken_picture_is_told_and_stops_nothing() -> None:
    model()
    pathlib.Path("pictures/3.png").write_bytes(b"no picture")
    _, problems = run("--actors", "0", code=1)
    assert problems.count("\n") == 1
    assert "error: " in problems
    assert "pictures/3.png" in problems
    check_results(COUNT - 1)


@pytest.mark.parametrize(
    ("size", "arguments", "problem"),
    [
        ("H, W", (), "choose a size with --size"),
        ("5, 7, 2", (), "allowed: [N, 3, H, W]"),
    ],
)
def test_models_that_take_something_else_are_refused(size: str, arguments: tuple[str, ...], problem: str) -> None:
    model(size=size)
    assert problem in run(*arguments, code=1)[1]


def test_size_of_a_model_that_leaves_it_open() -> None:
    model(size="H, W")
    run("--actors", "0", "--size", "5x7")
    check_results()


@pytest.mark.slow
def test_two_workers_give_the_same() -> None:
    pytest.importorskip("ray.data", reason="needs Ray, which `make test-serve` installs")
    model()
    pathlib.Path("pictures/3.png").write_bytes(b"no picture")
    printed, problems = run("--actors", "2", "--batch", "4", code=1)
    assert f"{COUNT - 1} pictures in " in printed
    assert "pictures/3.png" in problems
    check_results(COUNT - 1)

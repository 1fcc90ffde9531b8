"""The benchmarks' arithmetic, their check of answers, and a short run. No rate is asserted."""

from __future__ import annotations

import dataclasses
import io
import json
import math
import pathlib
import subprocess
import sys

import numpy as np
import pytest
from rich.console import Console

from benchmarks import answers
from benchmarks.answers import Errors
from benchmarks.engines import Unsupported
from benchmarks.machine import Ceiling
from benchmarks.measure import Case, Timing, measure, speed_ups
from benchmarks.report import document, geometric_mean, show
from benchmarks.shapes import SHAPES, Shape
from benchmarks.turn import Fastest, Turn
from benchmarks.worker import Worker
from tests import oracle
from tests.folders import ROOT

SMALL = Shape("small", 2, 4, 6, (3, 5), 3, 2, 1, 1, group=2)


def test_shapes_are_distinct_and_many() -> None:
    assert len({shape.name for shape in SHAPES}) == len(SHAPES) >= 32


@pytest.mark.parametrize(
    ("shape", "output", "flops"),
    [
        # No overlap, nothing cut off: each of 2*3*4 weights meets each of 5 inputs, twice an operation.
        (Shape("", 1, 2, 3, (5,), 4, 4), (1, 3, 20), 2 * 2 * 3 * 4 * 5),
        # Stride 1 and pad 1: 3 taps at each of 4 positions, less one at each end.
        (Shape("", 1, 1, 1, (4,), 3, 1, 1), (1, 1, 4), 2 * (4 * 3 - 2)),
        # Both axes: the product.
        (Shape("", 3, 4, 4, (4, 4), 3, 1, 1, group=4), (3, 4, 4, 4), 3 * 4 * 2 * 10 * 10),
        # The output padding brings the tap that the padding cut off at the end back.
        (Shape("", 1, 1, 1, (4,), 3, 2, 1, 1), (1, 1, 8), 2 * (4 * 3 - 1)),
        # Dilated: taps at 0, 2, 4; two are cut off from the first position, one from the second, and so at the end.
        (Shape("", 1, 1, 1, (4,), 3, 1, 2, dilation=2), (1, 1, 4), 2 * (4 * 3 - 4)),
    ],
)
def test_flops_count_what_lands_in_the_output(shape: Shape, output: tuple[int, ...], flops: int) -> None:
    assert shape.y_shape == output
    assert shape.flops == flops


@pytest.mark.parametrize(
    ("kernel", "stride", "dilation", "taps"), [(4, 2, 1, 2), (3, 2, 1, 2), (3, 2, 2, 3), (3, 4, 2, 2), (2, 3, 1, 1)]
)
def test_terms_count_the_taps_that_meet_in_one_element(kernel: int, stride: int, dilation: int, taps: int) -> None:
    assert Shape("", 1, 6, 2, (9, 9), kernel, stride, group=2, dilation=dilation).terms == 3 * taps**2


def test_bytes() -> None:
    assert SMALL.bytes_moved("f32") == 4 * (2 * 4 * 15 + 4 * 3 * 9 + 2 * 6 * 6 * 10)
    assert SMALL.bytes_moved("bf16") * 4 == SMALL.bytes_moved("f64")


def test_roofline() -> None:
    shape = Shape("", 1, 1, 1, (100,), 1, 1)  # 200 operations on 804 bytes in float32
    copy = {1 << 10: 8.04}
    assert Ceiling(1, {"f32": 100.0}, copy, "").roofline(shape, "f32") == pytest.approx(2.0)
    assert Ceiling(1, {"f32": 1.5}, copy, "").roofline(shape, "f32") == 1.5
    assert Ceiling(1, {"f32": 1.5}, copy, "").roofline(shape, "f16") == 1.5
    assert Ceiling(1, {"f32": 1.5, "bf16": 3.0}, copy, "").roofline(shape, "bf16") == 3.0
    assert Ceiling(1, {"f32": 1.5, "amx bf16": 9.0}, copy, "").roofline(shape, "bf16") == pytest.approx(4.0)
    # A float in three parts takes six products of them, a float16 in two takes four.
    assert Ceiling(1, {"f32": 1.0, "amx bf16": 9.0}, copy, "").roofline(shape, "f32") == 1.5
    assert Ceiling(1, {"f32": 1.0, "amx bf16": 6.0}, copy, "").roofline(shape, "f16") == 1.5


@pytest.mark.parametrize(("size", "rate"), [(10, 4.0), (100, 4.0), (1000, 2.0), (100000, 2.0)])
def test_roofline_takes_the_bandwidth_of_what_holds_the_data(size: int, rate: float) -> None:
    shape = Shape("", 1, 1, 1, (size,), 1, 1)
    ceiling = Ceiling(1, {"f32": 1e9}, {1 << 10: 4.0, 1 << 15: 2.0}, "")
    assert ceiling.roofline(shape, "f32") == pytest.approx(shape.flops / shape.bytes_moved("f32") * rate)


def test_geometric_mean() -> None:
    assert geometric_mean([1.0, 4.0]) == pytest.approx(2.0)


@pytest.mark.parametrize(
    "shape",
    [
        SMALL,
        Shape("", 1, 3, 2, (7,), 4, 3, 1, dilation=2),
        Shape("", 1, 2, 2, (2, 3, 4), (1, 2, 3), (2, 1, 3), (0, 0, 1), (0, 0, 1)),
    ],
)
def test_reference_is_the_definition(shape: Shape) -> None:
    x, w = answers.data(shape, "f64")
    expected = oracle.transposed(
        x,
        w,
        strides=shape.strides,
        dilations=shape.dilations,
        begin=shape.pads,
        size=shape.y_shape[2:],
        group=shape.group,
    )
    np.testing.assert_allclose(answers.expect(shape, "f64", x, w).expected, expected, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize("dtype", ["f32", "f16", "bf16", "f64"])
def test_answers_are_held_to_the_bound(dtype: str) -> None:
    answer = answers.expect(SMALL, dtype, *answers.data(SMALL, dtype))
    right = answer.expected.astype(answers.NUMPY[dtype])
    assert answer.errors(right).excess <= 1
    off = answer.expected.copy()
    off[1, 2, 3, 4] += 4 * answer.bound[1, 2, 3, 4]
    assert answer.errors(off.astype(answers.NUMPY[dtype])).excess > 1
    assert math.isnan(answer.errors(np.full_like(right, np.nan)).excess)
    assert answer.errors(right[:1]).excess == math.inf
    assert answer.errors(right.astype(np.float64 if dtype != "f64" else np.float32)).excess == math.inf


def test_errors() -> None:
    answer = answers.Answer(np.array([1.0, 2.0, 3.0, 4.0]), np.full(4, 0.5), np.dtype(np.float32))
    errors = answer.errors(np.array([1.0, 2.25, 2.0, 4.0], np.float32))
    assert (errors.excess, errors.largest) == (2.0, 1.0)
    assert errors.rms == pytest.approx(math.sqrt((0.25**2 + 1) / 4))


class Fake:
    """An engine that adds something to the right answer, or raises."""

    def __init__(self, seconds: float, error: float = 0.0, failure: Exception | None = None) -> None:
        self.seconds = seconds
        self.error = error
        self.failure = failure
        self.turns: list[int] = []

    def answer(self, shape: Shape, dtype: str) -> np.ndarray:
        if self.failure:
            raise self.failure
        answer = answers.expect(shape, dtype, *answers.data(shape, dtype))
        return (answer.expected + self.error).astype(answer.dtype)

    def time(self, runs: int) -> Turn:
        self.turns.append(runs)
        return Turn(self.seconds)


def measured() -> tuple[Case, dict[str, Fake]]:
    engines = {
        "ort": Fake(0.004),
        "openvino": Fake(0.001, error=0.01),
        "torch": Fake(0.001, failure=Unsupported("not installed: torch")),
        "ours": Fake(0.002),
    }
    (case,) = measure(SMALL, "f32", {1: engines}, rounds=3, seconds=0.02)
    return case, engines


def test_wrong_answers_are_reported_and_not_timed() -> None:
    case, engines = measured()
    assert list(case.wrong) == ["openvino"]
    assert "times the allowed" in case.wrong["openvino"]
    assert not engines["openvino"].turns
    assert case.skipped == {"torch": "not installed: torch"}
    assert engines["ort"].turns == [1, 5, 5, 5]
    assert engines["ours"].turns == [1, 10, 10, 10]
    assert case.best_peer == "ort"
    assert case.ratios == (2.0, 2.0, 2.0)
    assert case.gflops("ours") == pytest.approx(SMALL.flops / 0.002 / 1e9)
    assert not document([case], {1: Ceiling(1, {"f32": 1.0}, {1: 1.0}, "")}, {}, {})["ok"]


def test_nan_is_wrong() -> None:
    (case,) = measure(SMALL, "f32", {1: {"ours": Fake(1.0, error=math.nan)}}, rounds=1, seconds=1.0)
    assert list(case.wrong) == ["ours"]


def test_engine_that_fails_is_wrong() -> None:
    engines = {"ours": Fake(1.0, failure=RuntimeError("no"))}
    (case,) = measure(SMALL, "f32", {1: engines}, rounds=1, seconds=1.0)
    assert case.wrong == {"ours": "no"}
    assert (case.best_peer, case.ratios) == (None, ())


def test_ratio_is_paired_by_round() -> None:
    exact = Errors(0.0, 0.0, 0.0)
    timings = {"ort": Timing((2.0, 4.0, 6.0), exact), "ours": Timing((1.0, 2.0, 2.0), exact)}
    assert Case(SMALL, "f32", 1, timings, {}, {}).ratios == (2.0, 2.0, 3.0)


def test_numbers_of_threads_take_turns_and_are_paired_by_round() -> None:
    workers = {1: {"ort": Fake(0.004), "ours": Fake(0.003)}, 2: {"ours": Fake(0.002)}}
    one, two = measure(SMALL, "f32", workers, rounds=4, seconds=0.02)
    assert (one.threads, two.threads) == (1, 2)
    assert (set(one.timings), set(two.timings)) == ({"ort", "ours"}, {"ours"})
    assert speed_ups(one, two) == pytest.approx({"ours": 1.5})
    assert len(workers[2]["ours"].turns) == 1 + 4


def test_error_is_compared_with_that_of_onnx_runtime() -> None:
    timings = {name: Timing((1.0,), Errors(0.5, largest, 0.1)) for name, largest in (("ort", 2.0), ("ours", 3.0))}
    case = Case(SMALL, "f32", 1, timings, {}, {})
    assert case.error_ratio() == 1.5
    assert case.error_ratio("torch") is None


def test_worker_says_what_it_cannot_do_and_goes_on() -> None:
    with Worker("ort", 1) as worker:
        with pytest.raises(Unsupported, match="no such kernel"):
            worker.answer(SMALL, "f64")
        answer = answers.expect(SMALL, "f32", *answers.data(SMALL, "f32"))
        assert answer.errors(worker.answer(SMALL, "f32")).excess <= 1
        turn = worker.time(1)
        assert min(turn.seconds, turn.pace) > 0


@pytest.mark.skipif(not pathlib.Path("/proc/self/stat").exists(), reason="states are read from /proc, which Linux has")
def test_worker_is_stopped_with_all_its_threads_while_it_is_not_asked() -> None:
    def states() -> set[str]:
        tasks = pathlib.Path(f"/proc/{worker._process.pid}/task").iterdir()
        return {(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks}

    with Worker("ort", 2) as worker:
        assert states() == {"T"}
        worker.answer(SMALL, "f32")
        assert states() == {"T"}
        worker.time(1)
        assert states() == {"T"}
    assert worker._process.exitcode == 0


def test_worker_that_dies_is_a_failure() -> None:
    with Worker("no such engine", 1) as worker:
        with pytest.raises(RuntimeError, match="no such engine: KeyError"):
            worker.answer(SMALL, "f32")
        worker._process.kill()
        with pytest.raises(RuntimeError, match="its process ended"):
            worker.answer(SMALL, "f32")


def benchmarks(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *map(str, arguments)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.slow
def test_quick_run_is_complete(tmp_path: pathlib.Path) -> None:
    done = benchmarks("--quick", "--engine", "ort", "--engine", "ours", "--json", tmp_path / "found.json")
    assert done.returncode == 0, done.stderr
    assert "geometric mean" in done.stdout
    found = json.loads((tmp_path / "found.json").read_text())
    assert found["ok"]
    assert set(found) == {"machine", "settings", "ceilings", "cases", "ok"}
    assert set(found["settings"]["versions"]) == {"ort", "ours"}
    (ceiling,) = found["ceilings"]
    assert min(*ceiling["peak"].values(), *ceiling["copy"].values()) > 0
    assert len(found["cases"]) == 2
    for case in found["cases"]:
        assert set(case["engines"]) == {"ort", "ours"}
        assert not case["wrong"]
        assert case["best_peer"] == "ort"
        assert case["ratio"] > 0
        assert case["of_roofline"] == pytest.approx(case["engines"]["ours"]["gflops"] / case["roofline"], rel=1e-2)
        for engine in case["engines"].values():
            assert 0 <= engine["error"] <= 1
            assert engine["gflops"] == pytest.approx(case["flops"] / engine["seconds"] / 1e9, rel=1e-2)
        assert case["shape"]["name"] in done.stdout


@pytest.mark.slow
def test_quick_run_of_two_numbers_of_threads(tmp_path: pathlib.Path) -> None:
    done = benchmarks("--quick", "--engine", "ours", "--threads", "1", "--threads", "2", "--json", tmp_path / "a.json")
    assert done.returncode == 0, done.stderr
    found = json.loads((tmp_path / "a.json").read_text())
    assert [ceiling["threads"] for ceiling in found["ceilings"]] == [1, 2]
    assert [case["threads"] for case in found["cases"]] == [1, 2, 1, 2]


@pytest.mark.slow
def test_quick_run_draws(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("matplotlib", reason="the plot needs matplotlib")
    done = benchmarks("--quick", "--engine", "ours", "--plot", tmp_path / "found.png")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "found.png").read_bytes().startswith(b"\x89PNG")


def test_unknown_shape_is_wrong_usage() -> None:
    done = benchmarks("--shape", "no such network")
    assert done.returncode == 2
    assert "no shape has that in its name" in done.stderr


def test_list_names_shapes() -> None:
    done = benchmarks("--list", "--shape", "dbnet k2s2 64>64")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "DBNet k2s2 64>64 160x160: [1, 64, 160, 160] -> [1, 64, 320, 320], 838.9 MFLOP\n"


class Shared(Fake):
    """An engine that takes longer in those turns in which somebody else uses the core; the first two do not count."""

    def __init__(self, seconds: float, slow: set[int]) -> None:
        super().__init__(seconds)
        self.slow = slow

    def time(self, runs: int) -> Turn:
        self.turns.append(runs)
        factor = 2.0 if len(self.turns) - 2 in self.slow else 1.0
        return Turn(self.seconds * factor, 1e-4 * factor)


def test_rounds_in_which_somebody_else_uses_the_core_are_not_counted() -> None:
    engines = {"ort": Shared(0.004, {0, 1, 3}), "ours": Shared(0.002, {4})}
    (case,) = measure(SMALL, "f32", {1: engines}, rounds=3, seconds=0.02)
    assert case.timings["ort"].seconds == (0.004,) * 3
    assert case.timings["ours"].seconds == (0.002,) * 3
    assert len(engines["ours"].turns) == 1 + 7
    assert case.pace == 1e-4
    assert "somebody" not in shown(case)


def test_rounds_go_on_no_longer_than_four_times_as_many() -> None:
    fastest = Fastest()
    fastest.add([1e-4])
    engines = {"ours": Shared(0.002, set(range(1, 100)))}
    (case,) = measure(SMALL, "f32", {1: engines}, rounds=3, seconds=0.02, fastest=fastest)
    assert case.timings["ours"].seconds == (0.002, 0.004, 0.004)
    assert len(engines["ours"].turns) == 1 + 12
    quiet = dataclasses.replace(case, pace=1e-4)
    assert f"timed while somebody else used the core: {SMALL.name}\n" in shown(case, quiet)


def shown(*cases: Case) -> str:
    output = io.StringIO()
    show(Console(file=output, width=180), cases, {1: Ceiling(1, {"f32": 1.0}, {1: 1.0}, "")})
    return output.getvalue()

"""The child process for ONNX's shape inference: reuse, crashes, interrupts, and what is said if it cannot start."""

from __future__ import annotations

import os
import sys

import onnx
import onnx.parser
import pytest

from ortconv.errors import CheckError
from ortconv.model_io import inference_process
from ortconv.model_io.inference_process import require_inferable

GOOD = onnx.parser.parse_model(
    """<ir_version: 10, opset_import: ["": 21]> g (float[1,3,8,8] x) => (float[1,3,N,8] y)
    <int64[1] zero = {0}, int64[1] two = {2}> { y = Slice (x, zero, two, two) }"""
)
CRASH = onnx.parser.parse_model(
    """<ir_version: 10, opset_import: ["": 21]> g (float[1,3,2,2] x, float[4,3,5,5] w) => (float[1,4,N,M] y)
    <int64[1] zero = {0}, int64[1] two = {2}> { t = Conv (x, w) y = Slice (t, zero, two, two) }"""
)


def child() -> int:
    assert inference_process._child is not None
    return inference_process._child.pid


def test_one_child_serves_many_models() -> None:
    require_inferable(GOOD, "m")
    first = child()
    contradicting = onnx.ModelProto()
    contradicting.CopyFrom(GOOD)
    contradicting.graph.node[0].op_type = "NoSuchOp"
    require_inferable(contradicting, "m")
    require_inferable(GOOD, "m")
    assert child() == first


def test_crash_is_an_error_and_the_next_model_is_served() -> None:
    for _ in range(2):
        with pytest.raises(CheckError, match=r"crashes on the model .*negative size"):
            require_inferable(CRASH, "m")
        require_inferable(GOOD, "m")


def test_child_that_was_killed_in_between_is_started_again() -> None:
    require_inferable(GOOD, "m")
    first = inference_process._child
    assert first is not None
    first.kill()
    first.wait()
    require_inferable(GOOD, "m")
    assert child() != first.pid


def test_interrupted_child_is_not_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    require_inferable(GOOD, "m")
    first = child()

    def interrupted(child: object) -> bool:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(inference_process, "_is_ready", interrupted)
        with pytest.raises(KeyboardInterrupt):
            require_inferable(GOOD, "m")
    require_inferable(GOOD, "m")
    assert child() != first


@pytest.mark.skipif(sys.platform == "win32", reason="fork is POSIX")
def test_forked_process_starts_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    require_inferable(GOOD, "m")
    first = inference_process._child
    assert first is not None
    monkeypatch.setattr(inference_process, "_owner", os.getppid())  # as in a process forked from that one
    require_inferable(GOOD, "m")
    assert child() != first.pid
    assert first.poll() is None
    first.kill()
    first.communicate()


@pytest.mark.parametrize(
    ("executable", "problem"),
    [
        ("", r"with Python \(sys.executable is not set\)"),
        ("/no/such/python", r"with /no/such/python \(.*No such file"),
        ("/bin/false", r"with /bin/false \(exit status 1\)"),
    ],
)
@pytest.mark.skipif(sys.platform == "win32", reason="paths are POSIX")
def test_child_that_cannot_be_started(executable: str, problem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    inference_process._end()
    monkeypatch.setattr(sys, "executable", executable)
    with pytest.raises(CheckError, match=problem):
        require_inferable(GOOD, "m")


def test_program_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    inference_process._end()
    monkeypatch.setattr(inference_process, "_PROGRAM", "import no_such_module")
    with pytest.raises(CheckError, match="exit status 1, ModuleNotFoundError: No module named 'no_such_module'"):
        require_inferable(GOOD, "m")

"""A conversion that a signal ends leaves nothing half written."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from tests.command_line import activation, write

SLOW = """
import signal
from ortconv.model_io import writer
signal.signal(signal.SIGINT, signal.default_int_handler)  # What runs the tests may ignore signals, as nohup does.
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
def write(model, path, progress):
    path.write_bytes(b"half")
    print("started", flush=True)
    signal.pause()
writer.write = write
from ortconv.cli import main
main()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 128 + 2), (signal.SIGTERM, 128 + 15), (signal.SIGHUP, 128 + 1)], ids=str
)
def test_nothing_half_written_stays(number: signal.Signals, code: int, tmp_path: pathlib.Path) -> None:
    write(activation(), tmp_path / "act.json")
    (tmp_path / "act.onnx").write_bytes(b"old")
    program = subprocess.Popen(
        [sys.executable, "-P", "-c", SLOW, "convert", "act.json"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert program.stdout is not None
        assert program.stdout.readline() == "started\n"
        program.send_signal(number)
        _, told = program.communicate(timeout=300)
    finally:
        program.kill()
    assert program.returncode == code
    assert told == ("interrupted\n" if number == signal.SIGINT else "")
    assert sorted(os.listdir(tmp_path)) == ["act.json", "act.onnx"]
    assert (tmp_path / "act.onnx").read_bytes() == b"old"


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_signal_that_is_ignored_stays_so(tmp_path: pathlib.Path) -> None:
    code = SLOW.replace("SIGHUP, signal.SIG_DFL", "SIGHUP, signal.SIG_IGN")
    code = code.replace("signal.pause()", "import os; os.kill(os.getpid(), signal.SIGHUP)")
    write(activation(), tmp_path / "act.json")
    done = subprocess.run([sys.executable, "-P", "-c", code, "convert", "act.json"], cwd=tmp_path, check=False)
    assert done.returncode == 0
    assert (tmp_path / "act.onnx").read_bytes() == b"half"

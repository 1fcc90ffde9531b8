"""What writes a file leaves, and takes away."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess
import sys

import pytest

from ortconv.model_io import atomic_write
from tests.command_line import activation, run_cli, write
from tests.folders import VECTORS

KILLED = """
import os, sys
from ortconv.model_io import atomic_write
with atomic_write.whole("out.onnx") as temporary:
    temporary.write_bytes(b"half")
    print(temporary.parent.name, flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def started() -> tuple[subprocess.Popen[str], pathlib.Path]:
    """Returns a process in the middle of writing, and the folder in which it does."""
    program = subprocess.Popen(
        [sys.executable, "-P", "-c", KILLED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    return program, pathlib.Path(program.stdout.readline().strip())


@pytest.mark.skipif(sys.platform == "win32", reason="signals are POSIX")
def test_what_killed_processes_leave_is_removed_and_nothing_else() -> None:
    pathlib.Path(".ortconv-writing-notes").write_text("a file of someone else's")
    pathlib.Path(".ortconv-settings").mkdir()
    pathlib.Path(".ortconv-writing-link").symlink_to(".ortconv-settings")
    others = set(os.listdir())
    (dead, stale), (alive, used) = started(), started()
    try:
        dead.send_signal(signal.SIGKILL)
        dead.communicate(timeout=300)
        assert stale.is_dir()
        with atomic_write.whole("new.onnx") as temporary:
            temporary.write_bytes(b"new")
        assert set(os.listdir()) == others | {"new.onnx", used.name}
        assert alive.communicate("", timeout=300)[0] == ""
    finally:
        dead.kill()
        alive.kill()
    assert set(os.listdir()) == others | {"new.onnx", "out.onnx"}
    assert pathlib.Path("out.onnx").read_bytes() == b"half"


def test_outputs_in_a_circle_of_links() -> None:
    write(activation(), pathlib.Path("act.json"))
    pathlib.Path("loop.onnx").symlink_to("pool.onnx")
    pathlib.Path("pool.onnx").symlink_to("loop.onnx")
    pathlib.Path("folder").symlink_to("folder")
    before = sorted(os.listdir())
    for target, code in (("loop.onnx", 1), ("folder/out.onnx", 2)):
        result = run_cli("convert", "act.json", "-o", target)
        assert result.exit_code == code
        *_, line = result.stderr.splitlines()
        assert target.partition("/")[0] in line
        assert "internal" not in line
    assert sorted(os.listdir()) == before


def test_a_link_that_leads_nowhere_yet() -> None:
    pathlib.Path("link.onnx").symlink_to("real.onnx")
    with atomic_write.whole("link.onnx") as temporary:
        temporary.write_bytes(b"new")
    assert pathlib.Path("link.onnx").is_symlink()
    assert pathlib.Path("real.onnx").read_bytes() == b"new"


@pytest.mark.parametrize("name", ["fifo.xml", "fifo.json"])
def test_a_source_that_is_no_regular_file(name: str) -> None:
    os.mkfifo(name)
    for command in ("convert", "explain", "verify"):
        result = run_cli(command, name)
        assert result.exit_code == 1
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"error: {name}: ")
        assert "is not a regular file" in line


def test_weights_that_are_no_regular_file() -> None:
    pathlib.Path("net.xml").write_bytes((VECTORS / SOURCE).read_bytes())
    os.mkfifo("net.bin")
    result = run_cli("convert", "net.xml")
    assert result.exit_code == 1
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: net.bin: the weights cannot be read: is not a regular file")


SOURCE = "openvino_000_ConvolutionBackpropData.xml"


def test_data_that_is_no_regular_file() -> None:
    write(activation(), pathlib.Path("act.json"))
    os.mkfifo("data.npy")
    os.mkfifo("data.npz")
    commands = [
        ("convert", "act.json", "--tensors", "data.npz"),
        ("verify", "act.json", "--input", "x=data.npy"),
    ]
    for command in commands:
        result = run_cli(*command)
        assert result.exit_code == 1
        assert "cannot be read: is not a regular file" in result.stderr

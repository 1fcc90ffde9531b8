"""A child process that runs ONNX's shape inference on models of others, since it ends the process on some of them.

``onnx`` aborts where a Slice reads a size that it has computed as a negative number, as of a kernel larger than its
image. The child is started for the first model that needs it, serves all later ones, and ends with this process.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from typing import IO

import onnx

from ortconv.errors import CheckError

__all__ = ["require_inferable"]

_PROGRAM = """
import sys
sys.path[:] = {path!r}
import onnx, onnx.shape_inference
from ortconv.opset.schemas import register_schemas
register_schemas()
while True:
    sys.stdout.buffer.write(b".")
    sys.stdout.buffer.flush()
    length = sys.stdin.buffer.read(8)
    if len(length) < 8:
        break
    data = sys.stdin.buffer.read(int.from_bytes(length, "little"))
    try:
        onnx.shape_inference.infer_shapes(onnx.ModelProto.FromString(data), data_prop=True)
    except Exception:
        pass
"""
"""The child's program: writes a byte when it is ready, and after each model. The checker repeats what ONNX raises."""


def require_inferable(model: onnx.ModelProto, name: str) -> None:
    """Checks that ONNX's shape inference does not end the process on a model.

    Args:
        model: The model, without large initializers and external data.
        name: The model's name in messages.

    Raises:
        CheckError: It does, or the child process cannot be started.
    """
    with _LOCK:
        try:
            child = _running(name)
            finished = _inferred(child, model.SerializeToString())
        except BaseException:  # An answer that is not read must not be taken for that to the next model.
            _end()
            raise
        if finished:
            return
        status = child.wait()
        _end()
    ended = f"signal {-status}" if status < 0 else f"exit status {status}"
    raise CheckError(
        name,
        f"onnx's shape inference crashes on the model ({ended}), as where a Slice reads a result with a negative size; "
        "allowed: sizes of 0 or more.",
    )


_LOCK = threading.Lock()
_child: subprocess.Popen[bytes] | None = None
_owner = 0
"""The process that has started the child: one that was forked from it must not use it."""


def _running(name: str) -> subprocess.Popen[bytes]:
    """Returns the child process, which is started if there is none."""
    global _child, _owner
    if _child is not None and _owner == os.getpid() and _child.poll() is None:
        return _child
    _end()
    problem = "sys.executable is not set"
    if sys.executable:
        with tempfile.TemporaryFile() as log:
            try:
                _child, _owner = _start(log), os.getpid()
                if _is_ready(_child):
                    return _child
                log.seek(0)
                last = log.read().decode(errors="replace").strip().rpartition("\n")[2]
                problem = f"exit status {_child.wait()}" + (f", {last}" if last else "")
            except OSError as error:
                problem = str(error)
    raise CheckError(
        name,
        f"cannot be checked: onnx's shape inference may crash on a Slice, so it runs in a process of its own, which "
        f"cannot be started with {sys.executable or 'Python'} ({problem}).",
    )


def _inferred(child: subprocess.Popen[bytes], data: bytes) -> bool:
    """Sends a model to the child process; returns whether it survives its inference."""
    assert child.stdin is not None
    try:
        child.stdin.write(len(data).to_bytes(8, "little") + data)
        child.stdin.flush()
    except BrokenPipeError:
        return False
    return _is_ready(child)


def _start(log: IO[bytes]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM.format(path=sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,  # An interrupt from the keyboard is for this process.
    )


def _is_ready(child: subprocess.Popen[bytes]) -> bool:
    assert child.stdout is not None
    return child.stdout.read(1) == b"."


@atexit.register
def _end() -> None:
    """Ends the child process, if this process has started it."""
    global _child
    child, _child = _child, None
    if child is None or _owner != os.getpid():
        return
    with contextlib.suppress(OSError):
        child.kill()
    child.wait()
    for pipe in (child.stdin, child.stdout):
        assert pipe is not None
        with contextlib.suppress(OSError):
            pipe.close()

"""The kernels compute on ONNX Runtime's threads and start none: sessions of ours have as many as stock sessions."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

import pytest

pytestmark = pytest.mark.skipif(
    not pathlib.Path("/proc/self/task").exists(), reason="a process's threads are listed in /proc, which Linux has"
)

_CODE = """
import contextlib, json, pathlib, sys, threading, time
import numpy as np, onnx, onnx.parser, onnxruntime
import ortconv
from ortconv.optimizer import optimize

def cpu_seconds():
    '''Thread -> the nanoseconds for which it has had a core.'''
    found = {}
    for task in pathlib.Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a caller that ends
            found[int(task.name)] = int((task / "schedstat").read_text().split()[0])
    return found

model = onnx.parser.parse_model(
    '<ir_version: 8, opset_import: ["": 18]> g (float[1,64,24,24] x) => (float[1,32,48,48] y)'
    "{ y = ConvTranspose <strides = [2, 2], pads = [1, 1, 1, 1]> (x, w) }"
)
model.graph.node[0].ClearField("domain")
weights = np.random.default_rng(0).standard_normal((64, 32, 4, 4)).astype(np.float32)
model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
feed = {"x": np.ones((1, 64, 24, 24), np.float32)}

side, (sessions, pool, others) = sys.argv[1], map(int, sys.argv[2:])
options = onnxruntime.SessionOptions()
options.intra_op_num_threads = pool
options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # a thread that waits takes no core
if side == "ours":
    ours = optimize(model)
    made = [ortconv.InferenceSession(ours, options, backend="native") for _ in range(sessions)]
else:
    made = [onnxruntime.InferenceSession(model.SerializeToString(), options) for _ in range(sessions)]
for session in made:
    session.run(None, feed)

def work(session):
    for _ in range(50):
        session.run(None, feed)

spun, end = threading.Semaphore(0), threading.Event()

def spin():
    while time.thread_time() < 0.002:
        pass
    spun.release()
    end.wait()

callers = [threading.Thread(target=work, args=(session,)) for session in made]
before = cpu_seconds()
for caller in callers:
    caller.start()
for _ in range(others):
    threading.Thread(target=spin).start()
most = len(cpu_seconds())
busy = set()

def look():
    global most
    now = cpu_seconds()
    most = max(most, len(now))
    busy.update(task for task, used in now.items() if used > before.get(task, 0) + 1000000)

while any(caller.is_alive() for caller in callers):
    look()
    time.sleep(0.005)
for _ in range(others):
    spun.acquire()
look()
end.set()
helpers = busy - {caller.native_id for caller in callers} - {threading.main_thread().native_id}
print(json.dumps({"idle": len(before), "most": most - sessions, "helpers": len(helpers)}))
"""


def threads(side: str, sessions: int, pool: int, others: int = 0) -> dict[str, Any]:
    """Returns how many threads a process has before and while some sessions run at once, and how many help them.

    Args:
        side: Whose sessions.
        sessions: How many.
        pool: Threads of each.
        others: Threads of Python that compute as long as what counts as help.
    """
    done = subprocess.run(
        [sys.executable, "-c", _CODE, side, str(sessions), str(pool), str(others)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("sessions", "pool"), [(1, 2), (4, 1), (4, 2)])
def test_sessions_at_once_have_as_many_threads_as_stock_ones(sessions: int, pool: int) -> None:
    stock, ours = threads("stock", sessions, pool), threads("ours", sessions, pool)
    assert ours["idle"] == stock["idle"], (ours, stock)
    assert ours["most"] <= ours["idle"], "a run starts threads"
    # The calling thread is one of a pool.
    assert ours["helpers"] <= sessions * (pool - 1), (ours, stock)


@pytest.mark.slow
def test_helpers_are_seen() -> None:
    """The test above could not fail if threads that help were not seen; on a busy machine some may not get to run."""
    assert any(threads("ours", 1, 1, others=2)["helpers"] == 2 for _ in range(5))

"""What a session of ours holds, and that runs leave nothing behind."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import pytest

from tests.processor import HAS_AMX_BF16

pytestmark = pytest.mark.skipif(
    not pathlib.Path("/proc/self/status").exists(), reason="resident memory is read from /proc, which Linux has"
)

_PACKED = 1.5 if HAS_AMX_BF16 else 1
"""Bytes of a packed float in those of a float: with AMX it is three bfloat16 numbers."""

_PRELUDE = """
import ctypes, gc, pathlib, sys
import numpy as np, onnx, onnx.parser, onnxruntime
import ortconv
from ortconv.optimizer import optimization

libc = ctypes.CDLL(None)  # glibc: others have neither mallopt nor malloc_trim
if set_option := getattr(libc, "mallopt", None):
    # 128 KiB and more come from the system, always: in memory used before, bytes that are never written count too.
    set_option(-3, 128 << 10)  # M_MMAP_THRESHOLD

def resident():
    gc.collect()
    if trim := getattr(libc, "malloc_trim", None):  # what is free is no one's
        trim(0)
    # Pages of files come and go, as the system needs memory.
    status = dict(line.split(":", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines())
    return int(status["RssAnon"].split()[0]) << 10

def model(inputs, outputs, kernel, pad):
    made = onnx.parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 18]> g (float[N,{inputs},H,W] x) => (float[N,{outputs},P,Q] y)'
        "{ y = ConvTranspose <strides = [2, 2], pads = [%d, %d, %d, %d]> (x, w) }" % ((pad,) * 4)
    )
    made.graph.node[0].ClearField("domain")
    w = np.random.default_rng(0).standard_normal((inputs, outputs, kernel, kernel)).astype(np.float32)
    made.graph.initializer.append(onnx.numpy_helper.from_array(w, "w"))
    return made

def options():
    made = onnxruntime.SessionOptions()
    made.intra_op_num_threads = 2
    return made
"""

_RUNS = """
class MallInfo(ctypes.Structure):  # glibc's struct mallinfo2
    _fields_ = [(name, ctypes.c_size_t) for name in
        "arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost".split()]

def allocated():
    gc.collect()
    query = getattr(libc, "mallinfo2", None)
    if query is None:  # another C library
        return 0
    query.restype = MallInfo
    found = query()
    return found.uordblks + found.hblkhd

*layer, sizes = eval(sys.argv[1])
session = ortconv.InferenceSession(optimization(model(*layer)).to_proto(), options(), backend="native")
feeds = [{"x": np.ones((n, layer[0], h, w), np.float32)} for n, h, w in sizes]
def run(count):
    for i in range(count):
        session.run(None, feeds[i % len(feeds)])
run(500)
before = resident(), allocated()
run(1000)
print(resident() - before[0], allocated() - before[1])
"""

_SESSIONS = """
*layer, size = eval(sys.argv[2])
proto = model(*layer)
weights = 4 * layer[0] * layer[1] * layer[2] ** 2
stock = proto.SerializeToString()
ours = optimization(proto).to_proto().SerializeToString()
del proto
feed = {"x": np.ones((1, layer[0], *size), np.float32)}
small = optimization(model(2, 2, 4, 1)).to_proto()
ortconv.InferenceSession(small, options(), backend="native")  # loads the library and starts what is started once

def held(make):
    before = resident()
    session = make()
    for _ in range(3):
        session.run(None, feed)
    return resident() - before, session

_, kept = held(lambda: onnxruntime.InferenceSession(stock, options()))
del kept
if sys.argv[1] == "stock":
    print(held(lambda: onnxruntime.InferenceSession(stock, options()))[0] / weights)
else:
    print(held(lambda: ortconv.InferenceSession(ours, options(), backend="native"))[0] / weights)
"""


def measured(code: str, *arguments: str) -> list[float]:
    done = subprocess.run(
        [sys.executable, "-c", _PRELUDE + code, *arguments], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return [float(word) for word in done.stdout.split()]


# Channels in and out, kernel, padding; the stride is 2.
@pytest.mark.parametrize(
    "layer",
    [
        pytest.param((16, 8, 4, 1, [(1, 5, 7), (2, 16, 16), (1, 31, 9), (3, 2, 40)]), id="sizes that change"),
        pytest.param((64, 32, 2, 0, [(1, 24, 24)]), id="kernel as large as the stride"),
        pytest.param((64, 32, 4, 1, [(1, 8, 8), (1, 1, 1)]), id="small images"),
        pytest.param((64, 64, 4, 1, [(1, 32, 32)]), id="minimal filtering"),
    ],
)
def test_runs_leave_nothing_behind(layer: tuple[object, ...]) -> None:
    """A thousand runs after five hundred: a kilobyte each would be a megabyte. Python's own objects come and go."""
    resident, allocated = measured(_RUNS, repr(layer))
    assert resident < 1 << 19, resident
    assert allocated < 1 << 16, allocated


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "packed"),
    [
        pytest.param((256, 128, 8, 3, (8, 8)), _PACKED, id="small images"),
        pytest.param((1024, 512, 2, 0, (16, 16)), _PACKED, id="kernel as large as the stride"),
        pytest.param((256, 128, 8, 3, (20, 32)), _PACKED, id="larger images"),
        pytest.param((256, 256, 4, 1, (32, 24)), 4, id="minimal filtering"),
    ],
)
def test_a_session_holds_what_a_stock_session_holds_and_the_packed_weights(
    layer: tuple[object, ...], packed: float
) -> None:
    """In units of the weights, 4 to 8 MiB: as many as the packed ones are, four for one where transformed.

    Half a unit is for scratch, beyond what a stock session has; weights packed twice would be a whole one more.
    """
    (stock,), (ours,) = (measured(_SESSIONS, side, repr(layer)) for side in ("stock", "ours"))
    assert ours < stock + packed + 0.5, (stock, ours)

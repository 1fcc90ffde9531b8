"""Registering the library as an execution provider, by us and by ONNX Runtime's own functions."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import onnxruntime
import pytest

import ortconv
from ortconv.errors import PluginError
from tests.ep.sessions import options, session
from tests.optimizer.models import parsed, rand

pytestmark = pytest.mark.usefixtures("library")

MODEL = "g (float[1,3,4,4] x) => (float[a,b,c,d] y) { y = ConvTranspose <strides = [2, 2]> (x, w) }"


def test_name_and_devices() -> None:
    options()
    devices = [each for each in onnxruntime.get_ep_devices() if each.ep_name == ortconv.ep_name()]
    assert len(devices) == 1
    assert devices[0].device.type == onnxruntime.OrtHardwareDeviceType.CPU
    assert devices[0].ep_vendor == "ortconv"


def test_sessions_have_it_in_front_of_the_cpu_provider() -> None:
    made = session(parsed(MODEL, w=rand(3, 2, 2, 2)))
    assert made.get_providers() == [ortconv.ep_name(), "CPUExecutionProvider"]


def test_registering_twice_is_harmless() -> None:
    made = onnxruntime.SessionOptions()
    for _ in range(2):
        ortconv.register_ep(made, {"fuse": "0"})
    ortconv.register_ep(made)
    session(parsed(MODEL, w=rand(3, 2, 2, 2)), made)
    with pytest.raises(ValueError, match="already, with other options"):
        ortconv.register_ep(made, {"fuse": "1"})


def test_beside_custom_operators() -> None:
    made = options()
    ortconv.register(made)
    session(parsed(MODEL, w=rand(3, 2, 2, 2)), made)


def test_what_is_refused() -> None:
    with pytest.raises(TypeError, match=r"takes an onnxruntime\.SessionOptions, not a NoneType"):
        ortconv.register_ep(None)
    with pytest.raises(ValueError, match="option 'fuze' is unknown; allowed: claim_all, fuse, report"):
        ortconv.register_ep(onnxruntime.SessionOptions(), {"fuze": "1"})
    with pytest.raises(ValueError, match="backend 'ep' takes no providers"):
        ortconv.InferenceSession(b"", providers=["CPUExecutionProvider"], backend="ep")
    made = onnxruntime.SessionOptions()
    ortconv.register_ep(made, {"fuse": "yes"})
    with pytest.raises(Exception, match=r"ep\.ortconvexecutionprovider\.fuse = 'yes' is not supported; allowed: 0, 1"):
        session(parsed(MODEL, w=rand(3, 2, 2, 2)), made)


def test_a_library_that_onnx_runtime_cannot_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ortconv.runtime.library, "library_path", lambda: __file__)
    monkeypatch.setattr(onnxruntime, "get_ep_devices", lambda: [])
    with pytest.raises(PluginError, match="cannot load"):
        ortconv.register_ep(onnxruntime.SessionOptions())


def test_by_the_functions_of_onnx_runtime() -> None:
    """In a process of its own, which also takes the registration back."""
    code = f"""
import numpy as np, onnxruntime as ort, ortconv
from tests.optimizer.models import parsed
ort.register_execution_provider_library("ortconv", ortconv.library_path())
devices = [each for each in ort.get_ep_devices() if each.ep_name == ortconv.ep_name()]
options = ort.SessionOptions()
options.add_provider_for_devices(devices, {{"claim_all": "1"}})
options.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
model = parsed({MODEL!r}, w=np.ones((3, 2, 2, 2), np.float32))
session = ort.InferenceSession(model.SerializeToString(), options)
print(session.run(None, {{"x": np.ones((1, 3, 4, 4), np.float32)}})[0].sum())
ort.unregister_execution_provider_library("ortconv")
print(session.run(None, {{"x": np.ones((1, 3, 4, 4), np.float32)}})[0].sum())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.split()) == (0, ["384.0", "384.0"]), done.stderr


def test_an_onnx_runtime_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime, "__version__", "1.23.2")
    with pytest.raises(PluginError, match=r"1\.23\.2 is too old; allowed: 1\.24 or newer"):
        ortconv.register_ep(onnxruntime.SessionOptions())


def test_results_are_arrays_of_the_run() -> None:
    """Outputs lie in memory that numpy may keep after the session is gone."""
    made = session(parsed(MODEL, w=rand(3, 2, 2, 2)))
    (y,) = made.run(None, {"x": rand(1, 3, 4, 4)})
    kept = y.copy()
    del made
    np.testing.assert_array_equal(y, kept)

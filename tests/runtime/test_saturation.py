"""The session config entry that makes ONNX Runtime's products of bytes exact where they saturate."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import numpy as np
import onnx.helper
import onnxruntime
import pytest
from onnx import TensorProto, numpy_helper

import ortconv
from ortconv.errors import ExecutionError
from ortconv.runtime import saturation
from ortconv.runtime.library import Backend
from ortconv.runtime.runner import Model

ENTRY = "session.x64quantprecision"
BACKENDS: tuple[Backend, ...] = ("none", "python")
MATRIX = np.array([[127, 3], [127, -127]], np.int8)
_REGISTER = f"""
import onnxruntime
import ortconv

for value in ("", "0", "1"):
    options = onnxruntime.SessionOptions()
    if value:
        options.add_session_config_entry("{ENTRY}", value)
    ortconv.register(options)
    try:
        print(options.get_session_config_entry("{ENTRY}"))
    except RuntimeError:
        print("none")
"""


def product(shared: bool = False) -> onnx.ModelProto:
    """Returns a model that multiplies codes twice."""
    names = ["weights", "weights" if shared else "others"]
    graph = onnx.helper.make_graph(
        [
            onnx.helper.make_node("MatMulInteger", ["x", names[0]], ["y"]),
            onnx.helper.make_node("MatMulInteger", ["x", names[1], "point"], ["z"]),
        ],
        "products",
        [onnx.helper.make_tensor_value_info("x", TensorProto.UINT8, (1, 2))],
        [onnx.helper.make_tensor_value_info(name, TensorProto.INT32, (1, 2)) for name in "yz"],
        [numpy_helper.from_array(MATRIX, name) for name in sorted(set(names))]
        + [numpy_helper.from_array(np.array(1, np.uint8), "point")],
    )
    return onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 13)], ir_version=8)


def entry(options: onnxruntime.SessionOptions) -> str | None:
    try:
        return str(options.get_session_config_entry(ENTRY))
    except RuntimeError:
        return None


def registered(isa: str | None) -> list[str]:
    """Returns what the entry is in options that had none, "0" and "1", with the instructions of another CPU.

    They are looked up once in a process.
    """
    environment = {name: value for name, value in os.environ.items() if name != "ORTCONV_MAX_ISA"}
    environment |= {} if isa is None else {"ORTCONV_MAX_ISA": isa}
    command = [sys.executable, "-c", _REGISTER]
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=60, check=True
    ).stdout.split()


@pytest.mark.parametrize("isa", ["avx2", "avx512"])
def test_registering_sets_it_without_dot_products_of_bytes(isa: str, library: str) -> None:
    assert registered(isa) == ["1", "0", "1"]


def test_registering_leaves_it_with_them(library: str) -> None:
    """ONNX Runtime multiplies by weights of uint8 half as fast there."""
    saturates = saturation.saturate()
    assert registered(None) == ["1" if saturates else "none", "0", "1"]


@pytest.mark.parametrize("saturates", [False, True])
@pytest.mark.parametrize("given", [None, "0", "1"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_sessions_without_the_library_set_it(
    backend: Backend, given: str | None, saturates: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(saturation, "saturate", lambda: saturates)
    options = onnxruntime.SessionOptions()
    if given is not None:
        options.add_session_config_entry(ENTRY, given)
    session = ortconv.InferenceSession(product(), options, providers=["CPUExecutionProvider"], backend=backend)
    assert entry(session.get_session_options()) == ("1" if given is None and saturates else given)


@pytest.mark.parametrize("backend", ["native", *BACKENDS])
def test_products_are_exact(backend: Backend, library: str) -> None:
    session = ortconv.InferenceSession(product(), providers=["CPUExecutionProvider"], backend=backend)
    y, z = session.run(None, {"x": np.full((1, 2), 255, np.uint8)})
    assert y.tolist() == [[2 * 255 * 127, 255 * (3 - 127)]]
    assert z.tolist() == [[2 * 254 * 127, 254 * (3 - 127)]]


@pytest.mark.parametrize("product_of_codes", [2 * 255 * 127, 32767])
def test_it_is_found_out_by_a_product(product_of_codes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnxruntime.InferenceSession, "run", lambda *_: [np.array([[product_of_codes]], np.int32)])
    assert saturation.saturate.__wrapped__() == (product_of_codes == 32767)


def test_what_cannot_be_turned_says_why(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ONNX Runtime turns what two nodes share twice, and fails, on any x86-64 CPU."""
    onnx.save(product(shared=True), tmp_path / "model.onnx")
    monkeypatch.setattr(saturation, "saturate", lambda: False)
    Model(tmp_path / "model.onnx", "model.onnx", backend="none")
    monkeypatch.setattr(saturation, "saturate", lambda: True)
    with pytest.raises(ExecutionError) as caught:
        Model(tmp_path / "model.onnx", "model.onnx", backend="none")
    assert "give each node its own" in caught.value.hint

"""The services of samples/serving: what they answer, and what they refuse."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import ortconv
from tests.command_line import run_cli
from tests.folders import ROOT

FOLDER = ROOT / "samples" / "serving"


class Client:
    """Sends requests to the app, which a server of this process runs."""

    def __init__(self, port: int) -> None:
        self._base = f"http://127.0.0.1:{port}"

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self._base + path, timeout=60) as answer:
            return json.load(answer)

    def predict(self, inputs: dict[str, Any]) -> tuple[int, Any]:
        """Returns the status and the answer."""
        request = urllib.request.Request(
            f"{self._base}/predict",
            json.dumps({"inputs": inputs}).encode(),
            {"content-type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)


@pytest.fixture
def client(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    """A client of the app with a model of two inputs; the second has integers."""
    pytest.importorskip("fastapi", reason="the sample is a FastAPI app")
    uvicorn = pytest.importorskip("uvicorn", reason="uvicorn runs the app")
    model = onnx.parser.parse_model("""
        <ir_version: 10, opset_import: ["": 21]>
        g (float[N, 2] x, int32[1] n) => (float[N, 2] y, int32[1] m) {
            y = Sqrt(x)
            m = Neg(n)
        }
    """)
    onnx.save(model, tmp_path / "m.onnx")
    monkeypatch.setenv("ORTCONV_MODEL", str(tmp_path / "m.onnx"))
    spec = importlib.util.spec_from_file_location("serving_app", FOLDER / "app.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "serving_app", module)
    spec.loader.exec_module(module)
    server = uvicorn.Server(uvicorn.Config(module.app, port=0, log_level="error"))
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the app does not start"
        time.sleep(0.01)
    yield Client(server.servers[0].sockets[0].getsockname()[1])
    server.should_exit = True
    thread.join()


def test_answers(client: Client) -> None:
    assert client.get("/health") == {"status": "ready"}
    assert client.get("/metadata")["inputs"] == [
        {"name": "x", "type": "float32", "shape": ["N", 2]},
        {"name": "n", "type": "int32", "shape": [1]},
    ]
    expected = {"outputs": {"y": [[2, 3], [0.5, "NaN"]], "m": [-7]}}
    assert client.predict({"x": [[4, 9.0], [0.25, -1]], "n": [7]}) == (200, expected)
    status, answer = client.predict({"x": [["Infinity", 0]], "n": [0]})
    assert (status, answer["outputs"]["y"]) == (200, [["Infinity", 0]])


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ({"x": [[1, 2]]}, "inputs are x; allowed: x, n"),
        ({"x": [[1, 2]], "n": [1], "z": 0}, "inputs are x, n, z; allowed: x, n"),
        ({"x": [[1, 2, 3]], "n": [1]}, "input x has shape [1, 3]; allowed: ['N', 2]"),
        ({"x": [1, 2], "n": [1]}, "input x has shape [2]; allowed: ['N', 2]"),
        ({"x": [[1], [1, 2]], "n": [1]}, "input x is no nested list of numbers"),
        ({"x": [["one", 2]], "n": [1]}, "input x is no nested list of numbers"),
        ({"x": [[None, 2]], "n": [1]}, "input x is no nested list of numbers"),
        ({"x": [[1, 2]], "n": [1.5]}, "input n has type int32, which does not hold all of its numbers"),
        ({"x": [[1, 2]], "n": [1 << 40]}, "input n has type int32, which does not hold all of its numbers"),
    ],
)
def test_what_does_not_fit_is_refused(client: Client, inputs: dict[str, Any], problem: str) -> None:
    status, answer = client.predict(inputs)
    assert status == 422
    assert answer["detail"].startswith(problem)


def test_answers_are_those_of_the_session(client: Client, tmp_path: pathlib.Path) -> None:
    x = np.random.default_rng(0).uniform(0, 9, (5, 2)).astype(np.float32)
    _, answer = client.predict({"x": x.tolist(), "n": [0]})
    (expected, _) = ortconv.InferenceSession(tmp_path / "m.onnx").run(None, {"x": x, "n": np.zeros(1, np.int32)})
    np.testing.assert_array_equal(np.array(answer["outputs"]["y"], np.float32), expected)


def test_manifest_fits_the_repository(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    yaml = pytest.importorskip("yaml", reason="the manifest is YAML")
    text = (FOLDER / "inference_service.yaml").read_text(encoding="utf-8")
    manifest = yaml.safe_load(text)
    assert (manifest["apiVersion"], manifest["kind"]) == ("serving.kserve.io/v1beta1", "InferenceService")
    model = manifest["spec"]["predictor"]["model"]
    assert (model["modelFormat"]["name"], model["protocolVersion"]) == ("triton", "v2")
    assert all({"name", "value"} == each.keys() and each["name"].startswith("ORTCONV_") for each in model["env"])
    # The command in the manifest's text writes what the manifest serves.
    monkeypatch.chdir(tmp_path)
    ortconv.conversion(ROOT / "samples" / "sources" / "unet_decoder.xml").save("unet_decoder.onnx")
    (line,) = (line for line in text.splitlines() if "ortconv bundle unet" in line)
    assert run_cli(*line.split("ortconv ")[1].split()).exit_code == 0
    folder = model["storageUri"].rpartition("/")[2]
    assert '"/mnt/models/unet_decoder/' in pathlib.Path(folder, "unet_decoder", "config.pbtxt").read_text()

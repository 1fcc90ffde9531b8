"""What the page of ``ortconv report`` is told: networks, errors, times, sizes."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import numpy as np
import pytest

from ortconv.errors import PluginError
from ortconv.reporting import document
from ortconv.verification import procedure
from ortconv.verification.compare import Comparison
from tests.command_line import refused, upsampling, write

WEIGHTS = {"w": np.random.default_rng(0).standard_normal((3, 3, 2, 3)).astype(np.float32)}


def gathered(source: pathlib.Path, **how: Any) -> dict[str, Any]:
    """Returns the document as the page reads it."""
    found = document.gather(source, runs=1, threads=1, **how)
    loaded: dict[str, Any] = json.loads(json.dumps(found.document, allow_nan=False))
    return loaded


def by_name(network: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {node["name"]: node for node in network["nodes"]}


def test_networks_errors_times_and_sizes(tmp_path: pathlib.Path) -> None:
    source = write(upsampling(), tmp_path / "up.json")
    found = gathered(source, target="plugin", tensors=WEIGHTS)
    before, after = found["before"], found["after"]
    assert [node["op"] for node in before["nodes"]] == ["Input", "ConvolutionBackwardData", "ReLU", "Sigmoid", "Output"]
    assert before["edges"] == [[0, 1], [1, 2], [2, 3], [3, 4]]
    up = before["nodes"][1]
    assert up["attributes"]["strides"] == "[2, 2]"
    assert up["warnings"], "page and library differ for SAME_UPPER"
    assert up["ours"]
    twins = [after["nodes"][number] for number in up["twins"]]
    assert ("TransposedConvolution", "org.ortconv") in {(node["op"], node["domain"]) for node in twins}
    assert all(node["warnings"] == up["warnings"] for node in twins)
    for number, node in enumerate(after["nodes"]):
        assert all(number in before["nodes"][twin]["twins"] for twin in node["twins"])

    verified = found["verification"]
    assert verified["agrees"]
    assert [each["op"] for each in verified["layers"]] == ["ConvolutionBackwardData", "ReLU", "Sigmoid"]
    assert {each["backend"] for each in verified["outputs"]} == {"native", "none"}
    ran = found["times"]["sides"]
    assert set(ran) == {"none", "native"}
    names = {node["name"] for node in after["nodes"] if node["op"] not in ("Input", "Output")}
    assert all(len(side["seconds"]) > 0 and set(side["seconds"]) <= names for side in ran.values())
    assert [each["what"] for each in found["files"]] == ["source", "model"]
    assert found["files"][0]["bytes"] == source.stat().st_size


def test_refused_source_shows_what_is_refused(tmp_path: pathlib.Path) -> None:
    found = document.gather(write(refused(), tmp_path / "refused.json"))
    assert found.refused is not None
    before = found.document["before"]["nodes"]
    assert [bool(node["refused"]) for node in before] == [False, True, True, False, False]
    assert found.document["after"]["nodes"] == []
    assert len(found.document["refused"]) == 2
    assert "verification" not in found.document


def test_numbers_that_json_lacks_are_left_out(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def different(name: str, *_: object, **__: object) -> Comparison:
        return Comparison(name, "float32", (2,), np.inf, np.inf, 2e-5, 1, ((1,), float("nan"), -np.inf))

    monkeypatch.setattr(procedure, "compare", different)
    source = write(upsampling(), tmp_path / "up.json")
    (output, *_) = gathered(source, target="plugin", tensors=WEIGHTS)["verification"]["outputs"]
    assert (output["max_abs"], output["max_rel"], output["agrees"]) == (None, None, False)
    assert output["worst"] == {"at": [1], "expected": "nan", "found": "-inf"}


def test_source_that_cannot_run_is_converted_and_says_why(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(*_: object, **__: object) -> None:
        raise PluginError("OpenVINO is not installed.")

    monkeypatch.setattr(document, "verify", missing)
    found = document.gather(write(upsampling(), tmp_path / "up.json"), tensors=WEIGHTS)
    assert found.failed is not None
    assert found.document["failed"] == "OpenVINO is not installed."
    assert found.document["after"]["nodes"]
    assert "verification" not in found.document


def test_names_of_openvino_are_paired(tmp_path: pathlib.Path) -> None:
    openvino = pytest.importorskip("openvino", reason="the source is made and run by OpenVINO")
    from openvino import opset13 as op

    x = op.parameter([1, 2, 4, 4], np.float32, name="x")
    conv = op.convolution(x, op.constant(np.ones((2, 2, 1, 1), np.float32)), [1, 1], [0, 0], [0, 0], [1, 1])
    conv.set_friendly_name("</script><b>conv")
    shift = op.add(conv, op.constant(np.ones((1, 2, 1, 1), np.float32)))
    openvino.save_model(openvino.Model([op.result(op.relu(shift))], [x], "net"), tmp_path / "net.xml")
    found = gathered(tmp_path / "net.xml")
    before, after = found["before"], found["after"]
    conv_node = by_name(before)["</script><b>conv"]
    assert [after["nodes"][number]["op"] for number in conv_node["twins"]] == ["Conv"]
    assert [each["what"] for each in found["files"]] == ["source", "weights of the source", "model"]
    add = next(node for node in before["nodes"] if node["op"] == "Add")
    assert add["twins"] == [], "the Conv has it as its bias"

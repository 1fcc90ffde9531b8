"""Vectors that the real OpenVINO and oneDNN libraries produced, where a folder with them is at hand."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ortconv
from ortconv import onednn
from tests.running import EXACT, WAYS, Bound, assert_matches, rounding_bound, run
from tests.shared import SHARED

FOLDER = SHARED / "vectors"
MANIFEST = FOLDER / "manifest.json"
TARGETS: tuple[ortconv.Target, ...] = ("auto", "onnx", "plugin")
NO_VECTORS = pytest.param({}, id="none", marks=pytest.mark.skip(reason=f"no conformance vectors at {FOLDER}"))


def cases(source: str) -> list[Any]:
    if not MANIFEST.is_file():
        return [NO_VECTORS]
    found = json.loads(MANIFEST.read_text())["cases"]
    return [pytest.param(case, id=case["id"]) for case in found if case["op"].startswith(source)]


@functools.cache
def arrays() -> Mapping[str, np.ndarray]:
    with np.load(FOLDER / "data.npz") as data:
        return dict(data)


def array(entry: Mapping[str, Any], dtype: str) -> np.ndarray:
    stored = arrays()[entry["key"]]
    return stored.astype(ml_dtypes.bfloat16) if dtype == "bf16" and stored.dtype == np.float32 else stored


def semantics(case: Mapping[str, Any]) -> Iterator[ortconv.Semantics]:
    """A case holds for the runtime that produced it, and for the spec page unless the two differ."""
    yield "runtime"
    if case.get("spec", {}).get("agrees_with_runtime", True):
        yield "spec"


def check(case: Mapping[str, Any], source: object, feeds: Mapping[str, np.ndarray], bound: Bound) -> None:
    expected = array(case["output"], case["dtype"])
    for mode in semantics(case):
        for target in TARGETS:
            model = ortconv.conversion(source, semantics=mode, target=target).to_proto()
            for way in WAYS if target != "onnx" else ("none",):
                (result,) = run(model, feeds, way)
                assert_matches(result, expected, bound, f"{case['id']} {mode} {target} {way}")


@pytest.mark.parametrize("case", cases("openvino"))
def test_openvino_vector(case: dict[str, Any]) -> None:
    pytest.importorskip("openvino", reason="the sources are built with OpenVINO")
    from tests.conformance import openvino_sources

    inputs = {name: array(entry, case["dtype"]) for name, entry in case["inputs"].items()}
    source = openvino_sources.model(
        case["op"].removeprefix("openvino.").removesuffix("-1"),
        case["attrs"],
        inputs["data"],
        inputs["filter"],
        inputs.get("output_shape"),
        shape=[-1] * inputs["data"].ndim if case["dynamic_data"] else None,
        runtime_shape=case.get("output_shape_mode") == "param",
    )
    runtime_inputs = ("data", "output_shape") if case.get("output_shape_mode") == "param" else ("data",)
    bound = EXACT if case["values"] == "int" else rounding_bound(inputs["data"], inputs["filter"])
    check(case, source, {name: inputs[name] for name in runtime_inputs}, bound)


@pytest.mark.parametrize("case", cases("onednn"))
def test_onednn_vector(case: dict[str, Any]) -> None:
    inputs = {name: array(entry, case["dtype"]) for name, entry in case["inputs"].items()}
    graph = onednn.Graph(case["id"])
    tensors = [graph.tensor(name, case["dtype"], value.shape) for name, value in inputs.items()]
    graph.op(case["op"].removeprefix("onednn."), tensors, name=case["id"], **case["attrs"])
    data, weights = (inputs[name] for name in list(inputs)[:2])
    bound = EXACT if case["values"] == "int" else rounding_bound(data, weights)
    check(case, graph, inputs, bound)

"""The vectors that the project ships: sources, data, and what the real libraries computed. Needs neither library."""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ortconv
from tests import folders
from tests.running import EXACT, WAYS, assert_matches, run

VECTORS = json.loads((folders.VECTORS / "vectors.json").read_text())


@functools.cache
def arrays() -> Mapping[str, np.ndarray]:
    with np.load(folders.VECTORS / "data.npz") as data:
        return dict(data)


def array(vector: Mapping[str, Any], name: str) -> np.ndarray | None:
    found = arrays().get(f"{vector['id']}/{name}")
    if found is not None and vector.get("bfloat16") and found.dtype == np.float32:
        return found.astype(ml_dtypes.bfloat16)
    return found


@pytest.mark.parametrize("vector", [pytest.param(each, id=each["id"]) for each in VECTORS])
def test_vector(vector: Mapping[str, Any]) -> None:
    feeds = {name: array(vector, name) for name in vector["feeds"]}
    for mode in ("runtime", "spec"):
        expected = array(vector, mode)
        if expected is None:
            assert mode == "spec"
            continue
        for target in ("auto", "onnx", "plugin"):
            model = ortconv.conversion(folders.VECTORS / vector["source"], semantics=mode, target=target).to_proto()
            for way in WAYS if target != "onnx" else ("none",):
                (result,) = run(model, feeds, way)
                assert_matches(result, expected, EXACT, f"{vector['id']} ({vector['runtime']}) {mode} {target} {way}")


def test_vectors_cover_the_family_and_both_semantics() -> None:
    ops = {vector["id"].rpartition("_")[2] for vector in VECTORS}
    assert ops >= {
        "Convolution",
        "GroupConvolution",
        "ConvolutionBackpropData",
        "GroupConvolutionBackpropData",
        "ConvolutionBackwardData",
        "ConvTranspose",
    }
    differ = [
        vector["id"]
        for vector in VECTORS
        if array(vector, "spec") is None or not np.array_equal(array(vector, "spec"), array(vector, "runtime"))
    ]
    assert len(differ) >= 10

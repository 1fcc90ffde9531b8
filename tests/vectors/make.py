"""Makes the vectors of this folder: sources, data, and the numbers that the real libraries compute from them.

    python -m tests.vectors.make RECORDINGS

OpenVINO runs here. oneDNN Graph has no Python package, so its numbers come from RECORDINGS, a folder with a
``manifest.json`` and ``data.npz`` that were written by a program linked to the library.
"""

from __future__ import annotations

import json
import pathlib
import sys
from typing import Any

import ml_dtypes
import numpy as np
import openvino

from ortconv import onednn
from tests.conformance import openvino_sources
from tests.conformance.grids import problem

FOLDER = pathlib.Path(__file__).parent
OPENVINO_TYPES = ("float32", "float32", "float16", "float64", "int8", "uint8", "int32", "int64")
OPENVINO_COUNT = 44
ONEDNN_EVERY = 3


def openvino_vectors(data: dict[str, np.ndarray]) -> list[dict[str, Any]]:
    """Returns random problems with OpenVINO's result, and the definition's where the spec page rules."""
    vectors = []
    for seed in range(OPENVINO_COUNT):
        drawn = problem(500 + seed, np.dtype(OPENVINO_TYPES[seed % len(OPENVINO_TYPES)]))
        source = openvino_sources.model(
            drawn.op,
            drawn.attributes,
            drawn.data,
            drawn.filter,
            drawn.output_shape,
            shape=[-1] * drawn.data.ndim if drawn.dynamic else None,
            runtime_shape=drawn.runtime_shape,
        )
        key = f"openvino_{seed:03}_{drawn.op}"
        openvino.save_model(source, FOLDER / f"{key}.xml", compress_to_fp16=False)
        for name, array in drawn.feeds.items():
            data[f"{key}/{name}"] = array
        data[f"{key}/runtime"] = openvino_sources.run(source, drawn.feeds)
        data[f"{key}/spec"] = drawn.expected("spec")
        made_by = f"OpenVINO {openvino.get_version()}"
        vectors.append({"id": key, "source": f"{key}.xml", "feeds": list(drawn.feeds), "runtime": made_by})
    return vectors


def onednn_vectors(data: dict[str, np.ndarray], recordings: pathlib.Path) -> list[dict[str, Any]]:
    """Returns recorded problems of whole numbers; a page that agrees with the library is held to the same numbers."""
    vectors = []
    cases = json.loads((recordings / "manifest.json").read_text())["cases"]
    arrays = np.load(recordings / "data.npz")
    whole = [case for case in cases if case["runtime"] == "oneDNN" and case["values"] == "int"]
    for case in whole[::ONEDNN_EVERY]:
        graph = onednn.Graph(case["id"])
        kind = case["op"].removeprefix("onednn.")
        key = f"{case['id']}_{kind}"
        tensors = []
        for name, entry in case["inputs"].items():
            tensors.append(graph.tensor(name, case["dtype"], entry["shape"]))
            data[f"{key}/{name}"] = arrays[entry["key"]]
        graph.op(kind, tensors, name=kind, **case["attrs"])
        graph.save(FOLDER / f"{key}.json")
        data[f"{key}/runtime"] = arrays[case["output"]["key"]]
        if case.get("spec", {}).get("agrees_with_runtime", True):
            data[f"{key}/spec"] = data[f"{key}/runtime"]
        vectors.append(
            {
                "id": key,
                "source": f"{key}.json",
                "feeds": list(case["inputs"]),
                "runtime": f"oneDNN {case['runtime_version']}",
                "bfloat16": case["dtype"] == "bf16",
            }
        )
    return vectors


def main(recordings: pathlib.Path) -> None:
    data: dict[str, np.ndarray] = {}
    vectors = openvino_vectors(data) + onednn_vectors(data, recordings)
    assert not any(array.dtype == ml_dtypes.bfloat16 for array in data.values()), "npz holds no bfloat16"
    np.savez_compressed(FOLDER / "data.npz", **data)
    (FOLDER / "vectors.json").write_text(json.dumps(vectors, indent=1) + "\n")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))

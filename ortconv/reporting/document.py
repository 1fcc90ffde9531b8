"""Gathers what the page shows: converts a source, compares, measures, and returns it all as one document."""

from __future__ import annotations

import dataclasses
import math
import os
import pathlib
import tempfile
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from typing import Any

import onnx

from ortconv import api
from ortconv.api import Conversion
from ortconv.errors import ConversionErrors, OrtconvError
from ortconv.frontend.source_format import Tensors
from ortconv.graph.builder import Step
from ortconv.model_io.input_data import Array
from ortconv.options import Options, Semantics, Target
from ortconv.progress import Progress, silent
from ortconv.reporting import networks
from ortconv.runtime import node_times
from ortconv.runtime.library import Backend
from ortconv.verification import Comparison, Layer, Verification, verify

__all__ = ["Report", "gather"]

_SIDES: tuple[Backend, Backend] = ("none", "native")


@dataclasses.dataclass(frozen=True)
class Report:
    """What the page shows.

    Attributes:
        document: The content, for JSON.
        refused: What the conversion refused; nothing is verified then.
        failed: Why nothing, or not everything, was verified and measured; None if all was.
        verification: What `verify` found; None if it was not possible.
    """

    document: Mapping[str, Any]
    refused: ConversionErrors | None = None
    failed: OrtconvError | None = None
    verification: Verification | None = None


def gather(
    source: pathlib.Path,
    *,
    semantics: Semantics | None = None,
    target: Target = "auto",
    tensors: Tensors | None = None,
    data: Mapping[str, Array] | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    seed: int = 0,
    tolerance: float | None = None,
    threads: int = 0,
    runs: int = 5,
    progress: Progress = silent,
) -> Report:
    """Converts a source, compares the model with it, and measures the model's nodes.

    Args:
        source: The file.
        semantics: As for `verify`.
        target: As for `ortconv.convert`.
        tensors: As for `ortconv.convert`.
        data: As for `verify`.
        shapes: As for `verify`.
        seed: As for `verify`.
        tolerance: As for `verify`.
        threads: Threads of the sessions that are measured; 0 for ONNX Runtime's default.
        runs: How often each side runs while nodes are measured.
        progress: Told what is being done.

    Raises:
        ModelFormatError: The source cannot be read.
    """
    frontend = api.detect(source)
    if semantics is None:
        semantics = "runtime" if frontend.name == "openvino" else "spec"
    content: dict[str, Any] = {
        "ortconv": version("ortconv"),
        "source": str(source),
        "format": frontend.title.partition(" (")[0],
        "options": {"semantics": semantics, "target": target},
        "files": _files([(source, "source"), (source.parent / f"{source.stem}.bin", "weights of the source")]),
        "after": {"nodes": [], "edges": []},
    }
    try:
        done = api.conversion(source, semantics=semantics, target=target, tensors=tensors, progress=progress)
    except ConversionErrors as errors:
        steps = [step for step in errors.steps if isinstance(step, Step)]
        before = networks.source(frontend.read(source, tensors or {}, Options(semantics, target)), steps)
        content |= {"before": _network(before), "refused": [str(error) for error in errors.exceptions]}
        return Report(content, refused=errors)
    before = networks.source(frontend.read(source, tensors or {}, done.options), done.steps)
    model = done.to_proto()
    content |= {"after": _network(networks.converted(model, before)), "before": _network(before), "notes": done.notes}
    with tempfile.TemporaryDirectory(prefix="ortconv-report-") as folder:
        path = pathlib.Path(folder, f"{source.stem}.onnx")
        content["files"] += _written(done, path, progress)
        verification = None
        try:
            verification = verify(
                source,
                path,
                semantics=semantics,
                tensors=tensors,
                data=data,
                shapes=shapes,
                seed=seed,
                tolerance=tolerance,
                layers=True,
                progress=progress,
            )
            content["verification"] = _verification(verification)
            content["times"] = _times(model, str(source), verification.feeds, threads, runs, progress)
        except OrtconvError as error:
            content["failed"] = str(error)
            return Report(content, failed=error, verification=verification)
    return Report(content, verification=verification)


def _network(network: networks.Network) -> Mapping[str, Any]:
    return {"nodes": [dataclasses.asdict(node) for node in network.nodes], "edges": network.edges}


def _written(done: Conversion, path: pathlib.Path, progress: Progress) -> list[Mapping[str, Any]]:
    done.save(path, progress=progress)
    return _files([(path, "model"), (path.parent / f"{path.name}.data", "weights of the model")])


def _files(files: Sequence[tuple[pathlib.Path, str]]) -> list[Mapping[str, Any]]:
    return [{"name": path.name, "what": what, "bytes": os.path.getsize(path)} for path, what in files if path.is_file()]


def _verification(found: Verification) -> Mapping[str, Any]:
    outputs = [
        {"backend": backend, **_comparison(comparison)}
        for backend, compared in found.outputs.items()
        for comparison in compared
    ]
    return {
        "agrees": found.agrees,
        "oracle": found.oracle,
        "seed": found.seed,
        "vacuous": found.vacuous,
        "inputs": [
            {
                "name": name,
                "type": array.dtype.name,
                "shape": list(array.shape),
                "data": "given" if name in found.given else "first value" if name in found.first else "random",
            }
            for name, array in found.feeds.items()
        ],
        "outputs": outputs,
        "layers": [_layer(layer) for layer in found.layers],
        "warnings": found.warnings,
    }


def _layer(layer: Layer) -> Mapping[str, Any]:
    return {"op": layer.node.op_type, "node": layer.node.name, "id": layer.node.id, **_comparison(layer.comparison)}


def _comparison(comparison: Comparison) -> dict[str, Any]:
    """Returns a comparison with numbers that JSON has: what is not finite becomes None, of `worst` a word."""
    fields = dataclasses.asdict(comparison) | {"agrees": comparison.agrees}
    for name in ("max_abs", "max_rel", "spread"):
        if fields[name] is not None and not math.isfinite(fields[name]):
            fields[name] = None
    if comparison.worst is not None:
        at, expected, actual = comparison.worst
        fields["worst"] = {"at": list(at), "expected": f"{expected:.9g}", "found": f"{actual:.9g}"}
    return fields


def _times(
    model: onnx.ModelProto, name: str, feeds: Mapping[str, Array], threads: int, runs: int, progress: Progress
) -> Mapping[str, Any]:
    """Measures a model's nodes; one without operators of ours runs the same with the plugin, and is measured once."""
    sides = _SIDES if model.functions else _SIDES[:1]
    found = {}
    for number, side in enumerate(sides):
        progress("measuring", number, len(sides))
        times = node_times.measure(
            model, name, feeds, backend=side, providers=["CPUExecutionProvider"], threads=threads, runs=runs
        )
        found[side] = dataclasses.asdict(times)
    return {"threads": threads, "runs": runs, "sides": found}

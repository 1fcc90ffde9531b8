"""How long ONNX Runtime takes for each node of a model, measured by its own profiler.

ONNX Runtime rewrites a model before it runs it: it fuses nodes, changes layouts and inlines functions. The time of a
node that it runs counts for the node of the file whose result that node helps to compute.
"""

from __future__ import annotations

import collections
import dataclasses
import json
import pathlib
import statistics
import tempfile
from collections.abc import Mapping, Sequence

import onnx

from ortconv.model_io.input_data import Array
from ortconv.runtime.library import Backend
from ortconv.runtime.runner import Model, Profile

__all__ = ["NodeTimes", "measure"]

_KERNEL = "_kernel_time"
_BLOCKED_LAYOUT = "_nchwc"
"""Suffix of nodes that ONNX Runtime names after the value that they compute in its blocked layout."""


@dataclasses.dataclass(frozen=True)
class NodeTimes:
    """Times of one model, run in one way.

    Attributes:
        seconds: Name of each node of the file that takes time -> seconds per run, the median of the runs.
        other: Seconds per run of nodes of ONNX Runtime's that belong to no node of the file.
        run: Seconds per run of the whole model, profiler included.
    """

    seconds: Mapping[str, float]
    other: float
    run: float


def measure(
    model: onnx.ModelProto,
    name: str,
    feeds: Mapping[str, Array],
    *,
    backend: Backend,
    providers: Sequence[str],
    threads: int,
    runs: int,
) -> NodeTimes:
    """Measures the nodes of a model's main graph; what runs inside a node's own graphs counts for that node.

    Args:
        model: The model. The nodes of its function bodies get names, by which their times are told apart.
        name: The model's name in messages.
        feeds: An array for every input.
        backend: What executes operators of org.ortconv: "native" or "none".
        providers: Execution providers, best first.
        threads: Threads of the session; 0 for ONNX Runtime's default.
        runs: How many runs are measured, after one that does not count.

    Raises:
        ExecutionError: ONNX Runtime reports a failure.
        PluginError: The backend cannot be used.
    """
    for function in model.functions:
        for number, node in enumerate(function.node):
            node.name = f"{function.name}/{number}"
    with tempfile.TemporaryDirectory(prefix="ortconv-profile-") as folder:
        profile = Profile(pathlib.Path(folder))
        loaded = Model(model, name, backend=backend, providers=providers, threads=threads, profile=profile)
        for _ in range(runs + 1):
            loaded.run(feeds)
        events = json.loads(loaded.end_profiling().read_text(encoding="utf-8"))
        optimized = onnx.load(profile.optimized_model, load_external_data=False)
    owners = _owners(model.graph, optimized.graph)
    durations = collections.defaultdict(list)
    whole = []
    for event in events:
        label, seconds = event["name"], event.get("dur", 0) / 1e6
        if label == "model_run":
            whole.append(seconds)
        elif event.get("cat") == "Node" and label.endswith(_KERNEL):
            durations[label.removesuffix(_KERNEL)].append(seconds)
    found: dict[str, float] = collections.defaultdict(float)
    other = 0.0
    for node in optimized.graph.node:
        measured = durations.get(node.name, [])[1:]
        if measured and node.name in owners:
            found[owners[node.name]] += statistics.median(measured)
        elif measured:
            other += statistics.median(measured)
    return NodeTimes(dict(found), other, statistics.median(whole[1:]))


def _owners(graph: onnx.GraphProto, optimized: onnx.GraphProto) -> dict[str, str]:
    """Returns, for nodes of the optimized graph, the node of the file that their time counts for."""
    names = {node.name for node in graph.node}
    producers = {output: node.name for node in graph.node for output in node.output if output}
    owners: dict[str, str] = {}
    consumers: dict[str, str] = {}
    for node in reversed(optimized.node):  # consumers come first
        value = node.name.partition(_BLOCKED_LAYOUT)[0]
        made = [producers[output] for output in node.output if output in producers]
        following = [owners[consumers[output]] for output in node.output if consumers.get(output) in owners]
        if node.name in names:
            owners[node.name] = node.name
        elif made:
            owners[node.name] = made[0]
        elif value != node.name and value in producers:
            owners[node.name] = producers[value]
        elif following:
            owners[node.name] = following[0]
        consumers.update(dict.fromkeys(node.input, node.name))
    return owners

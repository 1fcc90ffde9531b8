"""Running a whole oneDNN Graph JSON by the references: own reading, own ordering. Nothing here imports ortconv."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from tests.converters.onednn_graph.references import evaluate
from tests.converters.onednn_graph.references.call import Call, Slot

UNKNOWN = -(2**63)
RENAMED = {"BiasAddBackprop": "BiasAddBackward"}


@dataclasses.dataclass(frozen=True)
class Node:
    """An op: its kind, tensor ids, attributes."""

    kind: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    attributes: dict[str, Any]


class Program:
    """A graph that can be run.

    Args:
        document: The JSON.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.slots: dict[int, Slot] = {}
        nodes = []
        for op in document["graph"]:
            for tensor in (*op["inputs"], *op["outputs"]):
                self._describe(tensor)
            nodes.append(
                Node(
                    RENAMED.get(op["kind"], op["kind"]),
                    tuple(tensor["id"] for tensor in op["inputs"]),
                    tuple(tensor["id"] for tensor in op["outputs"]),
                    dict(filter(None, (_attribute(name, a) for name, a in op.get("attrs", {}).items()))),
                )
            )
        produced = {identity for node in nodes for identity in node.outputs}
        used = {identity for node in nodes if node.kind != "End" for identity in node.inputs}
        ended = {identity for node in nodes if node.kind == "End" for identity in node.inputs}
        self.inputs = list(dict.fromkeys(i for node in nodes for i in node.inputs if i not in produced))
        self.outputs = [i for node in nodes for i in node.outputs if i not in used or i in ended]
        self.nodes = _sorted(nodes, set(self.inputs))

    def run(self, feeds: Mapping[int, np.ndarray], semantics: str = "spec") -> dict[int, np.ndarray]:
        """Returns every tensor by id."""
        known = dict(feeds)
        for node in self.nodes:
            if node.kind == "End":
                continue
            slots = [self.slots[i] for i in node.outputs]
            results = evaluate(Call(node.kind, [known[i] for i in node.inputs], node.attributes, slots, semantics))
            for identity, slot, result in zip(node.outputs, slots, results, strict=True):
                assert slot.shape is None or slot.shape == result.shape, (node.kind, identity, slot, result.shape)
                known[identity] = result
        return known

    def _describe(self, tensor: Mapping[str, Any]) -> None:
        shape = None if UNKNOWN in tensor["shape"] else tuple(tensor["shape"])
        before = self.slots.get(tensor["id"])
        if before is None or (before.shape is None and shape is not None):
            self.slots[tensor["id"]] = Slot(tensor["dtype"], shape)


def load(path: pathlib.Path) -> Program:
    """Reads a file."""
    return Program(json.loads(path.read_text()))


def _attribute(name: str, attribute: Mapping[str, Any]) -> tuple[str, Any] | None:
    value = attribute["value"]
    if attribute["type"] == "bool":
        value = bool(value)
    if isinstance(value, list) and len(value) == 12 and set(value) <= {0} and not name.startswith(("zps", "axes")):
        return None
    if isinstance(value, list) and name == "dilations" and value == [1] * 12:
        return None
    return name, value


def _sorted(nodes: list[Node], known: set[int]) -> list[Node]:
    done, rest, ready = [], nodes, set(known)
    while rest:
        now = [node for node in rest if ready.issuperset(node.inputs)]
        assert now, "the graph has a cycle"
        for node in now:
            ready.update(node.outputs)
        done += now
        rest = [node for node in rest if node not in now]
    return done

"""Which implementation the native library chose for each convolution of a session, and how it estimated the others."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
from collections.abc import Mapping
from typing import Any

__all__ = ["CHOICES_ENTRY", "IMPLEMENTATION_ENTRY", "TUNE_ENTRY", "Choice", "read"]

CHOICES_ENTRY = "ortconv.choices"
"""Session config entry: the file to which the library appends a line for each node and each problem it meets."""

IMPLEMENTATION_ENTRY = "ortconv.implementation"
"""Session config entry: the name of the implementation that computes all convolutions that it can."""

TUNE_ENTRY = "ortconv.tune"
"""Session config entry: the file that remembers which implementations were measured to be fastest on this machine."""


@dataclasses.dataclass(frozen=True)
class Choice:
    """What computes the runs of a node that have the same sizes.

    Attributes:
        node: How the library names the node: its operator, and its name in quotes.
        sizes: The convolution: batch, channels, sizes and attributes, in words.
        implementation: The name of the implementation.
        seconds: Name of each implementation that can compute it -> the estimated time on one thread.
    """

    node: str
    sizes: str
    implementation: str
    seconds: Mapping[str, float]


def read(file: str | os.PathLike[str]) -> list[Choice]:
    """Returns the choices in a file that sessions with the entry CHOICES_ENTRY have written; none if there is no file.

    Args:
        file: Path of the file.
    """
    path = pathlib.Path(file)
    if not path.exists():
        return []
    return [_choice(json.loads(line)) for line in path.read_text(encoding="utf-8", errors="replace").splitlines()]


def _choice(entry: Mapping[str, Any]) -> Choice:
    seconds = {each["name"]: each["nanoseconds"] / 1e9 for each in entry["estimates"]}
    return Choice(entry["node"], _sizes(entry), entry["chosen"], seconds)


def _sizes(entry: Mapping[str, Any]) -> str:
    def each(values: list[int]) -> str:
        return "x".join(map(str, values))

    parts = [
        f"{entry['inputs']} to {entry['outputs']} channels",
        f"{each(entry['src'])} to {each(entry['dst'])}",
        f"kernel {each(entry['kernel'])}",
    ]
    parts += [f"batch {entry['batch']}"] if entry["batch"] > 1 else []
    parts += [f"{entry['group']} groups"] if entry["group"] > 1 else []
    for name in ("strides", "dilations"):
        parts += [f"{name} {each(entry[name])}"] if max(entry[name]) > 1 else []
    parts += [f"pads {each(entry['pads'])}"] if any(entry["pads"]) else []
    return ", ".join(parts)

"""The options of a conversion."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal, get_args

__all__ = ["Compute", "Io", "Options", "Semantics", "Target", "Weights", "refuse_unknown"]

Semantics = Literal["spec", "runtime"]
Target = Literal["auto", "onnx", "plugin"]
Io = Literal["runtime", "source"]
Compute = Literal["f32", "f16"]
Weights = Literal["source", "f32"]


@dataclasses.dataclass(frozen=True)
class Options:
    """What the user asked for.

    Attributes:
        semantics: Follow the specification, or reproduce the source's own library where the two differ; see
            `ortconv.convert`.
        target: Which nodes may be emitted; see `ortconv.convert`.
        opset: Version of the ai.onnx opset to emit.
        io: Element types of the inputs and outputs of an OpenVINO model: as the runtime takes and returns them, or as
            the file states them.
        compute: What an OpenVINO model computes in where it states float16.
        weights: Whether float16 weights that are computed with in float32 are stored as they are, or widened.

    Raises:
        ValueError: A word is unknown: taken for the default, it would give other numbers silently.
    """

    semantics: Semantics = "spec"
    target: Target = "auto"
    opset: int = 21
    io: Io = "runtime"
    compute: Compute = "f32"
    weights: Weights = "source"

    def __post_init__(self) -> None:
        words = {"semantics": Semantics, "target": Target, "io": Io, "compute": Compute, "weights": Weights}
        for name, allowed in words.items():
            refuse_unknown(name, getattr(self, name), get_args(allowed))


def refuse_unknown(name: str, value: object, allowed: Sequence[str]) -> None:
    """Refuses a word that is not one of those allowed.

    Raises:
        ValueError: It is none of them.
    """
    if value not in allowed:
        raise ValueError(f"{name} {value!r} is unknown; allowed: {', '.join(allowed)}")

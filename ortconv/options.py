"""The options of a conversion."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal, get_args

__all__ = ["Options", "Semantics", "Target", "refuse_unknown"]

Semantics = Literal["spec", "runtime"]
Target = Literal["auto", "onnx", "plugin"]


@dataclasses.dataclass(frozen=True)
class Options:
    """What the user asked for.

    Attributes:
        semantics: Follow the spec pages, or reproduce the source's own library where the two differ; see
            `ortconv.convert`.
        target: Which nodes may be emitted; see `ortconv.convert`.
        opset: Version of the ai.onnx opset to emit.

    Raises:
        ValueError: `semantics` or `target` is unknown: taken for the default, it would give other numbers silently.
    """

    semantics: Semantics = "spec"
    target: Target = "auto"
    opset: int = 21

    def __post_init__(self) -> None:
        refuse_unknown("semantics", self.semantics, get_args(Semantics))
        refuse_unknown("target", self.target, get_args(Target))


def refuse_unknown(name: str, value: object, allowed: Sequence[str]) -> None:
    """Refuses a word that is not one of those allowed.

    Raises:
        ValueError: It is none of them.
    """
    if value not in allowed:
        raise ValueError(f"{name} {value!r} is unknown; allowed: {', '.join(allowed)}")

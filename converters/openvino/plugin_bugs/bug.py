"""What an entry in the table of plugin bugs consists of."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ortconv.converters.openvino.plugin_bugs.network import Network
from ortconv.frontend.source_graph import SourceNode
from ortconv.graph.builder import Builder

__all__ = ["Bug", "Live", "convolution", "random"]

Array = npt.NDArray[Any]


@dataclasses.dataclass(frozen=True)
class Live:
    """A model that shows a bug.

    Attributes:
        build: Makes the node or nodes of the model from the module ``openvino`` and one Parameter for each input.
        feed: The inputs.
        right: The right first output, or what builds a model that OpenVINO computes rightly; None for the same model
            with the shapes `right_shapes`.
        shapes: Shapes of the Parameters, -1 for a dynamic dimension; None for those of the inputs.
        right_shapes: Shapes of the Parameters of the model that is right.
        output: The index of the output that shows the bug.
        bound: The largest difference from the right result, in units in the last place of its largest magnitude.
        steady: Whether every run shows the bug. Where the plugin reads memory out of bounds, it may not, or crash. Some
            bugs exist only on processors with AVX-512.
    """

    build: Callable[..., Any]
    feed: Sequence[Array]
    right: Array | Callable[..., Any] | None = None
    _: dataclasses.KW_ONLY
    shapes: Sequence[Sequence[int]] | None = None
    right_shapes: Sequence[Sequence[int]] | None = None
    output: int = 0
    bound: float = 64
    steady: bool = True


@dataclasses.dataclass(frozen=True)
class Bug:
    """A known bug of OpenVINO's CPU plugin.

    Attributes:
        op: The op types that it affects, for the documentation.
        case: When it occurs.
        fault: What the plugin does then.
        live: A model that shows the bug.
        matches: Returns the nodes of a model that the bug affects; None where a lowering finds out and calls `warn`.
    """

    op: str
    case: str
    fault: str
    live: Live
    matches: Callable[[Network], Iterable[SourceNode]] | None = None

    def warning(self, op_type: str, detail: str = "") -> str:
        """Returns what a conversion says of a node.

        Args:
            op_type: The op type of the node.
            detail: The sizes or attributes concerned.
        """
        case = f"{self.case} ({detail})" if detail else self.case
        return f"{case}: follows the specification of {op_type}; OpenVINO's CPU plugin {self.fault}"

    def warn(self, b: Builder, detail: str = "") -> None:
        """Warns that the node being lowered is affected; see `warning`."""
        b.warn(self.warning(b.node.ref.op_type, detail))


def random(*shape: int, seed: int = 0, low: float = -4, high: float = 4) -> Array:
    """Returns random float32 numbers, the same on every call."""
    return np.random.default_rng([seed, *shape]).uniform(low, high, shape).astype(np.float32)


def convolution(
    ov: Any, x: Any, filter: Any, *, strides: Sequence[int] | None = None, pad: int = 0, auto_pad: str = "explicit"
) -> Any:
    """Makes a convolution of a model that shows a bug."""
    ones = [1] * (len(filter.shape) - 2)
    pads = [pad] * len(ones)
    return ov.opset1.convolution(x, filter, strides or ones, pads, pads, ones, auto_pad)

"""Bugs of models with FakeQuantize, in which the plugin moves scales and shifts behind the ops that follow them.

Those of FakeQuantize are moved, and those of Multiply and Add with constants. In a normalization, eps is then added to
unscaled data; a moved shift also shifts the zeros of a padding.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ortconv.converters.openvino.plugin_bugs.bug import Bug, Live, random
from ortconv.converters.openvino.plugin_bugs.network import CONVOLUTIONS, Network
from ortconv.frontend.source_graph import SourceNode, SourceValue

__all__: list[str] = []

_SMALL_EPS = 1e-5
_SCALE_AND_SHIFT = frozenset({"BatchNormInference", "FakeQuantize", "GroupNormalization"})
"""Ops that contain scales and shifts which are moved."""

_PASSED = frozenset(
    {
        *("AvgPool", "BatchToSpace", "Concat", "DepthToSpace", "Gather", "Interpolate", "MaxPool", "Pad", "ReduceMax"),
        *("ReduceMean", "ReduceMin", "ReduceSum", "ReLU", "Reshape", "ShuffleChannels", "Slice", "SpaceToBatch"),
        *("Split", "Squeeze", "StridedSlice", "Transpose", "Unsqueeze", "VariadicSplit"),
    }
)
"""Ops that scales and shifts move past."""


def _normalized(network: Network) -> Iterator[SourceNode]:
    for node in network.nodes if "FakeQuantize" in network.op_types else ():
        if _counts_eps(node) and _is_moved(network, node, _scales):
            yield node


def _padded(network: Network) -> Iterator[SourceNode]:
    for node in network.nodes if "FakeQuantize" in network.op_types else ():
        if _pads_zeros(node) and _is_moved(network, node, _shifts):
            yield node


def _is_moved(network: Network, node: SourceNode, moved: Callable[[Network, SourceNode], bool]) -> bool:
    """Tells whether what `moved` is true of moves past a node."""
    return network.comes_from(node.inputs[0], functools.partial(moved, network), functools.partial(_passed, network))


def _counts_eps(node: SourceNode) -> bool:
    """Tells whether a node normalizes with an eps that is not lost in the rounding to 8 bits."""
    if node.ref.op_type not in ("GroupNormalization", "MVN", "NormalizeL2"):
        return False
    text = node.attributes.get("eps", node.attributes.get("epsilon"))
    try:
        return float(str(text)) > _SMALL_EPS
    except ValueError:  # the lowering refuses it
        return False


def _pads_zeros(node: SourceNode) -> bool:
    """Tells whether a node pads with zeros that affect its result; a Pad has a pad_value, which is moved too."""
    if node.ref.op_type == "AvgPool":
        counted = str(node.attributes.get("exclude-pad", "true")).strip().lower() in ("false", "0")
        return counted and str(node.attributes.get("auto_pad", "explicit")).lower() != "valid"
    return node.ref.op_type == "SpaceToBatch"


def _passed(network: Network, node: SourceNode) -> Sequence[SourceValue | None]:
    """Returns the inputs of a node from which scales and shifts move past it."""
    if node.ref.op_type in _PASSED or _is_by_constant(network, node, "Add", "Divide", "Multiply", "Subtract"):
        return node.inputs
    return node.inputs[1:2] if node.ref.op_type in CONVOLUTIONS else ()


def _scales(network: Network, node: SourceNode) -> bool:
    return node.ref.op_type in _SCALE_AND_SHIFT or _is_by_constant(network, node, "Divide", "Multiply")


def _shifts(network: Network, node: SourceNode) -> bool:
    """Tells whether a node shifts; a constant that is added is moved only behind a scale."""
    if node.ref.op_type in _SCALE_AND_SHIFT:
        return True
    before = [network.producer(value) for value in node.inputs]
    return _is_by_constant(network, node, "Add", "Subtract") and any(
        each is not None and _scales(network, each) for each in before
    )


def _is_by_constant(network: Network, node: SourceNode, *op_types: str) -> bool:
    return node.ref.op_type in op_types and any(_is_constant(network, value) for value in node.inputs)


def _is_constant(network: Network, value: SourceValue | None) -> bool:
    producer = network.producer(value)
    if producer is not None and producer.ref.op_type == "Convert":
        return _is_constant(network, producer.inputs[0])
    return value is not None and value.constant is not None


_X = (2, 3, 6, 6)


def _beside_levels(of: Callable[[Any, Any], Any]) -> Live:
    """Makes a model of scaled data with a FakeQuantize, which makes the plugin move the scale."""
    bounds = [np.float32(bound) for bound in (0, 1, 0, 1)]

    def scaled(ov: Any, x: Any) -> Any:
        return of(ov, ov.opset1.multiply(x, np.float32(0.05)))

    return Live(
        lambda ov, x, y: [scaled(ov, x), ov.opset1.fake_quantize(y, *bounds, 256)],
        [random(*_X), random(*_X, seed=1)],
        lambda ov, x, y: [scaled(ov, x), ov.opset1.relu(y)],
    )


SCALE_MOVED_BEHIND_EPS = Bug(
    op="MVN, GroupNormalization, NormalizeL2",
    case="scaled data in a model with FakeQuantize, and an eps above 1e-5",
    fault="moves the scale behind the op, and so adds eps to unscaled data",
    live=_beside_levels(lambda ov, x: ov.opset6.mvn(x, np.array([2, 3]), True, 0.1, "inside_sqrt")),
    matches=_normalized,
)

SHIFT_MOVED_BEHIND_PADDING = Bug(
    op="AvgPool, SpaceToBatch",
    case="scaled and shifted data in a model with FakeQuantize, and zeros of a padding that affect the result",
    fault="may move the shift behind the op, and so shifts the zeros of the padding",
    live=_beside_levels(
        lambda ov, x: ov.opset1.avg_pool(ov.opset1.add(x, np.float32(0.3)), [1, 1], [1, 1], [1, 1], [3, 3], False)
    ),
    matches=_padded,
)

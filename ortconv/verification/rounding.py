"""Data that the source quantizes in float, and the model holds as int8: comparing and converting between the two."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import onnx

from ortconv.frontend.source_graph import SourceGraph, SourceNode, SourceValue
from ortconv.model_io.input_data import Array
from ortconv.opset.ops.qlinear_convolution import QLINEAR_CONVOLUTION

__all__ = ["Rounding", "roundings"]

_LEVELS = 256


@dataclasses.dataclass(frozen=True)
class Rounding:
    """A FakeQuantize of which a model has a QuantizeLinear.

    Attributes:
        node: The FakeQuantize.
        codes: The name of the output of the QuantizeLinear.
        low: The lowest level.
        step: Distance of two levels.
    """

    node: SourceNode
    codes: str
    low: npt.NDArray[np.float64]
    step: npt.NDArray[np.float64]

    @property
    def value(self) -> SourceValue:
        """The dequantized data in the source."""
        return self.node.outputs[0]

    def encoded(self, levels: Array) -> npt.NDArray[np.uint8]:
        """Quantizes data."""
        return np.clip(np.round((levels - self.low) / self.step), 0, _LEVELS - 1).astype(np.uint8)

    def decoded(self, codes: Array) -> npt.NDArray[np.float32]:
        """Dequantizes data."""
        return np.asarray(self.low + codes.astype(np.float64) * self.step, np.float32)


_QUANTIZING = ("QuantizeLinear", QLINEAR_CONVOLUTION.name)
"""Op types of nodes that may stand in the place of a FakeQuantize, and give its levels."""


def roundings(graph: SourceGraph, model: onnx.ModelProto, values: Mapping[str, Array]) -> list[Rounding]:
    """Returns the FakeQuantize nodes of the source that the model quantizes.

    Args:
        graph: The source.
        model: Its conversion; metadata of its nodes names those of the source.
        values: The source's intermediate results, by name.
    """
    made = {}
    for node in model.graph.node:
        facts = {entry.key: entry.value for entry in node.metadata_props}
        if node.op_type in _QUANTIZING and facts.get("ortconv.source.op_type") == "FakeQuantize":
            made[facts["ortconv.source.id"], facts["ortconv.source.name"]] = node.output[0]
    found = []
    for each in graph.nodes:
        codes = made.get((each.ref.id, each.ref.name))
        bounds = [_array(value, values) for value in each.inputs[1:3]]
        if codes is None or each.outputs[0].name not in values or bounds[0] is None or bounds[1] is None:
            continue
        low, high = (bound.astype(np.float64) for bound in bounds if bound is not None)
        found.append(Rounding(each, codes, low, (high - low) / (int(str(each.attributes["levels"])) - 1)))
    return found


def _array(value: SourceValue | None, values: Mapping[str, Array]) -> Array | None:
    if value is None:
        return None
    return values.get(value.name) if value.constant is None else value.constant.numpy()

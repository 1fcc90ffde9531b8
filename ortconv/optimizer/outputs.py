"""Outputs that a model declares without a shape: ONNX Runtime runs it, and onnx.checker refuses it."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator

import onnx
import onnx.shape_inference
import onnx_ir as ir

from ortconv.model_io.writer import without_weights

__all__ = ["for_checker", "placeholders", "with_ranks"]


def with_ranks(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns a model, or a copy, that states the rank of each output for which it follows; sizes stay open."""
    bare = [value.name for value in model.graph.output if _lacks_shape(value)]
    if not bare:
        return model
    try:
        inferred = onnx.shape_inference.infer_shapes(without_weights(model))
    except Exception:  # The checker says what is wrong, if anything is.
        return model
    ranks = {
        value.name: len(value.type.tensor_type.shape.dim)
        for value in inferred.graph.output
        if value.name in bare and value.type.tensor_type.HasField("shape")
    }
    ranked = copy.deepcopy(model)
    for value in ranked.graph.output:
        if value.name in ranks:
            value.type.tensor_type.shape.SetInParent()
            for _ in range(ranks[value.name]):
                value.type.tensor_type.shape.dim.add()
    return ranked


def for_checker(model: onnx.ModelProto) -> onnx.ModelProto:
    """Returns what onnx.checker may see of a model: outputs of unknown rank have any shape."""
    if not any(map(_lacks_shape, model.graph.output)):
        return model
    light = without_weights(model)
    for value in filter(_lacks_shape, light.graph.output):
        value.type.tensor_type.shape.SetInParent()
    return light


@contextlib.contextmanager
def placeholders(model: ir.Model) -> Iterator[None]:
    """Gives outputs of unknown rank any shape for as long as the checker looks at a model."""
    bare = [value for value in model.graph.outputs if value.shape is None and isinstance(value.type, ir.TensorType)]
    for value in bare:
        value.shape = ir.Shape([])
    try:
        yield
    finally:
        for value in bare:
            value.shape = None


def _lacks_shape(value: onnx.ValueInfoProto) -> bool:
    return value.type.HasField("tensor_type") and not value.type.tensor_type.HasField("shape")

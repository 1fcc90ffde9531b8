"""Brings models of opset 7 to 12 to 13, the first in which our function bodies are valid.

``onnx.version_converter`` does it. What it gets wrong is set right here, or refused by name: what ONNX Runtime computes
stays bit for bit what it was.
"""

from __future__ import annotations

import onnx
import onnx.version_converter
from onnx import numpy_helper

from ortconv.errors import ModelFormatError
from ortconv.model_io import protos
from ortconv.model_io.tensor_checks import is_external
from ortconv.model_io.writer import without_weights

__all__ = ["OLDEST", "upgraded"]

OLDEST = 7
"""ONNX Runtime runs no older models."""

_OPSET = 13
_IR_VERSION = 7
"""Of files of that opset."""

_CONSTANTS_LISTED = 4
"""Before this IR version, every initializer is an input as well, and no caller can change it."""

_MASK_KEPT = 12
_RESIZE_OF_TODAY = 11
_SPATIAL_GONE = 9


def upgraded(model: onnx.ModelProto, name: str) -> onnx.ModelProto:
    """Returns a model of opset 13 that computes the same, or the model itself where it is none of opset 7 to 12.

    Args:
        model: The model; it is not changed.
        name: How messages call it.

    Raises:
        ModelFormatError: A node would compute something else, or the model cannot be converted.
    """
    opset = next((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), 0)
    if not OLDEST <= opset < _OPSET:
        return model
    _refuse(model, name, opset)
    light = without_weights(model)
    for node in protos.nodes(light.graph.node):
        if node.op_type == "Pad" and _attribute(node, "mode", b"constant") != b"constant":
            _drop(node, "value")
    try:
        result = onnx.version_converter.convert_version(light, _OPSET)
    except Exception as error:  # RuntimeError, and ConvertError of its own
        problem = " ".join(str(error).split())
        raise ModelFormatError(
            name, "opset_import", f"ai.onnx {opset} cannot be converted to {_OPSET}: {problem}"
        ) from error
    if opset < _RESIZE_OF_TODAY:
        for node in protos.nodes(result.graph.node):
            if node.op_type == "Resize" and not node.domain:
                _drop(node, "coordinate_transformation_mode", "nearest_mode")
                node.attribute.append(onnx.helper.make_attribute("coordinate_transformation_mode", "asymmetric"))
                node.attribute.append(onnx.helper.make_attribute("nearest_mode", "floor"))
    _restore(model, result)
    return result


def _refuse(model: onnx.ModelProto, name: str, opset: int) -> None:
    """Refuses what would not compute the same, or would be lost."""
    if model.functions:
        raise ModelFormatError(
            name, f"function {model.functions[0].name}", f"needs opset {_OPSET}; the model has {opset}."
        )
    values = [*model.graph.input, *model.graph.output, *model.graph.value_info]
    for value in values:
        if value.type.WhichOneof("value") not in (None, "tensor_type"):
            raise ModelFormatError(
                name,
                f"value {value.name}",
                f"is no tensor; allowed: tensors, or opset {_OPSET}, and the model has {opset}.",
            )
    constants = {tensor.name: tensor for tensor in model.graph.initializer}
    listed = model.ir_version >= _CONSTANTS_LISTED
    for value in model.graph.input if listed else ():
        constants.pop(value.name, None)
    for node in protos.nodes(model.graph.node):
        if not node.domain and (problem := _problem(node, opset, constants)):
            where = f"{node.op_type} {node.name or node.output[0]}"
            raise ModelFormatError(
                name, where, f"{problem}, which opset {_OPSET} does not have; the model has {opset}."
            )


def _problem(node: onnx.NodeProto, opset: int, constants: dict[str, onnx.TensorProto]) -> str:
    """Returns what a node does that a newer opset cannot say, or ""."""
    match node.op_type:
        case "BatchNormalization" if opset < _SPATIAL_GONE and _attribute(node, "spatial", 1) != 1:
            return "has spatial = 0"
        case "Dropout" if opset < _MASK_KEPT and len(node.output) > 1 and node.output[1]:
            return "gives a mask of what it keeps"
        case "Hardmax" if _attribute(node, "axis", 1) != -1:
            return "takes all axes from axis on for one"
        case "Scan" if opset < _SPATIAL_GONE:
            return "takes sequence_lens"
        case "Resize" if opset < _RESIZE_OF_TODAY and _attribute(node, "mode", b"nearest") == b"nearest":
            scales = constants.get(node.input[1])
            if scales is None or is_external(scales) or numpy_helper.to_array(scales).min(initial=1) < 1:
                return "rounds up where it makes smaller"
    return ""


def _restore(model: onnx.ModelProto, result: onnx.ModelProto) -> None:
    """Gives a converted model the weights and all that the converter does not carry over."""
    weights = {tensor.name for tensor in model.graph.initializer}
    kept = {value.name for value in model.graph.input}
    if model.ir_version < _CONSTANTS_LISTED:
        kept -= weights
    inputs = [value for value in result.graph.input if value.name in kept]
    del result.graph.input[:]
    result.graph.input.extend(inputs)
    made = [tensor for tensor in result.graph.initializer if tensor.name not in weights]
    del result.graph.initializer[:]
    result.graph.initializer.extend([*model.graph.initializer, *made])
    result.graph.quantization_annotation.extend(model.graph.quantization_annotation)
    result.graph.metadata_props.extend(model.graph.metadata_props)
    result.producer_version, result.domain = model.producer_version, model.domain
    result.model_version = model.model_version
    result.ir_version = max(model.ir_version, _IR_VERSION)


def _attribute(node: onnx.NodeProto, name: str, default: object) -> object:
    found = next((each for each in node.attribute if each.name == name), None)
    return default if found is None else onnx.helper.get_attribute_value(found)


def _drop(node: onnx.NodeProto, *names: str) -> None:
    kept = [each for each in node.attribute if each.name not in names]
    del node.attribute[:]
    node.attribute.extend(kept)

"""Shapes of results by ONNX's shape inference, node by node as they are emitted.

A source with dynamic shapes does not declare the shapes that depend on them. Once its inputs are fixed, they are
inferred.
"""

from __future__ import annotations

from collections.abc import Iterable

import onnx
import onnx.checker
import onnx.defs
import onnx.shape_inference
import onnx_ir as ir

from ortconv.graph.match import bodies
from ortconv.opset.schemas import register_schemas

__all__ = ["complete"]

_MOST = 1 << 10
"""Constants with more elements are not passed to shape inference: they hold no sizes or axes."""


def complete(nodes: Iterable[ir.Node], opset: int) -> None:
    """Infers dimensions of results that are not known, from the shapes of the inputs.

    Args:
        nodes: In order of computation.
        opset: Version of ai.onnx.
    """
    register_schemas()
    for node in nodes:
        if all(map(_is_known, node.outputs)) or any(True for _ in bodies(node)):
            continue
        for output, found in zip(node.outputs, _inferred(node, opset), strict=True):
            sizes = None if found is None else _sizes(found)
            if found is None or sizes is None or (output.shape is not None and len(sizes) != len(output.shape)):
                continue
            known = sizes if output.shape is None else output.shape
            output.shape = ir.Shape(
                [old if isinstance(old, int) else new for old, new in zip(known, sizes, strict=True)]
            )
            if output.dtype is None:
                output.type = ir.TensorType(ir.DataType(found.tensor_type.elem_type))


def _inferred(node: ir.Node, opset: int) -> list[onnx.TypeProto | None]:
    """Returns the inferred type of each output, None where there is none."""
    unknown: list[onnx.TypeProto | None] = [None] * len(node.outputs)
    if any(value is not None and value.dtype is None for value in node.inputs):
        return unknown
    proto = ir.to_proto(node)
    proto.input[:] = ["" if value is None else f"i{index}" for index, value in enumerate(node.inputs)]
    proto.output[:] = [f"o{index}" for index in range(len(node.outputs))]
    types, data = {}, {}
    for name, value in zip(proto.input, node.inputs, strict=True):
        if value is not None and value.dtype is not None:
            types[name] = _type(value)
            tensor = value.const_value
            if tensor is not None and tensor.size <= _MOST and tensor.dtype in (ir.DataType.INT64, ir.DataType.INT32):
                data[name] = ir.to_proto(tensor)
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
        found = onnx.shape_inference.infer_node_outputs(schema, proto, types, data)
    except (onnx.checker.ValidationError, onnx.defs.SchemaError, onnx.shape_inference.InferenceError, RuntimeError):
        return unknown  # The checker reports the error and names the node.
    return [found.get(name) for name in proto.output]


def _type(value: ir.Value) -> onnx.TypeProto:
    assert value.dtype is not None
    shape = None if value.shape is None else [dim if isinstance(dim, int) else None for dim in value.shape]
    return onnx.helper.make_tensor_type_proto(int(value.dtype), shape)


def _sizes(found: onnx.TypeProto) -> list[int | None] | None:
    if not found.tensor_type.HasField("shape"):
        return None
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in found.tensor_type.shape.dim]


def _is_known(value: ir.Value) -> bool:
    return value.shape is not None and value.shape.is_static()

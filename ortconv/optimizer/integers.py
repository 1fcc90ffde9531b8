"""A transposed convolution between DequantizeLinear and QuantizeLinear -> an operator of ours for 8-bit integers.

ONNX Runtime has no int8 ConvTranspose: it dequantizes, convolves floats and quantizes again.

On x86-64 it has no kernels of int8 data for other layers, either. It makes data uint8 where QuantizeLinear and
DequantizeLinear follow each other, which they do no longer next to an operator of ours: its data become uint8 here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.graph.constant_values import constant as constant_of
from ortconv.graph.edit import remove_unused
from ortconv.graph.match import producer
from ortconv.optimizer.emission import Emitter
from ortconv.optimizer.site import Kept, named
from ortconv.passes.quantization.integer_transposed import emit
from ortconv.passes.quantization.transposed_layers import TransposedLayer, read

__all__ = ["rewrite"]


def rewrite(node: ir.Node, emitter: Emitter) -> tuple[str, list[str]] | None:
    """Replaces a transposed convolution of ours, if its data and weights are dequantized.

    Args:
        node: The node.
        emitter: Changes the model.

    Returns:
        The op type that took its place, and what was fused; None if the data are not dequantized.

    Raises:
        Kept: They are, and it stays.
    """
    layer = read(node)
    if layer is None:
        return None
    if isinstance(layer, str):
        raise Kept(f"{named(node)} is computed in floats: {layer}")
    layer = _unsigned(layer, emitter)
    made: list[ir.Node] = []

    def constant(data: npt.NDArray[Any], role: str) -> ir.Value:
        return emitter.constant(node, role, data)

    def make(
        op_type: str, inputs: list[ir.Value], dtype: ir.DataType, *, domain: str = "", **attributes: Any
    ) -> ir.Value:
        new = ir.node(op_type, inputs, attributes, domain=domain, metadata_props=dict(node.metadata_props))
        made.append(new)
        return emitter.intermediate(node, op_type, new, dtype)

    result = emit(layer, constant, make)
    old = layer.nodes[-1].outputs[0]
    operands = [value for each in layer.nodes for value in each.inputs if value is not None]
    constants = [value for operand in operands for value in _behind(operand)]
    operator = next(each for each in made if each.domain)
    operator.name, node.name = node.name, None
    fused = [named(each) for each in layer.nodes[1:]]
    emitter.replace(layer.nodes, made, old, old.shape, result.dtype, ())
    for value in operands:
        remove_unused(value)
    emitter.remove_unused(constants)
    return operator.op_type, ["DequantizeLinear of its data and weights", *fused]


def _unsigned(layer: TransposedLayer, emitter: Emitter) -> TransposedLayer:
    """Makes uint8 of int8 data, residual and result, between a QuantizeLinear and all that dequantizes."""
    values = [layer.data.value]
    if layer.residual is not None:
        values.append(layer.residual.value)
    if layer.quantizer is not None:
        values.append(layer.quantizer.outputs[0])
    for value in values:
        _make_unsigned(value, layer.node, emitter)
    changed = read(layer.node)
    assert isinstance(changed, TransposedLayer)
    return changed


def _make_unsigned(value: ir.Value, node: ir.Node, emitter: Emitter) -> None:
    quantizer, readers = producer(value, "QuantizeLinear"), [(user, index) for user, index in value.uses()]
    if quantizer is None or value.is_graph_output() or "output_dtype" in quantizer.attributes:
        return
    points = [constant_of((*each.inputs, None, None)[2]) for each in (quantizer, *(user for user, _ in readers))]
    found = [point.numpy() for point in points if point is not None]
    are_all = len(found) == len(points) and all(each.dtype == np.int8 and each.size == 1 for each in found)
    if not are_all or any((user.domain, user.op_type, index) != ("", "DequantizeLinear", 0) for user, index in readers):
        return
    for each, point in zip((quantizer, *(user for user, _ in readers)), found, strict=True):
        before = each.inputs[2]
        each.replace_input_with(
            2, emitter.constant(node, "zero_point", (point.astype(np.int16) + 128).astype(np.uint8))
        )
        emitter.remove_unused([before])
    value.type = ir.TensorType(ir.DataType.UINT8)


_DEQUANTIZING = frozenset({"Cast", "DequantizeLinear", "Mul", "Reshape", "Sub", "Transpose"})
"""Ops between integers and floats."""


def _behind(value: ir.Value) -> Iterator[ir.Value]:
    """Yields the values without a producer that a value is dequantized from."""
    node = value.producer()
    if node is None:
        yield value
    elif not node.domain and node.op_type in _DEQUANTIZING:
        for operand in node.inputs:
            if operand is not None:
                yield from _behind(operand)

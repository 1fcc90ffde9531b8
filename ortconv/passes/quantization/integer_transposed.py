"""Replaces transposed convolutions of dequantized data by our operators for 8-bit integers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.graph.edit import remove_unused
from ortconv.opset.convolution_terms import ACTIVATION
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops.quantized_transposed_convolutions import (
    QLINEAR_TRANSPOSED_CONVOLUTION,
    QLINEAR_TRANSPOSED_CONVOLUTION_ADD,
    TRANSPOSED_CONVOLUTION_INTEGER_TO_FLOAT,
)
from ortconv.passes.context import Context
from ortconv.passes.quantization.transposed_layers import TransposedLayer, quantized_type, read

__all__ = ["MakeConstant", "MakeNode", "emit", "run"]

MakeConstant = Callable[[npt.NDArray[Any], str], ir.Value]
"""Returns an array as a constant, named after its role."""


class MakeNode(Protocol):
    """Returns the output of a new node, of an element type."""

    def __call__(
        self, op_type: str, inputs: list[ir.Value], dtype: ir.DataType, *, domain: str = "", **attributes: Any
    ) -> ir.Value:
        """Makes a node of a domain with these attributes."""


def run(graph: ir.Graph, context: Context) -> int:
    """Replaces such layers, unless the target is "onnx".

    Args:
        graph: The graph; bodies of its nodes are included.
        context: Holds the options; makes nodes and constants, and notes each layer that is changed or stays.

    Returns:
        How many layers were replaced.
    """
    if context.options.target == "onnx":
        return 0
    count = 0
    for node in list(ir.traversal.RecursiveGraphIterator(graph)):
        layer = read(node)
        if isinstance(layer, str):
            context.note(node, f"is computed in floats: {layer}")
        if not isinstance(layer, TransposedLayer):
            continue
        _replace(layer, context)
        count += 1
    return count


def _replace(layer: TransposedLayer, context: Context) -> None:
    node, old = layer.node, layer.nodes[-1].outputs[0]
    # A residual may be computed after the convolution.
    place = node if layer.residual is None else layer.nodes[-1]

    def constant(data: npt.NDArray[Any], role: str) -> ir.Value:
        return context.constants.array(data, f"{node.name}/{role}")

    def make(
        op_type: str, inputs: list[ir.Value], dtype: ir.DataType, *, domain: str = "", **attributes: Any
    ) -> ir.Value:
        made = context.inserter.before(place, op_type, inputs, old, dtype=dtype, domain=domain, **attributes)
        made.shape = None if op_type == "Transpose" or domain else made.shape
        return made

    result = emit(layer, constant, make)
    result.type, result.shape = old.type or result.type, old.shape
    result.metadata_props.update(old.metadata_props)
    ir.convenience.replace_all_uses_with(old, result, replace_graph_outputs=True)
    name, old.name = old.name, None
    operands = [value for each in layer.nodes for value in each.inputs]
    context.note(node, "is computed in integers")
    for each in reversed(layer.nodes):
        assert each.graph is not None
        each.graph.remove(each, safe=True)
    result.name = name
    for value in operands:
        remove_unused(value)


def emit(layer: TransposedLayer, constant: MakeConstant, make: MakeNode) -> ir.Value:
    """Emits the operator of a layer.

    Args:
        layer: The layer.
        constant: Makes constants.
        make: Makes nodes.

    Returns:
        What takes the place of the layer's result.
    """

    def numbers(scale: ir.Value, point: ir.Value | None, dtype: ir.DataType) -> list[ir.Value]:
        return [scale, constant(np.zeros((), dtype.numpy()), "zero") if point is None else point]

    def moved(value: ir.Value, perm: tuple[int, ...], dtype: ir.DataType) -> ir.Value:
        return value if perm == tuple(range(len(perm))) else make("Transpose", [value], dtype, perm=perm)

    for each in (layer.data, layer.residual):
        if each is not None:
            each.value.type = ir.TensorType(each.dtype)  # a model need not state it
    weights = layer.weights
    filters = (
        moved(weights.data, weights.perm, weights.dtype)
        if isinstance(weights.data, ir.Value)
        else constant(weights.data, "weights")
    )
    inputs = [
        moved(layer.data.value, layer.x_perm, layer.data.dtype),
        *numbers(layer.data.scale, layer.data.point, layer.data.dtype),
        filters,
        constant(weights.scale, "scale"),
        constant(np.array(weights.point, weights.dtype.numpy()), "zero_point"),
    ]
    operator, dtype = TRANSPOSED_CONVOLUTION_INTEGER_TO_FLOAT, ir.DataType.FLOAT
    if layer.quantizer is not None:
        kind = quantized_type(layer.quantizer)
        _, scale, zero = (*layer.quantizer.inputs, None)[:3]
        assert kind is not None
        assert scale is not None
        operator, dtype = QLINEAR_TRANSPOSED_CONVOLUTION, kind
        inputs += numbers(scale, zero, kind)
    inputs.append(layer.bias if isinstance(layer.bias, ir.Value) else constant(layer.bias, "bias"))
    if layer.residual is not None:
        operator, residual = QLINEAR_TRANSPOSED_CONVOLUTION_ADD, layer.residual
        back = tuple(int(axis) for axis in np.argsort(layer.y_perm))
        inputs += [moved(residual.value, back, residual.dtype)]
        inputs += numbers(residual.scale, residual.point, residual.dtype)
    attributes = {**layer.window, ACTIVATION: layer.activation}
    result = make(operator.name, inputs, dtype, domain=DOMAIN, **attributes)
    return moved(result, layer.y_perm, dtype)

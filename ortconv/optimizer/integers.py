"""A transposed convolution between DequantizeLinear and QuantizeLinear -> an operator of ours for 8-bit integers.

ONNX Runtime has no int8 ConvTranspose: it dequantizes, convolves floats and quantizes again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy.typing as npt
import onnx_ir as ir

from ortconv.graph.edit import remove_unused
from ortconv.optimizer.emission import Emitter
from ortconv.optimizer.site import Kept, named
from ortconv.passes.quantization.integer_transposed import emit
from ortconv.passes.quantization.transposed_layers import read

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

"""Splits a convolution of a Concat whose operands are quantized with different scales into a sum of convolutions.

A product of integers needs one scale for all input channels. Each part has one, and is computed in integers; the sum is
that of the whole. gaze-estimation-adas-0002 has such a layer, which takes most of its time in floats.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir

from ortconv.graph.edit import remove_unused, replace_node
from ortconv.graph.fake_quantize import Quantizer, quantizers
from ortconv.graph.match import producer
from ortconv.passes.context import Context
from ortconv.passes.quantization.candidates import has_static_images, is_padded
from ortconv.passes.quantization.weights import QuantizedWeights

__all__ = ["run"]

_MOST_PARTS = 4


def run(graph: ir.Graph, context: Context) -> int:
    """Splits such convolutions.

    Args:
        graph: The graph; bodies of its nodes are included.
        context: Makes nodes and constants, and notes each convolution that is split.

    Returns:
        How many were split.
    """
    if context.options.target == "onnx":
        return 0
    of_result = {each.result: each for each in quantizers(graph)}
    count = 0
    for node in list(ir.traversal.RecursiveGraphIterator(graph)):
        if (node.domain, node.op_type) != ("", "Conv") or int(node.attributes.get_int("group", 1)) != 1:
            continue
        join, weights = producer(node.inputs[0], "Concat"), QuantizedWeights.of(node.inputs[1])
        if join is None or weights is None or weights.scales(0) is None:
            continue
        found = [of_result.get(value) for value in join.inputs if value is not None]
        parts = [each for each in found if each is not None]
        is_joined = len(parts) == len(join.inputs) and int(join.attributes.get_int("axis", 0)) == 1
        if is_joined and _differ(parts) and _may_be_integers(node, parts):
            _split(node, parts, weights, context)
            count += 1
    return count


def _differ(parts: list[Quantizer]) -> bool:
    """Tells whether each part has one scale and a known number of channels, and at least two scales differ."""
    if not 1 < len(parts) <= _MOST_PARTS or any(each.scale.ndim or each.clip is not None for each in parts):
        return False
    shapes = [each.result.shape for each in parts]
    if any(shape is None or not isinstance(shape[1], int) for shape in shapes):
        return False
    return len({(float(each.scale), each.point, float(each.offset)) for each in parts}) > 1


def _may_be_integers(node: ir.Node, parts: list[Quantizer]) -> bool:
    """Tells whether `qdq_patterns` computes the parts in integers: a bias is constant, and so is what offsets add."""
    bias = (*node.inputs, None)[2]
    if bias is not None and bias.const_value is None:
        return False
    return not is_padded(node) or all(not each.offset or has_static_images(each.result) for each in parts)


def _split(node: ir.Node, parts: list[Quantizer], weights: QuantizedWeights, context: Context) -> None:
    joined, filters, result = node.inputs[0], node.inputs[1], node.outputs[0]
    constants, inserter = context.constants, context.inserter
    scales = weights.scales(0)
    assert scales is not None
    scale = constants.array(scales, f"{node.name}/scale")
    point = constants.array(np.full(scales.shape, weights.point, weights.data.dtype), f"{node.name}/zero_point")
    begin, total = 0, None
    attributes: dict[str, Any] = dict(node.attributes)
    for index, part in enumerate(parts):
        assert part.result.shape is not None
        channels = part.result.shape[1]
        assert isinstance(channels, int)
        taken = np.ascontiguousarray(weights.data[:, begin : begin + channels])
        begin += channels
        stored = constants.array(taken, f"{node.name}/part_{index}")
        floats = inserter.before(
            node, "DequantizeLinear", [stored, scale, point], stored, dtype=ir.DataType.FLOAT, axis=0
        )
        bias = list(node.inputs[2:]) if index == 0 else []
        made = inserter.before(node, "Conv", [part.result, floats, *bias], result, **attributes)
        total = made if total is None else inserter.before(node, "Add", [total, made], result)
    assert total is not None
    by = total.producer()
    assert by is not None
    context.note(node, "is a sum of convolutions, as the parts of its data are quantized differently")
    replace_node(node, by)
    remove_unused(joined)
    remove_unused(filters)

"""Emits the QDQ patterns that ONNX Runtime fuses into int8 kernels.

FakeQuantize formulas become QuantizeLinear and DequantizeLinear, which compute the same, and the nodes after them that
only move elements get a pair of their own. ONNX Runtime computes the nodes between in int8 and rounds their sums
once, to the next quantized value, as OpenVINO does. With the session config entry ``session.disable_quant_qdq`` it
computes the file in float32 instead.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.graph.edit import remove_unused, replace_node
from ortconv.graph.fake_quantize import Quantizer, quantizers
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops.conv_integer_to_float import CONV_INTEGER_TO_FLOAT
from ortconv.passes.context import Context
from ortconv.passes.quantization.candidates import Grid, Layer, plan_layers
from ortconv.passes.quantization.weights import QuantizedWeights

__all__ = ["run"]


def run(graph: ir.Graph, context: Context) -> int:
    """Emits QDQ patterns, and with them ConvIntegerToFloat unless the target is "onnx", for quantized layers.

    Args:
        graph: The graph; bodies of its nodes are included.
        context: Holds the options; makes nodes and constants, and notes each node that is changed.

    Returns:
        How many layers are computed in int8.
    """
    found = quantizers(graph)
    if not found:
        return 0
    plan = plan_layers(graph, found, floats=context.options.target != "onnx")
    writer = _Writer(context)
    rounded = {layer.quantizer: layer for layer in plan.layers if layer.kind == "quantized"}
    for layer in plan.layers:
        if layer.quantizer is not None:
            writer.drop_bound(layer.node, layer.quantizer)
        if layer.kind in ("quantized", "float"):
            writer.scale_weights(layer, [each for each in plan.grids.sources(layer.data[0]) if each.scale.ndim])
    for quantizer in plan.quantizers:
        writer.round(quantizer, scaled=quantizer in rounded)
    for node in plan.moving:
        grid = plan.grids.of(node.outputs[0])
        assert grid is not None
        writer.requantize(node, grid)
    for layer in plan.layers:
        if layer.kind == "float":
            writer.convolve(layer)
        elif layer.kind == "product":
            writer.multiply(layer)
    writer.remove_unused()
    return len(plan.layers)


class _Writer:
    def __init__(self, context: Context) -> None:
        self._constants, self._inserter, self._note = context.constants, context.inserter, context.note
        self._quantized: dict[ir.Value, tuple[ir.Value, Grid]] = {}
        self._scales: dict[ir.Node, npt.NDArray[np.float32]] = {}

    def drop_bound(self, node: ir.Node, quantizer: Quantizer) -> None:
        """Removes a Relu or Clip between a node and the quantizer that makes it redundant."""
        result, data = node.outputs[0], quantizer.data
        bound = data.producer()
        if data is result or bound is None:
            return
        quantizer.head.replace_input_with(0, result)
        self._note(bound, f"is redundant: {quantizer.result.name!r} saturates there")
        assert bound.graph is not None
        bound.graph.remove(bound, safe=True)

    def scale_weights(self, layer: Layer, channels: list[Quantizer]) -> None:
        """Moves per-channel scales of data and output into the weights of a convolution.

        ONNX Runtime supports per-channel scales of weights only.
        """
        node, weights = layer.node, layer.weights
        before = QuantizedWeights.of(node.inputs[1])
        assert weights is not None
        assert before is not None
        scales = weights.scales(0)
        assert scales is not None
        wide = scales.astype(np.float64)
        for quantizer in channels:
            wide = wide * np.repeat(quantizer.scale.astype(np.float64), wide.size // quantizer.scale.size)
        if layer.quantizer is not None and layer.quantizer.scale.ndim:
            out = layer.quantizer.scale.astype(np.float64)
            wide = wide / out
            bias = (*node.inputs, None)[2]
            if bias is not None:
                assert bias.const_value is not None
                scaled = (bias.const_value.numpy().astype(np.float64).reshape(-1) / out).astype(np.float32)
                node.replace_input_with(2, self._constants.array(scaled, f"{node.name}/bias"))
            # It is no longer the value of the source with that name.
            node.outputs[0].name = self._inserter.unique(f"{node.outputs[0].name}_scaled")
            node.outputs[0].metadata_props.clear()
        scale = wide.astype(np.float32)
        if np.array_equal(scale, np.asarray(before.scales(0))):
            return
        self._scales[node] = scale
        if layer.kind == "quantized":
            filters = node.inputs[1]
            node.replace_input_with(1, self._filters(node, weights, scale))
            remove_unused(filters)

    def _filters(self, node: ir.Node, weights: QuantizedWeights, scale: npt.NDArray[np.float32]) -> ir.Value:
        """Returns the dequantized filters, with these scales."""
        points = np.full(scale.shape, weights.point, weights.data.dtype)
        parameters = [
            self._constants.array(scale, f"{node.name}/scale"),
            self._constants.array(points, f"{node.name}/zero_point"),
        ]
        quantized = weights.value
        return self._inserter.before(
            node, "DequantizeLinear", [quantized, *parameters], quantized, dtype=ir.DataType.FLOAT, axis=0
        )

    def round(self, quantizer: Quantizer, *, scaled: bool) -> None:
        """Replaces a quantizer by QuantizeLinear and DequantizeLinear.

        Args:
            quantizer: The quantizer.
            scaled: The data of a per-channel quantizer are divided by its scales already.
        """
        data, result = quantizer.data, quantizer.result
        several = bool(quantizer.scale.ndim)
        if several:
            self._note(
                quantizer.tail, "quantizes with one scale; its per-channel scales are moved into the weights around it"
            )
        if several and not scaled:
            assert data.shape is not None
            inverse = (1 / quantizer.scale.astype(np.float64)).astype(np.float32)
            column = inverse.reshape(-1, *[1] * (len(data.shape) - 2))
            factor = self._constants.array(column, f"{quantizer.tail.name}/factor")
            data = self._inserter.after(quantizer.tail, "Mul", [data, factor], data)
        grid = Grid(1.0 if several else float(quantizer.scale), quantizer.point)
        rounded = self._rounded(data, grid, quantizer.tail)
        if several:
            ir.convenience.replace_all_uses_with(result, rounded)
            remove_unused(result)
        else:
            self._replace(quantizer.tail, rounded)

    def _rounded(self, data: ir.Value, grid: Grid, place: ir.Node) -> ir.Value:
        """Returns quantized and dequantized data, computed after a node."""
        parameters = [
            self._constants.number(grid.scale, ir.DataType.FLOAT),
            self._constants.number(grid.point, ir.DataType.UINT8),
        ]
        quantized = self._inserter.after(place, "QuantizeLinear", [data, *parameters], data, dtype=ir.DataType.UINT8)
        floats = self._inserter.after(place, "DequantizeLinear", [quantized, *parameters], data)
        self._quantized[floats] = quantized, grid
        return floats

    def requantize(self, node: ir.Node, grid: Grid) -> None:
        """Quantizes the outputs of a node that moves quantized elements, which changes no number."""
        for output in node.outputs:
            users = [(user, index) for user, index in output.uses()]
            if not users:
                continue
            rounded = self._rounded(output, grid, node)
            for user, index in users:
                user.replace_input_with(index, rounded)

    def convolve(self, layer: Layer) -> None:
        """Replaces a convolution by ConvIntegerToFloat."""
        node, weights = layer.node, layer.weights
        assert weights is not None
        quantized, grid = self._of(node.inputs[0])
        scale = self._scales.get(node, weights.scale)
        operands = [
            quantized,
            weights.value,
            self._constants.number(grid.scale, ir.DataType.FLOAT),
            self._constants.array(scale, f"{node.name}/scale"),
            self._constants.number(grid.point, ir.DataType.UINT8),
            self._constants.array(np.full(scale.shape, weights.point, weights.data.dtype), f"{node.name}/zero_point"),
            *node.inputs[2:],
        ]
        window: dict[str, Any] = {each.name: node.attributes[each.name] for each in CONV_INTEGER_TO_FLOAT.attributes}
        result = self._inserter.before(
            node, CONV_INTEGER_TO_FLOAT.name, operands, node.outputs[0], domain=DOMAIN, **window
        )
        self._note(node, "has quantized data and a float output, which nothing rounds")
        self._replace(node, result)

    def multiply(self, layer: Layer) -> None:
        """Replaces a matrix product by MatMulInteger, whose sums are scaled and shifted."""
        node, weights = layer.node, layer.weights
        assert weights is not None
        quantized, grid = self._of(node.inputs[0])
        turned = node.op_type == "Gemm" and bool(node.attributes.get_int("transB", 0))
        matrix = np.ascontiguousarray(weights.data.T if turned else weights.data)
        scale = (grid.scale * weights.scale.astype(np.float64)).astype(np.float32)
        result = node.outputs[0]
        operands = [
            quantized,
            self._constants.array(matrix, f"{node.name}/weights"),
            self._constants.number(grid.point, ir.DataType.UINT8),
            self._constants.number(weights.point, weights.dtype),
        ]
        sums = self._inserter.before(node, "MatMulInteger", operands, result, dtype=ir.DataType.INT32)
        floats = self._inserter.before(node, "Cast", [sums], result, to=int(ir.DataType.FLOAT))
        factor = self._constants.array(scale, f"{node.name}/scale")
        product = self._inserter.before(node, "Mul", [floats, factor], result)
        if node.op_type == "Gemm" and len(node.inputs) > 2 and node.inputs[2] is not None:
            product = self._inserter.before(node, "Add", [product, node.inputs[2]], result)
        self._note(node, "is computed in int8")
        self._replace(node, product)

    def _of(self, data: ir.Value | None) -> tuple[ir.Value, Grid]:
        assert data is not None
        return self._quantized[data]

    def _replace(self, node: ir.Node, value: ir.Value) -> None:
        by, operands = value.producer(), node.inputs
        assert by is not None
        replace_node(node, by)
        for operand in operands:
            remove_unused(operand)

    def remove_unused(self) -> None:
        """Removes each DequantizeLinear that has no consumer."""
        for floats in self._quantized:
            remove_unused(floats)

"""Emits the QDQ patterns that ONNX Runtime fuses into int8 kernels.

FakeQuantize formulas become QuantizeLinear and DequantizeLinear, which compute the same, and the nodes after them that
only move elements get a pair of their own. ONNX Runtime computes the nodes between in int8 and rounds their sums
once, to the next quantized value, as OpenVINO does. With the session config entry ``session.disable_quant_qdq`` it
computes the file in float32 instead.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.graph.edit import remove_unused, replace_node
from ortconv.graph.fake_quantize import Quantizer, quantizers
from ortconv.graph.match import is_quantized
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops.conv_integer_to_float import CONV_INTEGER_TO_FLOAT
from ortconv.opset.ops.matmul_compressed import MATMUL_COMPRESSED
from ortconv.passes.context import Context
from ortconv.passes.quantization.candidates import Grid, Layer, plan_layers
from ortconv.passes.quantization.weights import QuantizedWeights

__all__ = ["run"]

_LEAST_FILTER_AXES = 3
_SEVERAL = 3
_NOTHING = "is computed in floats: nothing in the model has 8-bit weights"


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
    if not _has_8_bit_weights(graph):
        for quantizer in found:
            context.note(quantizer.tail, _NOTHING)
        return 0
    plan = plan_layers(graph, found, floats=context.options.target != "onnx")
    writer = _Writer(context, {*plan.moving, *(layer.node for layer in plan.layers)})
    rounded = {layer.quantizer: layer for layer in plan.layers if layer.kind == "quantized"}
    for layer in plan.layers:
        if layer.quantizer is not None:
            writer.drop_bound(layer.node, layer.quantizer)
        if layer.kind in ("quantized", "float", "dequantized"):
            writer.scale_weights(layer, [each for each in plan.grids.sources(layer.data[0]) if each.scale.ndim])
    for quantizer, pool in plan.pools.items():
        writer.pool_first(quantizer, pool)
    for quantizer in plan.quantizers:
        writer.round(quantizer, scaled=quantizer in rounded, tied=quantizer in plan.tied)
    for quantizer in plan.channels:
        writer.round_channels(quantizer, scaled=quantizer in rounded)
    for node in plan.moving:
        grid = plan.grids.of(node.outputs[0])
        assert grid is not None
        writer.requantize(node, grid)
    for layer in plan.layers:
        if layer.kind == "float":
            writer.convolve(layer)
        elif layer.kind == "dequantized":
            context.note(layer.node, "takes less time in floats than in int8, for so few outputs of each channel")
        elif layer.kind == "product":
            writer.multiply(layer)
    for node in plan.shielded:
        writer.shield(node)
        context.note(node, "is computed in floats of quantized data")
    for quantizer in plan.repeated:
        writer.shield_quantizer(quantizer)
    writer.share_floats()
    writer.remove_unused()
    return sum(layer.kind != "dequantized" for layer in plan.layers)


def _has_8_bit_weights(graph: ir.Graph) -> bool:
    """Tells whether a graph is that of a quantized network.

    In others formulas decide bit by bit as OpenVINO's CPU plugin does what lies in the middle between two levels.
    """
    for node in ir.traversal.RecursiveGraphIterator(graph):
        if node.op_type in ("DequantizeLinear", MATMUL_COMPRESSED.name) and any(map(_is_stored, node.inputs[:2])):
            return True
        # Filters in groups stay as the source dequantizes them.
        if node.op_type == "Cast" and _is_stored(node.inputs[0], _LEAST_FILTER_AXES):
            return True
    return False


def _is_stored(value: ir.Value | None, axes: int = 0) -> bool:
    """Tells whether a value is a constant of 8 bits with so many axes or more."""
    if value is None or value.const_value is None or value.dtype not in (ir.DataType.INT8, ir.DataType.UINT8):
        return False
    return len(value.const_value.shape) >= axes


@dataclasses.dataclass(frozen=True)
class _Dequantized:
    """The operands of a DequantizeLinear of data.

    Attributes:
        quantized: The quantized data.
        scale: The scale: a scalar, or one per channel.
        points: The zero points: of the shape of the scale.
        axis: The axis of the channels.
    """

    quantized: ir.Value
    scale: npt.NDArray[np.float32]
    points: npt.NDArray[np.int64]
    axis: int = 1


class _Writer:
    def __init__(self, context: Context, raw: Container[ir.Node]) -> None:
        """Makes a writer.

        Args:
            context: The context.
            raw: The nodes whose data are (q - point) * scale, without the offset of their quantizer.
        """
        self._constants, self._inserter, self._note = context.constants, context.inserter, context.note
        self._raw = raw
        self._quantized: dict[ir.Value, _Dequantized] = {}
        self._scales: dict[ir.Node, npt.NDArray[np.float32]] = {}
        self._of_tail: dict[ir.Node, ir.Node] = {}
        self._repeats: dict[ir.Node, int] = {}

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

    def pool_first(self, quantizer: Quantizer, pool: ir.Node) -> None:
        """Moves a MaxPool from behind a quantizer to its front.

        The QuantizeLinear gets its scale once per channel: ONNX Runtime moves others before a MaxPool.
        """
        head, result, pooled = quantizer.head, quantizer.result, pool.outputs[0]
        graph = head.graph
        assert graph is not None
        graph.remove(pool)
        graph.insert_before(head, pool)
        pool.replace_input_with(0, quantizer.data)
        ir.convenience.replace_all_uses_with(pooled, result)
        head.replace_input_with(0, pooled)
        name, pooled.name = pooled.name, self._inserter.unique(f"{pool.name}/first")
        result.name, result.shape = name, pooled.shape
        result.metadata_props.clear()
        result.metadata_props.update(pooled.metadata_props)
        pooled.metadata_props.clear()
        # What quantizes is reported as the pool's: its numbers are not those of the FakeQuantize.
        quantizer.tail.metadata_props.clear()
        quantizer.tail.metadata_props.update(pool.metadata_props)
        assert pooled.shape is not None
        count = pooled.shape[1]
        assert isinstance(count, int)
        self._repeats[quantizer.tail] = count
        self._note(pool, "comes before the quantizer in front of it, which gives the same numbers")

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
        wide, bias = scales.astype(np.float64), layer.bias
        for quantizer in channels:
            wide = wide * np.repeat(quantizer.scale.astype(np.float64), wide.size // quantizer.scale.size)
        if layer.quantizer is not None and layer.quantizer.scale.ndim:
            out = layer.quantizer.scale.astype(np.float64)
            wide = wide / out
            bias = None if bias is None else bias / out
        if layer.quantizer is not None and (layer.quantizer.scale.ndim or layer.quantizer.offset):
            # It is no longer the value of the source with that name.
            node.outputs[0].name = self._inserter.unique(f"{node.outputs[0].name}_scaled")
            node.outputs[0].metadata_props.clear()
        self._set_bias(node, bias)
        scale = wide.astype(np.float32)
        if np.array_equal(scale, np.asarray(before.scales(0))):
            return
        self._scales[node] = scale
        if layer.kind != "float":
            filters = node.inputs[1]
            node.replace_input_with(1, self._filters(node, weights, scale))
            remove_unused(filters)

    def _set_bias(self, node: ir.Node, bias: npt.NDArray[np.float64] | None) -> None:
        """Gives a convolution another bias, if it differs."""
        before = (*node.inputs, None)[2]
        if bias is None or (before is not None and np.array_equal(_numbers(before).reshape(-1), np.float32(bias))):
            return
        node.resize_inputs(3)
        node.replace_input_with(2, self._constants.array(bias.astype(np.float32), f"{node.name}/bias"))

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

    def round(self, quantizer: Quantizer, *, scaled: bool, tied: bool) -> None:
        """Replaces a quantizer by QuantizeLinear and DequantizeLinear.

        Args:
            quantizer: The quantizer.
            scaled: The data are those of an int8 layer, without the offset, and divided by scales per channel.
            tied: Numbers in the middle between two levels go to the even one, as FakeQuantize counts them from its
                lowest: the lowest is subtracted. QuantizeLinear counts from its zero point.
        """
        data, result, point = quantizer.data, quantizer.result, quantizer.point
        if quantizer.clip is not None:
            data = quantizer.clip.outputs[0]
        several = bool(quantizer.scale.ndim)
        if several:
            self._note(
                quantizer.tail, "quantizes with one scale; its per-channel scales are moved into the weights around it"
            )
        if several and not scaled:
            inverse = (1 / quantizer.scale.astype(np.float64)).astype(np.float32)
            data = self._with("Mul", data, inverse, 1, quantizer.tail)
        scale = 1.0 if several else float(quantizer.scale)
        if not scaled and (quantizer.offset.any() or (tied and point % 2)):
            least = np.asarray(quantizer.offset.max() - point * scale)
            data = self._with("Sub", data, least, 1, quantizer.tail)
            point = 0
        quantized = self._quantize(data, scale, point, quantizer.tail)
        grid = _Dequantized(quantized, np.array(scale, np.float32), np.array(quantizer.point))
        rounded = self._dequantize(grid, data, quantizer.tail)
        if several:
            ir.convenience.replace_all_uses_with(result, rounded)
            remove_unused(result)
            return
        self._deliver(result, rounded, float(quantizer.offset), quantizer.tail)

    def round_channels(self, quantizer: Quantizer, *, scaled: bool) -> None:
        """Replaces a quantizer by QuantizeLinear and DequantizeLinear, the latter with numbers per channel.

        The data are divided by the scales first, unless they are so already: ONNX Runtime would fuse a convolution and
        a QuantizeLinear with numbers per channel to what has no kernel.
        """
        data, place, axis = quantizer.data, quantizer.tail, quantizer.axis
        if quantizer.clip is not None:
            data = quantizer.clip.outputs[0]
        scale, point = quantizer.scale, quantizer.point
        if not scaled:
            wide = scale.astype(np.float64)
            point, shift = 0, quantizer.points - quantizer.offset / wide
            data = self._with("Mul", data, 1 / wide, axis, place)
            if shift.any():
                data = self._with("Add", data, shift, axis, place)
        quantized = self._quantize(data, 1.0, point, place)
        result = self._dequantize(_Dequantized(quantized, scale, quantizer.points, axis), data, place)
        if quantizer.offset.any():
            result = self._with("Add", result, quantizer.offset, axis, place)
        self._replace(place, result)

    def _deliver(self, result: ir.Value, rounded: ir.Value, offset: float, place: ir.Node) -> None:
        """Gives the consumers of a quantizer what they need: rounded data, with the offset or without."""
        if offset:
            for user, index in list(result.uses()):
                if user in self._raw:
                    user.replace_input_with(index, rounded)
            if result.uses() or result.is_graph_output():
                rounded = self._with("Add", rounded, np.asarray(offset), 1, place)
            else:
                remove_unused(result)
                return
        self._replace(place, rounded)

    def _with(self, op_type: str, data: ir.Value, numbers: npt.NDArray[Any], axis: int, place: ir.Node) -> ir.Value:
        """Returns data with an operand per channel, computed after a node."""
        column = numbers.astype(np.float32)
        if numbers.ndim:
            assert data.shape is not None
            column = column.reshape(-1, *[1] * (len(data.shape) - axis - 1))
        operand = self._constants.array(column, f"{place.name}/{op_type.lower()}")
        return self._inserter.after(place, op_type, [data, operand], data)

    def _rounded(self, data: ir.Value, scale: float, point: int, place: ir.Node) -> ir.Value:
        """Returns quantized and dequantized data, computed after a node."""
        quantized = self._quantize(data, scale, point, place)
        return self._dequantize(_Dequantized(quantized, np.array(scale, np.float32), np.array(point)), data, place)

    def _quantize(self, data: ir.Value, scale: float, point: int, place: ir.Node) -> ir.Value:
        count = self._repeats.pop(place, None)
        parameters = [
            self._constants.number(scale, ir.DataType.FLOAT),
            self._constants.number(point, ir.DataType.UINT8),
        ]
        if count is not None:
            parameters = [
                self._constants.full(count, scale),
                self._constants.array(np.full(count, point, np.uint8), f"{place.name}/zero_points"),
            ]
        quantized = self._inserter.after(place, "QuantizeLinear", [data, *parameters], data, dtype=ir.DataType.UINT8)
        node = quantized.producer()
        assert node is not None
        self._of_tail.setdefault(place, node)
        return quantized

    def _dequantize(self, of: _Dequantized, like: ir.Value, place: ir.Node) -> ir.Value:
        axis: int | None = None
        if of.scale.ndim:
            axis = of.axis
            scale = self._constants.array(of.scale, f"{place.name}/scale")
            point = self._constants.array(of.points.astype(np.uint8), f"{place.name}/zero_point")
        else:
            scale = self._constants.number(float(of.scale), ir.DataType.FLOAT)
            point = self._constants.number(int(of.points), ir.DataType.UINT8)
        floats = self._inserter.after(place, "DequantizeLinear", [of.quantized, scale, point], like, axis=axis)
        self._quantized[floats] = of
        return floats

    def requantize(self, node: ir.Node, grid: Grid) -> None:
        """Quantizes the outputs of a node that moves quantized elements, which changes no number."""
        for output in node.outputs:
            users = [(user, index) for user, index in output.uses()]
            if not users:
                continue
            rounded = self._rounded(output, grid.scale, grid.point, node)
            shifted: ir.Value | None = None
            for user, index in users:
                if grid.offset and user not in self._raw:
                    shifted = shifted or self._with("Add", rounded, np.asarray(grid.offset), 1, node)
                user.replace_input_with(index, shifted or rounded)

    def shield(self, node: ir.Node) -> None:
        """Dequantizes the data of a node by Cast, Sub and Mul, which ONNX Runtime does not fuse."""
        for index, value in enumerate(node.inputs):
            found = None if value is None else self._quantized.get(value)
            if value is None or found is None:
                continue
            node.replace_input_with(index, self._floats_of(found, value, node))

    def _floats_of(self, of: _Dequantized, like: ir.Value, place: ir.Node) -> ir.Value:
        """Returns what a DequantizeLinear gives, computed before a node by Cast, Sub and Mul."""
        floats = self._inserter.before(place, "Cast", [of.quantized], like, to=int(ir.DataType.FLOAT))
        for op_type, numbers in (("Sub", of.points), ("Mul", of.scale)):
            if op_type == "Mul" or numbers.any():
                column = numbers.astype(np.float32)
                if numbers.ndim:
                    assert like.shape is not None
                    column = column.reshape(-1, *[1] * (len(like.shape) - of.axis - 1))
                operand = self._constants.array(column, f"{place.name}/{op_type.lower()}")
                floats = self._inserter.before(place, op_type, [floats, operand], like)
        return floats

    def shield_quantizer(self, quantizer: Quantizer) -> None:
        """Shields a QuantizeLinear: ONNX Runtime merges two quantizers that follow each other."""
        self.shield(self._of_tail[quantizer.tail])

    def share_floats(self) -> None:
        """Dequantizes once what is joined to several others as floats, by Cast, Sub and Mul.

        ONNX Runtime repeats DequantizeLinear for each Concat. In DenseNet each layer's output is joined to those of all
        layers in front of it.
        """
        for floats, of in list(self._quantized.items()):
            readers = [
                (node, index)
                for node, index in floats.uses()
                if node.op_type == "Concat" and node not in self._raw and not is_quantized(node)
            ]
            place = floats.producer()
            if len({node for node, _ in readers}) < _SEVERAL or place is None:
                continue
            shared = self._floats_of(of, floats, place)
            for node, index in readers:
                node.replace_input_with(index, shared)

    def convolve(self, layer: Layer) -> None:
        """Replaces a convolution by ConvIntegerToFloat."""
        node, weights = layer.node, layer.weights
        assert weights is not None
        data = self._of(node.inputs[0])
        scale = self._scales.get(node, weights.scale)
        operands = [
            data.quantized,
            weights.value,
            self._constants.number(float(data.scale), ir.DataType.FLOAT),
            self._constants.array(scale, f"{node.name}/scale"),
            self._constants.number(int(data.points), ir.DataType.UINT8),
            self._constants.array(np.full(scale.shape, weights.point, weights.data.dtype), f"{node.name}/zero_point"),
            *node.inputs[2:],
        ]
        window: dict[str, Any] = {each.name: node.attributes[each.name] for each in CONV_INTEGER_TO_FLOAT.attributes}
        result = self._inserter.before(
            node, CONV_INTEGER_TO_FLOAT.name, operands, node.outputs[0], domain=DOMAIN, **window
        )
        if layer.offset:
            result = self._inserter.before(node, "Add", [result, self._of_offset(layer, window)], node.outputs[0])
        self._note(node, "is computed in int8, to floats")
        self._replace(node, result)

    def multiply(self, layer: Layer) -> None:
        """Replaces a matrix product by MatMulInteger, whose sums are scaled and shifted."""
        node, weights = layer.node, layer.weights
        assert weights is not None
        data = self._of(node.inputs[0])
        turned = node.op_type == "Gemm" and bool(node.attributes.get_int("transB", 0))
        matrix = np.ascontiguousarray(weights.data.T if turned else weights.data)
        scale = (data.scale * weights.scale.astype(np.float64)).astype(np.float32)
        result = node.outputs[0]
        operands = [
            data.quantized,
            self._constants.array(matrix, f"{node.name}/weights"),
            self._constants.number(int(data.points), ir.DataType.UINT8),
            self._constants.number(weights.point, weights.dtype),
        ]
        sums = self._inserter.before(node, "MatMulInteger", operands, result, dtype=ir.DataType.INT32)
        floats = self._inserter.before(node, "Cast", [sums], result, to=int(ir.DataType.FLOAT))
        factor = self._constants.array(scale, f"{node.name}/scale")
        product = self._inserter.before(node, "Mul", [floats, factor], result)
        if layer.bias is not None:
            row = self._constants.array(layer.bias.astype(np.float32), f"{node.name}/offset")
            product = self._inserter.before(node, "Add", [product, row], result)
        if node.op_type == "Gemm" and len(node.inputs) > 2 and node.inputs[2] is not None:
            product = self._inserter.before(node, "Add", [product, node.inputs[2]], result)
        self._note(node, "is computed in int8")
        self._replace(node, product)

    def _of_offset(self, layer: Layer, window: Mapping[str, Any]) -> ir.Value:
        """Returns the convolution of the offset of a layer's data, which the zeros of its padding do not have.

        Its operands are constants.
        """
        node, weights, data = layer.node, layer.weights, layer.data[0]
        assert weights is not None
        assert data.shape is not None
        scales = weights.scales(0)
        assert scales is not None
        taps = (weights.data.astype(np.int64) - weights.point).sum(axis=1, keepdims=True)
        filters = taps * scales.astype(np.float64).reshape(-1, *[1] * (taps.ndim - 1)) * layer.offset
        sizes = np.array([1, 1, *data.shape.numpy()[2:]], np.int64)
        like = node.outputs[0]
        shape = self._constants.array(sizes, f"{node.name}/image")
        ones = self._inserter.before(node, "Expand", [self._constants.number(1.0, ir.DataType.FLOAT), shape], like)
        ones.shape = ir.Shape(sizes.tolist())
        kernel = self._constants.array(filters.astype(np.float32), f"{node.name}/offset")
        image = self._inserter.before(node, "Conv", [ones, kernel], like, **{**window, "group": 1})
        image.shape = None if like.shape is None else ir.Shape([1, *like.shape[1:]])
        return image

    def _of(self, data: ir.Value | None) -> _Dequantized:
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


def _numbers(value: ir.Value) -> npt.NDArray[Any]:
    """Returns the numbers of a constant."""
    assert value.const_value is not None
    return value.const_value.numpy()

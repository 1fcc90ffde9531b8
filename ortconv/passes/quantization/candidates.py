"""Selects the layers of a quantized graph that ONNX Runtime computes in int8, if their data are quantized.

ONNX Runtime fuses nodes between DequantizeLinear and QuantizeLinear into QLinearConv, QLinearMatMul,
MatMulIntegerToFloat and others. It also does so where the fused node fails or gives other numbers: it has no kernel for
data with per-channel scales, and it rounds float weights to 8 bits. Such a node is shielded: other nodes than
DequantizeLinear dequantize its data.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.graph.constant_values import clip_range
from ortconv.graph.fake_quantize import LEVELS, Quantizer
from ortconv.graph.match import BOUNDS, consumers, producer
from ortconv.opset.ops.convolution import CONVOLUTION
from ortconv.passes.quantization.weights import QuantizedWeights

__all__ = ["Grid", "Layer", "Plan", "has_static_images", "is_padded", "plan_layers"]

_MOVING = frozenset(
    {"Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Pad", "Reshape", "Resize"}
    | {"Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
)
"""Ops that move or select elements of their data and change no number."""
_MISLEADING = frozenset({"Conv", "Gemm", "Softmax", CONVOLUTION.name})
"""Ops that ONNX Runtime computes less exactly between DequantizeLinear and QuantizeLinear.

It rounds the weights and biases of convolutions and Gemm, and the exponentials of Softmax. The pass `float_layers`
shields transposed convolutions.
"""
_SLOW = frozenset({"AveragePool"})
"""Ops that take several times as long between DequantizeLinear and QuantizeLinear as in floats.

ONNX Runtime's AveragePool of bytes takes 3.6 times as long as that of floats and both conversions, for 128 channels of
56 x 56 pooled by 2 x 2.
"""
_SCALING = frozenset({"Add", "Mul"})
_PRODUCTS = frozenset({"Gemm", "MatMul"})
_MATRIX = 2
_FEW_OUTPUTS = 56 * 56
"""Below so many elements of an output image, depthwise convolutions to floats take less time in floats than in int8.

`benchmarks.integer_convs` says how much: in the geometric mean over processors with VNNI and without.
"""
_MOST_BIAS = 2.0**30
"""The largest bias, in units of the int32 sum that it is added to."""


class Grid(NamedTuple):
    """The numbers (q - zero point) * scale + offset, for 8-bit q."""

    scale: float
    point: int
    offset: float = 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class Layer:
    """A node of quantized data.

    Attributes:
        node: The node.
        kind: "quantized" is a convolution with quantized output, "float" one with float output, "product" a matrix
            product with float output, "binary" an Add or Mul of two runtime values with quantized output: all computed
            in int8. "dequantized" is a convolution that takes less time in floats.
        data: Its quantized operands.
        weights: The constant weights; None for "binary".
        quantizer: The quantizer of its output, after bounds that it makes redundant; None for a float output.
        bias: What is added to the sums, offsets of data and output included; None for nothing. That of a Gemm is
            added besides.
        offset: The offset of the data of a convolution with padding, which has none: `bias` is without it.
    """

    node: ir.Node
    kind: Literal["quantized", "float", "dequantized", "product", "binary"]
    data: Sequence[ir.Value]
    weights: QuantizedWeights | None = None
    quantizer: Quantizer | None = None
    bias: npt.NDArray[np.float64] | None = None
    offset: float = 0.0


@dataclasses.dataclass(frozen=True)
class Plan:
    """What is computed in int8 in a graph.

    Attributes:
        layers: The layers, in topological order.
        quantizers: The quantizers that become QuantizeLinear and DequantizeLinear, with one grid for all channels.
        channels: Those that become the same with a scale and zero point per channel.
        repeated: Those of both whose data are quantized.
        tied: Those of the first that get numbers of a grid, where many may lie in the middle between two levels.
        pools: A MaxPool behind some of the first, which comes before them: its numbers are the same, and it takes a
            tenth of the time on floats.
        moving: The nodes behind them that only move elements of one grid, in topological order.
        shielded: The nodes that ONNX Runtime must not fuse with the DequantizeLinear before them.
        grids: The scale and zero point of quantized values.
    """

    layers: Sequence[Layer]
    quantizers: Sequence[Quantizer]
    channels: Sequence[Quantizer]
    repeated: Sequence[Quantizer]
    tied: Collection[Quantizer]
    pools: Mapping[Quantizer, ir.Node]
    moving: Sequence[ir.Node]
    shielded: Sequence[ir.Node]
    grids: Grids


class Grids:
    """The values whose elements lie on one grid, and the quantizers that rounded them."""

    def __init__(self, nodes: Iterable[ir.Node], quantizers: Iterable[Quantizer]) -> None:
        self._of: dict[ir.Value, tuple[Grid, frozenset[Quantizer]]] = {}
        tails = {each.tail: each for each in quantizers}
        for node in nodes:
            if node in tails:
                each = tails[node]
                grid = Grid(1.0, each.point)
                if not each.scale.ndim:
                    grid = Grid(float(each.scale), each.point, float(each.offset))
                self._of[each.result] = grid, frozenset({each})
            elif not node.domain and node.op_type in _MOVING and _only_moves(node):
                self._move(node)

    def _move(self, node: ir.Node) -> None:
        moved = [value for value in _moved(node) if value is not None]
        found = [self._of[value] for value in moved if value in self._of]
        if not moved or len(found) < len(moved) or any(grid != found[0][0] for grid, _ in found):
            return
        sources = frozenset().union(*(each for _, each in found))
        if any(each.scale.ndim for each in sources):
            return
        if found[0][0].offset and (node.op_type == "Pad" or any(each.is_graph_output() for each in node.outputs)):
            return
        self._of.update((output, (found[0][0], sources)) for output in node.outputs[: _results(node)])

    def of(self, value: ir.Value | None) -> Grid | None:
        """Returns the grid of a value, or None."""
        return None if value is None or value not in self._of else self._of[value][0]

    def sources(self, value: ir.Value | None) -> frozenset[Quantizer]:
        """Returns the quantizers from which a value comes."""
        return frozenset() if value is None or value not in self._of else self._of[value][1]

    def is_moved(self, node: ir.Node) -> bool:
        """Tells whether a node only moves elements of a value with a known grid."""
        return not node.domain and node.op_type in _MOVING and node.outputs[0] in self._of


def _moved(node: ir.Node) -> Sequence[ir.Value | None]:
    """Returns the inputs whose elements a node moves."""
    return node.inputs if node.op_type == "Concat" else node.inputs[:1]


def _results(node: ir.Node) -> int:
    """Returns how many of a node's outputs hold the moved elements."""
    return len(node.outputs) if node.op_type == "Split" else 1


def _only_moves(node: ir.Node) -> bool:
    if node.op_type == "Resize":
        return node.attributes.get_string("mode", "nearest") == "nearest"
    if node.op_type == "MaxPool":
        return len(node.outputs) == 1
    if node.op_type == "Pad" and node.attributes.get_string("mode", "constant") == "constant" and len(node.inputs) > 2:
        filler = node.inputs[2]
        return filler is None or (filler.const_value is not None and not bool(filler.const_value.numpy().any()))
    return True


def plan_layers(graph: ir.Graph, found: Collection[Quantizer], *, floats: bool) -> Plan:
    """Finds the layers that are computed in int8.

    Args:
        graph: The graph; bodies of its nodes are included.
        found: Its quantizers.
        floats: Whether ConvIntegerToFloat may be emitted, a convolution of quantized data with float output.
    """
    nodes = list(ir.traversal.RecursiveGraphIterator(graph))
    channels = {each for each in found if each.scale.ndim and not each.is_movable}
    left = [each for each in found if each not in channels]
    while True:
        search = _Search(Grids(nodes, left), left, channels, floats)
        layers = [layer for node in nodes if (layer := search.layer(node)) is not None]
        split = search.split(nodes, layers)
        if not split:
            return search.plan(nodes, layers)
        channels |= split
        left = [each for each in left if each not in channels]


class _Search:
    def __init__(
        self, grids: Grids, quantizers: Collection[Quantizer], channels: Collection[Quantizer], floats: bool
    ) -> None:
        self._grids, self._floats = grids, floats
        self._heads = {each.head: each for each in quantizers}
        self._channels = {each.head: each for each in channels}
        self._all = {**self._heads, **self._channels}
        self._by_channel = {each.result for each in channels}

    def layer(self, node: ir.Node) -> Layer | None:
        """Returns the layer of a node, or None."""
        if (node.domain, node.op_type) == ("", "Conv"):
            return self._convolution(node)
        if (node.domain, node.op_type) in (("", "Add"), ("", "Mul")):
            return self._of_two(node)
        return self._product(node)

    def _convolution(self, node: ir.Node) -> Layer | None:
        data, weights, bias = (*node.inputs, None)[:3]
        grid = self._grids.of(data)
        if data is None or grid is None or not _is_constant(bias):
            return None
        of = QuantizedWeights.of(weights)
        if of is None or of.scales(0) is None:
            return None
        several = [each for each in self._grids.sources(data) if each.scale.ndim]
        if several and not _is_depthwise(node, of):
            return None
        quantizer = None if self._floats and _is_in_groups(node, of) else self._rounded(node, self._all)
        border = grid.offset if is_padded(node) else 0.0
        if border:
            quantizer = None
            if not has_static_images(data):
                return None
        added = _added(bias, of, grid.offset - border, quantizer)
        least = min((float(each.scale.min()) for each in several), default=grid.scale)
        if self._is_quantized(node) and not _fits(added, least, of):
            of = of.without_tiny_zeros()
            if not _fits(added, least, of):
                return None
        if quantizer is not None:
            return Layer(node, "quantized", [data], of, quantizer, added)
        if not self._floats:
            return None
        to_floats = not self._is_quantized(node) and not self._is_quantized_behind_swish(node)
        if not grid.offset and to_floats and _is_depthwise(node, of) and _has_few_outputs(node):
            return Layer(node, "dequantized", [data], of, None, added)
        return Layer(node, "float", [data], of, None, added, border)

    def _of_two(self, node: ir.Node) -> Layer | None:
        operands = [value for value in node.inputs if self._is_of_one_grid(value)]
        quantizer = self._rounded(node, self._heads) if len(operands) == len(node.inputs) else None
        if quantizer is None or quantizer.scale.ndim or quantizer.offset:
            return None
        if any(grid is None or grid.offset for grid in map(self._grids.of, operands)):
            return None
        return Layer(node, "binary", [value for value in operands if value is not None], None, quantizer)

    def _product(self, node: ir.Node) -> Layer | None:
        """Returns the layer of a matrix product, or None."""
        data = node.inputs[0] if node.inputs else None
        if data is None or not self._is_of_one_grid(data) or _rank(data) < _MATRIX:
            return None
        columns = 1
        if (node.domain, node.op_type) == ("", "MatMul"):
            weights = QuantizedWeights.of(node.inputs[1])
        elif (node.domain, node.op_type) == ("", "Gemm") and _is_plain(node):
            weights = QuantizedWeights.of(node.inputs[1])
            columns = 0 if int(node.attributes.get_int("transB", 0)) else 1
        else:
            weights = QuantizedWeights.of_product(node)
        if weights is None or weights.data.ndim != _MATRIX or weights.scales(columns) is None:
            return None
        grid = self._grids.of(data)
        assert grid is not None
        return Layer(
            node, "product", [data], weights, None, grid.offset * weights.sums(columns) if grid.offset else None
        )

    def _is_of_one_grid(self, value: ir.Value | None) -> bool:
        return self._grids.of(value) is not None and not any(each.scale.ndim for each in self._grids.sources(value))

    def _rounded(self, node: ir.Node, heads: Mapping[ir.Node, Quantizer]) -> Quantizer | None:
        """Returns the quantizer that is the single consumer of a node, looking through a redundant Relu or Clip."""
        value = node.outputs[0]
        bound = None
        while True:
            users = [user for user, _ in value.uses()]
            if len(users) != 1 or value.is_graph_output():
                return None
            (user,) = users
            quantizer = heads.get(user)
            if quantizer is not None and user.inputs[0] is value:
                fits = quantizer.clip is None and (not quantizer.scale.ndim or quantizer.axis == 1)
                return quantizer if fits and (bound is None or _is_redundant(bound, quantizer)) else None
            if bound is not None or user.domain or user.op_type not in BOUNDS:
                return None
            bound, value = user, user.outputs[0]

    def split(self, nodes: Iterable[ir.Node], layers: Iterable[Layer]) -> set[Quantizer]:
        """Returns the quantizers whose scales per channel cannot move into the weights around them."""
        wrong = {each for each in self._heads.values() if each.scale.ndim and each.result.is_graph_output()}
        data = {layer.node: layer.data[0] for layer in layers if layer.kind in ("quantized", "float", "dequantized")}
        for node in nodes:
            for value in node.inputs:
                if value is not data.get(node, node):
                    wrong |= {each for each in self._grids.sources(value) if each.scale.ndim}
        return wrong

    def _misleads(self, node: ir.Node) -> bool:
        """Tells whether ONNX Runtime gives other results for a node with quantized data, fails, or takes long."""
        if node.domain:
            return node.op_type in _MISLEADING and self._is_quantized(node)
        if node.op_type in _PRODUCTS and producer(node.inputs[1], "DequantizeLinear") is not None:
            return True  # ONNX Runtime assumes that the scales belong to another axis.
        if any(user in self._channels for user in consumers(node, self._all)):
            return True
        if not self._is_quantized(node):
            return False
        if any(value in self._by_channel for value in node.inputs):
            return True
        moves = node.op_type in ("Pad", "Resize") and not _only_moves(node)
        return moves or node.op_type in _MISLEADING or node.op_type in _SLOW

    def _is_quantized(self, node: ir.Node) -> bool:
        return any(user in self._all for user in consumers(node, self._all))

    def _is_quantized_behind_swish(self, node: ir.Node) -> bool:
        """Tells whether HardSwish, a scale and a shift stand between a node and a quantizer.

        The pass `quantized_results` makes one node of them.
        """
        value, has_swish = node.outputs[0], False
        while len(users := [user for user, _ in value.uses()]) == 1 and not value.is_graph_output():
            (user,) = users
            if user in self._all:
                return has_swish
            is_swish = (user.domain, user.op_type) == ("", "HardSwish")
            if user.domain or not (is_swish or (user.op_type in _SCALING and any(map(_is_stored, user.inputs)))):
                return False
            value, has_swish = user.outputs[0], has_swish or is_swish
        return False

    def plan(self, nodes: Sequence[ir.Node], layers: Sequence[Layer]) -> Plan:
        """Returns the plan for these layers."""
        taken = {layer.node for layer in layers}
        shielded = [node for node in nodes if node not in taken and self._misleads(node)]
        values = {value for layer in layers for value in layer.data}
        values |= {each.data for each in self._all.values() if self._grids.of(each.data) is not None}
        repeated = [each for each in self._all.values() if each.data in values or each.data in self._by_channel]
        values |= {
            value
            for node in shielded
            for value in node.inputs
            if value is not None and self._grids.of(value) is not None
        }
        moving = []
        for node in reversed(nodes):
            if self._grids.is_moved(node) and not values.isdisjoint(node.outputs):
                moving.append(node)
                values.update(value for value in _moved(node) if value is not None)
        heads, channels = list(self._heads.values()), list(self._channels.values())
        kept = {*repeated, *(layer.quantizer for layer in layers)}
        pools = {each: pool for each in heads if each not in kept and (pool := _only_pool(each)) is not None}
        moving = [node for node in moving[::-1] if node not in pools.values()]
        tied = {each for each in heads if each in repeated or _is_given(each.data)}
        return Plan(layers, heads, channels, repeated, tied, pools, moving, shielded, self._grids)


def _is_given(value: ir.Value | None) -> bool:
    """Tells whether a value is an input, also converted and moved."""
    node = None if value is None else value.producer()
    while node is not None:
        if node.domain or not (node.op_type == "Cast" or node.op_type in _MOVING):
            return False
        value = node.inputs[0]
        node = None if value is None else value.producer()
    return True


def _only_pool(quantizer: Quantizer) -> ir.Node | None:
    """Returns the MaxPool that is the single consumer of a quantizer with one grid, or None."""
    users = [user for user, _ in quantizer.result.uses()]
    if quantizer.scale.ndim or quantizer.clip is not None or len(users) != 1 or quantizer.result.is_graph_output():
        return None
    (pool,) = users
    fits = (pool.domain, pool.op_type, len(pool.outputs)) == ("", "MaxPool", 1)
    pooled = pool.outputs[0]
    same = pool.graph is quantizer.tail.graph and not pooled.is_graph_output()
    return pool if fits and same and pooled.shape is not None and isinstance(pooled.shape[1], int) else None


def is_padded(node: ir.Node) -> bool:
    """Tells whether positions of a padding are among the taps of a convolution."""
    return any(node.attributes.get_ints("pads", ())) or "auto_pad" in node.attributes


def _rank(value: ir.Value) -> int:
    """Returns how many axes a value has; 0 where that is not known."""
    if value.shape is not None:
        return len(value.shape)
    transpose = producer(value, "Transpose")
    return 0 if transpose is None else len(transpose.attributes.get_ints("perm", ()))


def _has_few_outputs(node: ir.Node) -> bool:
    """Tells whether the images of the output are known to be small."""
    shape = node.outputs[0].shape
    sizes = [] if shape is None else list(shape)[2:]
    known = [size for size in sizes if isinstance(size, int)]
    return bool(known) and len(known) == len(sizes) and math.prod(known) < _FEW_OUTPUTS


def has_static_images(value: ir.Value) -> bool:
    """Tells whether all sizes of a value behind batch and channels are known."""
    return value.shape is not None and all(isinstance(size, int) for size in value.shape[2:])


def _added(
    bias: ir.Value | None, weights: QuantizedWeights, offset: float, quantizer: Quantizer | None
) -> npt.NDArray[np.float64] | None:
    """Returns what is added to the sums of a convolution, one number per filter.

    Args:
        bias: Its bias.
        weights: Its filters.
        offset: The offset of all data.
        quantizer: The quantizer of the output, whose offset is subtracted; None for a float output.
    """
    after = np.zeros(())
    if quantizer is not None:
        after = quantizer.offset - (quantizer.points - quantizer.point) * quantizer.scale.astype(np.float64)
    if bias is None and not offset and not after.any():
        return None
    numbers = np.zeros(weights.data.shape[0])
    if bias is not None:
        assert bias.const_value is not None
        numbers = bias.const_value.numpy().astype(np.float64).reshape(-1)
    if offset:
        numbers = numbers + offset * weights.sums(0)
    return numbers - after


def _is_constant(value: ir.Value | None) -> bool:
    return value is None or _is_stored(value)


def _is_stored(value: ir.Value | None) -> bool:
    return value is not None and value.const_value is not None


def _is_depthwise(node: ir.Node, weights: QuantizedWeights) -> bool:
    filters, channels = weights.data.shape[:2]
    return channels == 1 and int(filters) % int(node.attributes.get_int("group", 1)) == 0


def _is_in_groups(node: ir.Node, weights: QuantizedWeights) -> bool:
    """Tells whether a convolution has groups of several channels: ONNX Runtime's QLinearConv is slow for them."""
    return int(node.attributes.get_int("group", 1)) > 1 and int(weights.data.shape[1]) > 1


def _is_plain(node: ir.Node) -> bool:
    """Tells whether a Gemm is a MatMul, with or without transB, and a bias vector."""
    numbers = node.attributes.get_float("alpha", 1.0), node.attributes.get_float("beta", 1.0)
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    row = bias is None or (bias.const_value is not None and len(bias.const_value.shape) == 1)
    return numbers == (1.0, 1.0) and not node.attributes.get_int("transA", 0) and row


def _is_redundant(bound: ir.Node, quantizer: Quantizer) -> bool:
    """Tells whether a quantizer saturates at least where a Relu or Clip does."""
    limits = clip_range(bound)
    if limits is None:
        return False
    scale = quantizer.scale.astype(np.float64)
    least = quantizer.offset + scale * (0.5 - quantizer.points)
    most = quantizer.offset + scale * (LEVELS - 1.5 - quantizer.points)
    return bool((limits[0] < least).all() and (limits[1] > most).all())


def _fits(bias: npt.NDArray[np.float64] | None, scale: float, weights: QuantizedWeights) -> bool:
    """Tells whether a bias fits into int32 in units of the sum, to which ONNX Runtime rounds it."""
    scales = weights.scales(0)
    if bias is None or scales is None:
        return True
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        units = np.abs(bias) / (scale * scales.astype(np.float64))
    return bias.size == scales.size and bool((units < _MOST_BIAS).all())

"""Which layers of a quantised graph ONNX Runtime multiplies in integers, if their data come as 8-bit codes.

It makes QLinearConv, QLinearMatMul, MatMulIntegerToFloat and the like of nodes between DequantizeLinear and
QuantizeLinear. It does so, too, where that fails or changes numbers that the source does not round: it has no kernel
for data with a scale for each channel, and rounds weights that are floats to 8 bits. Quantizers that lead there stay
formulas.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.graph.fake_quantize import LEVELS, Quantizer
from ortconv.graph.match import BOUNDS, consumers, producer
from ortconv.opset.ops.convolution import CONVOLUTION
from ortconv.opset.ops.transposed_convolution import TRANSPOSED_CONVOLUTION
from ortconv.passes.quantization.weights import ByteWeights

__all__ = ["Grid", "Layer", "Plan", "plan_layers"]

_KEEPING = frozenset(
    {"Concat", "DepthToSpace", "Expand", "Flatten", "Gather", "Identity", "MaxPool", "Pad", "Reshape", "Resize"}
    | {"Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "Transpose", "Unsqueeze"}
)
"""Ops whose results hold what their data hold, and nothing else."""
_MISLEADING = frozenset({"Conv", "ConvTranspose", "Gemm", "Softmax", CONVOLUTION.name, TRANSPOSED_CONVOLUTION.name})
"""Ops that lose digits between DequantizeLinear and QuantizeLinear.

ONNX Runtime rounds weights and biases of convolutions and Gemm, and exponentials of Softmax.
"""
_PRODUCTS = frozenset({"Gemm", "MatMul"})
_MATRIX = 2
_MOST_BIAS = 2.0**30
"""How large a bias may be in units of the sum, which has 32 bits."""


class Grid(NamedTuple):
    """The floats (code - point) * scale, for codes of 8 bits."""

    scale: float
    point: int


@dataclasses.dataclass(frozen=True, eq=False)
class Layer:
    """A node that multiplies in integers.

    Attributes:
        node: The node.
        kind: A convolution that gives "codes" or "floats", a "product" of matrices that gives floats, or a sum or
            product of "two" values of the run that gives codes.
        data: Its operands that are codes.
        weights: What the data are multiplied by; None of two values of the run.
        quantizer: What rounds its result, behind bounds that this makes redundant; None where it is used as it is.
    """

    node: ir.Node
    kind: Literal["codes", "floats", "product", "two"]
    data: Sequence[ir.Value]
    weights: ByteWeights | None = None
    quantizer: Quantizer | None = None


@dataclasses.dataclass(frozen=True)
class Plan:
    """What becomes integers in a graph.

    Attributes:
        layers: The layers, in topological order.
        quantizers: The quantizers around them.
        keeping: The nodes between that change no number, in topological order.
        grids: What values hold.
    """

    layers: Sequence[Layer]
    quantizers: Sequence[Quantizer]
    keeping: Sequence[ir.Node]
    grids: Grids


class Grids:
    """Which values hold floats of one grid and nothing else, and what rounded them."""

    def __init__(self, nodes: Iterable[ir.Node], quantizers: Iterable[Quantizer]) -> None:
        self._of: dict[ir.Value, tuple[Grid, frozenset[Quantizer]]] = {}
        tails = {each.tail: each for each in quantizers}
        for node in nodes:
            if node in tails:
                each = tails[node]
                scale = 1.0 if each.scale.ndim else float(each.scale)
                self._of[each.result] = Grid(scale, each.point), frozenset({each})
            elif not node.domain and node.op_type in _KEEPING and _keeps(node):
                self._keep(node)

    def _keep(self, node: ir.Node) -> None:
        kept = [value for value in _kept(node) if value is not None]
        found = [self._of[value] for value in kept if value in self._of]
        if not kept or len(found) < len(kept) or any(grid != found[0][0] for grid, _ in found):
            return
        sources = frozenset().union(*(each for _, each in found))
        if any(each.scale.ndim for each in sources):
            return
        self._of.update((output, (found[0][0], sources)) for output in node.outputs[: _results(node)])

    def of(self, value: ir.Value | None) -> Grid | None:
        """Returns what a value holds, None where nothing is known."""
        return None if value is None or value not in self._of else self._of[value][0]

    def sources(self, value: ir.Value | None) -> frozenset[Quantizer]:
        """Returns the quantizers whose levels a value holds."""
        return frozenset() if value is None or value not in self._of else self._of[value][1]

    def is_kept(self, node: ir.Node) -> bool:
        """Tells whether a node keeps what its data hold, and that is known."""
        return not node.domain and node.op_type in _KEEPING and node.outputs[0] in self._of


def _kept(node: ir.Node) -> Sequence[ir.Value | None]:
    """Returns the inputs whose numbers a node keeps."""
    return node.inputs if node.op_type == "Concat" else node.inputs[:1]


def _results(node: ir.Node) -> int:
    """Returns how many of a node's outputs hold those numbers."""
    return len(node.outputs) if node.op_type == "Split" else 1


def _keeps(node: ir.Node) -> bool:
    if node.op_type == "Resize":
        return node.attributes.get_string("mode", "nearest") == "nearest"
    if node.op_type == "MaxPool":
        return len(node.outputs) == 1
    if node.op_type == "Pad" and node.attributes.get_string("mode", "constant") == "constant" and len(node.inputs) > 2:
        filler = node.inputs[2]
        return filler is None or (filler.const_value is not None and not bool(filler.const_value.numpy().any()))
    return True


def plan_layers(graph: ir.Graph, found: Collection[Quantizer], *, floats: bool) -> Plan:
    """Finds the layers that multiply in integers.

    Args:
        graph: The graph; bodies of its nodes are included.
        found: Its quantizers.
        floats: Whether there is a convolution of codes that gives floats.
    """
    nodes = list(ir.traversal.RecursiveGraphIterator(graph))
    left = list(found)
    while True:
        search = _Search(Grids(nodes, left), left, floats)
        layers = [layer for node in nodes if (layer := search.layer(node)) is not None]
        wrong = search.misled(nodes, layers)
        if not wrong:
            return search.plan(nodes, layers)
        left = [each for each in left if each not in wrong]


class _Search:
    def __init__(self, grids: Grids, quantizers: Collection[Quantizer], floats: bool) -> None:
        self._grids, self._floats = grids, floats
        self._heads = {each.head: each for each in quantizers}

    def layer(self, node: ir.Node) -> Layer | None:
        """Returns a node as a layer, None where it is none."""
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
        of = ByteWeights.of(weights)
        if of is None or of.scales(0) is None:
            return None
        several = [each for each in self._grids.sources(data) if each.scale.ndim]
        if several and not _is_depthwise(node, of):
            return None
        least = min((float(each.scale.min()) for each in several), default=grid.scale)
        if self._leads_to_codes(node) and not _fits(bias, least, of):
            of = of.without_tiny_zeros()
            if not _fits(bias, least, of):
                return None
        quantizer = self._rounded(node)
        if quantizer is not None and not (self._floats and _is_in_groups(node, of)):
            return Layer(node, "codes", [data], of, quantizer)
        return Layer(node, "floats", [data], of) if self._floats else None

    def _of_two(self, node: ir.Node) -> Layer | None:
        operands = [value for value in node.inputs if self._is_of_one_grid(value)]
        quantizer = self._rounded(node) if len(operands) == len(node.inputs) else None
        if quantizer is None or quantizer.scale.ndim:
            return None
        return Layer(node, "two", [value for value in operands if value is not None], None, quantizer)

    def _product(self, node: ir.Node) -> Layer | None:
        """Returns a product of matrices."""
        data = node.inputs[0] if node.inputs else None
        if data is None or not self._is_of_one_grid(data) or data.shape is None or len(data.shape) < _MATRIX:
            return None
        columns = 1
        if (node.domain, node.op_type) == ("", "MatMul"):
            weights = ByteWeights.of(node.inputs[1])
        elif (node.domain, node.op_type) == ("", "Gemm") and _is_plain(node):
            weights = ByteWeights.of(node.inputs[1])
            columns = 0 if int(node.attributes.get_int("transB", 0)) else 1
        else:
            weights = ByteWeights.of_product(node)
        if weights is None or weights.data.ndim != _MATRIX or weights.scales(columns) is None:
            return None
        return Layer(node, "product", [data], weights)

    def _is_of_one_grid(self, value: ir.Value | None) -> bool:
        return self._grids.of(value) is not None and not any(each.scale.ndim for each in self._grids.sources(value))

    def _rounded(self, node: ir.Node) -> Quantizer | None:
        """Returns what alone takes a node's result, perhaps behind a bound that does not matter."""
        value = node.outputs[0]
        bound = None
        while True:
            users = [user for user, _ in value.uses()]
            if len(users) != 1 or value.is_graph_output():
                return None
            (user,) = users
            quantizer = self._heads.get(user)
            if quantizer is not None and user.inputs[0] is value:
                return quantizer if bound is None or _is_redundant(bound, quantizer) else None
            if bound is not None or user.domain or user.op_type not in BOUNDS:
                return None
            bound, value = user, user.outputs[0]

    def misled(self, nodes: Iterable[ir.Node], layers: Iterable[Layer]) -> set[Quantizer]:
        """Returns quantizers from which ONNX Runtime would take what is no layer to be one."""
        taken = {layer.node: layer for layer in layers}
        # ONNX Runtime makes one of two that follow each other.
        wrong = {each for each in self._heads.values() if self._grids.of(each.data) is not None}
        for node in nodes:
            layer = taken.get(node)
            for value in node.inputs:
                if layer is None or layer.kind not in ("codes", "floats") or value is not layer.data[0]:
                    wrong |= {each for each in self._grids.sources(value) if each.scale.ndim}
            if layer is None and not node.domain and self._misleads(node):
                wrong |= self._grids.sources(node.inputs[0])
        return wrong | {each for each in self._heads.values() if each.scale.ndim and each.result.is_graph_output()}

    def _misleads(self, node: ir.Node) -> bool:
        """Tells whether ONNX Runtime would compute a node otherwise if it took codes."""
        if node.op_type in _PRODUCTS and producer(node.inputs[1], "DequantizeLinear") is not None:
            return True  # scales that belong to other axes than it thinks
        return node.op_type in _MISLEADING and self._leads_to_codes(node)

    def _leads_to_codes(self, node: ir.Node) -> bool:
        return any(user in self._heads for user in consumers(node, self._heads))

    def plan(self, nodes: Sequence[ir.Node], layers: Sequence[Layer]) -> Plan:
        """Returns what the layers need."""
        needed = {layer.quantizer for layer in layers if layer.quantizer is not None}
        values = {value for layer in layers for value in layer.data}
        needed = needed.union(*(self._grids.sources(value) for value in values))
        keeping = []
        for node in reversed(nodes):
            if self._grids.is_kept(node) and not values.isdisjoint(node.outputs):
                keeping.append(node)
                values.update(value for value in _kept(node) if value is not None)
        chosen = [each for each in self._heads.values() if each in needed]
        return Plan(layers, chosen, keeping[::-1], self._grids)


def _is_constant(value: ir.Value | None) -> bool:
    return value is None or value.const_value is not None


def _is_depthwise(node: ir.Node, weights: ByteWeights) -> bool:
    filters, channels = weights.data.shape[:2]
    return channels == 1 and int(filters) % int(node.attributes.get_int("group", 1)) == 0


def _is_in_groups(node: ir.Node, weights: ByteWeights) -> bool:
    """Tells whether a convolution has groups of several channels, for which ONNX Runtime's QLinearConv is slow."""
    return int(node.attributes.get_int("group", 1)) > 1 and int(weights.data.shape[1]) > 1


def _is_plain(node: ir.Node) -> bool:
    """Tells whether a Gemm is a MatMul, of a second matrix that may be transposed, and a bias of one row."""
    numbers = node.attributes.get_float("alpha", 1.0), node.attributes.get_float("beta", 1.0)
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    row = bias is None or (bias.const_value is not None and len(bias.const_value.shape) == 1)
    return numbers == (1.0, 1.0) and not node.attributes.get_int("transA", 0) and row


def _is_redundant(bound: ir.Node, quantizer: Quantizer) -> bool:
    """Tells whether a Relu or Clip takes away nothing that the rounding leaves."""
    half = float(quantizer.scale.min()) / 2
    limits: list[float] = [0.0, np.inf]
    if bound.op_type == "Clip":
        limits = [-np.inf, np.inf]
        for index, value in enumerate(bound.inputs[1:3]):
            if value is not None:
                if value.const_value is None:
                    return False
                limits[index] = float(value.const_value.numpy())
    least, most = _range(quantizer)
    return limits[0] < least + half and limits[1] > most - half


def _range(quantizer: Quantizer) -> tuple[float, float]:
    """Returns the lowest and the highest level, of all channels."""
    scale = float(quantizer.scale.max())
    return scale * -quantizer.point, scale * (LEVELS - 1 - quantizer.point)


def _fits(bias: ir.Value | None, scale: float, weights: ByteWeights) -> bool:
    """Tells whether a bias may be added to the sum, in whose units ONNX Runtime rounds it to 32 bits."""
    scales = weights.scales(0)
    if bias is None or scales is None:
        return True
    assert bias.const_value is not None
    numbers: npt.NDArray[np.float64] = bias.const_value.numpy().astype(np.float64).reshape(-1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        units = np.abs(numbers) / (scale * scales.astype(np.float64))
    return numbers.size == scales.size and bool((units < _MOST_BIAS).all())

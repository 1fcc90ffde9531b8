"""What is certain about a value before the model runs: its data, its sizes, and its consumers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.graph.constant_folding import evaluate
from ortconv.graph.constant_values import constant

__all__ = ["EXACT", "Array", "Dims", "Sizes", "computed", "element_type", "is_zero", "perm_of", "permuted"]

Array = npt.NDArray[Any]
Dims = tuple[int | None, ...]

_ACTIVATIONS = {"Clip", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Relu", "Selu", "Sigmoid", "Softplus"}
_SAME_SIZES = _ACTIVATIONS | {
    "BatchNormalization",
    "Cast",
    "DequantizeLinear",
    "Identity",
    "InstanceNormalization",
    "Tanh",
}
"""Ops whose first output has the sizes of their first input."""

_ARITHMETIC = (
    "Abs Add Cos Div Exp Log MatMul Max Min Mul Neg Pow Reciprocal ReduceMax ReduceMean ReduceSum Sin Sqrt Sub"
)
_MOVES = "Concat Expand Flatten Gather Pad Reshape Slice Split Squeeze Tile Transpose Unsqueeze"
_LAYERS = "Conv ConvTranspose DFT STFT"
_SAME_TYPE = _SAME_SIZES - {"Cast", "DequantizeLinear"} | set(f"{_ARITHMETIC} {_MOVES} {_LAYERS}".split())
"""Ops whose outputs have the element type of their first input."""

EXACT = frozenset(("Add", "Concat", "Div", "Expand", "Mul", "Neg", "Reshape", "Slice", "Sqrt", "Squeeze", "Sub")) | {
    "Transpose",
    "Unsqueeze",
}
"""Ops of one output that give the same numbers on every machine."""

_MOST_BYTES = 1 << 28
"""Larger tensors are not computed."""

_MOST_NODES = 16
"""Nodes that a constant may be computed by, one behind the other."""


def computed(value: ir.Value | None, depth: int = _MOST_NODES) -> ir.TensorProtocol | None:
    """Returns the data of a value that is constant or that nodes compute from constants, exactly; None otherwise.

    Exporters leave it to ONNX Runtime to concatenate large filters, or to multiply them by a window.
    """
    data = constant(value)
    node = None if value is None or data is not None or value.is_graph_input() else value.producer()
    if node is None or node.domain or node.op_type not in EXACT or not depth:
        return data
    if any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    tensors = []
    for each in node.inputs:
        tensor = None if each is None else computed(each, depth - 1)
        if tensor is None and each is not None:
            return None
        tensors.append(tensor)
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    arrays = [None if tensor is None else tensor.numpy() for tensor in tensors]
    results = evaluate(node.op_type, arrays, attributes, 1, _MOST_BYTES)
    return None if results is None else ir.tensor(np.ascontiguousarray(results[0]))


def element_type(value: ir.Value | None) -> ir.DataType | None:
    """Returns the element type of a value, from where it comes if it is not stated; None when unknown."""
    while value is not None:
        data = constant(value)
        if data is not None or value.dtype is not None:
            return data.dtype if data is not None else value.dtype
        node = value.producer()
        if node is None or node.domain or not node.inputs:
            return None
        if value is not node.outputs[0] and node.op_type != "Split":
            return None
        if node.op_type == "Cast":
            return ir.DataType(node.attributes["to"].as_int())
        is_scaled = node.op_type == "DequantizeLinear" and "output_dtype" not in node.attributes
        if not is_scaled and node.op_type not in _SAME_TYPE:
            return None
        value = node.inputs[1 if is_scaled else 0]
    return None


def perm_of(transpose: ir.Node, rank: int) -> tuple[int, ...] | None:
    """Returns the permutation of a Transpose, or None where it is none of so many axes."""
    if "perm" not in transpose.attributes:
        return tuple(reversed(range(rank)))
    perm = tuple(transpose.attributes["perm"].as_ints())
    return perm if sorted(perm) == list(range(rank)) else None


def is_zero(bias: ir.Value | Array | None) -> bool:
    """Whether a bias certainly adds nothing."""
    if isinstance(bias, ir.Value):
        data = constant(bias)
        return data is not None and not np.any(data.numpy())
    return bias is None or not np.any(bias)


def permuted(dims: Dims, perm: Sequence[int]) -> Dims:
    """Returns the dims after a transposition."""
    return tuple(dims[axis] for axis in perm)


class Sizes:
    """Sizes that can be relied on.

    ONNX's shape inference cannot: for some ConvTranspose nodes it says other sizes than ONNX Runtime computes. So
    sizes come from constants, from inputs of the model, which ONNX Runtime compares with what is fed, and from our own
    arithmetic, and pass through ops that keep or permute them.
    """

    def __init__(self, root: ir.Graph) -> None:
        self._root = root
        self._known: dict[ir.Value, Dims] = {}

    def record(self, value: ir.Value, dims: Dims) -> None:
        """States the sizes of a value."""
        self._known[value] = dims

    def of(self, value: ir.Value) -> Dims | None:
        """Returns the sizes, None where unknown, or None when not even the rank is certain."""
        if value in self._known:
            return self._known[value]
        data = constant(value)
        if data is not None:
            return tuple(data.shape.numpy())
        if value.is_graph_input() and value.graph is self._root and value.shape is not None:
            return tuple(dim if isinstance(dim, int) else None for dim in value.shape)
        node = value.producer()
        if node is None or node.domain or not node.inputs or node.inputs[0] is None or value is not node.outputs[0]:
            return None
        if node.op_type == "Transpose":
            found = self.of(node.inputs[0])
            perm = None if found is None else perm_of(node, len(found))
            return None if found is None or perm is None else permuted(found, perm)
        if node.op_type in _SAME_SIZES:
            return self.of(node.inputs[0])
        data = computed(value)
        return None if data is None else tuple(data.shape.numpy())

"""Biases: what a source adds to a convolution or to a product of matrices goes into the node, as exporters write it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.graph.budget import Budget
from ortconv.graph.constant_folding import STORED

__all__ = ["Reshaped", "forget", "forget_unused", "fuse_biases", "take_place"]

_CONVOLUTIONS = frozenset({"Conv", "ConvTranspose"})
_GEMM_TYPES = frozenset({ir.DataType.FLOAT, ir.DataType.DOUBLE})


class Reshaped:
    """The constants of a graph in other shapes, and new ones, each made once."""

    def __init__(self, graph: ir.Graph, unique: Callable[[str], str], budget: Budget) -> None:
        """Takes the graph, what names a constant that is kept beside the one it is made of, and what may be built."""
        self._graph, self._unique, self._budget = graph, unique, budget
        self._made: dict[tuple[ir.Value, tuple[int, ...]], ir.Value] = {}
        self._full: dict[tuple[int, float], ir.Value] = {}
        self._numbers: dict[tuple[float, ir.DataType], ir.Value] = {}

    def get(self, constant: ir.Value, shape: Sequence[int]) -> ir.Value:
        """Returns a constant in another shape: under its own name where nothing else uses it."""
        assert constant.const_value is not None
        if tuple(constant.const_value.shape.numpy()) == tuple(shape):
            return constant
        key = constant, tuple(shape)
        if key not in self._made:
            self._made[key] = self._make(constant, constant.const_value, shape)
        return self._made[key]

    def has_room(self, count: int) -> bool:
        """Tells whether `full` may make a vector of so many entries."""
        return self._budget.fits(count, np.dtype(np.float32).itemsize)

    def full(self, count: int, number: float) -> ir.Value:
        """Returns a vector of that many times the same number, in float32, for which there is room."""
        key = count, number
        if key not in self._full:
            self._budget.spend(count * np.dtype(np.float32).itemsize)
            made = ir.Tensor(np.full(count, number, np.float32), name=self._unique(f"{count}_times_{number:g}"))
            self._full[key] = self._add(made)
        return self._full[key]

    def number(self, number: float, dtype: ir.DataType) -> ir.Value:
        """Returns a number of a type, as a scalar."""
        key = number, dtype
        if key not in self._numbers:
            made = ir.Tensor(np.array(number, dtype.numpy()), dtype=dtype, name=self._unique(f"number_{number:g}"))
            self._numbers[key] = self._add(made)
        return self._numbers[key]

    def array(self, array: npt.NDArray[Any], name: str) -> ir.Value:
        """Returns an array as a constant.

        Args:
            array: The array.
            name: Its name, if nothing has it yet.
        """
        return self._add(ir.Tensor(array, name=self._unique(name)))

    def _make(self, constant: ir.Value, tensor: ir.TensorProtocol, shape: Sequence[int]) -> ir.Value:
        name = str(constant.name)
        if len(constant.uses()) > 1:
            name = self._unique(name)
        else:
            self._graph.initializers.pop(name)
            constant.name = None
        made = ir.Tensor(np.reshape(tensor.numpy(), shape), dtype=tensor.dtype, name=name)
        if STORED in tensor.meta:
            made.meta[STORED] = tensor.meta[STORED]
        return self._add(made)

    def _add(self, made: ir.TensorProtocol) -> ir.Value:
        value = ir.Value(
            name=made.name, type=ir.TensorType(made.dtype), shape=ir.Shape(made.shape.numpy()), const_value=made
        )
        self._graph.initializers.add(value)
        return value


def fuse_biases(graph: ir.Graph, constants: Reshaped, note: Callable[[ir.Node, str], None]) -> None:
    """Makes the bias of a Conv, ConvTranspose, Gemm or MatMul of what is added to it and to it alone.

    ONNX Runtime does the same when it loads a model, so that the numbers do not change.

    Args:
        graph: The graph; bodies of its nodes are included.
        constants: Its constants in other shapes.
        note: Told of each Add that goes, and why.
    """
    for node in list(ir.traversal.RecursiveGraphIterator(graph)):
        if (node.domain, node.op_type) != ("", "Add") or len(node.inputs) != 2:
            continue
        for data, bias in (node.inputs, reversed(node.inputs)):
            fused = None if data is None or bias is None else _fuse(constants, data, bias)
            if fused is not None:
                note(node, f"is the bias of {fused.op_type} {fused.name!r}")
                take_place(node, fused)
                break


def _fuse(constants: Reshaped, data: ir.Value, bias: ir.Value) -> ir.Node | None:
    """Returns the node that computes `data`, with the bias in it, or None where that cannot be."""
    node, tensor = data.producer(), bias.const_value
    if node is None or node.domain or tensor is None or len(node.inputs) != 2 or node.inputs[1] is None:
        return None
    if len(data.uses()) != 1 or data.is_graph_output() or data.dtype != tensor.dtype or data.shape is None:
        return None
    rank = len(data.shape)
    if node.op_type in _CONVOLUTIONS:
        channels, axis = data.shape[1], 1
    elif node.op_type == "Gemm" or (node.op_type == "MatMul" and _is_gemm(node)):
        channels, axis = data.shape[rank - 1], rank - 1
    else:
        return None
    shape = tensor.shape.numpy()
    aligned = (1,) * (rank - len(shape)) + tuple(shape)
    if len(shape) > rank or not isinstance(channels, int) or math.prod(shape) != channels or aligned[axis] != channels:
        return None
    if node.op_type == "MatMul":
        node.op_type = "Gemm"
    node.resize_inputs(3)
    node.replace_input_with(2, constants.get(bias, [channels]))
    return node


def _is_gemm(node: ir.Node) -> bool:
    """Whether Gemm computes a MatMul: it takes matrices of floats, and ONNX Runtime needs something to sum over."""
    shapes = [None if value is None else value.shape for value in node.inputs]
    if any(shape is None or len(shape) != 2 for shape in shapes):
        return False
    first, left, right = node.inputs[0], shapes[0], shapes[1]
    assert first is not None
    assert left is not None
    assert right is not None
    sizes = [size for size in (left[1], right[0]) if isinstance(size, int)]
    return first.dtype in _GEMM_TYPES and bool(sizes) and sizes[0] > 0


def take_place(node: ir.Node, by: ir.Node) -> None:
    """Removes a node and puts the output of another in the place of its own, name and all."""
    old, new = node.outputs[0], by.outputs[0]
    graph = node.graph
    assert graph is not None
    new.type, new.shape = old.type or new.type, old.shape or new.shape
    new.metadata_props.update(old.metadata_props)
    ir.convenience.replace_all_uses_with(old, new, replace_graph_outputs=True)
    name, old.name = old.name, None
    graph.remove(node, safe=True)
    new.name = name


def forget(value: ir.Value | None) -> None:
    """Removes the node that makes a value, if nothing uses what it makes, and those of which that is true then."""
    values = [value]
    while values:
        value = values.pop()
        node = None if value is None else value.producer()
        if node is None or node.graph is None or any(each.uses() or each.is_graph_output() for each in node.outputs):
            continue
        values += node.inputs
        node.graph.remove(node, safe=True)


def forget_unused(graph: ir.Graph) -> None:
    """Removes the initializers that nothing uses and that are no output."""
    for name, value in list(graph.initializers.items()):
        if not value.uses() and not value.is_graph_output():
            graph.initializers.pop(name)

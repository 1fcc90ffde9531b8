"""Ops on the channels of images become the nodes that exporters write, for which ONNX Runtime has faster kernels."""

from __future__ import annotations

import math
from collections.abc import Callable

import onnx_ir as ir

from ortconv.fusion import Reshaped, take_place

__all__ = ["fuse_channels"]

_RANKS = (3, 4, 5)
_RANK_OF_LAYOUT = 4
"""Of the data that ONNX Runtime has in a layout of its own."""
_MOST_PIXELS = 1 << 14
"""ONNX Runtime adds the pixels of a GlobalAveragePool one by one, which loses digits of many."""


def fuse_channels(graph: ir.Graph, constants: Reshaped, note: Callable[[ir.Node, str], None]) -> None:
    """Makes BatchNormalization of a Mul and an Add of a constant per channel, GlobalAveragePool of a mean of pixels.

    Their results are the same but for the last digit. ONNX Runtime's CPU provider has convolutions in a layout of its
    own and reorders what it takes to other nodes, and one BatchNormalization is one pass over its data, not two.

    Args:
        graph: The graph; bodies of its nodes are included.
        constants: Its constants in other shapes.
        note: Told of each Add that goes, and why.
    """
    for node in list(ir.traversal.RecursiveGraphIterator(graph)):
        if _is_mean_of_pixels(node):
            axes = node.inputs[1]
            node.op_type = "GlobalAveragePool"
            node.resize_inputs(1)
            node.attributes.clear()
            if axes is not None and not axes.uses():
                graph.initializers.pop(str(axes.name), None)
        elif (node.domain, node.op_type) == ("", "Mul"):
            _normalize(node, constants, note)


def _is_mean_of_pixels(node: ir.Node) -> bool:
    if (node.domain, node.op_type) != ("", "ReduceMean") or not node.attributes.get_int("keepdims", 1):
        return False
    data, axes = (*node.inputs, None)[:2]
    if data is None or axes is None or axes.const_value is None or not _is_image(data):
        return False
    assert data.shape is not None
    rank = len(data.shape)
    if rank != _RANK_OF_LAYOUT:
        return False
    along = sorted(int(axis) % rank for axis in axes.const_value.numpy().reshape(-1))
    pixels = math.prod(size if isinstance(size, int) else 0 for size in data.shape[2:])
    return along == list(range(2, rank)) and 0 < pixels <= _MOST_PIXELS


def _normalize(product: ir.Node, constants: Reshaped, note: Callable[[ir.Node, str], None]) -> None:
    """Makes BatchNormalization of a Mul, if an Add alone takes what it makes, and takes that away."""
    (value,) = product.outputs
    ((total, _),) = value.uses() if len(value.uses()) == 1 else ((None, 0),)
    if total is None or (total.domain, total.op_type) != ("", "Add") or value.is_graph_output():
        return
    for data, scale in (product.inputs, reversed(product.inputs)):
        for shift in total.inputs:
            if data is None or scale is None or shift is None or not _is_image(data):
                continue
            assert data.shape is not None
            channels = data.shape[1]
            if not (_is_of_channels(scale, data.shape) and _is_of_channels(shift, data.shape)):
                continue
            assert isinstance(channels, int)
            parameters = [constants.get(scale, [channels]), constants.get(shift, [channels])]
            mean, variance = constants.full(channels, 0), constants.full(channels, 1)
            product.op_type = "BatchNormalization"
            product.resize_inputs(5)
            for index, each in enumerate([data, *parameters, mean, variance]):
                product.replace_input_with(index, each)
            product.attributes.add(ir.AttrFloat32("epsilon", 0.0))
            note(total, f"is the shift of BatchNormalization {product.name!r}")
            take_place(total, product)
            return


def _is_image(data: ir.Value) -> bool:
    return data.dtype == ir.DataType.FLOAT and data.shape is not None and len(data.shape) in _RANKS


def _is_of_channels(constant: ir.Value, shape: ir.Shape) -> bool:
    """Tells whether a value is a constant of one entry for each channel, behind the first axis."""
    if constant.const_value is None or not isinstance(shape[1], int):
        return False
    of_one = [1] * (len(shape) - 2)
    return list(constant.const_value.shape.numpy()) in ([shape[1], *of_one], [1, shape[1], *of_one])

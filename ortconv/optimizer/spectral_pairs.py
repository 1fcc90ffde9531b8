"""Finds two layers that have the cosines and the sines of one Fourier transform."""

from __future__ import annotations

import dataclasses

import numpy as np
import onnx_ir as ir

from ortconv.graph.constant_values import constant
from ortconv.optimizer.neighbours import reader, require_alone, require_no_pad_with_axes
from ortconv.optimizer.reading import read
from ortconv.optimizer.site import Kept, Left, Shapes, Site
from ortconv.optimizer.spectral_basis import BOTH, SINES, Basis, fit
from ortconv.optimizer.spectral_layers import Layer, conv_geometry, filters_of, is_looked_at, terms_of
from ortconv.optimizer.values import Array, Sizes

__all__ = ["InversePair", "forward_pair", "inverse_pair"]

_MATHS = ("Abs", "Ceil", "Cos", "Erf", "Exp", "Floor", "Log", "Neg", "Reciprocal", "Round", "Sign", "Sin", "Sqrt")
_ACTIVATIONS = ("Clip", "Elu", "LeakyRelu", "Relu", "Sigmoid", "Softplus", "Tanh")
_SAME_SHAPE = frozenset((*_MATHS, *_ACTIVATIONS, "Cast", "Identity"))
"""Ops whose result has the shape of their input."""

_BROADCAST = frozenset(("Add", "Div", "Max", "Min", "Mul", "Pow", "Sub"))
"""Ops whose result has the shape to which their inputs broadcast."""

_DEPTH = 32
"""How many nodes are looked through for where a shape comes from."""


@dataclasses.dataclass(frozen=True)
class InversePair:
    """Two ConvTranspose nodes, of cosines and of sines, whose results a node adds or subtracts."""

    basis: Basis
    cosines: ir.Value
    sines: ir.Value
    other: Site
    join: ir.Node
    bias: Array | None


def forward_pair(
    node: ir.Node,
    filters: Array,
    layer: Layer,
    geometry: tuple[int, tuple[int, int]],
    sizes: Sizes,
    size: int | None,
) -> tuple[Basis, list[ir.Node]] | None:
    """Returns the Conv nodes of one signal that have the cosines and the sines of a basis, in this order."""
    x = node.inputs[0]
    assert x is not None
    assert layer.basis is not None
    for other in x.consumers():
        if other is node or other.graph is not node.graph or other.op_type != "Conv" or other.inputs[0] is not x:
            continue
        if not is_looked_at(other):
            continue
        try:
            found = filters_of(other, sizes)
            if found is None or found[1] != layer.axis or found[0].shape != filters.shape:
                continue
            if found[0].dtype != filters.dtype or conv_geometry(other, size, layer) != geometry:
                continue
            terms_of(other, len(filters))
            require_no_pad_with_axes(x, other.outputs[0])
        except Left:
            continue
        nodes, halves = [node, other], [filters, found[0]]
        if layer.basis.parts == SINES:
            nodes.reverse()
            halves.reverse()
        basis = fit(np.concatenate(halves))
        if basis is not None and basis.fits and basis.parts == BOTH:
            return basis, nodes
    return None


def inverse_pair(site: Site, filters: Array, parts: int, axis: int, sizes: Sizes, opset: int) -> InversePair | None:
    """Returns the layer of the other half of a spectrum together with which a layer is an inverse transform."""
    join = reader(site, "Add", "Sub")
    try:
        if join is None:
            return None
        require_alone(site.output, join, site)
        first = join.inputs[0] is site.output
        value = join.inputs[1 if first else 0]
        node = None if value is None else value.producer()
        if value is None or node is None or node.domain or node.op_type != "ConvTranspose" or node is site.node:
            return None
        require_alone(value, join, site)
        other, found = read(node, sizes, opset), filters_of(node, sizes)
    except (Kept, Left):
        return None
    if found is None or found[1] != axis or found[0].shape != filters.shape or _geometry(other) != _geometry(site):
        return None
    signs = (1, -1) if join.op_type == "Sub" else (1, 1)
    mine, its = (signs[0], signs[1]) if first else (signs[1], signs[0])
    biases = [_bias(each) for each in (site, other)]
    if any(each is None for each in biases) or not _same_frames(site.x, other.x, site.shapes):
        return None
    halves = [filters * filters.dtype.type(mine), found[0] * found[0].dtype.type(its)]
    data = [site.x, other.x]
    if parts == SINES:
        halves.reverse()
        data.reverse()
    basis = fit(np.concatenate(halves))
    if basis is None or not basis.fits or basis.parts != BOTH:
        return None
    bias = mine * np.asarray(biases[0]) + its * np.asarray(biases[1])
    return InversePair(basis, data[0], data[1], other, join, bias if np.any(bias) else None)


def _geometry(site: Site) -> object:
    return (site.dtype, site.strides, site.begin, site.end, site.output_padding, site.output_shape, site.rule)


def _bias(site: Site) -> Array | None:
    """Returns a constant bias of one channel in float64, zero without one; None if it is not constant."""
    if site.bias is None:
        return np.zeros(1)
    data = constant(site.bias) if isinstance(site.bias, ir.Value) else None
    return None if data is None else data.numpy().astype(np.float64).reshape(-1)


def _same_frames(one: ir.Value, other: ir.Value, shapes: Shapes) -> bool:
    """Whether two spectra certainly have the same batch and the same frames."""
    mine, its = shapes.get(str(one.name)), shapes.get(str(other.name))
    if mine is not None and mine == its and None not in mine:
        return True
    return _origins(one, _DEPTH) == _origins(other, _DEPTH)


def _origins(value: ir.Value, depth: int) -> frozenset[object]:
    """Returns what the shape of a value, apart from the axis of channels, depends on.

    These are values to whose shapes it broadcasts; a Gather by a constant stands for itself as its data, its axis and
    the shape of its indices.
    """
    data, node = constant(value), value.producer()
    if data is not None and all(dim == 1 for axis, dim in enumerate(reversed(data.shape.numpy())) if axis != 1):
        return frozenset()
    inputs = [] if node is None or node.domain or not depth else [each for each in node.inputs if each is not None]
    if node is None or not inputs:
        return frozenset({value})
    if node.op_type in _SAME_SHAPE or _is_part_of_channels(node):
        return _origins(inputs[0], depth - 1)
    if node.op_type in _BROADCAST:
        return frozenset[object]().union(*(_origins(each, depth - 1) for each in inputs))
    indices = constant(inputs[1]) if node.op_type == "Gather" and len(inputs) == 2 else None
    if indices is not None:
        return frozenset({(inputs[0], node.attributes.get_int("axis", 0), tuple(indices.shape.numpy()))})
    return frozenset({value})


def _is_part_of_channels(node: ir.Node) -> bool:
    """Whether a Split or Slice takes a part of the second axis."""
    if node.op_type == "Split":
        return node.attributes.get_int("axis", 0) == 1
    axes = constant(node.inputs[3]) if node.op_type == "Slice" and len(node.inputs) > 3 else None
    return axes is not None and axes.numpy().reshape(-1).tolist() == [1]

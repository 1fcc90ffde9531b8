"""BatchNormalization, and Add, Sub, Mul and Div of a constant per channel -> weights and bias.

Each gives ``factor * c + term`` for every channel. Factors and terms of several are combined in float64, and so are the
products with the weights, which are rounded once: a folded weight is within half a unit in the last place of the exact
one, so a result is within half a unit of the sum of the absolute products, beside what the sums of both round.

The Add of another result, as of a skip connection, is a residual: see there.
"""

from __future__ import annotations

import math

import numpy as np
import onnx_ir as ir

from ortconv.graph.constant_values import constant
from ortconv.opset.convolution_terms import NO_ACTIVATION
from ortconv.optimizer.neighbours import reader, require_alone
from ortconv.optimizer.site import Kept, Site, named
from ortconv.optimizer.values import Array

__all__ = ["fold", "scaled"]

_DEFAULT_EPSILON = float(np.float32(1e-5))


def fold(site: Site) -> str | None:
    """Fuses the node of such arithmetic that consumes the output."""
    node = reader(site, "BatchNormalization", "Add", "Sub", "Mul", "Div")
    if node is None:
        return None
    found = _normalization(site, node) if node.op_type == "BatchNormalization" else _arithmetic(site, node)
    if found is None:
        return None
    factor, term = found
    require_alone(site.output, node, site)
    if site.channels is None:
        raise Kept(f"{named(node)}: the number of channels is not known")
    if site.residual is not None:
        raise Kept(f"{named(node)}: it stands behind an Add of {site.residual.name}; ours adds its bias before that")
    if site.activation != NO_ACTIVATION:
        raise Kept(f"{named(node)}: there is an activation already, which ours would apply after it")
    with np.errstate(all="ignore"):
        factor, term = (np.broadcast_to(each.reshape(-1), (site.channels,)) for each in (factor, term))
        bias = _bias(site, node) * factor + term
        scales = bool(np.any(factor != 1))
        total = factor if site.factor is None else site.factor * factor
        if scales:
            _require_exact(site, node, total)
        fits = np.all(np.isfinite(bias.astype(site.dtype.numpy())))
    if not fits:
        raise Kept(f"{named(node)}: the bias would not be a finite number")
    biased = site.bias is not None or bool(np.any(bias))
    site.bias = bias if biased else None
    site.factor = total if scales else site.factor
    site.take(node)
    return f"{named(node)} {'as bias' if not scales else 'into weights and bias' if biased else 'into weights'}"


def scaled(site: Site) -> Array:
    """Returns the weights times the factors of their channels, as they lie.

    Raises:
        ValueError: The weights are no constant, or do not have so many channels.
    """
    data = constant(site.w)
    if data is None or site.factor is None:
        raise ValueError("nothing to scale")
    weights = data.numpy().astype(np.float64).transpose(site.w_perm)
    grouped = weights.reshape(site.group, weights.shape[0] // site.group, *weights.shape[1:])
    taps = (1,) * site.rank
    product = (grouped * site.factor.reshape(site.group, 1, weights.shape[1], *taps)).reshape(weights.shape)
    return product.transpose(np.argsort(site.w_perm))


def _normalization(site: Site, node: ir.Node) -> tuple[Array, Array] | None:
    """Returns factors and terms of a BatchNormalization."""
    if any(output.name for output in node.outputs[1:]) or node.attributes.get_int("training_mode", 0) != 0:
        raise Kept(f"{named(node)}: it is in training mode")
    if site.y_perm[1] != 1:
        raise Kept(f"{named(node)}: it normalizes a spatial axis")
    values = [constant(value) for value in node.inputs[1:]]
    parameters = [None if data is None else data.numpy().astype(np.float64) for data in values]
    for value, data in zip(node.inputs[1:], parameters, strict=True):
        if data is None:
            raise Kept(f"{named(node)}: {value.name if value else 'an input'} is not a constant")
        if data.shape != (site.channels,):
            raise Kept(f"{named(node)}: {value.name if value else 'an input'} has shape {list(data.shape)}")
    scale, bias, mean, variance = (data for data in parameters if data is not None)
    with np.errstate(all="ignore"):
        factor = scale / np.sqrt(variance + node.attributes.get_float("epsilon", _DEFAULT_EPSILON))
        return factor, bias - mean * factor


def _arithmetic(site: Site, node: ir.Node) -> tuple[Array, Array] | None:
    """Returns factors and terms of arithmetic with a constant, or None where that has another shape."""
    first = node.inputs[0] is site.output
    data = constant(node.inputs[1 if first else 0])
    if data is None:
        return None
    rank = site.rank + 2
    if len(data.shape) > rank:
        raise Kept(f"{named(node)}: its constant has more axes than the result")
    dims = (1,) * (rank - len(data.shape)) + tuple(data.shape.numpy())
    channel = site.y_perm.index(1)
    if any(dim != 1 for axis, dim in enumerate(dims) if axis != channel) or dims[channel] not in (1, site.channels):
        return None  # Not per channel: a constant of the size of the result, or one that enlarges it.
    operand = data.numpy().astype(np.float64)
    ones, zeros = np.ones_like(operand), np.zeros_like(operand)
    match node.op_type:
        case "Add":
            return ones, operand
        case "Sub":
            return (ones, -operand) if first else (-ones, operand)
        case "Mul":
            return operand, zeros
    if not first:
        raise Kept(f"{named(node)}: it divides by the result")
    with np.errstate(all="ignore"):
        return 1 / operand, zeros


def _bias(site: Site, node: ir.Node) -> Array:
    """Returns the bias so far, in float64."""
    if isinstance(site.bias, np.ndarray):
        return site.bias.astype(np.float64)
    if site.bias is None:
        return np.zeros(site.channels or 0)
    data = constant(site.bias)
    if data is None:
        raise Kept(f"{named(node)}: there is a bias already, {site.bias.name}, which is not a constant")
    if tuple(data.shape.numpy()) != (site.channels,):
        raise Kept(f"{named(node)}: there is a bias already, {site.bias.name}, of shape {data.shape}")
    return data.numpy().astype(np.float64)


def _require_exact(site: Site, node: ir.Node, factor: Array) -> None:
    """Checks that the weights can be scaled and keep their precision.

    Raises:
        Kept: They are no constant, or would leave the range in which their type has its full precision.
    """
    data = constant(site.w)
    if data is None:
        raise Kept(f"{named(node)}: the weights, {site.w.name}, are not a constant")
    if not np.all(np.isfinite(factor)):
        raise Kept(f"{named(node)}: a factor is not a finite number")
    weights = np.abs(data.numpy().astype(np.float64)).transpose(site.w_perm)
    if weights.shape[0] % site.group or weights.shape[1] * site.group != site.channels:
        raise Kept(f"{named(node)}: the weights, {site.w.name}, do not have the channels of {site.group} groups")
    grouped = weights.reshape(
        site.group, weights.shape[0] // site.group, weights.shape[1], math.prod(weights.shape[2:])
    )
    largest = grouped.max((1, 3), initial=0)
    products = largest.reshape(-1) * np.abs(factor)
    limits = np.finfo(site.dtype.numpy())
    if np.any(products > float(limits.max)) or np.any((products < float(limits.smallest_normal)) & (products > 0)):
        raise Kept(f"{named(node)}: weights times its factors would leave the range of {site.dtype}")

"""Conv and ConvTranspose whose filters are those of a Fourier transform -> ForwardSTFT, InverseSTFT, OverlapAdd.

`ortconv.optimizer.spectral_basis` decides by the numbers of the filters. A bias becomes an Add behind the new node, and
a layer of two spatial axes gets a Squeeze in front and an Unsqueeze behind, for the axis of size 1. Two ConvTranspose
nodes, one with the cosines and one with the sines, whose results are added or subtracted, become one node. So do two
Conv nodes of one signal, one with the cosines and one with the sines; a Split behind the new node separates them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ortconv.convolution_arithmetic import conv_transpose_size, given_size_padding, split
from ortconv.graph.constant_values import constant
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops.forward_stft import FORWARD_STFT
from ortconv.opset.ops.inverse_stft import INVERSE_STFT
from ortconv.opset.ops.overlap_add import OVERLAP_ADD
from ortconv.optimizer import crop, pad
from ortconv.optimizer.emission import Emitter
from ortconv.optimizer.neighbours import reader, require_alone, require_no_pad_with_axes
from ortconv.optimizer.reading import require_numbers_that_fit
from ortconv.optimizer.site import Kept, Left, Outcome, Shapes, Site, fold, name_of, named
from ortconv.optimizer.spectral_basis import BOTH, diagonal, fit
from ortconv.optimizer.spectral_layers import (
    Layer,
    conv_geometry,
    filters_of,
    miss,
    require_opset,
    size_of,
    terms_of,
)
from ortconv.optimizer.spectral_pairs import InversePair, forward_pair, inverse_pair
from ortconv.optimizer.values import Sizes, computed, is_zero

__all__ = ["forward", "inverse"]


def forward(node: ir.Node, sizes: Sizes, shapes: Shapes, opset: int, emitter: Emitter) -> dict[ir.Node, Outcome]:
    """Replaces a Conv if its filters are those of a Fourier transform, with the Conv of the other half of the spectrum.

    Args:
        node: The node.
        sizes: What sizes are known.
        shapes: Shapes of values of the model as it was, where they are certain.
        opset: The model's version of ai.onnx.
        emitter: What changes the model.

    Returns:
        What became of it and, if it was joined with another, of that one; empty if its filters do not resemble any.

    Raises:
        Left: They resemble some; the message says why the node stays.
    """
    found, x = filters_of(node, sizes), node.inputs[0]
    basis = None if found is None else fit(found[0])
    if found is None or basis is None or x is None:
        return {}
    if not basis.fits:
        raise Left(miss(basis))
    require_opset(FORWARD_STFT, opset)
    require_no_pad_with_axes(x, node.outputs[0])
    dtype, axis = ir.DataType.from_numpy(found[0].dtype), found[1]
    layer, size = Layer(FORWARD_STFT, basis.window, basis.gains, axis, basis), size_of(x, 2 + axis, sizes, shapes)
    hop, pads = conv_geometry(node, size, layer)
    terms = terms_of(node, len(basis.gains))
    pair = None if basis.parts == BOTH else forward_pair(node, found[0], layer, (hop, pads), sizes, size)
    nodes = [node]
    if pair is not None:
        joined, nodes = pair
        layer = Layer(FORWARD_STFT, joined.window, joined.gains, axis, joined)
        terms = np.concatenate([terms_of(each, len(basis.gains)) for each in nodes])
    bias = None if not np.any(terms) else emitter.constant(node, "bias", terms.astype(found[0].dtype).reshape(-1, 1))
    new = _nodes(emitter, node, layer, [x], {"hop": (hop,), "pads": pads}, bias, dtype)
    weights = computed(node.inputs[1])
    assert weights is not None
    if pair is not None:
        channels = emitter.intermediate(node, "channels", new[-1], dtype)
        halves = emitter.constant(node, "halves", np.full(2, len(basis.gains), np.int64))
        new.append(ir.node("Split", [channels, halves], {"axis": 1}, num_outputs=2, name=f"{name_of(node)}/split"))
    results = [
        (each.outputs[0], new[-1].outputs[at], each.outputs[0].shape or ir.Shape([None] * len(weights.shape)))
        for at, each in enumerate(nodes)
    ]
    unused = [value for each in nodes for value in each.inputs[1:]]
    emitter.replace_values(sorted(nodes, key=lambda each: each is node), new, results, dtype, unused)
    others = [each for each in nodes if each is not node]
    folded = tuple(map(named, others))
    done = {node: Outcome(name_of(node), FORWARD_STFT.name, folded, op_type="Conv", recognised=layer.text(hop))}
    into = (f"into {name_of(node)}",)
    return done | {each: Outcome(name_of(each), FORWARD_STFT.name, into, op_type="Conv") for each in others}


def inverse(site: Site, sizes: Sizes, opset: int, emitter: Emitter) -> dict[ir.Node, Outcome]:
    """Replaces a ConvTranspose if its filters are those of a Fourier transform, or a diagonal matrix.

    Args:
        site: The node as it was read; it is changed where the node is replaced.
        sizes: What sizes are known; those of the result are added.
        opset: The model's version of ai.onnx.
        emitter: What changes the model.

    Returns:
        What became of it and, if it was joined with another, of that one; empty if it does not resemble such a layer.

    Raises:
        Kept: It resembles one; the message says why it is none.
        Left: It is one, and cannot be replaced.
    """
    found = filters_of(site.node, sizes)
    if found is None:
        return {}
    filters, axis = found
    window = diagonal(filters)
    if window is not None:
        return _emit_inverse(Layer(OVERLAP_ADD, window, None, axis, None), site, None, sizes, opset, emitter)
    basis = fit(filters)
    if basis is None:
        return {}
    if not basis.fits:
        raise Kept(miss(basis))
    pair = None if basis.parts == BOTH else inverse_pair(site, filters, basis.parts, axis, sizes, opset)
    basis = basis if pair is None else pair.basis
    layer = Layer(INVERSE_STFT, basis.window, basis.gains, axis, basis)
    return _emit_inverse(layer, site, pair, sizes, opset, emitter)


def _emit_inverse(
    layer: Layer, site: Site, pair: InversePair | None, sizes: Sizes, opset: int, emitter: Emitter
) -> dict[ir.Node, Outcome]:
    """Replaces the nodes of a layer that is an inverse transform or adds up frames."""
    try:
        require_opset(layer.operator, opset)
    except Left as reason:
        raise Kept(str(reason)) from None
    if isinstance(site.bias, ir.Value) and sizes.of(site.bias) != (1,):
        raise Kept(f"its bias, {site.bias.name}, is not known to have the shape [1]")
    _resolve(site, layer, sizes)
    gone, spectra, folded = [site.node], [site.x], list[str]()
    if pair is not None:
        site.take(pair.join)
        gone.append(pair.other.node)
        spectra, site.bias = [pair.cosines, pair.sines], pair.bias
        folded.append(f"{named(pair.other.node)} and {named(pair.join)}")
    scale = functools.partial(_scale, layer)
    more, kept = fold(site, (pad.fold, crop.fold, scale) if site.rank == 1 else (scale,))
    for value in spectra:
        require_no_pad_with_axes(value, site.output)
    require_numbers_that_fit(site)
    if site.factor is not None:
        layer = layer.times(float(site.factor[0]))
    gone += site.after
    unused = [value for node in gone for value in node.inputs]
    hop = site.strides[layer.axis]
    attributes = {
        "hop": (hop,),
        "pads": (site.begin[layer.axis], site.end[layer.axis]),
        "output_padding": (site.output_padding[layer.axis],),
    }
    bias = site.bias
    if isinstance(bias, np.ndarray):
        bias = emitter.constant(site.node, "bias", bias.astype(site.dtype.numpy()))
    elif is_zero(bias):
        bias = None
    shape = emitter.shape(site)
    new = _nodes(emitter, site.node, layer, spectra, attributes, bias, site.dtype)
    emitter.replace(gone, new, site.output, shape, site.dtype, unused)
    sizes.record(new[-1].outputs[0], site.size)
    name = layer.operator.name
    outcome = Outcome(name_of(site.node), name, (*folded, *more), tuple(kept), recognised=layer.text(hop))
    if pair is None:
        return {site.node: outcome}
    return {site.node: outcome, pair.other.node: Outcome(name_of(pair.other.node), name, (f"into {outcome.name}",))}


def _resolve(site: Site, layer: Layer, sizes: Sizes) -> None:
    """Computes the padding of a node with an output_shape, which takes the number of frames.

    Raises:
        Kept: That is not known.
    """
    if site.output_shape is None:
        return
    frames = size_of(site.x, 2 + layer.axis, sizes, site.shapes)
    if frames is None:
        raise Kept("its output_shape states a size, and the number of frames is not known")
    size, added = site.output_shape[layer.axis], site.output_padding[layer.axis]
    full = conv_transpose_size(frames, len(layer.window), site.strides[layer.axis], 1)
    begin, end = split(site.rule, given_size_padding(full, size, added))
    added = size - (full - begin - end)
    place = [axis == layer.axis for axis in range(site.rank)]
    site.begin = tuple(begin * here for here in place)
    site.end = tuple(end * here for here in place)
    site.output_padding = tuple(added * here for here in place)
    site.output_shape = None


def _scale(layer: Layer, site: Site) -> str | None:
    """Fuses the Mul or Div by a constant that is the same at all positions, as a sum of windows may be."""
    node = reader(site, "Mul", "Div")
    if node is None:
        return None
    first = node.inputs[0] is site.output
    data = constant(node.inputs[1 if first else 0])
    rank = site.rank + 2
    if data is None or len(data.shape) > rank or not data.size or (node.op_type == "Div" and not first):
        return None
    dims = (1,) * (rank - len(data.shape)) + tuple(data.shape.numpy())
    stated = site.shapes.get(str(site.output.name), ())
    stated = stated if len(stated) == rank else (None,) * rank
    known = [mine if mine is not None else other for mine, other in zip(site.size, stated, strict=True)]
    if any(dim not in (1, size) for dim, size in zip(dims, known, strict=True)):
        return None  # It may enlarge the result.
    values = data.numpy().astype(np.float64)
    factor = float(values.flat[0])
    if not np.all(values == factor) or not factor:
        return None
    require_alone(site.output, node, site)
    if not is_zero(site.bias):
        raise Kept(f"{named(node)}: a bias stands before it")
    total = (factor if node.op_type == "Mul" else 1 / factor) * (1 if site.factor is None else site.factor[0])
    if not layer.can_be_scaled(total):
        raise Kept(f"{named(node)}: gains times its factor would leave the range of {site.dtype}")
    site.factor = np.array([total])
    site.take(node)
    return f"{named(node)} into {'window' if layer.gains is None else 'gains'}"


def _nodes(
    emitter: Emitter,
    node: ir.Node,
    layer: Layer,
    data: Sequence[ir.Value],
    attributes: Mapping[str, tuple[int, ...]],
    bias: ir.Value | None,
    dtype: ir.DataType,
) -> list[ir.Node]:
    """Returns the nodes that compute a layer, in order; `bias` is added to [N, C, frames]."""
    weights = computed(node.inputs[1])
    assert weights is not None
    name, new, inputs = name_of(node), list[ir.Node](), list(data)
    axes = None
    if len(weights.shape) > 3:
        axes = emitter.constant(node, "axes", np.array([3 - layer.axis], np.int64))
        for at, value in enumerate(data):
            new.append(ir.node("Squeeze", [value, axes], name=f"{name}/squeeze"))
            inputs[at] = emitter.intermediate(node, "squeezed", new[-1], dtype)
    constants = [emitter.constant(node, "window", layer.window)]
    own: dict[str, int | tuple[int, ...]] = dict(attributes)
    if layer.gains is not None and layer.basis is not None:
        constants.append(emitter.constant(node, "gains", layer.gains))
        own |= {"n_fft": layer.basis.n_fft, "parts": layer.basis.parts}
    new.append(
        ir.node(
            layer.operator.name,
            [inputs[0], *constants, *inputs[1:]],
            own,
            domain=DOMAIN,
            name=node.name,
            doc_string=node.doc_string,
            metadata_props=dict(node.metadata_props),
        )
    )
    if bias is not None:
        result = emitter.intermediate(node, "unbiased", new[-1], dtype)
        new.append(ir.node("Add", [result, bias], name=f"{name}/add"))
    if axes is not None:
        result = emitter.intermediate(node, "result", new[-1], dtype)
        new.append(ir.node("Unsqueeze", [result, axes], name=f"{name}/unsqueeze"))
    return new

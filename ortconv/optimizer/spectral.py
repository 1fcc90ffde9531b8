"""Conv and ConvTranspose whose filters are those of a Fourier transform -> ForwardSTFT, InverseSTFT, OverlapAdd.

`ortconv.optimizer.spectral_basis` decides by the numbers of the filters. A bias becomes an Add behind the new node, and
a layer of two spatial axes, one of which has size 1, gets a Squeeze in front and an Unsqueeze behind. Two ConvTranspose
nodes, one with the cosines and one with the sines, whose results are added or subtracted, become one node. So do two
Conv nodes of one signal, one with the cosines and one with the sines; a Split behind the new node separates them.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ortconv.convolution_arithmetic import AutoPad, conv_transpose_size, given_size_padding, same_padding, split
from ortconv.opset.domain import DOMAIN
from ortconv.opset.operator import Operator
from ortconv.opset.ops.forward_stft import FORWARD_STFT
from ortconv.opset.ops.inverse_stft import INVERSE_STFT
from ortconv.opset.ops.overlap_add import OVERLAP_ADD
from ortconv.optimizer import crop, pad
from ortconv.optimizer.emission import Emitter
from ortconv.optimizer.neighbours import reader, require_alone, require_no_pad_with_axes
from ortconv.optimizer.reading import read, require_numbers_that_fit
from ortconv.optimizer.site import Ints, Kept, Left, Outcome, Shapes, Site, fold, name_of, named
from ortconv.optimizer.spectral_basis import BOTH, LEAST_FILTERS, LEAST_TAPS, SINES, Basis, diagonal, fit
from ortconv.optimizer.values import Array, Sizes, computed, constant, is_zero

__all__ = ["forward", "inverse", "is_looked_at", "require_opset"]

_MATHS = ("Abs", "Ceil", "Cos", "Erf", "Exp", "Floor", "Log", "Neg", "Reciprocal", "Round", "Sign", "Sin", "Sqrt")
_ACTIVATIONS = ("Clip", "Elu", "LeakyRelu", "Relu", "Sigmoid", "Softplus", "Tanh")
_SAME_SHAPE = frozenset((*_MATHS, *_ACTIVATIONS, "Cast", "Identity"))
"""Ops whose result has the shape of their input."""

_BROADCAST = frozenset(("Add", "Div", "Max", "Min", "Mul", "Pow", "Sub"))
"""Ops whose result has the shape to which their inputs broadcast."""

_DEPTH = 32
"""How many nodes are looked through for where a shape comes from."""


@dataclasses.dataclass(frozen=True)
class _Layer:
    """What the filters of a layer are.

    Attributes:
        operator: What computes it.
        window: Of the filters' type, as are the gains.
        gains: None for OverlapAdd.
        axis: The spatial axis that has the taps.
        basis: None for OverlapAdd.
    """

    operator: Operator
    window: Array
    gains: Array | None
    axis: int
    basis: Basis | None

    def can_be_scaled(self, factor: float) -> bool:
        """Whether gains, or the window, times a factor have the full precision of their type."""
        data = self.window if self.gains is None else self.gains
        sizes, limits = np.abs(data.astype(np.float64) * factor), np.finfo(data.dtype)
        smallest = np.min(sizes, where=sizes > 0, initial=np.inf)
        return bool(np.max(sizes) <= float(limits.max) and smallest >= float(limits.smallest_normal))

    def times(self, factor: float) -> _Layer:
        """Returns the layer whose results are scaled."""
        data = self.window if self.gains is None else self.gains
        scaled = (data.astype(np.float64) * factor).astype(data.dtype)
        return (
            dataclasses.replace(self, window=scaled) if self.gains is None else dataclasses.replace(self, gains=scaled)
        )

    def text(self, hop: int) -> str:
        """Returns what reports say of the layer."""
        sizes = f"hop {hop}, window {len(self.window)}"
        if self.basis is None:
            return sizes
        return f"n_fft {self.basis.n_fft}, {sizes}, bins {self.basis.bins}; filters differ by {_of_largest(self.basis)}"


def is_looked_at(node: ir.Node) -> bool:
    """Whether a node is a Conv or ConvTranspose whose constant filters have a shape that is looked at."""
    if node.op_type not in ("Conv", "ConvTranspose") or node.domain or len(node.inputs) < 2:
        return False
    data = computed(node.inputs[1])
    return data is not None and _axis(node, tuple(data.shape.numpy())) is not None


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
    found, x = _filters(node, sizes), node.inputs[0]
    basis = None if found is None else fit(found[0])
    if found is None or basis is None or x is None:
        return {}
    if not basis.fits:
        raise Left(_miss(basis))
    require_opset(FORWARD_STFT, opset)
    require_no_pad_with_axes(x, node.outputs[0])
    dtype, axis = ir.DataType.from_numpy(found[0].dtype), found[1]
    layer, size = _Layer(FORWARD_STFT, basis.window, basis.gains, axis, basis), _size(x, 2 + axis, sizes, shapes)
    hop, pads = _conv_geometry(node, size, layer)
    terms = _terms(node, len(basis.gains))
    pair = None if basis.parts == BOTH else _forward_pair(node, found[0], layer, (hop, pads), sizes, size)
    nodes = [node]
    if pair is not None:
        joined, nodes = pair
        layer = _Layer(FORWARD_STFT, joined.window, joined.gains, axis, joined)
        terms = np.concatenate([_terms(each, len(basis.gains)) for each in nodes])
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
    found = _filters(site.node, sizes)
    if found is None:
        return {}
    filters, axis = found
    window = diagonal(filters)
    if window is not None:
        return _emit_inverse(_Layer(OVERLAP_ADD, window, None, axis, None), site, None, sizes, opset, emitter)
    basis = fit(filters)
    if basis is None:
        return {}
    if not basis.fits:
        raise Kept(_miss(basis))
    pair = None if basis.parts == BOTH else _pair(site, filters, basis.parts, axis, sizes, opset)
    basis = basis if pair is None else pair.basis
    layer = _Layer(INVERSE_STFT, basis.window, basis.gains, axis, basis)
    return _emit_inverse(layer, site, pair, sizes, opset, emitter)


def require_opset(operator: Operator, opset: int) -> None:
    """Checks that an operator has a function body in a version of ai.onnx.

    Raises:
        Left: It has none.
    """
    if opset not in operator.opsets:
        allowed = f"{operator.opsets.start} to {operator.opsets.stop - 1}"
        raise Left(f"{operator.name} needs ai.onnx {allowed}; the model has {opset}")


@dataclasses.dataclass(frozen=True)
class _Pair:
    """Two ConvTranspose nodes, of cosines and of sines, whose results a node adds or subtracts."""

    basis: Basis
    cosines: ir.Value
    sines: ir.Value
    other: Site
    join: ir.Node
    bias: Array | None


def _miss(basis: Basis) -> str:
    return (
        f"its filters resemble those of a Fourier transform, n_fft {basis.n_fft}, and are none: "
        f"they differ by {_of_largest(basis)}"
    )


def _of_largest(basis: Basis) -> str:
    return f"{basis.distance:.2g} of their largest element (limit {basis.limit:.2g})"


def _axis(node: ir.Node, dims: Sequence[int]) -> int | None:
    """Returns the spatial axis with the taps of filters that may be looked at, or None."""
    if len(dims) not in (3, 4) or dims[1] != 1 or dims[0] < LEAST_FILTERS or max(dims[2:]) < LEAST_TAPS:
        return None
    group = node.attributes.get("group")
    if group is not None and (group.is_ref() or group.as_int() != 1):
        return None
    at = dims.index(max(dims[2:]), 2) - 2
    return at if len(dims) == 3 or dims[3 - at] == 1 else None


def _filters(node: ir.Node, sizes: Sizes) -> tuple[Array, int] | None:
    """Returns the filters [C, K] of a layer with one signal and dilation 1, and the spatial axis of the taps."""
    data = computed(node.inputs[1]) if len(node.inputs) > 1 else None
    axis = None if data is None else _axis(node, tuple(data.shape.numpy()))
    if data is None or axis is None or any(attribute.is_ref() for attribute in node.attributes.values()):
        return None
    rank = len(data.shape) - 2
    if _ints(node, "dilations", (1,) * rank)[axis] != 1:
        return None
    if rank == 2 and not _is_one(node, 1 - axis, sizes):
        return None
    filters: Array = data.numpy()
    return filters.reshape(len(filters), -1), axis


def _ints(node: ir.Node, name: str, default: Ints) -> Ints:
    found = tuple(node.attributes[name].as_ints()) if name in node.attributes else default
    if len(found) != len(default):
        raise Left(f"{name} = {list(found)}; allowed: {len(default)} integers")
    return found


def _is_one(node: ir.Node, axis: int, sizes: Sizes) -> bool:
    """Whether a spatial axis of the data has size 1, no padding, and size 1 in the result."""
    x = node.inputs[0]
    dims = None if x is None else sizes.of(x)
    known = dims is not None and len(dims) == 4 and dims[2 + axis] == 1
    producer = None if x is None else x.producer()
    if not known and producer is not None and not producer.domain and producer.op_type == "Unsqueeze":
        axes = constant(producer.inputs[1]) if len(producer.inputs) > 1 else None
        known = axes is not None and [int(each) % 4 for each in axes.numpy().reshape(-1)] == [2 + axis]
    pads = _ints(node, "pads", (0,) * 4)
    added = _ints(node, "output_padding", (0, 0))
    shape = _ints(node, "output_shape", (1, 1))
    return known and not (pads[axis] or pads[axis + 2] or added[axis]) and shape[axis] == 1


def _size(value: ir.Value, axis: int, sizes: Sizes, shapes: Shapes) -> int | None:
    """Returns the size of an axis where it is certain."""
    for dims in (sizes.of(value), shapes.get(str(value.name))):
        size = dims[axis] if dims is not None and axis < len(dims) else None
        if isinstance(size, int):
            return size
    return None


def _conv_geometry(node: ir.Node, size: int | None, layer: _Layer) -> tuple[int, tuple[int, int]]:
    """Returns stride and padding of a Conv of a signal of a certain size."""
    data = computed(node.inputs[1])
    assert data is not None
    rank = len(data.shape) - 2
    hop = _ints(node, "strides", (1,) * rank)[layer.axis]
    pads = _ints(node, "pads", (0,) * (2 * rank))
    begin, end = pads[layer.axis], pads[layer.axis + rank]
    auto_pad = node.attributes.get_string("auto_pad", "NOTSET")
    if auto_pad in ("SAME_UPPER", "SAME_LOWER"):
        if size is None:
            raise Left(f"auto_pad = {auto_pad} and the length of its signal is not known")
        rule = AutoPad.SAME_UPPER if auto_pad == "SAME_UPPER" else AutoPad.SAME_LOWER
        begin, end = split(rule, same_padding(size, len(layer.window), hop, 1))
    elif auto_pad not in ("NOTSET", "VALID"):
        raise Left(f"auto_pad = {auto_pad!r}")
    elif auto_pad == "VALID":
        begin = end = 0
    if hop < 1 or begin < 0 or end < 0:
        raise Left(f"its stride is {hop}, its padding {[begin, end]}")
    return hop, (begin, end)


def _terms(node: ir.Node, channels: int) -> Array:
    """Returns the bias of a Conv, zeros without one.

    Raises:
        Left: It is not a constant of each channel.
    """
    bias = node.inputs[2] if len(node.inputs) > 2 else None
    if is_zero(bias):
        return np.zeros(channels)
    data = constant(bias)
    if data is None or data.size != channels:
        raise Left("its filters are those of a Fourier transform, and its bias is not a constant of each channel")
    terms: Array = data.numpy().reshape(-1)
    return terms


def _forward_pair(
    node: ir.Node,
    filters: Array,
    layer: _Layer,
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
            found = _filters(other, sizes)
            if found is None or found[1] != layer.axis or found[0].shape != filters.shape:
                continue
            if found[0].dtype != filters.dtype or _conv_geometry(other, size, layer) != geometry:
                continue
            _terms(other, len(filters))
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


def _pair(site: Site, filters: Array, parts: int, axis: int, sizes: Sizes, opset: int) -> _Pair | None:
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
        other, found = read(node, sizes, opset), _filters(node, sizes)
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
    return _Pair(basis, data[0], data[1], other, join, bias if np.any(bias) else None)


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


def _emit_inverse(
    layer: _Layer, site: Site, pair: _Pair | None, sizes: Sizes, opset: int, emitter: Emitter
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


def _resolve(site: Site, layer: _Layer, sizes: Sizes) -> None:
    """Computes the padding of a node with an output_shape, which takes the number of frames.

    Raises:
        Kept: That is not known.
    """
    if site.output_shape is None:
        return
    frames = _size(site.x, 2 + layer.axis, sizes, site.shapes)
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


def _scale(layer: _Layer, site: Site) -> str | None:
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
    layer: _Layer,
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

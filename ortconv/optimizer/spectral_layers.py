"""Reads Conv and ConvTranspose nodes as layers that may be Fourier transforms."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import onnx_ir as ir

from ortconv.convolution_arithmetic import AutoPad, same_padding, split
from ortconv.graph.constant_values import constant
from ortconv.opset.operator import Operator
from ortconv.optimizer.site import Ints, Left, Shapes
from ortconv.optimizer.spectral_basis import LEAST_FILTERS, LEAST_TAPS, Basis
from ortconv.optimizer.values import Array, Sizes, computed, is_zero

__all__ = ["Layer", "conv_geometry", "filters_of", "is_looked_at", "miss", "require_opset", "size_of", "terms_of"]


@dataclasses.dataclass(frozen=True)
class Layer:
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

    def times(self, factor: float) -> Layer:
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


def require_opset(operator: Operator, opset: int) -> None:
    """Checks that an operator has a function body in a version of ai.onnx.

    Raises:
        Left: It has none.
    """
    if opset not in operator.opsets:
        allowed = f"{operator.opsets.start} to {operator.opsets.stop - 1}"
        raise Left(f"{operator.name} needs ai.onnx {allowed}; the model has {opset}")


def filters_of(node: ir.Node, sizes: Sizes) -> tuple[Array, int] | None:
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


def size_of(value: ir.Value, axis: int, sizes: Sizes, shapes: Shapes) -> int | None:
    """Returns the size of an axis where it is certain."""
    for dims in (sizes.of(value), shapes.get(str(value.name))):
        size = dims[axis] if dims is not None and axis < len(dims) else None
        if isinstance(size, int):
            return size
    return None


def conv_geometry(node: ir.Node, size: int | None, layer: Layer) -> tuple[int, tuple[int, int]]:
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


def terms_of(node: ir.Node, channels: int) -> Array:
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


def miss(basis: Basis) -> str:
    """Returns why filters that resemble a basis are none."""
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

"""Fourier transforms along one axis, shared by DFT and STFT: nodes of ``org.ortconv``, or standard nodes."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import dtype_of
from ortconv.converters.openvino.lib.fourier_basis import REAL, REAL_INVERSE, Kind, count_of
from ortconv.converters.openvino.lib.fourier_standard import standard_transform, with_parts, with_size
from ortconv.converters.openvino.lib.sizes import Size, calculate, size_of
from ortconv.errors import ConversionError
from ortconv.graph.builder import Builder
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops.fourier_transform import FOURIER_TRANSFORM

__all__ = ["KERNELS", "even_length", "is_ours", "real_inverse", "real_transform", "transform"]

KERNELS = ("DFT",)
"""What `compute` has to know: transforms are computed in float32 and float64."""

_LONGEST = 1 << 12
"""Unless nodes of ours are asked for, a longer transform is standard nodes: the function body would need gigabytes."""


def even_length(b: Builder, size: Size) -> Size:
    """Returns the even length of the real data whose one-sided transform has `size` entries."""
    return calculate(b, "Mul", calculate(b, "Sub", size, 1), 2)


def is_ours(b: Builder, length: Size) -> bool:
    """Whether a transform becomes a node of ``org.ortconv``."""
    if b.options.target == "auto" and isinstance(length, int):
        return length <= _LONGEST
    return b.options.target != "onnx"


def transform(b: Builder, x: ir.Value, axis: int, size: Size = -1, *, inverse: bool = False) -> ir.Value:
    """Emits a complex transform along an axis, counted from the front.

    Args:
        b: The builder.
        x: Data [..., 2], of float32 or float64, of known rank.
        axis: The axis, not the last one.
        size: The length of the transform, to which data are truncated or padded with zeros; -1 for that of the axis.
        inverse: Whether it is the inverse transform.

    Raises:
        ConversionError: The length is known, and less than 1.
    """
    return _emit(b, x, axis, size, Kind(2, 2, inverse))


def real_transform(b: Builder, x: ir.Value, axis: int, size: Size = -1) -> ir.Value:
    """Emits the one-sided transform of real data [...], which gives [..., 2].

    Arguments and errors as of `transform`.
    """
    return _emit(b, x, axis, size, REAL)


def real_inverse(b: Builder, x: ir.Value, axis: int, size: Size = -1) -> ir.Value:
    """Inverts a one-sided transform [..., 2], extended by its conjugate; gives real data [...].

    Arguments and errors as of `transform`, but a `size` of -1 stands for an even length.
    """
    return _emit(b, x, axis, size, REAL_INVERSE)


def _emit(b: Builder, x: ir.Value, axis: int, size: Size, kind: Kind) -> ir.Value:
    have = size_of(b, x, axis)
    default = even_length(b, have) if kind == REAL_INVERSE else have
    length = default if size == -1 else size
    if isinstance(length, int) and length < 1:
        raise ConversionError(f"has a transform of length {length}; allowed: at least 1.")
    if not is_ours(b, length):
        return standard_transform(b, x, axis, length, kind, fit=size != -1)
    return _own_node(b, x, axis, None if length == default else length, length, kind)


def _own_node(b: Builder, x: ir.Value, axis: int, given: Size | None, length: Size, kind: Kind) -> ir.Value:
    dtype = dtype_of(x)
    if kind.parts == 1:
        x = with_parts(b, x)
    if given is not None:
        given = b.constant(given) if isinstance(given, int) else b.op("Squeeze", given, b.constant([0]))
    result = b.op(
        FOURIER_TRANSFORM.name,
        x,
        given,
        domain=DOMAIN,
        axis=axis,
        inverse=int(kind.is_inverse),
        onesided=int(kind.is_one_sided),
    )
    shape = with_size(x, axis, count_of(b, length, kind))
    result = b.typed(result, dtype, None if shape is None else [*shape[:-1], kind.results])
    if kind.results == 2:
        return result
    return b.typed(b.op("Squeeze", result, b.constant([-1])), dtype, None if shape is None else shape[:-1])

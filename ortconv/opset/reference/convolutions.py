"""The NumPy references of the convolution operators: their sums as defined, one kernel tap at a time.

Slow, obvious, and independent of the native kernels.

Notation, per spatial axis: X size of x, K kernel, s stride, d dilation, E = (K-1)*d + 1 the kernel's extent,
F = max(s*(X-1) + E, 0) the full size of a transposed convolution, b its begin padding, Y the size of the result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from ortconv.convolution_arithmetic import AutoPad, given_size_padding, same_padding, split
from ortconv.opset.reference.operands import Array, Task, accumulation_dtype, activated, checked_activation

__all__ = ["conv", "conv_transpose", "conv_transpose_add", "conv_transpose_to_shape"]


def conv_transpose(
    x: Array, w: Array, bias: Array | None = None, *, pads: Sequence[int], output_padding: Sequence[int], **common: Any
) -> Array:
    """Transposed convolution: Y = F - begin - end + output_padding, b = begin.

    ``out[n, g*M + m, x*s - b + k*d] += x[n, g*C + c, x] * w[g*C + c, m, k]``, plus the bias everywhere.

    Args:
        x: Data; ``transpose(x, x_perm)`` is [N, C, X...], with 1 to 6 spatial axes.
        w: Weights of the same type; ``transpose(w, w_perm)`` is [C, M/group, K...].
        bias: [M] of the same type, or None.
        pads: All begins, then all ends, >= 0.
        output_padding: Positions added at the end per spatial axis; a negative number removes positions.
        **common: What `Task` takes of all convolutions.

    Returns:
        ``transpose([N, M, Y...], y_perm)``.

    Raises:
        ValueError: A type, shape or attribute contradicts the above, or Y is negative.
    """
    task = Task(x, w, bias, transposed=True, **common)
    begin, end = _split(task.ints("pads", pads, 2 * task.axes, 0))
    extra = task.ints("output_padding", output_padding, task.axes)
    sizes = [full - b - e + o for full, b, e, o in zip(task.full(), begin, end, extra, strict=True)]
    if min(sizes) < 0:
        raise ValueError(f"Y would have the spatial sizes {sizes}; the padding exceeds the full size")
    return task.scatter(begin, sizes)


def conv_transpose_add(
    x: Array,
    w: Array,
    residual: Array,
    bias: Array | None = None,
    *,
    accumulate: npt.DTypeLike | None = None,
    activation: Sequence[float] | None = None,
    **attributes: Any,
) -> Array:
    """`conv_transpose`, and a residual that is added to its result.

    Args:
        x: As in `conv_transpose`.
        w: As in `conv_transpose`.
        residual: Of the type of `x` and the shape of the result.
        bias: As in `conv_transpose`.
        accumulate: As in `Task`.
        activation: As in `Task`, applied to the sum.
        **attributes: As in `conv_transpose`.

    Returns:
        The result plus `residual`, each in the type of `x`, rounded to it; with `accumulate`, in that type.

    Raises:
        ValueError: A type, shape or attribute contradicts the above, or Y is negative.
    """
    if residual.dtype != x.dtype:
        raise ValueError(f"R has type {residual.dtype}; allowed: {x.dtype}, as X has")
    y = conv_transpose(x, w, bias, accumulate=accumulate, **attributes)
    if residual.shape != y.shape:
        raise ValueError(f"R has shape {list(residual.shape)}; allowed: {list(y.shape)}, as Y has")
    sums = accumulation_dtype(x.dtype) if accumulate is None else np.dtype(accumulate)
    with np.errstate(all="ignore"):
        out = (y.astype(sums) + residual.astype(sums)).astype(y.dtype)
        return activated(out, checked_activation(activation, accumulation_dtype(x.dtype)), sums)


def conv_transpose_to_shape(
    x: Array,
    w: Array,
    output_shape: Array | Sequence[int],
    bias: Array | None = None,
    *,
    auto_pad: int,
    pads_begin: Sequence[int],
    output_padding: Sequence[int],
    **common: Any,
) -> Array:
    """Transposed convolution to given spatial sizes; positions outside [0, F) are the bias alone.

    The same sum as `conv_transpose` with Y = output_shape. With t = max(F + output_padding - Y, 0), b is `pads_begin`
    for NOTSET, floor(t/2) for SAME_UPPER and ceil(t/2) for SAME_LOWER.

    Args:
        x: As in `conv_transpose`.
        w: As in `conv_transpose`.
        output_shape: Y per spatial axis in the order of `x_perm`, >= 0.
        bias: As in `conv_transpose`.
        auto_pad: A value of `AutoPad`, with the rules above.
        pads_begin: Per spatial axis, >= 0; zeros unless `auto_pad` is NOTSET.
        output_padding: Term of t.
        **common: What `Task` takes of all convolutions.

    Returns:
        ``transpose([N, M, Y...], y_perm)``.

    Raises:
        ValueError: A type, shape or attribute contradicts the above.
    """
    task = Task(x, w, bias, transposed=True, **common)
    begin = task.ints("pads_begin", pads_begin, task.axes, 0)
    extra = task.ints("output_padding", output_padding, task.axes, 0)
    if np.ndim(output_shape) != 1:
        raise ValueError(f"output_shape has shape {list(np.shape(output_shape))}; allowed: [{task.axes}]")
    sizes = task.ints("output_shape", np.asarray(output_shape).tolist(), task.axes, 0)
    if _same(auto_pad, begin):
        axes = zip(task.full(), sizes, extra, strict=True)
        begin = [split(AutoPad(auto_pad), given_size_padding(*axis))[0] for axis in axes]
    return task.scatter(begin, sizes)


def conv(x: Array, w: Array, bias: Array | None = None, *, auto_pad: int, pads: Sequence[int], **common: Any) -> Array:
    """Convolution (cross-correlation): ``out[n, g*M + m, y] = sum x[n, g*C + c, y*s - b + k*d] * w[g*M + m, c, k]``.

    NOTSET: Y = floor((X + begin + end - E)/s) + 1. SAME: Y = ceil(X/s), t = max((Y-1)*s + E - X, 0) and b is
    floor(t/2) for SAME_UPPER, ceil(t/2) for SAME_LOWER.

    Args:
        x: As in `conv_transpose`.
        w: Weights of the same type; ``transpose(w, w_perm)`` is [M, C/group, K...].
        bias: As in `conv_transpose`.
        auto_pad: A value of `AutoPad`, with the rules above.
        pads: All begins, then all ends, >= 0; zeros unless `auto_pad` is NOTSET.
        **common: What `Task` takes of all convolutions.

    Returns:
        ``transpose([N, M, Y...], y_perm)``.

    Raises:
        ValueError: A type, shape or attribute contradicts the above, or the kernel exceeds the padded input.
    """
    task = Task(x, w, bias, transposed=False, **common)
    begin, end = _split(task.ints("pads", pads, 2 * task.axes, 0))
    extent, source = task.extent(), task.x.shape[2:]
    if _same(auto_pad, pads):
        sizes = [-(-size // s) for size, s in zip(source, task.strides, strict=True)]
        axes = zip(source, task.kernel, task.strides, task.dilations, strict=True)
        return task.gather([split(AutoPad(auto_pad), same_padding(*axis))[0] for axis in axes], sizes)
    padded = [size + b + e for size, b, e in zip(source, begin, end, strict=True)]
    if any(e > p for e, p in zip(extent, padded, strict=True)):
        raise ValueError(f"the kernel covers {extent}, more than the padded input {padded}")
    return task.gather(begin, [(p - e) // s + 1 for p, e, s in zip(padded, extent, task.strides, strict=True)])


def _split(pads: list[int]) -> tuple[list[int], list[int]]:
    return pads[: len(pads) // 2], pads[len(pads) // 2 :]


def _same(auto_pad: int, pads: Sequence[int]) -> bool:
    """Returns whether a SAME rule applies; refuses pads beside one."""
    if auto_pad not in list(AutoPad):
        raise ValueError(f"auto_pad = {auto_pad!r}; allowed: 0 (NOTSET), 1 (SAME_UPPER), 2 (SAME_LOWER)")
    if auto_pad and any(pads):
        raise ValueError(f"pads {list(pads)} stand beside auto_pad = {auto_pad}; allowed: zeros")
    return bool(auto_pad)

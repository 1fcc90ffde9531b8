"""The numpy oracle of the operators of ``org.ortconv``: their sums as defined, one kernel tap at a time.

Slow, obvious, and independent of the native kernels. `OPS` makes ``onnx.reference`` evaluate our nodes:
``onnx.reference.ReferenceEvaluator(model, new_ops=ortconv.reference.OPS)``. The evaluator does not hand `OPS` on to
model-local functions that hold nodes of ours: inline such functions first.

Notation, per spatial axis: X size of x, K kernel, s stride, d dilation, E = (K-1)*d + 1 the kernel's extent,
F = max(s*(X-1) + E, 0) the full size of a transposed convolution, b its begin padding, Y the size of the result.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import onnx.helper
from onnx.reference.op_run import OpRun

from ortconv.compressed_reference import matmul_compressed
from ortconv.matmul_compressed import NAME as MATMUL_COMPRESSED
from ortconv.opset import ACCUMULATION, DOMAIN

__all__ = [
    "FUNCTIONS",
    "OPS",
    "accumulation_dtype",
    "conv",
    "conv_transpose",
    "conv_transpose_add",
    "conv_transpose_to_shape",
    "matmul_compressed",
]

Array = npt.NDArray[Any]
AutoPad = Literal["NOTSET", "SAME_UPPER", "SAME_LOWER"]

_ACCUMULATION: dict[np.dtype[Any], np.dtype[Any]] = {
    onnx.helper.tensor_dtype_to_np_dtype(element): onnx.helper.tensor_dtype_to_np_dtype(sums)
    for element, sums in ACCUMULATION.items()
}


def accumulation_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Returns the type in which products of an element type are formed and summed.

    Raises:
        ValueError: The ops do not take the element type.
    """
    found = np.dtype(dtype)
    if found not in _ACCUMULATION:
        raise ValueError(f"X has type {found}; allowed: {', '.join(map(str, _ACCUMULATION))}")
    return _ACCUMULATION[found]


def conv_transpose(
    x: Array,
    w: Array,
    bias: Array | None = None,
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
    output_padding: Sequence[int],
    group: int,
    x_perm: Sequence[int],
    w_perm: Sequence[int],
    y_perm: Sequence[int],
    accumulate: npt.DTypeLike | None = None,
    activation: Sequence[float] | None = None,
) -> Array:
    """Transposed convolution: Y = F - begin - end + output_padding, b = begin.

    ``out[n, g*M + m, x*s - b + k*d] += x[n, g*C + c, x] * w[g*C + c, m, k]``, plus the bias everywhere.

    Args:
        x: Data; ``transpose(x, x_perm)`` is [N, C, X...], with 1 to 6 spatial axes.
        w: Weights of the same type; ``transpose(w, w_perm)`` is [C, M/group, K...].
        bias: [M] of the same type, or None.
        strides: s per spatial axis, >= 1.
        dilations: d per spatial axis, >= 1.
        pads: All begins, then all ends, >= 0.
        output_padding: Positions added at the end per spatial axis; a negative number takes positions off.
        group: Divides C.
        x_perm: Permutation of all axes.
        w_perm: Permutation of all axes.
        y_perm: Permutation of all axes.
        accumulate: None forms the sums in `accumulation_dtype` and converts each once to the type of `x`; another type
            forms the sums in that type and returns them as they are.
        activation: Slope below zero, minimum and maximum, applied to the result in its type.

    Returns:
        ``transpose([N, M, Y...], y_perm)``.

    Raises:
        ValueError: A type, shape or attribute contradicts the above, or Y is negative.
    """
    task = _Task(x, w, bias, strides, dilations, group, x_perm, w_perm, y_perm, accumulate, activation, transposed=True)
    begin, end = _split(task.ints("pads", pads, 2 * task.axes, 0))
    extra = task.ints("output_padding", output_padding, task.axes)
    sizes = [full - b - e + o for full, b, e, o in zip(task.full(), begin, end, extra, strict=True)]
    if min(sizes) < 0:
        raise ValueError(f"Y would have the spatial sizes {sizes}; the padding leaves less than nothing")
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
        accumulate: As in `conv_transpose`.
        activation: As in `conv_transpose`, applied to the sum.
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
        return _activated(out, _checked_activation(activation, accumulation_dtype(x.dtype)), sums)


def conv_transpose_to_shape(
    x: Array,
    w: Array,
    output_shape: Array | Sequence[int],
    bias: Array | None = None,
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    auto_pad: AutoPad,
    pads_begin: Sequence[int],
    output_padding: Sequence[int],
    group: int,
    x_perm: Sequence[int],
    w_perm: Sequence[int],
    y_perm: Sequence[int],
    accumulate: npt.DTypeLike | None = None,
    activation: Sequence[float] | None = None,
) -> Array:
    """Transposed convolution to given spatial sizes; positions outside [0, F) hold the bias only.

    The same sum as `conv_transpose` with Y = output_shape. With t = max(F + output_padding - Y, 0), b is `pads_begin`
    for NOTSET, floor(t/2) for SAME_UPPER and ceil(t/2) for SAME_LOWER.

    Args:
        x: As in `conv_transpose`.
        w: As in `conv_transpose`.
        output_shape: Y per spatial axis in the order of `x_perm`, >= 0.
        bias: As in `conv_transpose`.
        strides: s per spatial axis, >= 1.
        dilations: d per spatial axis, >= 1.
        auto_pad: The rule above.
        pads_begin: Per spatial axis, >= 0; zeros unless `auto_pad` is NOTSET.
        output_padding: Enters t.
        group: Divides C.
        x_perm: Permutation of all axes.
        w_perm: Permutation of all axes.
        y_perm: Permutation of all axes.
        accumulate: As in `conv_transpose`.
        activation: As in `conv_transpose`.

    Returns:
        ``transpose([N, M, Y...], y_perm)``.

    Raises:
        ValueError: A type, shape or attribute contradicts the above.
    """
    task = _Task(x, w, bias, strides, dilations, group, x_perm, w_perm, y_perm, accumulate, activation, transposed=True)
    begin = task.ints("pads_begin", pads_begin, task.axes, 0)
    extra = task.ints("output_padding", output_padding, task.axes, 0)
    if np.ndim(output_shape) != 1:
        raise ValueError(f"output_shape has shape {list(np.shape(output_shape))}; allowed: [{task.axes}]")
    sizes = task.ints("output_shape", np.asarray(output_shape).tolist(), task.axes, 0)
    if _same(auto_pad, begin):
        total = [max(full + o - y, 0) for full, o, y in zip(task.full(), extra, sizes, strict=True)]
        begin = _halve(auto_pad, total)
    return task.scatter(begin, sizes)


def conv(
    x: Array,
    w: Array,
    bias: Array | None = None,
    *,
    strides: Sequence[int],
    dilations: Sequence[int],
    auto_pad: AutoPad,
    pads: Sequence[int],
    group: int,
    x_perm: Sequence[int],
    w_perm: Sequence[int],
    y_perm: Sequence[int],
    accumulate: npt.DTypeLike | None = None,
    activation: Sequence[float] | None = None,
) -> Array:
    """Convolution (cross-correlation): ``out[n, g*M + m, y] = sum x[n, g*C + c, y*s - b + k*d] * w[g*M + m, c, k]``.

    NOTSET: Y = floor((X + begin + end - E)/s) + 1. SAME: Y = ceil(X/s), t = max((Y-1)*s + E - X, 0) and b is
    floor(t/2) for SAME_UPPER, ceil(t/2) for SAME_LOWER.

    Args:
        x: As in `conv_transpose`.
        w: Weights of the same type; ``transpose(w, w_perm)`` is [M, C/group, K...].
        bias: As in `conv_transpose`.
        strides: s per spatial axis, >= 1.
        dilations: d per spatial axis, >= 1.
        auto_pad: The rule above.
        pads: All begins, then all ends, >= 0; zeros unless `auto_pad` is NOTSET.
        group: Divides C and M.
        x_perm: Permutation of all axes.
        w_perm: Permutation of all axes.
        y_perm: Permutation of all axes.
        accumulate: As in `conv_transpose`.
        activation: As in `conv_transpose`.

    Returns:
        ``transpose([N, M, Y...], y_perm)``.

    Raises:
        ValueError: A type, shape or attribute contradicts the above, or the kernel exceeds the padded input.
    """
    task = _Task(
        x, w, bias, strides, dilations, group, x_perm, w_perm, y_perm, accumulate, activation, transposed=False
    )
    begin, end = _split(task.ints("pads", pads, 2 * task.axes, 0))
    extent, source = task.extent(), task.x.shape[2:]
    if _same(auto_pad, pads):
        sizes = [-(-size // s) for size, s in zip(source, task.strides, strict=True)]
        total = [
            max((y - 1) * s + e - size, 0) for y, s, e, size in zip(sizes, task.strides, extent, source, strict=True)
        ]
        return task.gather(_halve(auto_pad, total), sizes)
    padded = [size + b + e for size, b, e in zip(source, begin, end, strict=True)]
    if any(e > p for e, p in zip(extent, padded, strict=True)):
        raise ValueError(f"the kernel covers {extent}, more than the padded input {padded}")
    return task.gather(begin, [(p - e) // s + 1 for p, e, s in zip(padded, extent, task.strides, strict=True)])


class _Task:
    """What the ops share: checked operands in the plain layout and in the accumulation type, and the two sums."""

    def __init__(
        self,
        x: Array,
        w: Array,
        bias: Array | None,
        strides: Sequence[int],
        dilations: Sequence[int],
        group: int,
        x_perm: Sequence[int],
        w_perm: Sequence[int],
        y_perm: Sequence[int],
        accumulate: npt.DTypeLike | None,
        activation: Sequence[float] | None,
        *,
        transposed: bool,
    ) -> None:
        self.axes = x.ndim - 2
        if not 1 <= self.axes <= 6:
            raise ValueError(f"X has shape {list(x.shape)}; allowed: rank 3 to 8")
        if w.ndim != x.ndim:
            raise ValueError(f"W has shape {list(w.shape)}; allowed: rank {x.ndim}, as X has")
        own = accumulation_dtype(x.dtype)
        self.sums = own if accumulate is None else np.dtype(accumulate)
        self.result = x.dtype if accumulate is None else self.sums
        for name, given in (("W", w), ("B", bias)):
            if given is not None and given.dtype != x.dtype:
                raise ValueError(f"{name} has type {given.dtype}; allowed: {x.dtype}, as X has")
        self.strides = self.ints("strides", strides, self.axes, 1)
        self.dilations = self.ints("dilations", dilations, self.axes, 1)
        if group < 1:
            raise ValueError(f"group = {group}; allowed: integers >= 1")
        self.group = operator.index(group)
        self.y_perm = self._perm("y_perm", y_perm)
        self.activation = _checked_activation(activation, own)
        self.x = np.transpose(x, self._perm("x_perm", x_perm)).astype(self.sums)
        self.w = np.transpose(w, self._perm("w_perm", w_perm)).astype(self.sums)
        self.kernel = self.w.shape[2:]
        if 0 in self.kernel:
            raise ValueError(f"the kernel has sizes {list(self.kernel)}; allowed: at least 1")
        channels = self.x.shape[1]
        if transposed:
            expected, self.m = self.w.shape[0], self.w.shape[1] * self.group
        else:
            expected, self.m = self.w.shape[1] * self.group, self.w.shape[0]
        if channels != expected:
            raise ValueError(f"X has {channels} channels; allowed: {expected}, as W and group = {self.group} say")
        for name, count in (("input", channels), ("output", self.m)):
            if count % self.group:
                raise ValueError(f"there are {count} {name} channels; allowed: a multiple of group = {self.group}")
        if bias is not None and bias.shape != (self.m,):
            raise ValueError(f"B has shape {list(bias.shape)}; allowed: [{self.m}]")
        self.bias = None if bias is None else bias.astype(self.sums)

    def ints(self, name: str, values: Sequence[int], count: int, least: int | None = None) -> list[int]:
        if len(values) != count or (least is not None and any(value < least for value in values)):
            bound = "" if least is None else f" >= {least}"
            raise ValueError(f"{name} = {list(values)}; allowed: {count} integers{bound}")
        return [operator.index(value) for value in values]

    def _perm(self, name: str, values: Sequence[int]) -> list[int]:
        if sorted(values) != list(range(self.axes + 2)):
            raise ValueError(f"{name} = {list(values)}; allowed: a permutation of 0 to {self.axes + 1}")
        return [operator.index(value) for value in values]

    def extent(self) -> list[int]:
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    def full(self) -> list[int]:
        return [
            max(s * (size - 1) + e, 0) for s, size, e in zip(self.strides, self.x.shape[2:], self.extent(), strict=True)
        ]

    @np.errstate(all="ignore")  # infinities and NaN in the data are data
    def scatter(self, begin: Sequence[int], sizes: Sequence[int]) -> Array:
        """out[x*s + (k*d - b)] += x[x] * w[k]."""
        x, out = self._operands(sizes)
        w = self.w.reshape(self.group, x.shape[2], out.shape[2], *self.kernel)
        for tap in itertools.product(*map(range, self.kernel)):
            source, strided = self._reach(tap, begin, x.shape[3:], sizes)
            product = np.swapaxes(w[_last(tap)], 1, 2) @ _flat(x[_last(source)])
            view = out[_last(strided)]
            view += product.reshape(view.shape)
        return self._finish(out)

    @np.errstate(all="ignore")
    def gather(self, begin: Sequence[int], sizes: Sequence[int]) -> Array:
        """out[y] += x[y*s + (k*d - b)] * w[k]."""
        x, out = self._operands(sizes)
        w = self.w.reshape(self.group, out.shape[2], x.shape[2], *self.kernel)
        for tap in itertools.product(*map(range, self.kernel)):
            target, strided = self._reach(tap, begin, sizes, x.shape[3:])
            product = w[_last(tap)] @ _flat(x[_last(strided)])
            view = out[_last(target)]
            view += product.reshape(view.shape)
        return self._finish(out)

    def _operands(self, sizes: Sequence[int]) -> tuple[Array, Array]:
        """Returns x as [N, group, C/group, X...] and zeros [N, group, M/group, Y...]."""
        batch, channels = self.x.shape[:2]
        x = self.x.reshape(batch, self.group, channels // self.group, *self.x.shape[2:])
        return x, np.zeros((batch, self.group, self.m // self.group, *sizes), self.sums)

    def _reach(
        self, tap: Sequence[int], begin: Sequence[int], counts: Sequence[int], limits: Sequence[int]
    ) -> tuple[list[slice], list[slice]]:
        """Returns per axis the i in [0, count) with 0 <= i*s + (k*d - b) < limit, and those strided positions."""
        plain, strided = [], []
        for k, d, s, b, count, limit in zip(tap, self.dilations, self.strides, begin, counts, limits, strict=True):
            offset = k * d - b
            first = max(-(offset // s), 0)
            last = min((limit - 1 - offset) // s, count - 1)
            if last < first:
                plain.append(slice(0, 0))
                strided.append(slice(0, 0))
            else:
                plain.append(slice(first, last + 1))
                strided.append(slice(first * s + offset, last * s + offset + 1, s))
        return plain, strided

    def _finish(self, out: Array) -> Array:
        out = out.reshape(out.shape[0], self.m, *out.shape[3:])
        if self.bias is not None:
            out += self.bias.reshape(-1, *[1] * self.axes)
        # Overflow to infinity, and integers that keep their low bits, are what the definition asks for.
        out = np.ascontiguousarray(np.transpose(out, self.y_perm).astype(self.result))
        return _activated(out, self.activation, self.sums)


def _checked_activation(values: Sequence[float] | None, sums: np.dtype[Any]) -> tuple[float, float, float] | None:
    """Returns the slope below zero, minimum and maximum, or None where they change nothing."""
    if values is None or tuple(values) == (1, -np.inf, np.inf):
        return None
    if len(values) != 3 or not np.isfinite(values[0]) or not values[1] <= values[2]:
        raise ValueError(f"activation = {list(values)}; allowed: a finite slope, a minimum, a maximum")
    if sums != np.float32:
        raise ValueError(f"activation = {list(values)}; allowed for types that do not sum in float32: none")
    return values[0], values[1], values[2]


def _activated(out: Array, activation: tuple[float, float, float] | None, sums: np.dtype[Any]) -> Array:
    """Returns the result with its activation, which is computed in the type of the sums."""
    if activation is None:
        return out
    slope, minimum, maximum = activation
    wide = out.astype(sums)
    return np.clip(np.where(wide < 0, wide * sums.type(slope), wide), minimum, maximum).astype(out.dtype)


def _last(indices: Sequence[int | slice]) -> tuple[Any, ...]:
    """Indexes the last axes."""
    return (..., *indices)


def _flat(x: Array) -> Array:
    """[N, group, C/group, X...] -> [N, group, C/group, all of X]."""
    return x.reshape(*x.shape[:3], int(np.prod(x.shape[3:])))


def _split(pads: list[int]) -> tuple[list[int], list[int]]:
    return pads[: len(pads) // 2], pads[len(pads) // 2 :]


def _same(auto_pad: str, pads: Sequence[int]) -> bool:
    """Returns whether a SAME rule applies; refuses pads beside one."""
    if auto_pad not in ("NOTSET", "SAME_UPPER", "SAME_LOWER"):
        raise ValueError(f"auto_pad = {auto_pad!r}; allowed: NOTSET, SAME_UPPER, SAME_LOWER")
    if auto_pad != "NOTSET" and any(pads):
        raise ValueError(f"pads {list(pads)} stand beside auto_pad = {auto_pad}; allowed: zeros")
    return auto_pad != "NOTSET"


def _halve(auto_pad: str, total: Sequence[int]) -> list[int]:
    odd = int(auto_pad == "SAME_LOWER")
    return [(t + odd) // 2 for t in total]


FUNCTIONS: Mapping[str, Callable[..., Array]] = {
    "ConvTranspose": conv_transpose,
    "ConvTransposeToShape": conv_transpose_to_shape,
    "Conv": conv,
    "ConvTransposeAdd": conv_transpose_add,
    MATMUL_COMPRESSED: matmul_compressed,
}
"""Op type -> its oracle: inputs by position, attributes (without accumulation_type) by name."""


class _OpRun(OpRun):
    """Evaluates a node by the function of its op type; the evaluator hands attributes over by name."""

    op_domain = DOMAIN
    op_schema = None  # by default onnx would look a schema up by class name, and find its own op of that name

    def _run(self, *inputs: Array | None, accumulation_type: int, **attributes: Any) -> tuple[Array]:
        data = inputs[0]
        assert data is not None
        expected = onnx.helper.np_dtype_to_tensor_dtype(accumulation_dtype(data.dtype))
        if accumulation_type != expected:
            raise ValueError(f"accumulation_type = {accumulation_type}; allowed for {data.dtype}: {expected}")
        return (FUNCTIONS[self.onnx_node.op_type](*inputs, **attributes),)


class _Product(OpRun):
    """Evaluates a node of MatMulCompressed."""

    op_domain = DOMAIN
    op_schema = None

    def _run(self, *inputs: Array | None, **attributes: Any) -> tuple[Array]:
        return (FUNCTIONS[MATMUL_COMPRESSED](*inputs, **attributes),)


OPS: list[type[OpRun]] = [type(name, (_Product if name == MATMUL_COMPRESSED else _OpRun,), {}) for name in FUNCTIONS]
"""Operator classes for ``onnx.reference.ReferenceEvaluator(model, new_ops=OPS)``."""

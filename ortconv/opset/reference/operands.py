"""Checked operands and sums of the NumPy references of the convolutions.

The notation is that of `ortconv.opset.reference.convolutions`.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.helper

from ortconv.opset.convolution_terms import ACCUMULATION

__all__ = ["Array", "Task", "accumulation_dtype", "activated", "checked_activation"]

Array = npt.NDArray[Any]

_ACCUMULATION: dict[np.dtype[Any], np.dtype[Any]] = {
    onnx.helper.tensor_dtype_to_np_dtype(element): onnx.helper.tensor_dtype_to_np_dtype(sums)
    for element, sums in ACCUMULATION.items()
}


def accumulation_dtype(dtype: npt.DTypeLike) -> np.dtype[Any]:
    """Returns the type in which products of an element type are formed and summed.

    Raises:
        ValueError: The operators do not support the element type.
    """
    found = np.dtype(dtype)
    if found not in _ACCUMULATION:
        raise ValueError(f"X has type {found}; allowed: {', '.join(map(str, _ACCUMULATION))}")
    return _ACCUMULATION[found]


class Task:
    """Checked operands in the plain layout and in the accumulation type, and the sums over them.

    Args:
        x: Data.
        w: Weights.
        bias: Bias, or None.
        transposed: Whether the weights are those of a transposed convolution.
        strides: s per spatial axis, >= 1.
        dilations: d per spatial axis, >= 1.
        group: Divides the input channels, and those of the output.
        x_perm: Permutation of all axes.
        w_perm: Permutation of all axes.
        y_perm: Permutation of all axes.
        accumulate: None computes the sums in `accumulation_dtype` and converts each once to the type of `x`; another
            type computes and returns the sums in that type.
        activation: Slope below zero, minimum and maximum, applied to the result in its type.
    """

    def __init__(
        self,
        x: Array,
        w: Array,
        bias: Array | None,
        *,
        transposed: bool,
        strides: Sequence[int],
        dilations: Sequence[int],
        group: int,
        x_perm: Sequence[int],
        w_perm: Sequence[int],
        y_perm: Sequence[int],
        accumulate: npt.DTypeLike | None = None,
        activation: Sequence[float] | None = None,
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
        self.activation = checked_activation(activation, own)
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
        """Returns an attribute's integers.

        Raises:
            ValueError: There are more or fewer than `count`, or one is below `least`.
        """
        if len(values) != count or (least is not None and any(value < least for value in values)):
            bound = "" if least is None else f" >= {least}"
            raise ValueError(f"{name} = {list(values)}; allowed: {count} integers{bound}")
        return [operator.index(value) for value in values]

    def _perm(self, name: str, values: Sequence[int]) -> list[int]:
        if sorted(values) != list(range(self.axes + 2)):
            raise ValueError(f"{name} = {list(values)}; allowed: a permutation of 0 to {self.axes + 1}")
        return [operator.index(value) for value in values]

    def extent(self) -> list[int]:
        """Returns E = (K-1)*d + 1 for each spatial axis."""
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    def full(self) -> list[int]:
        """Returns F = max(s*(X-1) + E, 0), the full size of a transposed convolution, for each spatial axis."""
        return [
            max(s * (size - 1) + e, 0) for s, size, e in zip(self.strides, self.x.shape[2:], self.extent(), strict=True)
        ]

    @np.errstate(all="ignore")  # infinities and NaN in the data are data
    def scatter(self, begin: Sequence[int], sizes: Sequence[int]) -> Array:
        """out[x*s + (k*d - b)] += x[x] * w[k]."""
        x, out = self._operands(sizes)
        if 0 in (x.size, self.w.size, out.size):  # of any number of groups
            return self._finish(out)
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
        if 0 in (x.size, self.w.size, out.size):
            return self._finish(out)
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
        # By definition, floats overflow to infinity and integers wrap.
        out = np.ascontiguousarray(np.transpose(out, self.y_perm).astype(self.result))
        return activated(out, self.activation, self.sums)


def checked_activation(values: Sequence[float] | None, sums: np.dtype[Any]) -> tuple[float, float, float] | None:
    """Returns the slope below zero, minimum and maximum, or None if they change nothing.

    Raises:
        ValueError: The values are no activation, or the type of the sums supports none.
    """
    if values is None or tuple(values) == (1, -np.inf, np.inf):
        return None
    if len(values) != 3 or not np.isfinite(values[0]) or not values[1] <= values[2]:
        raise ValueError(f"activation = {list(values)}; allowed: a finite slope, a minimum, a maximum")
    if sums != np.float32:
        raise ValueError(f"activation = {list(values)}; allowed for types that do not sum in float32: none")
    return values[0], values[1], values[2]


def activated(out: Array, activation: tuple[float, float, float] | None, sums: np.dtype[Any]) -> Array:
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

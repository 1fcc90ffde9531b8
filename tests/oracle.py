"""The independent reference: convolutions from their definition, in float64 or exact integers.

Nothing here imports ortconv. Per axis, with input size X, stride s, dilation d, begin padding b and output size Y:

* transposed: out[x*s - b + k*d] += in[x] * W[k], where the index lies in [0, Y);
* direct: out[y] = sum of in[y*s - b + k*d] * W[k], where the index lies in [0, X).

Data is [N, C, spatial...]; weights are [C, M/group, kernel...] transposed, [M, C/group, kernel...] direct.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Ints = Sequence[int]


def transposed(
    x: np.ndarray,
    w: np.ndarray,
    *,
    strides: Ints,
    dilations: Ints,
    begin: Ints,
    size: Ints,
    group: int = 1,
    bias: np.ndarray | None = None,
) -> np.ndarray:
    """Returns the transposed convolution, [N, M, *size], in float64 (floats) or Python integers (integers)."""
    x, w = exact(x), exact(w)
    per_group = w.shape[1]
    out = np.zeros((x.shape[0], per_group * group, *size), x.dtype)
    inputs = x.shape[1] // group
    for g in range(group):
        source, taps = x[:, g * inputs : (g + 1) * inputs], w[g * inputs : (g + 1) * inputs]
        target = out[:, g * per_group : (g + 1) * per_group]
        for k in np.ndindex(*w.shape[2:]):
            product = np.tensordot(source, taps[(slice(None), slice(None), *k)], axes=([1], [0]))
            product = np.moveaxis(product, -1, 1)
            for at in np.ndindex(*x.shape[2:]):
                to = [a * s - b + i * d for a, s, b, i, d in zip(at, strides, begin, k, dilations, strict=True)]
                if all(0 <= p < y for p, y in zip(to, size, strict=True)):
                    target[(slice(None), slice(None), *to)] += product[(slice(None), slice(None), *at)]
    return add_bias(out, bias)


def direct(
    x: np.ndarray,
    w: np.ndarray,
    *,
    strides: Ints,
    dilations: Ints,
    begin: Ints,
    size: Ints,
    group: int = 1,
    bias: np.ndarray | None = None,
) -> np.ndarray:
    """Returns the convolution, [N, M, *size], in float64 (floats) or Python integers (integers)."""
    x, w = exact(x), exact(w)
    inputs, outputs = w.shape[1], w.shape[0] // group
    out = np.zeros((x.shape[0], w.shape[0], *size), x.dtype)
    for g in range(group):
        source, taps = x[:, g * inputs : (g + 1) * inputs], w[g * outputs : (g + 1) * outputs]
        for at in np.ndindex(*size):
            for k in np.ndindex(*w.shape[2:]):
                frm = [a * s - b + i * d for a, s, b, i, d in zip(at, strides, begin, k, dilations, strict=True)]
                if all(0 <= p < n for p, n in zip(frm, x.shape[2:], strict=True)):
                    read = source[(slice(None), slice(None), *frm)]
                    out[(slice(None), slice(g * outputs, (g + 1) * outputs), *at)] += read @ taps[(..., *k)].T
    return add_bias(out, bias)


def exact(array: np.ndarray) -> np.ndarray:
    """Returns an array in which sums and products are exact: Python integers, or float64 for floats."""
    return array.astype(object if array.dtype.kind in "iu" else np.float64)


def wrapped(array: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Returns exact integers modulo 2**bits as `dtype`; floats converted once."""
    if array.dtype != object:
        return array.astype(dtype)
    bits = 8 * dtype.itemsize
    low = np.array([int(value) % (1 << bits) for value in array.ravel()], dtype=np.uint64).reshape(array.shape)
    return low.astype(np.dtype(f"u{dtype.itemsize}")).view(dtype)


def add_bias(out: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    """Adds a bias [M] along axis 1."""
    return out if bias is None else out + exact(bias).reshape(1, -1, *[1] * (out.ndim - 2))

"""Quantization. The library rounds after it has added the zero point, and to floats of eight bits through f16."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import ml_dtypes
import numpy as np

from tests.converters.onednn_graph.references.call import DTYPES, Call, stored

_F8 = ("f8_e4m3", "f8_e5m2")


def _static(call: Call, name: str) -> np.ndarray:
    """Scales or zero points of the attributes, shaped to broadcast against src."""
    values = np.array(call.get(name, [0]), np.float64)
    x = call.inputs[0]
    if call.get("qtype", "per_tensor") == "per_tensor" or name not in call.attributes:
        return values[0]
    axis = call.get("axis", 1)
    if values.size != x.shape[axis]:
        # The weights of a grouped ConvTranspose in IOX: scales of all groups, though the tensor holds one group's axis.
        groups = values.size // x.shape[1]
        table = np.repeat(values.reshape(groups, x.shape[1]), x.shape[0] // groups, axis=0)
        return table.reshape(x.shape[:2] + (1,) * (x.ndim - 2))
    shape = [1] * x.ndim
    shape[axis] = -1
    return values.reshape(shape)


def _dynamic(call: Call, index: int) -> np.ndarray:
    """Scales or zero points of the inputs, one for each element of src."""
    values, x = call.x(index), call.inputs[0]
    if values.size == 1:
        return values.reshape(())
    sizes = _group_sizes(call, x.shape)
    counts = [dim // size for dim, size in zip(x.shape, sizes, strict=True)]
    full = values.reshape(counts)
    for axis, size in enumerate(sizes):
        full = np.repeat(full, size, axis=axis)
    return full


def _group_sizes(call: Call, shape: Sequence[int]) -> list[int]:
    if call.get("group_shape", None):
        return list(call.attributes["group_shape"])
    if "mask" in call.attributes:
        return [1 if call.attributes["mask"] >> axis & 1 else dim for axis, dim in enumerate(shape)]
    if call.get("qtype", "per_tensor") == "per_channel":
        along = call.get("axis", 1) % len(shape)
        return [1 if axis == along else dim for axis, dim in enumerate(shape)]
    return list(shape)


def _quantized(call: Call, scales: np.ndarray, zps: np.ndarray) -> np.ndarray:
    dtype = call.outputs[0].dtype
    # Rounded as the library does: in float32, in which src, scale and their quotient are.
    quotient = (call.inputs[0].astype(np.float32) / scales.astype(np.float32)).astype(np.float32)
    if dtype in _F8:
        return to_f8(quotient, dtype)
    info = ml_dtypes.iinfo(DTYPES[dtype])
    return np.clip(np.rint((quotient + zps.astype(np.float32)).astype(np.float32)), info.min, info.max)


def to_f8(x: np.ndarray, dtype: str) -> np.ndarray:
    """Rounds twice, and gives infinity or NaN beyond the largest number."""
    return stored(x.astype(np.float16), dtype)


def _affine(call: Call, scales: np.ndarray, zps: np.ndarray) -> np.ndarray:
    return (call.inputs[0].astype(np.float64) - zps) * scales


OPS: dict[str, Callable[[Call], np.ndarray]] = {
    "Dequantize": lambda call: _affine(call, _static(call, "scales"), _static(call, "zps")),
    "DynamicDequantize": lambda call: _affine(
        call, _dynamic(call, 1), _dynamic(call, 2) if call.has(2) else np.zeros(())
    ),
    "DynamicQuantize": lambda call: _quantized(
        call, _dynamic(call, 1), _dynamic(call, 2) if call.has(2) else np.zeros(())
    ),
    "Quantize": lambda call: _quantized(call, np.asarray(_static(call, "scales")), np.asarray(_static(call, "zps"))),
}

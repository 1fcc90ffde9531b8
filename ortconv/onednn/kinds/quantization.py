"""oneDNN's quantization ops in float32, in which the library rounds."""

from __future__ import annotations

import numpy as np

from ortconv.onednn.call import Array, Call
from ortconv.onednn.op_schema import define


def _attribute(call: Call, name: str) -> Array:
    """Reshapes scales or zero points from attributes so that they broadcast against src."""
    found = call.node.attributes.get(name, (0,))
    values = np.array(found, np.float64)
    shape = call.input(0).shape
    if call.text("qtype", "per_tensor") == "per_tensor" or name not in call.node.attributes:
        return values[:1].reshape(())
    axis = int(call.number("axis", 1)) % len(shape)
    if values.size == shape[axis]:
        return values.reshape([-1 if at == axis else 1 for at in range(len(shape))])
    # Weights of a grouped ConvTranspose hold the channels of one group; their scales are those of all groups.
    groups = values.size // shape[axis]
    rows = 0 if axis == 1 else len(shape) - 1
    table = np.repeat(values.reshape(groups, shape[axis]), shape[rows] // groups, axis=0)
    if axis != 1:
        return np.asarray(table.T)
    return table.reshape(table.shape + (1,) * (len(shape) - 2))


def _input(call: Call, index: int) -> Array:
    """Expands scales or zero points from inputs to the shape of src."""
    values = call.optional(index)
    if values is None:
        return np.zeros(())
    values, shape = values.astype(np.float64), call.input(0).shape
    if values.size == 1:
        return values.reshape(())
    sizes = call.ints("group_shape")
    if not sizes:
        mask = int(call.number("mask", -1))
        if mask < 0:
            mask = 1 << int(call.number("axis", 1)) % len(shape)
        sizes = [1 if mask >> axis & 1 else dim for axis, dim in enumerate(shape)]
    spread = values.reshape([dim // size for dim, size in zip(shape, sizes, strict=True)])
    for axis, size in enumerate(sizes):
        spread = np.repeat(spread, size, axis=axis)
    return spread


def _scales_and_zps(call: Call) -> tuple[Array, Array]:
    """Returns scales and zero points: inputs of the dynamic ops, attributes of the others."""
    if len(call.inputs) > 1:
        return _input(call, 1), _input(call, 2)
    return _attribute(call, "scales"), _attribute(call, "zps")


@define("DynamicQuantize", "src scales zps?", "dst", "qtype? axis? mask?", dtype=None)
@define("Quantize", "src", "dst", "scales zps? qtype? axis?", dtype=None)
def _quantize(call: Call) -> Array:
    scales, zps = _scales_and_zps(call)
    quotient = np.asarray(call.input(0).astype(np.float32) / scales.astype(np.float32))
    if call.node.outputs[0].dtype.is_floating_point():
        return quotient.astype(np.float16)  # The caller rounds to 8 bits.
    return np.asarray(quotient + zps.astype(np.float32))


@define("DynamicDequantize", "src scales zps?", "dst", "qtype? axis? group_shape:s64[]? mask?", dtype=1)
@define("Dequantize", "src", "dst", "scales zps? qtype? axis?", dtype="f32")
def _dequantize(call: Call) -> Array:
    scales, zps = _scales_and_zps(call)
    return (call.input(0).astype(np.float64) - zps) * scales

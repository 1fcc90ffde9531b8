"""The operator ``FourierTransform``: what DFT of ai.onnx computes, and the real inverse of Hermitian spectra."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx.defs
import onnx.numpy_helper
import onnx_ir as ir
from onnx import TensorProto

from ortconv.opset.bodies import spectral
from ortconv.opset.inferred_node import Dim, InferredNode
from ortconv.opset.operator import Attribute, Formal, Operator, Switches, Type
from ortconv.opset.ops.spectral_terms import ACCUMULATION, FLOATS, switches_of_types
from ortconv.opset.reference.spectral import fourier_transform

__all__ = ["FOURIER_TRANSFORM"]

_Kind = onnx.defs.OpSchema.AttrType

_DOC = """The discrete Fourier transform of an axis of X, as DFT of ai.onnx defines it in opset 20: X is cut to the
length of the transform, or zeros are added; the inverse transform is scaled by 1 / length.

onesided without inverse returns the first length / 2 + 1 bins, rounded down, of real data. onesided with inverse takes
those bins of a Hermitian spectrum and returns real data; imaginary parts of bin 0, and of bin length / 2 if length is
even, are ignored. float16 and bfloat16 are computed in float."""

_LENGTH = 1
"""Position of the optional input."""


def _flag(node: InferredNode, name: str) -> bool:
    value = node.integer(name)
    if value not in (0, 1):
        raise node.fail(f"attribute {name} = {value} is not allowed; allowed: 0 and 1")
    return bool(value)


def _infer(node: InferredNode) -> list[Dim] | None:
    axis, inverse, onesided = node.integer("axis"), _flag(node, "inverse"), _flag(node, "onesided")
    shape = node.dims(0)
    given = _given_length(node)
    if shape is None:
        return None
    rank = len(shape)
    if rank < 2 or (isinstance(shape[-1], int) and shape[-1] not in (1, 2)):
        raise node.fail(f"X has shape {shape}; allowed: two axes or more, the last one 1 or 2")
    if not -rank <= axis < rank or axis in (-1, rank - 1):
        raise node.fail(f"attribute axis = {axis} is not allowed; allowed: {-rank} to {rank - 2} but -1")
    if onesided and isinstance(shape[-1], int) and shape[-1] != 1 + inverse:
        raise node.fail(f"the last axis of X has size {shape[-1]}; allowed if onesided: {1 + inverse}")
    axis %= rank
    size = shape[axis]
    length: Dim = given
    if given == 0:
        length = (2 * (size - 1) if inverse and onesided else size) if isinstance(size, int) else None
        if isinstance(length, int) and length < 1:
            raise node.fail(f"the length of the transform is {length}; allowed: at least 1")
    result = list(shape)
    if onesided and not inverse:
        result[axis] = length // 2 + 1 if isinstance(length, int) else None
    elif given == 0 and not onesided:
        result[axis] = size
    else:
        result[axis] = length
    result[-1] = 1 if onesided and inverse else 2
    return result


def _given_length(node: InferredNode) -> int | None:
    """Returns the input `length`, 0 without one, or None if it is not known."""
    if not node.has(_LENGTH):
        return 0
    shape = node.dims(_LENGTH)
    if shape not in (None, [], [1]):
        raise node.fail(f"length has shape {shape}; allowed: a scalar")
    data = node.ctx.get_input_data(_LENGTH)
    if data is None:
        return None
    value = int(onnx.numpy_helper.to_array(data).reshape(()))
    if value < 0:
        raise node.fail(f"length is {value}; allowed: at least 0")
    return value


def _unify(nodes: Sequence[ir.Node], graph: ir.Graph) -> Switches:
    """Gives all nodes a length, 0 for the default, if one has a length."""
    switches = switches_of_types(nodes, graph)
    if not any(len(node.inputs) > _LENGTH and node.inputs[_LENGTH] is not None for node in nodes):
        for node in nodes:
            node.resize_inputs(_LENGTH)
        return switches
    for node in nodes:
        node.resize_inputs(_LENGTH + 1)
        if node.inputs[_LENGTH] is None:
            zero = ir.tensor(np.array(0, np.int64), name=f"{node.name or node.outputs[0].name}/length")
            value = ir.Value(
                name=zero.name, type=ir.TensorType(ir.DataType.INT64), shape=ir.Shape([]), const_value=zero
            )
            assert value.name is not None
            graph.initializers[value.name] = value
            node.replace_input_with(_LENGTH, value)
    return switches | {spectral.LENGTH}


FOURIER_TRANSFORM = Operator(
    name="FourierTransform",
    doc=_DOC,
    types={"T": FLOATS, "L": Type((TensorProto.INT64,), "Lengths.")},
    inputs=(
        Formal("X", "T", "Data [..., size, ..., 1 or 2]: the last axis holds real parts, or real and imaginary parts."),
        Formal(
            spectral.LENGTH,
            "L",
            "Length of the transform, a scalar; 0 or none is the size of the axis, or 2 * (size - 1) if inverse and "
            "onesided.",
            optional=True,
        ),
    ),
    output=Formal("Y", "T", "The transform [..., count, ..., 1 or 2]."),
    attributes=(
        Attribute("axis", _Kind.INT, "The axis, from the end if negative; not the last one."),
        Attribute("inverse", _Kind.INT, "1 for the inverse transform, else 0."),
        Attribute("onesided", _Kind.INT, "1 for the bins of real data, else 0."),
    ),
    accumulation=ACCUMULATION,
    infer=_infer,
    oldest_opset=spectral.OLDEST,
    text=spectral.fourier_transform,
    reference=fourier_transform,
    switches=(spectral.DOUBLE, spectral.LENGTH),
    unify=_unify,
)

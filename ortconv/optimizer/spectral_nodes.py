"""STFT and DFT of ai.onnx -> ForwardSTFT and FourierTransform."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.graph.constant_values import constant
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops.forward_stft import FORWARD_STFT
from ortconv.opset.ops.fourier_transform import FOURIER_TRANSFORM
from ortconv.optimizer.emission import Emitter
from ortconv.optimizer.neighbours import require_no_pad_with_axes
from ortconv.optimizer.site import Left, Outcome, Shapes, name_of
from ortconv.optimizer.spectral_basis import BOTH, LEAST_TAPS
from ortconv.optimizer.spectral_layers import require_opset
from ortconv.optimizer.values import element_type

__all__ = ["dft", "stft"]

_TYPES = (ir.DataType.FLOAT, ir.DataType.DOUBLE)
"""Element types for which ONNX Runtime has kernels of both."""

_AXIS_IS_INPUT = 20
"""The version of ai.onnx from which DFT has its axis as an input."""


def stft(node: ir.Node, shapes: Shapes, opset: int, emitter: Emitter) -> Outcome:
    """Replaces an STFT of real signals, with Reshape and Transpose, as its result lies otherwise.

    Args:
        node: The node.
        shapes: Shapes of values of the model, where they are certain.
        opset: The model's version of ai.onnx.
        emitter: What changes the model.

    Raises:
        Left: The node stays; the message says why.
    """
    signal, step, window, length = (*node.inputs, None, None, None)[:4]
    if signal is None:
        raise Left("an input is missing")
    require_opset(FORWARD_STFT, opset)
    dtype, onesided = _dtype(signal), _flag(node, "onesided", 1)
    shape = shapes.get(str(signal.name))
    if shape is None or len(shape) not in (2, 3) or (len(shape) == 3 and shape[2] != 1):
        raise Left("its signal is not known to be real")
    hop, given = _number(step), None if length is None else _number(length)
    taps = None if window is None else constant(window)
    if hop is None or hop < 1 or (window is not None and taps is None) or (length is not None and given is None):
        raise Left("its frame_step, window or frame_length is not a constant")
    if taps is not None and len(taps.shape) != 1:
        raise Left(f"its window has shape {list(taps.shape.numpy())}")
    n_fft = given if taps is None else int(taps.shape.numpy()[0])
    if n_fft is None or (given is not None and given != n_fft):
        raise Left(f"its frames have length {given}, its window {n_fft}")
    if n_fft < LEAST_TAPS:
        raise Left(f"its frames have length {n_fft}, for which a fast Fourier transform does not pay")
    require_no_pad_with_axes(signal, node.outputs[0])
    bins = n_fft // 2 + 1 if onesided else n_fft
    numpy = dtype.numpy()
    values = np.ones(n_fft, numpy) if taps is None else taps.numpy().astype(numpy)
    gains = np.repeat(np.array([1, -1], numpy), bins)
    name, new, data = name_of(node), list[ir.Node](), signal
    if len(shape) == 3:
        new.append(ir.node("Squeeze", [data, _integers(emitter, node, "last", 2)], name=f"{name}/squeeze"))
        data = emitter.intermediate(node, "row", new[-1], dtype)
    new.append(ir.node("Unsqueeze", [data, _integers(emitter, node, "channel", 1)], name=f"{name}/unsqueeze"))
    data = emitter.intermediate(node, "signal", new[-1], dtype)
    new.append(
        ir.node(
            FORWARD_STFT.name,
            [data, emitter.constant(node, "window", values), emitter.constant(node, "gains", gains)],
            {"n_fft": n_fft, "hop": (hop,), "pads": (0, 0), "parts": BOTH},
            domain=DOMAIN,
            name=node.name,
            doc_string=node.doc_string,
            metadata_props=dict(node.metadata_props),
        )
    )
    # Two axes at a time take an eighth of the time of one Transpose of three, which ONNX Runtime would make of two.
    channels = emitter.intermediate(node, "channels", new[-1], dtype)
    new.append(ir.node("Einsum", [channels], {"equation": "bct->btc"}, name=f"{name}/frames"))
    frames = emitter.intermediate(node, "frames", new[-1], dtype)
    halves = _integers(emitter, node, "halves", 0, 0, 2, bins)
    new.append(ir.node("Reshape", [frames, halves], name=f"{name}/reshape"))
    parts = emitter.intermediate(node, "parts", new[-1], dtype)
    new.append(ir.node("Transpose", [parts], {"perm": (0, 1, 3, 2)}, name=f"{name}/transpose"))
    old = node.outputs[0]
    emitter.replace([node], new, old, old.shape or ir.Shape([None] * 4), dtype, node.inputs[1:])
    text = f"n_fft {n_fft}, hop {hop}, window {n_fft}, bins {bins}"
    return Outcome(name, FORWARD_STFT.name, op_type=node.op_type, recognised=text)


def dft(node: ir.Node, shapes: Shapes, opset: int, emitter: Emitter) -> Outcome:
    """Replaces a DFT. Arguments and errors as of `stft`."""
    x, length, axis_input = (*node.inputs, None, None)[:3]
    if x is None:
        raise Left("an input is missing")
    require_opset(FOURIER_TRANSFORM, opset)
    dtype, inverse, onesided = _dtype(x), _flag(node, "inverse", 0), _flag(node, "onesided", 0)
    if inverse and onesided:
        raise Left("it is inverse and onesided, which ONNX Runtime refuses")
    axis: int | None
    if opset >= _AXIS_IS_INPUT:
        axis = -2 if axis_input is None else _number(axis_input)
    else:
        axis = node.attributes.get_int("axis", 1)
    if axis is None:
        raise Left("its axis is not a constant")
    given = None if length is None else _number(length)
    shape = shapes.get(str(x.name))
    if shape is None or shape[-1] not in (1, 2):
        raise Left("its input is not known to be real or complex")
    if not -len(shape) <= axis < len(shape) - 1 or axis == -1:
        raise Left(f"its axis is {axis}, of {len(shape)}")
    if onesided and shape[-1] != 1:
        raise Left("it is onesided, and its input is complex")
    size = shape[axis] if length is None else given
    if isinstance(size, int) and size < LEAST_TAPS:
        raise Left(f"its length is {size}, for which a fast Fourier transform does not pay")
    require_no_pad_with_axes(x, node.outputs[0])
    new, inputs = list[ir.Node](), [x]
    name = name_of(node)
    if length is not None:
        if element_type(length) == ir.DataType.INT64:
            inputs.append(length)
        elif given is not None:
            inputs.append(emitter.constant(node, "length", np.array(given, np.int64)))
        else:
            new.append(ir.node("Cast", [length], {"to": ir.DataType.INT64}, name=f"{name}/cast"))
            inputs.append(emitter.intermediate(node, "length", new[-1], ir.DataType.INT64))
    new.append(
        ir.node(
            FOURIER_TRANSFORM.name,
            inputs,
            {"axis": axis, "inverse": int(inverse), "onesided": int(onesided)},
            domain=DOMAIN,
            name=node.name,
            doc_string=node.doc_string,
            metadata_props=dict(node.metadata_props),
        )
    )
    old = node.outputs[0]
    emitter.replace([node], new, old, old.shape or ir.Shape([None] * len(shape)), dtype, node.inputs[1:])
    text = f"n_fft {'of the run' if not isinstance(size, int) else size}, {'inverse' if inverse else 'forward'}"
    return Outcome(name, FOURIER_TRANSFORM.name, op_type=node.op_type, recognised=text)


def _dtype(value: ir.Value) -> ir.DataType:
    found = element_type(value)
    if found not in _TYPES:
        raise Left(f"its element type is {found}; allowed: FLOAT and DOUBLE, stated")
    return found


def _flag(node: ir.Node, name: str, default: int) -> bool:
    attribute = node.attributes.get(name)
    if attribute is not None and attribute.is_ref():
        raise Left("its attributes are those of a function")
    return node.attributes.get_int(name, default) != 0


def _number(value: ir.Value | None) -> int | None:
    """Returns the integer that a constant holds, or None."""
    data = constant(value)
    return int(data.numpy().reshape(-1)[0]) if data is not None and data.size == 1 else None


def _integers(emitter: Emitter, node: ir.Node, role: str, *values: int) -> ir.Value:
    return emitter.constant(node, role, np.array(values, np.int64))

"""Wrong conversions: a model in which one thing is not what its source says.

A change counts as wrong where a number shows it: the changed node computes something else of the same inputs, beyond
what rounding does to its results, and so do the model's outputs. ONNX Runtime tells, which computes both models; the
verification is not asked.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import onnx
import onnxruntime

from ortconv.model_io.input_data import Array

__all__ = ["Mutant", "effect", "mutants"]

_POOLS = {"AveragePool", "MaxPool"}
_WINDOWS = _POOLS | {"Conv", "ConvTranspose"}
_PRODUCTS = {"Conv", "ConvTranspose", "Gemm", "MatMul"}
_ACTIVATIONS = {"Clip", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu", "Mish", "PRelu", "Relu", "Sigmoid"} | {
    "Softplus",
    "Tanh",
}
_ARITHMETIC = {"Add", "Div", "Mul", "Sub"}

Change = Callable[[onnx.NodeProto, "_Tensors"], str]
"""Changes a node, or constants that it reads; returns what it did, or "" if it does not apply."""


@dataclasses.dataclass(frozen=True)
class Mutant:
    """A changed model.

    Attributes:
        model: It.
        node: Outputs of the changed node.
        what: What changed.
    """

    model: onnx.ModelProto
    node: tuple[str, ...]
    what: str


def mutants(model: onnx.ModelProto, count: int, seed: int) -> Iterator[Mutant]:
    """Yields changed models, each with one change, drawn at random among the kinds of changes first.

    Args:
        model: The model; left as it is.
        count: How many changes are tried.
        seed: Of the random choices.
    """
    rng = np.random.default_rng(seed)
    for _ in range(count):
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        tensors = _Tensors(changed)
        change = _CHANGES[int(rng.integers(len(_CHANGES)))]
        nodes = list(changed.graph.node)
        for index in rng.permutation(len(nodes)):
            node = nodes[index]
            if what := change(node, tensors):
                yield Mutant(changed, tuple(node.output), f"{node.op_type} {node.name}: {what}")
                break


def effect(model: onnx.ModelProto, mutant: Mutant, feeds: Mapping[str, Array]) -> tuple[float, float]:
    """Returns how much a change does: to its node's results, and to the model's outputs; infinite for other shapes.

    Both are root mean squares of differences, relative to those of the results.
    """
    before, after = (_run(each, mutant.node, feeds) for each in (model, mutant.model))
    if after is None or before is None:
        return np.inf, np.inf
    outputs = [output.name for output in model.graph.output]
    return (
        max(_distance(before[name], after[name]) for name in mutant.node if name in before),
        max(_distance(before[name], after[name]) for name in outputs),
    )


def _run(model: onnx.ModelProto, names: tuple[str, ...], feeds: Mapping[str, Array]) -> dict[str, Array] | None:
    shown = onnx.ModelProto()
    shown.CopyFrom(model)
    present = {output.name for output in shown.graph.output}
    shown.graph.output.extend(onnx.ValueInfoProto(name=name) for name in names if name and name not in present)
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        session = onnxruntime.InferenceSession(shown.SerializeToString(), options, providers=["CPUExecutionProvider"])
        wanted = [output.name for output in session.get_outputs()]
        return dict(zip(wanted, session.run(wanted, dict(feeds)), strict=True))
    except Exception:  # Its exception classes have no common base.
        return None


def _distance(one: Array, other: Array) -> float:
    if one.shape != other.shape:
        return np.inf
    expected, difference = one.astype(np.float64), other.astype(np.float64) - one.astype(np.float64)
    if not np.isfinite(expected).all() or not difference.any():
        return 0.0
    size = float(np.sqrt(np.mean(np.square(expected))))
    return float(np.sqrt(np.mean(np.square(difference)))) / size if size else np.inf


class _Tensors:
    """The constants of a model: an initializer that several nodes read is copied before it changes."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._model = model
        self._found = {each.name: each for each in model.graph.initializer}
        self._made = {name: node for node in model.graph.node for name in node.output}

    def of(self, node: onnx.NodeProto, index: int) -> Array | None:
        """Returns the constant that a node reads, or None."""
        if index >= len(node.input) or node.input[index] not in self._found:
            return None
        return onnx.numpy_helper.to_array(self._found[node.input[index]])

    def behind(self, node: onnx.NodeProto, index: int) -> onnx.NodeProto | None:
        """Returns what computes an input."""
        return self._made.get(node.input[index]) if index < len(node.input) else None

    def replace(self, node: onnx.NodeProto, index: int, array: Array) -> None:
        """Gives a node another constant."""
        name = f"{node.input[index]}.mutated"
        self._model.graph.initializer.append(onnx.numpy_helper.from_array(np.ascontiguousarray(array), name))
        node.input[index] = name


def _attribute(node: onnx.NodeProto, name: str) -> onnx.AttributeProto | None:
    return next((each for each in node.attribute if each.name == name), None)


def _set(node: onnx.NodeProto, name: str, value: object) -> None:
    found = _attribute(node, name)
    if found is not None:
        node.attribute.remove(found)
    node.attribute.append(onnx.helper.make_attribute(name, value))


def _move_pads(node: onnx.NodeProto, tensors: _Tensors) -> str:
    pads = _attribute(node, "pads")
    if node.op_type not in _WINDOWS or pads is None:
        return ""
    values, half = list(pads.ints), len(pads.ints) // 2
    axis = next((axis for axis in range(half) if values[axis] or values[axis + half]), None)
    if axis is None:
        return ""
    step = 1 if values[axis] else -1
    values[axis] -= step
    values[axis + half] += step
    _set(node, "pads", values)
    return f"pads {values}"


def _dilate(node: onnx.NodeProto, tensors: _Tensors) -> str:
    """Dilates a kernel of 3, whose pads keep the size."""
    kernel, pads, dilations = (_attribute(node, name) for name in ("kernel_shape", "pads", "dilations"))
    if node.op_type != "Conv" or kernel is None or pads is None or set(kernel.ints) != {3} or set(pads.ints) != {1}:
        return ""
    if dilations is not None and set(dilations.ints) != {1}:
        return ""
    _set(node, "dilations", [2] * len(kernel.ints))
    _set(node, "pads", [2] * len(pads.ints))
    return "dilations 2"


def _scale_weights(node: onnx.NodeProto, tensors: _Tensors) -> str:
    if node.op_type not in _PRODUCTS:
        return ""
    for index in (1, 0):
        found = tensors.of(node, index)
        if found is not None and found.dtype == np.float32 and found.ndim > 1:
            tensors.replace(node, index, found * np.float32(1.01))
            return "weights * 1.01"
    return ""


def _scale_codes(node: onnx.NodeProto, tensors: _Tensors) -> str:
    if node.op_type != "DequantizeLinear" or tensors.of(node, 0) is None:
        return ""
    scale = tensors.of(node, 1)
    if scale is None or scale.dtype != np.float32:
        return ""
    tensors.replace(node, 1, scale * np.float32(1.03))
    return "scale of weights * 1.03"


def _scale_integers(node: onnx.NodeProto, tensors: _Tensors) -> str:
    if node.op_type not in {"ConvIntegerToFloat", "DequantizeLinear", "MatMulInteger", "QLinearConv"}:
        return ""
    for index in range(len(node.input)):
        found = tensors.of(node, index)
        if found is not None and found.dtype == np.int8 and found.ndim > 1:
            tensors.replace(node, index, np.clip(np.rint(found * 1.03), -128, 127).astype(np.int8))
            return "weights of int8 * 1.03"
    return ""


def _shift_zero_point(node: onnx.NodeProto, tensors: _Tensors) -> str:
    found = tensors.of(node, 2)
    if node.op_type not in {"DequantizeLinear", "QuantizeLinear"} or found is None or tensors.of(node, 0) is not None:
        return ""
    tensors.replace(node, 2, found + np.ones((), found.dtype))
    return "zero point + 1"


def _scale_step(node: onnx.NodeProto, tensors: _Tensors) -> str:
    found = tensors.of(node, 1)
    if node.op_type not in {"DequantizeLinear", "QuantizeLinear"} or found is None or tensors.of(node, 0) is not None:
        return ""
    tensors.replace(node, 1, found * np.float32(1.01))
    return "scale * 1.01"


def _round_down(node: onnx.NodeProto, tensors: _Tensors) -> str:
    if node.op_type != "Round":
        return ""
    node.op_type = "Floor"
    return "Floor"


def _shift_bias(node: onnx.NodeProto, tensors: _Tensors) -> str:
    for index in (1, 2):
        found = tensors.of(node, index)
        wanted = node.op_type in {"Conv", "ConvTranspose", "Gemm"} if index == 2 else node.op_type in _ARITHMETIC
        if wanted and found is not None and found.dtype == np.float32 and found.size > 1:
            axis = int(np.argmax(found.shape))
            tensors.replace(node, index, np.roll(found, 1, axis))
            return "bias by one channel"
    return ""


def _shift_weights(node: onnx.NodeProto, tensors: _Tensors) -> str:
    found = tensors.of(node, 1)
    if node.op_type not in _PRODUCTS or found is None or found.ndim < 2:
        return ""
    axis = int(np.argmax(found.shape))
    tensors.replace(node, 1, np.roll(found, 1, axis))
    return f"weights by one along axis {axis}"


def _one_channel(node: onnx.NodeProto, tensors: _Tensors) -> str:
    found = tensors.of(node, 1)
    if node.op_type not in _PRODUCTS or found is None or found.ndim < 2 or found.dtype != np.float32:
        return ""
    changed = found.copy()
    changed[0] *= np.float32(1.01)
    tensors.replace(node, 1, changed)
    return "weights of one channel * 1.01"


def _swap_axes(node: onnx.NodeProto, tensors: _Tensors) -> str:
    perm = _attribute(node, "perm")
    if node.op_type != "Transpose" or perm is None or len(perm.ints) < 2:
        return ""
    values = list(perm.ints)
    values[-1], values[-2] = values[-2], values[-1]
    _set(node, "perm", values)
    return f"perm {values}"


def _other_axis(node: onnx.NodeProto, tensors: _Tensors) -> str:
    axis = _attribute(node, "axis")
    if node.op_type not in {"LogSoftmax", "Softmax"} or axis is None:
        return ""
    _set(node, "axis", 1 if axis.i != 1 else -1)
    return "axis"


def _swap_inputs(node: onnx.NodeProto, tensors: _Tensors) -> str:
    if node.op_type not in {"Concat", "Div", "Sub"} or len(node.input) < 2:
        return ""
    node.input[0], node.input[1] = node.input[1], node.input[0]
    return "inputs swapped"


def _drop(node: onnx.NodeProto, tensors: _Tensors) -> str:
    if node.op_type not in _ACTIVATIONS:
        return ""
    node.op_type = "Identity"
    del node.input[1:]
    del node.attribute[:]
    return "dropped"


def _scale_constant(node: onnx.NodeProto, tensors: _Tensors) -> str:
    for index in (0, 1):
        found = tensors.of(node, index)
        if node.op_type in _ARITHMETIC and found is not None and found.dtype == np.float32:
            tensors.replace(node, index, found * np.float32(1.01))
            return "constant * 1.01"
    return ""


def _epsilon(node: onnx.NodeProto, tensors: _Tensors) -> str:
    epsilon = _attribute(node, "epsilon")
    if epsilon is None:
        return ""
    _set(node, "epsilon", float(np.float32(epsilon.f * 100)))
    return "epsilon * 100"


def _slope(node: onnx.NodeProto, tensors: _Tensors) -> str:
    for name in ("alpha", "beta"):
        found = _attribute(node, name)
        if found is not None and found.type == onnx.AttributeProto.FLOAT:
            _set(node, name, float(np.float32(found.f * 1.05)))
            return f"{name} * 1.05"
    return ""


def _resize(node: onnx.NodeProto, tensors: _Tensors) -> str:
    mode = _attribute(node, "coordinate_transformation_mode")
    if node.op_type != "Resize":
        return ""
    wanted = "align_corners" if mode is None or mode.s != b"align_corners" else "half_pixel"
    _set(node, "coordinate_transformation_mode", wanted)
    return wanted


def _pool(node: onnx.NodeProto, tensors: _Tensors) -> str:
    if node.op_type == "MaxPool" and len(node.output) == 1:
        node.op_type = "AveragePool"
        for name in ("storage_order",):
            found = _attribute(node, name)
            if found is not None:
                node.attribute.remove(found)
        return "AveragePool"
    if node.op_type == "AveragePool":
        padded = _attribute(node, "count_include_pad")
        _set(node, "count_include_pad", 0 if padded is not None and padded.i else 1)
        return "count_include_pad"
    return ""


_CHANGES: tuple[Change, ...] = (
    *(_move_pads, _dilate, _scale_weights, _scale_codes, _scale_integers, _shift_zero_point, _scale_step, _round_down),
    *(_shift_bias, _shift_weights, _one_channel, _swap_axes, _other_axis, _swap_inputs, _drop, _scale_constant),
    *(_epsilon, _slope, _resize, _pool),
)

"""A float64 reference for oneDNN graphs, written from the definitions and independent of the lowerings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ortconv.builder import Semantics
from ortconv.errors import ExecutionError
from ortconv.inputs import Array
from ortconv.source import SourceGraph, SourceNode, SourceValue
from ortconv.verification.bilinear import BilinearMap
from ortconv.verification.oracle import Results

__all__ = ["OneDnnReference"]

_RUNTIME = "float64 reference"


class OneDnnReference:
    """Evaluates a graph in float64; a tensor of a type narrower than float32 is rounded to it where it is produced.

    Args:
        graph: The source.
        semantics: "spec" follows the pages, "runtime" the library, where they differ.
    """

    title = "float64 reference"
    precision = ir.DataType.DOUBLE

    def __init__(self, graph: SourceGraph, semantics: Semantics) -> None:
        self._graph = graph
        self._semantics: Semantics = semantics

    def run(self, feeds: Mapping[str, Array], *, everything: bool) -> Results:
        """Evaluates the graph.

        Args:
            feeds: Data by input name.
            everything: Whether the intermediate results are wanted, too.

        Raises:
            ExecutionError: The reference does not know an op, or its inputs do not fit.
        """
        with np.errstate(all="ignore"):  # Infinities and NaN in the data are data.
            return self._run(feeds, everything)

    def _run(self, feeds: Mapping[str, Array], everything: bool) -> Results:
        known: dict[SourceValue, Array] = {value: _widened(feeds[value.name]) for value in self._graph.inputs}
        for node in self._graph.nodes:
            for value in node.inputs:
                if value is not None and value.constant is not None:
                    known.setdefault(value, _widened(value.constant.numpy()))
            results = self._evaluate(node, [None if value is None else known[value] for value in node.inputs])
            known.update(zip(node.outputs, results, strict=True))
        outputs = tuple(_stored(known[output.value], output.value) for output in self._graph.outputs)
        computed = [value for node in self._graph.nodes for value in node.outputs] if everything else []
        return Results(outputs, {value.name: _stored(known[value], value) for value in computed})

    def _evaluate(self, node: SourceNode, inputs: Sequence[Array | None]) -> list[Array]:
        kind = node.ref.op_type
        if kind == "End":
            return []
        if kind not in _OPS:
            raise ExecutionError(
                node.ref.file, _RUNTIME, f"does not know {kind} {node.ref.name!r}; it knows {', '.join(sorted(_OPS))}."
            )
        try:
            result = _OPS[kind](_Call(node, inputs, self._semantics))
        except (ValueError, IndexError) as error:
            raise ExecutionError(node.ref.file, _RUNTIME, f"{kind} {node.ref.name!r} fails: {error}") from error
        dtype = node.outputs[0].dtype
        return [result if dtype.bitwidth >= 32 else _widened(_stored(result, node.outputs[0]))]


def _widened(array: Array) -> Array:
    return array.astype(np.float64) if ir.DataType.from_numpy(array.dtype).is_floating_point() else array


def _stored(array: Array, value: SourceValue) -> Array:
    return array.astype(value.dtype.numpy())


@dataclasses.dataclass(frozen=True)
class _Call:
    """An op at work: its node, the data of its inputs, and which reading is wanted."""

    node: SourceNode
    inputs: Sequence[Array | None]
    semantics: Semantics

    def input(self, index: int) -> Array:
        found = self.inputs[index]
        if found is None:
            raise ValueError(f"input {index} is missing")
        return found

    def optional(self, index: int) -> Array | None:
        return self.inputs[index] if index < len(self.inputs) else None

    def ints(self, name: str) -> list[int]:
        """Returns a list; empty for one that is absent or, as the library writes it, twelve zeros."""
        found = self.node.attributes.get(name, ())
        values = [int(value) for value in found]  # type: ignore[attr-defined]
        return values if any(values) or len(values) != 12 else []

    def text(self, name: str, default: str) -> str:
        return str(self.node.attributes.get(name, default)).casefold()

    def number(self, name: str, default: float) -> float:
        return float(self.node.attributes.get(name, default))  # type: ignore[arg-type]

    @property
    def channels_last(self) -> bool:
        return self.text("data_format", "NXC") == "nxc"

    def ncx(self, array: Array) -> Array:
        return np.moveaxis(array, -1, 1) if self.channels_last else array

    def own(self, array: Array) -> Array:
        """Takes data from [N, C, spatial...] to the node's format."""
        return np.moveaxis(array, 1, -1) if self.channels_last else array

    @property
    def kernel_first(self) -> bool:
        return self.text("weights_format", "XIO").startswith("x")

    def weights(self, array: Array) -> Array:
        """Takes weights to [a, b, kernel...]."""
        return np.moveaxis(array, (-1, -2), (0, 1)) if self.kernel_first else array

    def own_weights(self, array: Array) -> Array:
        """Takes weights from [a, b, kernel...] to the node's format."""
        return np.moveaxis(array, (0, 1), (-1, -2)) if self.kernel_first else array

    def per_channel(self, array: Array, rank: int) -> Array:
        """Shapes [C] so that it broadcasts against data in the node's format."""
        return array if self.channels_last else array.reshape(-1, *[1] * (rank - 2))

    def declared(self) -> list[int] | None:
        shape = self.node.outputs[0].shape or (None,)
        sizes = [dim for dim in shape if isinstance(dim, int)]
        return sizes if len(sizes) == len(shape) else None

    def target(self, name: str) -> list[int]:
        """Returns dst_shape or weights_shape: input, else attribute, else declared; the library asks the last first."""
        data = self.optional(2)
        places = [[int(size) for size in data] if data is not None else None, self.ints(name) or None, self.declared()]
        if self.semantics == "runtime" and data is None:
            places.reverse()
        found = next((place for place in places if place is not None), None)
        if found is None:
            raise ValueError(f"{name} is not given anywhere")
        return found


def _map(call: _Call) -> BilinearMap:
    return BilinearMap(
        strides=call.ints("strides"),
        dilations=call.ints("dilations"),
        groups=int(call.number("groups", 1)),
        rule=call.text("auto_pad", "none"),
        begin=call.ints("pads_begin"),
        end=call.ints("pads_end"),
    )


def _convolution(call: _Call) -> Array:
    m = _map(call)
    src, weights = call.ncx(call.input(0)), call.weights(call.input(1))
    begin, end = m.convolution_pads(src.shape[2:], weights.shape[2:])
    sizes = m.convolution_sizes(src.shape[2:], weights.shape[2:], begin, end)
    return _biased(call, call.own(m.to_small(src, weights, begin, sizes)))


def _convolution_backward_data(call: _Call) -> Array:
    m = _map(call)
    diff_dst, weights = call.ncx(call.input(0)), call.weights(call.input(1))
    shape = call.target("dst_shape")
    sizes = shape[1:-1] if call.channels_last else shape[2:]
    if call.semantics == "runtime":
        begin, _ = m.convolution_pads(sizes, weights.shape[2:])
    else:
        extra = call.ints("output_padding") or [0] * len(sizes)
        full = m.full(diff_dst.shape[2:], weights.shape[2:])
        totals = [size - y + more for size, y, more in zip(full, sizes, extra, strict=True)]
        begin, _ = m.split(totals, upper_is_smaller=False)
    return call.own(m.to_big(diff_dst, weights, begin, sizes))


def _convolution_backward_weights(call: _Call) -> Array:
    m = _map(call)
    src, diff_dst = call.ncx(call.input(0)), call.ncx(call.input(1))
    kernel = _kernel(call)
    begin, _ = m.convolution_pads(src.shape[2:], kernel)
    return call.own_weights(m.to_weights(diff_dst, src, begin, kernel))


def _conv_transpose(call: _Call) -> Array:
    m = _map(call)
    src, weights = call.ncx(call.input(0)), call.weights(call.input(1))
    begin, end = m.transpose_pads(weights.shape[2:])
    extra = call.ints("output_padding") or [0] * len(begin)
    full = m.full(src.shape[2:], weights.shape[2:])
    sizes = [size - b - e + more for size, b, e, more in zip(full, begin, end, extra, strict=True)]
    return _biased(call, call.own(m.to_big(src, weights, begin, sizes)))


def _conv_transpose_backward_data(call: _Call) -> Array:
    m = _map(call)
    diff_dst, weights = call.ncx(call.input(0)), call.weights(call.input(1))
    begin, end = m.convolution_pads(diff_dst.shape[2:], weights.shape[2:])
    sizes = m.convolution_sizes(diff_dst.shape[2:], weights.shape[2:], begin, end)
    return call.own(m.to_small(diff_dst, weights, begin, sizes))


def _conv_transpose_backward_weights(call: _Call) -> Array:
    m = _map(call)
    src, diff_dst = call.ncx(call.input(0)), call.ncx(call.input(1))
    kernel = _kernel(call)
    if call.semantics == "runtime":  # The library applies the rule of a convolution to the small side.
        begin, _ = m.convolution_pads(src.shape[2:], kernel)
    else:
        begin, _ = m.transpose_pads(kernel)
    return call.own_weights(m.to_weights(src, diff_dst, begin, kernel))


def _kernel(call: _Call) -> list[int]:
    shape = call.target("weights_shape")
    return shape[:-2] if call.kernel_first else shape[2:]


def _biased(call: _Call, data: Array) -> Array:
    bias = call.optional(2)
    return data if bias is None else data + call.per_channel(bias, data.ndim)


def _bias_add(call: _Call) -> Array:
    return call.input(0) + call.per_channel(call.input(1), call.input(0).ndim)


def _batch_norm(call: _Call) -> Array:
    src = call.input(0)
    gamma, beta, mean, variance = (call.per_channel(call.input(i), src.ndim) for i in range(1, 5))
    result: Array = gamma * (src - mean) / np.sqrt(variance + call.number("epsilon", 0.0)) + beta
    return result


def _reshape(call: _Call) -> Array:
    src = call.input(0)
    shape = [int(size) for size in call.node.attributes["shape"]]  # type: ignore[attr-defined]
    if call.node.attributes.get("special_zero"):
        shape = [src.shape[axis] if size == 0 else size for axis, size in enumerate(shape)]
    return src.reshape(shape)


def _transpose(call: _Call) -> Array:
    src = call.input(0)
    return np.transpose(src, [int(axis) % src.ndim for axis in call.node.attributes["order"]])  # type: ignore[attr-defined]


_OPS: dict[str, Callable[[_Call], Array]] = {
    "Add": lambda call: call.input(0) + call.input(1),
    "BatchNormInference": _batch_norm,
    "BiasAdd": _bias_add,
    "ConvTranspose": _conv_transpose,
    "ConvTransposeBackwardData": _conv_transpose_backward_data,
    "ConvTransposeBackwardWeights": _conv_transpose_backward_weights,
    "Convolution": _convolution,
    "ConvolutionBackwardData": _convolution_backward_data,
    "ConvolutionBackwardWeights": _convolution_backward_weights,
    "Multiply": lambda call: call.input(0) * call.input(1),
    "ReLU": lambda call: np.maximum(call.input(0), 0.0),
    "Reorder": lambda call: call.input(0),
    "Sigmoid": lambda call: 1.0 / (1.0 + np.exp(-call.input(0))),
    "StaticReshape": _reshape,
    "StaticTranspose": _transpose,
    "Tanh": lambda call: np.tanh(call.input(0)),
    "TypeCast": lambda call: call.input(0),
}
"""Op kind -> its evaluation in float64; the result is rounded to the declared type by the caller."""

"""Compares a model with its source node by node, each node on the inputs that it has in the source."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Collection, Mapping

import onnx

from ortconv.errors import NodeRef
from ortconv.frontend.source_graph import SourceGraph, SourceValue
from ortconv.model_io.input_data import Array
from ortconv.progress import Progress, silent
from ortconv.runtime.runner import Model
from ortconv.verification.compare import Comparison, Tolerance, compare
from ortconv.verification.compare import computed as computed_values
from ortconv.verification.oracle import Oracle
from ortconv.verification.rounding import roundings

__all__ = ["Layer", "Layers", "compare_layers"]


@dataclasses.dataclass(frozen=True)
class Layer:
    """An intermediate result: the source node that computes it, and how it compares."""

    node: NodeRef
    comparison: Comparison


@dataclasses.dataclass(frozen=True)
class Layers:
    """How a model compares with its source, one node at a time.

    Each layer is computed from the source's intermediate results, not from the model's: differences do not propagate
    from one layer to the next.

    Attributes:
        layers: The intermediate results in order of computation.
        outputs: The outputs in the source's order.
    """

    layers: tuple[Layer, ...]
    outputs: tuple[Comparison, ...]

    @property
    def first_difference(self) -> Layer | None:
        """The first intermediate result that does not agree."""
        return next((layer for layer in self.layers if not layer.comparison.agrees), None)

    @property
    def agree(self) -> bool:
        """Whether every intermediate result and every output agrees."""
        return self.first_difference is None and all(comparison.agrees for comparison in self.outputs)


def compare_layers(
    graph: SourceGraph,
    model: onnx.ModelProto,
    feeds: Mapping[str, Array],
    oracle: Oracle,
    tolerance: Tolerance,
    load: Callable[[onnx.ModelProto], Model],
    progress: Progress = silent,
) -> Layers:
    """Compares the results of source nodes that a model has under the same name.

    Args:
        graph: The source.
        model: Its conversion, which is not changed.
        feeds: Data by input name.
        oracle: What computes the source.
        tolerance: See `compare`.
        load: Makes a model run.
        progress: Told how many nodes are compared.

    Raises:
        OrtconvError: Something cannot run.
    """
    progress("running layer by layer", 0, 0)
    expected = oracle.run(feeds, everything=True)
    rounded = {each.value.name: each for each in roundings(graph, model, expected.values)}
    produced = {name for node in model.graph.node for name in node.output}
    # ONNX Runtime cannot convert int8 weights whose dequantized values are an output: they get a model of their own.
    weights = {name for node in model.graph.node if node.op_type == "DequantizeLinear" for name in node.output}
    weights &= {value.name for node in graph.nodes for value in node.outputs}
    weights -= {value.name for value in computed_values(graph)}
    types = {
        value.name: int(value.dtype)
        for node in graph.nodes
        for value in node.outputs
        if value.name in produced - weights and value.name in expected.values and value.name not in rounded
    }
    values = {name: expected.values[name] for name in types}
    for name, each in rounded.items():
        types[each.codes] = onnx.TensorProto.UINT8
        values[each.codes] = each.encoded(expected.values[name])
    shown = copy.deepcopy(model)
    present = {output.name for output in shown.graph.output}
    shown.graph.output.extend(
        onnx.helper.make_tensor_value_info(name, dtype, None) for name, dtype in types.items() if name not in present
    )
    results = load(shown).run(feeds)
    given = {name: array for name in types if _is_like(results[name], array := values[name])}
    computed = _cut(
        shown, {name: onnx.helper.make_tensor_value_info(name, types[name], given[name].shape) for name in given}
    )
    results = {**load(shown).run({**feeds, **given}), **_dequantized(model, weights, load)}
    types.update(
        (value.name, int(value.dtype))
        for node in graph.nodes
        for value in node.outputs
        if value.name in results.keys() & weights and value.name in expected.values
    )
    encoded = {name for name, each in rounded.items() if each.codes in given}

    known = {**feeds, **{name: expected.values[name] for name in expected.values if name in given or name in encoded}}

    def compared(name: str, value: SourceValue, array: Array) -> Comparison:
        each = rounded.get(name)
        actual = results.get(computed.get(name, name))
        if each is not None:
            actual = each.decoded(results[computed.get(each.codes, each.codes)])
        found = compare(name, actual, array, tolerance.of(array))
        if found.agrees or found.problem or not tolerance.unit:
            return found
        assert actual is not None
        equally_good = oracle.alternatives(value, known, tolerance.unit, actual)
        return compare(name, actual, array, found.tolerance, equally_good)

    layers = []
    for number, node in enumerate(graph.nodes):
        progress("comparing layers", number, len(graph.nodes))
        layers += [
            Layer(node.ref, compared(value.name, value, expected.values[value.name]))
            for value in node.outputs
            if value.name in types or value.name in rounded
        ]
    return Layers(
        tuple(layers),
        tuple(
            compared(output.name, output.value, array)
            for output, array in zip(graph.outputs, expected.outputs, strict=True)
        ),
    )


def _dequantized(
    model: onnx.ModelProto, weights: Collection[str], load: Callable[[onnx.ModelProto], Model]
) -> Mapping[str, Array]:
    """Returns the weights that a model dequantizes from initializers, by a model of its own."""
    alone = copy.deepcopy(model)
    stored = {"", *(each.name for each in alone.graph.initializer)}
    nodes = [each for each in alone.graph.node if each.output[0] in weights and stored.issuperset(each.input)]
    if not nodes:
        return {}
    used = {name for each in nodes for name in each.input}
    kept = [each for each in alone.graph.initializer if each.name in used]
    for field in ("node", "input", "output", "initializer", "value_info"):
        alone.graph.ClearField(field)
    alone.graph.node.extend(nodes)
    alone.graph.initializer.extend(kept)
    types = {each.name: each.data_type for each in kept}
    alone.graph.output.extend(
        onnx.helper.make_tensor_value_info(each.output[0], types[each.input[1]], None) for each in nodes
    )
    return load(alone).run({})


def _is_like(found: Array, expected: Array) -> bool:
    return found.dtype == expected.dtype and found.shape == expected.shape


def _cut(model: onnx.ModelProto, inputs: Mapping[str, onnx.ValueInfoProto]) -> Mapping[str, str]:
    """Makes inputs of intermediate results, which are outputs already; returns what the outputs are called now."""
    graph = model.graph
    names = {name for node in graph.node for name in node.output}
    names |= {value.name for value in (*graph.input, *graph.initializer)}
    suffix = ".computed"
    while any(name + suffix in names for name in inputs):
        suffix += "_"
    computed = {name: name + suffix for name in inputs}
    for node in graph.node:
        node.output[:] = [computed.get(name, name) for name in node.output]
    for output in graph.output:
        output.name = computed.get(output.name, output.name)
    described = [value for value in graph.value_info if value.name not in inputs]
    del graph.value_info[:]
    graph.value_info.extend(described)
    graph.input.extend(inputs.values())
    return computed

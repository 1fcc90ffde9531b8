"""Lowering a whole source graph with the lowerings of its format."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

import onnx_ir as ir

from ortconv import passes
from ortconv.errors import ConversionError, ConversionErrors, DeclaredShapeError, MisfitError
from ortconv.frontend.registry import Registry
from ortconv.frontend.source_graph import MAX_RANK, SourceGraph, SourceNode, SourceValue
from ortconv.graph.builder import Builder, Step
from ortconv.graph.reachability import collect_constants, reachable
from ortconv.graph.shape_inference import complete
from ortconv.options import Options
from ortconv.progress import Progress, silent

__all__ = ["Lowered", "lower"]

_MISFITS = (ArithmeticError, AssertionError, LookupError, TypeError, ValueError)
"""Exceptions of a lowering that are reported as a contradiction between the node and its op."""

_REPORTED = 100
"""Progress is reported after each so many nodes."""


@dataclasses.dataclass(frozen=True)
class Lowered:
    """A lowered graph, before functions and checks.

    Attributes:
        graph: The ONNX graph.
        steps: What became of each source node, in order.
        saturating: How many nodes have int8 sums that saturate on x86-64 CPUs without VNNI, without a session entry.
    """

    graph: ir.Graph
    steps: tuple[Step, ...]
    saturating: int = 0


def lower(
    source: SourceGraph,
    registry: Registry,
    options: Options,
    progress: Progress = silent,
    *,
    infer_shapes: bool = False,
) -> Lowered:
    """Lowers every node of a source graph.

    Args:
        source: The graph; its nodes are in topological order.
        registry: The source format's lowerings.
        options: The options of the conversion.
        progress: Called with the number of lowered nodes.
        infer_shapes: Whether output shapes are inferred, since shapes of inputs differ from the declared ones.

    Returns:
        The graph with the source's inputs and outputs, their names, order, types and dims.

    Raises:
        ConversionErrors: One or more nodes were refused; the group holds one error per node.
    """
    builder = Builder(options, source.size)
    driver = _Driver(registry, builder, infer_shapes)
    builder.returned = frozenset(output.value for output in source.outputs)
    builder.inline = driver.inline
    values = _Values(source, builder)
    driver.run(source, values, progress)
    if driver.errors:
        refused = ConversionErrors(
            f"{source.path}: {len(driver.errors)} of {len(builder.steps)} nodes refused", driver.errors
        )
        refused.steps = tuple(builder.steps)
        raise refused
    outputs = values.outputs()
    nodes = reachable(builder.nodes, outputs)
    graph = ir.Graph(
        values.inputs,
        outputs,
        nodes=[node for node in builder.nodes if node in nodes],
        initializers=collect_constants(nodes, builder.constant_name),
        opset_imports={"": options.opset},
        name=source.name or "graph",
    )
    context = passes.Context.of(graph, {values.get(state.input) for state in source.states}, builder)
    passes.run(graph, context)
    for step in builder.steps:
        step.nodes[:] = [node for node in step.nodes if node.graph is not None]
    return Lowered(graph, tuple(builder.steps), len(context.saturating))


class _Driver:
    """Lowers the nodes of a graph and of the bodies inside, one after the other, and collects what is refused."""

    def __init__(self, registry: Registry, builder: Builder, infer_shapes: bool) -> None:
        self._registry = registry
        self._infer_shapes = infer_shapes
        self._builder = builder
        self._ignored: set[tuple[str, str]] = set()
        self.errors: list[ConversionError] = []

    def run(self, source: SourceGraph, values: _Values, progress: Progress = silent) -> None:
        for number, node in enumerate(source.nodes):
            if number % _REPORTED == 0:
                progress("converting nodes", number, len(source.nodes))
            step = self._builder.begin(node)
            step.notes.extend(node.notes)
            step.warnings.extend(node.warnings)
            try:
                results = self._lower(node, values)
                if self._infer_shapes:
                    complete(step.nodes, self._builder.options.opset)
                values.define(node, results, step)
            except ConversionError as error:
                self._refuse(node, step, values, error)
            except _MISFITS as error:
                misfit = MisfitError(f"its inputs and attributes do not fit its op: {type(error).__name__}: {error}.")
                misfit.__cause__ = error
                self._refuse(node, step, values, misfit)

    def _refuse(self, node: SourceNode, step: Step, values: _Values, error: ConversionError) -> None:
        error.node = error.node or node.ref
        self.errors.append(error)
        step.error = error
        values.define(node, [values.declared(output) for output in node.outputs], step)

    def inline(self, body: SourceGraph, inputs: Sequence[ir.Value]) -> tuple[ir.Value, ...]:
        """See `Builder.inline`."""
        node, step = self._builder.node, self._builder.step
        values = _Values(body, self._builder, inputs)
        self.run(body, values)
        self._builder.resume(node, step)
        return tuple(values.get(output.value) for output in body.outputs)

    def _lower(self, node: SourceNode, values: _Values) -> tuple[ir.Value, ...]:
        lowering = self._registry.lookup(node.ref.op_type, node.version)
        inputs = lowering.bind_inputs([None if value is None else values.get(value) for value in node.inputs])
        given = node.attributes
        if self._registry.ignores_unknown:
            given = {name: raw for name, raw in given.items() if lowering.has_attribute(name)}
            self._tell_of_ignored(node, node.attributes.keys() - given.keys())
        attributes = lowering.bind_attributes(given, self._registry.coerce)
        self._builder.step.defaults = {
            name: default for name, (_, default) in lowering.attributes.items() if name not in attributes
        }
        results = lowering.function(self._builder, *inputs, **attributes)
        results = results if isinstance(results, tuple) else (results,)
        if len(results) < len(node.outputs):
            raise ConversionError(f"has {len(node.outputs)} outputs; allowed: at most {len(results)}.")
        results = results[: len(node.outputs)]
        if node.rounds_to is None:
            return results
        return tuple(
            self._builder.cast(self._builder.cast(result, node.rounds_to), output.dtype)
            for result, output in zip(results, node.outputs, strict=True)
        )

    def _tell_of_ignored(self, node: SourceNode, names: Collection[str]) -> None:
        """Warns once of each kind of attribute that is ignored."""
        step = self._builder.step
        for name in sorted(names):
            kind = node.ref.op_type, name
            text = f"attribute {name} is ignored: {self._registry.source}'s {node.ref.op_type} has none of that name"
            (step.notes if kind in self._ignored else step.warnings).append(text)
            step.followed.add(text)
            self._ignored.add(kind)


class _Values:
    """Maps source values to ONNX values and gives them the source's names, types and dims.

    Args:
        source: A graph.
        builder: The builder.
        inputs: The inputs of a body; its values are renamed where the graph around it has the name.
    """

    def __init__(self, source: SourceGraph, builder: Builder, inputs: Sequence[ir.Value] | None = None) -> None:
        self._source = source
        self._builder = builder
        self._map: dict[SourceValue, ir.Value] = {}
        self._defined: set[ir.Value] = set()
        self._nested = inputs is not None
        if inputs is None:
            names = [value.name for value in source.inputs] + [output.name for output in source.outputs]
            names += [value.name for node in source.nodes for value in node.outputs]
            for name in names:
                builder.take(name)
        self.inputs = [self.declared(value) for value in source.inputs] if inputs is None else list(inputs)
        self._map.update(zip(source.inputs, self.inputs, strict=True))

    def declared(self, value: SourceValue) -> ir.Value:
        """Makes an ONNX value as the source declares it."""
        return ir.Value(
            name=value.name,
            type=ir.TensorType(value.dtype),
            shape=None if value.shape is None else ir.Shape(value.shape),
            metadata_props=dict(value.metadata),
        )

    def get(self, value: SourceValue) -> ir.Value:
        """Returns the ONNX value of a source value that is computed before, or constant."""
        if value not in self._map:
            assert value.constant is not None, f"{value.name} is used before it is produced"
            self._map[value] = self._builder.initializer(value.name, value.constant)
        return self._map[value]

    def define(self, node: SourceNode, results: Sequence[ir.Value], step: Step) -> None:
        """Binds a node's results to its source values, which give them name, type and dims.

        Raises:
            ShapeError: The lowering computed another size than the source declares.
            ConversionError: It computed constants of another type, or a result of more than `MAX_RANK` axes.
        """
        own = {output for emitted in step.nodes for output in emitted.outputs}
        step.results = frozenset(results)
        for value, result in zip(node.outputs, results, strict=True):
            if result.shape is not None and len(result.shape) > MAX_RANK:
                raise ConversionError(f"output {value.name} has {len(result.shape)} axes; allowed: at most {MAX_RANK}.")
            if result in own and result not in self._defined:
                self._defined.add(result)
                result.name = self._builder.unique(value.name) if self._nested else value.name
                result.type = ir.TensorType(value.dtype)
                result.metadata_props.update(value.metadata)
                if value.shape is not None:
                    result.shape = _merged(result.shape, value)
            elif result.const_value is not None:
                if value.shape is not None:
                    _merged(result.shape, value)
                if result.dtype != value.dtype:
                    raise ConversionError(
                        f"output {value.name} is declared as {value.dtype}; its inputs and attributes give "
                        f"{result.dtype}."
                    )
                name = self._builder.unique(value.name) if self._nested else value.name
                result = self._builder.initializer(name, result.const_value, owned=True)
            elif result.producer() is not None:
                # An existing value: the node is an Identity, or the inverse of an earlier node.
                if value.shape is not None:
                    result.shape = _merged(result.shape, value)
                result.metadata_props.update(value.metadata)
            self._map[value] = result

    def outputs(self) -> list[ir.Value]:
        """Returns the graph's outputs, each under the name that the source gives it."""
        made: list[ir.Value] = []
        for output in self._source.outputs:
            value = self.get(output.value)
            if value.producer() is None or value in made:
                if value.name == output.name:
                    value.name = self._builder.unique(output.name)
                value = self._builder.copy(value)
            value.name = output.name
            made.append(value)
        return made


def _merged(computed: ir.Shape | None, value: SourceValue) -> ir.Shape:
    """Merges the shape that the lowering computed with the declared one.

    A symbolic dimension of the lowering wins over a declared size: some OpenVINO ops declare an upper bound.
    """
    declared = value.shape
    assert declared is not None
    if computed is None:
        return ir.Shape(declared)
    if len(computed) != len(declared) or any(
        isinstance(ours, int) and isinstance(theirs, int) and ours != theirs
        for ours, theirs in zip(computed, declared, strict=True)
    ):
        raise DeclaredShapeError(
            value.name, declared, f"the source declares this, its inputs and attributes give {computed}."
        )
    dims: list[int | str | ir.SymbolicDim | None] = []
    for ours, theirs in zip(computed, declared, strict=True):
        named = isinstance(ours, ir.SymbolicDim) and ours.value is not None
        dims.append(ours if isinstance(ours, int) or named else theirs)
    return ir.Shape(dims)

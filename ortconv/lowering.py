"""Registering lowerings, binding source nodes to their signatures, and lowering a whole graph.

A lowering is a plain function: the builder and the inputs are positional, the attributes are keyword-only with their
types and the source spec's defaults. The signature is the schema: whatever a source node has that the signature lacks
is refused, so nothing is dropped silently.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import re
import types
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

import onnx.defs
import onnx_ir as ir

from ortconv.builder import Builder, Options, Step
from ortconv.collection import gather_constants, reachable
from ortconv.errors import (
    ConversionError,
    ConversionErrors,
    ShapeError,
    UnsupportedAttributeError,
    UnsupportedOpError,
)
from ortconv.fusion import fuse_biases
from ortconv.progress import Progress, silent
from ortconv.source import SourceGraph, SourceNode, SourceValue

__all__ = ["How", "Lowered", "Lowering", "Refusal", "Registry", "coerce_text", "coerce_typed", "describe_type", "lower"]

How = Literal["exact", "composed", "plugin"]
"""What an op becomes: one ONNX node that means the same, several of them, or a node of our own where ONNX has none."""

LoweringFunction = Callable[..., "ir.Value | tuple[ir.Value, ...]"]
_F = TypeVar("_F", bound=LoweringFunction)

_ONE_OP = re.compile(r"(\w+)(?:[.;:]| with )")
"""How the docstring of a lowering begins that emits one node, in the variant that models use most."""

_REPORTED = 100
"""After how many nodes progress is reported."""

_NOT_IN_NAMES = re.compile(r"\W", re.ASCII)
"""What attribute names have and Python's do not: ``exclude-pad`` binds to the parameter ``exclude_pad``."""


class Coerce(Protocol):
    """Turns an attribute as the source holds it into the annotated type; raises ValueError saying what is allowed."""

    def __call__(self, raw: object, annotation: object) -> object: ...


@dataclasses.dataclass(frozen=True)
class Lowering:
    """A registered lowering.

    Attributes:
        op_type: Source op type.
        since: First op version it covers.
        until: Last op version it covers.
        function: The lowering itself.
        inputs: Positional parameters after the builder: name, optional.
        variadic: Whether the last input repeats.
        attributes: Keyword-only parameters: name to (annotation, default or `inspect.Parameter.empty`).
        how: What the op becomes.
    """

    op_type: str
    since: int
    until: int
    function: LoweringFunction
    inputs: tuple[tuple[str, bool], ...]
    variadic: bool
    attributes: Mapping[str, tuple[object, object]]
    how: How

    @property
    def versions(self) -> str:
        """The versions it covers, as people write them."""
        return str(self.since) if self.since == self.until else f"{self.since}-{self.until}"

    @property
    def summary(self) -> str:
        """First line of the lowering's docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]


@dataclasses.dataclass(frozen=True)
class Refusal:
    """An op that is known and refused, in every version that has no lowering.

    Attributes:
        op_type: Source op type.
        reason: Why, as a sentence without its subject and full stop: "its result depends on the thread count".
    """

    op_type: str
    reason: str


class Registry:
    """The lowerings of one source format.

    Args:
        source: The format's name as users write it.
        coerce: How its attributes become Python values.
    """

    def __init__(self, source: str, coerce: Coerce) -> None:
        self.source = source
        self.coerce = coerce
        self._lowerings: dict[str, dict[int, Lowering]] = {}
        self._refusals: dict[str, Refusal] = {}

    def lowering(
        self, *op_types: str, since: int = 1, until: int | None = None, how: How | None = None
    ) -> Callable[[_F], _F]:
        """Registers the decorated function for one or more op types.

        Args:
            *op_types: Source op types.
            since: First op version it covers.
            until: Last op version it covers; by default `since` alone. A version that nobody has looked at is refused,
                not taken for an older one.
            how: What the op becomes, in the variant that models use most. By default what the docstring says: "exact"
                if it begins with the name of an ONNX op alone or followed by a semicolon, a colon or "with", else
                "composed".
        """
        last = since if until is None else until

        def register(function: _F) -> _F:
            for op_type in op_types:
                versions = self._lowerings.setdefault(op_type, {})
                if any(since <= other.until and other.since <= last for other in versions.values()):
                    raise ValueError(f"{op_type} versions {since} to {last} are registered twice")
                versions[since] = _describe(op_type, since, last, function, how)
            return function

        return register

    def refuse(self, *op_types: str, reason: str) -> None:
        """Registers why the versions of op types that have no lowering are refused; see `Refusal`."""
        for op_type in op_types:
            if op_type in self._refusals:
                raise ValueError(f"{op_type} is refused twice")
            self._refusals[op_type] = Refusal(op_type, reason)

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """What is refused with a reason, by op type."""
        return tuple(refusal for _, refusal in sorted(self._refusals.items()))

    def lookup(self, op_type: str, version: int) -> Lowering:
        """Returns the lowering that covers a version of an op.

        Raises:
            UnsupportedOpError: There is none.
        """
        versions = self._lowerings.get(op_type, {})
        for lowering in versions.values():
            if lowering.since <= version <= lowering.until:
                return lowering
        refusal = self._refusals.get(op_type)
        if refusal is not None:
            which = f"version {version} of {op_type}" if versions else f"{self.source} op {op_type}"
            raise UnsupportedOpError(f"{which} is not supported: {refusal.reason}.")
        if not versions:
            raise UnsupportedOpError(
                f"{self.source} op {op_type} is not supported.", hint="`ortconv ops` lists what is."
            )
        allowed = ", ".join(lowering.versions for _, lowering in sorted(versions.items()))
        raise UnsupportedOpError(f"version {version} of {op_type} is not supported; allowed: {allowed}.")

    def __iter__(self) -> typing.Iterator[Lowering]:
        for op_type in sorted(self._lowerings):
            for since in sorted(self._lowerings[op_type]):
                yield self._lowerings[op_type][since]


@dataclasses.dataclass(frozen=True)
class Lowered:
    """A lowered graph, before functions and checks.

    Attributes:
        graph: The ONNX graph.
        steps: What became of each source node, in order.
    """

    graph: ir.Graph
    steps: tuple[Step, ...]


def lower(source: SourceGraph, registry: Registry, options: Options, progress: Progress = silent) -> Lowered:
    """Lowers every node of a source graph.

    Args:
        source: The graph; its nodes are in topological order.
        registry: The source format's lowerings.
        options: What the user asked for.
        progress: Told how many nodes are lowered.

    Returns:
        The graph with the source's inputs and outputs, their names, order, types and dims.

    Raises:
        ConversionErrors: One or more nodes were refused; the group holds one error per node.
    """
    builder = Builder(options)
    driver = _Driver(registry, builder)
    builder.inline = driver.inline
    values = _Values(source, builder)
    driver.run(source, values, progress)
    if driver.errors:
        raise ConversionErrors(
            f"{source.path}: {len(driver.errors)} of {len(builder.steps)} nodes refused", driver.errors
        )
    outputs = values.outputs()
    nodes = reachable(builder.nodes, outputs)
    graph = ir.Graph(
        values.inputs,
        outputs,
        nodes=[node for node in builder.nodes if node in nodes],
        initializers=gather_constants(nodes, builder.constant_name),
        opset_imports={"": options.opset},
        name=source.name or "graph",
    )
    makers = {node: step for step in builder.steps for node in step.nodes}
    fuse_biases(graph, lambda node, why: makers[node].notes.append(why))
    for step in builder.steps:
        step.nodes[:] = [node for node in step.nodes if node.graph is not None]
    return Lowered(graph, tuple(builder.steps))


class _Driver:
    """Lowers the nodes of a graph and of the bodies inside, one after the other, and collects what is refused."""

    def __init__(self, registry: Registry, builder: Builder) -> None:
        self._registry = registry
        self._builder = builder
        self.errors: list[ConversionError] = []

    def run(self, source: SourceGraph, values: _Values, progress: Progress = silent) -> None:
        for number, node in enumerate(source.nodes):
            if number % _REPORTED == 0:
                progress("converting nodes", number, len(source.nodes))
            step = self._builder.begin(node)
            step.notes.extend(node.notes)
            try:
                values.define(node, self._lower(node, values), step)
            except ConversionError as error:
                error.node = error.node or node.ref
                self.errors.append(error)
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
        inputs = _bind_inputs(lowering, [None if value is None else values.get(value) for value in node.inputs])
        attributes = _bind_attributes(lowering, node.attributes, self._registry.coerce)
        results = lowering.function(self._builder, *inputs, **attributes)
        results = results if isinstance(results, tuple) else (results,)
        if len(results) < len(node.outputs):
            raise ConversionError(f"has {len(node.outputs)} outputs; allowed: at most {len(results)}.")
        return results[: len(node.outputs)]


class _Values:
    """Maps source values to ONNX values and gives them the source's names, types and dims.

    Args:
        source: A graph.
        builder: The builder.
        inputs: For a body, what its inputs are; its names give way to those of the graph around it.
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
            ConversionError: It computed constants of another type.
        """
        own = {output for emitted in step.nodes for output in emitted.outputs}
        for value, result in zip(node.outputs, results, strict=True):
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
                # A value that exists already: an Identity, or what a node undoes.
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
    """Joins what the lowering computed with what the source declares.

    A dim that the lowering names is known at run time only: some ops of OpenVINO's declare how large a result may be.
    """
    declared = value.shape
    assert declared is not None
    if computed is None:
        return ir.Shape(declared)
    if len(computed) != len(declared):
        raise ShapeError(value.name, declared, f"the source declares this, its inputs and attributes give {computed}.")
    dims: list[int | str | ir.SymbolicDim | None] = []
    for ours, theirs in zip(computed, declared, strict=True):
        if isinstance(ours, int) and isinstance(theirs, int) and ours != theirs:
            raise ShapeError(
                value.name, declared, f"the source declares this, its inputs and attributes give {computed}."
            )
        named = isinstance(ours, ir.SymbolicDim) and ours.value is not None
        dims.append(ours if isinstance(ours, int) or named else theirs)
    return ir.Shape(dims)


def _describe(op_type: str, since: int, until: int, function: LoweringFunction, how: How | None) -> Lowering:
    hints = typing.get_type_hints(function)
    inputs: list[tuple[str, bool]] = []
    attributes: dict[str, tuple[object, object]] = {}
    variadic = False
    for name, parameter in list(inspect.signature(function).parameters.items())[1:]:
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY:
            attributes[name] = (hints[name], parameter.default)
        elif parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            variadic = True
            inputs.append((name, True))
        else:
            inputs.append((name, parameter.default is not inspect.Parameter.empty))
    if how is None:
        first = _ONE_OP.match(inspect.getdoc(function) or "")
        how = "exact" if first is not None and onnx.defs.has(first[1]) else "composed"
    return Lowering(op_type, since, until, function, tuple(inputs), variadic, attributes, how)


def _bind_inputs(lowering: Lowering, given: Sequence[ir.Value | None]) -> list[ir.Value | None]:
    fixed = lowering.inputs[:-1] if lowering.variadic else lowering.inputs
    if len(given) > len(fixed) and not lowering.variadic:
        raise ConversionError(f"has {len(given)} inputs; allowed: at most {len(fixed)}.")
    for index, (name, optional) in enumerate(fixed):
        if not optional and (index >= len(given) or given[index] is None):
            raise ConversionError(f"input {name} (number {index}) is missing; it is required.")
    return list(given)


def _bind_attributes(lowering: Lowering, given: Mapping[str, object], coerce: Coerce) -> dict[str, object]:
    bound: dict[str, object] = {}
    for name, raw in given.items():
        parameter = _NOT_IN_NAMES.sub("_", name)
        if parameter not in lowering.attributes:
            known = ", ".join(lowering.attributes) or "none"
            raise UnsupportedAttributeError(name, raw, f"only the attributes {known}")
        try:
            bound[parameter] = coerce(raw, lowering.attributes[parameter][0])
        except ValueError as error:
            raise UnsupportedAttributeError(name, raw, str(error)) from error
    for name, (annotation, default) in lowering.attributes.items():
        if name not in bound and default is inspect.Parameter.empty:
            raise UnsupportedAttributeError(name, None, f"it is required ({describe_type(annotation)})")
    return bound


def coerce_typed(raw: object, annotation: object) -> object:
    """Coerces an attribute of a typed format: checks the type, converts nothing but int to float.

    Args:
        raw: bool, int, float, str, or a list of them.
        annotation: One of int, float, bool, str, a Literal of strings, a tuple of ints or floats, or one of these
            with None.

    Raises:
        ValueError: With what is allowed.
    """
    annotation = _without_none(annotation)
    allowed = ValueError(describe_type(annotation))
    if typing.get_origin(annotation) is Literal:
        choices = {str(choice).casefold(): choice for choice in typing.get_args(annotation)}
        if not isinstance(raw, str) or raw.casefold() not in choices:
            raise allowed
        return choices[raw.casefold()]
    if typing.get_origin(annotation) is tuple:
        if not isinstance(raw, list | tuple):
            raise allowed
        item = typing.get_args(annotation)[0]
        try:
            return tuple(coerce_typed(entry, item) for entry in raw)
        except ValueError:
            raise allowed from None
    if annotation is bool and isinstance(raw, bool | int) and raw in (0, 1):
        return bool(raw)
    if annotation is float and isinstance(raw, int | float) and not isinstance(raw, bool):
        if math.isnan(raw):
            raise allowed
        return float(raw)
    if annotation is int and isinstance(raw, int) and not isinstance(raw, bool) and -(2**63) <= raw < 2**63:
        return raw
    if annotation is str and isinstance(raw, str):
        return raw
    raise allowed


def coerce_text(raw: object, annotation: object) -> object:
    """Coerces an attribute of a textual format, where every value is a string.

    Lists are separated by commas; bools are true, false, 1 or 0; Literals match whatever their case.

    Raises:
        ValueError: With what is allowed.
    """
    assert isinstance(raw, str)
    annotation = _without_none(annotation)
    allowed = ValueError(describe_type(annotation))
    text = raw.strip()
    if typing.get_origin(annotation) is tuple:
        item = typing.get_args(annotation)[0]
        try:
            return tuple(coerce_text(entry, item) for entry in text.split(",")) if text else ()
        except ValueError:
            raise allowed from None
    if annotation is bool:
        choices = {"true": True, "1": True, "false": False, "0": False}
        if text.casefold() not in choices:
            raise allowed
        return choices[text.casefold()]
    if annotation in (int, float):
        try:
            return coerce_typed(int(text) if annotation is int else float(text), annotation)
        except ValueError:
            raise allowed from None
    return coerce_typed(text, annotation)


def describe_type(annotation: object) -> str:
    """Returns an annotation in words: what an attribute of this type may be."""
    annotation = _without_none(annotation)
    if typing.get_origin(annotation) is Literal:
        return ", ".join(str(choice) for choice in typing.get_args(annotation))
    if typing.get_origin(annotation) is tuple:
        return f"a list of {describe_type(typing.get_args(annotation)[0])}s"
    names: dict[Any, str] = {int: "integer", float: "number", bool: "true or false", str: "text"}
    return names[annotation]


def _without_none(annotation: object) -> object:
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        (annotation,) = (arg for arg in typing.get_args(annotation) if arg is not types.NoneType)
    return annotation

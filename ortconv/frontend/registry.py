"""The lowerings of a source format, and binding source nodes to their signatures.

A lowering is a plain function: the builder and the inputs are positional, the attributes are keyword-only with their
types and the source spec's defaults. The signature is the schema: whatever a source node has that the signature lacks
is refused, so nothing is dropped silently.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import inspect
import re
import typing
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Literal, TypeVar

import onnx.defs
import onnx_ir as ir

from ortconv.errors import ConversionError, UnsupportedAttributeError, UnsupportedOpError
from ortconv.frontend.attributes import describe_type

__all__ = ["How", "Lowering", "Refusal", "Registry"]

How = Literal["exact", "composed", "plugin"]
"""The form of the ONNX nodes: one equivalent node, several nodes, or a node of org.ortconv."""

LoweringFunction = Callable[..., "ir.Value | tuple[ir.Value, ...]"]
_F = TypeVar("_F", bound=LoweringFunction)

Coerce = Callable[[object, object], object]
"""Converts an attribute of the source to the annotated type; raises ValueError with what is allowed."""

_ONE_OP = re.compile(r"(\w+)(?:[.;:]| with )")
"""The start of the docstring of a lowering that emits one equivalent node, in the most common variant."""

_NOT_IN_NAMES = re.compile(r"\W", re.ASCII)
"""Characters of attribute names that Python names lack: ``exclude-pad`` binds to the parameter ``exclude_pad``."""


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
        """The versions it covers, as text."""
        return str(self.since) if self.since == self.until else f"{self.since}-{self.until}"

    @property
    def summary(self) -> str:
        """First line of the lowering's docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    def bind_inputs(self, given: Sequence[ir.Value | None]) -> list[ir.Value | None]:
        """Returns the positional arguments after the builder.

        Raises:
            ConversionError: There are too many inputs, or one is missing.
        """
        fixed = self.inputs[:-1] if self.variadic else self.inputs
        if len(given) > len(fixed) and not self.variadic:
            raise ConversionError(f"has {len(given)} inputs; allowed: at most {len(fixed)}.")
        for index, (name, optional) in enumerate(fixed):
            if not optional and (index >= len(given) or given[index] is None):
                raise ConversionError(f"input {name} (number {index}) is missing; it is required.")
        for index in range(len(fixed), len(given)):
            if given[index] is None:
                raise ConversionError(f"input {self.inputs[-1][0]} (number {index}) is missing; it is required.")
        return list(given)

    def has_attribute(self, name: str) -> bool:
        """Tells whether it takes an attribute, as the source spells it."""
        return _NOT_IN_NAMES.sub("_", name) in self.attributes

    def bind_attributes(self, given: Mapping[str, object], coerce: Coerce) -> dict[str, object]:
        """Returns the keyword arguments.

        Raises:
            UnsupportedAttributeError: One is unknown, given twice, has a value that is not allowed, or is missing.
        """
        bound: dict[str, object] = {}
        for name, raw in given.items():
            parameter = _NOT_IN_NAMES.sub("_", name)
            if parameter not in self.attributes:
                known = ", ".join(self.attributes) or "none"
                raise UnsupportedAttributeError(name, raw, f"only the attributes {known}")
            if parameter in bound:
                raise UnsupportedAttributeError(name, raw, f"{parameter} once; the node has it in two spellings")
            try:
                bound[parameter] = coerce(raw, self.attributes[parameter][0])
            except ValueError as error:
                raise UnsupportedAttributeError(name, raw, str(error)) from error
        for name, (annotation, default) in self.attributes.items():
            if name not in bound and default is inspect.Parameter.empty:
                raise UnsupportedAttributeError(name, None, f"it is required ({describe_type(annotation)})")
        return bound


@dataclasses.dataclass(frozen=True)
class _Registered:
    """A function and the versions that it was registered for; its signature is read when one of them is looked up."""

    since: int
    until: int
    describe: Callable[[], Lowering]

    @functools.cached_property
    def lowering(self) -> Lowering:
        return self.describe()


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
        ignores_unknown: Whether its own reader ignores attributes that an op does not have.
        package: The package that registers the lowerings; it is imported when the first one is looked up.
    """

    def __init__(
        self, source: str, coerce: Coerce, *, ignores_unknown: bool = False, package: str | None = None
    ) -> None:
        self.source = source
        self.coerce = coerce
        self.ignores_unknown = ignores_unknown
        self._package = package
        self._registered: dict[str, dict[int, _Registered]] = {}
        self._known_refusals: dict[str, Refusal] = {}
        self._known_spellings: dict[str, str] = {}

    def _load(self) -> None:
        if self._package is not None:
            importlib.import_module(self._package)  # waits for another thread that imports it

    @property
    def _lowerings(self) -> dict[str, dict[int, _Registered]]:
        self._load()
        return self._registered

    @property
    def _refusals(self) -> dict[str, Refusal]:
        self._load()
        return self._known_refusals

    @property
    def _spellings(self) -> dict[str, str]:
        self._load()
        return self._known_spellings

    def lowering(
        self,
        *op_types: str,
        since: int = 1,
        until: int | None = None,
        how: How | None = None,
        without: Collection[str] = (),
    ) -> Callable[[_F], _F]:
        """Registers the decorated function for one or more op types.

        Args:
            *op_types: Source op types.
            since: First op version it covers.
            until: Last op version it covers; by default `since` alone. Versions that no lowering covers are refused.
            how: The form of the nodes, in the most common variant. By default it follows from the docstring: "exact"
                if it begins with the name of an ONNX op alone or followed by a semicolon, a colon or "with", else
                "composed".
            without: Optional parameters of the function that these versions lack.
        """
        last = since if until is None else until

        def register(function: _F) -> _F:
            if without and not inspect.signature(function).parameters.keys() >= set(without):
                raise ValueError(f"the lowering of {', '.join(op_types)} has no parameters {', '.join(without)}")
            for op_type in op_types:
                self._known_spellings[op_type.lower()] = op_type
                versions = self._registered.setdefault(op_type, {})
                if any(since <= other.until and other.since <= last for other in versions.values()):
                    raise ValueError(f"{op_type} versions {since} to {last} are registered twice")
                describe = functools.partial(_describe, op_type, since, last, function, how, without)
                versions[since] = _Registered(since, last, describe)
            return function

        return register

    def refuse(self, *op_types: str, reason: str) -> None:
        """Registers why the versions of op types that have no lowering are refused; see `Refusal`."""
        for op_type in op_types:
            if op_type in self._known_refusals:
                raise ValueError(f"{op_type} is refused twice")
            self._known_spellings[op_type.lower()] = op_type
            self._known_refusals[op_type] = Refusal(op_type, reason)

    @property
    def refusals(self) -> tuple[Refusal, ...]:
        """The refusals by op type."""
        return tuple(refusal for _, refusal in sorted(self._refusals.items()))

    def spelled(self, op_type: str) -> str:
        """Returns an op type as registered, for formats that ignore case."""
        return self._spellings.get(op_type.lower(), op_type)

    def newest(self, op_type: str, version: int) -> int:
        """Returns the newest version that has a lowering, up to the given one, for formats that name a set of ops.

        A set holds the form of an op that the set itself or an earlier one introduced. Where no lowering covers that,
        the version is returned as it is.
        """
        older = [found.until for since, found in self._lowerings.get(op_type, {}).items() if since <= version]
        return min(version, max(older)) if older and op_type not in self._refusals else version

    def find(self, op_type: str, version: int) -> Lowering | None:
        """Returns the lowering that covers a version of an op, or None."""
        versions = self._lowerings.get(op_type, {}).values()
        return next((found.lowering for found in versions if found.since <= version <= found.until), None)

    def any_version(self, op_type: str) -> Lowering | None:
        """Returns a lowering of an op, whatever version it covers, or None."""
        return next((found.lowering for found in self._lowerings.get(op_type, {}).values()), None)

    def lookup(self, op_type: str, version: int) -> Lowering:
        """Returns the lowering that covers a version of an op.

        Raises:
            UnsupportedOpError: There is none.
        """
        lowering = self.find(op_type, version)
        if lowering is not None:
            return lowering
        versions = self._lowerings.get(op_type, {})
        refusal = self._refusals.get(op_type)
        if refusal is not None:
            which = f"version {version} of {op_type}" if versions else f"{self.source} op {op_type}"
            raise UnsupportedOpError(f"{which} is not supported: {refusal.reason}.")
        if not versions:
            raise UnsupportedOpError(
                f"{self.source} op {op_type} is not supported.", hint="`ortconv ops` lists what is."
            )
        allowed = ", ".join(found.lowering.versions for _, found in sorted(versions.items()))
        raise UnsupportedOpError(f"version {version} of {op_type} is not supported; allowed: {allowed}.")

    def __iter__(self) -> typing.Iterator[Lowering]:
        for op_type in sorted(self._lowerings):
            for since in sorted(self._lowerings[op_type]):
                yield self._lowerings[op_type][since].lowering


def _describe(
    op_type: str, since: int, until: int, function: LoweringFunction, how: How | None, without: Collection[str]
) -> Lowering:
    hints = typing.get_type_hints(function)
    inputs: list[tuple[str, bool]] = []
    attributes: dict[str, tuple[object, object]] = {}
    variadic = False
    parameters = dict(list(inspect.signature(function).parameters.items())[1:])
    for name, parameter in parameters.items():
        if name in without:
            continue
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

"""Every exception and warning of ortconv.

The facts of an error are fields, so that callers and tests read fields and people read ``str(error)``. A lowering
raises with what it knows (attribute, value, allowed values); the driver fills in the node.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterable, Sequence

__all__ = [
    "CheckError",
    "ConversionError",
    "ConversionErrors",
    "DeclaredShapeError",
    "ExecutionError",
    "InputError",
    "MisfitError",
    "ModelFormatError",
    "NodeRef",
    "OrtconvError",
    "PluginError",
    "SemanticsWarning",
    "ShapeError",
    "UnsupportedAttributeError",
    "UnsupportedOpError",
    "UnsupportedTypeError",
    "file_name",
    "in_utf8",
    "shown",
]

_SHOWN = 200


def in_utf8(path: str) -> str:
    """Returns a path as an ONNX file can hold it: bytes that are not UTF-8 as escapes."""
    return path.encode("utf-8", "backslashreplace").decode()


def file_name(path: str) -> str:
    """Returns what an ONNX file says of the file that it was made from: its name, wherever it lies.

    What is no file, but an object in memory, has angle brackets around its description and keeps it.
    """
    return in_utf8(path if path.startswith("<") else os.path.basename(path))


def shown(value: object) -> str:
    """Returns a value as it appears in a message: its repr, cut to a length that fits a terminal."""
    if isinstance(value, tuple):
        value = list(value)
    return _cut(repr(value))


def _sizes(dims: Sequence[object]) -> str:
    return _cut(f"[{', '.join('?' if dim is None else str(dim) for dim in dims)}]")


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}... ({len(text)} characters)"


@dataclasses.dataclass(frozen=True)
class NodeRef:
    """Where a node stands in its source.

    Attributes:
        file: The source file, or a description of the object that was given.
        op_type: The source's op type.
        name: The node's own name, which need not be unique.
        id: The node's unique id in the file.
        version: The op version as the source states it ("opset1"), or "".
    """

    file: str
    op_type: str
    name: str
    id: str
    version: str = ""

    def __str__(self) -> str:
        where = f"id {self.id}" + (f", {self.version}" if self.version else "")
        return f"{self.file}: {self.op_type} {shown(self.name)} ({where})"


class OrtconvError(Exception):
    """Base class of everything ortconv raises on purpose; ``str()`` is the whole message."""

    exit_code = 1


class ModelFormatError(OrtconvError):
    """The source file cannot be read as what it claims to be.

    Attributes:
        path: The file.
        where: The place in it: an XML line or element, or a JSON pointer; "" for the file as a whole.
        problem: What is wrong there, with the value found and what is allowed.
    """

    def __init__(self, path: str, where: str, problem: str) -> None:
        super().__init__(path, where, problem)
        self.path = path
        self.where = where
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path}: {self.where}: {self.problem}" if self.where else f"{self.path}: {self.problem}"


class ConversionError(OrtconvError):
    """A node cannot be converted exactly.

    Attributes:
        problem: The fact, with the value found and what is allowed.
        hint: What the user can do about it, or "".
        node: The node, filled in by the driver.
    """

    def __init__(self, problem: str, *, hint: str = "", node: NodeRef | None = None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.hint = hint
        self.node = node

    def __str__(self) -> str:
        subject = f"{self.node}: " if self.node else ""
        return f"{subject}{self.problem}" + (f" {self.hint}" if self.hint else "")

    def __reduce__(self) -> tuple[object, ...]:
        # Exceptions are pickled as a call with their args, which is not how the subclasses are made.
        return type(self).__new__, (type(self), *self.args), self.__dict__


class UnsupportedOpError(ConversionError):
    """The op type, or its version, has no lowering."""


class UnsupportedTypeError(ConversionError):
    """A tensor's element type is not among those that the op's specification lists.

    Attributes:
        input: Name of the input or output.
        dtype: The type found.
        allowed: The types allowed.
    """

    def __init__(self, input: str, dtype: str, allowed: Sequence[str], *, hint: str = "") -> None:
        super().__init__(f"{input} has type {dtype}; allowed: {', '.join(allowed)}.", hint=hint)
        self.input = input
        self.dtype = dtype
        self.allowed = tuple(allowed)


class UnsupportedAttributeError(ConversionError):
    """An attribute is missing, unknown, malformed or outside its range.

    Attributes:
        attribute: Its name in the source.
        value: The value found, or None when it is missing.
        allowed: What is allowed, in words.
    """

    def __init__(self, attribute: str, value: object, allowed: str, *, hint: str = "") -> None:
        found = "is missing" if value is None else f"= {shown(value)} is not supported"
        super().__init__(f"attribute {attribute} {found}; allowed: {allowed}.", hint=hint)
        self.attribute = attribute
        self.value = value
        self.allowed = allowed


class ShapeError(ConversionError):
    """An input's shape contradicts the op, its attributes or another input.

    Attributes:
        input: Name of the input or output.
        shape: The shape found: numbers, names, and None for a size that is not known; None when all of it is unknown.
    """

    def __init__(
        self, input: str, shape: Iterable[object] | None, problem: str, *, hint: str = "", node: NodeRef | None = None
    ) -> None:
        dims = None if shape is None else tuple(getattr(dim, "value", dim) for dim in shape)  # of onnx_ir.SymbolicDim
        found = "an unknown shape" if dims is None else f"shape {_sizes(dims)}"
        super().__init__(f"{input} has {found}: {problem}", hint=hint, node=node)
        self.input = input
        self.shape = dims


class DeclaredShapeError(ShapeError):
    """The source declares another shape for a result than the node's inputs and attributes give."""


class MisfitError(ConversionError):
    """A node contradicts its op in a way that its lowering does not look for; the cause is what it ran into."""


class ConversionErrors(ExceptionGroup[ConversionError], OrtconvError):  # noqa: N818 - a group, named like one
    """All the nodes of one source that were refused; caught by either base.

    Attributes:
        steps: What became of each node of the source, also of those that were converted, where that is known.
    """

    steps: tuple[object, ...] = ()

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.exceptions)

    def derive(self, excs: Sequence[ConversionError]) -> ConversionErrors:  # type: ignore[override]
        """Returns a group of the same class over other errors."""
        return ConversionErrors(self.message, excs)


class CheckError(OrtconvError):
    """A model fails ``onnx.checker`` or other checks of ortconv.

    Attributes:
        path: The model's file, or a description of it.
        problem: The checker's message.
    """

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(path, problem)
        self.path = path
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


class PluginError(OrtconvError):
    """The native library or the Python ops cannot be used.

    Attributes:
        problem: What is missing or too old.
        hint: What the user can do about it, or "".
    """

    def __init__(self, problem: str, hint: str = "") -> None:
        super().__init__(problem, hint)
        self.problem = problem
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.problem} {self.hint}".rstrip()


class InputError(OrtconvError):
    """Data given for an input, or for a tensor of the source, does not fit.

    Attributes:
        input: Name of the input, or the file that cannot be read.
        problem: What is wrong, with the value found and what is allowed.
    """

    def __init__(self, input: str, problem: str) -> None:
        super().__init__(input, problem)
        self.input = input
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.input}: {self.problem}"


class ExecutionError(OrtconvError):
    """A model, or the source it comes from, cannot be run.

    Attributes:
        path: The model's file, or a description of it.
        runtime: What runs it: "ONNX Runtime", "OpenVINO", "float64 reference".
        problem: What the runtime says.
        hint: What the user can do about it, or "".
    """

    def __init__(self, path: str, runtime: str, problem: str, hint: str = "") -> None:
        super().__init__(path, runtime, problem, hint)
        self.path = path
        self.runtime = runtime
        self.problem = problem
        self.hint = hint

    def __str__(self) -> str:
        # Messages of runtimes may or may not end with a period.
        problem = f"{self.problem.rstrip('. ')}." if self.hint else self.problem
        return f"{self.path}: {self.runtime}: {problem} {self.hint}".rstrip()


class SemanticsWarning(UserWarning):
    """The specification and the source's own library give different results for a node."""

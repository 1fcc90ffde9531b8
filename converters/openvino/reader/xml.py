"""A small XML reader for files from anywhere: line numbers for messages, no document types, bounded work."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import BinaryIO
from xml.parsers import expat

from ortconv.errors import ModelFormatError, shown

__all__ = ["MAX_INTEGER", "Element", "parse"]

MAX_INTEGER = 2**63 - 1
"""Ids, dims, offsets and sizes fit into a signed 64-bit integer."""

_MAX_DEPTH = 256
"""Deeper than bodies of loops are nested in practice."""

_CHUNK = 1 << 20
_MAX_TOKEN = 8 << 20
"""Expat before 2.6 scans an unfinished tag or comment again with every chunk; this keeps the work linear."""

_INTEGER = re.compile(r"-?[0-9]{1,19}", re.ASCII)
_TEXT_TAGS = frozenset({"dim"})
"""The elements whose text is used; of all others only the attributes are."""


@dataclasses.dataclass(slots=True, eq=False)
class Element:
    """An XML element.

    Attributes:
        path: The file, for messages.
        line: Where its start tag stands.
        tag: Its name.
        attributes: As text, in file order.
        children: In file order.
        text: The text inside a ``dim``; "" for other elements.
    """

    path: str
    line: int
    tag: str
    attributes: dict[str, str]
    children: list[Element] = dataclasses.field(default_factory=list)
    text: str = ""

    def error(self, problem: str) -> ModelFormatError:
        """Returns an error that names this element."""
        return ModelFormatError(self.path, f"line {self.line}: <{self.tag}>", problem)

    def child(self, tag: str) -> Element | None:
        """Returns the first child with a tag."""
        return next(self.all(tag), None)

    def all(self, tag: str) -> Iterator[Element]:
        """Iterates over the children with a tag."""
        return (child for child in self.children if child.tag == tag)

    def required(self, name: str) -> str:
        """Returns an attribute.

        Raises:
            ModelFormatError: It is missing.
        """
        if name not in self.attributes:
            raise self.error(f"attribute {name} is missing.")
        return self.attributes[name]

    def integer(self, name: str) -> int:
        """Returns an attribute that is an id, an offset or a size.

        Raises:
            ModelFormatError: It is missing, or no integer from 0 to 2^63 - 1.
        """
        text = self.required(name)
        value = int(text) if _INTEGER.fullmatch(text.strip()) else -1
        if not 0 <= value <= MAX_INTEGER:
            raise self.error(f"attribute {name} = {shown(text)} is not an integer from 0 to {MAX_INTEGER}.")
        return value


def parse(path: str, stream: BinaryIO) -> Element:
    """Parses an XML file.

    Document type declarations, and with them entities of the file's own, are refused. Time and memory grow linearly
    with the file.

    Args:
        path: The file, for messages.
        stream: Its bytes, which are UTF-8.

    Returns:
        The root element.

    Raises:
        ModelFormatError: The file is not well-formed, has a document type, or nests too deeply.
        OSError: The stream cannot be read.
    """
    handler = _Handler(path)
    fed = 0
    try:
        while chunk := stream.read(_CHUNK):
            fed += len(chunk)
            handler.parser.Parse(chunk, False)
            if fed - handler.parser.CurrentByteIndex > _MAX_TOKEN:
                raise handler.error(f"a tag or comment is longer than {_MAX_TOKEN} bytes.")
        if fed == 0:
            raise ModelFormatError(path, "", "the file is empty; an XML document is expected.")
        handler.parser.Parse(b"", True)
    except expat.ExpatError as error:
        reason = expat.ErrorString(error.code)
        where = f"line {error.lineno}, column {error.offset + 1}"
        raise ModelFormatError(path, where, f"the file is not well-formed UTF-8 XML: {reason}.") from error
    assert handler.root is not None, "expat accepts no document without an element"
    return handler.root


class _Handler:
    def __init__(self, path: str) -> None:
        self.root: Element | None = None
        self._path = path
        self._open: list[Element] = []
        self._text: list[str] = []
        # The encoding given here overrides what the file declares.
        self.parser = expat.ParserCreate("utf-8")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.StartDoctypeDeclHandler = self._doctype

    def error(self, problem: str) -> ModelFormatError:
        return ModelFormatError(self._path, f"line {self.parser.CurrentLineNumber}", problem)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        if len(self._open) == _MAX_DEPTH:
            raise self.error(f"elements are nested deeper than {_MAX_DEPTH} levels.")
        element = Element(self._path, self.parser.CurrentLineNumber, tag, attributes)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)
        self._text.clear()

    def _end(self, tag: str) -> None:
        element = self._open.pop()
        if tag in _TEXT_TAGS:
            element.text = "".join(self._text)
        self._text.clear()

    def _characters(self, text: str) -> None:
        if self._open and self._open[-1].tag in _TEXT_TAGS:
            self._text.append(text)

    def _doctype(self, name: str, *_: object) -> None:
        raise self.error(f"a document type declaration ({shown(name)}) is not allowed in an OpenVINO IR.")

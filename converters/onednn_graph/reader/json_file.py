"""Reads untrusted JSON: values that know their JSON pointer, and limits on size and digits."""

from __future__ import annotations

import collections
import json
import os
from collections.abc import Iterator
from typing import NoReturn

from ortconv.errors import ModelFormatError, shown
from ortconv.model_io.regular_files import open_regular

__all__ = ["Place", "parse"]

_MAX_BYTES = 1 << 26
"""Largest file; graphs hold no tensor data, and the largest known dumps have a few hundred KiB."""

_MAX_DIGITS = 20
"""Enough for every 64-bit integer; Python's integers have no limit, and converting long ones takes quadratic time."""


class Place:
    """A JSON value and its position.

    Args:
        path: The file, for messages.
        pointer: JSON pointer of the value.
        value: The value.
    """

    def __init__(self, path: str, pointer: str, value: object) -> None:
        self.path = path
        self.pointer = pointer
        self.value = value

    def fail(self, problem: str) -> NoReturn:
        """Raises a ModelFormatError for this place."""
        raise ModelFormatError(self.path, self.pointer, problem)

    def field(self, name: str) -> Place:
        """Returns a required field of an object."""
        return self.find(name) or self.fail(f"has no field {name}; it is required.")

    def find(self, name: str) -> Place | None:
        """Returns a field of an object, or None."""
        fields = self._object()
        return self._child(name, fields[name]) if name in fields else None

    def fields(self) -> Iterator[tuple[str, Place]]:
        """Iterates over the fields of an object."""
        for name, value in self._object().items():
            yield Place(self.path, self.pointer, name).text(), self._child(name, value)

    def items(self) -> Iterator[Place]:
        """Iterates over the entries of a list."""
        if not isinstance(self.value, list):
            self._mismatch("a list")
        for index, value in enumerate(self.value):
            yield self._child(str(index), value)

    def text(self) -> str:
        """Returns a string; rejects one that UTF-8 cannot encode (a lone surrogate)."""
        if not isinstance(self.value, str):
            self._mismatch("a string")
        try:
            self.value.encode()
        except UnicodeEncodeError:
            self._mismatch("a string of valid Unicode")
        return self.value

    def choice(self, *allowed: str) -> str:
        """Returns a string that is one of several."""
        if self.value not in allowed:
            self._mismatch(", ".join(allowed))
        return self.text()

    def integer(self, allowed: range) -> int:
        """Returns an integer within a range."""
        if not isinstance(self.value, int) or isinstance(self.value, bool) or self.value not in allowed:
            self._mismatch(f"an integer from {allowed.start} to {allowed.stop - 1}")
        return self.value

    def _object(self) -> _Object:
        if not isinstance(self.value, _Object):
            self._mismatch("an object")
        if self.value.repeated:
            self.fail(f"has the field {shown(self.value.repeated)} twice.")
        return self.value

    def _child(self, name: str, value: object) -> Place:
        return Place(self.path, f"{self.pointer}/{name.replace('~', '~0').replace('/', '~1')}", value)

    def _mismatch(self, allowed: str) -> NoReturn:
        constant = self.value is None or isinstance(self.value, bool)
        found = json.dumps(self.value) if constant else shown(self.value)
        self.fail(f"{found} is not allowed here; allowed: {allowed}.")


class _Object(dict[str, object]):
    """A JSON object that remembers a key that occurs twice."""

    def __init__(self, pairs: list[tuple[str, object]]) -> None:
        super().__init__(pairs)
        self.repeated = ""
        if len(self) < len(pairs):
            counts = collections.Counter(key for key, _ in pairs)
            self.repeated = counts.most_common(1)[0][0]


def parse(path: str | os.PathLike[str]) -> Place:
    """Reads a JSON file.

    Numbers that are not finite, and integers beyond 64 bits, become floats, which no integer field accepts.

    Returns:
        The root of the document.

    Raises:
        ModelFormatError: The file cannot be read or is not JSON; `where` is the line, if there is one.
    """
    name = os.fspath(path)
    try:
        with open_regular(path) as file:
            data = file.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ModelFormatError(name, "", f"cannot be read: {error.strerror or error}.") from error
    if len(data) > _MAX_BYTES:
        raise ModelFormatError(name, "", f"has more than {_MAX_BYTES} bytes, which no oneDNN graph has.")
    try:
        value = json.loads(data.decode("utf-8-sig"), object_pairs_hook=_Object, parse_int=_integer)
    except UnicodeDecodeError as error:
        raise ModelFormatError(name, f"byte {error.start}", "is not UTF-8.") from error
    except json.JSONDecodeError as error:
        raise ModelFormatError(name, f"line {error.lineno}", f"is not JSON: {error.msg}.") from error
    except RecursionError as error:
        raise ModelFormatError(name, "", "is nested too deeply.") from error
    return Place(name, "", value)


def _integer(digits: str) -> int | float:
    return int(digits) if len(digits) <= _MAX_DIGITS else float(digits)

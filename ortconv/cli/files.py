"""Reading and writing what goes with a model: reports and tensors. A file is written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import pathlib
import struct
import tokenize
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ortconv.errors import InputError
from ortconv.model_io import atomic_write
from ortconv.model_io.regular_files import open_regular

__all__ = ["read_npy", "read_npz", "write_json", "write_npz", "write_text"]

Array = npt.NDArray[Any]

_MALFORMED = (
    *(ValueError, EOFError, zipfile.BadZipFile, zlib.error, struct.error, tokenize.TokenError, SyntaxError),
    *(LookupError, TypeError, OverflowError, MemoryError, RuntimeError),
)
"""What numpy and zipfile raise for what is no file of arrays, or a damaged one; the last where it is encrypted, or
packed in a way that they do not know."""


def read_npz(path: pathlib.Path) -> dict[str, Array]:
    """Reads the arrays of an ``.npz`` file.

    Raises:
        InputError: It is not such a file.
    """
    with _loaded(path, "an .npz file of plain arrays") as loaded:
        if isinstance(loaded, np.ndarray):
            raise InputError(str(path), "holds one array; an .npz file of named arrays is required.")
        return {name: loaded[name] for name in loaded.files}


def read_npy(path: pathlib.Path) -> Array:
    """Reads the array of an ``.npy`` file.

    Raises:
        InputError: It is not such a file.
    """
    with _loaded(path, "an .npy file of numbers") as loaded:
        if not isinstance(loaded, np.ndarray):
            raise InputError(str(path), "is an .npz file; one array (.npy) is required.")
        return loaded


def write_json(path: pathlib.Path, content: object) -> None:
    """Writes a JSON file."""
    write_text(path, json.dumps(content, indent=2, ensure_ascii=False, default=str) + "\n")


def write_text(path: pathlib.Path, text: str) -> None:
    """Writes a text file in UTF-8; names of files that are not UTF-8 have escapes."""
    with atomic_write.whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="backslashreplace")


def write_npz(path: pathlib.Path, arrays: Mapping[str, Array]) -> None:
    """Writes an ``.npz`` file with the arrays under any names."""
    with atomic_write.whole(path) as temporary, zipfile.ZipFile(temporary, "w", allowZip64=True) as archive:
        for name, array in arrays.items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as stream:
                np.lib.format.write_array(stream, array, allow_pickle=False)


@contextlib.contextmanager
def _loaded(path: pathlib.Path, kind: str) -> Iterator[Any]:
    """Opens a file of arrays; `kind` says which in the message for one that is none."""
    try:
        with open_regular(path) as stream:
            yield np.load(stream, allow_pickle=False)
    except OSError as error:
        raise InputError(str(path), f"cannot be read: {error.strerror or error}.") from error
    except _MALFORMED as error:
        raise InputError(str(path), f"is not {kind}{_reason(error)}.") from error


def _reason(error: Exception) -> str:
    """Returns numpy's reason, but for its advice to load what it does not know as a program."""
    text = str(error).rstrip(".")
    return f": {text}" if text and "pickle" not in text else ""

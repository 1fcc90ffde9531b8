"""Opens untrusted files: regular files only, and external data only in the model's own folder."""

from __future__ import annotations

import errno
import os
import pathlib
import stat
from typing import BinaryIO

__all__ = ["open_inside", "open_regular"]

_FLAGS = os.O_RDONLY | getattr(os, "O_BINARY", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)


def open_regular(path: str | os.PathLike[str]) -> BinaryIO:
    """Opens a regular file for reading; refuses devices, and FIFOs, which would block.

    Raises:
        OSError: The file cannot be read, or is no regular file.
        ValueError: The path contains a null byte.
    """
    return _regular(os.open(path, _FLAGS), os.fspath(path))


def open_inside(folder: str | os.PathLike[str], location: str) -> BinaryIO:
    """Opens a model's external data under ONNX's rule: a regular file in the model's folder, and no link.

    Args:
        folder: The model's folder; "" is the current one.
        location: The relative path in the model.

    Raises:
        OSError: The file cannot be read, or breaks the rule.
    """
    parts = pathlib.PurePath(location).parts
    if not parts or "\0" in location or ".." in parts or os.path.isabs(location):
        raise OSError(errno.EINVAL, "is no relative path that stays in the model's folder", location)
    path = os.fspath(folder)
    for part in parts:
        path = os.path.join(path, part)
        if stat.S_ISLNK(os.lstat(path).st_mode):
            raise OSError(errno.ELOOP, "is a symbolic link, or lies behind one", location)
    file = _regular(os.open(path, _FLAGS | _NO_LINK), location)
    if os.fstat(file.fileno()).st_nlink > 1:
        file.close()
        raise OSError(errno.EMLINK, "has several hard links", location)
    return file


def _regular(descriptor: int, name: str) -> BinaryIO:
    mode = os.fstat(descriptor).st_mode
    if not stat.S_ISREG(mode):
        os.close(descriptor)
        if stat.S_ISDIR(mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
        raise OSError(errno.EINVAL, "is not a regular file", name)
    return os.fdopen(descriptor, "rb")

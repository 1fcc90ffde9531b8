"""Writing a file whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import os
import pathlib
import tempfile
from collections.abc import Iterator

__all__ = ["whole"]


@contextlib.contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """Yields a path in a folder of its own; what is written there takes the place of `path` if nothing goes wrong.

    Files written beside the yielded path go beside `path`, under their own names. A symbolic link stays what it is,
    and the file that it points to is replaced.

    Raises:
        OSError: Nothing can be written there, or not all of it, or `path` is something other than a file: a folder, or
            a device, which replacing would destroy. The error names `path`.
    """
    if os.path.exists(path) and not os.path.isfile(path):
        raise OSError(errno.EINVAL, "is not a regular file and is not replaced", os.fspath(path))
    target = pathlib.Path(os.path.realpath(path))
    try:
        folder = tempfile.TemporaryDirectory(prefix=".ortconv-", dir=target.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error
    with folder:
        temporary = pathlib.Path(folder.name) / target.name
        try:
            yield temporary
        except OSError as error:
            if error.strerror and error.filename in (None, os.fspath(temporary)):
                raise OSError(error.errno, error.strerror, os.fspath(path)) from error
            raise
        for file in pathlib.Path(folder.name).iterdir():
            if file != temporary:
                os.replace(file, target.parent / file.name)
        os.replace(temporary, target)

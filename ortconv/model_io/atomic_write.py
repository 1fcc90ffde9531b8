"""Writes files atomically: whole or not at all."""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import pathlib
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterator

try:
    from fcntl import LOCK_EX, LOCK_NB, flock
except ImportError:  # Windows: folders are not locked, and stale ones not removed.
    flock = None  # type: ignore[assignment]

__all__ = ["whole"]

_PREFIX = ".ortconv-writing-"
"""Prefix of the names of temporary folders."""


@contextlib.contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """Yields a path in a temporary folder; the file written there replaces `path` unless an exception is raised.

    Other files in that folder are moved beside `path`, under their own names. If `path` is a symbolic link, the file
    that it points to is replaced. Temporary folders of processes that were killed are removed.

    Raises:
        OSError: The file cannot be written, or `path` is not a regular file, such as a folder or a device. The error
            names `path`.
    """
    try:
        target = _target(path)
        folder, release = _new_folder(target.parent)
    except OSError as error:
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error
    try:
        temporary = folder / target.name
        try:
            yield temporary
        except OSError as error:
            if error.strerror and error.filename in (None, os.fspath(temporary)):
                raise OSError(error.errno, error.strerror, os.fspath(path)) from error
            raise
        for file in folder.iterdir():
            if file != temporary:
                os.replace(file, target.parent / file.name)
        os.replace(temporary, target)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        release()


def _target(path: str | os.PathLike[str]) -> pathlib.Path:
    """Returns the file to replace, behind symbolic links."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise OSError(errno.EINVAL, "is not a regular file and is not replaced")
    return pathlib.Path(os.path.realpath(path))


def _new_folder(parent: pathlib.Path) -> tuple[pathlib.Path, Callable[[], object]]:
    """Returns a new locked folder, and a function that releases the lock."""
    if flock is None:
        return pathlib.Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent)), lambda: None
    for each in parent.glob(f"{_PREFIX}*"):
        _remove_if_stale(each)
    while True:
        folder = pathlib.Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        with contextlib.suppress(FileNotFoundError):  # removed as stale by another process, before it was locked
            lock = os.open(folder, os.O_RDONLY)
            _lock(lock, LOCK_EX)
            if folder.exists():
                return folder, functools.partial(os.close, lock)
            os.close(lock)


def _remove_if_stale(folder: pathlib.Path) -> None:
    """Removes a temporary folder that no process has locked; the system releases the locks of a process that ends."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    if os.fstat(lock).st_uid == os.geteuid() and _lock(lock, LOCK_EX | LOCK_NB):
        shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def _lock(descriptor: int, how: int) -> bool:
    """Locks a folder; returns False if that fails, as on file systems without locks, where no folder is stale."""
    try:
        flock(descriptor, how)
    except OSError:
        return False
    return True

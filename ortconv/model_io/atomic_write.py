"""Writing a file whole or not at all."""

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
except ImportError:  # Windows, where nothing is locked and nothing stale removed
    flock = None  # type: ignore[assignment]

__all__ = ["whole"]

_PREFIX = ".ortconv-writing-"
"""What the names of the folders begin with in which files are written."""


@contextlib.contextmanager
def whole(path: str | os.PathLike[str]) -> Iterator[pathlib.Path]:
    """Yields a path in a folder of its own; what is written there takes the place of `path` if nothing goes wrong.

    Files written beside the yielded path go beside `path`, under their own names. A symbolic link stays what it is,
    and the file that it points to is replaced. What processes that were killed have left there is removed.

    Raises:
        OSError: Nothing can be written there, or not all of it, or `path` is something other than a file: a folder, or
            a device, which replacing would destroy. The error names `path`.
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
    """Returns the file to replace, links followed."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise OSError(errno.EINVAL, "is not a regular file and is not replaced")
    return pathlib.Path(os.path.realpath(path))


def _new_folder(parent: pathlib.Path) -> tuple[pathlib.Path, Callable[[], object]]:
    """Returns a new folder, and what gives up the lock that tells other processes that it is in use."""
    if flock is None:
        return pathlib.Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent)), lambda: None
    for each in parent.glob(f"{_PREFIX}*"):
        _remove_if_stale(each)
    while True:
        folder = pathlib.Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
        with contextlib.suppress(FileNotFoundError):  # another process took it for a stale one, before it was locked
            lock = os.open(folder, os.O_RDONLY)
            _lock(lock, LOCK_EX)
            if folder.exists():
                return folder, functools.partial(os.close, lock)
            os.close(lock)


def _remove_if_stale(folder: pathlib.Path) -> None:
    """Removes a folder of ours that no process holds: the system gives up the locks of one that ends in any way."""
    try:
        lock = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError:
        return
    if os.fstat(lock).st_uid == os.geteuid() and _lock(lock, LOCK_EX | LOCK_NB):
        shutil.rmtree(folder, ignore_errors=True)
    os.close(lock)


def _lock(descriptor: int, how: int) -> bool:
    """Locks a folder; returns whether it is locked: some file systems do not, and then nothing is ever stale."""
    try:
        flock(descriptor, how)
    except OSError:
        return False
    return True

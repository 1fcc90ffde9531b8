"""What a signal that ends the program leaves behind: nothing half written."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator

__all__ = ["tidy"]

_SIGNALS = ("SIGTERM", "SIGHUP")
"""What ends a program without a word from Python: a scheduler, a container that stops, a terminal that is closed."""


@contextlib.contextmanager
def tidy() -> Iterator[None]:
    """Has such signals end the block as an exception does, so that temporary files go; the exit code is the shell's.

    Python handles a signal between two of its own steps only: this is for what takes many short ones.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    numbers = [getattr(signal, name) for name in _SIGNALS if hasattr(signal, name)]
    taken = [number for number in numbers if signal.getsignal(number) is signal.SIG_DFL]  # nohup ignores SIGHUP
    for number in taken:
        signal.signal(number, _stop)
    try:
        yield
    finally:
        for number in taken:
            signal.signal(number, signal.SIG_DFL)


def _stop(number: int, frame: object) -> None:
    sys.exit(128 + number)

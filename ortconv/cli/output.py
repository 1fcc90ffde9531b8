"""What people see: tables and results on stdout, warnings and errors on stderr, colours on a terminal only."""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from typing import Literal, TextIO

import click
import rich.progress
from rich.cells import cell_len
from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from ortconv.errors import ConversionErrors, OrtconvError
from ortconv.progress import Progress, silent

__all__ = [
    "Cell",
    "bar",
    "count",
    "failure",
    "interrupted",
    "line",
    "plain",
    "progress",
    "quieten",
    "stderr",
    "stdout",
    "table",
    "warning",
]

Cell = str | Text

_QUIET = "ortconv.quiet"
"""What a command's context remembers."""

_WHOLE_WORD = 24
"""Words up to this length are not broken where a column is too narrow for them."""

_SHORT = 12
"""Columns up to this width are not wrapped."""

_GAP = 2
"""Spaces between columns."""

_UNLIMITED = 1 << 20
"""Columns of output that is not a terminal: nothing is wrapped, so that one row is one line for grep and less -S."""


def stdout() -> Console:
    """Returns a console on this moment's stdout, or with ``--quiet`` on nothing."""
    return _console(io.StringIO() if _is_quiet() else sys.stdout)


def stderr() -> Console:
    """Returns a console on this moment's stderr."""
    return _console(sys.stderr)


def quieten(context: click.Context, option: click.Parameter, quiet: bool) -> None:
    """Makes results and progress disappear for the rest of a command; the callback of ``--quiet``."""
    context.meta[_QUIET] = context.meta.get(_QUIET) or quiet


def _is_quiet() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(_QUIET))


def count(number: int, noun: str) -> str:
    """Returns a number with its noun, in the plural where that is due."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def plain(text: object) -> str:
    """Returns text from a file without anything that would steer a terminal: such characters are escaped."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in str(text))


def line(*parts: Cell | tuple[str, str]) -> None:
    """Prints one line, of texts or pairs of text and style; it is wrapped on a terminal only."""
    stdout().print(Text.assemble(*parts))


def table(columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, numbers: Sequence[str] = ()) -> None:
    """Prints a table, wrapped within its columns on a terminal and one line per row elsewhere.

    Args:
        columns: Headings.
        rows: Cells.
        numbers: The headings of columns that are aligned to the right and not wrapped.
    """
    console = stdout()
    shown = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0), header_style="bold")
    cells = [[column, *(str(row[index]) for row in rows)] for index, column in enumerate(columns)]
    widths = _widths(cells, [column in numbers for column in columns], console.width)
    for column, width in zip(columns, widths, strict=True):
        right = column in numbers
        shown.add_column(column, justify="right" if right else "left", no_wrap=right, overflow="fold", width=width)
    for row in rows:
        shown.add_row(*row)
    # Where a terminal is narrower than that, it breaks the lines; rich would leave out columns, and ends of lines.
    console.width = max(console.width, sum(widths) + _GAP * len(columns))
    with console.capture() as capture:
        console.print(shown, crop=False)
    # Spaces up to the edge of a terminal would show as empty lines where it breaks them.
    console.file.write("".join(f"{row.rstrip()}\n" for row in capture.get().splitlines()))


def _widths(cells: Sequence[Sequence[str]], fixed: Sequence[bool], available: int) -> list[int]:
    """Returns the widths of columns that fit a terminal: all that they need, or a share of the room that there is.

    Args:
        cells: For each column its cells, the heading among them.
        fixed: Which columns are not wrapped.
        available: The terminal's width.
    """
    wide = [max(map(cell_len, column)) for column in cells]
    words = [max((cell_len(word) for cell in column for word in cell.split()), default=0) for column in cells]
    narrow = [
        width if whole or width <= _SHORT else max(min(word, _WHOLE_WORD), cell_len(column[0]))
        for column, width, word, whole in zip(cells, wide, words, fixed, strict=True)
    ]
    wish = sum(wide) - sum(narrow)
    spare = min(max(available - _GAP * len(cells) - sum(narrow), 0), wish)
    return [least + (most - least) * spare // max(wish, 1) for least, most in zip(narrow, wide, strict=True)]


def warning(text: str) -> None:
    """Prints a warning on one line."""
    stderr().print(Text.assemble(("warning: ", "yellow"), _one_line(text)))


def interrupted() -> None:
    """Prints that the user stopped the program, below what the terminal shows of the key."""
    console = stderr()
    console.print(Text("\ninterrupted" if console.is_terminal else "interrupted", "red"))


def failure(error: BaseException) -> int:
    """Prints an error, one line for each thing refused, and returns the exit code.

    What ortconv raises on purpose is printed as it is, and so is what the operating system refuses. Anything else is
    a bug, which is said. With ORTCONV_DEBUG=1 a traceback follows.
    """
    code = 1
    if isinstance(error, ConversionErrors):
        lines = [str(each) for each in error.exceptions]
    elif isinstance(error, OrtconvError):
        lines, code = [str(error)], error.exit_code
    elif isinstance(error, OSError) and error.strerror:
        lines = [f"{error.filename}: {error.strerror}" if error.filename else error.strerror]
    elif isinstance(error, MemoryError):
        lines = ["not enough memory"]
    else:
        lines = [
            f"internal error: {type(error).__name__}: {error}; please report this with what ORTCONV_DEBUG=1 adds to it"
        ]
    console = stderr()
    for each in lines:
        console.print(Text.assemble(("error: ", "bold red"), _one_line(each)))
    if os.environ.get("ORTCONV_DEBUG") == "1":
        traceback.print_exception(error, file=console.file)
    return code


@contextlib.contextmanager
def progress(text: str) -> Iterator[None]:
    """Shows what is being done while it lasts, on a terminal; print nothing meanwhile."""
    console = stderr()
    if _animated(console):
        with console.status(plain(text)):
            yield
    else:
        yield


@contextlib.contextmanager
def bar(text: str, *, delay: float = 1.0, moving: bool = True) -> Iterator[Progress]:
    """Shows how far something is, on a terminal and once it has taken `delay` seconds; print nothing meanwhile.

    Args:
        text: What is being done.
        delay: Seconds.
        moving: Whether a thread keeps the bar moving. Without it, the bar changes when progress is reported, and takes
            no time of what is measured in between.
    """
    console = stderr()
    if not _animated(console):
        yield silent
        return
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    shown = rich.progress.Progress(*columns, console=console, transient=True, auto_refresh=moving)
    task = shown.add_task(plain(text), total=None)
    timer = threading.Timer(delay, shown.start)
    timer.start()

    def report(stage: str, done: int, total: int) -> None:
        shown.update(
            task, description=f"{plain(text)}: {stage}", completed=done, total=total or None, refresh=not moving
        )

    try:
        yield report
    finally:
        timer.cancel()
        timer.join()
        shown.stop()


def _animated(console: Console) -> bool:
    return bool(console.is_terminal and stdout().is_terminal and console.color_system)


def _console(stream: TextIO) -> Console:
    width = None if stream.isatty() else _UNLIMITED
    # NO_COLOR leaves rich its bold and dim; here it means no escape sequences at all.
    colors: Literal["auto"] | None = None if os.environ.get("NO_COLOR") else "auto"
    return Console(file=stream, width=width, color_system=colors, markup=False, highlight=False, emoji=False)


def _one_line(text: str) -> str:
    return plain(" ".join(text.split()))

"""Which sources ``ortconv convert`` reads, those of folders among them, and where each goes."""

from __future__ import annotations

import dataclasses
import os
import pathlib
from collections import defaultdict
from collections.abc import Sequence

import click

from ortconv import api
from ortconv.cli import options
from ortconv.errors import ModelFormatError

__all__ = ["Job", "plan"]


_BEGIN = 1 << 16
_MARKS = (b"<net", b'"graph"')
"""What stands among the first bytes of an OpenVINO IR and of a oneDNN graph."""


@dataclasses.dataclass(frozen=True)
class Job:
    """A source and the file that it becomes."""

    source: pathlib.Path
    target: pathlib.Path


def plan(
    sources: Sequence[pathlib.Path], target_file: pathlib.Path | None, target_dir: pathlib.Path | None
) -> list[Job]:
    """Decides what is read and what is written where; below a folder, results lie as the sources do.

    Raises:
        click.UsageError: The options contradict each other, or two sources would be written to one file.
        ModelFormatError: A folder holds no source, or a file is ONNX already.
    """
    if target_file and target_dir:
        raise click.UsageError("-o and --output-dir exclude each other.")
    if any(source.is_dir() for source in sources):
        target_dir, target_file = target_file or target_dir, None
        if target_dir and target_dir.exists() and not target_dir.is_dir():
            raise click.UsageError(f"-o: {str(target_dir)!r} is a file, and a folder's sources go to a folder.")
    if target_file and len(sources) > 1:
        raise click.UsageError(f"-o names one file, and there are {len(sources)} sources; use --output-dir.")
    options.writable("-o", target_file)
    folder = target_dir or pathlib.Path()
    jobs = []
    for source in sources:
        if source.is_dir():
            jobs += [Job(found, folder / found.relative_to(source).with_suffix(".onnx")) for found in _inside(source)]
        else:
            job = Job(source, target_file or folder / f"{source.stem}.onnx")
            if os.path.realpath(job.target) == os.path.realpath(source):
                api.detect(source)  # says what it is, if it is ONNX: more than that it would be overwritten
            jobs.append(job)
    origins: dict[str, list[str]] = defaultdict(list)
    for job in jobs:
        origins[os.path.realpath(job.target)].append(str(job.source))
    for target, claimants in origins.items():
        if len(claimants) > 1:
            name = os.path.basename(target)
            raise click.UsageError(
                f"{', '.join(claimants)}: all would be written to {name}; convert them one by one with -o."
            )
    return jobs


def _inside(folder: pathlib.Path) -> list[pathlib.Path]:
    """Returns the sources in a folder and those below it, in order.

    Raises:
        ModelFormatError: There are none.
    """
    found = sorted(path for path in folder.rglob("*") if _is_source(path))
    if not found:
        raise ModelFormatError(str(folder), "", "is a folder without sources; allowed: OpenVINO IR, oneDNN Graph JSON.")
    return found


def _is_source(path: pathlib.Path) -> bool:
    """Tells whether a file is one by its suffix and its first bytes; other tools write XML and JSON, too."""
    try:
        api.detect(path)
    except ModelFormatError:
        return False
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        begin = stream.read(_BEGIN)
    return any(mark in begin for mark in _MARKS)

"""Pages of the documentation, and running their examples.

A fenced block in the language ``sh`` is a piece of one shell session, which begins in a new folder. A block of
``python`` with a title is a file of that name, one without is run at its place in the session. A block of ``text``
without a title that follows a block of the session shows what it prints.

    python -m tests.docs.pages PAGE COMMAND...

runs the session of a page, with all that it installs, in the shell that the command starts, such as
``chroot FOLDER bash -s`` or ``docker run --rm --interactive debian:12 bash -s``. It fails if there is a compiler.
"""

from __future__ import annotations

import dataclasses
import os
import pathlib
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence

from tests.folders import ROOT

__all__ = ["DOCS", "Block", "blocks", "run_examples"]

DOCS = ROOT / "docs"
_BLOCK = re.compile(r'^( *)```(\w*)(?: title="([^"]*)")?\n(.*?)^\1```$', re.MULTILINE | re.DOTALL)
_MEASURED = re.compile(r"\d+(\.\d+)?e[-+]?\d+|\d+(\.\d+){2,}|\d+(\.\d+)?(?= ?(ms|us|s|x|%)\b)")
_INSTALLS = re.compile(r"^(apt-get|pip) ", re.MULTILINE)
_NO_COMPILER = "for each in cc c++ gcc g++ clang cmake; do if command -v $each; then exit 99; fi; done\n"


@dataclasses.dataclass(frozen=True)
class Block:
    """A fenced block.

    Attributes:
        language: Its language, or "".
        title: The name of the file that it is, or "".
        text: What is in it.
    """

    language: str
    title: str
    text: str


def blocks(page: pathlib.Path) -> list[Block]:
    """Returns the fenced blocks of a page in their order."""
    return [Block(language, title, text) for _, language, title, text in _BLOCK.findall(page.read_text("utf-8"))]


def run_examples(page: pathlib.Path, folder: pathlib.Path, port: int | None = None) -> int:
    """Runs the examples of a page in a folder, with this Python's ortconv, and compares what they print.

    Commands that install something are left out.

    Args:
        page: The page.
        folder: Where its session begins.
        port: Takes the place of 8000.

    Returns:
        How many blocks were compared with what the page shows.

    Raises:
        AssertionError: A command fails, or prints something else.
    """
    tools = folder / ".tools"
    tools.mkdir()
    for name in ("python", "ortconv", "uvicorn"):
        module = "" if name == "python" else f"-m {name} "
        (tools / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module}"$@"\n', encoding="utf-8")
        (tools / name).chmod(0o755)
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}
    found = [
        dataclasses.replace(block, text=block.text.replace("8000", str(port or 8000)))
        for block in blocks(page)
        if block.language != "sh" or not _INSTALLS.search(block.text)
    ]
    return _run(page.name, found, ["bash", "-s"], folder, environment)


def _run(
    page: str, found: Sequence[Block], command: Sequence[str], folder: pathlib.Path, environment: Mapping[str, str]
) -> int:
    script, shown = ["set -eu"], {}
    for number, block in enumerate(found):
        if block.language == "python":
            script.append(f"{f'cat > {block.title}' if block.title else 'python -'} <<'END'\n{block.text}END")
        elif block.language == "sh":
            script.append(block.text)
        script.append(f"echo '=== {number}'")
        if number and block.language == "text" and not block.title:
            shown[number - 1] = block.text
    # As a function, since commands must not read the script as their input.
    text = "session() {\n" + "\n".join(script) + "\n}\nsession < /dev/null\n"
    finished = subprocess.run(
        command, input=text, cwd=folder, env=environment, capture_output=True, text=True, timeout=1800, check=False
    )
    assert finished.returncode == 0, f"{page}\n{finished.stdout}\n{finished.stderr}"
    printed = re.split(r"^=== (\d+)\n", finished.stdout, flags=re.MULTILINE)
    outputs = {int(number): text for text, number in zip(printed[::2], printed[1::2], strict=False)}
    for number, text in shown.items():
        assert _without_measures(outputs[number]) == _without_measures(text), f"{page}: {found[number].text}"
    return len(shown)


def _without_measures(text: str) -> list[str]:
    """Returns the lines without what depends on the machine: errors, times, versions, and the width of columns."""
    return [" ".join(_MEASURED.sub("#", line).split()) for line in text.splitlines()]


if __name__ == "__main__":
    page = pathlib.Path(sys.argv[1])
    session = [*blocks(page), Block("sh", "", _NO_COMPILER)]
    count = _run(page.name, session, sys.argv[2:], ROOT, os.environ)
    print(f"{page}: {len(session)} blocks, {count} of them shown outputs, which agree")

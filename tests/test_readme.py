"""Examples of the README run and print what it shows; tables of operations are those of the registries."""

from __future__ import annotations

import pathlib
import re
import shlex
import subprocess
import sys

import pytest

from tests.folders import ROOT
from tests.operations import PAGE, with_tables

README = ROOT / "README.md"
_NUMBER = re.compile(r"\d+(\.\d+)*(e[-+]?\d+)?")


def blocks(language: str) -> list[str]:
    found = re.findall(r"^```(\w*)\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [text for name, text in found if name == language]


def rough(text: str) -> list[str]:
    """Returns the lines with numbers and the width of columns left out: they depend on the machine."""
    return [" ".join(_NUMBER.sub("#", line).split()) for line in text.splitlines()]


def test_tables_of_operations_are_the_registries() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert text == with_tables(text), "make docs writes them"


def test_python_example_prints_what_is_shown(tmp_path: pathlib.Path) -> None:
    (code,) = blocks("python")
    finished = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout in blocks("")


def test_commands_print_what_is_shown(tmp_path: pathlib.Path) -> None:
    pytest.importorskip("openvino", reason="the example verifies against OpenVINO")
    (tmp_path / "samples").symlink_to(README.parent / "samples")
    for entry in "".join(blocks("console")).split("$ ")[1:]:
        command, _, shown = entry.partition("\n")
        finished = subprocess.run(
            [sys.executable, "-m", *shlex.split(command)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        assert rough(finished.stdout) == rough(shown)

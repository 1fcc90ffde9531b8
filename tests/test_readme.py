"""The README says what is so: its tables come from the registries, its examples run and print what it shows."""

from __future__ import annotations

import pathlib
import re
import shlex
import subprocess
import sys
import textwrap

import pytest

from ortconv.converters import FRONTENDS
from ortconv.frontend import Frontend

README = pathlib.Path(__file__).parents[1] / "README.md"
_NUMBER = re.compile(r"\d+(\.\d+)*(e[-+]?\d+)?")


def op_list(frontend: Frontend) -> str:
    """Returns the README's paragraph of a format's ops."""
    versions: dict[str, list[str]] = {}
    for lowering in frontend.registry:
        versions.setdefault(lowering.op_type, []).append(lowering.versions)
    names = [op if found == ["1"] else f"{op} ({', '.join(found)})" for op, found in versions.items()]
    return textwrap.fill(", ".join(names) + ".", 120, break_long_words=False, break_on_hyphens=False)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", README.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def rough(text: str) -> list[str]:
    """Returns the lines with numbers and the width of columns left out: they depend on the machine."""
    return [" ".join(_NUMBER.sub("#", line).split()) for line in text.splitlines()]


@pytest.mark.parametrize("frontend", FRONTENDS, ids=lambda frontend: frontend.name)
def test_lists_of_ops_are_the_registries(frontend: Frontend) -> None:
    found = re.search(rf"<!-- ops {frontend.name} -->\n(.*?)\n?<!-- end -->", README.read_text("utf-8"), re.DOTALL)
    assert found is not None
    assert found[1] == op_list(frontend)


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
    (session,) = blocks("console")
    for entry in session.split("$ ")[1:]:
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

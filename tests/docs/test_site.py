"""What the site makes of its pages: commands, the reference of Python, Markdown that GitHub reads otherwise."""

from __future__ import annotations

import importlib.util
import pathlib
import re
from types import ModuleType

import click
import pytest

import ortconv
from ortconv.cli import cli
from tests.docs.pages import DOCS
from tests.folders import ROOT

PAGES = [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))]


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("commands", DOCS / "_site" / "commands.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_page_on_the_command_line_lists_every_command(hook: ModuleType) -> None:
    page = (DOCS / "reference" / "command_line.md").read_text(encoding="utf-8")
    assert page.count(hook.MARK) == 1
    sections = hook.on_page_markdown(page).split("\n## ortconv ")[1:]
    context = click.Context(cli)
    assert [section.split("\n")[0] for section in sections] == cli.list_commands(context)
    for section in sections:
        name = section.split("\n")[0]
        command = cli.get_command(context, name)
        assert command
        options = {option for each in command.params if isinstance(each, click.Option) for option in each.opts}
        assert {
            *re.findall(r"(?<=[` ])--?[\w-]+", " ".join(re.findall(r"^`.*`$", section, re.MULTILINE)))
        } == options - {
            "-q",
            "--quiet",
        }
        assert f'title="Example"\nortconv {name} ' in section
        assert f"```text\nortconv {name} [OPTIONS]" in section


def test_page_on_python_has_every_public_name() -> None:
    page = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    shown = re.findall(r"^::: ortconv\.(\w+)$", page, re.MULTILINE)
    assert sorted(shown) == sorted({*ortconv.__all__} - {"__version__", "onednn"})


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_markdown_means_the_same_in_the_site_as_on_github(path: pathlib.Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.findall(r"^ {1,3}```", text, re.MULTILINE) == [], "a block in a list is indented by four spaces"
    assert re.findall(r"^\|.*`[^`]*\\\|", text, re.MULTILINE) == [], "the backslash is shown in code in a table"
    assert re.findall(r"^(?![-\d ]).+\n(?:- |1\. )", text, re.MULTILINE) == [], "a list begins behind a blank line"

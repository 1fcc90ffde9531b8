"""The README's tables of operations, which come from the registries; run as a script, this writes them into it."""

from __future__ import annotations

import re

from ortconv.cli.ops import markdown_table
from ortconv.converters import FRONTENDS
from tests.folders import ROOT

__all__ = ["README", "with_tables"]

README = ROOT / "README.md"


def with_tables(text: str) -> str:
    """Returns the README's text with its tables of operations made anew."""
    for frontend in FRONTENDS:
        section = re.compile(rf"(<!-- ops {frontend.name} -->\n).*?(<!-- end -->)", re.DOTALL)
        table = markdown_table(frontend)
        text, count = section.subn(lambda found, table=table: found[1] + table + found[2], text)  # type: ignore[misc]
        assert count == 1, f"{README} has {count} sections for the operations of {frontend.name}"
    return text


if __name__ == "__main__":
    README.write_text(with_tables(README.read_text(encoding="utf-8")), encoding="utf-8")

"""The tables of operations in docs/operators.md, generated from the registries; as a script, this writes them."""

from __future__ import annotations

import re

from ortconv.cli.ops import markdown_table
from ortconv.converters import FRONTENDS
from tests.folders import ROOT

__all__ = ["PAGE", "with_tables"]

PAGE = ROOT / "docs" / "operators.md"


def with_tables(text: str) -> str:
    """Returns the text of the page with its tables generated again."""
    for frontend in FRONTENDS:
        section = re.compile(rf"(<!-- ops {frontend.name} -->\n).*?(<!-- end -->)", re.DOTALL)
        table = markdown_table(frontend)
        text, count = section.subn(lambda found, table=table: found[1] + table + found[2], text)  # type: ignore[misc]
        assert count == 1, f"{PAGE} has {count} sections for the operations of {frontend.name}"
    return text


if __name__ == "__main__":
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

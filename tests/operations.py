"""Tables in docs that are generated: operations, and bugs of OpenVINO's CPU plugin; as a script, this writes them."""

from __future__ import annotations

import re

from ortconv.cli.ops import markdown_table
from ortconv.converters import FRONTENDS
from ortconv.converters.openvino.plugin_bugs.table import bugs
from tests.folders import ROOT

__all__ = ["BUGS_PAGE", "PAGE", "with_plugin_bugs", "with_tables"]

PAGE = ROOT / "docs" / "reference" / "operators.md"
BUGS_PAGE = ROOT / "docs" / "reference" / "openvino.md"


def with_tables(text: str) -> str:
    """Returns the text of the page with its tables generated again."""
    for frontend in FRONTENDS:
        section = re.compile(rf"(<!-- ops {frontend.name} -->\n).*?(<!-- end -->)", re.DOTALL)
        table = markdown_table(frontend)
        text, count = section.subn(lambda found, table=table: found[1] + table + found[2], text)  # type: ignore[misc]
        assert count == 1, f"{PAGE} has {count} sections for the operations of {frontend.name}"
    return text


def with_plugin_bugs(text: str) -> str:
    """Returns the text of the page on OpenVINO's CPU plugin with the table of its bugs generated again."""
    rows = [f"| {bug.op} | {bug.case} | {bug.fault} |\n" for bug in bugs().values()]
    table = "".join(["| operation | case | OpenVINO's CPU plugin |\n", "|---|---|---|\n", *rows])
    section = re.compile(r"(<!-- plugin bugs -->\n).*?(<!-- end -->)", re.DOTALL)
    text, count = section.subn(lambda found: found[1] + table + found[2], text)
    assert count == 1, f"{BUGS_PAGE} has {count} sections for bugs of the plugin"
    return text


if __name__ == "__main__":
    BUGS_PAGE.write_text(with_plugin_bugs(BUGS_PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    PAGE.write_text(with_tables(PAGE.read_text(encoding="utf-8")), encoding="utf-8")

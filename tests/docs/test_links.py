"""Links of the documentation lead somewhere, and paths that it names exist."""

from __future__ import annotations

import pathlib
import re

import pytest

from tests.docs.pages import DOCS
from tests.folders import ROOT


@pytest.mark.parametrize(
    "path", [*sorted(ROOT.glob("*.md")), *sorted(DOCS.rglob("*.md"))], ids=lambda path: str(path.relative_to(ROOT))
)
def test_links_lead_somewhere(path: pathlib.Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:\s]*)(?:#([^)]*))?\)", path.read_text(encoding="utf-8")):
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.*)$", file.read_text(encoding="utf-8"), re.MULTILINE)
            assert anchor in {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_paths_of_the_architecture_exist() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    paths = [name for name in re.findall(r"`([^`\s]*/[^`\s]*)`", text) if "<" not in name]
    folders = re.findall(r"`([^`\s]*)/<\w+>\.py`", text)
    assert len(paths) > 30
    assert [name for name in {*paths, *folders} if not (ROOT / name).exists()] == []

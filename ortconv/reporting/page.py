"""Writes the page: one HTML file that holds its data, its program and the libraries of that, and fetches nothing."""

from __future__ import annotations

import importlib.resources
import json
import re
from collections.abc import Mapping
from typing import Any

__all__ = ["render"]

_FILES = importlib.resources.files("ortconv.reporting") / "page"
_END = re.compile("</(script|style)", re.IGNORECASE)
_PLACE = re.compile(r"\{\{(\S+)\}\}")


def render(document: Mapping[str, Any]) -> str:
    """Returns the page.

    Args:
        document: What `document.gather` found.
    """
    template = (_FILES / "page.html").read_text(encoding="utf-8")
    # Neither a name in the data nor a text in a library can end the element that it stands in.
    data = json.dumps(document, ensure_ascii=False, separators=(",", ":"), allow_nan=False).replace("<", "\\u003c")

    def content(place: re.Match[str]) -> str:
        if place[1] == "data":
            return data
        text = (_FILES / place[1]).read_text(encoding="utf-8")
        assert not _END.search(text), place[1]
        return text

    return _PLACE.sub(content, template)

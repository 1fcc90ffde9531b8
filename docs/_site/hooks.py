"""Hooks of MkDocs: links to files of the repository outside docs/, drawings in the page's colors, code in one line."""

from __future__ import annotations

import os
import pathlib
import posixpath
import re
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = pathlib.Path(__file__).parents[2]
OUTSIDE = "repository"
"""Folder of the site with the files from outside docs/."""

_LINK = re.compile(r"(\]\()([^)#:\s]+)((?:#[^)]*)?\))")
_SHORT_CODE = re.compile(r"<code>(?=[^<]{1,32}</code>)")
_DRAWING = re.compile(r"!\[[^\]]*\]\(([^)\s]+\.svg)\)")


def on_files(files: Files, config: Any) -> Files:
    """Adds the files that pages link to, and the pages among them link to, and so on."""
    docs = pathlib.Path(config.docs_dir)
    pages = [pathlib.Path(file.abs_src_path) for file in files.documentation_pages()]
    seen = set(pages)
    while pages:
        page = pages.pop()
        for link in _LINK.finditer(page.read_text(encoding="utf-8")):
            path = pathlib.Path(os.path.normpath(page.parent / link[2]))
            if path in seen or path.is_relative_to(docs) or not path.is_file():
                continue
            seen.add(path)
            uri = f"{OUTSIDE}/{path.relative_to(ROOT).as_posix()}"
            files.append(File.generated(config, uri, abs_src_path=str(path)))
            if path.suffix == ".md":
                pages.append(path)
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, files: Files) -> str:
    """Directs links to the files outside docs/ to their places in the site, and puts drawings into the page."""
    docs, source = pathlib.Path(config.docs_dir), pathlib.Path(page.file.abs_src_path)

    def place(link: re.Match[str]) -> str:
        path = pathlib.Path(os.path.normpath(source.parent / link[2]))
        if path.is_relative_to(docs):
            uri = path.relative_to(docs).as_posix()
        elif path.is_relative_to(ROOT):
            uri = f"{OUTSIDE}/{path.relative_to(ROOT).as_posix()}"
        else:
            return link[0]  # left to MkDocs, which warns
        return link[1] + posixpath.relpath(uri, posixpath.dirname(page.file.src_uri)) + link[3]

    def drawing(image: re.Match[str]) -> str:
        return (source.parent / image[1]).read_text(encoding="utf-8").replace("\n", "")

    return _LINK.sub(place, _DRAWING.sub(drawing, markdown))


def on_page_content(html: str, **_: Any) -> str:
    """Marks short pieces of code, which the style sheet keeps in one line."""
    return _SHORT_CODE.sub('<code class="short">', html)

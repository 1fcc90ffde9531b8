"""Modules that wait for their first use."""

from __future__ import annotations

import importlib
import pathlib
import sys

import pytest

from ortconv.cli.deferred import defer


def test_loads_at_the_first_use(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "waits_for_use.py").write_text("import sys\nsys.stdout.write('loaded')\nVALUE = 3\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    lines: list[str] = []
    monkeypatch.setattr(sys.stdout, "write", lines.append)
    defer("waits_for_use")
    module = importlib.import_module("waits_for_use")
    assert lines == []
    assert module.VALUE == 3
    assert lines == ["loaded"]


def test_a_missing_module_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path])
    defer("there_is_no_such_module")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("there_is_no_such_module")

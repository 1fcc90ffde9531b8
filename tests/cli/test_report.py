"""``ortconv report``: the file, exit codes, and what is refused. tests/reporting looks at the page itself."""

from __future__ import annotations

import pathlib
import re

import numpy as np
import pytest

from tests.command_line import activation, refused, run_cli, upsampling, write


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_page_is_one_file_without_links() -> None:
    write(upsampling(), pathlib.Path("up.json"))
    np.savez("w.npz", w=np.ones((3, 3, 2, 3), np.float32))
    result = run_cli("report", "up.json", "--tensors", "w.npz", "-o", "up.html", "--threads", "1", "--runs", "1")
    assert (result.exit_code, result.stdout) == (0, "up.json -> up.html: agrees\n")
    text = pathlib.Path("up.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=", text)
    assert "{{" + "data}}" not in text
    assert sorted(path.name for path in pathlib.Path().iterdir()) == ["up.html", "up.json", "w.npz"]


def test_refused_source_gives_a_page_and_fails() -> None:
    write(refused(), pathlib.Path("refused.json"))
    result = run_cli("report", "refused.json", "-o", "refused.html")
    assert (result.exit_code, result.stdout) == (1, "refused.json -> refused.html: 2 nodes refused\n")
    assert result.stderr.count("error: ") == 2
    assert pathlib.Path("refused.html").exists()


def test_wrong_data_is_told_and_the_page_has_the_networks() -> None:
    write(activation(), pathlib.Path("act.json"))
    np.save("x.npy", np.zeros((1, 2, 4), np.float32))
    result = run_cli("report", "act.json", "-o", "act.html", "--input", "x=x.npy")
    assert result.exit_code == 1
    assert result.stdout == "act.json -> act.html: not verified\n"
    assert "error: " in result.stderr
    assert '"op":"ReLU"' in pathlib.Path("act.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "code", "problem"),
    [
        (("act.json",), 2, "Missing option '-o'"),
        (("act.json", "-o", "act.json"), 2, "act.json would overwrite a file that this call reads or writes"),
        (("act.json", "-o", "no/act.html"), 2, "the directory 'no' does not exist"),
        (("act.json", "-o", "act.html", "--shape", "z=1x3"), 2, "does not begin with an input's name"),
        (("none.xml", "-o", "act.html"), 1, "none.xml"),
        (("text.xml", "-o", "act.html"), 1, "text.xml"),
        (("network.onnx", "-o", "act.html"), 1, "is ONNX already"),
    ],
)
def test_wrong_usage_writes_nothing(options: tuple[str, ...], code: int, problem: str) -> None:
    write(activation(), pathlib.Path("act.json"))
    pathlib.Path("text.xml").write_text("hello")
    result = run_cli("report", *options)
    assert result.exit_code == code
    assert problem in result.stderr
    assert not pathlib.Path("act.html").exists()

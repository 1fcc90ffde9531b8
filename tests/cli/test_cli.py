"""The command line as a program: usage, exit codes, what goes to which stream, and what a terminal shows."""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import onnx
import pytest

import ortconv
from ortconv.model_io import checker
from tests.command_line import activation, refused, run_cli, upsampling, write

COMMANDS = ("convert", "check", "run", "explain", "verify", "report", "optimize", "bench", "bundle", "ops")


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


class TestProgram:
    @pytest.mark.parametrize("command", COMMANDS)
    def test_help_has_an_example(self, command: str) -> None:
        result = run_cli(command, "--help")
        assert result.exit_code == 0
        assert f"Example: ortconv {command}" in result.stdout

    def test_overview_lists_every_command_in_its_own_words(self) -> None:
        result = run_cli("-h")
        assert result.exit_code == 0
        assert re.findall(r"^  (\w+) +[A-Z].*\.$", result.stdout, re.MULTILINE) == list(COMMANDS)

    @pytest.mark.parametrize("place", ["before the command", "behind it"])
    def test_quiet_leaves_warnings_and_errors(self, place: str) -> None:
        write(upsampling(), pathlib.Path("up.json"))
        write(refused(), pathlib.Path("refused.json"))
        arguments = ["convert", "up.json", "refused.json"]
        loud = run_cli(*arguments)
        quiet = run_cli("-q", *arguments) if place == "before the command" else run_cli(*arguments, "--quiet")
        assert "up.json -> up.onnx" in loud.stdout
        assert (quiet.exit_code, quiet.stdout, quiet.stderr) == (1, "", loud.stderr)
        assert run_cli("ops", "--json", "-q").stdout == ""
        assert run_cli("ops", "--json").stdout, "a quiet command does not quieten the next one"

    def test_shell_completion_knows_commands_options_and_words(self) -> None:
        def completed(words: str) -> list[str]:
            done = subprocess.run(
                [sys.executable, "-P", "-c", "from ortconv.cli import main; main()"],
                env={
                    **os.environ,
                    **{"_ORTCONV_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))},
                },
                capture_output=True,
                text=True,
                check=False,
            )
            return [line.partition(",")[2] for line in done.stdout.splitlines()]

        assert completed("ortconv ver") == ["verify"]
        assert completed("ortconv convert --sem") == ["--semantics"]
        assert completed("ortconv convert --semantics r") == ["runtime"]

    def test_version(self) -> None:
        assert run_cli("--version").stdout == f"ortconv {ortconv.__version__}\n"

    @pytest.mark.parametrize(
        "arguments",
        [
            ("nothing",),
            ("convert",),
            ("check",),
            ("convert", "a.json", "--semantics", "other"),
            ("convert", "a.json", "--opset", "18"),
            ("convert", "a.json", "--opset", "26"),
            ("convert", "a.json", "--target", "none"),
            ("ops", "pytorch"),
            ("ops", "--json", "--markdown"),
            ("run", "a.onnx", "--random", "-1"),
            ("run", "a.onnx", "--no-plugin", "--backend", "python"),
            ("verify", "a.json", "--tolerance", "-1"),
            ("verify", "a.json", "--backend", "gpu"),
        ],
    )
    def test_wrong_usage_is_2_and_on_stderr(self, arguments: tuple[str, ...]) -> None:
        result = run_cli(*arguments)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert "Usage: ortconv" in result.stderr

    def test_bug_of_ours_is_one_line(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def broken(*_: Any, **__: Any) -> None:
            raise RuntimeError("two\nlines")

        monkeypatch.setattr(checker, "check_file", broken)
        result = run_cli("check", "a.onnx")
        assert result.exit_code == 1
        assert result.stderr.count("\n") == 1
        assert result.stderr.startswith("error: internal error: RuntimeError: two lines; please report this")

    def test_debug_variable_adds_the_traceback(self, tmp_path: pathlib.Path) -> None:
        code = "from ortconv.model_io import checker\ndel checker.check_file\nfrom ortconv.cli import main\nmain()"
        done = subprocess.run(
            [sys.executable, "-P", "-c", code, "check", "a.onnx"],
            capture_output=True,
            text=True,
            env={**os.environ, "ORTCONV_DEBUG": "1"},
            cwd=tmp_path,
            check=False,
        )
        assert done.returncode == 1
        assert "error: internal error: AttributeError" in done.stderr
        assert "Traceback" in done.stderr

    def test_module_runs_as_the_program_does(self, tmp_path: pathlib.Path) -> None:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "ortconv", "convert", "nothing.json"],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == "error: nothing.json: cannot be read: No such file or directory.\n"

    @pytest.mark.skipif(sys.platform == "win32", reason="needs a POSIX shell")
    @pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-"])
    def test_closed_stream_is_no_error(self, closed: str, tmp_path: pathlib.Path) -> None:
        write(activation(), tmp_path / "act.json")
        done = subprocess.run(
            ["/bin/sh", "-c", f'"$0" -P -m ortconv convert act.json {closed}', sys.executable],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        assert (tmp_path / "act.onnx").is_file()

    @pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="needs the device of Linux that is always full")
    @pytest.mark.parametrize("arguments", [("ops",), ("--version",), ("convert", "--help")])
    def test_full_disk_is_one_line(self, arguments: tuple[str, ...]) -> None:
        buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [sys.executable, "-P", "-m", "ortconv", *arguments],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                env=buffered,
                check=False,
            )
        assert (done.returncode, done.stderr) == (1, "error: No space left on device\n")


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX")
class TestTerminal:
    @staticmethod
    def run(*arguments: str, **environment: str) -> str:
        """Runs the program in a terminal of 80 columns and returns what appears there."""
        import fcntl
        import pty
        import struct
        import termios

        main, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 80, 0, 0))
        kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "COLUMNS")}
        program = subprocess.Popen(
            [sys.executable, "-P", "-m", "ortconv", *arguments],
            stdin=side,
            stdout=side,
            stderr=side,
            env={**kept, "TERM": "xterm-256color", **environment},
        )
        os.close(side)
        shown = b""
        while True:
            try:
                part = os.read(main, 1 << 16)
            except OSError:  # Linux reports the end of the program so.
                break
            if not part:
                break
            shown += part
        program.wait()
        os.close(main)
        return shown.decode().replace("\r\n", "\n")

    @pytest.mark.parametrize("columns", [20, 40, 60, 80])
    def test_no_terminal_is_too_narrow_for_a_table(self, columns: int) -> None:
        path = write(upsampling(), pathlib.Path("up.json"))
        shown = self.run("explain", str(path), COLUMNS=str(columns), NO_COLOR="1")
        words = {word for word in run_cli("explain", path).stdout.split() if len(word) <= 24}
        assert words <= set(shown.split())

    def test_tables_are_coloured_and_fit(self) -> None:
        shown = self.run("ops", "onednn")
        assert "\x1b[1m" in shown
        assert max(len(line) for line in re.sub(r"\x1b\[[0-9;]*m", "", shown).splitlines()) <= 80

    def test_long_names_are_folded_where_the_table_would_be_too_wide(self) -> None:
        source = activation(name="act")
        long = "__module.decoder.layers.0/aten::leaky_relu_/LeakyRelu.of.a.name.that.is.longer.than.a.line"
        source.op("ReLU", [source.tensor("y", "f32", [2])], name=long)
        shown = self.run("explain", str(write(source, pathlib.Path("act.json"))), NO_COLOR="1")
        assert max(map(len, shown.splitlines())) <= 80
        assert long[:24] in shown
        assert long[-20:] in "".join(line.strip() for line in shown.splitlines())

    def test_no_color_means_no_escape_sequences(self) -> None:
        assert "\x1b" not in self.run("ops", "onednn", NO_COLOR="1")

    def test_conversion_that_takes_long_shows_a_bar(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write(upsampling(), pathlib.Path("up.json"))
        slow = "import time; time.sleep(1.5)"
        pathlib.Path("sitecustomize.py").write_text(
            f"import ortconv.model_io.checker as c\n"
            f"old = c.check\ndef check(*a):\n    {slow}\n    old(*a)\nc.check = check\n"
        )
        assert "Converting up.json: checking" in self.run("convert", "up.json", PYTHONPATH=".")

    @pytest.mark.slow
    @pytest.mark.parametrize(
        ("arguments", "shown"),
        [
            (("verify", "up.json"), "Verifying up.json: "),
            (("report", "up.json", "-o", "up.html", "--runs", "1"), "Reporting on up.json: "),
            (("bench", "up.onnx", "--rounds", "4", "--seconds", "0.001"), "Measuring up.onnx"),
        ],
    )
    def test_what_takes_long_shows_a_bar(self, arguments: tuple[str, ...], shown: str) -> None:
        onnx.save(ortconv.convert(upsampling(), random_constants=0, target="plugin"), "up.onnx")
        write(upsampling(), pathlib.Path("up.json"))
        pathlib.Path("sitecustomize.py").write_text(
            "import time, ortconv.runtime.runner as r\n"
            "old = r.Model.run\n"
            "def run(*a):\n    r.Model.run = old\n    time.sleep(1.5)\n    return old(*a)\n"
            "r.Model.run = run\n"
        )
        assert shown in self.run(*arguments, PYTHONPATH=".")
        quiet = self.run(*arguments, "--quiet", PYTHONPATH=".")
        assert "".join(line for line in quiet.splitlines() if not line.startswith("warning: ")) == ""

    def test_conversion_that_is_fast_shows_none(self) -> None:
        write(upsampling(), pathlib.Path("up.json"))
        assert "Converting" not in self.run("convert", "up.json")

    def test_errors_are_wrapped_between_words(self) -> None:
        shown = self.run("convert", "a-file-that-is-of-no-format-that-is-known.txt", NO_COLOR="1")
        assert "".join(shown.splitlines()).startswith("error: a-file-that-is-of-no-format-that-is-known.txt: ")
        assert all(len(line) <= 80 for line in shown.splitlines())

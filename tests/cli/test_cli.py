"""The command line: usage, exit codes, what goes to which stream, and the commands that convert and describe."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

import numpy as np
import onnx
import pytest

import ortconv
from ortconv import api
from ortconv.converters import FRONTENDS
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


class TestConvert:
    def test_writes_the_model_and_says_so(self) -> None:
        write(activation(), pathlib.Path("act.json"))
        result = run_cli("convert", "act.json")
        assert result.exit_code == 0
        assert result.stdout == "act.json -> act.onnx: 1 node (all standard)\n"
        assert result.stderr == ""
        onnx.checker.check_model("act.onnx", full_check=True)

    def test_warning_is_printed_once_per_node_on_stderr(self) -> None:
        write(upsampling(), pathlib.Path("up.json"))
        result = run_cli("convert", "up.json", "-o", "out.onnx")
        assert result.exit_code == 0
        assert re.fullmatch(r"up\.json -> out\.onnx: \d+ nodes \(all standard\), 1 warning\n", result.stdout)
        (line,) = result.stderr.splitlines()
        assert line.startswith("warning: up.json: ConvolutionBackwardData 'ConvolutionBackwardData_0' (id 0): ")

    def test_warning_that_nodes_share_is_printed_once_and_reported_for_each(self) -> None:
        source = upsampling()
        w = source.tensor("w2", "f32", [3, 3, 2, 3])
        for x in ("x2", "x3"):
            source.op(
                "ConvolutionBackwardData",
                [source.tensor(x, "f32", [1, 4, 4, 3]), w],
                strides=[2, 2],
                pads_begin=[0, 0],
                pads_end=[0, 0],
                dilations=[1, 1],
                auto_pad="SAME_UPPER",
                dst_shape=[1, 8, 8, 2],
            )
        write(source, pathlib.Path("up.json"))
        result = run_cli("convert", "up.json", "--report", "report.json")
        assert result.stdout.endswith(", 3 warnings\n")
        (line,) = result.stderr.splitlines()
        assert line.startswith("warning: up.json: ConvolutionBackwardData 'ConvolutionBackwardData_0' (id 0)")
        assert " and 2 more nodes: auto_pad " in line
        nodes = json.loads(pathlib.Path("report.json").read_text())["sources"][0]["nodes"]
        assert [len(node["warnings"]) for node in nodes].count(1) == 3

    def test_names_of_files_that_are_not_utf8_are_escaped_in_reports(self) -> None:
        source = pathlib.Path(os.fsdecode(b"bad\xff.json"))
        write(activation(), source)
        assert run_cli("convert", str(source), "-o", "act.onnx", "--report", "report.json").exit_code == 0
        (found,) = json.loads(pathlib.Path("report.json").read_text())["sources"]
        assert str(source) in found.values()

    def test_plugin_target_counts_our_nodes(self) -> None:
        write(upsampling(), pathlib.Path("up.json"))
        result = run_cli("convert", "up.json", "--target", "plugin", "--semantics", "runtime", "--opset", "19")
        assert "3 nodes (2 standard, 1 org.ortconv)" in result.stdout
        model = onnx.load("up.onnx")
        assert {entry.domain: entry.version for entry in model.opset_import} == {"": 19, "org.ortconv": 1}
        assert {entry.key: entry.value for entry in model.metadata_props}["ortconv.semantics"] == "runtime"

    def test_failures_do_not_stop_the_rest(self) -> None:
        write(refused(), pathlib.Path("refused.json"))
        write(activation(), pathlib.Path("act.json"))
        pathlib.Path("broken.json").write_text("{")
        pathlib.Path("picture.png").write_text("")
        sources = ("refused.json", "missing.json", "broken.json", "picture.png", "act.json")
        result = run_cli("convert", *sources, "--output-dir", "new/out")
        assert result.exit_code == 1
        assert result.stdout == "act.json -> new/out/act.onnx: 1 node (all standard)\n"
        starts = [line.split(": ")[1] for line in result.stderr.splitlines()]
        assert starts == ["refused.json", "refused.json", "missing.json", "broken.json", "picture.png"]
        assert os.listdir("new/out") == ["act.onnx"]

    def test_refused_source_leaves_the_old_file_and_nothing_else(self) -> None:
        write(refused(), pathlib.Path("refused.json"))
        pathlib.Path("refused.onnx").write_bytes(b"old")
        assert run_cli("convert", "refused.json").exit_code == 1
        assert pathlib.Path("refused.onnx").read_bytes() == b"old"
        assert sorted(os.listdir()) == ["refused.json", "refused.onnx"]

    def test_bug_in_one_source_does_not_stop_the_rest(self, monkeypatch: pytest.MonkeyPatch) -> None:
        write(activation(), pathlib.Path("act.json"))
        write(activation(), pathlib.Path("bug.json"))
        right = api.conversion

        def sometimes(source: pathlib.Path, **options: Any) -> api.Conversion:
            if source.name == "bug.json":
                raise KeyError("surprise")
            return right(source, **options)

        monkeypatch.setattr(api, "conversion", sometimes)
        result = run_cli("convert", "bug.json", "act.json")
        assert result.exit_code == 1
        assert result.stdout.startswith("act.json -> ")
        assert "internal error: KeyError" in result.stderr

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            (("a.json", "b.json", "-o", "x.onnx"), "-o names one file, and there are 2 sources"),
            (("a.json", "-o", "x.onnx", "--output-dir", "d"), "exclude each other"),
            (("a.json", "-o", ""), "-o: '.' is a directory"),
            (("a.json", "-o", "missing/x.onnx"), "the directory 'missing' does not exist"),
            (("p/a.json", "q/a.json", "--output-dir", "d"), "p/a.json, q/a.json: all would be written to a.onnx"),
            (("a.json", "-o", "a.json"), "a.json would overwrite a file that this call reads or writes"),
            (("a.xml", "-o", "a.bin"), "a.bin would overwrite"),
            (("a.json", "--tensors", "a.onnx"), "a.onnx would overwrite"),
            (("a.json", "--report", "a.onnx"), "a.onnx would overwrite"),
            (("a.json", "--report", "missing/r.json"), "--report: the directory 'missing' does not exist"),
            (("a.json", "--report", "./a.json"), "a.json would overwrite"),
        ],
    )
    def test_contradictions_are_refused_before_anything_happens(self, arguments: tuple[str, ...], problem: str) -> None:
        result = run_cli("convert", *arguments)
        assert result.exit_code == 2
        assert problem in " ".join(result.stderr.split())
        assert os.listdir() == []

    def test_tensors_become_initializers(self) -> None:
        write(upsampling(), pathlib.Path("up.json"))
        weights = np.arange(54, dtype=np.float32).reshape(3, 3, 2, 3)
        np.savez("data.npz", w=weights)
        assert run_cli("convert", "up.json", "--target", "plugin", "--tensors", "data.npz").exit_code == 0
        model = onnx.load("up.onnx")
        assert [value.name for value in model.graph.input] == ["x"]
        (initializer,) = model.graph.initializer
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(initializer), weights)

    @pytest.mark.parametrize("content", [b"", b"plain text", b"PK\x03\x04 no archive", b"\x93NUMPY junk"])
    def test_tensors_that_cannot_be_read_are_one_error(self, content: bytes) -> None:
        """And numpy's advice, to load unknown data as a program, is not passed on."""
        write(upsampling(), pathlib.Path("up.json"))
        pathlib.Path("data.npz").write_bytes(content)
        result = run_cli("convert", "up.json", "--tensors", "data.npz")
        assert result.exit_code == 1
        assert re.fullmatch(r"error: data\.npz: .*\n", result.stderr)
        assert "pickle" not in result.stderr

    @pytest.mark.parametrize("damage", ["content", "encryption", "method"])
    def test_tensors_in_a_damaged_archive_are_one_error(self, damage: str) -> None:
        write(upsampling(), pathlib.Path("up.json"))
        np.savez_compressed("data.npz", w=np.arange(1000.0))
        archive = bytearray(pathlib.Path("data.npz").read_bytes())
        local, central = 0, archive.rindex(b"PK\x01\x02")
        if damage == "content":
            archive[60:64] = b"\xff\xff\xff\xff"
        elif damage == "encryption":
            archive[local + 6] |= 1
            archive[central + 8] |= 1
        else:
            archive[local + 8] = archive[central + 10] = 97
        pathlib.Path("data.npz").write_bytes(archive)
        result = run_cli("convert", "up.json", "--tensors", "data.npz")
        assert result.exit_code == 1
        assert re.fullmatch(r"error: data\.npz: is not an \.npz file of plain arrays: .*\n", result.stderr)

    def test_pickled_tensors_are_never_loaded(self) -> None:
        np.savez("data.npz", w=np.array([print], dtype=object))
        result = run_cli("convert", write(upsampling(), pathlib.Path("up.json")), "--tensors", "data.npz")
        assert result.exit_code == 1
        assert "is not an .npz file of plain arrays" in result.stderr

    def test_report_tells_what_became_of_every_node(self) -> None:
        write(upsampling(), pathlib.Path("up.json"))
        write(refused(), pathlib.Path("refused.json"))
        assert run_cli("convert", "up.json", "refused.json", "--report", "report.json").exit_code == 1
        report = json.loads(pathlib.Path("report.json").read_text())
        assert report["options"] == {
            **{"semantics": "spec", "target": "auto", "opset": None},
            **{"io": "runtime", "compute": "f32", "weights": "source"},
        }
        up, failed = report["sources"]
        assert (up["opset"], failed["opset"]) == (api.OPSETS.start, None)
        assert (up["status"], up["format"], up["output"], up["errors"]) == ("converted", "onednn", "up.onnx", [])
        convolution, relu, _ = up["nodes"]
        assert convolution["node"]["op_type"] == "ConvolutionBackwardData"
        assert "ConvTranspose" in [made["op_type"] for made in convolution["becomes"]]
        assert len(convolution["warnings"]) == 1
        assert relu["becomes"][0]["op_type"] == "Relu"
        assert (failed["status"], failed["output"], failed["nodes"]) == ("refused", None, [])
        assert [error["type"] for error in failed["errors"]] == ["UnsupportedOpError"] * 2
        assert failed["errors"][0]["node"]["op_type"] == "Wildcard"
        assert "is not supported: it stands for" in failed["errors"][0]["problem"]

    def test_names_cannot_steer_the_terminal(self) -> None:
        path = pathlib.Path("evil\x1b[2J\udcff.json")
        result = run_cli("convert", path)
        assert result.exit_code == 1
        assert "evil\\x1b[2J\\udcff.json" in result.stderr

    def test_name_that_is_not_utf_8(self) -> None:
        path = write(activation(), pathlib.Path("caf\udce9.json"))
        assert run_cli("convert", path, "-o", "cafe.onnx").exit_code == 0
        facts = {entry.key: entry.value for entry in onnx.load("cafe.onnx").metadata_props}
        assert facts["ortconv.source.file"] == "caf\\udce9.json"
        assert run_cli("convert", path).exit_code == 0
        for command in ("check", "run"):
            result = run_cli(command, "caf\udce9.onnx")
            assert result.exit_code == 1
            assert result.stderr.startswith("error: caf\\udce9.onnx: ")
            assert "its name is not UTF-8" in result.stderr

    def test_what_cannot_be_written_is_one_error(self) -> None:
        write(activation(), pathlib.Path("act.json"))
        pathlib.Path("act.onnx").mkdir()
        result = run_cli("convert", "act.json")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.count("\n") == 1
        assert sorted(os.listdir()) == ["act.json", "act.onnx"]


class TestCheck:
    def test_good_models_are_described(self) -> None:
        run_cli("convert", write(activation(), pathlib.Path("act.json")))
        run_cli("convert", write(upsampling(), pathlib.Path("up.json")), "--target", "plugin")
        result = run_cli("check", "act.onnx", "up.onnx")
        assert result.exit_code == 0
        assert result.stdout.splitlines() == [
            "act.onnx: ok, opset 19, IR 10, 1 node, no operators of org.ortconv",
            "up.onnx: ok, opset 19, IR 10, 3 nodes, org.ortconv: 1 TransposedConvolution, runs without the plugin",
        ]

    def test_model_without_function_bodies_needs_the_plugin(self) -> None:
        run_cli("convert", write(upsampling(), pathlib.Path("up.json")), "--target", "plugin")
        model = onnx.load("up.onnx")
        del model.functions[:]
        onnx.save(model, "bare.onnx")
        assert run_cli("check", "bare.onnx").stdout.endswith("1 TransposedConvolution, needs the plugin\n")

    def test_bad_attribute_of_ours_is_found(self) -> None:
        run_cli("convert", write(upsampling(), pathlib.Path("up.json")), "--target", "plugin")
        model = onnx.load("up.onnx")
        (node,) = (node for node in model.graph.node if node.domain == "org.ortconv")
        (strides,) = (attribute for attribute in node.attribute if attribute.name == "strides")
        strides.ints[0] = 0
        onnx.save(model, "bad.onnx")
        result = run_cli("check", "bad.onnx", "up.onnx")
        assert result.exit_code == 1
        assert result.stdout.startswith("up.onnx: ok")
        (line,) = result.stderr.splitlines()
        assert line.startswith("error: bad.onnx: ")
        assert "strides = [0, 2]" in line

    @pytest.mark.parametrize("content", [None, b"", b"\x00\xff" * 50, b"{}"])
    def test_garbage_is_one_error(self, content: bytes | None) -> None:
        if content is not None:
            pathlib.Path("m.onnx").write_bytes(content)
        result = run_cli("check", "m.onnx")
        assert (result.exit_code, result.stdout) == (1, "")
        assert re.fullmatch(r"error: m\.onnx: .*\n", result.stderr)


class TestExplain:
    def test_every_node_is_a_row(self) -> None:
        result = run_cli("explain", write(upsampling(), pathlib.Path("up.json")))
        assert result.exit_code == 0
        head, convolution, relu, sigmoid, _, summary = result.stdout.splitlines()
        assert head.split() == ["node", "becomes", "why"]
        assert re.match(r"ConvolutionBackwardData \S+ \(id 0\) +.*ConvTranspose.* +pads begin .*warning: ", convolution)
        assert re.fullmatch(r"ReLU \S+ \(id 1\) +Relu", relu)
        assert re.fullmatch(r"Sigmoid \S+ \(id 2\) +Sigmoid", sigmoid)
        assert re.fullmatch(r"3 source nodes, \d+ ONNX nodes, 0 of them of org\.ortconv; 1 warning", summary)
        assert os.listdir() == ["up.json"]

    def test_our_operators_carry_their_domain(self) -> None:
        result = run_cli("explain", write(upsampling(), pathlib.Path("up.json")), "--target", "plugin")
        assert "org.ortconv TransposedConvolution" in result.stdout

    def test_refused_nodes_are_rows_among_the_others(self) -> None:
        result = run_cli("explain", write(refused(), pathlib.Path("refused.json")))
        assert result.exit_code == 1
        rows = [re.split(r"  +", line) for line in result.stdout.splitlines()[1:]]
        assert [(row[0].split()[0], row[1]) for row in rows] == [
            ("Wildcard", "refused"),
            ("Wildcard", "refused"),
            ("ReLU", "Relu"),
        ]
        assert all(len(row) == 3 for row in rows if row[1] == "refused")
        assert result.stderr == "error: refused.json: 2 of 3 nodes refused.\n"


class TestOps:
    def test_every_lowering_is_listed(self) -> None:
        result = run_cli("ops")
        assert result.exit_code == 0
        for frontend in FRONTENDS:
            assert frontend.title in result.stdout
            for lowering in frontend.registry:
                assert re.search(rf"^{lowering.op_type} +{lowering.versions} +\S", result.stdout, re.MULTILINE)

    def test_one_source_only(self) -> None:
        result = run_cli("ops", "openvino")
        assert "Convolution " in result.stdout
        assert "ConvolutionBackwardData" not in result.stdout

    def test_json_has_inputs_and_attributes(self) -> None:
        entries = json.loads(run_cli("ops", "onednn", "--json").stdout)
        (entry,) = (entry for entry in entries if entry["op"] == "Convolution")
        assert entry["source"] == "onednn"
        assert [given["name"] for given in entry["inputs"]] == ["src", "weights", "bias"]
        attributes = {attribute["name"]: attribute for attribute in entry["attributes"]}
        assert attributes["strides"]["required"]
        assert attributes["groups"] == {"name": "groups", "allowed": "integer", "required": False, "default": 1}

"""The command line: convert, check, explain and ops."""

from __future__ import annotations

import json
import os
import pathlib
import re
from typing import Any

import numpy as np
import onnx
import pytest

from ortconv import api
from ortconv.converters import FRONTENDS
from tests.command_line import activation, refused, run_cli, upsampling, write


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


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

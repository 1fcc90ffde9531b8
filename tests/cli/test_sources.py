"""The command line: folders of sources, inputs that are fixed or renamed, files that a command does not read."""

from __future__ import annotations

import os
import pathlib
import re
import shutil
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import ortconv
from tests.command_line import activation, refused, run_cli, upsampling, write
from tests.folders import SOURCES

UNET = SOURCES / "unet_decoder.xml"


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def sizes(value: onnx.ValueInfoProto) -> list[int | str]:
    return [dim.dim_value or dim.dim_param for dim in value.type.tensor_type.shape.dim]


class TestFolder:
    def test_every_source_in_it_is_converted_and_a_table_says_how_each_fared(self) -> None:
        pathlib.Path("in/deep").mkdir(parents=True)
        write(activation(), pathlib.Path("in/act.json"))
        write(upsampling(), pathlib.Path("in/deep/up.json"))
        write(refused(), pathlib.Path("in/refused.json"))
        shutil.copy(UNET, "in/deep/unet.xml")
        shutil.copy(UNET.with_suffix(".bin"), "in/deep/unet.bin")
        pathlib.Path("in/config.json").write_text('{"model_type": "vit"}')
        pathlib.Path("in/boxes.xml").write_text("<annotation/>")
        pathlib.Path("in/readme.txt").write_text("")
        result = run_cli("convert", "in", "-o", "out")
        assert result.exit_code == 1
        rows = [re.split("  +", line) for line in result.stdout.splitlines()]
        assert rows == [
            ["source", "result"],
            ["in/act.json", "1 node (all standard)"],
            ["in/deep/unet.xml", "14 nodes (12 standard, 2 org.ortconv)"],
            ["in/deep/up.json", rows[3][1]],
            ["in/refused.json", "refused"],
            [""],
            ["3 of 4 sources converted to out"],
        ]
        assert rows[3][1].endswith("nodes (all standard), 1 warning")
        assert [line.partition(":")[0] for line in result.stderr.splitlines()] == ["warning", "error", "error"]
        written = sorted(str(path) for path in pathlib.Path("out").rglob("*") if path.is_file())
        assert written == ["out/act.onnx", "out/deep/unet.onnx", "out/deep/up.onnx"]
        for path in written:
            ortconv.check(path)

    def test_all_that_convert_is_exit_code_0_and_folders_stand_beside_files(self) -> None:
        pathlib.Path("in").mkdir()
        write(activation(), pathlib.Path("in/act.json"))
        write(activation(), pathlib.Path("other.json"))
        result = run_cli("convert", "in", "other.json", "--output-dir", "out")
        assert result.exit_code == 0
        assert sorted(os.listdir("out")) == ["act.onnx", "other.onnx"]

    @pytest.mark.parametrize(
        ("arguments", "code", "problem"),
        [
            (("empty", "-o", "out"), 1, "empty: is a folder without sources"),
            (("in", "-o", "in/act.json"), 2, "'in/act.json' is a file"),
            (("in", "in", "-o", "out"), 2, "all would be written to act.onnx"),
            (("in", ""), 2, "the name of the file is empty"),
            (("in", "--shape", "x=1x2x3"), 2, "--shape and --input are for one source, and there are 2"),
        ],
    )
    def test_contradictions(self, arguments: tuple[str, ...], code: int, problem: str) -> None:
        pathlib.Path("empty").mkdir()
        pathlib.Path("in").mkdir()
        write(activation(), pathlib.Path("in/act.json"))
        write(activation(), pathlib.Path("in/also.json"))
        result = run_cli("convert", *arguments)
        assert result.exit_code == code
        assert problem in " ".join(result.stderr.split())
        assert sorted(os.listdir()) == ["empty", "in"]


class TestInputs:
    def test_fixed_sizes_are_static_throughout(self) -> None:
        shapes = {"bottom": (1, 32, 16, 9), "skip_2": (1, 16, 31, 18), "skip_1": (1, 8, 61, 35)}
        options = [
            text for name, shape in shapes.items() for text in ("--shape", f"{name}={'x'.join(map(str, shape))}")
        ]
        assert run_cli("convert", UNET, "-o", "open.onnx").exit_code == 0
        result = run_cli("convert", UNET, "-o", "fixed.onnx", *options)
        assert result.exit_code == 0, result.stderr
        assert result.stdout.endswith("fixed.onnx: 10 nodes (all standard)\n")
        model = onnx.load("fixed.onnx")
        values = [*model.graph.input, *model.graph.output, *model.graph.value_info]
        assert {value.name: tuple(sizes(value)) for value in model.graph.input} == shapes
        assert all(isinstance(size, int) and size > 0 for value in values for size in sizes(value))
        random = np.random.default_rng(1)
        feeds = {name: random.standard_normal(shape).astype(np.float32) for name, shape in shapes.items()}
        got, right = (
            onnxruntime.InferenceSession(name, providers=["CPUExecutionProvider"]).run(None, feeds)[0]
            for name in ("fixed.onnx", "open.onnx")
        )
        np.testing.assert_allclose(got, right, rtol=1e-5, atol=1e-6)

    def test_a_question_mark_stays_open(self) -> None:
        assert run_cli("convert", UNET, "-o", "o.onnx", "--shape", "bottom=?x32x16x?").exit_code == 0
        assert sizes(onnx.load("o.onnx").graph.input[0]) == ["", 32, 16, ""]

    def test_a_renamed_input_is_verified_by_the_name_of_its_source(self) -> None:
        pytest.importorskip("openvino", reason="the expected results are OpenVINO's")
        given = ("--shape", "bottom=1x32x4x3", "--shape", "skip_2=1x16x7x6", "--shape", "skip_1=1x8x13x11")
        done = run_cli("convert", UNET, "-o", "o.onnx", "--input", "bottom=image", *given)
        assert done.exit_code == 0, done.stderr
        assert [value.name for value in onnx.load("o.onnx").graph.input] == ["image", "skip_2", "skip_1"]
        result = run_cli("verify", UNET, "o.onnx", *given)
        assert result.exit_code == 0, result.stdout + result.stderr
        assert "bottom" in result.stdout

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            (("--shape", "nothing=1"), "--shape: 'nothing=1' does not begin with an input's name"),
            (
                ("--shape", "bottom=1x31x2x2"),
                "bottom: shape [1, 31, 2, 2] does not fit; the source declares [?, 32, ?, ?]",
            ),
            (("--shape", "bottom=1x32"), "does not fit; the source declares [?, 32, ?, ?]"),
            (("--shape", "bottom=axb"), "is not a shape"),
            (("--input", "bottom=skip_1"), "cannot be renamed to 'skip_1'"),
            (("--input", "bottom=mask"), "cannot be renamed to 'mask'"),
            (("--input", "bottom="), "cannot be renamed to ''"),
            (("--input", "bottom=a", "--input", "skip_1=a"), "cannot be renamed to 'a'"),
        ],
    )
    def test_what_does_not_fit_is_one_error(self, arguments: tuple[str, ...], problem: str) -> None:
        result = run_cli("convert", UNET, "-o", "o.onnx", *arguments)
        assert result.exit_code in (1, 2)
        assert problem in " ".join(result.stderr.split())
        assert os.listdir() == []

    def test_names_can_be_exchanged(self) -> None:
        result = run_cli("convert", UNET, "-o", "o.onnx", "--input", "skip_1=skip_2", "--input", "skip_2=skip_1")
        assert result.exit_code == 0, result.stderr
        assert [value.name for value in onnx.load("o.onnx").graph.input] == ["bottom", "skip_1", "skip_2"]

    def test_of_a_onednn_graph(self) -> None:
        write(activation(), pathlib.Path("act.json"))
        result = run_cli("convert", "act.json", "--shape", "x=1x7x3", "--input", "x=data")
        assert result.exit_code == 0, result.stderr
        graph = onnx.load("act.onnx").graph
        assert [(value.name, sizes(value)) for value in graph.input] == [("data", [1, 7, 3])]
        assert sizes(graph.output[0]) == [1, 7, 3]


def reshaping() -> Any:
    """Sizes that go through shapes of results, a pooling, a resize and a loop-free tail."""
    ov = pytest.importorskip("openvino", reason="the source is built with OpenVINO")
    from openvino import opset13 as op

    x = op.parameter([-1, 3, -1, -1], np.float32, name="x")
    weights = np.random.default_rng(0).standard_normal((4, 3, 3, 3)).astype(np.float32)
    c = op.convolution(x, op.constant(weights), [2, 2], [1, 1], [1, 1], [1, 1])
    p = op.max_pool(c, [2, 2], [1, 1], [0, 0], [0, 0], [2, 2]).output(0)
    size = op.gather(op.shape_of(x), op.constant(np.array([2, 3])), op.constant(np.int64(0)))
    up = op.interpolate(p, size, "nearest", "sizes", axes=op.constant(np.array([2, 3])))
    up = op.adaptive_avg_pool(up, op.constant(np.array([5, 4])))
    flat = op.reshape(up, op.concat([op.constant(np.array([0])), op.constant(np.array([-1]))], 0), True)
    return ov.Model([op.result(op.softmax(flat, 1))], [x], "net")


def test_a_fixed_model_gives_openvinos_sizes_and_numbers(caplog: pytest.LogCaptureFixture) -> None:
    model = reshaping()
    made = ortconv.conversion(model, shapes={"x": [2, 3, 13, 10]}).to_proto()
    assert not caplog.records
    assert all(isinstance(size, int) for value in made.graph.value_info for size in sizes(value))
    assert not {"Shape", "Gather"} & {node.op_type for node in made.graph.node}
    import openvino as ov

    x = np.random.default_rng(1).standard_normal((2, 3, 13, 10)).astype(np.float32)
    expected = ov.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})([x])[0]
    assert sizes(made.graph.output[0]) == list(expected.shape)
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=1e-4, atol=1e-7)


class TestOtherFiles:
    @pytest.mark.parametrize("command", ["convert", "verify"])
    def test_an_onnx_file_is_onnx_already(self, command: str) -> None:
        run_cli("convert", UNET, "-o", "net.onnx")
        result = run_cli(command, "net.onnx")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.startswith("error: net.onnx: is ONNX already: `ortconv optimize` rewrites it")
        with pytest.raises(ortconv.ModelFormatError, match="is ONNX already"):
            ortconv.convert(onnx.load("net.onnx"))

    @pytest.mark.parametrize("command", [("check",), ("run",), ("bench",), ("optimize", "-o", "x.onnx")])
    def test_a_source_is_no_onnx_file(self, command: tuple[str, ...]) -> None:
        graph = write(activation(), pathlib.Path("act.json"))
        for path, kind in ((UNET, "OpenVINO IR"), (graph, "oneDNN Graph JSON")):
            result = run_cli(*command, path)
            assert result.exit_code == 1
            assert result.stderr == f"error: {path}: is {kind}, not an ONNX file: `ortconv convert` converts it.\n"
        assert os.listdir() == ["act.json"]

    @pytest.mark.parametrize(
        ("arguments", "meant"),
        [
            (("convrt", "a.xml"), "No such command 'convrt'. Did you mean 'convert'?"),
            (("benchmark",), "Did you mean 'bench'?"),
            (("zzz",), "Commands: convert, check, run,"),
            (("convert", "a.xml", "--taget", "onnx"), "--target"),
        ],
    )
    def test_what_is_mistyped_gets_a_suggestion(self, arguments: tuple[str, ...], meant: str) -> None:
        result = run_cli(*arguments)
        assert (result.exit_code, result.stdout) == (2, "")
        assert meant in re.sub(r"\s+", " ", result.stderr)

"""The commands that execute: ``ortconv run`` and ``ortconv verify``."""

from __future__ import annotations

import json
import os
import pathlib
import re
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx.parser
import pytest

import ortconv
from tests.command_line import activation, run_cli, upsampling, write


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def model(text: str, name: str = "m.onnx") -> str:
    """Writes a model from ONNX's text form: inputs, outputs and nodes."""
    onnx.save(onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> g {text}'), name)
    return name


def rows(text: str, heading: str) -> dict[str, list[str]]:
    """Returns the rows of the table whose first heading is `heading`: first column to the others."""
    lines = text.splitlines()
    start = next(index for index, line in enumerate(lines) if line.split()[:1] == [heading])
    found = {}
    for line in lines[start + 1 :]:
        if not line:
            break
        first, *rest = re.split(r"  +", line)
        found[first] = rest
    return found


RELU = "(float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }"


class TestRun:
    def test_outputs_are_described_and_written(self) -> None:
        np.save("x.npy", np.array([[-1, 2, 4]], np.float32))
        result = run_cli("run", model(RELU), "--input", "x=x.npy", "--output", "out.npz", "--no-plugin")
        assert (result.exit_code, result.stderr) == (0, "")
        assert rows(result.stdout, "input") == {"x": ["float32", "[1, 3]", "given"]}
        assert rows(result.stdout, "output") == {"y": ["float32", "[1, 3]", "0", "2", "4", "0", "0"]}
        with np.load("out.npz") as stored:
            assert stored.files == ["y"]
            np.testing.assert_array_equal(stored["y"], [[0, 2, 4]])

    @pytest.mark.parametrize("output", ["m.onnx", "./x.npy"])
    def test_what_is_read_is_not_overwritten(self, output: str) -> None:
        np.save("x.npy", np.ones((1, 3), np.float32))
        before = {name: pathlib.Path(name).read_bytes() for name in (model(RELU), "x.npy")}
        result = run_cli("run", "m.onnx", "--input", "x=x.npy", "--output", output, "--no-plugin")
        assert (result.exit_code, result.stdout) == (2, "")
        assert "would overwrite a file that this call reads or writes" in " ".join(result.stderr.split())
        assert {name: pathlib.Path(name).read_bytes() for name in before} == before

    def test_nan_and_infinities_are_counted_and_left_out(self) -> None:
        model("(float[4] x) => (float[4] y) { y = Identity(x) }")
        np.save("x.npy", np.array([np.nan, np.inf, -np.inf, 3], np.float32))
        result = run_cli("run", "m.onnx", "--input", "x=x.npy", "--no-plugin")
        assert rows(result.stdout, "output")["y"] == ["float32", "[4]", "3", "3", "3", "1", "2"]

    def test_output_without_elements_has_no_statistics(self) -> None:
        result = run_cli("run", model(RELU), "--shape", "x=0x3", "--no-plugin")
        assert rows(result.stdout, "output")["y"] == ["float32", "[0, 3]", "-", "-", "-", "0", "0"]

    def test_json_has_what_is_shown(self) -> None:
        text = "(float[N, 3] x, float[0] e) => (float[N, 3] y, float[0] z) { y = Log(x) z = Identity(e) }"
        np.save("x.npy", np.array([[-1, 0, 1]], np.float32))
        given = ("--input", "x=x.npy", "--no-plugin", "--json", "run.json", "--random", "3")
        assert run_cli("run", model(text), *given).exit_code == 0
        found = json.loads(pathlib.Path("run.json").read_text())
        nothing = dict.fromkeys(("min", "mean", "max"))
        assert found == {
            "model": "m.onnx",
            "backend": "none",
            "providers": ["CPUExecutionProvider"],
            "seed": 3,
            "inputs": [
                {"name": "x", "type": "float32", "shape": [1, 3], "given": True},
                {"name": "e", "type": "float32", "shape": [0], "given": False},
            ],
            "outputs": [
                {"name": "y", "type": "float32", "shape": [1, 3], "min": 0, "mean": 0, "max": 0, "NaN": 1, "inf": 1},
                {"name": "z", "type": "float32", "shape": [0], **nothing, "NaN": 0, "inf": 0},
            ],
        }  # fmt: skip
        result = run_cli("run", "m.onnx", *given[:-4], "--json", "m.onnx")
        assert result.exit_code == 2
        assert "would overwrite" in result.stderr

    def test_random_data_is_repeatable(self) -> None:
        model(RELU)
        options = ("--shape", "x=5x3", "--no-plugin")
        one, same, other = (run_cli("run", "m.onnx", *options, "--random", seed).stdout for seed in (1, 1, 2))
        assert one == same
        assert rows(one, "output") != rows(other, "output")
        assert rows(one, "input")["x"][-1] == "random, seed 1"

    def test_numbers_can_be_given_in_place(self) -> None:
        model("(float[2, 3] x, int64[2] size) => (float[A, B] y) { y = Reshape(x, size) }")
        result = run_cli("run", "m.onnx", "--input", "size=[3, 2]", "--no-plugin")
        assert rows(result.stdout, "output")["y"][1] == "[3, 2]"

    def test_decimals_in_place_are_rounded_to_the_type_of_the_input(self) -> None:
        result = run_cli("run", model(RELU), "--input", "x=[[0.1, 0.2, NaN]]", "--no-plugin", "--output", "out.npz")
        assert result.exit_code == 0
        with np.load("out.npz") as stored:
            np.testing.assert_array_equal(stored["y"][0, :2], np.array([0.1, 0.2], np.float32))

    def test_random_sizes_that_fail_get_a_hint(self) -> None:
        model("(float[2, 3] x, int64[2] size) => (float[A, B] y) { y = Reshape(x, size) }")
        result = run_cli("run", "m.onnx", "--no-plugin")
        assert result.exit_code == 1
        (line,) = result.stderr.splitlines()
        assert line.startswith("error: m.onnx: ONNX Runtime: fails: ")
        assert line.endswith(". Random integers went into size: give sizes and indices by --input NAME=[1,2].")

    def test_types_that_numpy_lacks_are_written_exactly(self) -> None:
        model("(float[3] x) => (bfloat16[3] y) { y = Cast <to = 16> (x) }")
        result = run_cli("run", "m.onnx", "--output", "out.npz", "--no-plugin")
        assert rows(result.stdout, "output")["y"][0] == "bfloat16"
        with np.load("out.npz") as stored:
            values = stored["y"]
        assert values.dtype == np.float32
        np.testing.assert_array_equal(values, values.astype(ml_dtypes.bfloat16).astype(np.float32))

    def test_output_names_of_any_kind_are_written(self) -> None:
        proto = onnx.load(model(RELU))
        proto.graph.node[0].output[0] = proto.graph.output[0].name = "a/b:0 file"
        onnx.save(proto, "m.onnx")
        assert run_cli("run", "m.onnx", "--shape", "x=1x3", "--output", "out.npz", "--no-plugin").exit_code == 0
        with np.load("out.npz") as stored:
            assert stored.files == ["a/b:0 file"]

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            (("--shape", "x=3xA"), "'3xA' is not a shape"),
            (("--shape", "x=-1x3"), "'-1x3' is not a shape"),
            (("--shape", "z=1x3"), "'z=1x3' does not begin with an input's name and =; inputs: x."),
            (("--input", "x"), "does not begin with an input's name"),
            (("--input", "x=[1", "--shape", "x=1x3"), "is not a list of numbers"),
            (("--input", "x=" + "[" * 5000), "is not a list of numbers"),
            (("--input", 'x=["a"]'), "is not a list of numbers"),
            (("--input", "x=[1]", "--input", "x=[2]"), "input x is given twice"),
            (("--provider", "tpu"), "tpu is not available; available: "),
            (("--tf32",), "--tf32 needs --provider cuda."),
            (("--output", "missing/out.npz"), "the directory 'missing' does not exist"),
        ],
    )
    def test_wrong_options_are_wrong_usage(self, options: tuple[str, ...], problem: str) -> None:
        result = run_cli("run", model(RELU), "--no-plugin", *options)
        assert result.exit_code == 2
        assert result.stdout == ""
        assert problem in " ".join(result.stderr.split())

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            (("--shape", "x=1x4"), "x: shape [1, 4] does not fit; the model declares [N, 3]."),
            (("--input", "x=none.npy"), "none.npy: cannot be read: No such file or directory."),
            (("--input", "x=m.onnx"), "m.onnx: is not an .npy file of numbers"),
            (("--input", "x=[[1e300,0,0]]"), "x: the data has type float64, and not all of it is representable as"),
        ],
    )
    def test_data_that_does_not_fit_is_one_error(self, options: tuple[str, ...], problem: str) -> None:
        result = run_cli("run", model(RELU), "--no-plugin", "--output", "out.npz", *options)
        assert (result.exit_code, result.stdout) == (1, "")
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"error: {problem}")
        assert os.listdir() == ["m.onnx"]

    @pytest.mark.parametrize("content", [None, b"", b"\x00garbage"])
    def test_garbage_is_one_error(self, content: bytes | None) -> None:
        if content is not None:
            pathlib.Path("m.onnx").write_bytes(content)
        result = run_cli("run", "m.onnx", "--no-plugin")
        assert (result.exit_code, result.stdout) == (1, "")
        assert re.fullmatch(r"error: m\.onnx: .*\n", result.stderr)

    def test_missing_library_is_a_warning_unless_it_is_asked_for(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ORTCONV_LIBRARY", "missing.so")
        model(RELU)
        result = run_cli("run", "m.onnx", "--shape", "x=1x3")
        assert result.exit_code == 0
        assert result.stderr.startswith("warning: ORTCONV_LIBRARY is 'missing.so', which is not a file.")
        result = run_cli("run", "m.onnx", "--shape", "x=1x3", "--backend", "native")
        assert result.exit_code == 1
        assert result.stderr.startswith("error: ORTCONV_LIBRARY is 'missing.so'")

    @pytest.mark.parametrize(
        "option", [("--no-plugin",), ("--backend", "python"), ("--provider", "cpu", "--provider", "CPU")]
    )
    def test_every_backend_runs_our_nodes(self, option: tuple[str, ...]) -> None:
        if "python" in option:
            pytest.importorskip("onnxruntime_extensions", reason="the Python ops need onnxruntime-extensions")
        run_cli("convert", write(upsampling(), pathlib.Path("up.json")), "--target", "plugin")
        result = run_cli("run", "up.onnx", *option)
        assert result.exit_code == 0
        (described,) = rows(result.stdout, "output").values()
        assert described[:2] == ["float32", "[1, 8, 8, 2]"]


class TestVerify:
    def test_agreement_is_0(self) -> None:
        write(upsampling(), pathlib.Path("up.json"))
        result = run_cli("verify", "up.json", "--backend", "none", "--layers", "--json", "found.json")
        assert (result.exit_code, result.stderr) == (0, "")
        assert re.search(r"^source +up\.json$", result.stdout, re.MULTILINE)
        assert re.search(r"^model +converted now, spec semantics$", result.stdout, re.MULTILINE)
        assert re.search(r"^expected +float64 reference$", result.stdout, re.MULTILINE)
        assert [row[-1] for row in rows(result.stdout, "node").values()] == ["OK"] * 3
        assert [row[-1] for row in rows(result.stdout, "output").values()] == ["OK"]
        assert result.stdout.endswith("\nOK: every output agrees\n")
        found = json.loads(pathlib.Path("found.json").read_text())
        assert found["agrees"]
        assert [entry["name"] for entry in found["inputs"]] == ["x", "w"]
        (output,) = found["outputs"]
        assert output["backend"] == "none"
        assert 0 < output["max_rel"] <= output["tolerance"]
        assert [layer["node"]["op_type"] for layer in found["layers"]] == ["ConvolutionBackwardData", "ReLU", "Sigmoid"]

    def test_wrong_model_is_1_and_names_the_first_difference(self) -> None:
        right = write(upsampling("SAME_UPPER"), pathlib.Path("right.json"))
        run_cli("convert", write(upsampling("SAME_LOWER"), pathlib.Path("wrong.json")))
        result = run_cli("verify", right, "wrong.onnx", "--backend", "none", "--layers", "--json", "found.json")
        assert (result.exit_code, result.stderr) == (1, "")
        assert [row[-1] for row in rows(result.stdout, "output").values()] == ["DIFFERS"]
        differs, first = result.stdout.splitlines()[-2:]
        assert re.fullmatch(
            r"DIFFERS: \S+ \(no plugin\): \d+ of 128 elements; the worst at \[.*\]: expected \S+, found \S+", differs
        )
        assert first.startswith("first difference: ConvolutionBackwardData ")
        assert not json.loads(pathlib.Path("found.json").read_text())["agrees"]

    def test_nan_is_a_difference_and_json_stays_json(self) -> None:
        run_cli("convert", write(activation(), pathlib.Path("act.json")))
        proto = onnx.load("act.onnx")
        proto.graph.node[0].op_type = "Log"
        onnx.save(proto, "act.onnx")
        options = ("--shape", "x=1x4x3", "--backend", "none", "--json", "found.json")
        assert run_cli("verify", "act.json", "act.onnx", *options).exit_code == 1

        def refuse(text: str) -> Any:
            raise AssertionError(f"{text} is no JSON")

        found = json.loads(pathlib.Path("found.json").read_text(), parse_constant=refuse)
        assert found["outputs"][0]["worst"][2] == "nan"

    def test_tolerance_decides(self) -> None:
        write(upsampling(), pathlib.Path("up.json"))
        assert run_cli("verify", "up.json", "--backend", "none", "--tolerance", "0").exit_code == 1
        assert run_cli("verify", "up.json", "--backend", "none", "--tolerance", "1").exit_code == 0

    def test_given_data_and_semantics_are_used(self) -> None:
        write(upsampling(), pathlib.Path("up.json"))
        np.save("x.npy", np.ones((1, 4, 4, 3), np.float32))
        result = run_cli("verify", "up.json", "--semantics", "runtime", "--input", "x=x.npy", "--backend", "none")
        assert result.exit_code == 0
        assert "runtime semantics" in result.stdout
        assert [row[-1] for row in rows(result.stdout, "input").values()] == ["given", "random, seed 0"]

    @pytest.mark.parametrize(
        ("options", "problem"),
        [
            (("--tolerance", "nan"), "'--tolerance': nan is not a number"),
            (("--json", "missing/found.json"), "--json: the directory 'missing' does not exist"),
        ],
    )
    def test_wrong_options_are_refused_before_anything_happens(self, options: tuple[str, ...], problem: str) -> None:
        result = run_cli("verify", "missing.json", *options)
        assert (result.exit_code, result.stdout) == (2, "")
        assert problem in " ".join(result.stderr.split())

    @pytest.mark.parametrize("path", ["up.json", "up.onnx", "x.npy", "w.npz"])
    def test_what_is_read_is_not_overwritten(self, path: str) -> None:
        write(upsampling(), pathlib.Path("up.json"))
        np.save("x.npy", np.ones((1, 4, 4, 3), np.float32))
        np.savez("w.npz", w=np.ones((3, 3, 2, 3), np.float32))
        pathlib.Path("up.onnx").write_bytes(b"model")
        before = pathlib.Path(path).read_bytes()
        result = run_cli("verify", "up.json", "up.onnx", "--tensors", "w.npz", "--input", "x=x.npy", "--json", path)
        assert (result.exit_code, result.stdout) == (2, "")
        assert f"{path} would overwrite a file that this call reads or writes" in " ".join(result.stderr.split())
        assert pathlib.Path(path).read_bytes() == before

    def test_backend_that_cannot_run_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("ORTCONV_LIBRARY", "missing.so")
        write(upsampling(), pathlib.Path("up.json"))
        result = run_cli("verify", "up.json", "--target", "plugin")
        assert result.exit_code == 0
        assert "not run: plugin (ORTCONV_LIBRARY is 'missing.so', which is not a file.)\n" in result.stdout

    @pytest.mark.parametrize(
        ("arguments", "problem"),
        [
            (("missing.json",), "missing.json: cannot be read"),
            (("act.json", "missing.onnx", "--shape", "x=1x2x3"), "missing.onnx: cannot be read"),
            (("act.json", "act.json", "--shape", "x=1x2x3"), "act.json: is not an ONNX model"),
        ],
    )
    def test_what_cannot_be_compared_is_one_error(self, arguments: tuple[str, ...], problem: str) -> None:
        write(activation(), pathlib.Path("act.json"))
        result = run_cli("verify", *arguments, "--json", "found.json")
        assert (result.exit_code, result.stdout) == (1, "")
        (line,) = result.stderr.splitlines()
        assert line.startswith(f"error: {problem}")
        assert os.listdir() == ["act.json"]

    def test_openvino_agrees_under_runtime_semantics_and_spec_says_why_not(self) -> None:
        openvino = pytest.importorskip("openvino", reason="OpenVINO is the oracle")
        op = pytest.importorskip("openvino.opset13")
        x = op.parameter([-1, 4, -1, -1], openvino.Type.f32, name="x")
        weights = np.random.default_rng(0).standard_normal((4, 2, 3, 3)).astype(np.float32)
        up = op.convolution_backprop_data(
            x, op.constant(weights), [2, 2], op.constant(np.array([9, 10], np.int64)), name="up"
        )
        openvino.save_model(openvino.Model([up], [x], "net"), "net.xml", compress_to_fp16=False)
        options = ("--shape", "x=1x4x5x5", "--backend", "none")
        result = run_cli("verify", "net.xml", *options)
        assert result.exit_code == 0
        assert "runtime semantics" in result.stdout
        assert "expected  OpenVINO " in result.stdout

        assert run_cli("convert", "net.xml").exit_code == 0
        result = run_cli("verify", "net.xml", "net.onnx", *options)
        assert result.exit_code == 1
        assert "net.onnx, spec semantics" in result.stdout
        node, advice = result.stderr.splitlines()
        assert "ConvolutionBackpropData 'up'" in node
        assert advice.endswith("to compare with OpenVINO, convert with --semantics runtime")


def test_library_and_function_bodies_are_both_verified() -> None:
    write(upsampling(), pathlib.Path("up.json"))
    result = run_cli("verify", "up.json", "--target", "plugin")
    assert result.exit_code == 0
    assert [line.split("  ")[1].strip() for line in result.stdout.splitlines() if line.startswith("Sigmoid")] == [
        "plugin",
        "no plugin",
    ]


def test_nodes_of_ours_in_a_body_count(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    openvino = pytest.importorskip("openvino", reason="makes the source")
    op = pytest.importorskip("openvino.opset13")
    monkeypatch.chdir(tmp_path)
    part, x = (op.parameter([1, 2, size, 4], openvino.Type.f32, name=name) for size, name in ((1, "part"), (3, "x")))
    kernel = np.arange(16, dtype=np.float32).reshape(2, 2, 2, 2)
    result = op.result(op.convolution_backprop_data(part, kernel, [2, 2], pads_begin=[0, 0], pads_end=[0, 0]))
    steps = op.tensor_iterator()
    steps.set_function(openvino.Model([result], [part], "step"))
    steps.set_sliced_input(part, x.output(0), 0, 1, 1, -1, 2)
    joined = steps.get_concatenated_slices(result.output(0), 0, 2, 2, -1, 2)
    openvino.save_model(openvino.Model([joined], [x], "net"), "net.xml", compress_to_fp16=False)

    assert ", 1 org.ortconv)" in run_cli("convert", "net.xml", "--target", "plugin").stdout
    assert "1 of them of org.ortconv" in run_cli("explain", "net.xml", "--target", "plugin").stdout
    assert run_cli("check", "net.onnx").stdout.endswith(
        "org.ortconv: 1 TransposedConvolution, runs without the plugin\n"
    )
    found = ortconv.verify("net.xml", "net.onnx")
    assert found.agrees
    assert set(found.outputs) | set(found.skipped) == {"native", "none"}


def test_verify_refuses_a_target_beside_a_model(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a.json", "b.onnx"):
        pathlib.Path(name).write_text("{}")
    result = run_cli("verify", "a.json", "b.onnx", "--target", "onnx")
    assert result.exit_code == 2
    assert "--target chooses how SOURCE is converted" in result.stderr

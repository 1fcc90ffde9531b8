"""``ortconv bench``: what it compares, prints and writes. How long something takes is never asserted."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import onnx
import onnx.helper
import onnx.parser
import pytest

import ortconv
from ortconv.benchmarking import Bench, Timing, quartiles, tolerance_for
from tests.command_line import run_cli, upsampling

FAST = ("--rounds", "3", "--seconds", "0.001", "--threads", "1")


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def ours() -> onnx.ModelProto:
    """A model with a node of ours."""
    weights = np.random.default_rng(0).standard_normal((3, 3, 2, 3)).astype(np.float32)
    return ortconv.convert(upsampling(), target="plugin", tensors={"w": weights})


def text_model(text: str, opset: int = 21) -> onnx.ModelProto:
    return onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": {opset}]> g {text}')


def test_both_sides_are_timed_after_their_answers_agree() -> None:
    onnx.save(ours(), "m.onnx")
    result = run_cli("bench", "m.onnx", *FAST, "--json", "found.json")
    assert (result.exit_code, result.stderr) == (0, "")
    for part in ("1 node of org.ortconv", "1 thread\n", "random, seed 0", "OK", "no plugin", "times as fast"):
        assert part in result.stdout
    found = json.loads(pathlib.Path("found.json").read_text())
    assert (found["agrees"], found["nodes_of_ours"], found["threads"]) == (True, 1, 1)
    for side in ("no_plugin", "plugin"):
        assert len(found[side]["rounds"]) == 3
        assert min(found[side]["rounds"]) > 0
        assert found[side]["median"] == sorted(found[side]["rounds"])[1]
    ratios = [a / b for a, b in zip(found["no_plugin"]["rounds"], found["plugin"]["rounds"], strict=True)]
    assert found["ratio"] == sorted(ratios)[1]
    assert [each["agrees"] for each in found["outputs"]] == [True]


def test_what_computes_a_convolution_is_told() -> None:
    onnx.save(ours(), "m.onnx")
    result = run_cli("bench", "m.onnx", *FAST, "--json", "found.json")
    (convolution,) = json.loads(pathlib.Path("found.json").read_text())["convolutions"]
    assert convolution["implementation"] == min(convolution["seconds"], key=convolution["seconds"].get)
    for part in (convolution["implementation"], "TransposedConvolution", " channels, ", "computed by"):
        assert part in result.stdout


@pytest.fixture
def wrong_body(monkeypatch: pytest.MonkeyPatch) -> onnx.ModelProto:
    """A model whose function body computes something else than our kernel; let in, to stand for a wrong kernel."""
    monkeypatch.setattr("ortconv.model_io.loading.check_own_functions", lambda model, name: None)
    model = ours()
    (function,) = model.functions
    function.node[-1].output[0] = "right"
    function.node.append(onnx.helper.make_node("Abs", ["right"], ["Y"]))
    return model


def test_different_answer_fails_and_nothing_is_timed(wrong_body: onnx.ModelProto) -> None:
    onnx.save(wrong_body, "m.onnx")
    # The model ends in Relu and Sigmoid, so that the absolute value is seen.
    result = run_cli("bench", "m.onnx", *FAST, "--json", "found.json")
    assert result.exit_code == 1
    assert "DIFFERS: " in result.stdout
    assert "nothing was timed" in result.stdout
    assert "times as fast" not in result.stdout
    found = json.loads(pathlib.Path("found.json").read_text())
    assert (found["agrees"], found["no_plugin"], found["plugin"], found["ratio"]) == (False, None, None, None)
    assert found["outputs"][0]["wrong"] > 0


def test_tolerance_decides(wrong_body: onnx.ModelProto) -> None:
    onnx.save(wrong_body, "m.onnx")
    result = run_cli("bench", "m.onnx", *FAST, "--tolerance", "1000")
    assert result.exit_code == 0
    assert "1e+03" in result.stdout


def test_model_without_our_operators_is_noted() -> None:
    onnx.save(text_model("(float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }"), "m.onnx")
    result = run_cli("bench", "m.onnx", *FAST, "--shape", "x=2x3")
    assert result.exit_code == 0
    (line,) = result.stderr.splitlines()
    assert line.startswith("warning: the model holds no operators of org.ortconv: both sides run the same kernels; ")


def test_given_data_is_used() -> None:
    onnx.save(text_model("(float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }"), "m.onnx")
    np.save("x.npy", np.zeros((4, 3), np.float32))
    result = run_cli("bench", "m.onnx", *FAST, "--input", "x=x.npy")
    assert result.exit_code == 0
    assert "[4, 3]  given" in result.stdout


def test_model_that_needs_the_plugin_has_no_other_side() -> None:
    model = ours()
    del model.functions[:]
    onnx.save(model, "m.onnx")
    result = run_cli("bench", "m.onnx", *FAST)
    assert result.exit_code == 1
    assert "without function bodies" in result.stderr


@pytest.mark.parametrize(
    ("options", "code", "problem"),
    [
        (("m.onnx", "--shape", "z=1x3"), 2, "'z=1x3' does not begin with an input's name and =; inputs: x."),
        (("m.onnx", "--threads", "0"), 2, "0 is not in the range x>=1"),
        (("m.onnx", "--rounds", "0"), 2, "0 is not in the range x>=1"),
        (("m.onnx", "--seconds", "0"), 2, "--seconds"),
        (("m.onnx", "--seconds", "nan"), 2, "'--seconds': nan is not a number"),
        (("m.onnx", "--tolerance", "nan"), 2, "'--tolerance': nan is not a number"),
        (("m.onnx", "--json", "./m.onnx"), 2, "m.onnx would overwrite a file that this call reads or writes"),
        (("m.onnx", "--input", "x=x.npy", "--json", "x.npy"), 2, "x.npy would overwrite"),
        (("m.onnx", "--json", "no/found.json"), 2, "the directory 'no' does not exist"),
        (("none.onnx",), 1, "none.onnx: is not a file."),
        (("text.onnx",), 1, "text.onnx: is not an ONNX model"),
    ],
)
def test_wrong_input_is_refused(options: tuple[str, ...], code: int, problem: str) -> None:
    onnx.save(text_model("(float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }"), "m.onnx")
    pathlib.Path("text.onnx").write_text("hello")
    result = run_cli("bench", *options)
    assert result.exit_code == code
    assert problem in result.stderr
    assert result.stdout == ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(float[3] x) => (float[3] y) { y = Relu(x) }", 2e-5),
        ("(double[3] x) => (double[3] y) { y = Relu(x) }", 1e-11),
        ("(int32[3] x) => (double[3] y) { y = Cast <to = 11> (x) }", 1e-11),
        ("(double[3] x) => (float[3] y) { y = Cast <to = 1> (x) }", 2e-5),
        ("(float16[3] x) => (float16[3] y) { y = Relu(x) }", 5 * 2.0**-10),
        ("(float[3] x) => (float[3] y) { z = Cast <to = 16> (x) y = Cast <to = 1> (z) }", 5 * 2.0**-7),
    ],
)
def test_tolerance_is_that_of_the_narrowest_type(text: str, expected: float) -> None:
    tolerance = tolerance_for(text_model(text))
    assert (tolerance.floats, tolerance.integers) == (expected, 0.0)


def timed(stock: list[float], plugin: list[float]) -> Bench:
    return Bench((), Timing(tuple(stock)), Timing(tuple(plugin)))


@pytest.mark.parametrize(
    ("stock", "plugin", "slower"),
    [
        ([1.0] * 7, [1.2] * 7, True),
        ([1.0] * 7, [1.0] * 7, False),
        ([1.0] * 7, [1.05] * 7, False),
        ([1.0] * 6, [9.0] * 6, False),  # too few rounds
        ([1.0] * 7, [2.0] * 5 + [1.0] * 2, False),  # as fast when nothing disturbs it
        ([1.0] * 7, [1.2] * 4 + [1.11] * 3, True),
        ([3.0] * 3 + [1.0] * 4, [1.2] * 7, False),  # disturbed, both of them
        ([1.0] * 7, [0.5] * 7, False),
    ],
)
def test_slower_is_what_noise_does_not_do(stock: list[float], plugin: list[float], slower: bool) -> None:
    assert timed(stock, plugin).slower == slower


@pytest.mark.parametrize("slower", [True, False])
def test_a_slower_plugin_is_told_and_fails(slower: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    found = timed([1.0] * 9, [2.0 if slower else 1.0] * 9)
    monkeypatch.setattr("ortconv.benchmarking.Pair.bench", lambda *_, **__: found)
    onnx.save(ours(), "m.onnx")
    result = run_cli("bench", "m.onnx", *FAST, "--json", "found.json")
    assert result.exit_code == int(slower)
    assert ("SLOWER: the plugin is slower than the function bodies" in result.stdout) == slower
    assert json.loads(pathlib.Path("found.json").read_text())["slower"] == slower


def test_quartiles() -> None:
    assert quartiles([3.0]) == (3.0, 3.0)
    assert quartiles([5.0, 1.0, 2.0, 3.0, 4.0]) == (2.0, 4.0)


def test_provider_is_compared_with_the_optimized_model() -> None:
    text = "(float[1,3,9,9] x) => (float[a,b,c,d] y) { t = ConvTranspose <strides = [2, 2]> (x, w) y = Relu (t) }"
    model = text_model(text)
    model.graph.node[0].name = "up"
    weights = np.random.default_rng(0).standard_normal((3, 8, 2, 2)).astype(np.float32)
    model.graph.initializer.append(onnx.numpy_helper.from_array(weights, "w"))
    onnx.save(model, "m.onnx")
    result = run_cli("bench", "m.onnx", "--ep", *FAST, "--json", "found.json")
    assert (result.exit_code, result.stderr) == (0, "")
    for part in ("OrtconvExecutionProvider, 1 node and 1 fused ones", "no provider", "optimized", "times as fast"):
        assert part in result.stdout
    found = json.loads(pathlib.Path("found.json").read_text())
    assert [(each["node"], each["reason"]) for each in found["claims"]] == [("up", "")]
    for side in ("no_plugin", "plugin", "optimized"):
        assert len(found[side]["rounds"]) == 3


def test_provider_is_not_for_gpus() -> None:
    onnx.save(ours(), "m.onnx")
    result = run_cli("bench", "m.onnx", "--ep", "--provider", "cuda")
    assert (result.exit_code, "exclude each other" in result.stderr) == (2, True)

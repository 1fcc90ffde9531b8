"""The command line: sizes that are chosen where a model leaves them open, and data for many inputs at once."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

from ortconv.errors import ExecutionError
from ortconv.model_io.input_data import Input
from ortconv.runtime import default_shapes
from tests.cli.test_execution import rows
from tests.command_line import run_cli

F32 = np.float32


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def model(text: str, name: str = "m.onnx", metadata: dict[str, str] | None = None, **data: np.ndarray) -> str:
    """Writes a model from ONNX's text form."""
    made = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> g {text}')
    made.graph.initializer.extend(onnx.numpy_helper.from_array(array, key) for key, array in data.items())
    onnx.helper.set_model_props(made, metadata or {})
    onnx.save(made, name)
    return name


def shapes(text: str) -> dict[str, list[int]]:
    return {name: json.loads(row[1]) for name, row in rows(text, "input").items()}


def images(padding: int) -> str:
    """Convolutions of 5 x 5 and 3 x 3: without padding they take 7 x 7 and more."""
    return model(
        f"""(float[N, 3, H, W] image) => (float[N, 4, P, Q] y) {{
        c = Conv <pads = [{padding}, {padding}, {padding}, {padding}]> (image, w)
        y = Conv (c, v) }}""",
        w=np.ones((4, 3, 5, 5), F32),
        v=np.ones((4, 4, 3, 3), F32),
    )


class TestOpenSizes:
    @pytest.mark.parametrize(("padding", "least"), [(0, 7), (2, 3)])
    def test_the_least_that_the_model_accepts(self, padding: int, least: int) -> None:
        result = run_cli("run", images(padding), "--no-plugin")
        assert result.exit_code == 0, result.stderr
        assert shapes(result.stdout) == {"image": [1, 3, least, least]}
        line = "dynamic sizes of image: 1 for batches, otherwise the least that the model accepts; --shape sets others"
        assert result.stdout.splitlines()[0] == line

    def test_shape_rules_and_says_nothing(self) -> None:
        result = run_cli("run", images(0), "--no-plugin", "--shape", "image=2x3x9x8")
        assert shapes(result.stdout) == {"image": [2, 3, 9, 8]}
        assert "dynamic sizes" not in result.stdout

    def test_bench_chooses_too(self) -> None:
        result = run_cli("bench", images(0), "--rounds", "1", "--seconds", "0.001")
        assert "dynamic sizes of image: 1 for batches, otherwise the least" in result.stdout
        assert shapes(result.stdout) == {"image": [1, 3, 7, 7]}

    @pytest.mark.parametrize("block", [12, 24, 32])
    def test_multiples_are_found(self, block: int) -> None:
        text = f"""(float[N, 1, H, W] x) => (float[N, {block * block}, P, Q] y) {{
            y = SpaceToDepth <blocksize = {block}> (x) }}"""
        result = run_cli("run", model(text), "--no-plugin")
        assert shapes(result.stdout) == {"x": [1, 1, block, block]}

    def test_signals_without_a_batch(self) -> None:
        text = """(float[T] signal) => (float[1, 1, P] y) {
            s = Unsqueeze (signal, axes) y = Conv (s, w) }"""
        name = model(text, axes=np.array([0, 1]), w=np.ones((1, 1, 400), F32))
        assert shapes(run_cli("run", name, "--no-plugin").stdout) == {"signal": [400]}

    def test_the_batch_is_that_of_the_data_that_is_given(self) -> None:
        text = "(float[?, 3] x, float[?, 3] z, int64[?] i) => (float[?, 3] y) { a = Add (x, z) y = Gather (a, i) }"
        np.save("x.npy", np.ones((4, 3), F32))
        result = run_cli("run", model(text), "--no-plugin", "--input", "x=x.npy", "--input", "i=[3,0]")
        assert result.exit_code == 0, result.stderr
        assert shapes(result.stdout)["z"] == [1, 3]  # 4 and 2: the data does not say which
        result = run_cli("run", "m.onnx", "--no-plugin", "--input", "x=x.npy")
        assert (shapes(result.stdout)["z"], shapes(result.stdout)["i"]) == ([4, 3], [4])

    def test_symbols_have_one_size(self) -> None:
        text = "(float[N, L] x, float[L, N] z) => (float[N, N] y) { y = MatMul (x, z) }"
        result = run_cli("run", model(text), "--no-plugin", "--shape", "x=2x5")
        assert shapes(result.stdout) == {"x": [2, 5], "z": [5, 2]}

    def test_what_runs_with_no_size_is_one_error(self) -> None:
        name = model("(float[N, L] x) => (float[N, 5] y) { y = Add (x, w) }", w=np.ones((3, 7, 5), F32))
        onnx_model = onnx.load(name)
        onnx_model.graph.output[0].type.tensor_type.ClearField("shape")
        onnx_model.graph.node[0].op_type = "MatMul"
        onnx_model.graph.initializer[0].CopyFrom(onnx.numpy_helper.from_array(np.ones((2000, 5), F32), "w"))
        onnx.save(onnx_model, name)
        result = run_cli("run", name, "--no-plugin", "--json", "x.json")
        assert (result.exit_code, result.stdout) == (1, "")
        assert result.stderr.count("\n") == 1
        assert "up to 1024: set them with --shape x=1x8." in result.stderr
        assert os.listdir() == [name]

    def test_results_without_elements_are_passed_over_for_larger_ones(self) -> None:
        wanted = (Input("x", onnx_type(), ("N", None)),)
        tried: list[int] = []

        def run(feeds: Any) -> dict[str, np.ndarray]:
            size = feeds["x"].shape[1]
            tried.append(size)
            if size < 3:
                raise ExecutionError("m", "test", "fails")
            return {"y": np.zeros(max(size - 9, 0), F32)}

        assert default_shapes.choose(wanted, {}, {}, 0, run) == {"x": (1, 10)}
        assert default_shapes.choose(wanted, {}, {}, 0, run, lambda found: found["x"][1] > 20) == {"x": (1, 21)}


def onnx_type() -> Any:
    import onnx_ir as ir

    return ir.DataType.FLOAT


CACHED = """(float[?, 8] x, float[?, 2, ?, 4] past_key, float[?, 2, ?, 4] past_value) =>
    (float[?, 2, ?, 4] next_key, float[?, 2, ?, 4] next_value, float[?, 8] y) {
    n = Reshape (x, form)
    next_key = Concat <axis = 2> (past_key, n)
    next_value = Concat <axis = 2> (past_value, next_key)
    y = Relu (x) }"""


def cached() -> str:
    states = [{"variable": each, "input": f"past_{each}", "output": f"next_{each}"} for each in ("key", "value")]
    return model(CACHED, metadata={"ortconv.states": json.dumps(states)}, form=np.array([0, 2, -1, 4]))


class TestStates:
    def test_caches_are_empty(self) -> None:
        result = run_cli("run", cached(), "--no-plugin", "--output", "after.npz")
        assert result.exit_code == 0, result.stderr
        assert shapes(result.stdout) == {"x": [1, 8], "past_key": [1, 2, 0, 4], "past_value": [1, 2, 0, 4]}
        assert "dynamic sizes of x, past_key, past_value: 1 for batches, empty caches; --shape" in result.stdout

    def test_metadata_of_others_is_no_error(self) -> None:
        for text in ("", "[", "[1]", '{"a": 1}', "null", '[{"input": 3}]'):
            name = model("(float[N] x) => (float[N] y) { y = Relu (x) }", metadata={"ortconv.states": text})
            assert run_cli("run", name, "--no-plugin").exit_code == 0

    def test_a_whole_state_from_the_last_run(self) -> None:
        assert run_cli("run", cached(), "--no-plugin", "--output", "after.npz").exit_code == 0
        result = run_cli("run", "m.onnx", "--no-plugin", "--input", "past=after.npz", "--output", "more.npz")
        assert result.exit_code == 0, result.stderr
        assert rows(result.stdout, "input")["past_key"] == ["float32", "[1, 2, 1, 4]", "given"]
        with np.load("after.npz") as before, np.load("more.npz") as after:
            np.testing.assert_array_equal(after["next_key"][:, :, :1], before["next_key"])

    def test_one_input_of_a_file_of_many(self) -> None:
        np.savez("after.npz", next_key=np.ones((1, 2, 5, 4), F32))
        result = run_cli("run", cached(), "--no-plugin", "--input", "past_key=after.npz")
        assert result.exit_code == 0, result.stderr
        assert (shapes(result.stdout)["past_key"], shapes(result.stdout)["past_value"]) == ([1, 2, 5, 4], [1, 2, 0, 4])

    def test_a_folder_and_names_of_the_inputs_themselves(self) -> None:
        cached()
        pathlib.Path("state").mkdir()
        for index, name in enumerate(("key", "value")):
            np.save(f"state/past_{name}.npy", np.full((1, 2, 3 + index, 4), index, F32))
        result = run_cli("run", "m.onnx", "--no-plugin", "--input", "past_=state")
        assert result.exit_code == 0, result.stderr
        assert (shapes(result.stdout)["past_key"], shapes(result.stdout)["past_value"]) == ([1, 2, 3, 4], [1, 2, 4, 4])

    @pytest.mark.parametrize(
        ("arguments", "code", "problem"),
        [
            (
                ("--input", "past=half.npz"),
                1,
                "half.npz: lacks past_value; all inputs whose names begin with 'past' are",
            ),
            (("--input", "past=none.npz"), 1, "none.npz: cannot be read"),
            (("--input", "past=folder"), 1, "folder: lacks past_key;"),
            (("--input", "nothing=half.npz"), 2, "'nothing=half.npz' does not begin with an input's name"),
            (("--input", "past=[1,2]"), 2, "does not begin with an input's name"),
            (("--input", "past=half.npz", "--input", "past=half.npz"), 2, "'past' is given twice"),
            (("--input", "past=both.npz", "--input", "past_key=key.npy"), 2, "past_key is given twice"),
            (("--input", "past=both.npz", "--output", "both.npz"), 2, "both.npz would overwrite"),
        ],
    )
    def test_what_does_not_fit_is_one_error(self, arguments: tuple[str, ...], code: int, problem: str) -> None:
        cached()
        pathlib.Path("folder").mkdir()
        key = np.zeros((1, 2, 0, 4), F32)
        np.savez("half.npz", **{"past_key": key})
        np.savez("both.npz", **{"past_key": key, "past_value": key})
        np.save("key.npy", key)
        result = run_cli("run", "m.onnx", "--no-plugin", *arguments)
        assert result.exit_code == code
        assert problem in " ".join(result.stderr.split())

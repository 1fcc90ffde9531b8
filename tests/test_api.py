"""Converting and saving: what a file keeps of its source, and that it is written whole or not at all."""

from __future__ import annotations

import errno
import os
import pathlib
import shutil
import subprocess
import sys
import warnings
from typing import Any, cast

import numpy as np
import onnx
import onnxruntime
import pytest

import ortconv
from ortconv import onednn
from ortconv.errors import InputError, SemanticsWarning
from ortconv.opset.domain import DOMAIN
from tests.folders import SOURCES, VECTORS
from tests.running import WAYS, run


def backward_data(name: str = "up", dtype: str = "f32", auto_pad: str = "none", bias: bool = False) -> onednn.Graph:
    graph = onednn.Graph(name)
    x = graph.tensor("diff_dst", dtype, [1, 4, 4, 2])
    w = graph.tensor("weights", dtype, [3, 3, 3, 2])
    graph.op(
        "ConvolutionBackwardData",
        [x, w],
        name="node",
        strides=[2, 2],
        pads_begin=[1, 1],
        pads_end=[1, 1],
        dilations=[1, 1],
        auto_pad=auto_pad,
        dst_shape=[1, 8, 8, 3],
    )
    return graph


def nodes(model: onnx.ModelProto) -> list[str]:
    return [f"{node.domain}.{node.op_type}".lstrip(".") for node in model.graph.node]


def test_file_keeps_names_order_types_and_open_dims() -> None:
    model = ortconv.convert(SOURCES / "unet_decoder.xml")
    assert [value.name for value in model.graph.input] == ["bottom", "skip_2", "skip_1"]
    assert [value.name for value in model.graph.output] == ["mask"]
    for value, channels in zip(model.graph.input, [32, 16, 8], strict=True):
        dims = value.type.tensor_type.shape.dim
        assert value.type.tensor_type.elem_type == onnx.TensorProto.FLOAT
        assert [dim.HasField("dim_value") for dim in dims] == [False, True, False, False]
        assert dims[1].dim_value == channels
    assert (model.ir_version, model.opset_import[0].version) == (10, 19)


def test_every_node_records_its_origin() -> None:
    path = SOURCES / "unet_decoder.xml"
    for node in ortconv.convert(path).graph.node:
        facts = {entry.key: entry.value for entry in node.metadata_props}
        assert facts["ortconv.source.file"] == "unet_decoder.xml"
        assert facts["ortconv.source.op_type"]
        assert facts["ortconv.source.version"].startswith("opset")
        assert facts["ortconv.source.id"].isdecimal()
        assert facts["ortconv.source.name"]


def test_nodes_record_why_they_became_what_they_are() -> None:
    done = ortconv.conversion(SOURCES / "unet_decoder.xml")
    explained = [step for step in done.steps if step.notes and step.nodes]
    assert explained
    for step in done.steps:
        for node in step.nodes:
            assert node.metadata_props.get("ortconv.why", "") == "; ".join(step.notes)
    warned = ortconv.conversion(SOURCES / "onednn_upsample.json")
    texts = {node.metadata_props.get("ortconv.warning") for node in warned.model.graph}
    assert {text for step in warned.steps for text in step.warnings} == texts - {None}


def test_same_source_gives_the_same_bytes() -> None:
    for name in ("unet_decoder.xml", "upsample_picture.xml", "onednn_upsample.json"):
        first, second = (ortconv.conversion(SOURCES / name).to_proto() for _ in range(2))
        assert first.SerializeToString(deterministic=True) == second.SerializeToString(deterministic=True)


DIGESTS = """
import hashlib, sys
from ortconv import api
for path in sys.argv[1:]:
    done = api.conversion(path)
    data = done.to_proto().SerializeToString(deterministic=True)
    told = repr([(step.notes, step.warnings) for step in done.steps])
    print(path, hashlib.sha256(data).hexdigest(), hashlib.sha256(told.encode()).hexdigest())
"""


def test_bytes_notes_and_warnings_do_not_depend_on_the_hash_seed() -> None:
    files = [*SOURCES.glob("*.json"), *SOURCES.glob("*.xml"), *VECTORS.glob("onednn_*.json"), *VECTORS.glob("*.xml")]
    assert len(files) > 60
    digests = {
        subprocess.run(
            [sys.executable, "-P", "-c", DIGESTS, *files],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(digests) == 1


@pytest.mark.parametrize("opset", range(19, 26))
def test_each_opset_is_the_one_written_and_runs(opset: int) -> None:
    conversion = ortconv.conversion(backward_data(), opset=opset, target="plugin")
    model = conversion.to_proto()
    assert {entry.domain: entry.version for entry in model.opset_import} == {"": opset, DOMAIN: 1}
    feeds = {"diff_dst": np.ones((1, 4, 4, 2), np.float32), "weights": np.ones((3, 3, 3, 2), np.float32)}
    for way in WAYS:
        (result,) = run(model, feeds, way)
        assert result.shape == (1, 8, 8, 3)
        assert result[0, 2, 2, 0] == 2 * 1
        assert result[0, 3, 3, 0] == 2 * 4


@pytest.mark.parametrize("opset", [18, 26, 21.0])
def test_other_opset_is_a_value_error(opset: Any) -> None:
    with pytest.raises(ValueError, match=rf"opset {opset} is not supported; allowed: 19 to 25"):
        ortconv.convert(backward_data(), opset=opset)


@pytest.mark.parametrize("sizes", [[1.5, 4, 4, 2], 4, "1442", [True, 4, 4, 2]])
def test_shapes_are_sequences_of_integers(sizes: Any) -> None:
    with pytest.raises(
        InputError, match=r"diff_dst: shape .* is not a shape; allowed: a sequence of integers and None"
    ):
        ortconv.convert(backward_data(), shapes={"diff_dst": sizes})


@pytest.mark.parametrize("kind", [list, tuple, np.array])
def test_shapes_of_any_kind_of_sequence(kind: Any) -> None:
    model = ortconv.convert(backward_data(), shapes={"diff_dst": kind([1, 4, 4, 2])})
    assert [dim.dim_value for dim in model.graph.input[0].type.tensor_type.shape.dim] == [1, 4, 4, 2]


def test_names_are_texts() -> None:
    with pytest.raises(InputError, match="diff_dst: cannot be renamed to 3; allowed: names that are not used"):
        ortconv.convert(backward_data(), names=cast(Any, {"diff_dst": 3}))


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"semantics": "Runtime"}, "semantics 'Runtime' is unknown; allowed: spec, runtime"),
        ({"target": None}, "target None is unknown; allowed: auto, onnx, plugin"),
    ],
)
def test_unknown_option_is_not_taken_for_the_default(options: dict[str, Any], problem: str) -> None:
    for function in (ortconv.convert, ortconv.conversion, ortconv.verify):
        with pytest.raises(ValueError, match=problem):
            function(backward_data(), **options)


def test_targets_choose_the_nodes() -> None:
    graph = backward_data()
    assert nodes(ortconv.convert(graph)) == ["Transpose", "Transpose", "ConvTranspose", "Transpose"]
    assert nodes(ortconv.convert(graph, target="plugin")) == [f"{DOMAIN}.TransposedConvolution"]
    bf16 = backward_data(dtype="bf16")
    assert nodes(ortconv.convert(bf16)) == [f"{DOMAIN}.TransposedConvolution"]
    inlined = ortconv.convert(bf16, target="onnx")
    assert {node.domain for node in inlined.graph.node} == {""}
    assert not inlined.functions
    assert [entry.domain for entry in inlined.opset_import] == [""]


def test_warnings_are_python_warnings_once_per_node() -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        ortconv.convert(backward_data(auto_pad="same_lower"))
    (warning,) = caught
    assert warning.category is SemanticsWarning
    assert "'node'" in str(warning.message)


def test_nodes_with_and_without_bias_share_a_body() -> None:
    graph = onednn.Graph("two")
    x = graph.tensor("x", "bf16", [1, 4, 4, 2])
    w = graph.tensor("w", "bf16", [3, 3, 2, 2])
    bias = graph.tensor("bias", "bf16", [2])
    window = {"strides": [1, 1], "pads_begin": [1, 1], "pads_end": [1, 1], "dilations": [1, 1]}
    first = graph.op("Convolution", [x, w, bias], name="first", **window)
    graph.op("Convolution", [first, w], name="second", **window)
    model = ortconv.convert(graph)
    assert nodes(model) == [f"{DOMAIN}.Convolution"] * 2
    import ml_dtypes

    feeds = {
        "x": np.ones((1, 4, 4, 2), ml_dtypes.bfloat16),
        "w": np.ones((3, 3, 2, 2), ml_dtypes.bfloat16),
        "bias": np.array([1, 2], ml_dtypes.bfloat16),
    }
    for way in WAYS:
        (result,) = run(model, feeds, way)
        # 9 taps of 2 channels inside, 4 in a corner, 6 along an edge; twice.
        assert float(result[0, 0, 0, 0]) == (8 + 1) + (8 + 2) + 2 * ((12 + 1) + (12 + 2)) + (18 + 1) + (18 + 2)


def test_doubles_beside_floats_are_not_computed_in_float() -> None:
    """The body of an op is shared by a model's nodes: one that sums in float would spoil the doubles."""
    pytest.importorskip("openvino", reason="the source is built with OpenVINO")
    import openvino
    from openvino import opset8

    results, feeds = [], {}
    for name, dtype in [("a", np.float32), ("b", np.float64)]:
        x = opset8.parameter([1, 1, 3, 3], name=name, dtype=dtype)
        x.output(0).set_names({name})
        w = opset8.constant(np.array([1.0, 2.0**-30], dtype).reshape(1, 1, 1, 2))
        results.append(opset8.convolution_backprop_data(x, w, [1, 1]))
        results[-1].output(0).set_names({f"{name}_out"})
        results[-1].set_friendly_name(f"{name}_out")
        feeds[name] = np.arange(1, 10, dtype=dtype).reshape(1, 1, 3, 3)
    parameters = [result.input_value(0).get_node() for result in results]
    model = ortconv.convert(openvino.Model([node.output(0) for node in results], parameters), target="plugin")
    assert nodes(model) == [f"{DOMAIN}.TransposedConvolution"] * 2
    for way in WAYS:
        single, double = run(model, feeds, way)
        assert double[0, 0, 0, 1] == 2 + 2.0**-30
        assert single[0, 0, 0, 1] == np.float32(2 + 2.0**-30)


class TestSaving:
    def test_file_is_what_was_converted(self, tmp_path: pathlib.Path) -> None:
        conversion = ortconv.conversion(SOURCES / "upsample_picture.xml")
        conversion.save(tmp_path / "model.onnx")
        assert onnx.load(tmp_path / "model.onnx") == conversion.to_proto()
        assert [path.name for path in tmp_path.iterdir()] == ["model.onnx"]

    def test_failure_leaves_the_old_file_and_nothing_else(
        self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        path = tmp_path / "model.onnx"
        path.write_bytes(b"old")

        def fail(model: object, target: pathlib.Path, *_: object) -> None:
            target.write_bytes(b"half")
            raise OSError("disk full")

        monkeypatch.setattr("ortconv.model_io.writer.write", fail)
        with pytest.raises(OSError, match="disk full"):
            ortconv.conversion(SOURCES / "upsample_picture.xml").save(path)
        assert path.read_bytes() == b"old"
        assert list(tmp_path.iterdir()) == [path]

    def test_error_on_the_way_names_the_file(self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
        def write(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr("ortconv.model_io.writer.write", write)
        with pytest.raises(OSError, match="No space left on device") as caught:
            ortconv.conversion(SOURCES / "upsample_picture.xml").save(tmp_path / "model.onnx")
        assert caught.value.filename == str(tmp_path / "model.onnx")
        assert not list(tmp_path.iterdir())

    @pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="named pipes are POSIX")
    def test_what_is_no_file_is_not_replaced(self, tmp_path: pathlib.Path) -> None:
        pipe = tmp_path / "pipe"
        os.mkfifo(pipe)
        with pytest.raises(OSError, match="is not a regular file and is not replaced") as caught:
            ortconv.conversion(SOURCES / "upsample_picture.xml").save(pipe)
        assert caught.value.filename == str(pipe)
        assert pipe.is_fifo()
        assert list(tmp_path.iterdir()) == [pipe]

    def test_symbolic_link_is_followed(self, tmp_path: pathlib.Path) -> None:
        (tmp_path / "real").mkdir()
        link = tmp_path / "link.onnx"
        link.symlink_to(tmp_path / "real" / "model.onnx")
        ortconv.conversion(SOURCES / "upsample_picture.xml").save(link)
        assert link.is_symlink()
        assert [path.name for path in (tmp_path / "real").iterdir()] == ["model.onnx"]
        ortconv.check(link)

    def test_error_names_the_file_that_was_asked_for(self, tmp_path: pathlib.Path) -> None:
        path = tmp_path / "missing" / "model.onnx"
        with pytest.raises(FileNotFoundError) as caught:
            ortconv.conversion(SOURCES / "upsample_picture.xml").save(path)
        assert caught.value.filename == str(path)

    def test_large_weights_go_to_a_file_beside_it(
        self, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("ortconv.model_io.writer.LARGE", 100)
        monkeypatch.setattr("ortconv.model_io.writer._MAX_MESSAGE", 1000)
        ortconv.conversion(SOURCES / "unet_decoder.xml").save(tmp_path / "model.onnx")
        assert {path.name for path in tmp_path.iterdir()} == {"model.onnx", "model.onnx.data"}
        ortconv.check(tmp_path / "model.onnx")
        session = ortconv.InferenceSession(str(tmp_path / "model.onnx"))
        assert session.get_outputs()[0].name == "mask"


def test_model_runs_on_a_plain_onnxruntime() -> None:
    model = ortconv.convert(SOURCES / "unet_decoder.xml")
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    shapes = {"bottom": (1, 32, 2, 2), "skip_2": (1, 16, 3, 4), "skip_1": (1, 8, 5, 7)}
    (mask,) = session.run(None, {name: np.ones(shape, np.float32) for name, shape in shapes.items()})
    assert mask.shape == (1, 2, 5, 7)


def test_model_does_not_depend_on_the_folder_of_its_source(tmp_path: pathlib.Path) -> None:
    written = []
    for name in ("here", "there"):
        folder = shutil.copytree(SOURCES, tmp_path / name)
        ortconv.conversion(folder / "unet_decoder.xml").save(tmp_path / f"{name}.onnx")
        written.append((tmp_path / f"{name}.onnx").read_bytes())
    assert written[0] == written[1]
    facts = {entry.key: entry.value for entry in onnx.load_from_string(written[0]).metadata_props}
    assert facts["ortconv.source.file"] == "unet_decoder.xml"


def test_source_of_no_known_format_is_refused() -> None:
    with pytest.raises(ortconv.ModelFormatError, match="is not a source that ortconv reads; allowed: OpenVINO IR"):
        ortconv.convert("model.tflite")


@pytest.mark.parametrize("seed", [-1, "1", 1.5])
def test_what_is_no_seed_is_refused(seed: object) -> None:
    with pytest.raises(ValueError, match=r"is not a seed; allowed: integers from 0"):
        ortconv.convert(SOURCES / "onednn_upsample.json", random_constants=seed)  # type: ignore[arg-type]


def test_data_for_a_format_that_holds_its_own_is_refused() -> None:
    with pytest.raises(ortconv.ModelFormatError, match=r"data is given for x; allowed: none, since OpenVINO IR"):
        ortconv.convert(SOURCES / "unet_decoder.xml", tensors={"x": np.zeros(1)})


class TestOutputOfUnknownRank:
    def reduction(self, keep_dims: bool) -> object:
        openvino = pytest.importorskip("openvino", reason="the source is built with OpenVINO")
        from openvino import opset8

        x = opset8.parameter([-1, 4, 5], name="x", dtype=np.float32)
        axes = opset8.parameter([-1], name="axes", dtype=np.int64)
        node = opset8.exp(opset8.reduce_sum(x, axes, keep_dims))
        node.set_friendly_name("result")
        node.output(0).set_names({"result"})
        return openvino.Model([node], [x, axes])

    def test_it_is_inferred_where_possible(self) -> None:
        model = ortconv.convert(self.reduction(keep_dims=True))
        assert len(model.graph.output[0].type.tensor_type.shape.dim) == 3

    def test_it_is_refused_otherwise(self) -> None:
        with pytest.raises(ortconv.ConversionErrors) as caught:
            ortconv.convert(self.reduction(keep_dims=False))
        (error,) = caught.value.exceptions
        assert isinstance(error, ortconv.ShapeError)
        assert (error.input, error.shape) == ("result", None)
        assert error.node is not None
        assert (error.node.op_type, error.node.name) == ("Exp", "result")

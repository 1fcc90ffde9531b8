"""Damaged copies of a real file: whatever is flipped, cut or swapped, only errors of ours come out."""

from __future__ import annotations

import pathlib
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ortconv.converters.openvino import FRONTEND
from ortconv.errors import OrtconvError

SETTINGS = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture], database=None)


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> tuple[bytes, bytes]:
    ov = pytest.importorskip("openvino", reason="OpenVINO writes the file that is damaged")
    op = pytest.importorskip("openvino.opset13", reason="OpenVINO writes the file that is damaged")
    data = op.parameter([-1, 4, ov.Dimension(3, 9), 5], np.float32, name="data")
    size = op.parameter([2], np.int64, name="size")
    kernel = op.multiply(
        op.convert(ov.op.Constant(ov.Type.i4, ov.Shape([4, 2, 3, 3]), [n % 8 for n in range(72)]), "f32"),
        op.constant(np.float32(0.25)),
    )
    up = op.convolution_backprop_data(data, kernel, [2, 2], size, [0, 0], [0, 0], [1, 1], "same_lower", [0, 0])
    half = op.split(up, op.constant(np.int64(1)), 2)
    mask = op.select(op.constant(np.array([True, False])), op.constant(np.float32([1, 2])), op.constant(np.float32(0)))
    model = ov.Model(
        [op.result(half.output(0), name="a"), op.result(op.relu(half.output(1))), op.result(mask)], [data, size], "fuzz"
    )
    path = tmp_path_factory.mktemp("original") / "model.xml"
    ov.save_model(model, path, compress_to_fp16=False)
    return path.read_bytes(), path.with_suffix(".bin").read_bytes()


def read_whole(folder: pathlib.Path, text: bytes, weights: bytes) -> bool:
    """Reads a file and everything in it; tells whether it was accepted."""
    path = folder / "model.xml"
    path.write_bytes(text)
    path.with_suffix(".bin").write_bytes(weights)
    try:
        graph = FRONTEND.read(path, {})
    except OrtconvError:
        return False
    values = [value for node in graph.nodes for value in (*node.inputs, *node.outputs) if value is not None]
    for value in (*graph.inputs, *values, *(output.value for output in graph.outputs)):
        assert value.name
        if value.constant is not None:
            assert value.constant.numpy().shape == value.shape
            assert len(value.constant.tobytes()) == value.constant.nbytes
    return True


def test_the_original_is_accepted(original: tuple[bytes, bytes], tmp_path: pathlib.Path) -> None:
    assert read_whole(tmp_path, *original)


@SETTINGS
@given(data=st.data())
def test_damaged_bytes(original: tuple[bytes, bytes], tmp_path: pathlib.Path, data: st.DataObject) -> None:
    text = bytearray(original[0])
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(0, len(text) - 1))
        length = data.draw(st.sampled_from([0, 1, 1, 2, 7, 40, 400]))
        text[start : start + length] = data.draw(
            st.binary(max_size=4) | st.sampled_from([b"-1", b"<", b"0", b'"', b">"])
        )
    read_whole(tmp_path, bytes(text), original[1])


@SETTINGS
@given(cut=st.floats(0, 1), weights=st.floats(0, 1))
def test_truncated_files(original: tuple[bytes, bytes], tmp_path: pathlib.Path, cut: float, weights: float) -> None:
    text, data = original
    assert not read_whole(tmp_path, text[: int(cut * (len(text) - 10))], data)
    assert not read_whole(tmp_path, text, data[: int(weights * (len(data) - 1))])


NASTY = st.sampled_from(
    [
        "",
        "0",
        "1",
        "-1",
        "2",
        "99",
        "3,3",
        "...",
        "?",
        "nan",
        "f16",
        "i4",
        "BIN",
        "FP64",
        "Result",
        "Const",
        "Parameter",
        "opset99",
        "extension",
        "a,b",
        "1..2",
        "\\",
        " 7 ",
        str(2**63),
        "9" * 40,
    ]
)


@SETTINGS
@given(data=st.data())
def test_damaged_elements(original: tuple[bytes, bytes], tmp_path: pathlib.Path, data: st.DataObject) -> None:
    root = ElementTree.fromstring(original[0])
    for _ in range(data.draw(st.integers(1, 3))):
        parents = [element for element in root.iter() if len(element)]
        parent = data.draw(st.sampled_from(parents))
        index = data.draw(st.integers(0, len(parent) - 1))
        element = parent[index]
        match data.draw(st.sampled_from(["drop", "repeat", "move", "attribute", "forget", "text", "rename"])):
            case "drop":
                parent.remove(element)
            case "repeat":
                parent.append(element)
            case "move":
                parent.remove(element)
                parent.insert(data.draw(st.integers(0, len(parent))), element)
            case "attribute" if element.attrib:
                element.set(data.draw(st.sampled_from(sorted(element.attrib))), data.draw(NASTY))
            case "forget" if element.attrib:
                del element.attrib[data.draw(st.sampled_from(sorted(element.attrib)))]
            case "text":
                element.text = data.draw(NASTY)
            case "rename":
                element.tag = data.draw(st.sampled_from(["port", "layer", "dim", "data", "edge", "input", "x"]))
    read_whole(tmp_path, ElementTree.tostring(root), original[1])

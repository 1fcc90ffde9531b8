"""Pictures of padding are those that the script draws, and show what converted models compute."""

from __future__ import annotations

import pathlib
from typing import Any

import numpy as np
import pytest

import ortconv
from tests import oracle
from tests.converters.openvino import one_layer
from tests.docs.padding_pictures import FOLDER, PICTURES, Convolution, Transposed

PAGE = FOLDER.parent / "padding.md"
RNG = np.random.default_rng(4)


def drawn(picture: Convolution | Transposed, data: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Returns what the picture says, by the definition of the operation."""
    direct = isinstance(picture, Convolution)
    return (oracle.direct if direct else oracle.transposed)(
        data,
        weights,
        strides=[picture.stride],
        dilations=[1],
        begin=[picture.begin],
        size=[picture.windows if direct else picture.result],
    )


def operands(picture: Convolution | Transposed) -> tuple[np.ndarray, np.ndarray]:
    return tuple(RNG.integers(1, 100, (1, 1, size)).astype(np.float32) for size in (picture.size, picture.kernel))


def run(source: Any, data: np.ndarray, semantics: str) -> np.ndarray:
    session = ortconv.InferenceSession(ortconv.convert(source, semantics=semantics))
    (result,) = session.run(None, {session.get_inputs()[0].name: data})
    return result


OPENVINO = [
    # picture, what the picture shows, semantics that it is true of
    *(
        (f"convolution_{auto_pad}", {"auto_pad": auto_pad}, ("spec", "runtime"))
        for auto_pad in ("valid", "same_upper", "same_lower")
    ),
    ("convolution_explicit", {"pads_begin": 1, "pads_end": 1}, ("spec", "runtime")),
    *(
        ("transposed_full", {"auto_pad": auto_pad}, ("spec", "runtime"))
        for auto_pad in ("valid", "same_upper", "same_lower")
    ),
    ("transposed_explicit", {"pads_begin": 1, "pads_end": 1}, ("spec", "runtime")),
    ("transposed_output_padding", {"pads_begin": 1, "pads_end": 1, "output_padding": 1}, ("spec", "runtime")),
    ("to_size_larger_in_front", {"auto_pad": "same_upper"}, ("spec", "runtime")),
    ("to_size_smaller_in_front", {"auto_pad": "same_lower"}, ("spec", "runtime")),
    ("to_size_smaller_in_front", {"pads_begin": 2, "pads_end": 2}, ("spec",)),
    ("to_size_smaller_in_front", {"auto_pad": "valid"}, ("spec",)),
    ("to_size_pads_begin", {"pads_begin": 2, "pads_end": 2}, ("runtime",)),
    ("to_size_nothing_in_front", {"auto_pad": "valid"}, ("runtime",)),
    ("to_size_zeros", {"auto_pad": "same_upper"}, ("spec", "runtime")),
    ("to_size_zeros", {"auto_pad": "same_lower"}, ("spec", "runtime")),
]


def test_files_are_what_the_script_draws() -> None:
    assert {path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.svg")} == {
        name: picture.svg() for name, picture in PICTURES.items()
    }, "make docs writes them"


def test_each_picture_is_on_the_page_and_tested() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert [name for name in PICTURES if f"(padding/{name}.svg)" not in text] == []
    assert {name for name, *_ in OPENVINO} == set(PICTURES)


@pytest.mark.parametrize(("name", "attributes", "semantics"), OPENVINO)
@pytest.mark.filterwarnings("ignore::ortconv.SemanticsWarning")
def test_openvino(name: str, attributes: dict[str, Any], semantics: tuple[str, ...], tmp_path: pathlib.Path) -> None:
    openvino = pytest.importorskip("openvino", reason="the library that `runtime` is about")
    picture = PICTURES[name]
    data, weights = operands(picture)
    inputs: list[Any] = [("f32", data.shape), weights]
    if name.startswith("to_size"):
        inputs.append(np.array([picture.result], np.int64))
    kind = "Convolution" if isinstance(picture, Convolution) else "ConvolutionBackpropData"
    window = {"strides": picture.stride, "dilations": 1, "pads_begin": 0, "pads_end": 0, **attributes}
    source = one_layer.write(tmp_path / "net.xml", kind, inputs, window, [("f32", (-1, -1, -1))])
    expected = drawn(picture, data, weights)
    for each in semantics:
        np.testing.assert_array_equal(run(source, data, each), expected, each)
    if "runtime" in semantics:
        library = openvino.Core().compile_model(source, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        np.testing.assert_array_equal(library([data])[0], expected, "OpenVINO")


@pytest.mark.parametrize(
    ("name", "auto_pad", "semantics"),
    [
        ("larger", "SAME_UPPER", "spec"),
        ("smaller", "SAME_LOWER", "spec"),
        ("smaller", "SAME_UPPER", "runtime"),
        ("larger", "SAME_LOWER", "runtime"),
    ],
)
@pytest.mark.filterwarnings("ignore::ortconv.SemanticsWarning")
def test_onednn(name: str, auto_pad: str, semantics: str) -> None:
    picture = PICTURES[f"to_size_{name}_in_front"]
    data, weights = operands(picture)
    graph = ortconv.onednn.Graph("net")
    x = graph.tensor("x", "f32", data.shape)
    w = graph.tensor("w", "f32", weights.shape, constant=True)
    window = {"strides": [picture.stride], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    shape = [1, 1, picture.result]
    formats = {"data_format": "NCX", "weights_format": "OIX"}
    graph.op("ConvolutionBackwardData", [x, w], **window, auto_pad=auto_pad, dst_shape=shape, **formats)
    session = ortconv.InferenceSession(ortconv.convert(graph, semantics=semantics, tensors={"w": weights}))
    np.testing.assert_array_equal(session.run(None, {"x": data})[0], drawn(picture, data, weights))

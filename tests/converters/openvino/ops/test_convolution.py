"""Refusals and warnings of the convolution family; its results are proved in tests/conformance."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import ortconv
from ortconv.errors import (
    ConversionError,
    ConversionErrors,
    ShapeError,
    UnsupportedAttributeError,
    UnsupportedTypeError,
)
from tests.running import run
from tests.shared import SHARED

WINDOW = {"strides": "2", "pads_begin": "0", "pads_end": "0", "dilations": "1"}
PRECISION = {"FP32": "f32", "FP64": "f64", "I64": "i64", "I32": "i32", "BOOL": "boolean", "I8": "i8"}


class Sources:
    """Writes an IR of one op, its weights ones, into a folder."""

    def __init__(self, write_ir: Any) -> None:
        self.write = write_ir

    def __call__(
        self,
        op: str = "ConvolutionBackpropData",
        data: Sequence[int] = (1, 2, 3),
        filter: Sequence[int] = (2, 1, 4),
        output: Sequence[int] = (1, 1, -1),
        *,
        sizes: Sequence[int] | None = None,
        runtime: bool = False,
        dtype: str = "FP32",
        filter_dtype: str = "",
        sizes_dtype: str = "I64",
        **attributes: str,
    ) -> pathlib.Path:
        layer, edge = self.write.layer, self.write.edge
        window = {**WINDOW, **attributes}
        text = " ".join(f'{name}="{value}"' for name, value in window.items() if value != "absent")
        element = {
            "FP32": np.float32,
            "FP64": np.float64,
            "I64": np.int64,
            "I32": np.int32,
            "BOOL": bool,
            "I8": np.int8,
        }
        weights = np.ones(filter, element[filter_dtype or dtype]).tobytes()
        blob = weights
        shape = ",".join(map(str, data))
        x = (0, f'precision="{dtype}"', shape)
        w = (0, f'precision="{filter_dtype or dtype}"', ",".join(map(str, filter)))
        layers = [
            layer(0, "Parameter", name="data", data=f'element_type="{PRECISION[dtype]}" shape="{shape}"', outputs=[x]),
            layer(
                1,
                "Const",
                data=f'element_type="{PRECISION[filter_dtype or dtype]}" shape="{w[2]}" '
                f'offset="0" size="{len(weights)}"',
                outputs=[w],
            ),
        ]
        inputs, edges = [(0, *x[1:]), (1, *w[1:])], [edge(0, 0, 3, 0), edge(1, 0, 3, 1)]
        if sizes is not None:
            port = (0, f'precision="{sizes_dtype}"', str(len(sizes)))
            if runtime:
                layers.append(
                    layer(
                        2,
                        "Parameter",
                        name="sizes",
                        data=f'element_type="{PRECISION[sizes_dtype]}" shape="{len(sizes)}"',
                        outputs=[port],
                    )
                )
            else:
                values = np.array(sizes, element[sizes_dtype]).tobytes()
                layers.append(
                    layer(
                        2,
                        "Const",
                        data=f'element_type="{PRECISION[sizes_dtype]}" shape="{len(sizes)}" '
                        f'offset="{len(blob)}" size="{len(values)}"',
                        outputs=[port],
                    )
                )
                blob += values
            inputs.append((2, *port[1:]))
            edges.append(edge(2, 0, 3, 2))
        result = (len(inputs), f'precision="{dtype}"', ",".join(map(str, output)))
        layers.append(layer(3, op, name="up", data=text, inputs=inputs, outputs=[result]))
        layers.append(layer(4, "Result", inputs=[(0, *result[1:])]))
        edges.append(edge(3, len(inputs), 4, 0))
        return self.write(layers, edges, blob)


@pytest.fixture
def source(write_ir: Any) -> Sources:
    return Sources(write_ir)


def refusal(path: pathlib.Path, semantics: ortconv.Semantics = "spec") -> ConversionError:
    with pytest.raises(ConversionErrors) as caught:
        ortconv.conversion(path, semantics=semantics)
    (error,) = caught.value.exceptions
    assert error.node is not None
    assert (error.node.file, error.node.name, error.node.id, error.node.version) == (str(path), "up", "3", "opset1")
    assert str(error).startswith(f"{path}: {error.node.op_type} 'up' (id 3, opset1): ")
    return error


@pytest.mark.parametrize(
    ("attribute", "value", "found", "allowed"),
    [
        ("strides", "0", [0], "1 integers from 1 to 2147483647, one per spatial axis"),
        ("strides", "2,2", [2, 2], "1 integers from 1 to 2147483647, one per spatial axis"),
        ("strides", "2,x", "2,x", "a list of integers"),
        ("strides", "2147483648", [2**31], "1 integers from 1 to 2147483647, one per spatial axis"),
        ("strides", "99999999999999999999", "99999999999999999999", "a list of integers"),
        ("dilations", "-1", [-1], "1 integers from 1 to 2147483647, one per spatial axis"),
        ("pads_begin", "-1", [-1], "1 integers from 0 to 2147483647, one per spatial axis"),
        ("pads_end", "-1", [-1], "1 integers from 0 to 2147483647, one per spatial axis"),
        ("pads_begin", "1,1", [1, 1], "1 integers from 0 to 2147483647, one per spatial axis"),
        ("output_padding", "-1", [-1], "1 integers from 0 to 2147483647, one per spatial axis"),
        ("output_padding", "1,1", [1, 1], "1 integers from 0 to 2147483647, one per spatial axis"),
        ("auto_pad", "none", "none", "explicit, same_upper, same_lower, valid"),
        ("auto_pad", "notset", "notset", "explicit, same_upper, same_lower, valid"),
    ],
)
def test_attribute_out_of_range_is_refused(
    source: Sources, attribute: str, value: str, found: object, allowed: str
) -> None:
    error = refusal(source(**{attribute: value}))
    assert isinstance(error, UnsupportedAttributeError)
    assert (error.attribute, error.value, error.allowed) == (attribute, found, allowed)


@pytest.mark.parametrize(
    ("given", "input", "shape", "words"),
    [
        ({"data": (1, 3, 3)}, "data", (1, 3, 3), "has 3 channels"),
        ({"filter": (2, 1, 4, 4)}, "", (2, 1, 4, 4), "rank 3 is required"),
        ({"data": (1, 2)}, "data", (1, 2), "rank 3 or more is required"),
        ({"filter": (2, 1, 0)}, "", (2, 1, 0), "sizes of at least 1 are required"),
        ({"pads_begin": "9"}, "up", (-1,), "the full size 8 less the padding 9 + 0 is -1"),
        ({"data": (1, 2, 0)}, "up", (2,), "not empty"),
        ({"sizes": (6, 6)}, "output_shape", (2,), "[1] is required"),
        ({"sizes": (6, 6), "runtime": True}, "output_shape", (2,), "[1] is required"),
        ({"sizes": (-1,)}, "output_shape", (1,), "holds [-1]; sizes from 0 to 2147483647 are required"),
        ({"sizes": (2**31,)}, "output_shape", (1,), "sizes from 0 to 2147483647 are required"),
        ({"data": (1, 2, 2**31)}, "data", (1, 2, 2**31), "sizes of at most 2147483647 are required"),
        ({"op": "Convolution", "filter": (1, 2, 9)}, "up", None, "the kernel covers 9 positions, the input has 3"),
        ({"op": "Convolution", "filter": (1, 3, 2)}, "data", (1, 2, 3), "allow 3"),
        ({"op": "GroupConvolution", "filter": (1, 2, 3)}, "filter", (1, 2, 3), "rank 4 is required"),
        ({"op": "GroupConvolutionBackpropData", "filter": (3, 1, 2, 3)}, "data", (1, 2, 3), "has 2 channels"),
        ({"op": "GroupConvolution", "filter": (0, 1, 1, 3)}, "filter", (0, 1, 1, 3), "has 0 groups"),
    ],
)
def test_shape_that_contradicts_is_refused(
    source: Sources, given: Mapping[str, Any], input: str, shape: tuple[int, ...] | None, words: str
) -> None:
    error = refusal(source(**given))
    assert isinstance(error, ShapeError)
    assert error.shape == shape
    assert words in str(error)
    if input:
        assert error.input == input


@pytest.mark.parametrize(
    ("given", "input", "dtype"),
    [
        ({"dtype": "BOOL"}, "data", "boolean"),
        ({"filter_dtype": "FP64"}, "filter", "f64"),
        ({"sizes": (6,), "sizes_dtype": "FP32"}, "output_shape", "f32"),
    ],
)
def test_type_outside_the_page_is_refused(source: Sources, given: Mapping[str, Any], input: str, dtype: str) -> None:
    error = refusal(source(**given))
    assert isinstance(error, UnsupportedTypeError)
    assert (error.input, error.dtype) == (input, dtype)


def test_output_of_another_type_than_the_data_is_refused(source: Sources) -> None:
    path = source()
    path.write_text(path.read_text().replace('<port id="2" precision="FP32">', '<port id="2" precision="FP64">'))
    error = refusal(path)
    assert isinstance(error, UnsupportedTypeError)
    assert (error.input, error.dtype, error.allowed) == ("up", "f64", ("f32",))


def test_runtime_takes_the_negative_paddings_that_openvino_takes(source: Sources) -> None:
    data = np.ones((1, 2, 3), np.float32)
    grown = ortconv.conversion(source(pads_end="-2"), semantics="runtime").to_proto()
    assert run(grown, {"data": data}, "none")[0].ravel().tolist() == [2, 2, 4, 4, 4, 4, 2, 2, 0, 0]
    shrunk = ortconv.conversion(source(output_padding="-3"), semantics="runtime").to_proto()
    assert run(shrunk, {"data": data}, "none")[0].ravel().tolist() == [2, 2, 4, 4, 4]


def test_missing_attributes_have_openvinos_defaults(source: Sources) -> None:
    path = source(strides="absent", pads_begin="absent", pads_end="absent", dilations="absent", filter=(2, 1, 2))
    (result,) = run(ortconv.convert(path), {"data": np.ones((1, 2, 3), np.float32)}, "none")
    assert result.ravel().tolist() == [2, 4, 4, 2]


def warned(path: pathlib.Path) -> tuple[str, ...]:
    """Returns the warnings under spec semantics, which under runtime semantics are notes of the report."""
    page, library = (ortconv.conversion(path, semantics=mode) for mode in ("spec", "runtime"))
    assert not library.warnings
    notes = {f"{step.ref}: {text}" for step in library.steps for text in step.notes}
    assert {text.replace("--semantics spec", "--semantics runtime") for text in page.warnings} <= notes
    return page.warnings


# Data 3, kernel 4, stride 2: the full size is 8, so that output size 5 leaves a total padding of 3.
@pytest.mark.parametrize(
    ("op", "attributes", "paddings"),
    [
        ("ConvolutionBackpropData", {"auto_pad": "explicit"}, ("[1]", "[0]")),
        ("ConvolutionBackpropData", {"auto_pad": "explicit", "pads_begin": "2"}, ("[1]", "[2]")),
        ("ConvolutionBackpropData", {"auto_pad": "explicit", "pads_begin": "1"}, None),
        ("ConvolutionBackpropData", {"auto_pad": "valid"}, ("[1]", "[0]")),
        ("ConvolutionBackpropData", {"auto_pad": "valid", "output_padding": "1"}, ("[2]", "[0]")),
        ("ConvolutionBackpropData", {"auto_pad": "same_upper"}, None),
        ("ConvolutionBackpropData", {"auto_pad": "same_lower"}, None),
        ("GroupConvolutionBackpropData", {"auto_pad": "explicit", "pads_begin": "1"}, None),
        ("GroupConvolutionBackpropData", {"auto_pad": "explicit", "pads_begin": "2"}, ("[1]", "[2]")),
    ],
)
def test_padding_in_which_page_and_plugin_differ_is_stated_once(
    source: Sources, op: str, attributes: dict[str, str], paddings: tuple[str, str] | None
) -> None:
    weights = (2, 1, 1, 4) if op.startswith("Group") else (2, 1, 4)
    output = (1, 2, 5) if op.startswith("Group") else (1, 1, 5)
    found = warned(source(op, filter=weights, sizes=(5,), output=output, **attributes))
    if paddings is None:
        assert found == ()
        return
    (text,) = found
    assert f"{paddings[0]} by the specification and {paddings[1]} in OpenVINO's CPU plugin" in text
    assert text.count("'up'") == 1


@pytest.mark.parametrize("auto_pad", ["explicit", "valid", "same_upper", "same_lower"])
@pytest.mark.parametrize("pads_begin", ["0", "1", "2"])
@pytest.mark.parametrize("op", ["ConvolutionBackpropData", "GroupConvolutionBackpropData"])
def test_padding_that_a_file_states_counts_as_in_openvino(
    source: Sources, op: str, pads_begin: str, auto_pad: str
) -> None:
    openvino = pytest.importorskip("openvino", reason="OpenVINO reads the file, too")
    grouped = op.startswith("Group")
    path = source(
        op,
        filter=(2, 1, 1, 4) if grouped else (2, 1, 4),
        output=(1, 2 if grouped else 1, 5),
        sizes=(5,),
        pads_begin=pads_begin,
        pads_end="1",
        auto_pad=auto_pad,
    )
    data = np.arange(1, 7, dtype=np.float32).reshape(1, 2, 3)
    compiled = openvino.Core().compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    (result,) = run(ortconv.conversion(path, semantics="runtime").to_proto(), {"data": data}, "none")
    np.testing.assert_array_equal(result, compiled({0: data})[0])


def test_padding_that_depends_on_run_time_sizes_is_stated_as_a_rule(source: Sources) -> None:
    (text,) = warned(source(sizes=(5,), runtime=True, auto_pad="valid"))
    assert "half of the total, rounded down, by the specification and [0] in OpenVINO's CPU plugin" in text
    assert warned(source(sizes=(5,), runtime=True, auto_pad="same_upper")) == ()


@pytest.mark.parametrize("dtype", ["FP64", "I8", "I32", "I64"])
def test_type_that_the_plugin_computes_in_float_is_stated_once(source: Sources, dtype: str) -> None:
    (text,) = warned(source(dtype=dtype))
    assert "by the specification" in text
    assert "float" in text


RECORDED = SHARED / "vectors" / "error_cases.json"


@pytest.mark.skipif(not RECORDED.is_file(), reason=f"no recorded error cases at {RECORDED}")
def test_recorded_error_cases_are_refused_or_converted_as_recorded(source: Sources) -> None:
    made = {
        "output_shape contains -1": {"sizes": (-1,)},
        "output_padding length mismatch": {"output_padding": "1,1"},
        "runtime output_shape with fully static data": {"sizes": (6,), "runtime": True, "auto_pad": "same_upper"},
        "auto_pad 'none'/'notset' in IR": {"auto_pad": "none"},
        "dilated kernel larger than padded data, dynamic shape": {"op": "Convolution", "filter": (1, 2, 9)},
    }
    recorded = [case for case in json.loads(RECORDED.read_text()) if case["op"].startswith("openvino")]
    assert {case["case"] for case in recorded} == set(made)
    for case in recorded:
        path = source(**made[case["case"]])
        if case["converter"].startswith("convert"):
            feeds = {"data": np.ones((1, 2, 3), np.float32), "sizes": np.array([6], np.int64)}
            (result,) = run(ortconv.convert(path), feeds, "none")
            assert result.ravel().tolist() == [2, 4, 4, 4, 4, 2]
        else:
            refusal(path)

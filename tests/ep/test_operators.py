"""The operators of org.ortconv through the execution provider, which claims or leaves each node by itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import pytest
from onnx import TensorProto

from ortconv.opset import functions
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops import BY_NAME
from ortconv.runtime.library import FOURIER_ENTRY
from tests.ep.sessions import claims, options, session
from tests.operators import (
    codebooks,
    gather_products,
    integer_convs,
    products,
    qlinear_convolution,
    quantized_transposed,
    spectral,
)
from tests.running import run

pytestmark = pytest.mark.usefixtures("library")

Made = tuple[onnx.ModelProto, dict[str, np.ndarray]]


def _rand(*shape: int) -> np.ndarray:
    return np.random.default_rng(list(shape)).standard_normal(shape).astype(np.float32)


def _convolution(cases: dict[str, Any], name: str, dtype: Any = np.float32) -> Made:
    case = cases[name]
    model = ir.from_proto(case.model(np.dtype(dtype)))
    functions.attach(model)
    return ir.to_proto(model), case.feeds(case.inputs(np.dtype(dtype)))


def _spectral(op: str, inputs: list[np.ndarray | None], **attributes: Any) -> Made:
    return spectral.model(op, inputs, attributes, bodies=True), spectral.feeds_of(op, inputs)


def _made(op: str, cases: dict[str, Any]) -> Made:
    """Returns a model of one node, with its function body, and inputs for it."""
    conv = {
        "Convolution": "conv_plain",
        "TransposedConvolution": "transposed_plain",
        "TransposedConvolutionToShape": "to_shape_fixed_begin",
        "TransposedConvolutionAdd": "add_plain",
    }
    index = np.array([[0, 2], [1, 0], [2, 2]], np.int64)
    stft: dict[str, Any] = {"hop": [8], "pads": [3, 4]}
    window, gains = _rand(32), _rand(34)
    if op in conv:
        return _convolution(cases, conv[op])
    quantized = next((each for each in quantized_transposed.OPS if each.name == op), None)
    if quantized is not None:
        shapes = quantized_transposed.Case((1, 4, 6, 5), (4, 3, 3, 2), strides=(2, 2))
        data = quantized_transposed.tensors(quantized, shapes, (np.uint8, np.int8, np.uint8))
        constants = ("W", "w_scale", "w_zero_point", "B")
        stated = quantized_transposed.model(quantized, shapes, data, constants)
        return stated, {name: each for name, each in data.items() if name not in constants}
    match op:
        case "ConvIntegerToFloat":
            case = integer_convs.Case((1, 3, 6, 7), (4, 3, 3, 3))
            given = integer_convs.tensors(case, (np.uint8, np.int8))
            return integer_convs.model(case, given), given
        case "QLinearConvolution":
            layer = qlinear_convolution.Case((1, 3, 6, 7), (4, 3, 3, 3))
            numbers = qlinear_convolution.tensors(layer, (np.uint8, np.int8, np.uint8))
            return qlinear_convolution.model(layer, numbers), numbers
        case "MatMulCompressed":
            return products.model(TensorProto.UINT4), {"X": _rand(5, 8)}
        case "GatherMatMulCompressed":
            return gather_products.model(), {"X": _rand(3, 1, 8), "I": index}
        case "MatMulCodebook":
            return codebooks.model(), {"X": _rand(5, 8)}
        case "GatherMatMulCodebook":
            return codebooks.model(data=(3, 6, 8)), {"X": _rand(3, 2, 8), "I": index}
        case "ForwardSTFT":
            return _spectral(op, [_rand(2, 1, 100), window, gains], n_fft=32, parts=0, **stft)
        case "InverseSTFT":
            more = {"output_padding": [1], "n_fft": 32, "parts": 0}
            return _spectral(op, [_rand(2, 34, 9), window, gains], **stft, **more)
        case "OverlapAdd":
            return _spectral(op, [_rand(2, 32, 9), window], output_padding=[0], **stft)
    return _spectral("FourierTransform", [_rand(2, 48, 3, 1)], axis=1, inverse=0, onesided=1)


@pytest.mark.parametrize("op", sorted(BY_NAME))
def test_every_operator_is_claimed(op: str, cases: dict[str, Any]) -> None:
    model, feeds = _made(op, cases)
    assert [(each.op_type, each.reason) for each in claims(model)] == [(f"{DOMAIN}.{op}", "")]
    (right,) = run(model, feeds, "native")
    (y,) = session(model).run(None, feeds)
    np.testing.assert_array_equal(y, right)


@pytest.mark.parametrize("dtype", [np.float16, np.float64, np.int8, np.uint32], ids=lambda each: np.dtype(each).name)
def test_every_element_type_is_claimed(dtype: Any, cases: dict[str, Any]) -> None:
    model, feeds = _convolution(cases, "transposed_plain", dtype)
    assert [each.reason for each in claims(model)] == [""]
    np.testing.assert_array_equal(session(model).run(None, feeds)[0], run(model, feeds, "native")[0])


def test_what_is_left_is_computed_by_its_body(cases: dict[str, Any]) -> None:
    model, feeds = _made("OverlapAdd", cases)
    made = options()
    made.add_session_config_entry(FOURIER_ENTRY, "0")
    made.add_session_config_entry("session.record_ep_graph_assignment_info", "1")
    left = session(model, made)
    assert {each.ep_name for each in left.get_provider_graph_assignment_info()} == {"CPUExecutionProvider"}
    np.testing.assert_allclose(left.run(None, feeds)[0], session(model).run(None, feeds)[0], atol=1e-3)


def test_an_error_of_a_node_names_it() -> None:
    model, feeds = _spectral("FourierTransform", [_rand(2, 48, 3, 1)], axis=7, inverse=0, onesided=1)
    with pytest.raises(Exception, match=r"FourierTransform 'n': attribute axis = 7 is not allowed") as caught:
        session(model).run(None, feeds)
    assert str(caught.value).count("FourierTransform 'n'") == 1

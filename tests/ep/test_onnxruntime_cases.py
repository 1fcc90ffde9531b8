"""The cases of ONNX Runtime's own test of ConvTranspose, by their shapes and attributes, against float64.

Where it states an output_shape with batch and channels, which ONNX's shape inference refuses, spatial sizes are stated.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest

from tests.ep.sessions import with_provider
from tests.ep.test_conv_transpose import defined, node_model
from tests.optimizer.models import rand

pytestmark = pytest.mark.usefixtures("library")

Case = tuple[tuple[int, ...], tuple[int, ...], bool, dict[str, Any]]

IMAGE, SIGNAL, VOLUME = (1, 1), (1,), (1, 1, 1)

CASES: dict[str, Case] = {
    "1D": ((1, 1, 3), (1, 2, 3), False, {"pads": [0, 0], "strides": SIGNAL, "dilations": SIGNAL}),
    "2D": ((1, 1, 3, 3), (1, 1, 3, 3), False, {"pads": [1] * 4, "strides": [2, 2], "output_padding": [1, 1]}),
    "2D_Bias_1": ((1, 1, 5, 5), (1, 1, 3, 3), True, {"pads": [1] * 4, "strides": IMAGE, "output_padding": [0, 0]}),
    "2D_Bias_2": ((1, 1, 7, 7), (1, 1, 2, 2), True, {"pads": [0] * 4, "strides": IMAGE, "output_padding": [0, 0]}),
    "2D_OutputShape_1": ((1, 3, 4, 4), (3, 3, 3, 3), False, {"strides": IMAGE, "output_shape": [4, 4]}),
    "2D_OutputShape_1_group_2_for_tranpose_path": (
        (1, 6, 4, 4),
        (6, 3, 3, 3),
        False,
        {"strides": IMAGE, "output_shape": [4, 4], "group": 2},
    ),
    "2D_OutputShape_2": ((1, 1, 1, 10), (1, 1, 1, 5), True, {"strides": IMAGE, "output_shape": [1, 14]}),
    "2D_OutputShapeWithBatchSize": (
        (2, 1, 1, 10),
        (1, 1, 1, 5),
        True,
        {"strides": IMAGE, "output_shape": [1, 14]},
    ),
    "onnx": ((1, 1, 3, 3), (1, 2, 3, 3), False, {"pads": [0] * 4, "strides": IMAGE}),
    "onnx2": ((1, 2, 3, 3), (2, 3, 2, 2), False, {"pads": [0] * 4, "strides": IMAGE}),
    "onnx_group": ((1, 16, 1, 1), (16, 2, 1, 1), False, {"pads": [0] * 4, "strides": IMAGE, "group": 4}),
    "2D_Dilation_1": ((1, 1, 2, 2), (1, 1, 2, 2), False, {"strides": IMAGE, "dilations": [2, 2]}),
    "2D_Dilation_2": ((1, 1, 2, 2), (1, 1, 2, 2), False, {"strides": IMAGE, "dilations": [3, 3]}),
    "2D_Dilation_3": ((1, 1, 3, 3), (1, 1, 2, 2), False, {"strides": IMAGE, "dilations": [2, 2]}),
    "2D_Dilation_4": ((1, 1, 3, 3), (1, 1, 2, 2), False, {"strides": IMAGE, "dilations": [3, 3]}),
    "2D_Dilation_Group_1": ((1, 2, 3, 3), (2, 1, 2, 2), False, {"strides": IMAGE, "dilations": [2, 2], "group": 2}),
    "DefaultStridesAndDilations": ((1, 2, 3, 3), (2, 3, 2, 2), False, {"pads": [0] * 4}),
    "2D_NonDefaultStridesAndDilations": (
        (1, 1, 1, 2),
        (1, 1, 1, 4),
        False,
        {"pads": [0] * 4, "strides": [1, 2], "dilations": [1, 3]},
    ),
    "DimWithZero": (
        (0, 1, 3, 3),
        (1, 1, 3, 3),
        False,
        {"pads": [1] * 4, "strides": [2, 2], "output_padding": [1, 1]},
    ),
    "3D": ((1, 1, 3, 4, 5), (1, 2, 3, 3, 3), True, {"pads": [0] * 6, "strides": VOLUME, "dilations": VOLUME}),
    "1D_AsymmetricPads": ((1, 1, 4), (1, 2, 2), False, {"pads": [1, 0], "strides": SIGNAL}),
    "1D_AutoPad_SameUpper": ((1, 1, 4), (1, 2, 2), False, {"strides": SIGNAL, "auto_pad": "SAME_UPPER"}),
    "1D_AutoPad_SameLower": ((1, 1, 4), (1, 2, 2), False, {"strides": SIGNAL, "auto_pad": "SAME_LOWER"}),
    "AutoPad_with_non_default_strides": (
        (1, 1, 3, 3),
        (1, 2, 3, 3),
        False,
        {"strides": [2, 2], "auto_pad": "SAME_LOWER"},
    ),
}


@pytest.mark.parametrize("constant", [True, False], ids=["constant", "of_the_run"])
@pytest.mark.parametrize("name", CASES)
def test_case(name: str, constant: bool) -> None:
    x_shape, w_shape, has_bias, attributes = CASES[name]
    axes = len(x_shape) - 2
    x, w, b = rand(*x_shape), rand(*w_shape), rand(w_shape[1] * attributes.get("group", 1)) if has_bias else None
    model = node_model(np.float32, list(x_shape), w, b, kernel_shape=w_shape[2:], **attributes)
    feeds = {"x": x}
    if not constant:
        (tensor,) = (each for each in model.graph.initializer if each.name == "w")
        model.graph.initializer.remove(tensor)
        model.graph.input.append(onnx.helper.make_tensor_value_info("w", tensor.data_type, tensor.dims))
        feeds["w"] = w
    (got,) = with_provider(model, feeds, "c")
    window = {"strides": [1] * axes, **attributes}
    expected = defined(x, w, b, **window)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, atol=1e-5)

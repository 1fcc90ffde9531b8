"""Conv of dequantized 8-bit integers through the execution provider, which computes it in integers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import onnx.compose
import pytest
from onnx import TensorProto, helper

from tests.ep.sessions import claims, session, with_provider
from tests.operators.integer_convs import Case, sums
from tests.optimizer.models import int8_layers, parsed
from tests.processor import HAS_AVX2, HAS_AVX512_VNNI, HAS_DOT_PRODUCTS

pytestmark = pytest.mark.usefixtures("library")

F32 = np.float32
RANDOM = np.random.default_rng(5)

CASES: dict[str, tuple[Case, dict[str, Any]]] = {
    "image": (Case((2, 6, 9, 7), (4, 6, 3, 2), strides=(2, 1), pads=(1, 0, 1, 2)), {}),
    "signal": (Case((1, 16, 40), (8, 16, 5), strides=(3,), pads=(4, 2)), {}),
    "groups": (Case((1, 6, 8, 9), (6, 2, 3, 3), dilations=(1, 2), group=3), {}),
    "depthwise": (Case((1, 8, 9, 9), (8, 1, 3, 3), pads=(1, 1, 1, 1), group=8), {}),
    "points": (Case((1, 40, 6, 5), (24, 40, 1, 1)), {}),
    "no padding, stated so": (Case((1, 3, 6, 5), (5, 3, 2, 2)), {"auto_pad": "VALID"}),
}
TYPES = [(np.uint8, np.int8, np.uint8), (np.int8, np.int8, np.int8), (np.uint8, np.uint8, np.int8)]


def bytes_of(shape: tuple[int, ...], kind: Any) -> np.ndarray:
    limits = np.iinfo(kind)
    return RANDOM.integers(limits.min, limits.max, shape, kind, endpoint=True)


def layer(case: Case, types: tuple[Any, Any, Any], opset: int = 21, **more: Any) -> tuple[onnx.ModelProto, Any]:
    """Returns a model of one layer, and what it is made of."""
    stored: dict[str, Any] = {
        "w": bytes_of(case.w, types[1]),
        "b": RANDOM.integers(-5000, 5000, case.w[0]).astype(np.int32),
        "x_scale": F32(0.037),
        "x_zero": np.array(5, types[0]),
        "w_scale": RANDOM.uniform(0.001, 0.02, case.w[0]).astype(F32),
        "w_zero": np.full(case.w[0], 120 if types[1] is np.uint8 else 0, types[1]),
        "b_scale": RANDOM.uniform(1e-4, 1e-3, case.w[0]).astype(F32),
        "y_scale": F32(0.71),
        "y_zero": np.array(9, types[2]),
        "low": F32(-20),
        "high": F32(150),
    }
    attributes = {key: value for key, value in case.attributes.items() if key != "pads" or any(value)} | more
    window = ", ".join(f"{key} = {json.dumps(value)}" for key, value in attributes.items())
    kinds = [np.dtype(kind).name for kind in types]
    model = parsed(
        f"""g ({kinds[0]}[{",".join(map(str, case.x))}] x) => ({kinds[2]}[{",".join("abcde"[: len(case.x)])}] q) {{
            f = DequantizeLinear (x, x_scale, x_zero)
            v = DequantizeLinear <axis = 0> (w, w_scale, w_zero)
            c = DequantizeLinear <axis = 0> (b, b_scale)
            y = Conv <{window}> (f, v, c)
            r = Clip (y, low, high)
            q = QuantizeLinear (r, y_scale, y_zero)
        }}""",
        opset=opset,
        **{key: np.asarray(value) for key, value in stored.items()},
    )
    model.graph.node[3].name = "conv"
    return model, stored


@pytest.mark.parametrize("opset", [13, 19, 21, 23])
@pytest.mark.parametrize("types", TYPES, ids=lambda types: "_".join(np.dtype(kind).name for kind in types))
@pytest.mark.parametrize("name", CASES)
def test_exact_sums_are_rounded_once(name: str, types: tuple[Any, Any, Any], opset: int) -> None:
    """Bit for bit, also with scales that are no powers of two."""
    case, more = CASES[name]
    model, stored = layer(case, types, opset, **more)
    x = bytes_of(case.x, types[0])
    exact = sums(case, x.astype(np.int64) - 5, stored["w"].astype(np.int64) - stored["w_zero"][0])
    column = (-1, *[1] * (len(case.x) - 2))
    scale = (stored["x_scale"] * stored["w_scale"]).reshape(column)
    bias = (stored["b"].astype(F32) * stored["b_scale"]).reshape(column)
    value = np.clip(exact.astype(F32) * scale + bias, F32(-20), F32(150))
    limits = np.iinfo(types[2])
    expected = np.clip(np.rint(value / F32(0.71)) + 9, limits.min, limits.max).astype(types[2])
    (got,) = with_provider(model, {"x": x}, f"conv {' '.join(['DequantizeLinear'] * 3)} Clip QuantizeLinear")
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


def test_sizes_of_the_run() -> None:
    model, _ = layer(CASES["image"][0], TYPES[0])
    for axis in range(4):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = f"n{axis}"
    made = session(model)
    for sizes in [(2, 9, 7), (1, 3, 3), (0, 4, 4), (3, 20, 11)]:
        x = bytes_of((sizes[0], 6, *sizes[1:]), np.uint8)
        assert made.run(None, {"x": x})[0].shape[0] == sizes[0]
    with pytest.raises(Exception, match="Conv 'conv': "):
        made.run(None, {"x": bytes_of((1, 5, 9, 7), np.uint8)})


@pytest.mark.parametrize("name", ["image", "depthwise"])
def test_a_result_that_stays_float(name: str) -> None:
    case = CASES[name][0]
    model, stored = layer(case, TYPES[0])
    del model.graph.node[4:]
    model.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    x = bytes_of(case.x, TYPES[0][0])
    (got,) = with_provider(model, {"x": x}, f"conv {' '.join(['DequantizeLinear'] * 3)}")
    exact = sums(case, x.astype(np.int64) - 5, stored["w"].astype(np.int64))
    scale = (stored["x_scale"] * stored["w_scale"]).reshape(-1, 1, 1)
    bias = (stored["b"].astype(F32) * stored["b_scale"]).reshape(-1, 1, 1)
    np.testing.assert_array_equal(got, exact.astype(F32) * scale + bias)
    assert claims(model, claim_all="0") == []


IS_CLAIMED = pytest.mark.skipif(
    not HAS_AVX2 or (HAS_DOT_PRODUCTS and not HAS_AVX512_VNNI),
    reason="ours is claimed with AVX2, and with VNNI if that is AVX-512's",
)
LARGE = Case((1, 56, 60, 60), (60, 56, 3, 3), pads=(1, 1, 1, 1))


@IS_CLAIMED
def test_a_large_layer_is_claimed_with_any_batch() -> None:
    model, _ = layer(LARGE, TYPES[0])
    assert [each.node for each in claims(model, claim_all="0")] == ["conv"]
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    assert [each.node for each in claims(model, claim_all="0")] == ["conv"]


@IS_CLAIMED
@pytest.mark.parametrize("is_dequantized", [False, True])
def test_a_layer_before_a_max_pool_is_left(is_dequantized: bool) -> None:
    """Behind it, ONNX Runtime's MaxPool of bytes would take ten times as long as behind QLinearConv."""
    model, _ = layer(LARGE, TYPES[0])
    pooled = "q"
    if is_dequantized:
        pooled = "d"
        model.graph.node.append(helper.make_node("DequantizeLinear", ["q", "y_scale", "y_zero"], [pooled]))
    model.graph.node.append(helper.make_node("MaxPool", [pooled], ["p"], kernel_shape=[2, 2], strides=[2, 2]))
    kind = TensorProto.FLOAT if is_dequantized else TensorProto.UINT8
    model.graph.output.append(helper.make_tensor_value_info("p", kind, None))
    assert claims(model, claim_all="0") == []
    assert [each.node for each in claims(model)] == ["conv"]


def test_a_layer_of_open_sizes_is_left() -> None:
    """Ours is not faster for most sizes."""
    model, _ = layer(LARGE, TYPES[0])
    for axis in (2, 3):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = f"n{axis}"
    assert claims(model, claim_all="0") == []


@pytest.mark.parametrize("rule", ["SAME_UPPER", "SAME_LOWER"])
def test_padding_that_depends_on_sizes_stays(rule: str) -> None:
    model, _ = layer(Case((1, 3, 6, 5), (5, 3, 2, 2)), TYPES[0], auto_pad=rule)
    assert claims(model) == []


def test_layers_that_onnx_runtime_computes_as_fast_are_left() -> None:
    """One tap for each of many channels, and few positions."""
    model, _ = layer(Case((1, 960, 7, 7), (160, 960, 1, 1)), TYPES[0])
    assert claims(model, claim_all="0") == []


def chain(*cases: Case) -> onnx.ModelProto:
    """Returns a model of layers that follow each other."""
    joined = onnx.ModelProto()
    for index, case in enumerate(cases):
        model = onnx.compose.add_prefix(layer(case, (np.uint8, np.int8, np.uint8))[0], f"{index}_")
        if index == 0:
            joined.CopyFrom(model)
            continue
        joined = onnx.compose.merge_models(joined, model, io_map=[(f"{index - 1}_q", f"{index}_x")])
        del joined.opset_import[1:]
    return joined


@pytest.mark.skipif(not HAS_AVX512_VNNI, reason="the times of these layers are those with AVX512-VNNI")
def test_layers_of_int8_around_a_transposed_one_are_claimed() -> None:
    """ONNX Runtime has no QLinearConv of int8 on x86-64, and makes no uint8 of it next to a node of ours."""
    model = int8_layers(channels=64, size=40)
    assert [each.op_type for each in claims(model, claim_all="0")] == ["Conv", "ConvTranspose", "Conv"]


@pytest.mark.skipif(not HAS_AVX512_VNNI, reason="the times of these layers are those with AVX512-VNNI")
def test_layers_around_decide() -> None:
    """ONNX Runtime transposes images between its kernels, which have channels last, and ours."""
    depthwise = Case((1, 240, 14, 14), (240, 1, 5, 5), pads=(2, 2, 2, 2), group=240)
    left = Case((1, 240, 14, 14), (240, 240, 3, 3), pads=(1, 1, 1, 1))
    assert [each.node for each in claims(chain(depthwise), claim_all="0")] == ["0_conv"]
    assert claims(chain(left), claim_all="0") == []
    assert claims(chain(left, depthwise, left), claim_all="0") == []

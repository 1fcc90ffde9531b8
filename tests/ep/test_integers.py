"""ConvTranspose of dequantized 8-bit integers through the execution provider, which computes it in integers."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import ortconv
from ortconv.optimizer import optimization
from ortconv.runtime.choices import CHOICES_ENTRY, IMPLEMENTATION_ENTRY, read
from tests.ep.sessions import claims, options, session, with_provider
from tests.ep.test_conv_transpose import defined
from tests.optimizer.models import parsed
from tests.optimizer.test_integers import NETS, Net, built
from tests.processor import HAS_DOT_PRODUCTS

pytestmark = pytest.mark.usefixtures("library")

F32 = np.float32
RANDOM = np.random.default_rng(11)


def bytes_of(shape: tuple[int, ...], kind: Any) -> np.ndarray:
    limits = np.iinfo(kind)
    return RANDOM.integers(limits.min, limits.max, shape, kind, endpoint=True)


def unoptimized(model: onnx.ModelProto, feeds: dict[str, np.ndarray]) -> Any:
    """Returns what ONNX Runtime computes of the nodes as they are."""
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 4
    made.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return onnxruntime.InferenceSession(model.SerializeToString(), made).run(None, feeds)[0]


LEFT = {"residual": "Add", "residual, relu": "Add", "other op before the quantizer": "Tanh"}
"""Of the cases of `optimize`, those in which something else follows the integers."""


@pytest.mark.parametrize("name", [name for name in NETS if name != "weights of the run"])
def test_what_optimize_makes_integers(name: str) -> None:
    """Scales are powers of two, so ONNX Runtime's floats are exact, too."""
    model, feeds = built(NETS[name][0])
    (found,) = claims(model)
    fused = [each.split()[0] for each in found.fused]
    assert (found.node, found.reason, fused[:2]) == ("up", "", ["DequantizeLinear"] * 2)
    assert ("QuantizeLinear" in fused) == (NETS[name][0].quantized and name not in LEFT)
    np.testing.assert_array_equal(session(model).run(None, feeds)[0], unoptimized(model, feeds))


CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "image": ((2, 6, 5, 7), (6, 4, 4, 3), {"strides": [2, 2], "pads": [1, 0, 1, 2]}),
    "signal": ((1, 16, 40), (16, 8, 16), {"strides": [8], "pads": [4, 4], "output_padding": [1]}),
    "groups": ((1, 6, 4, 5), (6, 2, 3, 3), {"strides": [2, 1], "group": 3, "dilations": [1, 2]}),
    "depthwise": ((1, 8, 6, 6), (8, 1, 4, 4), {"strides": [2, 2], "group": 8}),
    "same": ((1, 3, 5, 4), (3, 5, 4, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
}
TYPES = [(np.uint8, np.int8, np.uint8), (np.int8, np.int8, np.int8), (np.uint8, np.uint8, np.int8)]


@pytest.mark.parametrize("opset", [13, 19, 21, 23])
@pytest.mark.parametrize("types", TYPES, ids=lambda types: "_".join(np.dtype(kind).name for kind in types))
@pytest.mark.parametrize("name", CASES)
def test_exact_sums_are_rounded_once(name: str, types: tuple[Any, Any, Any], opset: int) -> None:
    """Bit for bit, also with scales that are no powers of two; so does a model that was optimized."""
    x_shape, w_shape, attributes = CASES[name]
    channels = w_shape[1] * attributes.get("group", 1)
    x, w = bytes_of(x_shape, types[0]), bytes_of(w_shape, types[1])
    axis = 0 if name == "depthwise" else 1
    stored: dict[str, Any] = {
        "w": w,
        "b": RANDOM.integers(-5000, 5000, channels).astype(np.int32),
        "x_scale": F32(0.037),
        "x_zero": np.array(5, types[0]),
        "w_scale": RANDOM.uniform(0.001, 0.02, w_shape[axis]).astype(F32),
        "w_zero": np.full(w_shape[axis], 120 if types[1] is np.uint8 else 0, types[1]),
        "b_scale": RANDOM.uniform(1e-4, 1e-3, channels).astype(F32),
        "y_scale": F32(0.71),
        "y_zero": np.array(9, types[2]),
    }
    window = ", ".join(f"{key} = {json.dumps(value)}" for key, value in attributes.items())
    kinds = [np.dtype(kind).name for kind in types]
    model = parsed(
        f"""g ({kinds[0]}[{",".join(map(str, x_shape))}] x) => ({kinds[2]}[{",".join("abcde"[: len(x_shape)])}] q) {{
            f = DequantizeLinear (x, x_scale, x_zero)
            v = DequantizeLinear <axis = {axis}> (w, w_scale, w_zero)
            c = DequantizeLinear <axis = 0> (b, b_scale)
            y = ConvTranspose <{window}> (f, v, c)
            r = Clip (y, low, high)
            q = QuantizeLinear (r, y_scale, y_zero)
        }}""",
        opset=opset,
        **{key: np.asarray(value) for key, value in stored.items()},
        low=np.asarray(F32(-20)),
        high=np.asarray(F32(150)),
    )
    model.graph.node[3].name = "up"
    sums = defined(x.astype(np.int64) - 5, w.astype(np.int64) - stored["w_zero"][0], None, **attributes)
    column = (-1, *[1] * (len(x_shape) - 2))
    scale = np.resize(stored["x_scale"] * stored["w_scale"], channels).reshape(column)
    bias = (stored["b"].astype(F32) * stored["b_scale"]).reshape(column)
    value = np.clip(sums.astype(F32) * scale + bias, F32(-20), F32(150))
    limits = np.iinfo(types[2])
    expected = np.clip(np.rint(value / F32(0.71)) + 9, limits.min, limits.max).astype(types[2])
    (got,) = with_provider(model, {"x": x}, f"up {' '.join(['DequantizeLinear'] * 3)} Clip QuantizeLinear")
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)
    if "auto_pad" not in attributes:
        made = onnxruntime.SessionOptions()
        done = ortconv.InferenceSession(optimization(model).to_proto(), made, providers=["CPUExecutionProvider"])
        np.testing.assert_array_equal(done.run(None, {"x": x})[0], expected)


def _store(model: onnx.ModelProto, name: str, data: np.ndarray) -> None:
    """Stores a constant, in place of one with that name."""
    kept = [each for each in model.graph.initializer if each.name != name]
    del model.graph.initializer[:]
    model.graph.initializer.extend([*kept, numpy_helper.from_array(data, name)])


def _of_run(model: onnx.ModelProto, feeds: dict[str, np.ndarray], name: str) -> None:
    """Makes an input of the graph of a constant."""
    (tensor,) = (each for each in model.graph.initializer if each.name == name)
    feeds[name] = numpy_helper.to_array(tensor)
    model.graph.initializer.remove(tensor)
    model.graph.input.append(helper.make_tensor_value_info(name, tensor.data_type, tensor.dims))


Case = tuple[onnx.ModelProto, dict[str, np.ndarray]]


def _input_scales() -> Case:
    return built(Net(scales="inputs"))


def _zero_points() -> Case:
    model, feeds = built(Net())
    _store(model, "w_zero", np.array([0, 1, 0, 0], np.int8))
    return model, feeds


def _weights_of_the_run() -> Case:
    return built(Net(weights="input", stated=True))


def _scale_of_the_run() -> Case:
    model, feeds = built(Net())
    _of_run(model, feeds, "x_scale")
    return model, feeds


def _bias_of_the_run() -> Case:
    model, feeds = built(Net(bias="float"))
    _of_run(model, feeds, "b")
    return model, feeds


def _wide_data() -> Case:
    model, feeds = built(Net(omitted=True))
    model.opset_import[0].version, model.ir_version = 21, 10
    model.graph.input[0].type.tensor_type.elem_type = TensorProto.UINT16
    return model, {"x": feeds["x"].astype(np.uint16) * np.uint16(200)}


def _sums_of_33_bits() -> Case:
    model, feeds = built(Net(x=(1, 4400, 3, 3), w=(4400, 1, 4, 4), scales="one", bias="none"))
    _store(model, "w", np.full((4400, 1, 4, 4), 127, np.int8))
    return model, feeds


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (_input_scales, "its weights have other scales than one for each output channel"),
        (_zero_points, "its weights have several zero points"),
        (_weights_of_the_run, "its weights are not constant"),
        (_scale_of_the_run, "its data have a scale that is not constant"),
        (_bias_of_the_run, "its bias is not constant"),
        (_wide_data, "its data have element type 4; allowed: 2, 3"),
        (_sums_of_33_bits, "its sums may not fit into 32 bits"),
    ],
)
def test_other_layers_are_computed_in_floats(make: Callable[[], Case], reason: str) -> None:
    model, feeds = make()
    (found,) = claims(model)
    assert (found.node, found.reason, *found.fused) == ("up", "")
    assert found.kept[0] == f"DequantizeLinear x_f: the layer is computed in floats: {reason}"
    got, right = session(model).run(None, feeds)[0], unoptimized(model, feeds)
    np.testing.assert_allclose(got.astype(np.int64), right.astype(np.int64), atol=1)


def test_a_quantizer_that_stays_says_why() -> None:
    model, feeds = built(Net())
    _of_run(model, feeds, "y_scale")
    (found,) = claims(model)
    assert [each.split()[0] for each in found.fused] == ["DequantizeLinear"] * 3
    assert found.kept == ("QuantizeLinear round: its integers have a scale that is not constant",)
    np.testing.assert_array_equal(session(model).run(None, feeds)[0], unoptimized(model, feeds))


def test_a_result_that_others_read_stays_float() -> None:
    model, feeds = built(Net())
    model.graph.output.append(helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    quantized, floats = with_provider(model, feeds, f"up {' '.join(['DequantizeLinear'] * 3)}")
    np.testing.assert_array_equal(quantized, unoptimized(model, feeds))
    np.testing.assert_array_equal(quantized, np.clip(np.rint(floats / 0.5) + 3, 0, 255).astype(np.uint8))


def test_data_that_others_read_are_dequantized_for_them() -> None:
    model, feeds = built(Net())
    model.graph.output.append(helper.make_tensor_value_info("x_f", TensorProto.FLOAT, None))
    quantized, floats = with_provider(model, feeds, f"up {' '.join(['DequantizeLinear'] * 3)} QuantizeLinear")
    np.testing.assert_array_equal(quantized, unoptimized(model, feeds))
    np.testing.assert_array_equal(floats, (feeds["x"].astype(F32) - 3) * F32(0.25))


def test_without_fusion_floats_are_computed() -> None:
    model, feeds = built(Net())
    assert [(each.fused, each.kept) for each in claims(model, fuse="0")] == [((), ())]
    np.testing.assert_array_equal(session(model, fuse="0").run(None, feeds)[0], unoptimized(model, feeds))


def test_sizes_of_the_run() -> None:
    model, _ = built(Net())
    for axis in range(4):
        model.graph.input[0].type.tensor_type.shape.dim[axis].dim_param = f"n{axis}"
    made = session(model)
    for sizes in [(2, 4, 3), (1, 1, 1), (0, 4, 4), (3, 9, 2)]:
        x = bytes_of((sizes[0], 6, *sizes[1:]), np.uint8)
        if x.size:
            np.testing.assert_array_equal(made.run(None, {"x": x})[0], unoptimized(model, {"x": x}))
        else:
            assert made.run(None, {"x": x})[0].shape == (0, 4, 8, 8)
    with pytest.raises(Exception, match="ConvTranspose 'up': "):
        made.run(None, {"x": bytes_of((1, 5, 4, 4), np.uint8)})


@pytest.mark.parametrize("outside", [True, False], ids=["outside", "inside"])
def test_a_body_of_if(outside: bool) -> None:
    """A DequantizeLinear outside of the body belongs to another graph, so it cannot become one with a node inside."""
    front = """f = DequantizeLinear (x, x_scale, x_zero)
        v = DequantizeLinear (w, w_scale)"""
    model = parsed(
        f"""g (uint8[1,3,5,5] x, bool turns) => (float[a,b,c,d] y) {{
            {front if outside else ""}
            y = If (turns) <
                then_branch = then () => (float[i,j,k,l] o) {{
                    {"" if outside else front}
                    o = ConvTranspose <strides = [2, 2]> (f, v)
                }},
                else_branch = other () => (float[m,n,p,q] z) {{ z = Cast <to = 1> (x) }}
            >
        }}""",
        x_scale=np.asarray(F32(0.25)),
        x_zero=np.array(7, np.uint8),
        w=bytes_of((3, 4, 3, 3), np.int8),
        w_scale=np.asarray(F32(0.125)),
    )
    feeds = {"x": bytes_of((1, 3, 5, 5), np.uint8), "turns": np.array(True)}
    (found,) = claims(model)
    assert (found.reason, len(found.fused)) == ("", 0 if outside else 2)
    np.testing.assert_array_equal(session(model).run(None, feeds)[0], unoptimized(model, feeds))


@pytest.mark.parametrize("way", ["integer_phases", "dequantized"])
def test_implementations_can_be_asked_for(way: str, tmp_path: pathlib.Path) -> None:
    model, feeds = built(Net())
    made = options()
    made.add_session_config_entry(IMPLEMENTATION_ENTRY, way)
    made.add_session_config_entry(CHOICES_ENTRY, str(tmp_path / "choices"))
    np.testing.assert_array_equal(session(model, made).run(None, feeds)[0], unoptimized(model, feeds))
    assert [(each.node, each.implementation) for each in read(tmp_path / "choices")] == [("ConvTranspose 'up'", way)]


@pytest.mark.skipif(HAS_DOT_PRODUCTS, reason="with VNNI ours is faster than floats in ONNX Runtime on any layer")
def test_a_layer_that_onnx_runtime_computes_faster_is_left() -> None:
    model, _ = built(Net(x=(1, 16, 8, 8), w=(16, 16, 16, 16), attributes={}, bias="none"))
    (found,) = claims(model, claim_all="0")
    assert found.kept[0].startswith("DequantizeLinear x_f: the layer is computed in floats: ours is estimated to take ")
    assert len(claims(model)[0].fused) == 3

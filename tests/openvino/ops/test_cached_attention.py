"""Attention to a cache of keys and values, reordered by batches: OpenVINO's CPU plugin makes one node of all that."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset6, opset8, opset13

import ortconv
from ortconv.api import conversion
from tests.openvino.live import assert_close, numbers

F32 = openvino.Type.f32
HEADS, WIDTH = 2, 8
CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}


def decoder(mask: openvino.Type, *, selected: bool = False) -> openvino.Model:
    """Appends keys and values to their caches, and attends to all of them."""
    query, key, value = (opset1.parameter([-1, HEADS, -1, WIDTH], dtype=F32, name=name) for name in "qkv")
    masked = opset1.parameter([-1, 1, -1, -1], dtype=mask, name="mask")
    beams = opset1.parameter([-1], dtype=openvino.Type.i32, name="beams")
    batch = opset8.gather(opset1.shape_of(query), np.array([0]), np.int64(0))
    first = opset1.broadcast(np.float32(0), opset1.concat([batch, np.array([HEADS, 0, WIDTH])], 0))
    caches, writes = [], []
    for data, name in ((key, "keys"), (value, "values")):
        read = opset6.read_value(first, name, F32, openvino.PartialShape([-1, HEADS, -1, WIDTH]))
        caches.append(opset1.concat([opset8.gather(read, beams, np.int64(0)), data], 2))
        writes.append(opset6.assign(caches[-1], name))
    added: Any = opset1.select(masked, np.float32(0), np.float32(-65504)) if selected else masked
    result = opset13.scaled_dot_product_attention(query, *caches, added)
    return openvino.Model([opset1.result(result)], writes, [query, key, value, masked, beams])


def steps(mask: np.dtype[Any], hidden: float) -> list[list[np.ndarray]]:
    """Returns data of two calls: five positions, of which the first two of the second batch are padding, then one."""
    made = []
    for length, past, beams in ((5, 0, [0, 1]), (1, 5, [1, 1])):
        data = [numbers(2, HEADS, length, WIDTH, seed=seed + past) for seed in range(3)]
        shown = np.tril(np.ones((length, past + length), bool), past) & np.ones((2, 1, 1, 1), bool)
        shown[1 if past == 0 else slice(None), ..., :2] = False
        made.append(
            [*data, shown if mask.kind == "b" else np.where(shown, 0, hidden).astype(mask), np.array(beams, np.int32)]
        )
    return made


@pytest.mark.parametrize(
    ("mask", "hidden"),
    [(bool, 0.0), (np.float32, -math.inf), (np.float32, float(np.finfo(np.float32).min)), (np.float32, -65504.0)],
)
@pytest.mark.parametrize("target", ["auto", "onnx"])
def test_a_query_without_a_key(mask: Any, hidden: float, target: Any) -> None:
    """Padding in front leaves none for the first positions, whose results must not be lost in those behind."""
    source = decoder(openvino.Type(np.dtype(mask)))
    request = openvino.Core().compile_model(source, "CPU", CONFIG).create_infer_request()
    model = conversion(source, target=target).to_proto()
    session = ortconv.InferenceSession(model, backend="none")
    names = [value.name for value in session.get_inputs()]
    states = {name: np.zeros((2, HEADS, 0, WIDTH), np.float32) for name in ("keys", "values")}
    for feed in steps(np.dtype(mask), hidden):
        request.infer(feed)
        result, *after = session.run(None, dict(zip(names, feed, strict=False)) | states)
        assert_close(result, np.array(request.get_output_tensor(0).data), 16)
        assert np.isfinite(result).all()
        states = dict(zip([value.name.removesuffix(".next") for value in model.graph.output[1:]], after, strict=True))


def test_a_mask_that_has_no_infinities_needs_no_more() -> None:
    kinds = [node.op_type for node in conversion(decoder(openvino.Type.boolean, selected=True)).model.graph]
    assert "ReduceMax" not in kinds
    kinds = [node.op_type for node in conversion(decoder(F32)).model.graph]
    assert "ReduceMax" in kinds

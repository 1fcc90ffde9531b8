"""Attention to a cache of keys and values, reordered by batches: OpenVINO's CPU plugin makes one node of all that."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset3, opset6, opset8

import ortconv
from ortconv.api import Conversion, conversion
from tests.openvino.live import assert_close, numbers
from tests.openvino.ops.test_attention import attention

F32 = openvino.Type.f32
HEADS, TIMES, WIDTH = 2, 3, 8
CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}


def decoder(
    mask: openvino.Type, *, selected: bool = False, repeated: int | None = None, sink: bool = False
) -> openvino.Model:
    """Appends keys and values to their caches, and attends to all of them.

    Args:
        mask: Type of the mask.
        selected: Whether it chooses between two numbers.
        repeated: In front of which axis the heads are repeated for the queries, of which there are three times as many.
        sink: Whether there is one.
    """
    asked = HEADS if repeated is None else TIMES * HEADS
    query, key, value = (
        opset1.parameter([-1, heads, -1, WIDTH], dtype=F32, name=name)
        for name, heads in (("q", asked), ("k", HEADS), ("v", HEADS))
    )
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
    if repeated is not None:
        caches = [spread(cache, repeated) for cache in caches]
    more = [opset1.constant(each) for each in (np.float32(0.5), numbers(1, asked, 1, 1, seed=7))] if sink else []
    result = attention(query, *caches, added, *more)
    return openvino.Model([opset1.result(result)], writes, [query, key, value, masked, beams])


def spread(cache: Any, axis: int) -> Any:
    """Repeats heads: one after the other where the axis is 2, all of them where it is 1."""
    length = opset8.gather(opset1.shape_of(cache), np.array([0, 2]), np.int64(0))
    batch, positions = (opset8.gather(length, np.array([index]), np.int64(0)) for index in (0, 1))
    heads = [HEADS, TIMES] if axis == 2 else [TIMES, HEADS]
    sizes = opset1.concat([batch, np.array(heads), positions, np.array([WIDTH])], 0)
    narrow = opset1.unsqueeze(cache, np.array([axis]))
    # The plugin fuses what is spread in both directions, and takes heads to be repeated one after the other then.
    wide = opset3.broadcast(narrow, sizes, broadcast_spec="BIDIRECTIONAL" if axis == 2 else "NUMPY")
    return opset1.reshape(wide, np.array([0, TIMES * HEADS, -1, WIDTH]), True)


def steps(mask: np.dtype[Any], hidden: float, asked: int = HEADS) -> list[list[np.ndarray]]:
    """Returns data of two calls: five positions, of which the first two of the second batch are padding, then one."""
    made = []
    for length, past, beams in ((5, 0, [0, 1]), (1, 5, [1, 1])):
        data = [numbers(2, heads, length, WIDTH, seed=seed + past) for seed, heads in enumerate((asked, HEADS, HEADS))]
        shown = np.tril(np.ones((length, past + length), bool), past) & np.ones((2, 1, 1, 1), bool)
        shown[1 if past == 0 else slice(None), ..., :2] = False
        made.append(
            [*data, shown if mask.kind == "b" else np.where(shown, 0, hidden).astype(mask), np.array(beams, np.int32)]
        )
    return made


def agree(source: openvino.Model, feeds: list[list[np.ndarray]], target: Any = "auto") -> Conversion:
    """Asserts that several calls, each with the states of the one before, give OpenVINO's numbers."""
    request = openvino.Core().compile_model(source, "CPU", CONFIG).create_infer_request()
    converted = conversion(source, target=target)
    model = converted.to_proto()
    session = ortconv.InferenceSession(model, backend="none")
    names = [value.name for value in session.get_inputs()]
    states = {name: np.zeros((2, HEADS, 0, WIDTH), np.float32) for name in ("keys", "values")}
    for feed in feeds:
        request.infer(feed)
        result, *after = session.run(None, dict(zip(names, feed, strict=False)) | states)
        assert_close(result, np.array(request.get_output_tensor(0).data), 16)
        assert np.isfinite(result).all()
        states = dict(zip([value.name.removesuffix(".next") for value in model.graph.output[1:]], after, strict=True))
    return converted


@pytest.mark.parametrize(
    ("mask", "hidden"),
    [(bool, 0.0), (np.float32, -math.inf), (np.float32, float(np.finfo(np.float32).min)), (np.float32, -65504.0)],
)
@pytest.mark.parametrize("target", ["auto", "onnx"])
def test_a_query_without_a_key(mask: Any, hidden: float, target: Any) -> None:
    """Padding in front leaves none for the first positions, whose results must not be lost in those behind."""
    source = decoder(openvino.Type(np.dtype(mask)))
    agree(source, steps(np.dtype(mask), hidden), target=target)


def test_a_mask_that_has_no_infinities_needs_no_more() -> None:
    kinds = [node.op_type for node in conversion(decoder(openvino.Type.boolean, selected=True)).model.graph]
    assert "ReduceMax" not in kinds
    kinds = [node.op_type for node in conversion(decoder(F32)).model.graph]
    assert "ReduceMax" in kinds


@pytest.mark.parametrize("mask", [bool, np.float32])
@pytest.mark.parametrize("sink", [False, True])
def test_heads_that_queries_share(mask: Any, sink: bool) -> None:
    """Nothing is repeated."""
    source = decoder(openvino.Type(np.dtype(mask)), repeated=2, sink=sink)
    feeds = steps(np.dtype(mask), -65504.0, TIMES * HEADS)
    converted = agree(source, feeds)
    assert [node.op_type for node in converted.model.graph].count("Expand") == int(sink)


def test_heads_that_are_repeated_in_turns() -> None:
    converted = agree(decoder(F32, repeated=1), steps(np.dtype(np.float32), -65504.0, TIMES * HEADS))
    assert [node.op_type for node in converted.model.graph].count("Expand") == 2

"""Attention to a cache of keys and values, reordered by batches: OpenVINO's CPU plugin makes one node of all that."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset3, opset6, opset8

import ortconv
from ortconv.api import Conversion, conversion
from tests.converters.openvino.live import assert_close, numbers
from tests.converters.openvino.ops.test_attention import attention

F32 = openvino.Type.f32
HEADS, TIMES, WIDTH = 2, 3, 8
CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "KV_CACHE_PRECISION": "f32"}


def decoder(
    mask: openvino.Type,
    *,
    selected: bool = False,
    repeat: Sequence[Callable[..., Any]] = (),
    sink: bool = False,
    computed: bool = False,
) -> openvino.Model:
    """Appends keys and values to their caches, and attends to all of them.

    Args:
        mask: Type of the mask.
        selected: Whether it chooses between two numbers.
        repeat: Repeat the heads of keys and of values for the queries, of which there are three times as many. They are
            given a cache, and the batch and positions that an input more has.
        sink: Whether there is one.
        computed: Whether the first values are computed, and a cache without elements stands for them.
    """
    asked = TIMES * HEADS if repeat else HEADS
    query, key, value = (
        opset1.parameter([-1, heads, -1, WIDTH], dtype=F32, name=name)
        for name, heads in (("q", asked), ("k", HEADS), ("v", HEADS))
    )
    masked = opset1.parameter([-1, 1, -1, -1], dtype=mask, name="mask")
    beams = opset1.parameter([-1], dtype=openvino.Type.i32, name="beams")
    batch = opset8.gather(opset1.shape_of(query), np.array([0]), np.int64(0))
    first = opset1.broadcast(np.float32(0), opset1.concat([batch, np.array([HEADS, 0, WIDTH])], 0))
    first = opset1.exp(first) if computed else first
    caches, writes = [], []
    for data, name in ((key, "keys"), (value, "values")):
        read = opset6.read_value(first, name, F32, openvino.PartialShape([-1, HEADS, -1, WIDTH]))
        caches.append(opset1.concat([opset8.gather(read, beams, np.int64(0)), data], 2))
        writes.append(opset6.assign(caches[-1], name))
    added: Any = opset1.select(masked, np.float32(0), np.float32(-65504)) if selected else masked
    more = []
    if repeat:
        more = [opset1.parameter([-1, -1], dtype=F32, name="like")]
        told = [opset8.gather(opset1.shape_of(more[0]), np.array([index]), np.int64(0)) for index in (0, 1)]
        caches = [each(cache, told) for each, cache in zip(repeat, caches, strict=True)]
    sinks = [opset1.constant(each) for each in (np.float32(0.5), numbers(1, asked, 1, 1, seed=7))] if sink else []
    result = attention(query, *caches, added, *sinks)
    return openvino.Model([opset1.result(result)], writes, [query, key, value, masked, beams, *more])


def spread(cache: Any, told: Sequence[Any], *, axis: int = 2, own: bool = True) -> Any:
    """Repeats heads: one after the other where the axis is 2, all of them where it is 1.

    Args:
        cache: What is repeated.
        told: Batch and positions, as an input has them.
        axis: Where the new axis is.
        own: Whether the cache is asked instead.
    """
    length = opset8.gather(opset1.shape_of(cache), np.array([0, 2]), np.int64(0))
    batch, positions = [opset8.gather(length, np.array([index]), np.int64(0)) for index in (0, 1)] if own else told
    heads = [HEADS, TIMES] if axis == 2 else [TIMES, HEADS]
    sizes = opset1.concat([batch, np.array(heads), positions, np.array([WIDTH])], 0)
    narrow = opset1.unsqueeze(cache, np.array([axis]))
    # The plugin fuses what is spread in both directions, and takes heads to be repeated one after the other then.
    wide = opset3.broadcast(narrow, sizes, broadcast_spec="BIDIRECTIONAL" if axis == 2 else "NUMPY")
    return opset1.reshape(wide, np.array([0, TIMES * HEADS, -1, WIDTH]), True)


def steps(mask: np.dtype[Any], hidden: float, asked: int = HEADS) -> list[list[np.ndarray]]:
    """Returns data of two calls: five positions, of which the first two of the second batch are padding, then one.

    Behind them is something of that batch and those positions, where the queries have more heads.
    """
    made = []
    for length, past, beams in ((5, 0, [0, 1]), (1, 5, [1, 1])):
        data = [numbers(2, heads, length, WIDTH, seed=seed + past) for seed, heads in enumerate((asked, HEADS, HEADS))]
        shown = np.tril(np.ones((length, past + length), bool), past) & np.ones((2, 1, 1, 1), bool)
        shown[1 if past == 0 else slice(None), ..., :2] = False
        masked = shown if mask.kind == "b" else np.where(shown, 0, hidden).astype(mask)
        like = [] if asked == HEADS else [np.zeros((2, past + length), np.float32)]
        made.append([*data, masked, np.array(beams, np.int32), *like])
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


def test_caches_whose_first_values_are_computed() -> None:
    source = decoder(openvino.Type.boolean, computed=True)
    converted = agree(source, steps(np.dtype(bool), 0.0))
    assert any("KV_CACHE_PRECISION" in text for text in converted.warnings)
    assert [node.op_type for node in converted.model.graph].count("If") == 2


def test_a_mask_that_has_no_infinities_needs_no_more() -> None:
    kinds = [node.op_type for node in conversion(decoder(openvino.Type.boolean, selected=True)).model.graph]
    assert "ReduceMax" not in kinds
    kinds = [node.op_type for node in conversion(decoder(F32)).model.graph]
    assert "ReduceMax" in kinds


@pytest.mark.parametrize(("hidden", "checked"), [(-65504, False), (-65536, True)])
def test_a_mask_that_becomes_infinite_in_float16(hidden: float, checked: bool) -> None:
    f16 = openvino.Type.f16
    query, key = (opset1.parameter([-1, HEADS, -1, WIDTH], dtype=f16, name=name) for name in ("q", "k"))
    shown = opset1.parameter([-1, 1, -1, -1], np.bool_, name="mask")
    beams = opset1.parameter([-1], np.int32, name="beams")
    first = opset1.broadcast(np.float16(0), np.array([1, HEADS, 0, WIDTH]))
    read = opset6.read_value(first, "keys", f16, openvino.PartialShape([-1, HEADS, -1, WIDTH]))
    keys = opset1.concat([opset8.gather(read, beams, np.int64(0)), key], 2)
    mask = opset1.convert(opset1.select(shown, np.float32(0), np.float32(hidden)), "f16")
    y = opset1.result(attention(query, keys, keys, mask))
    source = openvino.Model([y], [opset6.assign(keys, "keys")], [query, key, shown, beams])
    assert "ReduceMax" not in [node.op_type for node in conversion(source).model.graph]
    converted = conversion(source, compute="f16")
    assert ("ReduceMax" in [node.op_type for node in converted.model.graph]) == checked
    data = numbers(1, HEADS, 3, WIDTH, dtype=np.float16)
    feed = {"q": data, "k": data, "mask": np.tri(3, 3, -1, dtype=bool)[None, None], "beams": np.array([0], np.int32)}
    session = ortconv.InferenceSession(converted.to_proto(), backend="none")
    (result, *_) = session.run(None, feed | {"keys": data[:, :, :0]})
    assert np.isfinite(result).all()


@pytest.mark.parametrize("mask", [bool, np.float32])
@pytest.mark.parametrize("sink", [False, True])
def test_heads_that_queries_share(mask: Any, sink: bool) -> None:
    """Nothing is repeated."""
    source = decoder(openvino.Type(np.dtype(mask)), repeat=[spread] * 2, sink=sink)
    feeds = steps(np.dtype(mask), -65504.0, TIMES * HEADS)
    kinds = [node.op_type for node in agree(source, feeds).model.graph]
    assert kinds.count("Expand") == int(sink)
    assert kinds.count("ReduceMax") == (mask is not bool and not sink)  # with a sink, no query is without a key


TOLD = functools.partial(spread, own=False)


@pytest.mark.parametrize(("repeat", "shared"), [((TOLD, TOLD), True), ((TOLD, spread), False), ((spread, TOLD), False)])
@pytest.mark.parametrize("mask", [bool, np.float32])
def test_heads_that_are_repeated_to_sizes_told_elsewhere(mask: Any, repeat: Any, shared: bool) -> None:
    """Where only a run tells whether batch and positions are the cache's, one in which they are not fails."""
    source = decoder(openvino.Type(np.dtype(mask)), repeat=repeat)
    feeds = steps(np.dtype(mask), -65504.0, TIMES * HEADS)
    converted = agree(source, feeds)
    assert [node.op_type for node in converted.model.graph].count("Expand") == (0 if shared else 2)
    session = ortconv.InferenceSession(converted.to_proto(), backend="none")
    q, k, v, shown, beams, like = feeds[0]
    past = {name: np.zeros((1, HEADS, 0, WIDTH), np.float32) for name in ("keys", "values")}
    feed = {"q": q, "k": k[:1], "v": v[:1], "mask": shown, "beams": beams[:1], "like": like} | past
    one_for_both, *_ = session.run(None, feed)
    wide = [np.repeat(each[:1], TIMES, 1) for each in (k, v)]
    expected = attended(q, *wide, np.where(shown, 0, -65504.0) if mask is bool else shown)
    assert_close(one_for_both[:, :, 2:], expected[:, :, 2:].astype(np.float32), 16)  # all of which have keys
    for other in ((2, 4), (3, 5)) if shared else ((2, 4),):
        with pytest.raises(Exception, match=r"running (Reshape|Expand|Add|MatMul) node"):
            session.run(None, feed | {"q": q[:1], "mask": shown[:1, ..., :1], "like": np.zeros(other, np.float32)})
    empty = {name: np.zeros((2, HEADS, 0, WIDTH), np.float32) for name in ("keys", "values")}
    for batch, positions in ((5, 2), (0, 5), (2, 0)):  # as many elements, or none, which may stand for as many
        told = {"mask": shown[:1, ..., :positions], "like": np.zeros((batch, positions), np.float32)}
        with pytest.raises(Exception, match=r"running (Reshape|Expand|Add) node"):
            session.run(None, {"q": q, "k": k, "v": v, "beams": beams} | empty | told)


def attended(q: np.ndarray, k: np.ndarray, v: np.ndarray, added: np.ndarray) -> np.ndarray:
    """Returns the attention of queries to keys in float64."""
    scores = q.astype(np.float64) @ k.swapaxes(2, 3) / math.sqrt(WIDTH) + added
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    return weights / weights.sum(-1, keepdims=True) @ v


def test_heads_that_are_repeated_in_turns() -> None:
    converted = agree(
        decoder(F32, repeat=[functools.partial(spread, axis=1)] * 2),
        steps(np.dtype(np.float32), -65504.0, TIMES * HEADS),
    )
    assert [node.op_type for node in converted.model.graph].count("Expand") == 2


@dataclasses.dataclass(frozen=True)
class Repetition:
    """How a cache is repeated.

    Attributes:
        heads: How many heads it has.
        sizes: To what it is spread, after an axis is put in; None for the cache's own size.
        merged: What becomes of that; None likewise.
        axis: Where the axis is put in.
    """

    heads: int
    sizes: tuple[int | None, ...]
    merged: tuple[int | None, ...]
    axis: int = 2

    def in_graph(self, cache: Any) -> Any:
        own = opset1.shape_of(cache)
        before = opset1.unsqueeze(cache, np.array([self.axis]))
        wide = opset3.broadcast(before, _stated(own, self.sizes, (0, 1, 1, 2, 3)), broadcast_spec="BIDIRECTIONAL")
        return opset1.reshape(wide, _stated(own, self.merged, (0, 1, 2, 3)), True)

    def in_numpy(self, cache: np.ndarray) -> np.ndarray:
        wide = np.expand_dims(cache, self.axis) * np.ones([size or 1 for size in self.sizes], np.float32)
        batch, _, positions, _ = cache.shape
        known = (batch, None, positions, None)
        sizes = [own if size is None else size for size, own in zip(self.merged, known, strict=True)]
        return wide.reshape([len(wide) if size == 0 else size for size in sizes])


def _stated(own: Any, sizes: Sequence[int | None], axes: Sequence[int]) -> Any:
    """Returns sizes as a graph states them."""
    parts = [
        opset8.gather(own, np.array([axis]), np.int64(0)) if size is None else opset1.constant(np.array([size]))
        for size, axis in zip(sizes, axes, strict=True)
    ]
    return opset1.concat(parts, 0)


ONES, KEPT = (1, 1, 3, 1, 1), (0, 6, -1, WIDTH)
REPEATED = Repetition(2, ONES, KEPT)


@pytest.mark.parametrize(
    ("asked", "keys", "values", "batch", "length", "shared"),
    [
        (6, REPEATED, REPEATED, 2, 4, True),
        (6, Repetition(2, (None, 2, 3, None, WIDTH), (-1, 6, None, WIDTH)), REPEATED, 2, 4, True),
        (6, Repetition(2, ONES, (None, 6, -1, WIDTH)), REPEATED, 2, 4, True),
        # Positions or batches are repeated, too, or made of each other.
        (6, *[Repetition(2, (1, 1, 3, 4, 1), KEPT)] * 2, 2, 1, False),
        (6, *[Repetition(2, (2, 1, 3, 1, 1), KEPT)] * 2, 1, 4, False),
        (6, *[Repetition(2, ONES, (1, 6, -1, WIDTH))] * 2, 2, 4, False),
        (6, *[Repetition(2, ONES, (-1, 6, 2, WIDTH))] * 2, 1, 4, False),
        # Keys and values have other heads, or the queries do.
        (6, Repetition(1, (1, 1, 6, 1, 1), KEPT), REPEATED, 2, 4, False),
        (1, REPEATED, REPEATED, 2, 4, False),
        # Each is not repeated one after the other, or along two axes.
        (4, *[Repetition(2, (1, 2, 2, 1, 1), (0, 4, -1, WIDTH), 1)] * 2, 2, 4, False),
        (6, *[Repetition(1, (1, 3, 2, 1, 1), KEPT)] * 2, 2, 4, False),
    ],
)
@pytest.mark.parametrize("causal", [False, True])
def test_what_is_repeated(
    asked: int, keys: Repetition, values: Repetition, batch: int, length: int, shared: bool, causal: bool
) -> None:
    """OpenVINO's CPU plugin fails, or takes other repetitions for that of heads one after the other."""
    query = opset1.parameter([-1, asked, -1, WIDTH], dtype=F32, name="q")
    masked = opset1.parameter([-1, 1, -1, -1], dtype=F32, name="mask")
    beams = opset1.parameter([-1], dtype=openvino.Type.i32, name="beams")
    wholes, writes, more, feed, states, repeated = [], [], [], {}, {}, []
    for seed, (name, each) in enumerate((("keys", keys), ("values", values))):
        data = opset1.parameter([-1, each.heads, -1, WIDTH], dtype=F32, name=name[0])
        first = opset1.broadcast(np.float32(0), np.array([1, each.heads, 0, WIDTH]))
        read = opset6.read_value(first, name, F32, openvino.PartialShape([-1, each.heads, -1, WIDTH]))
        whole = opset1.concat([opset8.gather(read, beams, np.int64(0)), data], 2)
        wholes.append(each.in_graph(whole))
        writes.append(opset6.assign(whole, name))
        more.append(data)
        feed[name[0]] = numbers(batch, each.heads, length, WIDTH, seed=seed)
        states[name] = np.zeros((batch, each.heads, 0, WIDTH), np.float32)
        repeated.append(each.in_numpy(feed[name[0]]))
    y = opset1.result(attention(query, *wholes, masked, causal=causal))
    converted = conversion(openvino.Model([y], writes, [query, *more, masked, beams]))
    assert [node.op_type for node in converted.model.graph].count("Expand") == (0 if shared else 2) + causal
    wide_keys, wide_values = repeated
    feed["q"] = numbers(len(wide_keys), asked, 4, WIDTH)
    feed["mask"] = numbers(1, 1, 4, wide_keys.shape[2], seed=4)
    session = ortconv.InferenceSession(converted.to_proto(), backend="none")
    actual, *_ = session.run(None, feed | states | {"beams": np.arange(batch, dtype=np.int32)})
    behind = np.where(np.tri(4, wide_keys.shape[2], dtype=bool), 0, -math.inf)
    expected = attended(feed["q"], wide_keys, wide_values, behind if causal else feed["mask"])
    assert_close(actual, expected.astype(np.float32), 16)


def test_a_boolean_mask_of_float16_leaves_a_query_without_keys_the_mean() -> None:
    query, key = (opset1.parameter([-1, HEADS, -1, WIDTH], dtype=openvino.Type.f16, name=name) for name in ("q", "k"))
    shown = opset1.parameter([-1, 1, -1, -1], np.bool_, name="mask")
    beams = opset1.parameter([-1], np.int32, name="beams")
    first = opset1.broadcast(np.float16(0), np.array([1, HEADS, 0, WIDTH]))
    read = opset6.read_value(first, "keys", openvino.Type.f16, openvino.PartialShape([-1, HEADS, -1, WIDTH]))
    keys = opset1.concat([opset8.gather(read, beams, np.int64(0)), key], 2)
    y = opset1.result(attention(query, keys, keys, shown))
    source = openvino.Model([y], [opset6.assign(keys, "keys")], [query, key, shown, beams])
    data = numbers(1, HEADS, 3, WIDTH, dtype=np.float16)
    feed = {"q": data, "k": data, "mask": np.tri(3, 3, -1, dtype=bool)[None, None], "beams": np.array([0], np.int32)}
    session = ortconv.InferenceSession(conversion(source).to_proto(), backend="none")
    (result, *_) = session.run(None, feed | {"keys": data[:, :, :0]})
    assert_close(result[:, :, 0], data.astype(np.float32).mean(2).astype(np.float16), 8)

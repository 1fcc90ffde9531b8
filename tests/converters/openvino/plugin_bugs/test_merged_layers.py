"""Layers that OpenVINO's CPU plugin merges or takes away, and what it loses with them: the page is followed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from openvino import opset1, opset3, opset4, opset6, opset12

from ortconv.api import conversion
from tests.converters.openvino.live import assert_close, model_of, numbers, run_onnx, run_openvino

F32 = np.float32
Build = Callable[[Any], Any]
W1, W2, WIDE = numbers(3, 2, 4), numbers(3, 2, 4, 3), numbers(3, 2, 1, 2)
GROUPED = numbers(2, 2, 1, 4)


def unlike_default(case: Any) -> str:
    """Names a case by its fields that are not as by default: of functions the name, of arrays the shape."""

    def said(value: Any) -> str:
        return getattr(value, "__name__", None) or str(getattr(value, "shape", value))

    names = [field.name for field in dataclasses.fields(case)]
    texts = {name: (said(getattr(case, name)), said(getattr(type(case)(), name))) for name in names}
    return ",".join(f"{name}={mine}" for name, (mine, default) in texts.items() if mine != default) or "default"


def convolution(x: Any, filter: np.ndarray = W1, auto_pad: str = "same_upper", stride: int = 1) -> Any:
    rank = len(x.get_output_partial_shape(0)) - 2 if hasattr(x, "get_output_partial_shape") else filter.ndim - 2
    op = opset1.group_convolution if filter.ndim == rank + 3 else opset1.convolution
    zeros = [0] * rank
    return op(x, filter, [stride] * rank, zeros, zeros, [1] * rank, auto_pad)


@dataclasses.dataclass(frozen=True)
class Padded:
    """A Pad in front of a convolution.

    Attributes:
        begin: What it puts in front.
        end: What it puts behind.
        filter: Weights.
        auto_pad: Of the convolution.
        stride: Likewise.
        mode: Of the Pad.
        fill: What it pads with; None for the default.
        op: Makes the Pad.
        more: Makes further outputs of what is padded.
        open: Which axes have an open size.
        lost: Whether the plugin loses the padding that auto_pad says.
    """

    begin: Sequence[int] = (0, 0, 1)
    end: Sequence[int] = (0, 0, 2)
    filter: np.ndarray = dataclasses.field(default_factory=lambda: W1)
    auto_pad: str = "same_upper"
    stride: int = 1
    mode: str = "constant"
    fill: float | None = 0
    op: Callable[..., Any] = opset1.pad
    more: Callable[[Any], Any] | None = None
    open: Sequence[int] = (2,)
    lost: bool = True

    def build(self, x: Any) -> Any:
        fill = [] if self.fill is None else [F32(self.fill)]
        padded = self.op(x, np.array(self.begin), np.array(self.end), self.mode, *fill)
        y = convolution(padded, self.filter, self.auto_pad, self.stride)
        return y if self.more is None else [y, self.more(padded)]


IMAGE = {"begin": (0, 0, 1, 1), "end": (0, 0, 1, 1), "filter": W2}


@pytest.mark.parametrize(
    "case",
    [
        Padded(),
        Padded(auto_pad="same_lower", stride=2),
        Padded(filter=GROUPED),
        Padded(fill=None),
        Padded(op=opset12.pad, open=(0, 2)),
        Padded(**IMAGE, open=(2,)),
        Padded(**IMAGE, open=(2, 3)),
        Padded(begin=(0, 0, 0, 1), end=(0, 0, 0, 0), filter=W2, open=(2,)),
        Padded(open=(0,), lost=False),
        Padded(auto_pad="valid", lost=False),
        Padded(auto_pad="explicit", lost=False),
        Padded(mode="edge", lost=False),
        Padded(fill=1, lost=False),
        Padded(more=opset1.relu, lost=False),
        Padded(more=opset3.shape_of, lost=False),
        Padded(begin=(1, 0, 1), lost=False),
        Padded(begin=(0, 1, 1), filter=numbers(3, 3, 4), lost=False),
        Padded(begin=(0, 0, 0), end=(0, 0, 0), lost=False),
        Padded(op=opset12.pad, end=(0, 0, -1), lost=False),
        Padded(filter=numbers(3, 2, 1), lost=False),
        Padded(begin=(0, 0, 1, 1), end=(0, 0, 1, 1), filter=numbers(3, 2, 1, 3), open=(2,), lost=False),
    ],
    ids=unlike_default,
)
def test_convolutions_behind_a_pad(case: Padded) -> None:
    """With every size known, the plugin pads as the page says; the warning stands where it does otherwise."""
    shape = [1, 2, 9, 8][: len(case.begin)]
    feed = [numbers(*shape)]
    expected = run_openvino(model_of(case.build, [feed]), [feed])[0]
    declared = [-1 if axis in case.open else size for axis, size in enumerate(shape)]
    source = model_of(case.build, [feed], [declared])
    converted = conversion(source)
    for mine, right in zip(run_onnx(converted, [feed])[0], expected, strict=True):
        assert_close(mine, right, 8)
    assert (run_openvino(source, [feed])[0][0].shape != expected[0].shape) == case.lost
    assert [("drops the padding of auto_pad" in text) for text in converted.warnings] == [True] * case.lost


@dataclasses.dataclass(frozen=True)
class Transposed:
    """A Pad in front of a transposed convolution.

    Attributes:
        begin: What it puts in front.
        end: What it puts behind.
        pads: Of the convolution, in front and behind.
        stride: Of the convolution.
        fill: What is padded with.
        grouped: Whether there are groups.
        more: Further attributes of the convolution.
        also: Makes another output of what is padded.
        lost: Whether the plugin's result is another one.
    """

    begin: int = 1
    end: int = 0
    pads: tuple[int, int] = (2, 2)
    stride: int = 2
    fill: float = 0
    grouped: bool = False
    more: dict[str, Any] = dataclasses.field(default_factory=dict)
    also: bool = False
    lost: bool = True

    def build(self, x: Any) -> Any:
        sizes = np.array([0, 0, self.begin]), np.array([0, 0, self.end])
        padded = opset1.pad(x, *sizes, "constant", F32(self.fill))
        op = opset1.group_convolution_backprop_data if self.grouped else opset1.convolution_backprop_data
        weights = numbers(2, 1, 3, 4) if self.grouped else numbers(2, 3, 4)
        pads = {"pads_begin": [self.pads[0]], "pads_end": [self.pads[1]], "dilations": [1]}
        y = op(padded, weights, [self.stride], **pads, **self.more)
        return [y, opset1.relu(padded)] if self.also else y


@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize(
    "case",
    [
        Transposed(),
        Transposed(begin=0, end=2),
        Transposed(begin=2, end=1, stride=3),
        Transposed(grouped=True),
        Transposed(more={"output_padding": [1]}),
        Transposed(stride=1, lost=False),
        Transposed(begin=3, lost=False),
        Transposed(end=1, pads=(1, 0), lost=False),
        Transposed(begin=0, lost=False),
        Transposed(fill=1, lost=False),
        Transposed(more={"auto_pad": "valid"}, lost=False),
        Transposed(more={"output_shape": np.array([9])}, lost=False),
        Transposed(also=True, lost=False),
    ],
    ids=unlike_default,
)
def test_transposed_convolutions_behind_a_pad(case: Transposed, dynamic: bool) -> None:
    """Another output of what is padded keeps the plugin from merging."""
    x = numbers(1, 2, 5)
    expected = run_openvino(model_of(dataclasses.replace(case, also=True).build, [[x]]), [[x]])[0][0]
    source = model_of(case.build, [[x]], [[1, 2, -1 if dynamic else 5]])
    converted = conversion(source, semantics="runtime")
    assert_close(run_onnx(converted, [[x]])[0][0], expected, 8)
    assert (run_openvino(source, [[x]])[0][0].shape != expected.shape) == case.lost
    assert [("without multiplying it by the strides" in text) for text in converted.warnings if "Pad" in text] == (
        [True] * case.lost
    )


def turned(x: Any) -> Any:
    return opset1.transpose(x, np.array([0, 2, 1], np.int32))


def between(act: Build, front: Build = lambda x: x, behind: Build | None = None) -> Build:
    """Returns what makes a convolution, and what acts on its result with the channels last."""

    def build(x: Any) -> Any:
        y = turned(act(turned(front(convolution(x)))))
        return y if behind is None else behind(y)

    return build


CHANNELS = numbers(3, 1)
TURNED: dict[str, Build] = {
    "relu": between(opset1.relu),
    "a number": between(lambda x: opset1.multiply(x, F32(2))),
    "several": between(lambda x: opset1.tanh(opset1.add(opset1.sigmoid(x), np.full([1, 1, 1], 0.5, F32)))),
    "bias and activation in front": between(opset1.relu, lambda x: opset1.elu(opset1.add(x, CHANNELS), 1.0)),
    "another input in front": between(opset1.relu, lambda x: opset1.concat([opset1.abs(x), x], 1)),
    "grouped": lambda x: turned(opset1.relu(turned(convolution(x, GROUPED)))),
    "a sum with its activation behind": between(
        opset1.relu, behind=lambda y: opset1.add(y, opset1.abs(opset1.tanh(y)))
    ),
    "two activations behind": between(
        opset1.relu, behind=lambda y: opset1.softmax(opset1.subtract(opset1.elu(y, 0.5), opset1.sigmoid(y)), 1)
    ),
    "read on": between(opset1.relu, behind=lambda y: opset1.softmax(y, 1)),
    "a transposed convolution behind": between(
        opset1.relu,
        behind=lambda y: opset1.convolution_backprop_data(
            y, numbers(3, 2, 2), [1], pads_begin=[0], pads_end=[0], dilations=[1]
        ),
    ),
}
KEPT: dict[str, Build] = {
    "nothing between": between(lambda x: x),
    "numbers per channel": between(lambda x: opset1.multiply(x, CHANNELS.ravel())),
    "a number first": between(lambda x: opset1.subtract(F32(1), x)),
    "swish": between(opset4.swish),
    "softmax": between(lambda x: opset1.softmax(x, 2)),
    "normalized in front": between(opset1.relu, lambda x: opset6.mvn(x, np.array([2]), True, 1e-3, "inside_sqrt")),
    "a convolution behind": between(opset1.relu, behind=lambda y: convolution(y, numbers(2, 3, 3))),
    "read twice": between(opset1.relu, behind=lambda y: [opset1.abs(y), opset1.softmax(y, 1)]),
    "read twice by activations": between(opset1.relu, behind=lambda y: [opset1.abs(y), opset1.tanh(y)]),
    "squared": between(opset1.relu, behind=lambda y: opset1.multiply(y, y)),
    "joined with its activation": between(opset1.relu, behind=lambda y: opset1.concat([y, opset1.tanh(y)], 1)),
    "a sum with its softmax": between(opset1.relu, behind=lambda y: opset1.add(y, opset1.softmax(y, 1))),
    "read between": lambda x: [turned(opset1.relu(t := turned(convolution(x)))), opset1.abs(t)],
    "no convolution": lambda x: turned(opset1.relu(turned(opset1.abs(x)))),
    "other axes": lambda x: opset1.transpose(
        opset1.relu(opset1.transpose(convolution(x), np.array([2, 1, 0]))), np.array([2, 1, 0])
    ),
}


@pytest.mark.parametrize("name", [*TURNED, *KEPT])
def test_transposes_around_activations(name: str) -> None:
    """With a dynamic size the plugin leaves the Transposes where they are."""
    build = (TURNED | KEPT)[name]
    feed = [numbers(1, 2, 9)]
    expected = run_openvino(model_of(build, [feed], [[1, 2, -1]]), [feed])[0]
    source = model_of(build, [feed])
    converted = conversion(source)
    for mine, right in zip(run_onnx(converted, [feed])[0], expected, strict=True):
        assert_close(mine, right, 16)
    assert [("mixes up the axes" in text) for text in converted.warnings] == [True] * (name in TURNED)
    assert conversion(model_of(build, [feed], [[1, 2, -1]])).warnings == ()
    if name in KEPT:
        for theirs, right in zip(run_openvino(source, [feed])[0], expected, strict=True):
            assert_close(theirs, right, 16)


TAP = numbers(3, 2, 1, 1)


def strided(
    x: Any, filter: np.ndarray = TAP, strides: Any = (2, 2), pads: Any = (1, 1), auto_pad: str = "explicit"
) -> Any:
    op = opset1.group_convolution if filter.ndim == 5 else opset1.convolution
    return op(x, filter, list(strides), list(pads), list(pads), [1, 1], auto_pad)


def image(*shape: int) -> np.ndarray:
    return numbers(*shape, seed=3)


def padded(x: Any, count: int = 1, fill: float = 0) -> Any:
    pads = np.array([0, 0, count, count])
    return opset12.pad(x, pads, pads, "constant", F32(fill))


MOVED: dict[str, Build] = {
    "relu": lambda x: strided(opset1.relu(x)),
    "sum": lambda x: strided(opset1.add(x, image(1, 2, 1, 1))),
    "difference with a number": lambda x: strided(opset1.subtract(F32(1), x)),
    "convolution": lambda x: strided(opset1.convolution(x, image(2, 2, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1])),
    "quotient of a number": lambda x: strided(opset1.divide(F32(1), x)),
    "negated behind": lambda x: strided(opset1.negative(opset1.relu(x))),
    "product behind": lambda x: strided(opset1.multiply(opset1.relu(x), image(2, 1, 1))),
    "one axis": lambda x: strided(opset1.relu(x), strides=(2, 1)),
    "one axis padded": lambda x: strided(opset1.relu(x), pads=(0, 1)),
    "padded in front": lambda x: opset1.convolution(opset1.relu(x), TAP, [2, 2], [1, 0], [0, 0], [1, 1]),
    "two alike": lambda x: [strided(t := opset1.relu(x)), opset1.abs(strided(t, image(1, 2, 1, 1)))],
    "two alike behind products": lambda x: [
        strided(opset1.multiply(t := opset1.relu(x), F32(2))),
        strided(opset1.multiply(t, F32(3)), image(1, 2, 1, 1)),
    ],
    "a Pad": lambda x: strided(padded(opset1.relu(x)), pads=(0, 0)),
    "a Pad beside auto_pad": lambda x: strided(padded(opset1.relu(x)), auto_pad="same_lower"),
    "a Pad behind a product": lambda x: strided(padded(opset1.multiply(opset1.relu(x), image(2, 1, 1))), pads=(0, 0)),
    "a Pad of nothing": lambda x: strided(padded(opset1.relu(x), 0)),
    "two alike, of which one is behind a Pad": lambda x: [
        strided(t := opset1.relu(x)),
        strided(padded(t, 2), image(1, 2, 1, 1), pads=(0, 0)),
    ],
}
STAYING: dict[str, Build] = {
    "nothing": strided,
    "product": lambda x: strided(opset1.multiply(x, image(2, 1, 1))),
    "quotient by a number": lambda x: strided(opset1.divide(x, F32(3))),
    "negated": lambda x: strided(opset1.negative(x)),
    "swish": lambda x: strided(opset4.swish(x)),
    "pooled": lambda x: strided(opset1.max_pool(opset1.relu(x), [1, 1], [0, 0], [0, 0], [1, 1])),
    "three taps": lambda x: strided(opset1.relu(x), image(3, 2, 1, 3)),
    "no strides": lambda x: strided(opset1.relu(x), strides=(1, 1)),
    "no padding": lambda x: strided(opset1.relu(x), pads=(0, 0)),
    "padded along another axis": lambda x: strided(opset1.relu(x), strides=(2, 1), pads=(0, 1)),
    "valid": lambda x: strided(opset1.relu(x), auto_pad="valid"),
    "grouped": lambda x: strided(opset1.relu(x), image(2, 3, 1, 1, 1)),
    "transposed": lambda x: opset1.convolution_backprop_data(
        opset1.relu(x), image(2, 3, 1, 1), [2, 2], pads_begin=[1, 1], pads_end=[1, 1], dilations=[1, 1]
    ),
    "read by others": lambda x: [strided(t := opset1.relu(x)), opset1.sigmoid(t)],
    "read with other strides": lambda x: [strided(t := opset1.relu(x)), strided(t, strides=(3, 3))],
    "an output": lambda x: [strided(t := opset1.relu(x)), t],
    "a product of what others read": lambda x: [strided(opset1.multiply(t := opset1.relu(x), F32(2))), opset1.abs(t)],
    "auto_pad": lambda x: strided(opset1.relu(x), auto_pad="same_upper"),
    "a product behind a Pad": lambda x: strided(opset1.multiply(padded(opset1.relu(x)), image(2, 1, 1)), pads=(0, 0)),
    "a Pad of another number": lambda x: strided(padded(opset1.relu(x), fill=0.5), pads=(0, 0)),
    "a Pad that others read": lambda x: [strided(t := padded(opset1.relu(x)), pads=(0, 0)), opset1.abs(t)],
    "a Pad of what others read": lambda x: [strided(padded(t := opset1.relu(x)), pads=(0, 0)), opset1.abs(t)],
    "no strides behind a Pad": lambda x: strided(padded(opset1.relu(x)), strides=(1, 1), pads=(0, 0)),
}


@pytest.mark.parametrize("name", [*MOVED, *STAYING])
def test_strides_of_one_tap(name: str) -> None:
    """With dynamic sizes the plugin leaves strides where they are."""
    build = (MOVED | STAYING)[name]
    feed = [numbers(1, 2, 7, 7)]
    expected = run_openvino(model_of(build, [feed], [[1, 2, -1, -1]]), [feed])[0]
    assert conversion(model_of(build, [feed], [[1, 2, -1, -1]])).warnings == ()
    source = model_of(build, [feed], [[-1, 2, 7, 7]])
    converted = conversion(source)
    for mine, right in zip(run_onnx(converted, [feed])[0], expected, strict=True):
        assert_close(mine, right, 8)
    theirs = run_openvino(source, [feed])[0]
    assert (theirs[0].shape != expected[0].shape) == (name in MOVED)
    warned = [("moves the strides" in text) for text in converted.warnings]
    assert warned == [True] * ((1 + name.startswith("two alike")) if name in MOVED else 0)


@pytest.mark.parametrize(
    "front",
    [lambda x: opset1.add(x, image(1, 1, 7, 7)), lambda x: opset1.multiply(opset1.sqrt(opset1.abs(x)), image(7))],
)
def test_strides_behind_an_image(front: Build) -> None:
    """Where what is in front is an output as well, the plugin leaves strides where they are."""
    feed = [numbers(1, 2, 7, 7)]
    expected = run_openvino(model_of(lambda x: [strided(t := front(x)), t], [feed]), [feed])[0][0]
    source = model_of(lambda x: strided(front(x)), [feed])
    converted = conversion(source)
    assert_close(run_onnx(converted, [feed])[0][0], expected, 8)
    assert run_openvino(source, [feed])[0][0].shape != expected.shape
    assert [("moves the strides" in text) for text in converted.warnings] == [True]

"""Declared output sizes of emitted convolutions, for any sizes and attributes drawn by hypothesis."""

from __future__ import annotations

import hypothesis
import hypothesis.strategies as st
import numpy as np
import onnx_ir as ir

from ortconv.converters.conv.emit import conv, conv_transpose
from ortconv.converters.conv.layout import Layout
from ortconv.converters.conv.window import Window
from ortconv.convolution_arithmetic import AutoPad, conv_size, conv_transpose_size
from ortconv.errors import NodeRef, ShapeError
from ortconv.frontend.source_graph import SourceNode, SourceValue
from ortconv.graph.builder import Builder
from ortconv.options import Options, Target

small = st.integers(1, 7)


@st.composite
def emissions(draw: st.DrawFn) -> tuple[bool, Window, list[int], list[int], tuple[int, ...], tuple[int, ...]]:
    rank = draw(st.integers(1, 3))
    many = st.lists(small, min_size=rank, max_size=rank)
    pads = st.lists(st.integers(0, 9), min_size=rank, max_size=rank)
    window = Window(tuple(draw(many)), tuple(draw(many)), draw(st.integers(1, 3)))
    return draw(st.booleans()), window, draw(many), draw(many), tuple(draw(pads)), tuple(draw(pads))


@hypothesis.given(emissions(), st.sampled_from(["auto", "plugin"]))
def test_declared_size_is_the_formula(
    drawn: tuple[bool, Window, list[int], list[int], tuple[int, ...], tuple[int, ...]], target: Target
) -> None:
    transposed, window, spatial, kernel, begin, end = drawn
    builder = Builder(Options(target=target))
    result = SourceValue("y", ir.DataType.FLOAT, None)
    builder.begin(SourceNode(NodeRef("test", "op", "node", "1"), (), (result,)))
    channels = (2 * window.group, 3) if transposed else (3 * window.group, 2)
    x = ir.val("x", ir.DataType.FLOAT, [1, 2 * window.group, *spatial])
    w = ir.val("w", ir.DataType.FLOAT, [*channels, *kernel])
    layout = Layout.ncx(window.rank)
    pads = np.add(begin, end)
    if transposed:
        expected = [
            conv_transpose_size(*axis) for axis in zip(spatial, kernel, window.strides, window.dilations, strict=True)
        ] - pads
    else:
        expected = np.array(
            [conv_size(*axis) for axis in zip(spatial, kernel, window.strides, window.dilations, pads, strict=True)]
        )
    allowed = all(expected >= (0 if transposed else 1))
    try:
        if transposed:
            y = conv_transpose(builder, x, w, None, window, layout, begin=begin, end=end)
        else:
            y = conv(builder, x, w, None, window, layout, auto_pad=AutoPad.NOTSET, begin=begin, end=end)
    except ShapeError:
        assert not allowed
        return
    assert allowed
    assert y.shape is not None
    assert list(y.shape) == [1, 3 * window.group, *expected.tolist()]

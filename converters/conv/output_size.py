"""A given output size of a transposed convolution, and the padding that follows from it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import onnx_ir as ir

from ortconv.converters.conv.layout import Layout, sizes
from ortconv.converters.conv.window import Window
from ortconv.convolution_arithmetic import AutoPad, conv_transpose_begin, conv_transpose_size
from ortconv.graph.builder import Ints
from ortconv.graph.symbolic_shapes import Entry, Linear, of_axis

__all__ = ["OutputSize"]


@dataclasses.dataclass(frozen=True)
class OutputSize:
    """Spatial output sizes of a transposed convolution that fix its padding when converting.

    The padding depends on F - Y alone. Along an axis of symbolic size where Y grows by the stride as the input grows by
    one, both are those of an empty input.

    Attributes:
        full: F per spatial axis.
        size: Y per spatial axis.
    """

    full: Ints
    size: Ints

    @classmethod
    def of(
        cls, x: ir.Value, w: ir.Value, output_shape: Sequence[Entry], window: Window, layout: Layout
    ) -> OutputSize | None:
        """Returns the sizes, None if the padding of an axis depends on runtime values.

        Args:
            x: Data.
            w: Weights.
            output_shape: What is known of Y, one entry per spatial axis.
            window: Strides and dilations.
            layout: The layout of `x` and `w`.
        """
        kernel = sizes(w, layout.w_perm)[2:]
        full: list[int] = []
        size: list[int] = []
        for axis, y in enumerate(output_shape):
            given: Entry = None if x.shape is None else of_axis(x, layout.x_perm[axis + 2])
            taps, stride = kernel[axis], window.strides[axis]
            if isinstance(given, Linear) and isinstance(y, Linear) and y.follows(given) and y.scale == stride:
                given, y = 0, y.offset
            if not isinstance(given, int) or not isinstance(y, int) or taps is None:
                return None
            full.append(conv_transpose_size(given, taps, stride, window.dilations[axis]))
            size.append(y)
        return cls(tuple(full), tuple(size))

    def begin(self, auto_pad: AutoPad, pads: Ints, output_padding: Ints) -> Ints:
        """Returns the begin padding per axis; `pads` under NOTSET."""
        axes = zip(self.full, self.size, output_padding, pads, strict=True)
        return tuple(conv_transpose_begin(auto_pad, *axis) for axis in axes)

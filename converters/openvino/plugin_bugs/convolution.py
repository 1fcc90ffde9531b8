"""Bugs of convolutions, other than those of a Pad in front."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from ortconv.converters.conv.window import Window
from ortconv.converters.openvino.plugin_bugs.bug import Bug, Live, convolution, random
from ortconv.converters.openvino.plugin_bugs.network import BINARY, UNARY, Network, input_of, integers_of, shapes_of
from ortconv.convolution_arithmetic import AutoPad, conv_size, same_padding
from ortconv.frontend.source_graph import SourceNode, SourceValue
from ortconv.graph.builder import Builder, Ints

__all__ = ["ATROUS_CONVOLUTION", "CHANNELS_REORDERED", "ONE_COLUMN", "leaves_one_column"]

_SEVERAL = 2
"""Stands for a dynamic size."""

_STRIDES_PASS = UNARY | BINARY | {"Convolution", "Sign"}
"""Ops that take over the strides of a convolution behind them."""

_SCALES = {"Divide": [[False, True]], "Multiply": [[False, True], [True, False]]}
"""Ops that scale, and which of their inputs are constants then."""


def leaves_one_column(
    b: Builder, data: ir.Value, filter: ir.Value, window: Window, auto_pad: AutoPad, begin: Ints, end: Ints
) -> bool:
    """Tells whether strides along the last axis alone leave one column, and the kernel is not as wide as the data.

    Args:
        b: The builder.
        data: The image; the bug concerns one channel of static width.
        filter: The weights.
        window: Strides and dilations.
        auto_pad: How the padding is computed; NOTSET takes `begin` and `end`.
        begin: Begin paddings.
        end: End paddings.
    """
    if data.shape is None or filter.shape is None:
        return False
    channels, *spatial = data.shape[1:]
    taps = filter.shape[2:]
    *others, stride = window.strides
    if len(spatial) != len(taps):
        return False
    if channels != 1 or stride == 1 or set(others) != {1} or window.dilations[-1] != 1:
        return False
    sizes: list[int] = []
    alike = True
    for axis, (size, count) in enumerate(zip(spatial, taps, strict=True)):
        if not isinstance(size, int) or not isinstance(count, int):
            if axis == window.rank - 1:
                return False
            sizes.append(_SEVERAL)
            continue
        step, dilation = window.strides[axis], window.dilations[axis]
        explicit = auto_pad == AutoPad.NOTSET
        padding = begin[axis] + end[axis] if explicit else same_padding(size, count, step, dilation)
        sizes.append(conv_size(size, count, step, dilation, padding))
        alike = size == count and not padding
    *rows, columns = sizes
    return columns == 1 and not alike and max(rows) > 1


def _pointwise_with_strides(network: Network) -> Iterator[SourceNode]:
    for node in network.nodes:
        if node.ref.op_type == "Convolution" and _moves_strides(network, node):
            yield node


def _moves_strides(network: Network, node: SourceNode) -> bool:
    strides, (data, pads) = _pointwise_strides(node), _all_padding(network, node)
    if not any(stride > 1 and pad for row in pads for stride, pad in zip(strides, row, strict=False)):
        return False
    while (scaled := network.sole_producer(data)) is not None and _scales_channels(scaled):
        data = next((value for value in scaled.inputs if value is not None and value.constant is None), None)
    front = network.producer(data)
    if data is None or front is None or front.ref.op_type not in _STRIDES_PASS:
        return False
    return all(_takes_strides(network, consumer, strides) for consumer in network.consumers[data])


def _pointwise_strides(node: SourceNode) -> list[int]:
    """Returns the strides of a Convolution of static data with a kernel of size 1; none for other nodes."""
    data, kernel = shapes_of(node)
    if node.ref.op_type != "Convolution" or data is None or kernel is None or len(data) != len(kernel):
        return []
    if any(count != 1 for count in kernel[2:]) or not all(isinstance(size, int) for size in data[2:]):
        return []
    return integers_of(node.attributes.get("strides", ""))


def _all_padding(network: Network, node: SourceNode) -> tuple[SourceValue | None, list[list[float]]]:
    """Returns the data and the begin and end paddings of a convolution, both of a Pad that is merged into it."""
    pads: list[list[float]] = []
    if str(node.attributes.get("auto_pad", "explicit")).lower() == "explicit":
        pads += ([*integers_of(node.attributes.get(name, ""))] for name in ("pads_begin", "pads_end"))
    data, zeros = input_of(node, 0), network.zeros_padded(node)
    pad = network.sole_producer(data)
    return (data, pads) if pad is None or zeros == [[], []] else (input_of(pad, 0), [*pads, *zeros])


def _scales_channels(node: SourceNode) -> bool:
    """Tells whether a node multiplies by a constant that the plugin folds into the weights behind it."""
    if node.ref.op_type == "Negative":
        return True
    shape = node.outputs[0].shape
    constants = [value is not None and value.constant is not None for value in node.inputs]
    if constants not in _SCALES.get(node.ref.op_type, []) or shape is None:
        return False
    factor = node.inputs[constants.index(True)]
    return factor is not None and all(size == 1 for size in (factor.shape or ())[2 - len(shape) :])


def _takes_strides(network: Network, node: SourceNode | None, strides: Sequence[int]) -> bool:
    """Tells whether a node is a pointwise convolution with such strides, or has one as its sole consumer."""
    if node is None:
        return False
    if node.ref.op_type == "Convolution":
        return _pointwise_strides(node) == strides
    behind = network.sole_consumer(node)
    if behind is None or not (_scales_channels(node) or _all_padding(network, behind)[0] in node.inputs):
        return False
    return _takes_strides(network, behind, strides)


STRIDES_MOVED = Bug(
    op="Convolution",
    case="a kernel of size 1 with strides and padding, behind activations, sums or a convolution",
    fault="moves the strides to the op in front and pads its result as before, so that the result is larger",
    live=Live(
        lambda ov, x: convolution(ov, ov.opset1.relu(x), random(3, 2, 1, 1), strides=[2, 2], pad=1),
        [random(1, 2, 7, 7)],
        right_shapes=[[1, 2, -1, -1]],
    ),
    matches=_pointwise_with_strides,
)

_FILTER = random(2, 1, 4, 4)

ONE_COLUMN = Bug(
    op="Convolution, GroupConvolution",
    case="data of one channel, strides along the last axis that leave one column, and a kernel narrower than the data",
    fault="may take wrong rows",
    live=Live(
        lambda ov, x: convolution(ov, x, _FILTER, strides=[1, 4]),
        [random(2, 1, 6, 5)],
        lambda ov, x: convolution(
            ov, ov.opset1.concat([x, x], 1), np.concatenate([_FILTER, 0 * _FILTER], 1), strides=[1, 4]
        ),
        steady=False,
    ),
)


def _atrous(ov: Any, x: Any, *, merged: bool) -> Any:
    """Makes a convolution with strides between SpaceToBatch and BatchToSpace, and an Add that prevents the merge."""
    block, none = np.array([1, 1, 2]), np.zeros(3, np.int64)
    spread = ov.opset2.space_to_batch(x, block, none, none)
    data = spread if merged else ov.opset1.add(spread, np.float32(1e-9))
    return ov.opset2.batch_to_space(convolution(ov, data, random(3, 2, 2), strides=[2]), block, none, none)


ATROUS_CONVOLUTION = Bug(
    op="BatchToSpace",
    case="a convolution between SpaceToBatch and BatchToSpace that is not exactly a dilated convolution",
    fault="may merge the three into one dilated convolution, and drops what does not fit",
    live=Live(
        lambda ov, x: _atrous(ov, x, merged=True), [random(1, 2, 12)], lambda ov, x: _atrous(ov, x, merged=False)
    ),
)

CHANNELS_REORDERED = Bug(
    op="Gather",
    case="a constant order of all channels that is not its own inverse, which a convolution may follow",
    fault="reorders the channels by the inverse order in front of a convolution",
    live=Live(
        lambda ov, x: convolution(
            ov, ov.opset1.relu(ov.opset8.gather(x, np.array([1, 2, 0]), np.array(1))), random(6, 3, 1, 1)
        ),
        [random(1, 3, 4, 4)],
        np.einsum("nchw,mcij->nmhw", np.maximum(random(1, 3, 4, 4)[:, [1, 2, 0]], 0), random(6, 3, 1, 1)),
    ),
)

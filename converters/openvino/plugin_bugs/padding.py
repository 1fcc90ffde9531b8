"""Bugs of Pad, alone and in front of convolutions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ortconv.converters.openvino.plugin_bugs.bug import Bug, Live, convolution, random
from ortconv.converters.openvino.plugin_bugs.network import CONVOLUTIONS, Network, integers_of, shapes_of
from ortconv.frontend.source_graph import SourceNode

__all__ = ["PAD_VALUE_AT_RUN_TIME"]

_TRANSPOSED = frozenset({"ConvolutionBackpropData", "GroupConvolutionBackpropData"})
_SAME = frozenset({"same_upper", "same_lower"})


def _with_auto_pad(network: Network) -> Iterator[SourceNode]:
    for node in network.nodes if "Pad" in network.op_types else ():
        auto_pad = str(node.attributes.get("auto_pad", "")).lower()
        is_affected = node.ref.op_type in CONVOLUTIONS and auto_pad in _SAME and _pads_dynamic_axis(node)
        if is_affected and any(map(any, network.zeros_padded(node))):
            yield node


def _pads_dynamic_axis(node: SourceNode) -> bool:
    """Tells whether a convolution has a dynamic axis with a kernel larger than 1."""
    data, kernel = shapes_of(node)
    if data is None or kernel is None or len(data) < 3:
        return False
    taps = kernel[len(kernel) - len(data) + 2 :]
    return any(not isinstance(size, int) and count != 1 for size, count in zip(data[2:], taps, strict=False))


def _transposed(network: Network) -> Iterator[SourceNode]:
    for node in network.nodes if "Pad" in network.op_types else ():
        if node.ref.op_type not in _TRANSPOSED or len(node.inputs) != 2:
            continue
        strides, *pads = (integers_of(node.attributes.get(name, "")) for name in ("strides", "pads_begin", "pads_end"))
        zeros = network.zeros_padded(node)
        rows = [row for side in zip(zeros, pads, strict=True) for row in zip(*side, strides, strict=False)]
        if all(count <= pad for count, pad, _ in rows) and any(count and stride > 1 for count, _, stride in rows):
            yield node


def _padded(ov: Any, x: Any) -> Any:
    return ov.opset1.pad(x, np.array([0, 0, 1]), np.array([0, 0, 1]), "constant", np.float32(0))


def _transposed_convolution(ov: Any, x: Any) -> Any:
    return ov.opset1.convolution_backprop_data(x, random(2, 3, 4), [2], pads_begin=[2], pads_end=[2], dilations=[1])


_ZERO = np.zeros((1, 2, 1), np.float32)

PAD_BEFORE_AUTO_PAD = Bug(
    op="Convolution, GroupConvolution",
    case="a Pad of zeros in front, auto_pad same_upper or same_lower, and a dynamic axis",
    fault="merges the Pad into the convolution and drops the padding of auto_pad",
    live=Live(
        lambda ov, x: convolution(ov, _padded(ov, x), random(3, 2, 4), auto_pad="same_upper"),
        [random(1, 2, 9)],
        shapes=[[1, 2, -1]],
        right_shapes=[[1, 2, 9]],
    ),
    matches=_with_auto_pad,
)

PAD_BEFORE_TRANSPOSED_CONVOLUTION = Bug(
    op="ConvolutionBackpropData, GroupConvolutionBackpropData",
    case="a Pad of zeros in front of a transposed convolution with strides",
    fault="merges the Pad without multiplying it by the strides, so that the result is smaller",
    live=Live(
        lambda ov, x: _transposed_convolution(ov, _padded(ov, x)),
        [random(1, 2, 5)],
        lambda ov, x: _transposed_convolution(ov, ov.opset1.concat([_ZERO, x, _ZERO], 2)),
    ),
    matches=_transposed,
)

PAD_VALUE_AT_RUN_TIME = Bug(
    op="Pad",
    case="pad_value is known only at run time and the shape of the data is static",
    fault="pads with 0",
    live=Live(
        lambda ov, x, value: ov.opset1.pad(x, np.array([0, 1]), np.array([0, 1]), "constant", value),
        [random(2, 3), np.array(2, np.float32)],
        np.pad(random(2, 3), [(0, 0), (1, 1)], constant_values=2),
    ),
)

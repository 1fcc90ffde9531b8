"""ShuffleChannels."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.lib.constants import (
    normalized,
)
from ortconv.converters.openvino.lib.sizes import (
    calculate,
    reshaped,
    sizes_of,
)
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import UnsupportedAttributeError
from ortconv.graph.builder import Builder


@REGISTRY.lowering("ShuffleChannels", since=1)
def shuffle_channels(b: Builder, data: ir.Value, /, *, axis: int = 1, group: int = 1) -> ir.Value:
    """Reshape, Transpose, Reshape."""
    sizes = sizes_of(b, data, "data")
    (along,) = normalized((axis,), len(sizes), "axis")
    channels = sizes[along]
    if group < 1 or (isinstance(channels, int) and channels % group):
        raise UnsupportedAttributeError("group", group, f"a divisor of the axis' size, {channels}")
    split = [*sizes[:along], group, calculate(b, "Div", channels, group), *sizes[along + 1 :]]
    perm = [*range(along), along + 1, along, *range(along + 2, len(split))]
    return reshaped(b, b.op("Transpose", reshaped(b, data, split), perm=perm), sizes)

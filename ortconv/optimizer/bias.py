"""Add of a constant that has one value per channel, or one for all -> the bias.

The Add of another result, as of a skip connection, is a residual: see there.
"""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.opset import NO_ACTIVATION
from ortconv.optimizer.neighbours import reader, require_alone
from ortconv.optimizer.site import Kept, Site, named
from ortconv.optimizer.values import constant, is_zero

__all__ = ["fold"]


def fold(site: Site) -> str | None:
    """Takes in the Add that reads the output.

    Not in float16, where the result would be rounded once and not twice, and not onto another bias, since the sum of
    two biases is rounded, too.
    """
    node = reader(site, "Add")
    if node is None:
        return None
    data = next((data for value in node.inputs if (data := constant(value)) is not None), None)
    if data is None:
        return None
    require_alone(site.output, node, site)
    rank = site.rank + 2
    if len(data.shape) > rank:
        raise Kept(f"{named(node)}: what it adds has more axes than the result")
    dims = (1,) * (rank - len(data.shape)) + tuple(data.shape.numpy())
    channel = site.y_perm.index(1)
    if any(dim != 1 for axis, dim in enumerate(dims) if axis != channel) or dims[channel] not in (1, site.channels):
        return None  # Not a bias: a constant of the size of the result, or one that enlarges it.
    if site.channels is None:
        raise Kept(f"{named(node)}: the number of channels is not known")
    if site.dtype == ir.DataType.FLOAT16:
        raise Kept(f"{named(node)}: float16 rounds before it and after it, a bias would round once")
    if site.residual is not None:
        raise Kept(f"{named(node)}: it stands behind an Add of {site.residual.name}; ours adds its bias before that")
    if site.activation != NO_ACTIVATION:
        raise Kept(f"{named(node)}: there is an activation already, which ours would apply after it")
    if not is_zero(site.bias):
        raise Kept(f"{named(node)}: there is a bias already, and the sum of two would be rounded in another order")
    site.bias = np.broadcast_to(data.numpy().reshape(-1), (site.channels,)).copy()
    site.take(node)
    return f"{named(node)} as bias"

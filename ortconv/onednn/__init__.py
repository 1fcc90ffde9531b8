"""Builds oneDNN graphs in Python, with the op kinds and attributes of oneDNN's specification.

Specification: https://uxlfoundation.github.io/oneDNN/graph_supported_operations.html.

Example:
    A backward-data convolution, saved as JSON and converted::

        from ortconv import convert, onednn

        g = onednn.Graph("up")
        x = g.tensor("diff_dst", "f32", [1, 16, 16, 64])
        w = g.tensor("weights", "f32", [4, 4, 32, 64], constant=True)
        y = g.op("ConvolutionBackwardData", [x, w], strides=[2, 2], pads_begin=[0, 0], pads_end=[0, 0],
                 dilations=[1, 1], auto_pad="same_lower", dst_shape=[1, 32, 32, 32])
        g.save("up.json")
        model = convert(g)
"""

from __future__ import annotations

import ortconv.onednn.kinds  # noqa: F401  (defines the op kinds)
from ortconv.onednn.graph import OWN_FIELD, UNKNOWN, Graph, Op, Tensor, graph_inputs, graph_outputs

__all__ = ["OWN_FIELD", "UNKNOWN", "Graph", "Op", "Tensor", "graph_inputs", "graph_outputs"]

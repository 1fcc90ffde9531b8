"""Mixtures of experts: where a table says which rows go to which expert, each expert computes its own rows only.

OpenVINO's CPU plugin computes the rows that were chosen, and so does this.
"""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.patterns.compressed_experts import chosen_sum
from ortconv.converters.openvino.patterns.conditional_experts import conditional_sum
from ortconv.converters.openvino.patterns.mixture_of_experts import Mixture
from ortconv.graph.builder import Builder

__all__ = ["routed_sum"]


def routed_sum(b: Builder, data: ir.Value) -> ir.Value | None:
    """Returns the sum over the first axis of what experts give, or None where the data are something else.

    Args:
        b: The builder.
        data: Results of experts [experts, rows, ...] times the table's numbers.
    """
    node = data.producer()
    if b.repeated or node is None or (node.domain, node.op_type) != ("", "Mul"):
        return None
    for results, weights in (node.inputs, reversed(node.inputs)):
        mixture = None if results is None or weights is None else Mixture.of(results, weights)
        if mixture is not None:
            chosen = chosen_sum(b, mixture)
            return conditional_sum(b, mixture) if chosen is None else chosen
    return None

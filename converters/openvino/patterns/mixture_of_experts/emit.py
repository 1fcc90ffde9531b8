"""Emits a mixture of experts so that each expert computes only the rows that chose it, as in OpenVINO."""

from __future__ import annotations

import onnx_ir as ir

from ortconv.converters.openvino.patterns.mixture_of_experts.compressed import compressed_sum
from ortconv.converters.openvino.patterns.mixture_of_experts.conditional import conditional_sum
from ortconv.converters.openvino.patterns.mixture_of_experts.match import Mixture
from ortconv.graph.builder import Builder

__all__ = ["mixture_sum"]


def mixture_sum(b: Builder, data: ir.Value) -> ir.Value | None:
    """Emits the sum over the first axis of the weighted results of experts; None if the data are something else.

    Args:
        b: The builder.
        data: Results of experts [experts, rows, ...] times routing weights.
    """
    node = data.producer()
    if b.repeated or node is None or (node.domain, node.op_type) != ("", "Mul"):
        return None
    for results, weights in (node.inputs, reversed(node.inputs)):
        mixture = None if results is None or weights is None else Mixture.of(results, weights)
        if mixture is not None:
            total = compressed_sum(b, mixture)
            return conditional_sum(b, mixture) if total is None else total
    return None

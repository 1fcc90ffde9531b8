"""Passes: rewrites of a whole lowered graph.

A pass is a module with a function ``run(graph, context)``, which returns how many places it rewrote. It rewrites what
one lowering cannot see: what stands before and behind a node. Most write the form that ONNX Runtime looks for when it
fuses nodes.

`unused` runs onnx_ir's RemoveUnusedNodesPass. Three more of its passes are not used, as measured on converted files:
DeduplicateInitializersPass shares the zero points and int8 weights again that `unshared_weights` gives to each node (24
of 284 files change); CommonSubexpressionEliminationPass finds only what ONNX Runtime finds when it loads a model (28 of
284); IdentityEliminationPass finds nothing. Constants are folded while nodes are emitted
(`ortconv.graph.constant_folding`), since lowerings look at them; passes that fold whole models come too late.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from ortconv.passes import (
    beam_reordering,
    bias_fusion,
    branch_sinking,
    channel_fusion,
    constant_shapes,
    float16_storage,
    log_sigmoid,
    norm_fusion,
    unused,
)
from ortconv.passes.context import Context
from ortconv.passes.quantization import (
    dequantized_filters,
    float_layers,
    integer_transposed,
    joined_data,
    qdq_patterns,
    quantized_results,
    rounded_outputs,
    unshared_weights,
)

__all__ = ["PIPELINE", "Context", "run"]

Pass = Callable[[ir.Graph, Context], int]

PIPELINE: tuple[Pass, ...] = (
    # First, while nodes still have the consumers that their lowerings gave them.
    branch_sinking.run,
    # Before the quantization passes, which look for layers that have their bias.
    bias_fusion.run,
    # Before qdq_patterns, which looks for layers of data with one scale.
    joined_data.run,
    # Before the passes below look at QuantizeLinear and DequantizeLinear, which this one emits.
    qdq_patterns.run,
    # After qdq_patterns: transposed convolutions, for which ONNX Runtime has no int8 kernel.
    integer_transposed.run,
    # After qdq_patterns, which emits ConvIntegerToFloat; before the fusions, which change what stands behind it.
    quantized_results.run,
    # After qdq_patterns: filters that no int8 layer uses by now are multiplied as floats.
    dequantized_filters.run,
    # After qdq_patterns: layers between Q and DQ that are no int8 layers by now stay float.
    float_layers.run,
    # After the quantization passes, which recognize the elementwise form; before constant_shapes, which changes shapes.
    norm_fusion.run,
    # After norm_fusion, whose scale and shift have the form of a normalization of channels, too.
    channel_fusion.run,
    # Anywhere after the fusions: the formula has an Add that they might take for a bias.
    log_sigmoid.run,
    # After the fusions, since it moves the append to a KV cache into branches, where they would not find it.
    beam_reordering.run,
    # After the fusions, which match constants in the shapes that lowerings emit.
    constant_shapes.run,
    # After all that emits QuantizeLinear.
    rounded_outputs.run,
    # After all that emits int8 weights, or shares them.
    unshared_weights.run,
    # After all that replaces constants.
    unused.run,
    # Last: it puts a Cast between a constant and its consumers, which no other pass looks through.
    float16_storage.run,
)
"""The passes in the order in which they run, each with the reason for its place."""


def run(graph: ir.Graph, context: Context) -> None:
    """Runs all passes on a graph."""
    for each in PIPELINE:
        each(graph, context)

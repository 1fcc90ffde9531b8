"""Names for the sizes that a model leaves open, so that no two of them pass for the same."""

from __future__ import annotations

import itertools

import onnx_ir as ir

__all__ = ["name_open_sizes"]


def name_open_sizes(model: ir.Model) -> None:
    """Gives every open size of an intermediate result a name of its own; inputs and outputs stay as they are.

    A size without a name is equal to none. But OnnxSlim takes two shapes for the same where both have open sizes
    without names in the same places, and leaves out a Reshape between them.
    """
    values = [value for node in model.graph.all_nodes() for value in node.outputs if not value.is_graph_output()]
    shapes = [value.shape for value in (*model.graph.inputs, *model.graph.outputs, *values) if value.shape is not None]
    taken = {size.value for shape in shapes for size in shape if isinstance(size, ir.SymbolicDim)}
    names = (name for number in itertools.count() if (name := f"unk__{number}") not in taken)
    for value in values:
        shape = value.shape
        if shape is None or all(isinstance(size, int) or size.value is not None for size in shape):
            continue
        value.shape = ir.Shape(
            [next(names) if isinstance(size, ir.SymbolicDim) and size.value is None else size for size in shape]
        )

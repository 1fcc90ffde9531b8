"""Names unknown dimensions, so that no two of them pass for the same."""

from __future__ import annotations

import itertools

import onnx_ir as ir

__all__ = ["name_unknown_dimensions"]


def name_unknown_dimensions(model: ir.Model) -> None:
    """Makes every unknown dimension of an intermediate result a symbolic dimension; inputs and outputs are not changed.

    Unnamed dimensions equal no others. But OnnxSlim takes two shapes for equal where both have unnamed dimensions in
    the same places, and removes a Reshape between them.
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

"""Stores float32 constants that come from a narrower type in that type, behind a Cast to float32.

ONNX Runtime folds the Cast when it loads the model, before it looks for patterns and makes kernels.
"""

from __future__ import annotations

import onnx_ir as ir

from ortconv.graph.annotations import COMPUTED_FROM, STORED_TYPE
from ortconv.passes.context import Context

__all__ = ["run"]

_LEAST = 1 << 11
"""The least bytes of float32 for which a Cast is added."""


def run(graph: ir.Graph, context: Context) -> int:
    """Stores constants in the types that they come from, unless the option `weights` is "f32".

    Args:
        graph: The graph; bodies of its nodes use its constants, too.
        context: Holds the options; records each Cast in the step of a consumer.

    Returns:
        How many constants are stored in a narrower type.
    """
    if context.options.weights != "source":
        return 0
    casts = []
    for name, value in list(graph.initializers.items()):
        tensor = value.const_value
        if tensor is None or STORED_TYPE.get(tensor) is None or tensor.nbytes < _LEAST or value.is_graph_output():
            continue
        user, _ = next(iter(value.uses()))
        narrow = _narrow(tensor)
        stored = ir.Value(name=name, type=ir.TensorType(narrow.dtype), shape=value.shape, const_value=narrow)
        cast = ir.node(
            "Cast",
            [stored],
            {"to": int(tensor.dtype)},
            name=context.unique(f"{name}/Cast"),
            metadata_props=dict(user.metadata_props),
        )
        (wide,) = cast.outputs
        wide.name, wide.type, wide.shape = context.unique(f"{name}/Cast_out"), ir.TensorType(tensor.dtype), value.shape
        ir.convenience.replace_all_uses_with(value, wide)
        graph.initializers.pop(name)
        graph.initializers.add(stored)
        context.record(user, [cast])
        casts.append(cast)
    if casts:
        graph.insert_before(graph[0], casts)
    return len(casts)


def _narrow(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """Returns a constant in its original type: the operand of its cast, or a tensor that is cast when it is read."""
    dtype, computed = STORED_TYPE.get(tensor), COMPUTED_FROM.get(tensor)
    assert dtype is not None
    if computed is not None and computed.op_type == "Cast":
        return computed.data
    return ir.LazyTensor(lambda: ir.tensor(tensor.numpy().astype(dtype.numpy())), dtype, ir.Shape(tensor.shape.numpy()))

"""Constants of float32 that come from a narrower type are stored as that, behind a Cast.

ONNX Runtime folds the Cast when it loads the model, before it looks for patterns and makes kernels.
"""

from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir

from ortconv.graph.constant_folding import ORIGIN, STORED

__all__ = ["store_narrow"]

_LEAST = 1 << 11
"""How many bytes of float32 are worth a node."""


def store_narrow(graph: ir.Graph, unique: Callable[[str], str], tell: Callable[[ir.Node, ir.Node], None]) -> None:
    """Stores constants in the types that they come from.

    Args:
        graph: The graph; its constants serve the bodies of its nodes, too.
        unique: Returns a name that nothing has.
        tell: Told of each Cast: of a node that takes what it makes, and of the Cast.
    """
    casts = []
    for name, value in list(graph.initializers.items()):
        tensor = value.const_value
        if tensor is None or STORED not in tensor.meta or tensor.nbytes < _LEAST or value.is_graph_output():
            continue
        user, _ = next(iter(value.uses()))
        narrow = _narrow(tensor)
        stored = ir.Value(name=name, type=ir.TensorType(narrow.dtype), shape=value.shape, const_value=narrow)
        cast = ir.node(
            "Cast",
            [stored],
            {"to": int(tensor.dtype)},
            name=unique(f"{name}/Cast"),
            metadata_props=dict(user.metadata_props),
        )
        (wide,) = cast.outputs
        wide.name, wide.type, wide.shape = unique(f"{name}/Cast_out"), ir.TensorType(tensor.dtype), value.shape
        ir.convenience.replace_all_uses_with(value, wide)
        graph.initializers.pop(name)
        graph.initializers.add(stored)
        tell(user, cast)
        casts.append(cast)
    if casts:
        graph.insert_before(graph[0], casts)


def _narrow(tensor: ir.TensorProtocol) -> ir.TensorProtocol:
    """Returns a constant in the type that it comes from: what was cast, or a tensor that is cast when it is written."""
    dtype: ir.DataType = tensor.meta[STORED]
    op_type, data, _ = tensor.meta.get(ORIGIN, ("", None, ""))
    if op_type == "Cast":
        assert isinstance(data, ir.TensorProtocol)
        return data
    return ir.LazyTensor(lambda: ir.tensor(tensor.numpy().astype(dtype.numpy())), dtype, ir.Shape(tensor.shape.numpy()))

"""Add of another result, as of a skip connection -> the residual.

Only where it is certain that what is added has the shape of the result: ours adds no other.
"""

from __future__ import annotations

import onnx_ir as ir

from ortconv.model_io import checker
from ortconv.opset.convolution_terms import NO_ACTIVATION
from ortconv.optimizer.neighbours import reader, require_alone
from ortconv.optimizer.site import Kept, Shapes, Site, named

__all__ = ["fold", "infer"]

_UNKNOWN = "unk__"
"""What begins the names that onnx gives to sizes of which it knows nothing."""


def infer(model: ir.Model) -> Shapes:
    """Returns the shapes that follow from those of the model's inputs, by value; sizes are numbers or declared names.

    Shapes that the model states of other values may be wrong, so they are left out.
    """
    copy = model.clone()
    for node in copy.graph:
        for value in node.outputs:
            value.shape = None
    checker.infer_shapes(copy, check_type=False)
    values = [*copy.graph.inputs, *copy.graph.initializers.values(), *(v for node in copy.graph for v in node.outputs)]
    return {str(value.name): tuple(map(_size, value.shape)) for value in values if value.shape is not None}


def fold(site: Site) -> str | None:
    """Fuses the Add that consumes the output; what would lay the sum out in another way stays behind it."""
    node = reader(site, "Add")
    if node is None:
        return None
    require_alone(site.output, node, site)
    residual = next(value for value in node.inputs if value is not site.output)
    assert residual is not None
    if site.output_shape is not None:
        raise Kept(f"{named(node)}: ours with an output_shape has no input for it")
    if site.residual is not None:
        raise Kept(f"{named(node)}: there is a residual already")
    if site.activation != NO_ACTIVATION:
        raise Kept(f"{named(node)}: there is an activation already, which ours would apply after it")
    shape, other = (site.shapes.get(str(value.name)) for value in (site.output, residual))
    if shape is None or shape != other or None in shape or _contradicts(shape, site):
        raise Kept(f"{named(node)}: {residual.name} is not known to have the shape of {site.output.name}")
    site.residual = residual
    site.take(node)
    return f"{named(node)} as residual"


def _size(dim: int | ir.SymbolicDim) -> int | str | None:
    if isinstance(dim, int):
        return dim
    return None if dim.value is None or str(dim.value).startswith(_UNKNOWN) else str(dim.value)


def _contradicts(shape: tuple[int | str | None, ...], site: Site) -> bool:
    return len(shape) != len(site.size) or any(
        certain is not None and certain != size for size, certain in zip(shape, site.size, strict=True)
    )

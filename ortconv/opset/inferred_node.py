"""Access to a node for the shape inference of our operators, with checks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import onnx
import onnx.helper
import onnx.shape_inference

from ortconv.opset.domain import DOMAIN

__all__ = ["Dim", "InferredNode", "differ"]

_MOST = (1 << 63) - 1

Dim = int | str | None
"""A size, the name of a symbolic dimension, or None if neither is known."""


class InferredNode:
    """A node under shape inference, whose attributes and input shapes are checked when they are read."""

    def __init__(self, op_type: str, ctx: Any) -> None:
        self.op_type = op_type
        self.ctx = ctx

    def fail(self, problem: str) -> onnx.shape_inference.InferenceError:
        """Returns the error to raise."""
        return onnx.shape_inference.InferenceError(f"{DOMAIN}.{self.op_type}: {problem}")

    def attribute(self, name: str, kind: int) -> Any:
        """Returns the value of a required attribute of a kind of ``AttributeProto.AttributeType``."""
        found = self.ctx.get_attribute(name)
        if found is None:
            raise self.fail(f"attribute {name} is missing")
        if found.type != kind:
            kinds = onnx.AttributeProto.AttributeType
            raise self.fail(f"attribute {name} has the kind {kinds.Name(found.type)}; allowed: {kinds.Name(kind)}")
        return onnx.helper.get_attribute_value(found)

    def integer(self, name: str) -> int:
        """Returns an integer attribute."""
        return int(self.attribute(name, onnx.AttributeProto.INT))

    def positive(self, name: str) -> int:
        """Returns an integer attribute that is at least 1."""
        value = self.integer(name)
        if value < 1:
            raise self.fail(f"attribute {name} = {value} is not allowed; allowed: integers >= 1")
        return value

    def integers(self, name: str) -> list[int]:
        """Returns a list attribute of any length."""
        return list(self.attribute(name, onnx.AttributeProto.INTS))

    def ints(self, name: str, count: int, least: int | None = None) -> list[int]:
        """Returns a list attribute of `count` integers that are at least `least`."""
        values = self.integers(name)
        if len(values) != count or (least is not None and any(value < least for value in values)):
            bound = "" if least is None else f" >= {least}"
            raise self.fail(f"attribute {name} = {values} is not allowed; allowed: {count} integers{bound}")
        return values

    def perm(self, name: str, rank: int) -> list[int]:
        """Returns an attribute that is a permutation of the axes of a tensor."""
        values = self.integers(name)
        if sorted(values) != list(range(rank)):
            raise self.fail(f"attribute {name} = {values} is not allowed; allowed: a permutation of 0 to {rank - 1}")
        return values

    def has(self, index: int) -> bool:
        """Returns whether the node has an optional input."""
        return bool(self.ctx.get_num_inputs() > index and self.ctx.has_input(index))

    def element(self, index: int) -> int:
        """Returns the element type of an input."""
        return int(self.ctx.get_input_type(index).tensor_type.elem_type)

    def dims(self, index: int) -> list[Dim] | None:
        """Returns the shape of an input, or None if its rank is not known."""
        tensor = self.ctx.get_input_type(index).tensor_type
        if not tensor.HasField("shape"):
            return None
        return [dim.dim_value if dim.HasField("dim_value") else (dim.dim_param or None) for dim in tensor.shape.dim]

    def set_output(self, element: int, shape: Sequence[Dim] | None) -> None:
        """Sets the type of the output, and its shape if that is known."""
        result = onnx.TypeProto()
        result.tensor_type.elem_type = element
        if shape is not None:
            result.tensor_type.shape.SetInParent()
            for dim in shape:
                entry = result.tensor_type.shape.dim.add()
                if isinstance(dim, int) and dim > _MOST:
                    raise self.fail(f"the output has a size of {dim}; allowed: up to 2^63 - 1")
                if isinstance(dim, int):
                    entry.dim_value = dim
                elif dim is not None:
                    entry.dim_param = dim
        self.ctx.set_output_type(0, result)


def differ(a: Dim, b: Dim) -> bool:
    """Returns whether two sizes are known and differ."""
    return isinstance(a, int) and isinstance(b, int) and a != b

"""The op kinds of oneDNN Graph with their inputs, outputs, attributes and references.

`ortconv.onednn.kinds` defines them. The reader checks files against `KINDS`, the builder `ortconv.onednn.Graph` checks
its arguments, and `ortconv.verify` computes with `REFERENCES`. They describe the format; the lowerings decide what can
be converted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Literal, cast

from ortconv.onednn.call import Array, Call
from ortconv.onednn.shape_rules import Attributes, Rule, Shape, like

__all__ = [
    "ATTRIBUTE_TYPES",
    "DTYPES",
    "KINDS",
    "MAX_RANK",
    "REFERENCES",
    "AttributeType",
    "Kind",
    "define",
    "is_unset",
]

AttributeType = Literal["s64", "s64[]", "f32", "f32[]", "bool", "string"]

Dtype = int | str | None
"""Element type of an output: the number of the input that has it, its name, or None if the user chooses it."""

Reference = Callable[[Call], Array | tuple[Array, ...]]
"""Evaluates an op in float64; the caller rounds the results to the declared types."""

MAX_RANK = 12
"""Largest rank of a tensor, and length of the vector that the library writes for an attribute that is not set."""

DTYPES = (
    *("f32", "f16", "bf16", "s64", "s32", "s8", "u8", "boolean"),
    *("f8_e5m2", "f8_e4m3", "s4", "u4", "f64", "e8m0", "f4_e2m1"),
)
"""Element types; "undef" stands for an unknown type."""

_ATTRIBUTES: dict[AttributeType, str] = {
    "s64": "axis begin_norm_axis groups mask",
    "s64[]": "axes dilations dst_shape kernel output_padding pads_begin pads_end sizes src_shape strides weights_shape "
    "zps",
    "f32": "alpha beta epsilon max min",
    "f32[]": "scales",
    "bool": "exclude_pad keep_stats use_affine use_dst",
    "string": "auto_broadcast auto_pad coordinate_transformation_mode data_format mode qtype rounding_type "
    "weights_format",
}
"""Attributes that several kinds have; the definition of a kind states the types of others."""

ATTRIBUTE_TYPES: dict[str, AttributeType] = {
    name: kind for kind, names in _ATTRIBUTES.items() for name in names.split()
}
"""Attribute name -> its type, which is the same for all op kinds."""


@dataclasses.dataclass(frozen=True)
class Kind:
    """Inputs, outputs and attributes of an op kind.

    Attributes:
        inputs: Input names in order.
        outputs: Output names in order.
        optional_inputs: Number of optional inputs, which are the last ones.
        optional_outputs: Number of optional outputs, which are the last ones.
        variadic: Whether the last input repeats.
        variadic_outputs: Whether the last output repeats.
        attributes: Attribute name -> whether it is required.
        shapes: Rule for the shapes of the outputs.
        dtype: Element type of the first output.
        other_dtype: Element type of the other outputs.
        complete: Whether the builder makes all outputs by default, by the number of inputs and the attributes.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    optional_inputs: int
    optional_outputs: int
    variadic: bool
    variadic_outputs: bool
    attributes: dict[str, bool]
    shapes: Rule
    dtype: Dtype
    other_dtype: Dtype
    complete: Callable[[int, Attributes], bool]

    def takes(self, count: int) -> bool:
        """Returns whether an op may have `count` inputs."""
        least = len(self.inputs) - self.optional_inputs
        return count >= least and (self.variadic or count <= len(self.inputs))

    def gives(self, count: int) -> bool:
        """Returns whether an op may have `count` outputs."""
        least = len(self.outputs) - self.optional_outputs
        return count >= least and (self.variadic_outputs or count <= len(self.outputs))

    def result_count(self, inputs: int, attributes: Attributes) -> int:
        """Returns the default number of outputs of an op."""
        optional = 0 if self.complete(inputs, attributes) else self.optional_outputs
        return max(len(self.outputs) - optional, 1)

    def result_dtypes(self, inputs: Sequence[str], count: int) -> list[str | None]:
        """Returns the element types of an op's outputs; None for one that the user must choose."""
        dtypes = [self.dtype, *[self.other_dtype] * (count - 1)]
        return [inputs[dtype] if isinstance(dtype, int) else dtype for dtype in dtypes]

    def result_shapes(self, inputs: Sequence[Shape], attributes: Attributes, count: int) -> list[Shape]:
        """Returns the shapes of an op's outputs; None for one that does not follow from inputs and attributes."""
        found = self.shapes(inputs, attributes)
        known = [_possible(shape) for shape in (found if isinstance(found, list) else [found])]
        return (known + [None] * count)[:count]


_LIKE_FIRST = like(0)
_SIZES = range(1 << 63)

KINDS: dict[str, Kind] = {}
"""Op kind -> its inputs, outputs and attributes."""

REFERENCES: dict[str, Reference] = {}
"""Op kind -> its reference, which no lowering may call; a kind without one cannot be verified."""


def is_unset(kind: str, attribute: str, value: object) -> bool:
    """Returns whether a value is the vector that the library writes for an optional attribute that is not set.

    This is twelve zeros, or twelve ones for dilations.
    """
    unset = (int(attribute == "dilations"),) * MAX_RANK
    return value == unset and not KINDS[kind].attributes.get(attribute, True)


def _possible(shape: Shape) -> Shape:
    """Returns a shape, None if it has an impossible size."""
    return None if shape is None or any(dim is not None and dim not in _SIZES for dim in shape) else shape


def define(
    kind: str,
    inputs: str,
    outputs: str,
    attributes: str = "",
    *,
    shapes: Rule = _LIKE_FIRST,
    dtype: Dtype = 0,
    other_dtype: Dtype = "f32",
    complete: Callable[[int, Attributes], bool] = lambda inputs, attributes: False,
) -> Callable[[Reference], Reference]:
    """Defines an op kind, and its reference as the decorated function.

    Args:
        kind: Op kind.
        inputs: Input names; "?" marks optional ones, "*" at the end a repeated one.
        outputs: Output names, marked alike.
        attributes: Attribute names; "?" marks optional ones. "name:type" also states the type of a new attribute.
        shapes: Rule for the shapes of the outputs.
        dtype: Element type of the first output.
        other_dtype: Element type of the other outputs.
        complete: Whether the builder makes all outputs by default, by the number of inputs and the attributes.
    """
    ins, outs = inputs.split(), outputs.split()
    required: dict[str, bool] = {}
    for attribute in attributes.split():
        name, _, stated = attribute.rstrip("?").partition(":")
        required[name] = not attribute.endswith("?")
        if stated:
            ATTRIBUTE_TYPES[name] = cast(AttributeType, stated)
    KINDS[kind] = Kind(
        tuple(name.rstrip("?*") for name in ins),
        tuple(name.rstrip("?*") for name in outs),
        sum("?" in name for name in ins),
        sum("?" in name for name in outs),
        inputs.endswith("*"),
        outputs.endswith("*"),
        required,
        shapes,
        dtype,
        other_dtype,
        complete,
    )

    def register(reference: Reference) -> Reference:
        REFERENCES[kind] = reference
        return reference

    return register

"""The op kinds of oneDNN Graph with their inputs, outputs and attributes.

The reader checks files against this table, the builder `ortconv.onednn.Graph` checks its arguments. The table describes
the format; the lowerings decide what can be converted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

__all__ = ["ATTRIBUTE_TYPES", "DTYPES", "KINDS", "MAX_RANK", "AttributeType", "Kind", "is_unset"]

AttributeType = Literal["s64", "s64[]", "f32", "f32[]", "bool", "string"]

MAX_RANK = 12
"""Largest rank of a tensor, and length of the vector that the library writes for an attribute that is not set."""

DTYPES = (
    *("f32", "f16", "bf16", "s64", "s32", "s8", "u8", "boolean"),
    *("f8_e5m2", "f8_e4m3", "s4", "u4", "f64", "e8m0", "f4_e2m1"),
)
"""Element types; "undef" stands for an unknown type."""

_ATTRIBUTES: dict[AttributeType, str] = {
    "s64": "axis begin_norm_axis groups mask",
    "s64[]": "axes dilations dst_shape group_shape kernel order output_padding pads_begin pads_end shape sizes "
    "src_shape strides weights_shape zps",
    "f32": "alpha beta epsilon max min momentum",
    "f32[]": "scales",
    "bool": "exclude_pad keep_dims keep_stats per_channel_broadcast special_zero transpose_a transpose_b use_affine "
    "use_dst",
    "string": "accumulation_mode auto_broadcast auto_pad coordinate_transformation_mode data_format mode qtype "
    "rounding_type weights_format",
}

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
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    optional_inputs: int
    optional_outputs: int
    variadic: bool
    variadic_outputs: bool
    attributes: dict[str, bool]

    def takes(self, count: int) -> bool:
        """Returns whether an op may have `count` inputs."""
        least = len(self.inputs) - self.optional_inputs
        return count >= least and (self.variadic or count <= len(self.inputs))

    def gives(self, count: int) -> bool:
        """Returns whether an op may have `count` outputs."""
        least = len(self.outputs) - self.optional_outputs
        return count >= least and (self.variadic_outputs or count <= len(self.outputs))


def is_unset(kind: str, attribute: str, value: Sequence[object]) -> bool:
    """Returns whether a vector is what the library writes for an optional attribute that is not set.

    This is twelve zeros, or twelve ones for dilations.
    """
    if KINDS[kind].attributes.get(attribute, True) or len(value) != MAX_RANK:
        return False
    return all(entry == (attribute == "dilations") for entry in value)


def _kind(inputs: str, outputs: str, attributes: str = "") -> Kind:
    """Parses a row of the table: "?" marks optional names, "*" at the end a repeated one."""
    ins, outs = inputs.split(), outputs.split()
    return Kind(
        tuple(name.rstrip("?*") for name in ins),
        tuple(name.rstrip("?*") for name in outs),
        sum("?" in name for name in ins),
        sum("?" in name for name in outs),
        inputs.endswith("*"),
        outputs.endswith("*"),
        {name.rstrip("?"): not name.endswith("?") for name in attributes.split()},
    )


_CONV = "strides pads_begin pads_end dilations auto_pad? groups? data_format? weights_format?"
_POOL = "strides pads_begin pads_end kernel auto_pad? data_format?"
_ELTWISE = _kind("src", "dst")
_BINARY = _kind("src_0 src_1", "dst", "auto_broadcast?")
_ELTWISE_BACKWARD = _kind("src diff_dst", "diff_src")
_DST_BACKWARD = _kind("src_or_dst diff_dst", "diff_src", "use_dst?")
_REDUCE = _kind("src axes?", "dst", "axes? keep_dims?")

KINDS: dict[str, Kind] = {
    **dict.fromkeys(
        ("Abs", "Exp", "HardSwish", "Log", "Mish", "ReLU", "Reciprocal", "Reorder", "Round", "Sigmoid", "Sqrt"),
        _ELTWISE,
    ),
    **dict.fromkeys(("Square", "Tanh", "TypeCast"), _ELTWISE),
    **dict.fromkeys(("Add", "Divide", "GreaterEqual", "Maximum", "Minimum", "Multiply"), _BINARY),
    **dict.fromkeys(("SquaredDifference", "Subtract"), _BINARY),
    **dict.fromkeys(("AbsBackward", "HardSwishBackward", "MishBackward"), _ELTWISE_BACKWARD),
    **dict.fromkeys(("ReLUBackward", "SigmoidBackward", "SqrtBackward", "TanhBackward"), _DST_BACKWARD),
    **dict.fromkeys(("ReduceL1", "ReduceL2", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd"), _REDUCE),
    "AvgPool": _kind("src", "dst", f"{_POOL} exclude_pad rounding_type?"),
    "AvgPoolBackward": _kind("diff_dst src_shape?", "diff_src", f"{_POOL} exclude_pad src_shape?"),
    "BatchNormForwardTraining": _kind(
        "src mean variance gamma? beta?",
        "dst running_mean running_variance batch_mean batch_variance",
        "epsilon momentum? data_format?",
    ),
    "BatchNormInference": _kind("src gamma beta mean variance", "dst", "epsilon data_format?"),
    "BatchNormTrainingBackward": _kind(
        "src diff_dst mean variance gamma?", "diff_src diff_gamma? diff_beta?", "epsilon data_format?"
    ),
    "BiasAdd": _kind("src bias", "dst", "data_format?"),
    "BiasAddBackward": _kind("diff_dst", "diff_bias", "data_format?"),
    "Clamp": _kind("src", "dst", "min max"),
    "ClampBackward": _kind("src_or_dst diff_dst", "diff_src", "min max use_dst?"),
    "Concat": _kind("src_i*", "dst", "axis"),
    "ConvTranspose": _kind("src weights bias?", "dst", f"{_CONV} output_padding?"),
    "ConvTransposeBackwardData": _kind("diff_dst weights", "diff_src", _CONV),
    "ConvTransposeBackwardWeights": _kind("src diff_dst weights_shape?", "diff_weights", f"{_CONV} weights_shape?"),
    "Convolution": _kind("src weights bias?", "dst", _CONV),
    "ConvolutionBackwardData": _kind("diff_dst weights dst_shape?", "diff_src", f"{_CONV} output_padding? dst_shape?"),
    "ConvolutionBackwardWeights": _kind("src diff_dst weights_shape?", "diff_weights", f"{_CONV} weights_shape?"),
    "Dequantize": _kind("src", "dst", "scales zps? qtype? axis?"),
    "Dropout": _kind("src seed offset probability", "dst mask?"),
    "DynamicDequantize": _kind("src scales zps?", "dst", "qtype? axis? group_shape? mask?"),
    "DynamicQuantize": _kind("src scales zps?", "dst", "qtype? axis? mask?"),
    "Elu": _kind("src", "dst", "alpha"),
    "EluBackward": _kind("src_or_dst diff_dst", "diff_src", "alpha use_dst?"),
    "End": _kind("src", ""),
    "GELU": _kind("src", "dst", "mode?"),
    "GELUBackward": _kind("src diff_dst", "diff_src", "mode?"),
    "GenIndex": _kind("src", "dst", "axis"),
    "GroupNorm": _kind(
        "src gamma? beta?", "dst mean? variance?", "groups keep_stats? use_affine? epsilon? data_format?"
    ),
    "HardSigmoid": _kind("src", "dst", "alpha beta"),
    "HardSigmoidBackward": _kind("src diff_dst", "diff_src", "alpha beta"),
    "Interpolate": _kind("src sizes?", "dst", "mode sizes? scales? coordinate_transformation_mode? data_format?"),
    "InterpolateBackward": _kind(
        "src diff_dst sizes?", "diff_src", "mode sizes? scales? coordinate_transformation_mode? data_format?"
    ),
    "LayerNorm": _kind("src gamma? beta?", "dst mean? variance?", "keep_stats? begin_norm_axis? use_affine? epsilon?"),
    "LayerNormBackward": _kind(
        "src diff_dst mean variance gamma? beta?",
        "diff_src diff_gamma? diff_beta?",
        "begin_norm_axis? use_affine? epsilon?",
    ),
    "LeakyReLU": _kind("src", "dst", "alpha"),
    "LogSoftmax": _kind("src", "dst", "axis?"),
    "LogSoftmaxBackward": _kind("diff_dst dst", "diff_src", "axis?"),
    "MatMul": _kind("src weights bias?", "dst", "transpose_a? transpose_b? accumulation_mode?"),
    "MaxPool": _kind("src", "dst", f"{_POOL} dilations? rounding_type?"),
    "MaxPoolBackward": _kind("src diff_dst", "diff_src", f"{_POOL} dilations?"),
    "PReLU": _kind("src slope", "dst", "data_format? per_channel_broadcast?"),
    "PReLUBackward": _kind("src slope diff_dst", "diff_src diff_slope", "data_format?"),
    "Pow": _kind("src", "dst", "beta"),
    "Quantize": _kind("src", "dst", "scales zps? qtype? axis?"),
    "RMSNorm": _kind("src gamma?", "dst", "begin_norm_axis? epsilon?"),
    "ReduceSum": _REDUCE,
    "Select": _kind("cond src_0 src_1", "dst", "auto_broadcast?"),
    "SoftMax": _kind("src", "dst stats?", "axis? mode?"),
    "SoftMaxBackward": _kind("diff_dst dst", "diff_src", "axis?"),
    "SoftPlus": _kind("src", "dst", "beta?"),
    "SoftPlusBackward": _kind("src diff_dst", "diff_src", "beta?"),
    "StaticReshape": _kind("src", "dst", "shape special_zero"),
    "StaticTranspose": _kind("src", "dst", "order"),
    "Wildcard": _kind("src?*", "dst?*"),
}
"""Op kind -> its inputs, outputs and attributes."""

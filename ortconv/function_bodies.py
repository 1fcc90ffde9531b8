"""The text of our ops' function bodies: standard ONNX that computes the same without our library.

There is one body per op and model (ONNX Runtime before 1.27 ignores overloads), so a body serves every rank, layout and
attribute value: layouts are ``perm`` attributes, sizes are computed from shapes, and constant folding removes all of
that again where shapes are static. Two forms exist: "conv" hands the work to ai.onnx ConvTranspose or Conv, for types
that accumulate in float; "matmul" gathers the input's columns and multiplies matrices, which ONNX Runtime does in
double and in integers too, so those are not computed in float.
"""

from __future__ import annotations

import onnx.parser
import onnx_ir as ir

from ortconv.matmul_form import CONV_BY_MATMUL, CONV_TRANSPOSE_BY_MATMUL
from ortconv.opset import (
    ACTIVATION,
    CONV,
    CONV_TRANSPOSE,
    CONV_TRANSPOSE_ADD,
    CONV_TRANSPOSE_TO_SHAPE,
    DOMAIN,
    Op,
)

__all__ = ["CAST_LIKE", "OPSETS", "body"]

OPSETS = range(13, 26)
"""Versions of the ai.onnx opset in which ConvTranspose of types that accumulate in float has a body."""

CAST_LIKE = 15
"""The opset that brought CastLike; older bodies do not round to a smaller type than the one that accumulates."""

_MODERN = 18
"""The opset that brought Pad with axes and Split in equal parts; every op has a body from here on."""


def body(op: Op, *, opset: int, bias: bool, exact: bool, activation: bool = False) -> ir.Function:
    """Returns the function body of an op.

    Without a bias the body has no input for one. So a node that some other tool gives a bias later, as onnx-simplifier
    does with an Add, is refused where the body is run, and does not lose it silently.

    Args:
        op: The op.
        opset: The ai.onnx version of the model, which the body must share.
        bias: Whether its nodes have a bias.
        exact: The "matmul" form instead of the "conv" form.
        activation: Whether its nodes have an activation.

    Raises:
        ValueError: There is no such body in that opset.
    """
    inputs = op.inputs if bias else op.inputs[:-1]
    lines = [_PRELUDE, _GEOMETRY[op.name], _COMPUTE[op is CONV, exact], _BIAS if bias else _NO_BIAS]
    lines.append(_end(residual=op is CONV_TRANSPOSE_ADD, activation=activation))
    if opset < _MODERN:
        lines = _dated(op, opset, lines, exact)
    attributes = [name for name, _, _ in op.attributes] + [ACTIVATION] * activation
    text = (
        f'<opset_import: ["": {opset}], domain: "{DOMAIN}">\n'
        f"{op.name} <{', '.join(attributes)}> ({', '.join(inputs)}) => (Y) {{\n"
        f"{''.join(lines)}}}\n"
    )
    function = onnx.parser.parse_function(text)
    function.doc_string = op.doc
    return ir.serde.deserialize_function(function)


def _dated(op: Op, opset: int, lines: list[str], exact: bool) -> list[str]:
    """Returns the "conv" form of ConvTranspose, or that and an Add, for an opset that lacks some of what is in it."""
    if op not in (CONV_TRANSPOSE, CONV_TRANSPOSE_ADD) or exact or opset < OPSETS.start:
        raise ValueError(f"there is no body of {op.name} in opset {opset}")
    text = "".join(lines)
    for new, old in _BEFORE_18 + (_BEFORE_15 if opset < CAST_LIKE else ()):
        text = text.replace(new, old)
    return [text]


# Names in the bodies: n, m, c, g sizes of batch, output channels, input channels, groups; x, k, y spatial sizes of
# input, kernel, output; s, d, b, e strides, dilations, begin and end padding. Sizes are vectors: one entry each for
# n, m, c, g, one per spatial axis for the others. A size that cannot be is replaced by one that Reshape refuses.
_PRELUDE = """
  zero = Constant <value: tensor = int64[1] {0}> ()
  one = Constant <value: tensor = int64[1] {1}> ()
  two = Constant <value: tensor = int64[1] {2}> ()
  refused = Constant <value: tensor = int64[1] {-2}> ()
  Xt = Transpose <perm: ints = @x_perm> (X)
  Wt = Transpose <perm: ints = @w_perm> (W)
  Xa = Cast <to: int = @accumulation_type> (Xt)
  Wa = Cast <to: int = @accumulation_type> (Wt)
  s = Constant <value_ints: ints = @strides> ()
  d = Constant <value_ints: ints = @dilations> ()
  x = Shape <start = 2> (Xt)
  k = Shape <start = 2> (Wt)
  spatial = Shape (x)
  k_less_1 = Sub (k, one)
  reach = Mul (k_less_1, d)
  extent = Add (reach, one)
"""

_FULL = """
  x_less_1 = Sub (x, one)
  steps = Mul (x_less_1, s)
  full_or_less = Add (steps, extent)
  full = Max (full_or_less, zero)
  op = Constant <value_ints: ints = @output_padding> ()
"""

_POSSIBLE = """
  possible = GreaterOrEqual (y_asked, zero)
  y = Where (possible, y_asked, refused)
"""

# What may exceed 31 bits is compared by Greater: ONNX Runtime's Max takes the lower halves of such numbers as signed.
_TOTAL = """
  is_padded = Greater (total_or_less, zero)
  total = Where (is_padded, total_or_less, zero)
"""

_HALVES = """
  rule = Constant <value_string: string = @auto_pad> ()
  upper_text = Constant <value_string = "SAME_UPPER"> ()
  lower_text = Constant <value_string = "SAME_LOWER"> ()
  is_upper = Equal (rule, upper_text)
  is_lower = Equal (rule, lower_text)
  total_and_1 = Add (total, one)
  floor_half = Div (total, two)
  ceil_half = Div (total_and_1, two)
  b_or_ceil = Where (is_lower, ceil_half, b_fixed)
  b = Where (is_upper, floor_half, b_or_ceil)
"""

_PADDED = f"""{_FULL}
  pads = Constant <value_ints: ints = @pads> ()
  b, e = Split <num_outputs = 2> (pads)
  less_b = Sub (full, b)
  less_e = Sub (less_b, e)
  y_asked = Add (less_e, op)
{_POSSIBLE}"""

_GEOMETRY = {
    CONV_TRANSPOSE.name: _PADDED,
    CONV_TRANSPOSE_ADD.name: _PADDED,
    CONV_TRANSPOSE_TO_SHAPE.name: f"""{_FULL}
  y_asked = Reshape (output_shape, spatial)
{_POSSIBLE}
  grown = Add (full, op)
  total_or_less = Sub (grown, y)
{_TOTAL}
  b_fixed = Constant <value_ints: ints = @pads_begin> ()
{_HALVES}""",
    # Where a kernel does not fit, Div would round its negative room up to 0, and so the size to 1.
    CONV.name: f"""
  pads = Constant <value_ints: ints = @pads> ()
  b_fixed, e_fixed = Split <num_outputs = 2> (pads)
  s_less_1 = Sub (s, one)
  x_up = Add (x, s_less_1)
  y_same = Div (x_up, s)
  y_same_less_1 = Sub (y_same, one)
  y_same_steps = Mul (y_same_less_1, s)
  needed = Add (y_same_steps, extent)
  total_or_less = Sub (needed, x)
{_TOTAL}
{_HALVES}
  is_same = Or (is_upper, is_lower)
  e_same = Sub (total, b)
  e = Where (is_same, e_same, e_fixed)
  x_b = Add (x, b)
  x_be = Add (x_b, e)
  room = Sub (x_be, extent)
  y_less_1 = Div (room, s)
  y_or_less = Add (y_less_1, one)
  fits = GreaterOrEqual (room, zero)
  y = Where (fits, y_or_less, refused)
""",
}

_SPATIAL_AXES = """
  start = Constant <value_int = 2> ()
  step = Constant <value_int = 1> ()
  rank = Add (spatial, two)
  rank_scalar = Squeeze (rank, zero)
  axes = Range (start, rank_scalar, step)
"""

# A size that cannot be has a pace of 0, which Slice refuses.
_CONV_TRANSPOSE_BY_CONV = f"""
  F = ConvTranspose <strides: ints = @strides, dilations: ints = @dilations, group: int = @group> (Xa, Wa)
{_SPATIAL_AXES}
  stop = Add (b, y)
  beyond = Sub (stop, full)
  is_beyond = Greater (beyond, zero)
  missing = Where (is_beyond, beyond, zero)
  nothing = Sub (b, b)
  tail = Concat <axis = 0> (nothing, missing)
  P = Pad (F, tail, , axes)
  pace = Cast <to = 7> (possible)
  S = Slice (P, b, stop, axes, pace)
"""

_BEFORE_18 = (
    ("Split <num_outputs = 2>", "Split"),
    (
        "  tail = Concat <axis = 0> (nothing, missing)\n  P = Pad (F, tail, , axes)\n",
        """  outer = Constant <value: tensor = int64[2] {0, 0}> ()
  tail = Concat <axis = 0> (outer, nothing, outer, missing)
  P = Pad (F, tail)
""",
    ),
)
_BEFORE_15 = (
    (
        "  x = Shape <start = 2> (Xt)\n  k = Shape <start = 2> (Wt)\n",
        """  Xt_sizes = Shape (Xt)
  Wt_sizes = Shape (Wt)
  rank = Shape (Xt_sizes)
  x = Slice (Xt_sizes, two, rank)
  k = Slice (Wt_sizes, two, rank)
""",
    ),
    ("  rank = Add (spatial, two)\n", ""),
    (" <allowzero = 1>", ""),
    ("CastLike (Ra, X)", "Identity (Ra)"),
    ("CastLike (Ys, X)", "Identity (Ys)"),
    ("CastLike (Vc, X)", "Identity (Vc)"),
)
"""What the body of ConvTranspose says, and how opsets said it before."""

_CONV_BY_CONV = f"""
{_SPATIAL_AXES}
  ends = Concat <axis = 0> (b, e)
  P = Pad (Xa, ends, , axes)
  S = Conv <strides: ints = @strides, dilations: ints = @dilations, group: int = @group> (P, Wa)
"""

_COMPUTE = {
    # (op is Conv, exact)
    (False, False): _CONV_TRANSPOSE_BY_CONV,
    (False, True): CONV_TRANSPOSE_BY_MATMUL,
    (True, False): _CONV_BY_CONV,
    (True, True): CONV_BY_MATMUL,
}

_NO_BIAS = """
  Ra = Identity (S)
"""

_BIAS = """
  Ba = Cast <to: int = @accumulation_type> (B)
  b_size = Shape (B)
  ones = Expand (one, spatial)
  b_shape = Concat <axis = 0> (b_size, ones)
  Br = Reshape <allowzero = 1> (Ba, b_shape)
  Ra = Add (S, Br)
"""

_RESIDUAL = """
  Yr = CastLike (Ra, X)
  Yt = Transpose <perm: ints = @y_perm> (Yr)
  Ya = Cast <to: int = @accumulation_type> (Yt)
  Rc = Cast <to: int = @accumulation_type> (R)
  result_shape = Shape (Yt)
  residual_shape = Shape (R)
  same_shape = Equal (residual_shape, result_shape)
  allowed_shape = Where (same_shape, result_shape, refused)
  Rr = Reshape <allowzero = 1> (Rc, allowed_shape)
  Ys = Add (Ya, Rr)
"""

_ACTIVATED = """
  Vt = CastLike ({sums}, X)
  Vf = Cast <to: int = @accumulation_type> (Vt)
  three = Constant <value: tensor = int64[1] {{3}}> ()
  activation = Constant <value_floats: floats = @activation> ()
  slope = Slice (activation, zero, one)
  minimum_row = Slice (activation, one, two)
  maximum_row = Slice (activation, two, three)
  minimum = Squeeze (minimum_row)
  maximum = Squeeze (maximum_row)
  Vs = PRelu (Vf, slope)
  Vc = Clip (Vs, minimum, maximum)
"""


def _end(*, residual: bool, activation: bool) -> str:
    """Returns what follows the bias: from the sums Ra to Y."""
    sums = "Ys" if residual else "Ra"
    last = "Vc" if activation else sums
    lines = [_RESIDUAL] * residual + [_ACTIVATED.format(sums=sums)] * activation
    if residual:
        lines.append(f"  Y = CastLike ({last}, X)\n")
    else:
        lines.append(f"  Yn = CastLike ({last}, X)\n  Y = Transpose <perm: ints = @y_perm> (Yn)\n")
    return "".join(lines)

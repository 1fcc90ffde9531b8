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

from ortconv.opset.bodies.matmul_form import CONV_BY_MATMUL, CONV_TRANSPOSE_BY_MATMUL
from ortconv.opset.operators import (
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
"""Versions of the ai.onnx opset in which every op of types that accumulate in float has a body."""

CAST_LIKE = 15
"""The opset that brought CastLike; older bodies do not round to a smaller type than the one that accumulates."""

_MODERN = 18
"""The opset that brought Split in equal parts and axes of reductions as inputs; every op has both forms since."""


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
    geometry = _DIRECT if op is CONV else _FULL[exact] + _TRANSPOSED[op.name]
    end = _end(residual=op is CONV_TRANSPOSE_ADD, activation=activation)
    refused = _REFUSED if exact or op is CONV_TRANSPOSE_ADD else ""
    lines = "".join([_PRELUDE, refused, geometry, _COMPUTE[op is CONV, exact], _BIAS if bias else _NO_BIAS, end])
    if opset not in OPSETS or (exact and opset < _MODERN):
        raise ValueError(f"there is no such body of {op.name} in opset {opset}")
    for new, old in (_BEFORE_18 if opset < _MODERN else ()) + (_BEFORE_15 if opset < CAST_LIKE else ()):
        lines = lines.replace(new, old)
    attributes = [name for name, _, _ in op.attributes] + [ACTIVATION] * activation
    text = (
        f'<opset_import: ["": {opset}], domain: "{DOMAIN}">\n'
        f"{op.name} <{', '.join(attributes)}> ({', '.join(inputs)}) => (Y) {{\n"
        f"{lines}}}\n"
    )
    function = onnx.parser.parse_function(text)
    function.doc_string = op.doc
    return ir.serde.deserialize_function(function)


# Names in the bodies: n, m, c, g sizes of batch, output channels, input channels, groups; x, k, y spatial sizes of
# input, kernel, output; s, d, b, e strides, dilations, begin and end padding. Sizes are vectors: one entry each for
# n, m, c, g, one per spatial axis for the others. Pad refuses a y below zero, and Reshape one that is -2 instead.
_PRELUDE = """
  zero = Constant <value: tensor = int64[1] {0}> ()
  one = Constant <value: tensor = int64[1] {1}> ()
  two = Constant <value: tensor = int64[1] {2}> ()
  s = Constant <value_ints: ints = @strides> ()
  spatial = Shape (s)
  start = Constant <value_int = 2> ()
  step = Constant <value_int = 1> ()
  rank = Add (spatial, two)
  rank_scalar = Squeeze (rank, zero)
  axes = Range (start, rank_scalar, step)
  Xt = Transpose <perm: ints = @x_perm> (X)
  Wt = Transpose <perm: ints = @w_perm> (W)
  Xa = Cast <to: int = @accumulation_type> (Xt)
  Wa = Cast <to: int = @accumulation_type> (Wt)
"""

_REFUSED = """
  refused = Constant <value: tensor = int64[1] {-2}> ()
"""

_SIZES = """
  d = Constant <value_ints: ints = @dilations> ()
  x = Shape <start = 2> (Xt)
  k = Shape <start = 2> (Wt)
  k_less_1 = Sub (k, one)
  reach = Mul (k_less_1, d)
  x_less_1 = Sub (x, one)
"""

# The full size of a transposed convolution.
_FULL = {
    # exact
    False: """
  F = ConvTranspose <strides: ints = @strides, dilations: ints = @dilations, group: int = @group> (Xa, Wa)
  full = Shape <start = 2> (F)
""",
    True: f"""{_SIZES}
  steps = Mul (x_less_1, s)
  full_less_1 = Add (steps, reach)
  full_or_less = Add (full_less_1, one)
  full = Max (full_or_less, zero)
""",
}

# What may exceed 31 bits is compared by Greater: ONNX Runtime's Max takes the lower halves of such numbers as signed.
# auto_pad is 0, 1 or 2, which makes halves 0, floor(t / 2) or ceil(t / 2).
_HALVES = """
  is_padded = Greater (t_or_less, zero)
  t_if_same = Where (is_padded, t_or_less, zero)
  rule = Constant <value_int: int = @auto_pad> ()
  is_same = Min (rule, one)
  is_lower = Div (rule, two)
  t = Mul (t_if_same, is_same)
  t_or_more = Add (t, is_lower)
  halves = Div (t_or_more, two)
  b = Add (b_fixed, halves)
"""

_PADDED = """
  op = Constant <value_ints: ints = @output_padding> ()
  pads = Constant <value_ints: ints = @pads> ()
  b, e = Split <num_outputs = 2> (pads)
  less_b = Sub (full, b)
  less_e = Sub (less_b, e)
  y_asked = Add (less_e, op)
"""

_TO_SHAPE = f"""
  op = Constant <value_ints: ints = @output_padding> ()
  b_fixed = Constant <value_ints: ints = @pads_begin> ()
  y_asked = Reshape (output_shape, spatial)
  grown = Add (full, op)
  t_or_less = Sub (grown, y_asked)
{_HALVES}"""

_TRANSPOSED = {CONV_TRANSPOSE.name: _PADDED, CONV_TRANSPOSE_ADD.name: _PADDED, CONV_TRANSPOSE_TO_SHAPE.name: _TO_SHAPE}

# (ceil(x / s) - 1) * s + extent - x is reach - (x - 1) mod s.
_DIRECT = f"""{_SIZES}
  pads = Constant <value_ints: ints = @pads> ()
  b_fixed, e_fixed = Split <num_outputs = 2> (pads)
  x_beyond = Mod (x_less_1, s)
  t_or_less = Sub (reach, x_beyond)
{_HALVES}
  t_end = Sub (t, halves)
  e = Add (e_fixed, t_end)
"""

# ONNX Runtime's symbolic shape inference knows no Pad of some axes.
_CONV_TRANSPOSE_BY_CONV = """
  outer = Constant <value: tensor = int64[2] {0, 0}> ()
  stop = Add (b, y_asked)
  P = Slice (F, b, stop, axes)
  y_found = Shape <start = 2> (P)
  missing = Sub (y_asked, y_found)
  nothing = Sub (s, s)
  tail = Concat <axis = 0> (outer, nothing, outer, missing)
  S = Pad (P, tail)
"""

_CONV_BY_CONV = """
  outer = Constant <value: tensor = int64[2] {0, 0}> ()
  ends = Concat <axis = 0> (outer, b, outer, e)
  P = Pad (Xa, ends)
  S = Conv <strides: ints = @strides, dilations: ints = @dilations, group: int = @group> (P, Wa)
"""

# Where a kernel does not fit, Div would round its negative room up to 0, and so the size to 1.
_EXACT_SIZE = {
    # op is CONV
    False: """
  possible = GreaterOrEqual (y_asked, zero)
  y = Where (possible, y_asked, refused)
""",
    True: """
  x_b = Add (x_less_1, b)
  x_be = Add (x_b, e)
  room = Sub (x_be, reach)
  y_less_1 = Div (room, s)
  y_or_less = Add (y_less_1, one)
  fits = GreaterOrEqual (room, zero)
  y = Where (fits, y_or_less, refused)
""",
}

_COMPUTE = {
    # (op is CONV, exact)
    (False, False): _CONV_TRANSPOSE_BY_CONV,
    (False, True): _EXACT_SIZE[False] + CONV_TRANSPOSE_BY_MATMUL,
    (True, False): _CONV_BY_CONV,
    (True, True): _EXACT_SIZE[True] + CONV_BY_MATMUL,
}

_BEFORE_18 = (("Split <num_outputs = 2>", "Split"),)
_BEFORE_15 = (
    *(
        (
            f"  {sizes} = Shape <start = 2> ({of})\n",
            f"  {of}_sizes = Shape ({of})\n  {sizes} = Slice ({of}_sizes, two, rank)\n",
        )
        for sizes, of in (("x", "Xt"), ("k", "Wt"), ("full", "F"), ("y_found", "P"))
    ),
    (" <allowzero = 1>", ""),
    ("CastLike (Ra, X)", "Identity (Ra)"),
    ("CastLike (Ys, X)", "Identity (Ys)"),
    ("CastLike (Vc, X)", "Identity (Vc)"),
)
"""What the "conv" forms say, and how opsets said it before."""

_NO_BIAS = """
  Ra = Identity (S)
"""

_BIAS = """
  Ba = Cast <to: int = @accumulation_type> (B)
  inner = Sub (axes, one)
  Br = Unsqueeze (Ba, inner)
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

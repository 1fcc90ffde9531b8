"""The text of the convolutions' function bodies: standard ONNX that computes the same without our library.

There is one body per operator and model, so a body serves every rank, layout and attribute value: layouts are ``perm``
attributes, sizes are computed from shapes, and constant folding removes all of that where shapes are static. Two forms
exist: "conv" uses ai.onnx ConvTranspose or Conv, for types that
accumulate in float; "matmul" gathers the input's columns (im2col) and multiplies matrices, which ONNX Runtime does in
double and in integers too, so those are not computed in float.
"""

from __future__ import annotations

from ortconv.opset.bodies.im2col_matmul import CONV_BY_MATMUL, CONV_TRANSPOSE_BY_MATMUL
from ortconv.opset.convolution_terms import ACTIVATION

__all__ = [
    "ACTIVATION_NUMBERS",
    "AXES",
    "CAST_LIKE",
    "EXACT",
    "OLDEST",
    "REFUSED",
    "SAME_SHAPE",
    "convolution",
    "epilogue",
    "padded_transposed_convolution",
    "transposed_convolution",
    "transposed_convolution_add",
    "transposed_convolution_to_shape",
]

OLDEST = 13
"""The oldest version of ai.onnx in which there are bodies for types that accumulate in float."""

CAST_LIKE = 15
"""The opset that introduced CastLike; older bodies do not round to a smaller type than the one that accumulates."""

EXACT = "exact"
"""The switch of the "matmul" form; off, a body has the "conv" form."""

_MODERN = 18
"""The opset that introduced Split in equal parts and axes of reductions as inputs; every body exists since."""

_Switches = frozenset[str]


def convolution(opset: int, switches: _Switches) -> str:
    """Returns the nodes of a body of Convolution; raises ValueError if there is none."""
    return _body(opset, switches, _DIRECT, transposed=False)


def transposed_convolution(opset: int, switches: _Switches) -> str:
    """Returns the nodes of a body of TransposedConvolution; raises ValueError if there is none."""
    return _body(opset, switches, _FULL[EXACT in switches] + _PADDED, transposed=True)


def transposed_convolution_to_shape(opset: int, switches: _Switches) -> str:
    """Returns the nodes of a body of TransposedConvolutionToShape; raises ValueError if there is none."""
    return _body(opset, switches, _FULL[EXACT in switches] + _TO_SHAPE, transposed=True)


def transposed_convolution_add(opset: int, switches: _Switches) -> str:
    """Returns the nodes of a body of TransposedConvolutionAdd; raises ValueError if there is none."""
    return _body(opset, switches, _FULL[EXACT in switches] + _PADDED, transposed=True, residual=True)


def epilogue(*, residual: bool, activation: bool) -> str:
    """Returns nodes from ``sums`` to ``Y``, for Python ops: both in the layout of ``Y``; "" for a conversion alone."""
    if not residual and not activation:
        return ""
    lines = [_NUMBERS] + [f"{REFUSED}  Yt = CastLike (sums, X)\n{_RESIDUAL}"] * residual
    last = "Ys" if residual else "sums"
    return "".join(
        [*lines, *[_ACTIVATED.format(sums=last)] * activation, f"  Y = CastLike ({'Vc' if activation else last}, X)\n"]
    )


def padded_transposed_convolution(opset: int, operands: str) -> str:
    """Returns nodes that compute S, a transposed convolution without bias in ONNX's layout, for other bodies.

    Args:
        opset: The version of ai.onnx.
        operands: Nodes that compute Xa and Wa, data and weights that accumulate in float.
    """
    return _in_opset(opset, "".join([AXES, operands, _FULL[False], _PADDED, _CONV_TRANSPOSE_BY_CONV]))


def _body(opset: int, switches: _Switches, geometry: str, *, transposed: bool, residual: bool = False) -> str:
    exact = EXACT in switches
    if exact and opset < _MODERN:
        raise ValueError(f"there is no exact body in opset {opset}")
    lines = "".join(
        [
            _PRELUDE,
            REFUSED if exact or residual else "",
            geometry,
            _COMPUTE[transposed, exact],
            _BIAS if "B" in switches else _NO_BIAS,
            _end(residual=residual, activation=ACTIVATION in switches),
        ]
    )
    return _in_opset(opset, lines)


def _in_opset(opset: int, lines: str) -> str:
    for new, old in (_BEFORE_18 if opset < _MODERN else ()) + (_BEFORE_15 if opset < CAST_LIKE else ()):
        lines = lines.replace(new, old)
    return lines


# Names in the bodies: n, m, c, g sizes of batch, output channels, input channels, groups; x, k, y spatial sizes of
# input, kernel, output; s, d, b, e strides, dilations, begin and end padding. Sizes are vectors: one entry each for
# n, m, c, g, one per spatial axis for the others. Pad refuses a negative y; where there is no Pad, y becomes -2, which
# Reshape refuses.
_NUMBERS = """
  zero = Constant <value: tensor = int64[1] {0}> ()
  one = Constant <value: tensor = int64[1] {1}> ()
  two = Constant <value: tensor = int64[1] {2}> ()
"""

AXES = f"""{_NUMBERS}
  s = Constant <value_ints: ints = @strides> ()
  spatial = Shape (s)
  start = Constant <value_int = 2> ()
  step = Constant <value_int = 1> ()
  rank = Add (spatial, two)
  rank_scalar = Squeeze (rank, zero)
  axes = Range (start, rank_scalar, step)
"""
"""Nodes that compute the spatial axes."""

_PRELUDE = f"""{AXES}
  Xt = Transpose <perm: ints = @x_perm> (X)
  Wt = Transpose <perm: ints = @w_perm> (W)
  Xa = Cast <to: int = @accumulation_type> (Xt)
  Wa = Cast <to: int = @accumulation_type> (Wt)
"""

REFUSED = """
  refused = Constant <value: tensor = int64[1] {-2}> ()
"""
"""A size that Reshape refuses."""

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

# Values that may exceed 31 bits are compared by Greater: ONNX Runtime's Max compares their lower halves as signed
# numbers. auto_pad is 0, 1 or 2, so that halves is 0, floor(t / 2) or ceil(t / 2).
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

# ONNX Runtime's symbolic shape inference does not support the axes input of Pad.
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

_POSSIBLE_SIZE = """
  possible = GreaterOrEqual (y_asked, zero)
  y = Where (possible, y_asked, refused)
"""

# If the kernel does not fit, Div would round the negative room up to 0, and the size to 1.
_FITTING_SIZE = """
  x_b = Add (x_less_1, b)
  x_be = Add (x_b, e)
  room = Sub (x_be, reach)
  y_less_1 = Div (room, s)
  y_or_less = Add (y_less_1, one)
  fits = GreaterOrEqual (room, zero)
  y = Where (fits, y_or_less, refused)
"""

_COMPUTE = {
    # (transposed, exact)
    (True, False): _CONV_TRANSPOSE_BY_CONV,
    (True, True): _POSSIBLE_SIZE + CONV_TRANSPOSE_BY_MATMUL,
    (False, False): _CONV_BY_CONV,
    (False, True): _FITTING_SIZE + CONV_BY_MATMUL,
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
"""Text of the "conv" form -> its equivalent in older opsets."""

_NO_BIAS = """
  Ra = Identity (S)
"""

_BIAS = """
  Ba = Cast <to: int = @accumulation_type> (B)
  inner = Sub (axes, one)
  Br = Unsqueeze (Ba, inner)
  Ra = Add (S, Br)
"""

_ROUNDED = """
  Yr = CastLike (Ra, X)
  Yt = Transpose <perm: ints = @y_perm> (Yr)
"""

SAME_SHAPE = """
  residual_shape = Shape (R)
  same_shape = Equal (residual_shape, result_shape)
  allowed_shape = Where (same_shape, result_shape, refused)
"""
"""Nodes from ``result_shape`` to the shape that the residual R is given: another one is refused."""

_RESIDUAL = f"""
  Ya = Cast <to: int = @accumulation_type> (Yt)
  Rc = Cast <to: int = @accumulation_type> (R)
  result_shape = Shape (Yt)
{SAME_SHAPE}  Rr = Reshape <allowzero = 1> (Rc, allowed_shape)
  Ys = Add (Ya, Rr)
"""

ACTIVATION_NUMBERS = """
  three = Constant <value: tensor = int64[1] {3}> ()
  activation = Constant <value_floats: floats = @activation> ()
  slope = Slice (activation, zero, one)
  minimum_row = Slice (activation, one, two)
  maximum_row = Slice (activation, two, three)
  minimum = Squeeze (minimum_row)
  maximum = Squeeze (maximum_row)
"""
"""Nodes that compute slope, minimum and maximum."""

_ACTIVATED = f"""
  Vt = CastLike ({{sums}}, X)
  Vf = Cast <to: int = @accumulation_type> (Vt)
{ACTIVATION_NUMBERS.replace("{", "{{").replace("}", "}}")}  Vs = PRelu (Vf, slope)
  Vc = Clip (Vs, minimum, maximum)
"""


def _end(*, residual: bool, activation: bool) -> str:
    """Returns the nodes behind the bias, from the sums Ra to Y."""
    sums = "Ys" if residual else "Ra"
    last = "Vc" if activation else sums
    lines = [_ROUNDED + _RESIDUAL] * residual + [_ACTIVATED.format(sums=sums)] * activation
    if residual:
        lines.append(f"  Y = CastLike ({last}, X)\n")
    else:
        lines.append(f"  Yn = CastLike ({last}, X)\n  Y = Transpose <perm: ints = @y_perm> (Yn)\n")
    return "".join(lines)

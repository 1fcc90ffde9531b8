"""The text of the function bodies of the convolutions of 8-bit integers to quantized results: standard ONNX.

The integers are convolved as floats, so the sums are exact as long as their parts stay below 2^24. There are no
QuantizeLinear and DequantizeLinear around the convolution, between which ONNX Runtime would round weights.
"""

from __future__ import annotations

from ortconv.opset.bodies.convolutions import (
    ACTIVATION_NUMBERS,
    AXES,
    REFUSED,
    SAME_SHAPE,
    padded_transposed_convolution,
)

__all__ = ["OLDEST", "convolution", "quantized", "transposed_convolution"]

OLDEST = 13
"""The oldest version of ai.onnx in which there is a body."""

_INTEGERS = """
  Xc = Cast <to: int = 1> (X)
  x_zero = Cast <to: int = 1> (x_zero_point)
  Xa = Sub (Xc, x_zero)
  Wc = Cast <to: int = 1> (W)
  w_zero = Cast <to: int = 1> (w_zero_point)
  Wa = Sub (Wc, w_zero)
"""

_PRODUCTS = """
  inner = Sub (axes, one)
  minus_one = Constant <value: tensor = int64[1] {-1}> ()
  w_scales = Reshape (w_scale, minus_one)
  scales = Mul (x_scale, w_scales)
  scales_of_channels = Unsqueeze (scales, inner)
  Sv = Mul (S, scales_of_channels)
"""

_SCALED = f"""{_PRODUCTS}
  Br = Unsqueeze (B, inner)
  Sb = Add (Sv, Br)
"""

_CONVOLVED = """
  S = Conv <strides: ints = @strides, pads: ints = @pads, dilations: ints = @dilations, group: int = @group> (Xa, Wa)
"""

_AFFINE = """
  factors = Unsqueeze (factor, inner)
  addends = Unsqueeze (addend, inner)
  Vf = Mul ({activated}, factors)
  Va = Add (Vf, addends)
"""

_HARD_SIGMOID = """
  hard_sigmoid = Constant <value_floats: floats = @hard_sigmoid> ()
  alpha = Slice (hard_sigmoid, zero, one)
  beta = Slice (hard_sigmoid, one, two)
  none = Constant <value_float: float = 0.0> ()
  all = Constant <value_float: float = 1.0> ()
  Vx = Mul (Vc, alpha)
  Vy = Add (Vx, beta)
  Vg = Clip (Vy, none, all)
  Vh = Mul (Vc, Vg)
"""

_RESIDUAL = f"""
  Rc = Cast <to: int = 1> (R)
  r_zero = Cast <to: int = 1> (r_zero_point)
  Rs = Sub (Rc, r_zero)
  Rv = Mul (Rs, r_scale)
  result_shape = Shape (Sb)
{REFUSED}{SAME_SHAPE}  Rr = Reshape <allowzero = 1> (Rv, allowed_shape)
  V = Add (Sb, Rr)
"""

_ACTIVATED = f"{ACTIVATION_NUMBERS}  Vs = PRelu (V, slope)\n"


def quantized(values: str) -> str:
    """Returns nodes that quantize values to ``Y``, and refuse scales and zero points but a scalar or [1]."""
    return f"""
  least = Constant <value: tensor = int64[2] {{0, 0}}> ()
{_number("y_scale", "ys")}{_number("y_zero_point", "yz")}
  Y = QuantizeLinear ({values}, ys, yz)
"""


def _number(name: str, scalar: str) -> str:
    """Returns nodes that make a scalar of one number; there is no third of two zeros, for two axes or more."""
    return f"""
  {scalar}_shape = Shape ({name})
  {scalar}_rank = Shape ({scalar}_shape)
  {scalar}_zero = Gather (least, {scalar}_rank)
  {scalar}_none = ConstantOfShape <value: tensor = int64[1] {{0}}> ({scalar}_zero)
  {scalar} = Reshape ({name}, {scalar}_none)
"""


def transposed_convolution(opset: int, *, is_quantized: bool, residual: bool) -> str:
    """Returns the nodes of a body.

    Args:
        opset: The version of ai.onnx.
        is_quantized: Whether the result is quantized.
        residual: Whether there is a residual.
    """
    end = "  Vc = Clip (Vs, minimum, maximum)\n" + quantized("Vc")
    return "".join(
        [
            padded_transposed_convolution(opset, _INTEGERS),
            _SCALED,
            (_RESIDUAL if opset >= _ALLOW_ZERO else _RESIDUAL.replace(" <allowzero = 1>", ""))
            if residual
            else "  V = Identity (Sb)\n",
            _ACTIVATED,
            end if is_quantized else "  Y = Clip (Vs, minimum, maximum)\n",
        ]
    )


def convolution(*, hard_sigmoid: bool) -> str:
    """Returns the nodes of the body of QLinearConvolution.

    Args:
        hard_sigmoid: Whether what is activated is multiplied by its HardSigmoid.
    """
    activated = "  V = Add (Sv, B)\n" + _ACTIVATED + "  Vc = Clip (Vs, minimum, maximum)\n"
    if hard_sigmoid:
        activated += _HARD_SIGMOID
    affine = _AFFINE.format(activated="Vh" if hard_sigmoid else "Vc")
    return "".join([AXES, _INTEGERS, _CONVOLVED, _PRODUCTS, activated, affine, quantized("Va")])


_ALLOW_ZERO = 14
"""The opset that introduced allowzero of Reshape."""

"""The text of the function bodies of the transposed convolutions of 8-bit integers: standard ONNX.

The integers are convolved as floats, so the sums are exact as long as their parts stay below 2^24. There are no
QuantizeLinear and DequantizeLinear around the ConvTranspose, between which ONNX Runtime would round weights.
"""

from __future__ import annotations

from ortconv.opset.bodies.convolutions import (
    ACTIVATION_NUMBERS,
    REFUSED,
    SAME_SHAPE,
    padded_transposed_convolution,
)

__all__ = ["OLDEST", "quantized", "transposed_convolution"]

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

_SCALED = """
  inner = Sub (axes, one)
  minus_one = Constant <value: tensor = int64[1] {-1}> ()
  w_scales = Reshape (w_scale, minus_one)
  scales = Mul (x_scale, w_scales)
  scales_of_channels = Unsqueeze (scales, inner)
  Sv = Mul (S, scales_of_channels)
  Br = Unsqueeze (B, inner)
  Sb = Add (Sv, Br)
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
    """Returns nodes that quantize values to ``Y``, and refuse more than one scale and zero point."""
    return f"""
  one_number = Constant <value: tensor = int64[0] {{}}> ()
  ys = Reshape (y_scale, one_number)
  yz = Reshape (y_zero_point, one_number)
  Y = QuantizeLinear ({values}, ys, yz)
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


_ALLOW_ZERO = 14
"""The opset that introduced allowzero of Reshape."""

"""The "matmul" form of function bodies: Gather forms the input's columns (im2col), and one MatMul multiplies them.

These lines of a function's text stand between the geometry, whose values they read, and the bias, which reads S.
"""

from __future__ import annotations

__all__ = ["CONV_BY_MATMUL", "CONV_TRANSPOSE_BY_MATMUL"]


def _coordinates(size: str) -> str:
    """Returns nodes that compute the coordinates of a grid of sizes `size`, row by row: {size}_at is [points, axes].

    Divisors are at least 1: ONNX Runtime refuses a zero even if the dividend is empty.
    """
    return f"""
  {size}_table = Expand ({size}, square)
  {size}_inner = Where (is_inner, {size}_table, one)
  {size}_inner_points = ReduceProd <keepdims = 0> ({size}_inner, one)
  {size}_pitch = Max ({size}_inner_points, one)
  {size}_size = Max ({size}, one)
  {size}_count = ReduceProd <keepdims = 1> ({size})
  {size}_scalar = Squeeze ({size}_count, zero)
  {size}_range = Range (first, {size}_scalar, by)
  {size}_column = Unsqueeze ({size}_range, one)
  {size}_rows = Div ({size}_column, {size}_pitch)
  {size}_at = Mod ({size}_rows, {size}_size)
"""


# index [points of y, points of k]: the point of x, in row order, that a tap reads; x_count if it reads none.
_INDEX = f"""
  first = Constant <value_int = 0> ()
  by = Constant <value_int = 1> ()
  square = Concat <axis = 0> (spatial, spatial)
  spatial_scalar = Squeeze (spatial, zero)
  axis = Range (first, spatial_scalar, by)
  axis_row = Unsqueeze (axis, zero)
  axis_column = Unsqueeze (axis, one)
  is_inner = Greater (axis_row, axis_column)
  x_table = Expand (x, square)
  x_inner = Where (is_inner, x_table, one)
  x_pitch = ReduceProd <keepdims = 0> (x_inner, one)
  x_count = ReduceProd <keepdims = 1> (x)
{_coordinates("y")}{_coordinates("k")}
  tap = Mul (k_at, d)
"""

_INDEX_END = """
  not_below = GreaterOrEqual (position, zero)
  not_above = Less (position, x)
  in_range = And (not_below, not_above)
  hit = And (in_range, on_grid)
  hit_number = Cast <to = 7> (hit)
  all_hit_number = ReduceMin <keepdims = 0> (hit_number, two)
  all_hit = Cast <to = 9> (all_hit_number)
  offset = Mul (position, x_pitch)
  point = ReduceSum <keepdims = 0> (offset, two)
  index = Where (all_hit, point, x_count)
"""

_TRANSPOSE_INDEX = f"""{_INDEX}
  y_shifted = Add (y_at, b)
  y_points = Unsqueeze (y_shifted, one)
  scaled = Sub (y_points, tap)
  position = Div (scaled, s)
  remainder = Mod (scaled, s)
  on_positive_grid = Equal (remainder, zero)
  scaled_not_below = GreaterOrEqual (scaled, zero)
  on_grid = And (on_positive_grid, scaled_not_below)
{_INDEX_END}"""

_DIRECT_INDEX = f"""{_INDEX}
  y_scaled = Mul (y_at, s)
  y_shifted = Sub (y_scaled, b)
  y_points = Unsqueeze (y_shifted, one)
  position = Add (y_points, tap)
  on_grid = GreaterOrEqual (position, zero)
{_INDEX_END}"""


def _matmul(weights: str) -> str:
    """Returns nodes that multiply the gathered input by the weights; `weights` computes V [g, taps * c/g, m/g].

    The batch is part of the rows, not a batch axis: ONNX Runtime's MatMul refuses to broadcast over an empty one.
    """
    return f"""
  g_scalar = Constant <value_int: int = @group> ()
  g = Reshape (g_scalar, one)
  n = Shape <start = 0, end = 1> (Xt)
  c = Shape <start = 1, end = 2> (Xt)
  c_group = Div (c, g)
{weights}
  depth = Mul (k_count, c_group)
  v_shape = Concat <axis = 0> (g, depth, m_group)
  V = Reshape <allowzero = 1> (Wp, v_shape)
  flat_shape = Concat <axis = 0> (n, c, x_count)
  Xf = Reshape <allowzero = 1> (Xa, flat_shape)
  Xp = Transpose <perm = [2, 0, 1]> (Xf)
  row_shape = Concat <axis = 0> (one, n, c)
  naught = CastLike (zero, Xp)
  row = Expand (naught, row_shape)
  Xz = Concat <axis = 0> (Xp, row)
  G = Gather <axis = 0> (Xz, index)
  grouped_shape = Concat <axis = 0> (y_count, k_count, n, g, c_group)
  Gg = Reshape <allowzero = 1> (G, grouped_shape)
  Gp = Transpose <perm = [3, 2, 0, 1, 4]> (Gg)
  rows = Mul (n, y_count)
  u_shape = Concat <axis = 0> (g, rows, depth)
  U = Reshape <allowzero = 1> (Gp, u_shape)
  R3 = MatMul (U, V)
  r4_shape = Concat <axis = 0> (g, n, y_count, m_group)
  R4 = Reshape <allowzero = 1> (R3, r4_shape)
  Rp = Transpose <perm = [1, 0, 3, 2]> (R4)
  m = Mul (g, m_group)
  r_shape = Concat <axis = 0> (n, m, y)
  S = Reshape <allowzero = 1> (Rp, r_shape)
"""


_TRANSPOSE_WEIGHTS = """
  m_group = Shape <start = 1, end = 2> (Wt)
  w_shape = Concat <axis = 0> (g, c_group, m_group, k_count)
  Wr = Reshape <allowzero = 1> (Wa, w_shape)
  Wp = Transpose <perm = [0, 3, 1, 2]> (Wr)
"""

_DIRECT_WEIGHTS = """
  m_all = Shape <start = 0, end = 1> (Wt)
  m_group = Div (m_all, g)
  w_shape = Concat <axis = 0> (g, m_group, c_group, k_count)
  Wr = Reshape <allowzero = 1> (Wa, w_shape)
  Wp = Transpose <perm = [0, 3, 2, 1]> (Wr)
"""

CONV_TRANSPOSE_BY_MATMUL = _TRANSPOSE_INDEX + _matmul(_TRANSPOSE_WEIGHTS)
CONV_BY_MATMUL = _DIRECT_INDEX + _matmul(_DIRECT_WEIGHTS)

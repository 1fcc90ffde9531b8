"""The text of the function bodies of the short-time Fourier transforms, of OverlapAdd and of FourierTransform.

Filters are computed from window and gains in double, from exact integer phases; ONNX Runtime evaluates them once where
those are constants. float16 and bfloat16 are computed in float. ONNX Runtime convolves no doubles, so there is a form
in which everything is computed in double, by products of matrices.
"""

from __future__ import annotations

__all__ = ["DOUBLE", "LENGTH", "OLDEST", "SINES", "forward_stft", "fourier_transform", "inverse_stft", "overlap_add"]

DOUBLE = "double"
"""The switch of the form that computes in double, whatever the types of the nodes are."""

SINES = "sines"
"""The switch of bodies with the input of that name."""

LENGTH = "length"
"""The switch of bodies with the input of that name."""

OLDEST = 16
"""The version of ai.onnx that introduced sums of ScatterElements."""

_Switches = frozenset[str]

_NUMBERS = """
  zero = Constant <value_int = 0> ()
  one = Constant <value_int = 1> ()
  two = Constant <value_int = 2> ()
  front = Constant <value_ints = [0]> ()
  behind = Constant <value_ints = [1]> ()
  halves = Constant <value_ints = [1, 1]> ()
  tau = Constant <value = double {6.283185307179586}> ()
"""

_WAVES = """
  whole_turn = Cast <to = 11> (n)
  unit = Div (tau, whole_turn)
  phase = Mod (turns, n)
  phase_double = Cast <to = 11> (phase)
  angle = Mul (phase_double, unit)
  cosine = Cos (angle)
  sine = Sin (angle)
"""
"""Nodes that compute cosine and sine of `turns` / `n` whole turns, in double."""

# parts: 0 both, 1 cosines, 2 sines.
_FILTERS = f"""
  n = Constant <value_int: int = @n_fft> ()
  parts = Constant <value_int: int = @parts> ()
  gains_double = Cast <to = 11> (gains)
  window_double = Cast <to = 11> (window)
  channels = Size (gains_double)
  half = Div (channels, two)
  has_both = Equal (parts, zero)
  bins = Where (has_both, half, channels)
  has_no_cosine = Equal (parts, two)
  cosines = Where (has_no_cosine, zero, bins)
  channel_row = Range (zero, channels, one)
  channel = Unsqueeze (channel_row, behind)
  bin = Mod (channel, bins)
  taps = Size (window_double)
  tap = Range (zero, taps, one)
  turns = Mul (bin, tap)
{_WAVES}
  is_cosine = Less (channel, cosines)
  wave = Where (is_cosine, cosine, sine)
  gain = Unsqueeze (gains_double, behind)
  shaped = Mul (wave, window_double)
  filters = Mul (shaped, gain)
"""

_HOP = """
  hop_list = Constant <value_ints: ints = @hop> ()
  hop_scalar = Squeeze (hop_list, front)
"""

_POSITIONS = """
  frame_row = Range (zero, frame_scalar, one)
  frame = Unsqueeze (frame_row, behind)
  first = Mul (frame, hop_scalar)
  position = Add (first, tap)
"""
"""Nodes that compute the position [frames, taps] of each element of the frames."""

_FORWARD = """
  narrow = Cast <to = 1> (filters)
  weights = Unsqueeze (narrow, behind)
  data = Cast <to = 1> (signal)
  sums = Conv <strides: ints = @hop, pads: ints = @pads> (data, weights)
  Y = CastLike (sums, signal)
"""

# Div rounds towards zero, so a window that does not fit is refused by a size of -2.
_FORWARD_DOUBLE = f"""{_HOP}
  data = Cast <to = 11> (signal)
  pads = Constant <value_ints: ints = @pads> ()
  begin, end = Split (pads, halves)
  outer = Constant <value_ints = [0, 0]> ()
  ends = Concat <axis = 0> (outer, begin, outer, end)
  padded = Pad (data, ends)
  length = Shape <start = 2> (padded)
  taps_list = Unsqueeze (taps, front)
  room = Sub (length, taps_list)
  strides = Div (room, hop_list)
  count = Add (strides, one)
  fits = GreaterOrEqual (room, front)
  refused = Constant <value_ints = [-2]> ()
  frame_list = Where (fits, count, refused)
  frame_scalar = Squeeze (frame_list, front)
{_POSITIONS}
  row = Squeeze (padded, behind)
  gathered = Gather <axis = 1> (row, position)
  batch = Shape <start = 0, end = 1> (signal)
  rows = Mul (batch, frame_list)
  flat_shape = Concat <axis = 0> (rows, taps_list)
  flat = Reshape <allowzero = 1> (gathered, flat_shape)
  weights = Transpose <perm = [1, 0]> (filters)
  product = MatMul (flat, weights)
  channel_list = Shape (gains)
  frames_shape = Concat <axis = 0> (batch, frame_list, channel_list)
  by_frame = Reshape <allowzero = 1> (product, frames_shape)
  sums = Transpose <perm = [0, 2, 1]> (by_frame)
  Y = CastLike (sums, signal)
"""

# Positions that output_padding adds come first, as the pads may remove them.
_TRIMMED = """
  pads = Constant <value_ints: ints = @pads> ()
  begin, end = Split (pads, halves)
  added = Constant <value_ints: ints = @output_padding> ()
  untouched = Constant <value_ints = [0, 0, 0, 0, 0]> ()
  longer_ends = Concat <axis = 0> (untouched, added)
  longer = Pad (full, longer_ends)
  outer = Constant <value_ints = [0, 0]> ()
  signed_ends = Concat <axis = 0> (outer, begin, outer, end)
  ends = Neg (signed_ends)
  sums = Pad (longer, ends)
  Y = CastLike (sums, {data})
"""

_ADDED_UP = f"""{_HOP}
  batch = Shape <start = 0, end = 1> (by_frame)
  frame_list = Shape <start = 1, end = 2> (by_frame)
  frame_scalar = Squeeze (frame_list, front)
  taps_list = Unsqueeze (taps, front)
{_POSITIONS}
  strides = Sub (frame_list, one)
  last = Mul (strides, hop_list)
  size_or_less = Add (last, taps_list)
  size = Max (size_or_less, front)
  elements = Mul (frame_list, taps_list)
  row_shape = Concat <axis = 0> (batch, elements)
  updates = Reshape <allowzero = 1> (by_frame, row_shape)
  position_row = Reshape <allowzero = 1> (position, elements)
  indices = Expand (position_row, row_shape)
  empty_shape = Concat <axis = 0> (batch, size)
  naught = CastLike (zero, by_frame)
  nothing = Expand (naught, empty_shape)
  flat = ScatterElements <axis = 1, reduction = "add"> (nothing, indices, updates)
  full = Unsqueeze (flat, behind)
"""
"""Nodes that add up the frames [N, frames, taps]."""

_INVERSE = """
  narrow = Cast <to = 1> (filters)
  weights = Unsqueeze (narrow, behind)
  data = Cast <to = 1> (every)
  full = ConvTranspose <strides: ints = @hop> (data, weights)
"""

_INVERSE_DOUBLE = f"""
  data = Cast <to = 11> (every)
  last_channels = Transpose <perm = [0, 2, 1]> (data)
  data_shape = Shape <start = 0, end = 2> (last_channels)
  channel_list = Shape (gains)
  any_rows = ReduceProd <keepdims = 1> (data_shape)
  flat_shape = Concat <axis = 0> (any_rows, channel_list)
  flat_data = Reshape <allowzero = 1> (last_channels, flat_shape)
  product = MatMul (flat_data, filters)
  tap_count = Shape (window)
  product_shape = Concat <axis = 0> (data_shape, tap_count)
  by_frame = Reshape <allowzero = 1> (product, product_shape)
{_ADDED_UP}"""

_OVERLAP_ADD = """
  window_wide = Cast <to = {sums}> (window)
  taps = Size (window_wide)
  tap = Range (zero, taps, one)
  data = Cast <to = {sums}> (frames)
  factors = Unsqueeze (window_wide, behind)
  shaped = Mul (data, factors)
  by_frame = Transpose <perm = [0, 2, 1]> (shaped)
"""

_DEFAULT_LENGTH = """
  length_scalar = Identity (zero)
"""

_GIVEN_LENGTH = """
  length_scalar = Reshape (length, no_axes)
"""

# x is [A, size, B, parts]; the basis [size, parts, count, results] holds its part of each result. A Hermitian spectrum
# counts twice all bins but those that are their own conjugates.
_FOURIER = f"""
  no_axes = Constant <value = int64[0] {{{{}}}}> ()
{{length}}
  axis_given = Constant <value_int: int = @axis> ()
  inverse = Constant <value_int: int = @inverse> ()
  onesided = Constant <value_int: int = @onesided> ()
  is_inverse = Equal (inverse, one)
  is_onesided = Equal (onesided, one)
  is_forward = Not (is_inverse)
  gives_bins = And (is_onesided, is_forward)
  takes_bins = And (is_onesided, is_inverse)
  shape = Shape (X)
  rank = Size (shape)
  axis_from_end = Add (axis_given, rank)
  is_negative = Less (axis_given, zero)
  axis = Where (is_negative, axis_from_end, axis_given)
  axis_list = Unsqueeze (axis, front)
  after_axis = Add (axis_list, one)
  last_axis = Constant <value_ints = [-1]> ()
  before = Slice (shape, front, axis_list)
  size_list = Slice (shape, axis_list, after_axis)
  between = Slice (shape, after_axis, last_axis)
  component_list = Shape <start = -1> (X)
  size = Squeeze (size_list, front)
  before_and_one = Concat <axis = 0> (behind, before)
  between_and_one = Concat <axis = 0> (behind, between)
  outer = ReduceProd <keepdims = 1> (before_and_one)
  inner = ReduceProd <keepdims = 1> (between_and_one)
  bins_less_1 = Sub (size, one)
  length_of_bins = Mul (bins_less_1, two)
  default_length = Where (takes_bins, length_of_bins, size)
  has_length = Greater (length_scalar, zero)
  n = Where (has_length, length_scalar, default_length)
  half = Div (n, two)
  bins = Add (half, one)
  most = Where (takes_bins, bins, n)
  count = Where (gives_bins, bins, n)
  is_long = Greater (size, most)
  used = Where (is_long, most, size)
  used_list = Unsqueeze (used, front)
  count_list = Unsqueeze (count, front)
  row_axis = Constant <value_ints = [1]> ()
  data_shape = Concat <axis = 0> (outer, size_list, inner, component_list)
  wide = Cast <to = {{sums}}> (X)
  blocks = Reshape <allowzero = 1> (wide, data_shape)
  cut = Slice (blocks, front, used_list, row_axis)
  moved = Transpose <perm = [0, 2, 1, 3]> (cut)
  source = Range (zero, used, one)
  target = Range (zero, count, one)
  source_column = Unsqueeze (source, behind)
  turns = Mul (source_column, target)
{_WAVES}
  negative = Neg (sine)
  signed = Where (is_inverse, sine, negative)
  opposite = Neg (signed)
  column_axis = Constant <value_ints = [2]> ()
  real_of_real = Unsqueeze (cosine, column_axis)
  imaginary_of_real = Unsqueeze (signed, column_axis)
  real_of_imaginary = Unsqueeze (opposite, column_axis)
  of_real = Concat <axis = 2> (real_of_real, imaginary_of_real)
  of_imaginary = Concat <axis = 2> (real_of_imaginary, real_of_real)
  of_real_4d = Unsqueeze (of_real, behind)
  of_imaginary_4d = Unsqueeze (of_imaginary, behind)
  every = Concat <axis = 1> (of_real_4d, of_imaginary_4d)
  basis_parts = Slice (every, front, component_list, behind)
  result_scalar = Where (takes_bins, one, two)
  result_list = Unsqueeze (result_scalar, front)
  third_axis = Constant <value_ints = [3]> ()
  basis_results = Slice (basis_parts, front, result_list, third_axis)
  one_double = Constant <value = double {{{{1.0}}}}> ()
  two_double = Constant <value = double {{{{2.0}}}}> ()
  scale = Where (is_inverse, whole_turn, one_double)
  twice_source = Mul (source, two)
  twice_phase = Mod (twice_source, n)
  is_own_conjugate = Equal (twice_phase, zero)
  is_single = And (takes_bins, is_own_conjugate)
  is_pair_or_plain = Not (is_single)
  counts_twice = And (takes_bins, is_pair_or_plain)
  times = Where (counts_twice, two_double, one_double)
  weight = Div (times, scale)
  weight_axes = Constant <value_ints = [1, 2, 3]> ()
  weight_4d = Unsqueeze (weight, weight_axes)
  basis_double = Mul (basis_results, weight_4d)
  basis = Cast <to = {{sums}}> (basis_double)
  depth = Mul (used_list, component_list)
  width = Mul (count_list, result_list)
  basis_shape = Concat <axis = 0> (depth, width)
  matrix = Reshape <allowzero = 1> (basis, basis_shape)
  single = Unsqueeze (is_single, behind)
  ignores = Constant <value = bool[1, 2] {{{{0, 1}}}}> ()
  ignores_parts = Slice (ignores, front, component_list, behind)
  is_ignored = And (single, ignores_parts)
  naught = CastLike (zero, moved)
  known = Where (is_ignored, naught, moved)
  rows = Mul (outer, inner)
  rows_shape = Concat <axis = 0> (rows, depth)
  flat = Reshape <allowzero = 1> (known, rows_shape)
  product = MatMul (flat, matrix)
  product_shape = Concat <axis = 0> (outer, inner, count_list, result_list)
  result_blocks = Reshape <allowzero = 1> (product, product_shape)
  result = Transpose <perm = [0, 2, 1, 3]> (result_blocks)
  result_shape = Concat <axis = 0> (before, count_list, between, result_list)
  shaped = Reshape <allowzero = 1> (result, result_shape)
  Y = CastLike (shaped, X)
"""


def forward_stft(opset: int, switches: _Switches) -> str:
    """Returns the nodes of a body of ForwardSTFT."""
    return _NUMBERS + _FILTERS + (_FORWARD_DOUBLE if DOUBLE in switches else _FORWARD)


def inverse_stft(opset: int, switches: _Switches) -> str:
    """Returns the nodes of a body of InverseSTFT."""
    joined = (
        "  every = Concat <axis = 1> (spectrum, sines)\n" if SINES in switches else "  every = Identity (spectrum)\n"
    )
    compute = _INVERSE_DOUBLE if DOUBLE in switches else _INVERSE
    return _NUMBERS + _FILTERS + joined + compute + _TRIMMED.format(data="spectrum")


def overlap_add(opset: int, switches: _Switches) -> str:
    """Returns the nodes of a body of OverlapAdd."""
    return _NUMBERS + _OVERLAP_ADD.format(sums=_sums(switches)) + _ADDED_UP + _TRIMMED.format(data="frames")


def fourier_transform(opset: int, switches: _Switches) -> str:
    """Returns the nodes of a body of FourierTransform."""
    length = _GIVEN_LENGTH if LENGTH in switches else _DEFAULT_LENGTH
    return _NUMBERS + _FOURIER.format(length=length, sums=_sums(switches))


def _sums(switches: _Switches) -> int:
    """Returns the type of products and sums, as ``TensorProto`` numbers it."""
    return 11 if DOUBLE in switches else 1

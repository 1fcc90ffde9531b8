"""The operator ``GatherMatMulCompressed``: MatMul by compressed weights with a per-row expert index.

Mixtures of experts consist of such products: each row of the data is multiplied by the matrices of a few experts. The
function body loops over the matrices that the index holds; it dequantizes one, and multiplies the rows of that expert.
"""

from __future__ import annotations

from ortconv.opset.inferred_node import Dim, InferredNode, differ
from ortconv.opset.operator import Formal
from ortconv.opset.ops.compressed_weights import check_columns, check_scales, compressed_product
from ortconv.opset.reference.compressed_weights import gather_matmul_compressed

__all__ = ["GATHER_MATMUL_COMPRESSED", "NAMED_PRODUCTS", "infer_products"]

_RANK = 3
"""The rank of X and of data."""

_DOC = """Y[t, j] = W[index[t, j]] X[t, j], where X [T, J, K] may have 1 in the place of J, whose row then serves all j.
W [E, N, K] is

    DequantizeLinear(data, scale, zero_point, axis=2, block_size=block_size):
    W[e, n, k] = (data[e, n, k] - zero_point[e, n, b]) * scale[e, n, b] with b = k / block_size, rounded down.

Where an index is negative, or E or more, Y[t, j] is zeros.

The difference is exact. Products and sums are formed in float, in any order; a scale may be applied to the sum over its
block. Y is rounded to its type at the end. Where that is not float, W may be rounded to it; nothing else is rounded, in
particular not X."""

NAMED_PRODUCTS = """
  all = Constant <value_ints = [-1]> ()
  slots = Reshape (index, all)
  named = Unique <sorted = 1> (slots)
  first = Constant <value_int = 0> ()
  is_negative = Less (named, first)
  is_not = Not (is_negative)
  matrices = Shape <start: int = 0, end: int = 1> (codes)
  is_below = Less (named, matrices)
  is_there = And (is_not, is_below)
  chosen = Compress (named, is_there)
  count = Size (chosen)
  sizes = Shape (index)
  one = Constant <value_ints = [1]> ()
  places = Concat <axis = 0> (sizes, one)
  wide = Cast <to = 1> (X)
  spread = Expand (wide, places)
  depth = Shape <start: int = 2, end: int = 3> (codes)
  row = Concat <axis = 0> (all, depth)
  rows = Reshape (spread, row)
  width = Shape <start: int = 1, end: int = 2> (codes)
  slot_count = Shape (slots)
  size = Concat <axis = 0> (slot_count, width)
  begun = ConstantOfShape (size)
  always = Constant <value = bool {1}> ()
  products = Loop (count, always, begun) <body = matrix (int64 turn, bool more, float[s, n] sum) =>
      (bool go_on, float[s, n] added) {
    go_on = Identity (more)
    e = Gather (chosen, turn)
    is_own = Equal (slots, e)
    found = NonZero (is_own)
    own = Transpose <perm = [1, 0]> (found)
    x = GatherND (rows, own)
%s
    y = MatMul (x, columns)
    added = ScatterND (sum, own, y)
  }>
  shape = Concat <axis = 0> (sizes, width)
  shaped = Reshape <allowzero: int = 1> (products, shape)
  Y = CastLike (shaped, X)
"""
"""Nodes of a body that loop over the experts in the index; %s computes the columns [K, N] of matrix e."""

# No standard op takes a slice of an int4 tensor, so the integers are converted to uint8, which ONNX Runtime does once
# for constants. The highest bit of signed ones and of their zero points is flipped, which does not change their
# differences. QuantizeLinear of zeros returns the zero points, or zeros of uint8 if there are none.
_UINT8 = """
  minus_one = Constant <value_int = -1> ()
  code = CastLike (minus_one, data)
  read = Cast <to = 6> (code)
  nothing = Constant <value = int32 {0}> ()
  is_signed = Less (read, nothing)
  highest = Constant <value = uint8 {128}> ()
  no_bit = Constant <value = uint8 {0}> ()
  turned = Where (is_signed, highest, no_bit)
  byte_codes = Cast <to = 2> (data)
  codes = BitwiseXor (byte_codes, turned)
  blocks = Shape (scale)
  zeros = ConstantOfShape (blocks)
  ones = ConstantOfShape <value = float[1] {1.0}> (blocks)
  given = QuantizeLinear <axis: int = 2, block_size: int = 1> (zeros, ones, zero_point)
  byte_points = Cast <to = 2> (given)
  points = BitwiseXor (byte_points, turned)
  scales = Cast <to = 1> (scale)
"""
_COLUMNS_OF_UINT8 = """
    code_e = Gather (codes, e)
    scale_e = Gather (scales, e)
    point_e = Gather (points, e)
    weights = DequantizeLinear <axis: int = 1, block_size: int = @block_size> (code_e, scale_e, point_e)
    columns = Transpose <perm = [1, 0]> (weights)
"""


def infer_products(node: InferredNode, block: int) -> list[Dim] | None:
    """Checks X, data [E, N, K], scale and index, the first four inputs; returns the shape of Y or None."""
    x, data, index = node.dims(0), node.dims(1), node.dims(3)
    for name, dims in (("X", x), ("data", data)):
        if dims is not None and len(dims) != _RANK:
            raise node.fail(f"{name} has rank {len(dims)}; allowed: {_RANK}")
    count, width, depth = data or [None] * _RANK
    check_columns(node, block, x, depth)
    check_scales(node, block, [count, width, depth], (2, "scale"))
    if index is not None and len(index) != _RANK - 1:
        raise node.fail(f"index has rank {len(index)}; allowed: {_RANK - 1}")
    rows, slots = index or [None if x is None else x[0], None]
    if x is not None and (differ(x[0], rows) or (x[1] != 1 and differ(x[1], slots))):
        raise node.fail(f"X has shape {x}; allowed: {[rows, slots, depth]}, or 1 along axis 1")
    return [rows, slots, width]


def _infer(node: InferredNode, block: int) -> list[Dim] | None:
    shape = infer_products(node, block)
    check_scales(node, block, node.dims(1) or [None] * _RANK, (4, "zero_point"))
    return shape


GATHER_MATMUL_COMPRESSED = compressed_product(
    name="GatherMatMulCompressed",
    inputs=(
        Formal("X", "T", "Data [T, J, K] or [T, 1, K]."),
        Formal("data", "C", "Integers [E, N, K]."),
        Formal("scale", "T", "Scales [E, N, K / block_size]."),
        Formal("index", "I", "Expert index: which of E matrices, [T, J]."),
        Formal("zero_point", "C", "Zero points [E, N, K / block_size]; none is 0.", optional=True),
    ),
    output="The products [T, J, N].",
    doc=_DOC,
    text=_UINT8 + NAMED_PRODUCTS % _COLUMNS_OF_UINT8,
    infer=_infer,
    reference=gather_matmul_compressed,
)

"""Evaluating ONNX nodes whose inputs are constants, where the result is the same on every machine.

Only ops that move data, count, compare, or round correctly are evaluated: sums of floats, exponentials and the like
depend on how a runtime computes them, and are not folded. Nothing is folded that would make the model bigger, as
decompressing weights or broadcasting a scalar would.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.graph.annotations import BYTES_IN_FILE, COMPUTED_FROM, STORED_TYPE, Computed

__all__ = ["NUMBERS", "evaluate", "fold"]


_Array = npt.NDArray[Any]
_Arrays = Sequence[_Array]
_Attributes = Mapping[str, Any]

_SMALL = 1 << 16
"""Results up to this many bytes may be bigger than their operands."""

_LARGE = 1 << 24
"""Tensors of more bytes are only moved and cast, not computed with."""

_BLOCK = 128

_FLOATS = frozenset({ir.DataType.FLOAT16, ir.DataType.FLOAT, ir.DataType.DOUBLE})
_INTEGERS = frozenset(ir.DataType[f"{sign}INT{bits}"] for sign in ("", "U") for bits in (8, 16, 32, 64))
NUMBERS = _FLOATS | _INTEGERS
"""Types of numbers that every opset has."""
_TYPES = NUMBERS | {ir.DataType.BOOL}
_COMPRESSED = frozenset({ir.DataType.INT8, ir.DataType.UINT8})
_HALVES = frozenset({ir.DataType.FLOAT16, ir.DataType.BFLOAT16})
_WHOLE_HALVES = 2048
"""float16 has all integers up to this one; beyond it, a cast depends on the intermediate types."""


def fold(
    op_type: str, inputs: Sequence[ir.TensorProtocol | None], attributes: _Attributes, outputs: int
) -> list[ir.TensorProtocol] | None:
    """Evaluates a node of the ai.onnx domain, opset 18 or newer.

    Args:
        op_type: The op.
        inputs: Data of the inputs, None for absent optional ones.
        attributes: As given to `Builder.op`.
        outputs: How many outputs the node has.

    Returns:
        The outputs, or None if the node is not folded. Data of large outputs are computed at every access.
    """
    folded = _folded(op_type, inputs, attributes, outputs)
    stored = _stored(op_type, inputs, attributes)
    if stored is not None:
        for tensor in folded or ():
            STORED_TYPE.set(tensor, stored)
    return folded


def _stored(op_type: str, inputs: Sequence[ir.TensorProtocol | None], attributes: _Attributes) -> ir.DataType | None:
    """Returns the narrower type in which the results of a node are exact."""
    data = inputs[0] if inputs else None
    if data is None or op_type not in _MOVES or (op_type == "Cast" and attributes["to"] != ir.DataType.FLOAT):
        return None
    return data.dtype if data.dtype in _HALVES and op_type == "Cast" else STORED_TYPE.get(data)


def _folded(
    op_type: str, inputs: Sequence[ir.TensorProtocol | None], attributes: _Attributes, outputs: int
) -> list[ir.TensorProtocol] | None:
    function = _FUNCTIONS.get(op_type)
    types = {tensor.dtype for tensor in inputs if tensor is not None}
    if function is None or (op_type in _INTEGERS_ONLY and types & _FLOATS):
        return None
    if not types <= (_TYPES | _HALVES if op_type in _MOVES else _TYPES):
        return None
    size = sum(tensor.nbytes for tensor in inputs if tensor is not None)
    if op_type in _MOVES and size > _SMALL:
        return _lazy(op_type, function, inputs, attributes)
    if size > _LARGE:  # counted once per input
        return None
    grown = 2 * size if op_type == "Cast" and types <= _HALVES else size  # Halves become floats, whatever their size.
    arrays = [None if tensor is None else tensor.numpy() for tensor in inputs]
    results = evaluate(op_type, arrays, attributes, outputs, max(grown, _SMALL))
    return None if results is None else [ir.tensor(each) for each in results]


def evaluate(
    op_type: str, arrays: Sequence[_Array | None], attributes: _Attributes, outputs: int, most: int
) -> list[_Array] | None:
    """Evaluates an op on arrays; see `fold`.

    Args:
        op_type: The op.
        arrays: Its inputs.
        attributes: Its attributes.
        outputs: How many outputs it has.
        most: The most bytes that the outputs may have.
    """
    try:
        with np.errstate(all="ignore"):
            results = _FUNCTIONS[op_type](arrays, {**attributes, "most": most, "outputs": outputs})
    except (IndexError, OverflowError, TypeError, ValueError):
        return None  # The checker or the runtime reports what is wrong with the node.
    if results is None:
        return None
    made = [np.asarray(each) for each in (results if isinstance(results, list) else [results])]
    return made if len(made) == outputs and sum(each.nbytes for each in made) <= most else None


def _lazy(
    op_type: str, function: Callable[..., Any], inputs: Sequence[ir.TensorProtocol | None], attributes: _Attributes
) -> list[ir.TensorProtocol] | None:
    """Returns a tensor whose data are moved at access; its shape is computed on a tensor without memory."""
    data, *others = inputs
    assert data is not None
    if attributes.get("to") not in (None, ir.DataType.FLOAT) or ("to" in attributes and data.dtype not in _HALVES):
        return None
    rest = [None if other is None else other.numpy() for other in others]
    try:
        empty = np.broadcast_to(np.zeros((), data.dtype.numpy()), data.shape.numpy())
        shape = function([empty, *rest], attributes).shape
    except (IndexError, ValueError):
        return None
    dtype = ir.DataType(attributes.get("to", data.dtype))
    tensor = ir.LazyTensor(
        lambda: ir.tensor(_contiguous(function([data.numpy(), *rest], attributes))), dtype, ir.Shape(shape)
    )
    others = [None if each is None else each.tolist() for each in rest]
    COMPUTED_FROM.set(tensor, Computed(op_type, data, repr((others, sorted(attributes.items())))))
    if op_type in _RESHAPES:
        BYTES_IN_FILE.copy(data, tensor)
    return [tensor]


def _contiguous(array: _Array) -> _Array:
    """Returns a C-contiguous array; a transposed matrix is copied in blocks, which is faster."""
    if array.ndim != 2 or not array.flags.f_contiguous:
        return np.ascontiguousarray(array)
    made = np.empty(array.shape, array.dtype)
    for start in range(0, array.shape[1], _BLOCK):
        made[:, start : start + _BLOCK] = array[:, start : start + _BLOCK]
    return made


def _plain(function: Callable[..., Any]) -> Callable[[_Arrays, _Attributes], Any]:
    """An elementwise op: operands of one type broadcast."""

    def evaluate(arrays: _Arrays, attributes: _Attributes) -> Any:
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
        if math.prod(shape) * max(array.itemsize for array in arrays) > attributes["most"]:
            return None
        return function(*arrays)

    return evaluate


def _divide(x: _Array, y: _Array) -> Any:
    if x.dtype.kind == "f":
        return np.divide(x, y)
    if not np.all(y):
        return None
    quotient = x // y
    return quotient + ((quotient < 0) & (quotient * y != x)).astype(x.dtype)


def _modulo(arrays: _Arrays, attributes: _Attributes) -> Any:
    x, y = arrays
    if not np.all(y):
        return None
    return np.fmod(x, y) if attributes.get("fmod") else np.mod(x, y)


def _cast(arrays: _Arrays, attributes: _Attributes) -> Any:
    (x,) = arrays
    source, to = ir.DataType.from_numpy(x.dtype), ir.DataType(attributes["to"])
    if source in _HALVES and to == ir.DataType.FLOAT:
        return x.astype(np.float32)
    if not {source, to} <= _TYPES or (source in _COMPRESSED and to in _FLOATS):
        return None
    if source in _FLOATS and to in _INTEGERS:
        info, wide = np.iinfo(to.numpy()), x.astype(np.float64)  # float64 holds the bounds exactly, float16 does not
        if not np.all((wide >= info.min) & (wide <= min(info.max, 2**53))):
            return None
    if (
        to == ir.DataType.FLOAT16
        and source not in (to, ir.DataType.FLOAT)
        and not np.all((np.abs(x) <= _WHOLE_HALVES) & (x == np.rint(x)))
    ):
        return None
    return x.astype(to.numpy())


def _gather(arrays: _Arrays, attributes: _Attributes) -> Any:
    data, indices = arrays
    axis = attributes.get("axis") or 0
    if not _bounded([indices.size, *np.delete(data.shape, axis).tolist()], data, attributes):
        return None
    taken = np.take(data, indices, axis=axis)
    return np.asarray(taken, data.dtype)  # of an object array, a single element comes without an array


def _slice(arrays: Sequence[Any], attributes: _Attributes) -> Any:
    data, starts, ends, axes, steps = (*arrays, None, None)[:5]
    along = range(len(starts)) if axes is None else axes.tolist()
    window = [slice(None)] * data.ndim
    for axis, start, end, step in zip(
        along, starts.tolist(), ends.tolist(), [1] * len(starts) if steps is None else steps.tolist(), strict=True
    ):
        size = data.shape[axis]
        first, last = (at + size if at < 0 else at for at in (start, end))
        if step < 0:
            if not 0 <= first < size:
                return None
            window[axis] = slice(first, last if last >= 0 else None, step)
        else:
            window[axis] = slice(max(first, 0), max(last, 0), step)
    return data[tuple(window)]


def _split(arrays: _Arrays, attributes: _Attributes) -> Any:
    data, axis, parts = arrays[0], attributes.get("axis") or 0, attributes["outputs"]
    if len(arrays) == 2:
        lengths = arrays[1].tolist()
    else:
        part = -(-data.shape[axis] // parts)
        lengths = [part] * (parts - 1) + [data.shape[axis] - part * (parts - 1)]
    if min(lengths) < 0 or sum(lengths) != data.shape[axis]:
        return None
    return np.split(data, np.cumsum(lengths)[:-1], axis)


def _squeeze(arrays: _Arrays, attributes: _Attributes) -> Any:
    return np.squeeze(arrays[0], tuple(arrays[1].tolist()) if len(arrays) == 2 else None)


def _reshape(arrays: _Arrays, attributes: _Attributes) -> Any:
    data, target = arrays
    copies = not attributes.get("allowzero")
    shape = [data.shape[i] if dim == 0 and copies else dim for i, dim in enumerate(target.tolist())]
    if -1 in shape and 0 in shape:
        return None
    return data.reshape(shape)


def _expand(arrays: _Arrays, attributes: _Attributes) -> Any:
    data, target = arrays
    shape = np.broadcast_shapes(data.shape, tuple(target.tolist()))
    return _bounded(shape, data, attributes) and np.broadcast_to(data, shape).copy()


def _tile(arrays: _Arrays, attributes: _Attributes) -> Any:
    data, repeats = arrays
    shape = [size * count for size, count in zip(data.shape, repeats.tolist(), strict=True)]
    return _bounded(shape, data, attributes) and np.tile(data, repeats)


def _pad(arrays: Sequence[Any], attributes: _Attributes) -> Any:
    data, pads, filler, axes = (*arrays, None, None)[:4]
    widths = pads.reshape(2, -1).T.tolist()
    if attributes.get("mode", "constant") != "constant" or axes is not None or pads.min(initial=0) < 0:
        return None
    shape = [size + before + after for size, (before, after) in zip(data.shape, widths, strict=True)]
    if not _bounded(shape, data, attributes):
        return None
    padded = np.full(shape, 0 if filler is None else filler.item(), data.dtype)
    padded[tuple(slice(before, before + size) for size, (before, _) in zip(data.shape, widths, strict=True))] = data
    return padded


def _bounded(shape: Sequence[int], data: _Array, attributes: _Attributes) -> bool | None:
    return math.prod(shape) * data.itemsize <= attributes["most"] or None


def _non_zero(arrays: _Arrays, attributes: _Attributes) -> Any:
    (data,) = arrays
    if not _bounded([int(np.count_nonzero(data)), data.ndim], np.empty(0, np.int64), attributes):
        return None
    return np.array(np.nonzero(data), np.int64)


def _range(arrays: _Arrays, attributes: _Attributes) -> Any:
    start, stop, step = (array.item() for array in arrays)
    if arrays[0].dtype.kind != "i" or step == 0 or abs(stop - start) * arrays[0].itemsize > attributes["most"]:
        return None
    return np.arange(start, stop, step).astype(arrays[0].dtype)


def _filled(arrays: _Arrays, attributes: _Attributes) -> Any:
    value = attributes.get("value")
    entry = np.zeros(1, np.float32) if value is None else np.asarray(value.numpy())
    shape = arrays[0].tolist()
    return _bounded(shape, entry, attributes) and np.full(shape, entry.reshape(-1)[0], entry.dtype)


def _reduced(function: Callable[..., Any]) -> Callable[[_Arrays, _Attributes], Any]:
    def evaluate(arrays: _Arrays, attributes: _Attributes) -> Any:
        axes = tuple(arrays[1].tolist()) if len(arrays) == 2 else ()
        if not axes and attributes.get("noop_with_empty_axes"):
            return None
        keepdims = bool(attributes.get("keepdims", 1))
        if arrays[0].size == 0 and function in (np.max, np.min):
            return None
        return function(arrays[0], axis=axes or None, keepdims=keepdims).astype(arrays[0].dtype)

    return evaluate


_ELEMENTWISE: Mapping[str, Callable[..., Any]] = {
    "Abs": np.abs,
    "Add": np.add,
    "And": np.logical_and,
    "Ceil": np.ceil,
    "Div": _divide,
    "Equal": np.equal,
    "Floor": np.floor,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Mul": np.multiply,
    "Neg": np.negative,
    "Not": np.logical_not,
    "Or": np.logical_or,
    "Round": np.rint,
    "Sqrt": np.sqrt,
    "Sub": np.subtract,
    "Where": np.where,
    "Xor": np.logical_xor,
}

_INTEGERS_ONLY = frozenset({"CumSum", "Mod", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum"})

_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    **{name: _plain(function) for name, function in _ELEMENTWISE.items()},
    "Cast": _cast,
    "Concat": lambda arrays, attributes: np.concatenate(arrays, attributes["axis"]),
    "ConstantOfShape": _filled,
    "CumSum": lambda arrays, attributes: (
        None
        if attributes.get("exclusive") or attributes.get("reverse")
        else np.cumsum(arrays[0], arrays[1].item(), arrays[0].dtype)
    ),
    "Expand": _expand,
    "Gather": _gather,
    "Max": _plain(lambda *arrays: np.maximum.reduce(np.broadcast_arrays(*arrays))),
    "Min": _plain(lambda *arrays: np.minimum.reduce(np.broadcast_arrays(*arrays))),
    "Mod": _modulo,
    "NonZero": _non_zero,
    "Pad": _pad,
    "Range": _range,
    "ReduceMax": _reduced(np.max),
    "ReduceMin": _reduced(np.min),
    "ReduceProd": _reduced(np.prod),
    "ReduceSum": _reduced(np.sum),
    "Reshape": _reshape,
    "Size": lambda arrays, attributes: np.array(arrays[0].size, np.int64),
    "Slice": _slice,
    "Split": _split,
    "Squeeze": _squeeze,
    "Tile": _tile,
    "Transpose": lambda arrays, attributes: np.transpose(arrays[0], attributes.get("perm")),
    "Unsqueeze": lambda arrays, attributes: np.expand_dims(arrays[0], tuple(arrays[1].tolist())),
}

_RESHAPES = frozenset({"Reshape", "Squeeze", "Unsqueeze"})
_MOVES = _RESHAPES | {"Cast", "Transpose"}
"""Ops that large tensors are folded through: each input element appears once in the output."""

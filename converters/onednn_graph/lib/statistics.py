"""Statistics of the normalization ops: type checks, means, deviations, rounding of several results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx_ir as ir

from ortconv.converters.onednn_graph.lib.data_format import DataFormat, broken_vector, channels_of, known_dims
from ortconv.converters.onednn_graph.lib.dtypes import check_type, dtype_name
from ortconv.errors import ShapeError
from ortconv.graph.builder import Builder, Ints

__all__ = ["check_channels", "check_statistics", "deviation", "mean_of", "rounded", "scaled_by"]

Shape = ir.Shape | Sequence[int | str | None] | None


def check_statistics(b: Builder, src: ir.Value, inputs: Mapping[str, ir.Value | None]) -> None:
    """Checks the types of gamma, beta, mean, variance and their gradients: f32, or bf16 if src is bf16; all equal.

    Args:
        b: The builder.
        src: The data.
        inputs: By argument name; None where absent.

    Raises:
        UnsupportedTypeError: A type is not allowed.
    """
    types = {name: value.dtype for name, value in inputs.items() if value is not None}
    types |= {output.name: output.dtype for output in b.node.outputs[1:]}
    allowed = ["f32", "bf16"] if dtype_name(src.dtype) == "bf16" else ["f32"]
    for name, dtype in types.items():
        check_type(name, dtype, allowed)
        check_type(name, dtype, [dtype_name(next(iter(types.values())))])


def check_channels(src: ir.Value, data_format: DataFormat, vectors: Mapping[str, ir.Value | None]) -> None:
    """Checks that vectors have one entry per channel.

    Raises:
        ShapeError: One has another shape.
    """
    channels = channels_of("src", src, data_format)
    for name, value in vectors.items():
        dims = None if value is None else known_dims(value)
        if dims is not None and broken_vector(dims, channels):
            raise ShapeError(name, dims, f"[{channels}] is required: one entry per channel of src in {data_format}.")


def mean_of(b: Builder, value: ir.Value, axes: Ints, *, keep: bool = True) -> ir.Value:
    """Emits the mean over axes; with `keep`, they remain with size 1."""
    return b.op("ReduceMean", value, b.constant(axes), keepdims=int(keep))


def deviation(b: Builder, variance: ir.Value, epsilon: float) -> ir.Value:
    """Emits sqrt(variance + epsilon)."""
    return b.op("Sqrt", b.op("Add", variance, b.constant(epsilon, "float32")))


def scaled_by(b: Builder, vector: ir.Value, trailing: int) -> ir.Value:
    """Reshapes a vector to [length, 1, ...] with `trailing` axes of size 1."""
    return b.op("Reshape", vector, b.constant([-1, *[1] * trailing])) if trailing else vector


def rounded(b: Builder, results: Sequence[ir.Value], shapes: Sequence[Shape]) -> tuple[ir.Value, ...]:
    """Rounds float32 results to the declared types of the outputs; drops results without an output."""
    return tuple(
        b.cast(b.typed(result, ir.DataType.FLOAT, shape), output.dtype)
        for result, shape, output in zip(results, shapes, b.node.outputs, strict=False)
    )

"""The builder of oneDNN graphs."""

from __future__ import annotations

import dataclasses
import json
import math
import operator
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence

from ortconv.onednn.attributes import Attribute, attribute
from ortconv.onednn.op_schema import ATTRIBUTE_TYPES, DTYPES, KINDS, MAX_RANK, is_unset

__all__ = [
    "OWN_FIELD",
    "UNKNOWN",
    "Graph",
    "Op",
    "Tensor",
    "graph_inputs",
    "graph_outputs",
]

UNKNOWN = -(1 << 63)
"""Value of an unknown dimension in the format."""

VERSION = "3.13.0"
"""Library version that `Graph.save` writes into the file."""

OWN_FIELD = "ortconv"
"""Last field of a file, for data that the format does not define; other readers ignore it."""

_SIZES = range(1 << 63)


@dataclasses.dataclass(frozen=True)
class Tensor:
    """A logical tensor.

    Attributes:
        id: Id, unique in the graph.
        dtype: Element type by oneDNN's name: f32, bf16, f16, s32, ...; "undef" if unknown.
        shape: Dimensions in logical order, None for an unknown one; None if the rank is unknown.
        name: Name in the ONNX model; "" for a name derived from the id.
        property_type: "undef", "variable", "constant" or "host_scalar".
        stride: Stride of each dimension in elements; None for a dense tensor.
    """

    id: int
    dtype: str
    shape: tuple[int | None, ...] | None
    name: str = ""
    property_type: str = "undef"
    stride: tuple[int, ...] | None = None


@dataclasses.dataclass(frozen=True)
class Op:
    """An operation.

    Attributes:
        id: Id, unique in the graph.
        kind: Op kind, such as "Convolution".
        name: Any text.
        inputs: Input tensors in the order of the op's specification; only the last ones can be omitted.
        outputs: Output tensors in the order of the op's specification.
        attributes: Attribute name -> value; unset attributes are absent.
        notes: Remarks of the reader about the op.
        warnings: What the reader ignores of it.
    """

    id: int
    kind: str
    name: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attributes: Mapping[str, Attribute]
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class Graph:
    """A oneDNN graph under construction.

    Args:
        name: Name of the graph, which becomes that of the ONNX model.
    """

    def __init__(self, name: str = "graph") -> None:
        self.name = name
        self._ops: list[Op] = []
        self._names: set[str] = set()
        self._tensors: list[Tensor] = []
        self._computed: set[int] = set()

    @property
    def ops(self) -> tuple[Op, ...]:
        """The operations in the order of their addition."""
        return tuple(self._ops)

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors without a producer, in the order of their first use."""
        return graph_inputs(self._ops)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """The tensors without a consumer and those that an End marks, in the order of their producers."""
        return graph_outputs(self._ops)

    def tensor(
        self,
        name: str,
        dtype: str,
        shape: Sequence[int | None] | None,
        *,
        constant: bool = False,
        host_scalar: bool = False,
    ) -> Tensor:
        """Creates a tensor: an input of the graph, or an output to pass to `op`.

        Args:
            name: Name in the ONNX model, unique in the graph.
            dtype: Element type by oneDNN's name: f32, bf16, f16, f64, s64, s32, s8, u8, s4, u4, boolean, f8_e5m2,
                f8_e4m3, e8m0 or f4_e2m1.
            shape: Up to 12 dimensions in logical order, None for an unknown one; None if the rank is unknown.
            constant: Whether the data never changes. The data itself is an argument of the conversion.
            host_scalar: Whether the tensor is a scalar passed by value.

        Returns:
            The tensor.

        Raises:
            ValueError: The name is taken, empty or a number; the dtype is unknown; a dimension is negative, the rank
                exceeds 12, or the shape is [None], which the format cannot distinguish from an unknown rank.
        """
        if not name or name.isdecimal() or name in self._names:
            raise ValueError(f"tensor name {name!r} is taken, empty or a number")
        if dtype not in DTYPES:
            raise ValueError(f"tensor {name!r} has dtype {dtype!r}; allowed: {', '.join(DTYPES)}")
        dims = None if shape is None else _checked_shape(name, shape)
        self._names.add(name)
        property_type = "constant" if constant else "host_scalar" if host_scalar else "undef"
        self._tensors.append(Tensor(len(self._tensors), dtype, dims, name, property_type))
        return self._tensors[-1]

    def op(
        self,
        kind: str,
        inputs: Sequence[Tensor],
        *,
        outputs: Sequence[Tensor] | None = None,
        dtype: str | None = None,
        results: int | None = None,
        name: str | None = None,
        **attributes: object,
    ) -> Tensor:
        """Adds an operation.

        Args:
            kind: Op kind, such as "Convolution"; see "Operations" in the specification of oneDNN Graph.
            inputs: Tensors in the order of the op's specification. Optional inputs can be omitted at the end.
            outputs: Existing tensors for the results. By default they are created, with the shapes and element types
                that follow from inputs and attributes; a shape that does not follow is unknown.
            dtype: Element type of the first created output, by oneDNN's name. Required for DynamicQuantize, Quantize
                and TypeCast; by default it follows from the inputs.
            results: Number of outputs to create; by default the number that inputs and attributes require.
            name: Name of the op, by default its kind and id.
            **attributes: Attributes by the names in the op's specification: int, float, bool, str, or an iterable of
                ints or floats.

        Returns:
            The first output; ``graph.ops[-1].outputs`` holds all of them.

        Raises:
            ValueError: The kind is unknown; an attribute is unknown, missing or of the wrong type; the number of
                inputs or outputs is not allowed; `dtype` is missing; a tensor belongs to another graph; or an output
                already has a producer.
        """
        if kind not in KINDS or kind == "End":
            raise ValueError(f"op kind {kind!r} is not one that computes; allowed: {', '.join(sorted(KINDS))}")
        schema = KINDS[kind]
        values = {key: attribute(kind, key, value) for key, value in attributes.items()}
        missing = [key for key, required in schema.attributes.items() if required and key not in values]
        if missing:
            raise ValueError(f"{kind} lacks its required attributes {', '.join(missing)}")
        if not schema.takes(len(inputs)):
            raise ValueError(f"{kind} has {len(inputs)} inputs; allowed: {', '.join(schema.inputs)}")
        for tensor in (*inputs, *(outputs or ())):
            self._check_own(tensor)
        identity = len(self._ops)
        name = f"{kind}_{identity}" if name is None else name
        if outputs is None:
            outputs = self._make_outputs(kind, name, inputs, values, dtype, results)
        elif not outputs or not schema.gives(len(outputs)):
            raise ValueError(f"{kind} has {len(outputs)} outputs; allowed: {', '.join(schema.outputs)}")
        for index, tensor in enumerate(outputs):
            if tensor.id in self._computed or tensor.id in {before.id for before in outputs[:index]}:
                raise ValueError(f"tensor {tensor.name!r} has been computed already")
        self._computed.update(tensor.id for tensor in outputs)
        values = {key: value for key, value in values.items() if not is_unset(kind, key, value)}
        self._ops.append(Op(identity, kind, name, tuple(inputs), tuple(outputs), values))
        return outputs[0]

    def end(self, tensor: Tensor) -> None:
        """Marks a tensor as an output of the graph although it has a consumer.

        Args:
            tensor: A tensor of this graph.

        Raises:
            ValueError: The tensor belongs to another graph.
        """
        self._check_own(tensor)
        identity = len(self._ops)
        self._ops.append(Op(identity, "End", f"End_{identity}", (tensor,), (), {}))

    def to_json(self) -> str:
        """Returns the graph as JSON in the format of ``ONEDNN_GRAPH_DUMP``."""
        names = {str(t.id): t.name for op in self._ops for t in (*op.inputs, *op.outputs) if t.name}
        document = {
            "version": VERSION,
            "engine_kind": "cpu",
            "fpmath_mode": "strict",
            "fpmath_mode_apply_to_int": "false",
            "input_ports": [tensor.id for tensor in self.inputs],
            "output_ports": [tensor.id for tensor in self.outputs],
            "graph": [_op_document(op) for op in self._ops],
            OWN_FIELD: {"name": self.name, "tensor_names": names},
        }
        return json.dumps(document, indent=2, allow_nan=False) + "\n"

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the graph as JSON, which benchdnn can read.

        Args:
            path: The file; an existing one is overwritten.

        Raises:
            OSError: The file cannot be written.
        """
        pathlib.Path(path).write_text(self.to_json(), encoding="utf-8")

    def _check_own(self, tensor: Tensor) -> None:
        """Rejects what is no tensor, and a tensor of another graph, whose id would name another tensor here."""
        if not isinstance(tensor, Tensor):
            raise ValueError(f"{tensor!r} is not a tensor of this graph")
        own = self._tensors[tensor.id] if tensor.id in range(len(self._tensors)) else None
        if own is None or (tensor.name, tensor.dtype, tensor.shape) != (own.name, own.dtype, own.shape):
            raise ValueError(f"tensor {tensor.name!r} is not of this graph")

    def _make_outputs(
        self,
        kind: str,
        name: str,
        inputs: Sequence[Tensor],
        values: Mapping[str, Attribute],
        dtype: str | None,
        results: int | None,
    ) -> tuple[Tensor, ...]:
        schema = KINDS[kind]
        count = schema.result_count(len(inputs), values) if results is None else results
        if count < 1 or not schema.gives(count):
            raise ValueError(f"{kind} has {count} outputs; allowed: {', '.join(schema.outputs)}")
        shapes = schema.result_shapes([tensor.shape for tensor in inputs], values, count)
        dtypes = schema.result_dtypes([tensor.dtype for tensor in inputs], count)
        first = dtype or dtypes[0]
        if first is None:
            raise ValueError(f"{kind} needs dtype, the element type of its result")
        made = []
        for index, (shape, element) in enumerate(zip(shapes, [first, *dtypes[1:]], strict=True)):
            own = name if index == 0 else f"{name}_{schema.outputs[min(index, len(schema.outputs) - 1)]}"
            made.append(self.tensor(self._free(own), str(element), shape))
        return tuple(made)

    def _free(self, name: str) -> str:
        candidate, count = f"{name}_out" if name.isdecimal() or not name else name, 1
        while candidate in self._names:
            count += 1
            candidate = f"{name}_{count}"
        return candidate


def graph_inputs(ops: Sequence[Op]) -> tuple[Tensor, ...]:
    """Returns the tensors without a producer, in the order of their first use."""
    produced = {tensor.id for op in ops for tensor in op.outputs}
    return _unique(tensor for op in ops for tensor in op.inputs if tensor.id not in produced)


def graph_outputs(ops: Sequence[Op]) -> tuple[Tensor, ...]:
    """Returns the tensors without a consumer and those that an End marks, in the order of their producers."""
    used = {tensor.id for op in ops if op.kind != "End" for tensor in op.inputs}
    ended = {tensor.id for op in ops if op.kind == "End" for tensor in op.inputs}
    return _unique(tensor for op in ops for tensor in op.outputs if tensor.id not in used or tensor.id in ended)


def dense_stride(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the stride of a dense tensor in row-major order."""
    return tuple(math.prod(max(dim, 1) for dim in shape[axis + 1 :]) for axis in range(len(shape)))


def _checked_shape(name: str, shape: Sequence[int | None]) -> tuple[int | None, ...]:
    dims = tuple(None if dim is None else operator.index(dim) for dim in shape)
    if len(dims) > MAX_RANK or any(dim is not None and dim not in _SIZES for dim in dims):
        raise ValueError(f"tensor {name!r} has shape {list(dims)}; allowed: up to {MAX_RANK} dims, none negative")
    if dims == (None,):
        raise ValueError(f"tensor {name!r} has shape [None], which the format cannot tell from an unknown rank")
    return dims


def _unique(tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    return tuple({tensor.id: tensor for tensor in tensors}.values())


def _op_document(op: Op) -> dict[str, object]:
    # benchdnn depends on the order of the fields, above all on "type" before "value".
    return {
        "id": op.id,
        "name": op.name,
        "kind": op.kind,
        "attrs": {
            name: {"type": ATTRIBUTE_TYPES[name], "value": int(value) if isinstance(value, bool) else value}
            for name, value in op.attributes.items()
        },
        "inputs": [_tensor_document(tensor) for tensor in op.inputs],
        "outputs": [_tensor_document(tensor) for tensor in op.outputs],
    }


def _tensor_document(tensor: Tensor) -> dict[str, object]:
    known = [dim for dim in tensor.shape or () if dim is not None]
    complete = tensor.shape is not None and len(known) == len(tensor.shape)
    stride = tensor.stride or (dense_stride(known) if complete else (UNKNOWN,))
    return {
        "id": tensor.id,
        "dtype": tensor.dtype,
        "shape": [UNKNOWN] if tensor.shape is None else [UNKNOWN if dim is None else dim for dim in tensor.shape],
        "stride": list(stride),
        "layout_type": "strided" if complete else "undef",
        "property_type": tensor.property_type,
    }

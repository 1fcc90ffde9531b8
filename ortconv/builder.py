"""What a lowering emits through: nodes, constants, warnings and notes for one source node at a time."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, Literal, get_args, overload

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.errors import NodeRef
from ortconv.source import SourceNode

__all__ = ["Builder", "Ints", "Options", "Semantics", "Step", "Target"]

Semantics = Literal["spec", "runtime"]
Target = Literal["auto", "onnx", "plugin"]
Ints = tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class Options:
    """What the user asked for.

    Attributes:
        semantics: Follow the spec pages, or reproduce the source's own library where the two differ.
        target: Which nodes may be emitted; see `ortconv.convert`.
        opset: Version of the ai.onnx opset to emit.

    Raises:
        ValueError: `semantics` or `target` is unknown: taken for the default, it would give other numbers silently.
    """

    semantics: Semantics = "spec"
    target: Target = "auto"
    opset: int = 21

    def __post_init__(self) -> None:
        _known("semantics", self.semantics, get_args(Semantics))
        _known("target", self.target, get_args(Target))


@dataclasses.dataclass
class Step:
    """What became of one source node.

    Attributes:
        ref: The source node.
        nodes: The nodes emitted for it, in order.
        notes: Why, and with which resolved numbers, in words.
        warnings: Where the source's page and its library differ.
    """

    ref: NodeRef
    nodes: list[ir.Node] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)


class Builder:
    """Collects the ONNX nodes and initializers of one graph.

    A lowering calls `op` and `constant`, reads `options` and `node`, and returns values. Names, origins and
    declared types of results are the driver's work.
    """

    def __init__(self, options: Options) -> None:
        self.options = options
        self.steps: list[Step] = []
        self.initializers: list[ir.Value] = []
        self._names: set[str] = set()
        self._counts: dict[str, int] = {}
        self._node: SourceNode | None = None

    @property
    def node(self) -> SourceNode:
        """The source node being lowered."""
        assert self._node is not None, "no source node is being lowered"
        return self._node

    def begin(self, node: SourceNode) -> Step:
        """Starts the next source node; everything emitted from here on belongs to it."""
        self._node = node
        self.steps.append(Step(node.ref))
        return self.steps[-1]

    @overload
    def op(
        self, op_type: str, *inputs: ir.Value | None, outputs: None = None, domain: str = "", **attributes: Any
    ) -> ir.Value: ...

    @overload
    def op(
        self, op_type: str, *inputs: ir.Value | None, outputs: int, domain: str = "", **attributes: Any
    ) -> tuple[ir.Value, ...]: ...

    def op(
        self,
        op_type: str,
        *inputs: ir.Value | None,
        outputs: int | None = None,
        domain: str = "",
        **attributes: Any,
    ) -> ir.Value | tuple[ir.Value, ...]:
        """Emits a node.

        Args:
            op_type: ONNX op type.
            *inputs: Input values; None for an absent optional one. Trailing Nones are dropped.
            outputs: How many outputs to make; without it the node has one, returned bare.
            domain: Operator domain.
            **attributes: ONNX attributes; one that is None is left out.

        Returns:
            The output, or a tuple of them when `outputs` is given.
        """
        present = list(inputs)
        while present and present[-1] is None:
            present.pop()
        step = self.steps[-1]
        ref = step.ref
        node = ir.node(
            op_type,
            present,
            {name: _attribute(value) for name, value in attributes.items() if value is not None},
            domain=domain,
            num_outputs=outputs or 1,
            name=self.unique(f"{ref.name}/{op_type}"),
            metadata_props=origin(ref),
        )
        for output in node.outputs:
            output.name = self.unique(f"{ref.name}/{op_type}_out")
        step.nodes.append(node)
        return node.outputs[0] if outputs is None else tuple(node.outputs)

    def constant(self, data: npt.ArrayLike | ir.TensorProtocol, dtype: npt.DTypeLike | None = None) -> ir.Value:
        """Makes an initializer; Python ints become int64 unless `dtype` says otherwise."""
        if isinstance(data, ir.TensorProtocol):
            tensor = data
        else:
            array = np.asarray(data, dtype=dtype)
            if dtype is None and array.size == 0 and not isinstance(data, np.ndarray):
                array = array.astype(np.int64)
            tensor = ir.tensor(array)
        prefix = self.steps[-1].ref.name if self.steps else "constant"
        return self.initializer(self.unique(f"{prefix}/constant"), tensor)

    def initializer(self, name: str, tensor: ir.TensorProtocol) -> ir.Value:
        """Makes an initializer under a name that the caller has made unique."""
        value = ir.Value(
            name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy()), const_value=tensor
        )
        self.initializers.append(value)
        return value

    def array(self, value: ir.Value | None) -> np.ndarray | None:
        """Returns the data of a value known at conversion time, else None."""
        if value is None or value.const_value is None:
            return None
        return value.const_value.numpy()

    def cast(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        """Casts unless the value has that type already."""
        return value if value.dtype == dtype else self.typed(self.op("Cast", value, to=int(dtype)), dtype, value.shape)

    def typed(
        self, value: ir.Value, dtype: ir.DataType | None, shape: ir.Shape | Sequence[int | str | None] | None
    ) -> ir.Value:
        """States the type and shape of an intermediate value, for lowerings that look at them later."""
        if dtype is not None:
            value.type = ir.TensorType(dtype)
        if shape is not None:
            value.shape = shape if isinstance(shape, ir.Shape) else ir.Shape(shape)
        return value

    def note(self, text: str) -> None:
        """Records why the node became what it became; shown by ``ortconv explain``."""
        self.steps[-1].notes.append(text)

    def warn(self, text: str) -> None:
        """Records that the source's page and its library differ for this node; at most once per node and text."""
        if text not in self.steps[-1].warnings:
            self.steps[-1].warnings.append(text)

    def unique(self, name: str) -> str:
        """Returns the name, or the name with a number when it is taken, and takes it."""
        candidate, count = name, self._counts.get(name, 1)
        while candidate in self._names:
            count += 1
            candidate = f"{name}_{count}"
        self._counts[name] = count
        self._names.add(candidate)
        return candidate

    def take(self, name: str) -> None:
        """Marks a name as used."""
        self._names.add(name)


def origin(ref: NodeRef) -> dict[str, str]:
    """Returns the metadata that records a node's origin."""
    return {
        "ortconv.source.file": ref.file,
        "ortconv.source.op_type": ref.op_type,
        "ortconv.source.version": ref.version,
        "ortconv.source.id": ref.id,
        "ortconv.source.name": ref.name,
    }


def _attribute(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _known(name: str, value: object, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise ValueError(f"{name} {value!r} is unknown; allowed: {', '.join(allowed)}")

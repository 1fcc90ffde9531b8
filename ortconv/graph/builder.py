"""The builder: lowerings emit nodes, constants, warnings and notes through it, one source node at a time."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import onnx_ir as ir

from ortconv.errors import ConversionError, NodeRef, file_name, shown
from ortconv.frontend.source_graph import SourceGraph, SourceNode, SourceValue
from ortconv.graph.budget import Budget
from ortconv.graph.constant_folding import fold
from ortconv.graph.int4 import FOUR_BITS, require_kernels
from ortconv.graph.peephole import simplified
from ortconv.graph.symbolic_shapes import Sizes, of_constant, of_shape, propagate, with_runtime_values
from ortconv.options import Options

__all__ = ["Body", "Builder", "Ints", "Step"]

Ints = tuple[int, ...]


@dataclasses.dataclass
class Step:
    """What became of one source node.

    Attributes:
        ref: The source node.
        nodes: The nodes emitted for it, in order.
        notes: Why it was lowered so, and with which numbers.
        warnings: Where the source's specification and its library differ.
        followed: The warnings that say that the library is followed, whose results the model then gives.
        error: Why it is refused, if it is.
        results: The values that the source declares as its outputs.
        defaults: The attributes that the source node lacks, with their default values.
    """

    ref: NodeRef
    nodes: list[ir.Node] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    warnings: list[str] = dataclasses.field(default_factory=list)
    followed: set[str] = dataclasses.field(default_factory=set)
    error: ConversionError | None = None
    results: frozenset[ir.Value] = frozenset()
    defaults: Mapping[str, object] = dataclasses.field(default_factory=dict)


class Body:
    """A body: a graph inside a node. What is emitted while it is open belongs to it.

    It sees the values of the graphs around it. Made by `Builder.body`.
    """

    def __init__(self, builder: Builder) -> None:
        self._builder = builder
        self._inputs: list[ir.Value] = []
        self.nodes: list[ir.Node] = []

    def input(
        self, name: str, dtype: ir.DataType, shape: ir.Shape | Sequence[int | str | None] | None = None
    ) -> ir.Value:
        """Adds an input."""
        value = ir.Value(name=self._builder.unique(name), type=ir.TensorType(dtype))
        self._inputs.append(self._builder.typed(value, None, shape))
        return value

    def graph(self, outputs: Sequence[ir.Value]) -> ir.Graph:
        """Returns the graph with these outputs; what it does not compute, or has as an output already, is copied."""
        own = {output for node in self.nodes for output in node.outputs}
        made: list[ir.Value] = []
        for value in outputs:
            if value not in own or value in made:
                value = self._builder.copy(value)
            made.append(value)
        return ir.Graph(self._inputs, made, nodes=self.nodes, name=self._builder.unique("body"))


class Builder:
    """Collects the ONNX nodes of one graph, and of the graphs inside its nodes.

    A lowering calls `op` and `constant`, reads `options` and `node`, and returns values. Names, origins and
    declared types of results are the driver's work. Constants are folded and nodes that change nothing are not
    emitted: `op` may return a constant or an existing value.

    Attributes:
        options: The options of the conversion.
        budget: Limits constants and nodes.
        steps: What became of each source node.
        nodes: The nodes of the outermost graph.
        returned: The outputs of the source.
        repeated: Whether nodes are emitted into the body of a loop.
        inline: Lowers a body of the source in the current graph; takes the values of its inputs and returns those of
            its outputs. Set by the driver.
    """

    def __init__(self, options: Options, source_bytes: int = 0) -> None:
        self.options = options
        self.budget = Budget(source_bytes)
        self.steps: list[Step] = []
        self.nodes: list[ir.Node] = []
        self.returned: frozenset[SourceValue] = frozenset()
        self.repeated = False
        self.inline: Callable[[SourceGraph, Sequence[ir.Value]], tuple[ir.Value, ...]]
        self._open = [self.nodes]
        self._names: set[str] = set()
        self._counts: dict[str, int] = {}
        self._sizes: dict[ir.Value, Sizes] = {}
        self._owned: set[ir.Value] = set()
        self._shared: dict[Hashable, ir.Value] = {}
        self._node: SourceNode | None = None
        self._step: Step | None = None

    @property
    def node(self) -> SourceNode:
        """The source node being lowered."""
        assert self._node is not None, "no source node is being lowered"
        return self._node

    @property
    def step(self) -> Step:
        """The step of the source node being lowered."""
        assert self._step is not None, "no source node is being lowered"
        return self._step

    def begin(self, node: SourceNode) -> Step:
        """Starts the next source node; everything emitted from here on belongs to it."""
        self.budget.add_node()
        self._node, self._step = node, Step(node.ref)
        self.steps.append(self._step)
        return self._step

    def resume(self, node: SourceNode, step: Step) -> None:
        """Continues with a source node after the nodes of its bodies."""
        self._node, self._step = node, step

    @contextlib.contextmanager
    def body(self, *, repeated: bool = False) -> Iterator[Body]:
        """Opens a graph inside the node that will be emitted next.

        Args:
            repeated: Whether it is the body of a loop.
        """
        body = Body(self)
        self._open.append(body.nodes)
        outside, self.repeated = self.repeated, self.repeated or repeated
        try:
            yield body
        finally:
            self._open.pop()
            self.repeated = outside

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
        """Emits a node, unless its output can be folded or exists already.

        Args:
            op_type: ONNX op type.
            *inputs: Input values; None for an absent optional one. Trailing Nones are dropped.
            outputs: How many outputs to make; without it the node has one, returned bare.
            domain: Operator domain.
            **attributes: ONNX attributes, graphs among them; one that is None is left out.

        Returns:
            The output, or a tuple of them when `outputs` is given.

        Raises:
            UnsupportedTypeError: An input is int4 and no constant, and ONNX Runtime has no kernel.
            ConversionError: The conversion has emitted too many nodes.
        """
        self.budget.spend_nodes(outputs or 1)
        present = list(inputs)
        while present and present[-1] is None:
            present.pop()
        attributes = {name: value for name, value in attributes.items() if value is not None}
        results: Sequence[ir.Value] | None = None
        sizes = None
        if not domain:
            results = self._folded(op_type, present, attributes, outputs or 1)
            if results is None:
                sizes = self._sizes_of(op_type, present, attributes, outputs or 1)
                results = self._known(sizes)
            if results is None and outputs is None:
                simpler = simplified(op_type, present, attributes)
                if isinstance(simpler, ir.Value):
                    return simpler
                op_type, present, attributes = simpler
        if results is None:
            require_kernels(op_type, present)
            results = self._emit(op_type, present, attributes, outputs or 1, domain)
            self._sizes.update(
                (value, with_runtime_values(known, value)) for value, known in zip(results, sizes or (), strict=False)
            )
        return results[0] if outputs is None else tuple(results)

    def copy(self, value: ir.Value) -> ir.Value:
        """Emits an ``Identity``, for a value that needs a second name; for int4 a ``Cast`` to its own type."""
        if value.dtype is not None and value.dtype in FOUR_BITS:
            (copied,) = self._emit("Cast", [value], {"to": int(value.dtype)}, 1, "")
        else:
            (copied,) = self._emit("Identity", [value], {}, 1, "")
        return self.typed(copied, value.dtype, value.shape)

    def _emit(
        self, op_type: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Any], outputs: int, domain: str
    ) -> Sequence[ir.Value]:
        prefix = self._step.ref.name if self._step else "output"
        node = ir.node(
            op_type,
            inputs,
            attributes,
            domain=domain,
            num_outputs=outputs,
            name=self.unique(f"{prefix}/{op_type}"),
            metadata_props=origin(self._step.ref) if self._step else None,
        )
        for output in node.outputs:
            output.name = self.unique(f"{prefix}/{op_type}_out")
        if self._step:
            self._step.nodes.append(node)
        self._open[-1].append(node)
        return node.outputs

    def _folded(
        self, op_type: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Any], outputs: int
    ) -> list[ir.Value] | None:
        """Returns the results of a node whose inputs are all constants."""
        tensors = [None if value is None else value.const_value for value in inputs]
        if not tensors or any(a is not None and c is None for a, c in zip(inputs, tensors, strict=True)):
            return None
        folded = fold(op_type, tensors, attributes, outputs)
        if folded is None:
            return None
        growth = sum(tensor.nbytes for tensor in folded) - sum(tensor.nbytes for tensor in tensors if tensor)
        if not self.budget.fits(growth):
            return None
        self.budget.spend(max(growth, 0))
        return [self.constant(tensor) for tensor in folded]

    def _sizes_of(
        self, op_type: str, inputs: Sequence[ir.Value | None], attributes: Mapping[str, Any], outputs: int
    ) -> list[Sizes] | None:
        """Returns the symbolic shape that a node computes, or None."""
        if op_type == "Shape":
            found = None if inputs[0] is None else of_shape(inputs[0], attributes)
            return None if found is None else [found]
        if self._sizes.keys().isdisjoint(inputs):
            return None
        given = [None if value is None else self.entries(value) for value in inputs]
        if any(value is not None and known is None for value, known in zip(inputs, given, strict=True)):
            return None
        return propagate(op_type, given, attributes, outputs)

    def entries(self, value: ir.Value) -> Sizes | None:
        """Returns the symbolic shape that a value holds, or None."""
        return of_constant(value.const_value) if value.const_value is not None else self._sizes.get(value)

    def _known(self, sizes: Sequence[Sizes] | None) -> list[ir.Value] | None:
        """Returns sizes as constants, if all of them are known."""
        tensors = [each.tensor for each in sizes or ()]
        made = [self.constant(tensor) for tensor in tensors if tensor is not None]
        return made if made and len(made) == len(tensors) else None

    def constant(self, data: npt.ArrayLike | ir.TensorProtocol, dtype: npt.DTypeLike | None = None) -> ir.Value:
        """Makes a constant; Python ints become int64 unless `dtype` says otherwise.

        Arrays whose size depends on a number in the source are made by `counted` or by the budget.

        Raises:
            ConversionError: An integer has more than 64 bits, or the budget is exceeded.
        """
        if isinstance(data, ir.TensorProtocol):
            tensor = data
        else:
            with np.errstate(over="ignore"):
                array = np.asarray(data, dtype=dtype)
            if dtype is None and array.size == 0 and not isinstance(data, np.ndarray):
                array = array.astype(np.int64)
            if array.dtype.kind in "Ou" and dtype is None and not isinstance(data, np.ndarray | np.generic):
                raise ConversionError(f"leads to the number {shown(data)}; allowed: signed integers of 64 bits.")
            self.budget.spend(array.nbytes)
            tensor = ir.tensor(array)
        prefix = self._step.ref.name if self._step else "constant"
        return self.initializer(f"{prefix}/constant", tensor)

    def shared(self, key: Hashable, make: Callable[[], ir.Value]) -> ir.Value:
        """Returns a constant that is made once for each key in a conversion, as several nodes may need a large one."""
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]

    def counted(self, count: int) -> ir.Value:
        """Returns the numbers from 0 to a count, int64: a constant, or a node that computes them if they are many."""
        return self.typed(
            self.op("Range", self.constant(0), self.constant(count), self.constant(1)),
            ir.DataType.INT64,
            [max(count, 0)],
        )

    def filled(self, shape: Sequence[int], number: float, dtype: ir.DataType) -> ir.Value:
        """Returns a number in every place of a shape: a constant, or a node that computes it if it is large."""
        entry = ir.tensor(np.array([number], dtype.numpy()), dtype=dtype)
        return self.typed(self.op("ConstantOfShape", self.constant(list(shape)), value=entry), dtype, shape)

    def initializer(self, name: str, tensor: ir.TensorProtocol, *, owned: bool = False) -> ir.Value:
        """Makes a constant under a name, which is made unique if a node uses it.

        Args:
            name: Its name.
            tensor: Its data.
            owned: The name is taken, and for this value.
        """
        value = ir.Value(
            name=name, type=ir.TensorType(tensor.dtype), shape=ir.Shape(tensor.shape.numpy()), const_value=tensor
        )
        if owned:
            self._owned.add(value)
        return value

    def constant_name(self, value: ir.Value) -> str:
        """Returns the name of a constant that a node uses."""
        return str(value.name) if value in self._owned else self.unique(str(value.name))

    def array(self, value: ir.Value | None) -> np.ndarray | None:
        """Returns the data of a value known at conversion time, else None."""
        if value is None or value.const_value is None:
            return None
        return value.const_value.numpy()

    def sizes(self, value: ir.Value) -> tuple[int | None, ...] | None:
        """Returns the integers of a vector or scalar that are known at conversion time: None for runtime values.

        Returns:
            None where nothing is known, not even how many there are.
        """
        known = self.entries(value)
        if known is None:
            return None
        return tuple(entry if isinstance(entry, int) else None for entry in known.entries.ravel().tolist())

    def cast(self, value: ir.Value, dtype: ir.DataType) -> ir.Value:
        """Casts unless the value has that type already."""
        return value if value.dtype == dtype else self.typed(self.op("Cast", value, to=int(dtype)), dtype, value.shape)

    def typed(
        self, value: ir.Value, dtype: ir.DataType | None, shape: ir.Shape | Sequence[int | str | None] | None
    ) -> ir.Value:
        """States the type and shape of an intermediate value, for lowerings that look at them later.

        Known types and dimensions are not replaced, since `op` may have returned an existing value.
        """
        if dtype is not None and value.dtype is None:
            value.type = ir.TensorType(dtype)
        if shape is not None:
            stated = shape if isinstance(shape, ir.Shape) else ir.Shape(shape)
            if any(isinstance(dim, int) and dim < 0 for dim in stated):  # the source contradicts itself
                stated = ir.Shape([None if isinstance(dim, int) and dim < 0 else dim for dim in stated])
            if value.shape is None:
                value.shape = stated
            elif value.producer() is not None and len(value.shape) == len(stated):
                value.shape = ir.Shape(
                    [new if not isinstance(old, int) else old for old, new in zip(value.shape, stated, strict=True)]
                )
        return value

    def note(self, text: str) -> None:
        """Records how the node was lowered; once per text. ``ortconv explain`` shows it."""
        if text not in self.step.notes:
            self.step.notes.append(text)

    def warn(self, text: str) -> None:
        """Records that the source's specification and library differ for this node; at most once per node and text."""
        if text not in self.step.warnings:
            self.step.warnings.append(text)

    def follow(self, text: str) -> None:
        """Records that the library is followed under both semantics, not the specification: a warning under spec."""
        self.follow_semantics(text)
        self.step.followed.add(text)

    def follow_semantics(self, text: str) -> None:
        """Records that specification and library differ and that ``--semantics`` chooses: a warning under spec."""
        (self.note if self.options.semantics == "runtime" else self.warn)(text)

    def unique(self, name: str) -> str:
        """Returns the name, or the name with a number if it is used, and reserves it."""
        candidate, count = name, self._counts.get(name, 1)
        while candidate in self._names:
            count += 1
            candidate = f"{name}_{count}"
        self._counts[name] = count
        self._names.add(candidate)
        return candidate

    def take(self, name: str) -> None:
        """Reserves a name."""
        self._names.add(name)


def origin(ref: NodeRef) -> dict[str, str]:
    """Returns the metadata that records a node's origin."""
    return {
        "ortconv.source.file": file_name(ref.file),
        "ortconv.source.op_type": ref.op_type,
        "ortconv.source.version": ref.version,
        "ortconv.source.id": ref.id,
        "ortconv.source.name": ref.name,
    }

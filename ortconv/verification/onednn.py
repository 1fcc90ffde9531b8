"""Evaluates oneDNN graphs node by node, by the references of their op kinds."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence

import numpy as np
import onnx_ir as ir

from ortconv.errors import ExecutionError
from ortconv.frontend.source_graph import SourceGraph, SourceNode, SourceValue
from ortconv.model_io.input_data import Array
from ortconv.onednn.call import Call
from ortconv.onednn.op_schema import REFERENCES
from ortconv.options import Semantics
from ortconv.verification import spread
from ortconv.verification.oracle import Results
from ortconv.verification.steps import Step, leading_to

__all__ = ["OneDnnReference"]

_RUNTIME = "float64 reference"
_WIDE = (ir.DataType.FLOAT, ir.DataType.DOUBLE)
"""Types to which intermediate results are not rounded: rounding to float32 would add errors to the reference."""


class OneDnnReference:
    """Evaluates a graph in float64; a tensor of a type narrower than float32 is rounded to that type.

    Args:
        graph: The source.
        semantics: "spec" follows the specification, "runtime" the library, where they differ.
    """

    title = "float64 reference"
    precision = ir.DataType.DOUBLE

    def __init__(self, graph: SourceGraph, semantics: Semantics) -> None:
        self._graph = graph
        self._semantics: Semantics = semantics

    def run(self, feeds: Mapping[str, Array], *, everything: bool) -> Results:
        """Evaluates the graph.

        Args:
            feeds: Data by input name.
            everything: Whether to return intermediate results, too.

        Raises:
            ExecutionError: The reference does not support an op, or its inputs are invalid.
        """
        with np.errstate(all="ignore"):  # Infinities and NaN in the data are data.
            return self._run(feeds, everything)

    def alternatives(
        self, value: SourceValue, known: Mapping[str, Array], unit: float, actual: Array
    ) -> Iterator[Array]:
        """Yields the results of equally valid evaluations of a value; see `Oracle`."""
        table: dict[Hashable, Array] = {name: _widened(array) for name, array in known.items()}
        with np.errstate(all="ignore"):
            steps = leading_to(map(self._step, self._graph.nodes), value.name, table)
            for array in spread.alternatives(steps, value.name, table, unit, actual):
                yield _stored(array, value)

    def _step(self, node: SourceNode) -> Step:
        constants = [value.constant if value else None for value in node.inputs]

        def constant(index: int) -> Array | None:
            found = constants[index]
            return None if found is None else _widened(found.numpy())

        def run(inputs: Sequence[Array | None], absolute: bool) -> list[Array]:
            arrays = [constant(index) if array is None else array for index, array in enumerate(inputs)]
            if absolute:
                arrays = [array if array is None or array.dtype.kind != "f" else np.abs(array) for array in arrays]
            return self._evaluate(node, arrays)

        names = tuple(None if value is None or value.constant is not None else value.name for value in node.inputs)
        return Step(node.ref.op_type, names, tuple(value.name for value in node.outputs), run, constant, {})

    def _run(self, feeds: Mapping[str, Array], everything: bool) -> Results:
        known: dict[SourceValue, Array] = {value: _widened(feeds[value.name]) for value in self._graph.inputs}
        for node in self._graph.nodes:
            for value in node.inputs:
                if value is not None and value.constant is not None:
                    known.setdefault(value, _widened(value.constant.numpy()))
            results = self._evaluate(node, [None if value is None else known[value] for value in node.inputs])
            known.update(zip(node.outputs, results, strict=True))
        outputs = tuple(_stored(known[output.value], output.value) for output in self._graph.outputs)
        computed = [value for node in self._graph.nodes for value in node.outputs] if everything else []
        return Results(outputs, {value.name: _stored(known[value], value) for value in computed})

    def _evaluate(self, node: SourceNode, inputs: Sequence[Array | None]) -> list[Array]:
        kind = node.ref.op_type
        if kind not in REFERENCES:
            known = ", ".join(sorted(REFERENCES))
            raise ExecutionError(node.ref.file, _RUNTIME, f"does not know {kind} {node.ref.name!r}; it knows {known}.")
        try:
            results = REFERENCES[kind](Call(node, inputs, self._semantics))
        except (ValueError, IndexError) as error:
            raise ExecutionError(node.ref.file, _RUNTIME, f"{kind} {node.ref.name!r} fails: {error}") from error
        arrays = results if isinstance(results, tuple) else (results,)
        return [
            array if value.dtype in _WIDE else _widened(_stored(array, value))
            for array, value in zip(arrays, node.outputs, strict=False)
        ]


def _widened(array: Array) -> Array:
    return array.astype(np.float64) if ir.DataType.from_numpy(array.dtype).is_floating_point() else array


def _stored(array: Array, value: SourceValue) -> Array:
    """Rounds to the declared type; to integers half to even, with saturation."""
    dtype = value.dtype.numpy()
    if value.dtype.is_integer() and array.dtype.kind == "f":
        array = np.clip(np.rint(array), value.dtype.min, value.dtype.max)
    return array.astype(dtype)

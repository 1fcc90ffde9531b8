"""Input data of a comparison: given data, chosen sizes of dynamic dimensions, and first values of states."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import onnx

from ortconv.errors import ExecutionError
from ortconv.frontend.source_graph import Dim, SourceGraph
from ortconv.model_io import input_data
from ortconv.model_io.input_data import Array, Input
from ortconv.runtime import default_shapes
from ortconv.verification.openvino import OpenVinoRuntime
from ortconv.verification.oracle import Oracle

__all__ = ["Data", "declared", "prepare"]


@dataclasses.dataclass(frozen=True)
class Data:
    """What a model is run on.

    Attributes:
        feeds: Data by input name.
        first: Names of the states that hold what they hold in the source's first call.
        chosen: Shapes that were chosen for inputs with dynamic dimensions.
    """

    feeds: Mapping[str, Array]
    first: frozenset[str]
    chosen: Mapping[str, tuple[int, ...]]


def declared(graph: SourceGraph, model: onnx.ModelProto | None = None) -> tuple[Input, ...]:
    """Returns the inputs of a source, with the sizes that a model of it fixes."""
    values = {} if model is None else {value.name: value for value in model.graph.input}
    states = {each.input: "" if each.output is None else each.output.name for each in graph.states}
    return tuple(
        Input(value.name, value.dtype, _fixed(value.shape, values.get(value.name)), states.get(value))
        for value in graph.inputs
    )


def prepare(
    wanted: Sequence[Input],
    oracle: Oracle,
    data: Mapping[str, Array],
    shapes: Mapping[str, Sequence[int]],
    seed: int,
    run: Callable[[Mapping[str, Array]], Mapping[str, Array]],
) -> Data:
    """Makes data for all inputs.

    Args:
        wanted: The inputs of the source; see `declared`.
        oracle: What runs the source, with which the chosen sizes have to work, too.
        data: What is given by input name.
        shapes: Shapes of random data by input name.
        seed: Of the random data.
        run: Runs the model; raises ExecutionError where that fails.

    Raises:
        InputError: What is given does not fit.
        ExecutionError: No sizes were found with which the model runs.
    """

    def first_values(chosen: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
        """Returns what the states whose sizes nobody gives hold in the first call, where the source computes it."""
        unknown = {each.name for each in wanted if each.state is not None and each.name in chosen}
        if not unknown or not isinstance(oracle, OpenVinoRuntime):
            return {}
        others = [each for each in wanted if each.name not in unknown]
        known = {name: sizes for name, sizes in {**shapes, **chosen}.items() if name not in unknown}
        return oracle.first_values(input_data.fill(others, data, known, seed), unknown)

    def complete(chosen: Mapping[str, tuple[int, ...]]) -> Data:
        first = first_values(chosen)
        used = {name: sizes for name, sizes in chosen.items() if name not in first}
        return Data(input_data.fill(wanted, {**data, **first}, {**shapes, **used}, seed), frozenset(first), used)

    def accepts(chosen: Mapping[str, tuple[int, ...]]) -> bool:
        try:
            oracle.run(complete(chosen).feeds, everything=False)
        except ExecutionError:
            return False
        return True

    return complete(default_shapes.choose(wanted, data, shapes, seed, run, accepts))


def _fixed(shape: tuple[Dim, ...] | None, value: onnx.ValueInfoProto | None) -> tuple[Dim, ...] | None:
    if value is None or not value.type.tensor_type.HasField("shape"):
        return shape
    dims = value.type.tensor_type.shape.dim
    if shape is None or len(shape) != len(dims):
        return shape
    return tuple(
        fixed.dim_value if not isinstance(dim, int) and fixed.HasField("dim_value") else dim
        for dim, fixed in zip(shape, dims, strict=True)
    )

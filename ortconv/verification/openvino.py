"""OpenVINO's CPU runtime as the oracle for its own models."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as ir

from ortconv.errors import ExecutionError
from ortconv.frontend.source_graph import SourceGraph, SourceValue
from ortconv.model_io.input_data import Array
from ortconv.verification import spread
from ortconv.verification.compare import computed
from ortconv.verification.openvino_steps import Compiled, Key, key_of, single, steps_of, widen
from ortconv.verification.oracle import Results
from ortconv.verification.steps import Step, leading_to

__all__ = ["OpenVinoRuntime"]

_TYPES = {"bf16": ir.DataType.BFLOAT16, "f8e4m3": ir.DataType.FLOAT8E4M3FN, "f8e5m2": ir.DataType.FLOAT8E5M2}
"""Types that OpenVINO's Python API hands over as other ones of the same size, by OpenVINO's names."""

_NAMES = {dtype: name for name, dtype in _TYPES.items()}

_CONFIGURATION = {
    "INFERENCE_PRECISION_HINT": "f32",
    # Else what is multiplied by compressed weights, and a key-value cache, are rounded to 8 bits that the model knows
    # nothing of.
    "EXECUTION_MODE_HINT": "ACCURACY",
}


class OpenVinoRuntime:
    """Runs a model on OpenVINO's CPU plugin, in float32.

    Args:
        source: Path of an IR, or an ``openvino.Model``.
        graph: The same, as it was read.
        int8_kernels: Whether quantized layers may be computed in int8, as OpenVINO does by default.

    Raises:
        ExecutionError: OpenVINO is not installed, or does not read or compile the model.
    """

    precision = ir.DataType.FLOAT

    def __init__(self, source: object, graph: SourceGraph, *, int8_kernels: bool = True) -> None:
        self._path = graph.path
        try:
            import openvino
        except ImportError as error:
            raise ExecutionError(
                graph.path,
                "OpenVINO",
                f"cannot be imported: {error}.",
                'Install it with pip install "ortconv[openvino]".',
            ) from error
        self._openvino = openvino
        self._graph = graph
        self._core = openvino.Core()
        self.title = f"OpenVINO {openvino.__version__.partition('-')[0]}, CPU, float32"
        self._config = dict(_CONFIGURATION)
        if not int8_kernels:
            self.title += " without int8 kernels"
            self._config["LP_TRANSFORMS_MODE"] = "NO"
        if isinstance(source, str | os.PathLike):
            self._model = self._guard("cannot read the model", lambda: self._core.read_model(os.fspath(source)))
        else:
            self._model = source
        # OpenVINO reads files of version 10 with other types: inputs of float16 as float32, all results as 32 bits.
        self._other_types = self._model.has_rt_info("version") and str(self._model.get_rt_info("version").value) == "10"
        if (
            not int8_kernels
            and self._other_types
            and all(each.dtype != ir.DataType.FLOAT16 for each in computed(graph))
        ):
            # Without int8 kernels, weights that are rounded to levels are folded in float16.
            self._model = self._model.clone()
            self._guard("cannot be widened to float32", lambda: widen(self._model))

    def run(self, feeds: Mapping[str, Array], *, everything: bool) -> Results:
        """Runs the model.

        Args:
            feeds: Data by input name.
            everything: Whether the intermediate results are wanted, too.

        Raises:
            ExecutionError: OpenVINO reports a failure.
        """
        model = self._model.clone()
        count = len(model.outputs)
        values = _add_outputs(model, self._graph) if everything else {}
        compiled = self._compile(model)
        request = compiled.create_infer_request()
        self._give(request, compiled, feeds)
        variables = {variable.name: variable for variable in request.query_state()}
        for state in self._graph.states:
            variables[state.variable].state = self._tensor(feeds[state.input.name])
        self._guard("fails", request.infer)
        written = {state.output: state for state in self._graph.states if state.output is not None}
        results = [output for output in self._graph.outputs if output not in written]
        outputs = _paired(self._model.outputs[:count], [output.name for output in results])
        arrays = [
            _array(request.get_output_tensor(index), output.value.dtype, cast=self._other_types)
            for index, output in zip(outputs, results, strict=True)
        ]
        # States stand behind the results; see `SourceGraph`.
        arrays += [_array(variables[state.variable].state, output.value.dtype) for output, state in written.items()]
        shown = {
            value.name: _array(request.get_output_tensor(index), value.dtype, cast=self._other_types)
            for value, index in values.items()
        }
        return Results(tuple(arrays), shown)

    def first_values(self, feeds: Mapping[str, Array], names: Collection[str]) -> dict[str, Array]:
        """Returns what states hold in the first call, as far as the model computes it.

        Args:
            feeds: Data of all inputs that are no states.
            names: The states' inputs.

        Raises:
            ExecutionError: OpenVINO reports a failure.
        """
        model = self._model.clone()
        reads = {read.get_attributes()["variable_id"]: read for read in model.get_ops() if _is_begun(read)}
        states = [each for each in self._graph.states if each.input.name in names and each.variable in reads]
        if not states:
            return {}
        sources = [reads[each.variable].input(0).get_source_output() for each in states]
        model.add_outputs(list({key_of(port): port for port in sources}.values()))
        places = {key_of(output.get_node().input(0).get_source_output()): i for i, output in enumerate(model.outputs)}
        compiled = self._compile(model)
        request = compiled.create_infer_request()
        self._give(request, compiled, feeds)
        self._guard("fails", request.infer)
        return {
            each.input.name: _array(request.get_output_tensor(places[key_of(port)]), each.input.dtype)
            for each, port in zip(states, sources, strict=True)
        }

    def alternatives(
        self, value: SourceValue, known: Mapping[str, Array], unit: float, actual: Array
    ) -> Iterator[Array]:
        """Yields what equally good evaluations compute for a value; see `Oracle`."""
        steps, keys = self._alone
        table: dict[Hashable, Array] = {keys[name]: array for name, array in known.items() if name in keys}
        wanted = keys.get(value.name)
        if wanted is not None:
            found = spread.alternatives(leading_to(steps, wanted, table), wanted, table, unit, actual)
            yield from (array.astype(value.dtype.numpy(), copy=False) for array in found)

    @functools.cached_property
    def _alone(self) -> tuple[list[Step], dict[str, Key]]:
        """The operations, each by itself, and what values and inputs are called there."""
        model = self._model.clone()
        keys = {value.name: key_of(port) for value, port in _ports(model, self._graph).items()}
        states = {state.variable: state.input.name for state in self._graph.states}
        given = [value.name for value in self._graph.inputs if value.name not in states.values()]
        keys |= {name: key_of(model.inputs[i]) for i, name in zip(_paired(model.inputs, given), given, strict=True)}
        for operation in model.get_ops():
            if operation.get_type_name() == "ReadValue":
                keys[states[operation.get_attributes()["variable_id"]]] = key_of(operation.output(0))
        return steps_of(model, self._loaded, self._tensor), keys

    def _loaded(self, model: Any) -> Compiled:
        compiled = self._compile(model)
        types = [_TYPES.get(port.get_element_type().to_string()) for port in compiled.outputs]

        def run(arrays: Sequence[Array]) -> list[Array]:
            request = compiled.create_infer_request()
            for port, array in zip(compiled.inputs, arrays, strict=True):
                fits = port.get_element_type().to_string() in _TYPES
                given = array if fits else array.astype(port.get_element_type().to_dtype())
                request.set_tensor(port, self._tensor(given))
            self._guard("fails", request.infer)
            data = [np.array(request.get_output_tensor(i).data) for i in range(len(types))]
            return [
                array if dtype is None else array.view(dtype.numpy()) for array, dtype in zip(data, types, strict=True)
            ]

        return run

    def _compile(self, model: Any) -> Any:
        return self._guard("cannot compile the model", lambda: self._core.compile_model(model, "CPU", self._config))

    def _give(self, request: Any, compiled: Any, feeds: Mapping[str, Array]) -> None:
        """Gives a request the data of all inputs that are no states."""
        states = {state.input for state in self._graph.states}
        given = [value for value in self._graph.inputs if value not in states]
        for port, value in zip(_paired(compiled.inputs, [value.name for value in given]), given, strict=True):
            feed = feeds[value.name]
            if self._other_types and feed.dtype == np.float16:
                feed = feed.astype(np.float32)
            request.set_tensor(compiled.inputs[port], self._tensor(feed))

    def _tensor(self, array: Array) -> Any:
        dtype = ir.DataType.from_numpy(array.dtype)
        array = np.ascontiguousarray(array).reshape(array.shape)
        if dtype not in _NAMES:
            return self._openvino.Tensor(array)
        element = getattr(self._openvino.Type, _NAMES[dtype])
        return self._openvino.Tensor(array.view(f"u{array.itemsize}"), array.shape, element)

    def _guard(self, problem: str, action: Callable[[], Any]) -> Any:
        try:
            return action()
        except Exception as error:  # OpenVINO raises RuntimeError and its subclasses, and pybind's TypeError.
            raise ExecutionError(self._path, "OpenVINO", f"{problem}: {error}") from error


def _is_begun(operation: Any) -> bool:
    """Tells whether an operation reads a state whose first value the model computes."""
    return bool(operation.get_type_name() == "ReadValue" and operation.get_input_size())


def _paired(ports: Sequence[Any], names: Sequence[str]) -> list[int]:
    """Returns for each name the index of its port: by name where all are found, else in order."""
    indices: dict[str, int] = {}
    for index, port in enumerate(ports):
        for name in (port.get_node().get_friendly_name(), *port.get_names()):
            indices.setdefault(name, index)
    found = [indices.get(name) for name in names]
    known = [index for index in found if index is not None]
    return known if sorted(known) == list(range(len(ports))) else list(range(len(ports)))


def _add_outputs(model: Any, graph: SourceGraph) -> dict[SourceValue, int]:
    """Makes every intermediate result an output of an OpenVINO model; returns the index of each one's output.

    They get new names: in old files, an operation can have the name of another one's result, which OpenVINO rejects for
    outputs.
    """
    ports = _ports(model, graph)
    kept = {output.get_node().input(0).get_source_output().get_node().get_name() for output in model.outputs}
    for number, port in enumerate(ports.values()):
        if port.get_node().get_name() not in kept:
            port.get_node().set_friendly_name(f"ortconv.{number}")
            port.set_names(set())
    # OpenVINO computes float16 in float32 and would round what it shows.
    ports = {value: single(port) if value.dtype == ir.DataType.FLOAT else port for value, port in ports.items()}
    model.add_outputs(list(ports.values()))
    indices = {key_of(output.get_node().input(0).get_source_output()): i for i, output in enumerate(model.outputs)}
    return {value: indices[key_of(port)] for value, port in ports.items()}


def _ports(model: Any, graph: SourceGraph) -> dict[SourceValue, Any]:
    """Returns what computes the values of a graph.

    Nodes are found by name; where several have one name, their results cannot be shown.
    """
    operations: dict[str, list[Any]] = {}
    for operation in model.get_ops():
        operations.setdefault(operation.get_friendly_name(), []).append(operation)
    ports: dict[SourceValue, Any] = {}
    for node in graph.nodes:
        match operations.get(node.ref.name):
            case [operation] if operation.get_output_size() == len(node.outputs):
                ports.update(zip(node.outputs, operation.outputs(), strict=True))
    return ports


def _array(tensor: Any, dtype: ir.DataType, *, cast: bool = False) -> Array:
    """Returns a copy of a tensor's data; where asked for, cast to the type that the file states."""
    data = np.array(tensor.data)
    if cast:
        return data.astype(dtype.numpy())
    return data.view(dtype.numpy()) if dtype in _NAMES else data

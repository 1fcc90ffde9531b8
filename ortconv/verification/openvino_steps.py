"""The operations of an OpenVINO model, each computed by itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ortconv.model_io.input_data import Array, is_float
from ortconv.verification.ordering import SORTING
from ortconv.verification.steps import Step

__all__ = ["Compiled", "Key", "key_of", "single", "steps_of", "widen"]

Key = tuple[str, int]
"""The name of an operation in a model, and the index of one of its outputs."""

Compiled = Callable[[Sequence[Array]], list[Array]]
"""A model that is ready to run: takes the inputs, returns the outputs."""

_SOURCES = frozenset({"Constant", "Parameter", "ReadValue"})
_SINKS = frozenset({"Assign", "Result"})
_BODIES = frozenset({"If", "Loop", "TensorIterator"})
_PLAIN = frozenset({"f16", "f32", "f64"})


def key_of(port: Any) -> Key:
    """Returns what stands for an output of an operation."""
    return port.get_node().get_name(), port.get_index()


def single(port: Any) -> Any:
    """Returns an output, that of float16 converted to float32."""
    from openvino import Type, opset13

    return opset13.convert(port, "f32").output(0) if port.get_element_type() == Type.f16 else port


def widen(model: Any) -> None:
    """Lets a model of version 10 compute in float32 what it does in float16, with the same weights.

    A model with bodies of loops or branches is not changed.
    """
    from openvino import Type, opset13

    operations = model.get_ordered_ops()
    if any(operation.get_type_name() in _BODIES for operation in operations):
        return
    for operation in operations:
        if operation.get_output_size() != 1 or operation.get_output_element_type(0) != Type.f16:
            continue
        if operation.get_type_name() == "Constant":
            wide = opset13.constant(np.asarray(operation.data).astype(np.float32))
            wide.set_friendly_name(operation.get_friendly_name())
            operation.output(0).replace(wide.output(0))
        elif operation.get_type_name() == "Convert":
            operation.set_attribute("destination_type", "f32")
    model.validate_nodes_and_infer_types()


def steps_of(model: Any, load: Callable[[Any], Compiled], tensor: Callable[[Array], Any]) -> list[Step]:
    """Returns the operations of a model.

    Args:
        model: An ``openvino.Model``, which is taken apart.
        load: Makes a model run.
        tensor: Makes OpenVINO's tensor of an array.
    """
    steps = []
    for operation in model.get_ordered_ops():
        if operation.get_type_name() in _SOURCES | _SINKS:
            continue
        sources = [port.get_source_output() for port in operation.inputs()]
        inputs = tuple(None if each.get_node().get_type_name() == "Constant" else key_of(each) for each in sources)
        alone = _Alone(operation, sources, load, tensor)
        outputs = tuple(map(key_of, operation.outputs()))
        attributes = operation.get_attributes() if operation.get_type_name() in SORTING else {}
        steps.append(Step(operation.get_type_name(), inputs, outputs, alone.run, alone.constant, attributes))
    return steps


class _Alone:
    """An operation in a model of its own."""

    def __init__(
        self, operation: Any, sources: Sequence[Any], load: Callable[[Any], Compiled], tensor: Callable[[Array], Any]
    ) -> None:
        self._operation = operation
        self._sources = sources
        self._load = load
        self._tensor = tensor
        self._compiled: tuple[list[Array | tuple[int, ...] | None], Compiled] | None = None

    def constant(self, index: int) -> Array | None:
        """Returns the constant at an input, if it is one of floats that numpy knows."""
        node = self._sources[index].get_node()
        if node.get_type_name() != "Constant" or str(node.get_element_type().to_string()) not in _PLAIN:
            return None
        return np.asarray(node.data)

    def run(self, inputs: Sequence[Array | None], absolute: bool) -> list[Array]:
        """Computes the outputs; see `Step`."""
        arrays = list(inputs)
        if absolute:
            arrays = [self.constant(i) if array is None else array for i, array in enumerate(arrays)]
            arrays = [np.abs(array) if array is not None and is_float(array) else array for array in arrays]
        given = {i: array for i, array in enumerate(arrays) if array is not None}
        varying = [i for i, array in given.items() if inputs[i] is not None and is_float(array)] or list(given)[:1]
        # OpenVINO wants constants at many an input, where floats that a model computes never stand.
        fixed = [array.shape if array is not None and i in varying else array for i, array in enumerate(arrays)]
        if self._compiled is None or not all(map(_same, self._compiled[0], fixed)):
            self._compiled = fixed, self._load(self._model(arrays, varying))
        return self._compiled[1]([given[i] for i in varying])

    def _model(self, arrays: Sequence[Array | None], varying: Sequence[int]) -> Any:
        import openvino
        from openvino import opset13

        parameters = []
        for index, (port, source, array) in enumerate(
            zip(self._operation.inputs(), self._sources, arrays, strict=True)
        ):
            if array is None:
                port.replace_source_output(source)
            elif index in varying:
                stated = source.get_element_type()
                # OpenVINO computes float16 in float32, and rounds to it what enters and what leaves a model.
                given = openvino.Type.f32 if stated == openvino.Type.f16 else stated
                parameters.append(openvino.op.Parameter(given, openvino.PartialShape(list(array.shape))))
                entry = parameters[-1] if given == stated else opset13.convert(parameters[-1], "f16")
                port.replace_source_output(entry.output(0))
            else:
                port.replace_source_output(openvino.op.Constant(self._tensor(array)).output(0))
        model = openvino.Model(list(map(single, self._operation.outputs())), parameters, "alone")
        model.validate_nodes_and_infer_types()
        return model


def _same(one: Array | tuple[int, ...] | None, other: Array | tuple[int, ...] | None) -> bool:
    return one is other or (isinstance(one, tuple) and isinstance(other, tuple) and one == other)

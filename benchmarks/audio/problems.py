"""What is measured has a plain ONNX model, data, and in some cases a program of SciPy that computes the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import onnx

__all__ = ["INPUT", "OUTPUT", "Array", "ModelBuilder", "Problem"]

Array = npt.NDArray[Any]

INPUT, OUTPUT = "x", "y"
"""Names of the input and of the output of each model."""

_OPSET, _IR_VERSION = 20, 10


class Problem(Protocol):
    """A model of one input and one output, float32. Instances can be pickled."""

    @property
    def name(self) -> str:
        """What tables show; no two problems share a name."""

    @property
    def group(self) -> str:
        """The heading under which tables show it."""

    @property
    def allowed_error(self) -> float:
        """How large ONNX Runtime's error may be, as root mean square relative to that of the answer."""

    def model(self) -> onnx.ModelProto:
        """Returns the model, in operators of ai.onnx alone."""

    def data(self) -> Array:
        """Returns the input."""

    def scipy(self, x: Array, threads: int) -> Callable[[], Array] | None:
        """Returns a program of NumPy and SciPy that computes the model's output; None if there is none."""


class ModelBuilder:
    """Makes a model, node by node.

    Attributes:
        random: Where weights come from; the same in every process.
    """

    def __init__(self) -> None:
        self.random = np.random.default_rng(0)
        self._nodes: list[onnx.NodeProto] = []
        self._constants: list[onnx.TensorProto] = []

    def constant(self, value: Any) -> str:
        """Stores a tensor, and returns its name; floats become float32."""
        from onnx import numpy_helper

        array = np.asarray(value)
        name = f"c{len(self._constants)}"
        stored = array.astype(np.float32) if array.dtype == np.float64 else array
        self._constants.append(numpy_helper.from_array(stored, name))
        return name

    def node(self, op_type: str, *inputs: str, **attributes: Any) -> str:
        """Adds a node, and returns the name of its output."""
        (output,) = self.nodes(op_type, 1, *inputs, **attributes)
        return output

    def nodes(self, op_type: str, count: int, *inputs: str, **attributes: Any) -> list[str]:
        """Adds a node of several outputs, and returns their names."""
        from onnx import helper

        outputs = [f"{op_type}{len(self._nodes)}_{index}" for index in range(count)]
        self._nodes.append(helper.make_node(op_type, inputs, outputs, name=outputs[0], **attributes))
        return outputs

    def weights(self, *shape: int, terms: int) -> str:
        """Stores random weights, scaled for sums of `terms` products."""
        return self.constant(self.random.standard_normal(shape) / np.sqrt(terms))

    def integers(self, *values: int) -> str:
        """Stores int64 numbers."""
        return self.constant(np.array(values, np.int64))

    def model(self, shape: tuple[int, ...], output: str) -> onnx.ModelProto:
        """Returns the model of an input of a shape, and the value that is its output."""
        import onnx
        from onnx import TensorProto, helper

        nodes = [*self._nodes, helper.make_node("Identity", [output], [OUTPUT])]
        graph = helper.make_graph(
            nodes,
            "benchmark",
            [helper.make_tensor_value_info(INPUT, TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info(OUTPUT, TensorProto.FLOAT, None)],
            self._constants,
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
        inferred: onnx.ModelProto = onnx.shape_inference.infer_shapes(model, strict_mode=True)
        return inferred

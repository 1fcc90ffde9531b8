"""A model of one node of ours, and the numbers that it must give."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ortconv.opset.convolution_terms import ACCUMULATION
from ortconv.opset.domain import DOMAIN
from ortconv.opset.ops import BY_NAME
from ortconv.opset.ops.compressed_weights import BLOCK_SIZE
from ortconv.opset.ops.conv_integer_to_float import CONV_INTEGER_TO_FLOAT
from ortconv.opset.ops.forward_stft import FORWARD_STFT
from ortconv.opset.ops.fourier_transform import FOURIER_TRANSFORM
from ortconv.opset.ops.inverse_stft import INVERSE_STFT
from ortconv.opset.ops.overlap_add import OVERLAP_ADD
from ortconv.opset.ops.qlinear_convolution import QLINEAR_CONVOLUTION
from ortconv.opset.ops.quantized_transposed_convolutions import (
    QLINEAR_TRANSPOSED_CONVOLUTION,
    QLINEAR_TRANSPOSED_CONVOLUTION_ADD,
    TRANSPOSED_CONVOLUTION_INTEGER_TO_FLOAT,
)
from ortconv.opset.reference import convolutions

__all__ = ["Case"]

_SPECTRAL = frozenset(op.name for op in (FORWARD_STFT, INVERSE_STFT, OVERLAP_ADD, FOURIER_TRANSFORM))
_OF_INTEGERS = frozenset(
    op.name
    for op in (
        CONV_INTEGER_TO_FLOAT,
        QLINEAR_CONVOLUTION,
        TRANSPOSED_CONVOLUTION_INTEGER_TO_FLOAT,
        QLINEAR_TRANSPOSED_CONVOLUTION,
        QLINEAR_TRANSPOSED_CONVOLUTION_ADD,
    )
)


@dataclasses.dataclass
class Case:
    """A node and its inputs.

    Attributes:
        op: Operator type.
        attributes: Of the node, which may hold anything.
        inputs: Names and data; None where the node has no such input. A tuple instead of data is an empty shape, and
            the type of a tensor that the model has of it.
        constants: Which of them are initializers.
        open_sizes: Whether the sizes of the graph's inputs are not stated.
        is_plain: Whether nothing about it is out of the ordinary, so that it must run.
    """

    op: str
    attributes: dict[str, Any]
    inputs: dict[str, np.ndarray | tuple[tuple[int, ...], int] | None]
    constants: frozenset[str]
    open_sizes: bool
    is_plain: bool

    @property
    def feeds(self) -> dict[str, np.ndarray]:
        """What a run is given."""
        return {
            name: data
            for name, data in self.inputs.items()
            if isinstance(data, np.ndarray) and name not in self.constants
        }

    def model(self, open_sizes: bool | None = None) -> onnx.ModelProto:
        """Returns the model, without function bodies."""
        open_sizes = self.open_sizes if open_sizes is None else open_sizes
        names = [name if data is not None else "" for name, data in self.inputs.items()]
        while not names[-1]:
            names.pop()
        node = helper.make_node(self.op, names, ["Y"], name="n", domain=DOMAIN)
        for name, value in self.attributes.items():
            node.attribute.append(_attribute(name, value))
        inputs, stored = [], []
        for name, data in self.inputs.items():
            if isinstance(data, tuple):
                stored.append(TensorProto(name=name, dims=data[0], data_type=data[1], raw_data=b""))
            elif data is not None and name in self.constants:
                stored.append(numpy_helper.from_array(data, name))
            elif data is not None:
                shape = [None] * data.ndim if open_sizes else data.shape
                inputs.append(helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(data.dtype), shape))
        first = next(iter(self.inputs.values()))
        assert isinstance(first, np.ndarray)
        like = self.inputs.get("y_zero_point", first)
        kind = (
            np.dtype(np.float32) if self.op in _OF_INTEGERS and like is first else getattr(like, "dtype", first.dtype)
        )
        element = helper.np_dtype_to_tensor_dtype(kind)
        graph = helper.make_graph(
            [node], "g", inputs, [onnx.ValueInfoProto(name="Y", type=helper.make_tensor_type_proto(element, None))],
            stored,
        )  # fmt: skip
        imports = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def expected(self) -> np.ndarray:
        """Returns the result that the definition of the operator gives, with floats computed in float64.

        Raises:
            Exception: The definition does not allow the node, or numpy has no such tensors.
        """
        arrays = [numpy_helper.to_array(_tensor(data)) if isinstance(data, tuple) else data for data in
                  self.inputs.values()]  # fmt: skip
        attributes = dict(self.attributes)
        if any(each.name == BLOCK_SIZE for each in BY_NAME[self.op].attributes):
            first = arrays[0]
            assert first is not None
            wide = [data.astype(np.int64) if i in (1, 4) and data is not None and data.dtype.itemsize == 1 and
                    data.dtype != np.int64 else data for i, data in enumerate(arrays)]  # fmt: skip
            return BY_NAME[self.op].reference(*wide, **attributes)
        if self.op in _SPECTRAL:
            given = [
                None if data is None else data.astype(np.float64) if data.dtype.kind != "i" else data for data in arrays
            ]
            return BY_NAME[self.op].reference(*given, **attributes)
        if self.op in _OF_INTEGERS:
            return BY_NAME[self.op].reference(*arrays, **attributes)
        first = arrays[0]
        assert first is not None
        if attributes.pop("accumulation_type") != ACCUMULATION[helper.np_dtype_to_tensor_dtype(first.dtype)]:
            raise ValueError("accumulation_type")
        exact = convolutions.accumulation_dtype(first.dtype).kind != "f"
        return BY_NAME[self.op].reference(*arrays, accumulate=None if exact else np.float64, **attributes)


def _tensor(empty: tuple[tuple[int, ...], int]) -> TensorProto:
    return TensorProto(dims=empty[0], data_type=empty[1], raw_data=b"")


def _attribute(name: str, value: Any) -> onnx.AttributeProto:
    """Makes an attribute, of an empty list, too."""
    if isinstance(value, list) and not value:
        return onnx.AttributeProto(name=name, type=onnx.AttributeProto.INTS)
    return helper.make_attribute(name, value)

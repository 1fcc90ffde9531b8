"""Random data for the constants of a graph, so that it can be run and timed without its weights."""

from __future__ import annotations

from typing import cast

import numpy as np

from ortconv.converters.onednn_graph.reader.source_graph import document_of
from ortconv.converters.onednn_graph.reader.tensors import ELEMENTS, name_of
from ortconv.errors import ModelFormatError
from ortconv.frontend.source_format import Tensors
from ortconv.model_io.input_data import Input, random_data
from ortconv.onednn import Op, Tensor, graph_inputs
from ortconv.onednn.op_schema import KINDS

__all__ = ["random_constants"]

_RANGES = {"scales": (0.005, 0.02), "variance": (0.5, 1.5), "probability": (0.1, 0.5)}
"""Argument -> range of its data, for arguments that must be positive."""


def random_constants(source: object, seed: int, given: Tensors) -> Tensors:
    """Returns the given data, and random data for all other inputs with property_type "constant".

    Floats are standard normal, integers small, and scales, variances and probabilities positive.

    Args:
        source: A path, or an `ortconv.onednn.Graph`.
        seed: Seed of the random numbers, which also depend on the tensor's name.
        given: Data by tensor id or name.

    Raises:
        ModelFormatError: The source is not a graph, or the size or type of a constant is unknown.
        InputError: A constant is too large.
    """
    document = document_of(source)
    inputs = [tensor for tensor in graph_inputs(document.ops) if tensor.property_type == "constant"]
    constants = [tensor for tensor in inputs if given.keys().isdisjoint((name_of(tensor), str(tensor.id)))]
    arrays = dict(given)
    for tensor in constants:
        sized = tensor.shape is not None and None not in tensor.shape
        if not sized or tensor.dtype == "undef":
            problem = f"constant {name_of(tensor)} has an unknown {'type' if sized else 'size'}"
            raise ModelFormatError(document.path, "/graph", f"{problem}; no random data can be made for it.")
        shape = cast("tuple[int, ...]", tensor.shape)
        data = random_data(Input(name_of(tensor), ELEMENTS[tensor.dtype], shape), shape, seed)
        role = next((role for op in document.ops if (role := _role(op, tensor)) in _RANGES), None)
        arrays[name_of(tensor)] = data if role is None else _within(data, *_RANGES[role])
    return arrays


def _role(op: Op, tensor: Tensor) -> str | None:
    """Returns the name of the argument for which an op uses a tensor."""
    names = KINDS[op.kind].inputs if op.kind in KINDS else ()
    return next((name for name, given in zip(names, op.inputs, strict=False) if given.id == tensor.id), None)


def _within(data: np.ndarray, low: float, high: float) -> np.ndarray:
    """Maps floats into a range; integers are not changed."""
    if np.issubdtype(data.dtype, np.integer):
        return data
    share = np.abs(np.tanh(data.astype(np.float32)))
    return (low + (high - low) * share).astype(data.dtype)

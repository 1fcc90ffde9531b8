"""One op of the convolution family or beside it, and the error by which its conversion is refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

import ortconv
from ortconv import onednn
from ortconv.errors import ConversionError, ConversionErrors

MODES: tuple[Any, ...] = ("spec", "runtime")

NCX = {"data_format": "NCX", "weights_format": "OIX"}
IOX = {"data_format": "NCX", "weights_format": "IOX"}


def window(spatial: int = 1, **changes: object) -> dict[str, Any]:
    """The required attributes: stride 2, no padding."""
    required = {"strides": [2], "pads_begin": [0], "pads_end": [0], "dilations": [1]}
    return {name: value * spatial for name, value in required.items()} | changes


def convert(
    kind: str,
    shapes: list[tuple[int | None, ...] | None],
    attributes: dict[str, Any],
    *,
    dtypes: list[str] | None = None,
    result: Any = None,
    semantics: Any = "spec",
    tensors: dict[str, np.ndarray] | None = None,
) -> ortconv.Conversion:
    g = onednn.Graph("net")
    dtypes = dtypes or ["f32"] * len(shapes)
    inputs = [g.tensor(f"x{i}", dtype, shape) for i, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))]
    outputs = None if result is None else [g.tensor("y", *result)]
    g.op(kind, inputs, outputs=outputs, name="node", **attributes)
    return ortconv.conversion(g, semantics=semantics, tensors=tensors)


def refused(*arguments: Any, **options: Any) -> ConversionError:
    with pytest.raises(ConversionErrors) as caught:
        convert(*arguments, **options)
    (error,) = caught.value.exceptions
    assert error.node is not None
    assert (error.node.file, error.node.op_type, error.node.name) == ("<onednn.Graph 'net'>", arguments[0], "node")
    return error


@dataclasses.dataclass(frozen=True)
class Family:
    """How to call an op of the family so that it converts."""

    shapes: list[Any]
    attributes: dict[str, Any]


FAMILIES = {
    "Convolution": Family([(1, 2, 7), (4, 2, 3)], window(**NCX)),
    "ConvTranspose": Family([(1, 4, 3), (4, 2, 3)], window(**IOX)),
    "ConvTransposeBackwardData": Family([(1, 2, 7), (4, 2, 3)], window(**IOX)),
    "ConvolutionBackwardData": Family([(1, 4, 3), (4, 2, 3)], window(**NCX, dst_shape=[1, 2, 7])),
    "ConvolutionBackwardWeights": Family([(1, 2, 7), (1, 4, 3)], window(**NCX, weights_shape=[4, 2, 3])),
    "ConvTransposeBackwardWeights": Family([(1, 4, 3), (1, 2, 7)], window(**IOX, weights_shape=[4, 2, 3])),
}

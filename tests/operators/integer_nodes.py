"""Builds models of one node that convolves 8-bit integers, and checks that wrong ones are refused."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from ortconv.opset.domain import DOMAIN
from ortconv.opset.operator import Operator
from ortconv.opset.schemas import register_schemas
from tests.running import run

__all__ = ["Node", "assert_refused", "model", "zeros"]


class Node(Protocol):
    """The shape of the data of a node, and its attributes."""

    @property
    def x(self) -> tuple[int, ...]:
        """The shape of X."""

    @property
    def attributes(self) -> dict[str, Any]:
        """All attributes."""


def model(
    op: Operator,
    case: Node,
    given: Mapping[str, np.ndarray],
    constants: tuple[str, ...] = (),
    *,
    opset: int = 21,
    bodies: bool = True,
    open_sizes: bool = False,
    **changes: Any,
) -> onnx.ModelProto:
    """Returns a model of one node.

    Args:
        op: The operator.
        case: Attributes.
        given: Its inputs.
        constants: Names of those that are initializers, not inputs of the graph.
        opset: Of ai.onnx.
        bodies: Whether the model has the function body.
        open_sizes: Whether the sizes of the graph's inputs are names.
        **changes: Attributes that are others; None leaves one out.
    """
    register_schemas()
    names = [each.name if each.name in given else "" for each in op.inputs]
    while not names[-1]:
        names.pop()
    attributes = {key: value for key, value in {**case.attributes, **changes}.items() if value is not None}
    node = helper.make_node(op.name, names, ["Y"], name="c", domain=DOMAIN, **attributes)
    inputs = [
        helper.make_tensor_value_info(
            name,
            helper.np_dtype_to_tensor_dtype(data.dtype),
            [f"{name}_{axis}" for axis in range(data.ndim)] if open_sizes else data.shape,
        )
        for name, data in given.items()
        if name not in constants
    ]
    stored = [numpy_helper.from_array(given[name], name) for name in constants if name in given]
    kind = given["y_zero_point"].dtype if "y_zero_point" in given else np.dtype(np.float32)
    result = helper.make_tensor_value_info("Y", helper.np_dtype_to_tensor_dtype(kind), [None] * len(case.x))
    return helper.make_model(
        helper.make_graph([node], "g", inputs, [result], stored),
        opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid(DOMAIN, 1)],
        ir_version=10,
        functions=[op.body(opset, frozenset({*op.switches} & {*attributes}))] if bodies else [],
    )


def zeros(shape: tuple[int, ...], kind: Any = np.float32) -> np.ndarray:
    """Returns zeros of a type."""
    return np.zeros(shape, kind)


def assert_refused(
    op: Operator, bad: onnx.ModelProto, given: Mapping[str, np.ndarray], constants: Collection[str]
) -> None:
    """Asserts that the checker, ONNX Runtime with our library, and the Python ops refuse a model."""
    with pytest.raises((onnx.checker.ValidationError, onnx.shape_inference.InferenceError)):
        onnx.checker.check_model(bad, full_check=True)
    feeds = {name: data for name, data in given.items() if name not in constants}
    with pytest.raises(Exception, match=op.name):
        run(bad, feeds, "native")
    # Beside a Python op, nodes of ONNX Runtime read y_scale and y_zero_point.
    with pytest.raises(Exception, match=f"{op.name}|Reshape|Gather" if op.epilogue is not None else op.name):
        run(bad, feeds, "python")

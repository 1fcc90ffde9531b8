"""What is known of sizes: which axis of which tensor an open one is, and what is computed from it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from ortconv.graph.symbolic_shapes import Linear, Sizes, of_axis, of_constant, of_shape, propagate, with_runtime_values

INT64 = ir.DataType.INT64
X = ir.val("x", ir.DataType.FLOAT, [None, 3, None, 1])
SIZE = Linear(X, 0)


def made(op_type: str, *inputs: Any, shape: list[int | None], domain: str = "", **attributes: Any) -> ir.Value:
    """Returns what a node gives; constants are given as lists."""
    values = [
        each
        if isinstance(each, ir.Value)
        else ir.Value(name="c", const_value=ir.tensor(np.array(each, np.int64)), type=ir.TensorType(INT64))
        for each in inputs
    ]
    node = ir.node(op_type, values, attributes, domain=domain)
    node.outputs[0].shape = ir.Shape(shape)
    return node.outputs[0]


@pytest.mark.parametrize(
    ("value", "axis", "of"),
    [
        (made("Transpose", X, shape=[None, None, 1, 3], perm=[2, 0, 3, 1]), 0, 2),
        (made("Transpose", X, shape=[None, None, 1, 3], perm=[2, 0, 3, 1]), 1, 0),
        (made("Unsqueeze", X, [0, 2], shape=[1, None, 1, 3, None, 1]), 1, 0),
        (made("Unsqueeze", X, [0, 2], shape=[1, None, 1, 3, None, 1]), 4, 2),
        (made("Unsqueeze", X, [-1], shape=[None, 3, None, 1, 1]), 2, 2),
        (made("Squeeze", X, [1], shape=[None, None, 1]), 0, 0),
        (made("Squeeze", X, [1], shape=[None, None, 1]), 1, 2),
        (made("Squeeze", X, [-3, -1], shape=[None, None]), 1, 2),
        (made("Reshape", X, [0, 3, 0, 1, 1], shape=[None, 3, None, 1, 1]), 2, 2),
    ],
)
def test_size_that_a_node_leaves_is_that_of_its_input(value: ir.Value, axis: int, of: int) -> None:
    assert of_axis(value, axis) == Linear(X, of)


@pytest.mark.parametrize(
    ("value", "axis"),
    [
        (made("Unsqueeze", X, [0], shape=[None, None, 3, None, 1]), 0),
        (made("Reshape", X, [-1, 3, 0, 1], shape=[None, 3, None, 1]), 0),
        (made("Reshape", X, [0, 3, 0, 1], shape=[None, 3, None, 1], allowzero=1), 0),
        (made("Squeeze", X, shape=[None, 3, None]), 0),
        (made("Squeeze", X, ir.val("axes", INT64, [1]), shape=[None, 3, None]), 0),
        (made("Transpose", X, shape=[None, None, 1, 3], domain="org.ortconv", perm=[2, 0, 3, 1]), 0),
        (made("Relu", X, shape=[None, 3, None, 1]), 0),
    ],
)
def test_other_sizes_are_those_of_the_result(value: ir.Value, axis: int) -> None:
    assert of_axis(value, axis) == Linear(value, axis)


def sizes(*entries: Any) -> Sizes:
    return Sizes(np.array(entries, np.object_), INT64)


def constant(*entries: int) -> Sizes:
    found = of_constant(ir.tensor(np.array(entries)))
    assert found is not None
    return found


OTHER, CONTENT = Linear(X, 2), Linear(X, 0, content=True)


@pytest.mark.parametrize(
    ("op_type", "left", "right", "result"),
    [
        ("Add", SIZE, 3, Linear(X, 0, 1, 3)),
        ("Add", 3, SIZE, Linear(X, 0, 1, 3)),
        ("Add", SIZE, SIZE, Linear(X, 0, 2, 0)),
        ("Add", Linear(X, 0, 2, 1), Linear(X, 0, 3, 5), Linear(X, 0, 5, 6)),
        ("Add", Linear(X, 0, 2, 1), Linear(X, 0, -2, 5), 6),
        ("Add", SIZE, OTHER, None),
        ("Add", SIZE, CONTENT, None),
        ("Add", SIZE, None, None),
        ("Add", 2, None, None),
        ("Sub", Linear(X, 0, 2, 1), 4, Linear(X, 0, 2, -3)),
        ("Sub", 4, Linear(X, 0, 2, 1), Linear(X, 0, -2, 3)),
        ("Sub", SIZE, SIZE, 0),
        ("Sub", SIZE, OTHER, None),
        ("Mul", Linear(X, 0, 2, 1), 3, Linear(X, 0, 6, 3)),
        ("Mul", 3, Linear(X, 0, 2, 1), Linear(X, 0, 6, 3)),
        ("Mul", SIZE, 0, 0),
        ("Mul", None, 0, 0),
        ("Mul", SIZE, SIZE, None),
        ("Mod", 7, 3, 1),
        ("Mod", -7, 3, None),
        ("Mod", 7, -3, None),
        ("Mod", 7, 0, None),
        ("Mod", SIZE, 1, None),
        ("Div", 7, 0, None),
        ("Max", SIZE, 1, None),
    ],
)
def test_arithmetic(op_type: str, left: Any, right: Any, result: Any) -> None:
    found = propagate(op_type, [sizes(left), sizes(right)], {}, 1)
    assert found is not None
    assert found[0].entries.tolist() == [result]


def test_entries_of_a_vector_of_which_nothing_is_known_are_its_own() -> None:
    vector = ir.val("v", INT64, [3])
    assert with_runtime_values(sizes(4, None, SIZE), vector).entries.tolist() == [
        4,
        Linear(vector, 1, content=True),
        SIZE,
    ]
    scalar = Sizes(np.array(None, np.object_), INT64)
    assert with_runtime_values(scalar, ir.val("s", INT64, [])) is scalar


def test_a_number_that_would_wrap_is_not_known() -> None:
    found = propagate("Mul", [sizes(2**62, 2), sizes(2, 3)], {}, 1)
    assert found is not None
    assert found[0].entries.tolist() == [None, 6]
    assert found[0].tensor is None


def test_part_of_a_shape() -> None:
    found = of_shape(X, {"start": 1, "end": 3})
    assert found is not None
    assert found.entries.tolist() == [3, OTHER]


@pytest.mark.parametrize(
    ("op", "inputs", "attributes", "expected"),
    [
        ("Gather", [sizes(None, 3, 4), constant(2, 0)], {"axis": 0}, [4, None]),
        ("Gather", [sizes(None, 3, 4), of_constant(ir.tensor(np.array(0)))], {"axis": 0}, None),
        ("Concat", [sizes(None), constant(5), sizes(7)], {"axis": 0}, [None, 5, 7]),
        ("Slice", [sizes(None, 3, 4), constant(1), constant(9)], {}, [3, 4]),
        ("Mul", [sizes(None, 3, None), constant(2, 2, 0)], {}, [None, 6, 0]),
        ("Div", [sizes(None, 7, -7), constant(2, 2, 2)], {}, [None, 3, None]),
        ("Add", [sizes(2**63 - 1, 1), constant(1, 1)], {}, [None, 2]),
        ("Cast", [sizes(2**40, 3, None)], {"to": int(ir.DataType.INT32)}, [None, 3, None]),
    ],
)
def test_open_sizes_stay_open(
    op: str, inputs: list[Sizes], attributes: dict[str, Any], expected: list[Any] | None
) -> None:
    (found,) = propagate(op, inputs, attributes, 1) or ()
    assert found.entries.tolist() == expected


def test_position_that_is_open_makes_everything_open() -> None:
    assert propagate("Gather", [constant(1, 2), sizes(None)], {"axis": 0}, 1) is None

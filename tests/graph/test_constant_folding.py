"""Nodes that are evaluated at conversion time give what ONNX Runtime gives."""

from __future__ import annotations

import dataclasses
from typing import Any

import ml_dtypes
import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from ortconv.graph.constant_folding import fold

F16, F32, F64, I32, I64, U8 = np.float16, np.float32, np.float64, np.int32, np.int64, np.uint8
Array = np.ndarray


@dataclasses.dataclass(frozen=True)
class Case:
    op: str
    inputs: tuple[Array | None, ...]
    attributes: dict[str, Any] = dataclasses.field(default_factory=dict)
    outputs: int = 1

    def __str__(self) -> str:
        types = " ".join("-" if each is None else f"{each.dtype}{list(each.shape)}" for each in self.inputs)
        return f"{self.op} {types} {self.attributes}"


def case(op: str, *inputs: Array | None, outputs: int = 1, **attributes: Any) -> Case:
    return Case(op, inputs, attributes, outputs)


def ints(*values: int, dtype: Any = I64) -> Array:
    return np.array(values, dtype)


def data(*shape: int, dtype: Any = F32, low: int = -9) -> Array:
    return np.random.default_rng(len(shape)).uniform(low, 9, shape).astype(dtype)


TO = {
    name: int(ir.DataType[name]) for name in ("FLOAT", "FLOAT16", "DOUBLE", "INT32", "INT64", "UINT8", "UINT32", "BOOL")
}
FLOATING = [
    case(op, data(2, 3, dtype=dtype), data(3, dtype=dtype))
    for op in ("Add", "Sub", "Mul", "Div", "Max", "Min", "Less", "GreaterOrEqual", "Equal")
    for dtype in (F32, F64)
]
INTEGER = [
    case(op, data(2, 3, dtype=dtype), ints(-3, 2, 5, dtype=dtype))
    for op in ("Add", "Sub", "Mul", "Div", "Mod", "Max", "Min", "Greater", "LessOrEqual", "Equal")
    for dtype in (I32, I64)
]
SINGLE = [case(op, data(3, 4)) for op in ("Abs", "Ceil", "Floor", "Neg", "Round")]
CASTS = [
    case("Cast", data(3, 4, dtype=source, low=0), to=to)
    for source in (F16, F32, F64, I32, I64, np.bool_)
    for to in TO.values()
    if (source, to) not in ((F64, TO["FLOAT16"]),)
]
MOVES = [
    case("Pad", data(2, 3), ints(1, 0, 2, 3)),
    case("Pad", data(3), ints(2, 0), np.array(7, F32), mode="constant"),
    case("Pad", ints(4, 5), ints(0, 2), np.array(-1)),
    case("Concat", data(2, 3), data(2, 1), axis=-1),
    case("CumSum", ints(3, 4, 5), np.array(0)),
    case("Expand", data(3, 1), ints(2, 1, 4)),
    case("Gather", data(4, 3), np.array([[0, -1]]), axis=1),
    case("Gather", ints(7, 8, 9), np.array(1), axis=0),
    case("NonZero", np.array([[1, 0], [0, 3]], F32)),
    case("Range", np.array(2), np.array(11), np.array(3)),
    case("ReduceMax", ints(3, 9, 4), ints(0), keepdims=0),
    case("ReduceMin", ints(3, 9, 4), keepdims=1),
    case("ReduceProd", np.arange(1, 7).reshape(2, 3), ints(-1)),
    case("ReduceSum", np.arange(6, dtype=I32).reshape(2, 3), ints(0), keepdims=0),
    case("Reshape", data(2, 6), ints(0, -1, 3)),
    case("Reshape", data(2, 0), ints(0, 5), allowzero=1),
    case("Size", data(2, 6)),
    case("Slice", data(5, 6), ints(1, -4), ints(4, 100)),
    case("Slice", data(5, 6), ints(-1), ints(np.iinfo(I64).min), ints(1), ints(-2)),
    case("Slice", data(5, 6), ints(4), ints(1), ints(0), ints(-1)),
    case("Split", data(7, 2), outputs=3, axis=0, num_outputs=3),
    case("Split", data(7, 2), ints(1, 6), outputs=2, axis=0),
    case("Sqrt", data(5, low=0)),
    case("Squeeze", data(1, 3, 1)),
    case("Squeeze", data(1, 3, 1), ints(-1)),
    case("Tile", data(2, 3), ints(2, 1)),
    case("Transpose", data(2, 3, 4), perm=[2, 0, 1]),
    case("Transpose", data(2, 3, 4)),
    case("Unsqueeze", data(2, 3), ints(0, -1)),
    case("Where", np.array([True, False]), data(2, 2), np.array(1, F32)),
    case("ConstantOfShape", ints(2, 3), value=ir.tensor(np.array([7], I32))),
    case("Not", np.array([True, False])),
    case("And", np.array([True, False]), np.array([True, True])),
]


def run(case: Case) -> list[Array]:
    """Runs a case as a model of one node whose inputs are fed."""
    values = [
        None if each is None else ir.val(f"x{index}", ir.DataType.from_numpy(each.dtype), each.shape)
        for index, each in enumerate(case.inputs)
    ]
    node = ir.node(case.op, values, case.attributes, num_outputs=case.outputs)
    for index, output in enumerate(node.outputs):
        output.name = f"y{index}"
    graph = ir.Graph(
        [value for value in values if value is not None], node.outputs, nodes=[node], opset_imports={"": 21}, name="g"
    )
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        ir.to_proto(ir.Model(graph, ir_version=10)).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    feeds = {f"x{index}": each for index, each in enumerate(case.inputs) if each is not None}
    return list(session.run(None, feeds))


def folded(case: Case) -> list[Array] | None:
    tensors = [None if each is None else ir.tensor(each) for each in case.inputs]
    found = fold(case.op, tensors, case.attributes, case.outputs)
    return None if found is None else [tensor.numpy() for tensor in found]


@pytest.mark.parametrize("case", [*FLOATING, *INTEGER, *SINGLE, *CASTS, *MOVES], ids=str)
def test_result_is_that_of_onnx_runtime(case: Case) -> None:
    found = folded(case)
    assert found is not None
    for ours, theirs in zip(found, run(case), strict=True):
        assert (ours.dtype, ours.shape) == (theirs.dtype, theirs.shape)
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize(
    "case",
    [
        case("Exp", data(3)),
        case("MatMul", data(2, 2), data(2, 2)),
        case("ReduceSum", data(2, 2), ints(0)),
        case("RandomUniform", shape=[2]),
        case("Cast", np.array([1e20], F32), to=TO["INT32"]),
        case("Cast", np.array([np.nan], F32), to=TO["INT32"]),
        case("Cast", np.array([2**31], F32), to=TO["INT32"]),
        case("Cast", np.array([2**32], F32), to=TO["UINT32"]),
        case("Cast", np.array([np.inf], F16), to=TO["INT64"]),
        case("Cast", np.array([2.0**63], F64), to=TO["INT64"]),
        case("Cast", np.array([-np.inf], F16), to=TO["INT32"]),
        case("Cast", np.array([0.1], F64), to=TO["FLOAT16"]),
        case("Cast", np.ones((64, 64), U8), to=TO["FLOAT"]),
        case("Div", ints(3), ints(0)),
        case("Expand", np.zeros((1,), F32), ints(1 << 20)),
        case("ConstantOfShape", ints(1 << 20)),
        case("Tile", np.zeros(1 << 10, F32), ints(1 << 10)),
        case("Range", np.array(0), np.array(1 << 30), np.array(1)),
        case("Add", np.zeros((1 << 12, 1), F32), np.zeros((1, 1 << 12), F32)),
        case("Gather", data(3), np.array(5), axis=0),
        case("Reshape", data(6), ints(4, 2)),
        case("Slice", data(3), ints(5), ints(0), ints(0), ints(-1)),
        case("Pad", data(1), ints(-2, 3)),
        case("Pad", data(2, 3), ints(1, 0, 0, 2), None, ints(1, 0)),
        case("Pad", data(3), ints(1, 1), mode="edge"),
        case("Pad", data(3), ints(0, 1 << 45)),
    ],
    ids=str,
)
def test_node_stays(case: Case) -> None:
    assert folded(case) is None


def test_large_tensors_are_moved_when_they_are_asked_for() -> None:
    halves = np.arange(1 << 16, dtype=F16).reshape(256, 256)
    (floats,) = fold("Cast", [ir.tensor(halves)], {"to": TO["FLOAT"]}, 1) or ()
    (turned,) = fold("Transpose", [floats], {"perm": [1, 0]}, 1) or ()
    (flat,) = fold("Reshape", [turned, ir.tensor(ints(-1))], {}, 1) or ()
    assert isinstance(flat, ir.LazyTensor)
    assert flat.shape == (1 << 16,)
    np.testing.assert_array_equal(flat.numpy(), halves.astype(F32).T.reshape(-1))


def test_bfloat16_weights_become_floats() -> None:
    weights = np.arange(8).astype(ml_dtypes.bfloat16)
    (floats,) = fold("Cast", [ir.tensor(weights)], {"to": TO["FLOAT"]}, 1) or ()
    np.testing.assert_array_equal(floats.numpy(), np.arange(8, dtype=F32))

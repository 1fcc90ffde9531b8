"""Mixtures of experts, and what has become of them in a converted model."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from openvino import opset1, opset3, opset4, opset8, opset11, opset12

from ortconv.api import Conversion
from tests.converters.openvino.live import numbers
from tests.converters.openvino.weights.test_compressed_matmul import compressed
from tests.converters.openvino.weights.weight_models import CODED, coded

EXPERTS, COLUMNS, INNER, CHOSEN = 5, 32, 64, 2
FEEDS = [[numbers(rows, COLUMNS, seed=rows, low=-1, high=1)] for rows in (7, 1, 12)]


def ints(*values: int) -> Any:
    return opset1.constant(np.array(values, np.int64))


def matrices(element: str, rows: int, columns: int, seed: int) -> Any:
    """Returns a matrix [rows, columns] for each expert, as floats or compressed."""
    if element == "f32":
        return opset1.constant(numbers(EXPERTS, rows, columns, seed=seed, low=-0.3, high=0.3))
    if element == "f16":
        return opset1.convert(
            opset1.constant(numbers(EXPERTS, rows, columns, dtype=np.float16, seed=seed, low=-0.3, high=0.3)), "f32"
        )
    if element in ("u8", "i8"):
        value, _ = compressed(element, (EXPERTS, rows, columns), (EXPERTS, rows, 1), "f16", points=element == "u8")
        return opset1.convert(value, "f32")
    shapes = (EXPERTS, rows, columns // 16, 16), (EXPERTS, rows, columns // 16, 1)
    if element in CODED:
        value, _ = coded(element, *shapes, "f16", seed=seed)
    else:
        value, _ = compressed(element, *shapes, "f16", points=element == "u4")
    return opset1.convert(opset1.reshape(value, ints(EXPERTS, rows, columns), False), "f32")


def table(x: Any, gate: Any = None) -> tuple[Any, Any]:
    """Returns factors [rows, experts], most of them zeros, and how many rows there are, as a vector."""
    gate = opset1.matmul(x, numbers(EXPERTS, COLUMNS, seed=5), False, True) if gate is None else gate
    best = opset11.topk(opset8.softmax(gate, -1), np.int64(CHOSEN), -1, "max", "value", "i64")
    rows = opset8.gather(opset3.shape_of(best.output(1)), ints(0), np.int64(0))
    zeros = opset3.broadcast(np.float32(0), opset1.concat([rows, ints(EXPERTS)], 0))
    updated = opset12.scatter_elements_update(zeros, best.output(1), best.output(0), np.int64(1))
    return updated, rows


def gated(x: Any, element: str, *, apart: bool = False) -> Any:
    """Three products with Swish between them; where `apart`, with biases, limits, and one axis more in the end."""
    copies = opset1.reshape(opset1.tile(x, ints(EXPERTS, 1)), ints(EXPERTS, -1, COLUMNS), False)
    if apart:
        both = opset1.matmul(copies, matrices(element, 2 * INNER, COLUMNS, 1), False, True)
        both = opset1.add(both, numbers(EXPERTS, 1, 2 * INNER, seed=8))
        gate, up = (opset8.slice(both, ints(start), ints(np.iinfo(np.int64).max), ints(2), ints(2)) for start in (0, 1))
        gate = opset1.minimum(gate, np.full((1, 1, 1), 0.7, np.float32))
        up = opset1.add(opset1.clamp(up, -1.0, 1.0), np.ones((1, 1, 1), np.float32))
        inner = opset1.multiply(up, opset1.multiply(gate, opset1.sigmoid(gate)))
    else:
        gate = opset1.matmul(copies, matrices(element, INNER, COLUMNS, 1), False, True)
        up = opset1.matmul(copies, matrices(element, INNER, COLUMNS, 2), False, True)
        inner = opset1.multiply(opset4.swish(gate), up)
    results = opset1.matmul(inner, matrices(element, COLUMNS, INNER, 3), False, True)
    factors, rows = table(x)
    turned = opset1.transpose(factors, ints(1, 0))
    if not apart:
        return opset1.reduce_sum(opset1.multiply(results, opset1.unsqueeze(turned, ints(2))), ints(0), False)
    results = opset1.add(results, numbers(EXPERTS, 1, COLUMNS, seed=9))
    split = opset1.reshape(results, opset1.concat([ints(EXPERTS), rows, ints(-1), ints(COLUMNS)], 0), False)
    column = opset1.unsqueeze(opset1.reshape(turned, opset1.concat([ints(EXPERTS), rows, ints(1)], 0), False), ints(3))
    return opset1.reduce_sum(opset1.multiply(split, column), ints(0), False)


def conditions(converted: Conversion) -> int:
    return [node.op_type for node in converted.model.graph].count("If")


def gathered(converted: Conversion, op: str = "GatherMatMulCompressed") -> int:
    return [node.op_type for node in converted.model.graph].count(op)


def bodies(model: onnx.ModelProto) -> list[onnx.GraphProto]:
    return [attribute.g for node in model.graph.node if node.op_type == "If" for attribute in node.attribute]

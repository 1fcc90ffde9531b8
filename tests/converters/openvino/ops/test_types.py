"""The table of ONNX Runtime's kernels against ONNX Runtime, and that results keep the source's type."""

from __future__ import annotations

import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from onnx import helper

from ortconv.api import OPSETS
from ortconv.converters.openvino.lib.compute_types import KERNELS

_SINCE = {"Gelu": 20}
_SECOND = {
    "Add", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "MatMul", "Max", "Min", "Mod", "Mul",
    "PRelu", "Pow", "Sub",
}  # fmt: skip
_PREDICATES = {"Equal", "Greater", "GreaterOrEqual", "IsInf", "IsNaN", "Less", "LessOrEqual"}
_MORE: dict[str, list[list[int]]] = {
    "DeformConv": [[3, 4, 1, 1], [1, 2, 2, 2]],
    "GridSample": [[1, 3, 3, 2]],
}
"""Shapes of further inputs of the op's type."""

_ATTRIBUTES: dict[str, dict[str, object]] = {
    "AveragePool": {"kernel_shape": [2, 2]},
    "DepthToSpace": {"blocksize": 2},
    "DeformConv": {"kernel_shape": [1, 1]},
    "Einsum": {"equation": "abcd->ab"},
    "Gelu": {},
    "LRN": {"size": 3},
    "MaxPool": {"kernel_shape": [2, 2]},
    "SpaceToDepth": {"blocksize": 2},
}
_FIRST: dict[str, list[int]] = {"Col2Im": [1, 4, 4], "Range": []}
_VECTORS: dict[str, list[list[int] | None]] = {
    "Col2Im": [[3, 3], [2, 2]],
    "Expand": [[1, 4, 2, 2]],
    "Pad": [[0] * 8],
    "CumSum": [[1]],
    "Resize": [None, None, [1, 4, 2, 2]],
    "TopK": [[1]],
    "Tile": [[1, 1, 1, 1]],
}


def _model(op_type: str, dtype: ir.DataType, opset: int) -> onnx.ModelProto:
    """Returns a model of one node; types and inputs are all that matters."""
    names = ["x"]
    inputs = [helper.make_tensor_value_info("x", dtype, _FIRST.get(op_type, [1, 4, 2, 2]))]
    initializers = []
    if op_type in _SECOND:
        names.append("y")
        inputs.append(helper.make_tensor_value_info("y", dtype, [1, 4, 2, 2]))
    for i, shape in enumerate(_MORE.get(op_type, [])):
        names.append(f"m{i}")
        inputs.append(helper.make_tensor_value_info(f"m{i}", dtype, shape))
    if op_type in ("Clip", "Range", "Where", "BatchNormalization"):
        count, shape = {"Clip": (2, []), "Range": (2, []), "Where": (1, [1, 4, 2, 2]), "BatchNormalization": (4, [4])}[
            op_type
        ]
        names += [f"p{i}" for i in range(count)]
        inputs += [helper.make_tensor_value_info(f"p{i}", dtype, shape) for i in range(count)]
    if op_type == "Where":
        names.insert(0, "c")
        inputs.append(helper.make_tensor_value_info("c", onnx.TensorProto.BOOL, [1, 4, 2, 2]))
    for i, vector in enumerate(_VECTORS.get(op_type, [])):
        names.append("" if vector is None else f"v{i}")
        if vector is not None:
            initializers.append(helper.make_tensor(f"v{i}", onnx.TensorProto.INT64, [len(vector)], vector))
    result = onnx.TensorProto.BOOL if op_type in _PREDICATES else dtype
    outputs = ["z", "places"] if op_type == "TopK" else ["z"]
    node = helper.make_node(op_type, names, outputs, **_ATTRIBUTES.get(op_type, {}))
    output = helper.make_tensor_value_info("z", result, None)
    graph = helper.make_graph([node], "g", inputs, [output], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


@pytest.mark.parametrize("op_type", sorted(KERNELS))
def test_every_kernel_exists_in_the_oldest_and_newest_opset(op_type: str) -> None:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    for opset in (max(OPSETS.start, _SINCE.get(op_type, 0)), OPSETS.stop - 1):
        for dtype in KERNELS[op_type]:
            model = _model(op_type, dtype, opset).SerializeToString()
            onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])

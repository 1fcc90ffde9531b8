"""Nodes that OpenVINO itself would not build: each is refused with an error, whatever is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as ir
import pytest

from ortconv.converters.openvino import FRONTEND
from ortconv.errors import ConversionErrors, NodeRef
from ortconv.frontend.source_graph import SourceGraph, SourceNode, SourceOutput, SourceValue
from ortconv.lowering import lower
from ortconv.options import Options

DATA = SourceValue("data", ir.DataType.FLOAT, (1, 4, 5, 6))
FLAG = SourceValue("flag", ir.DataType.BOOL, (1, 4, 5, 6))
RANKLESS = SourceValue("rankless", ir.DataType.FLOAT, None)
LOGITS = SourceValue("logits", ir.DataType.FLOAT, (1, 12))
SCORES = SourceValue("scores", ir.DataType.FLOAT, (1, 6))
PRIORS = SourceValue("priors", ir.DataType.FLOAT, (1, 2, 12))
VECTOR = SourceValue("vector", ir.DataType.INT64, (None,))
BINS = SourceValue("bins", ir.DataType.FLOAT, (4, 1, 2))
WINDOW = SourceValue("window", ir.DataType.FLOAT, (8,))
HUGE = SourceValue("huge", ir.DataType.INT64, (2**62,))
DETECTION = {"keep_top_k": "4", "nms_threshold": "0.5", "normalized": "true"}
POOL = {"kernel": "2,2", "strides": "2,2", "pads_begin": "0,0", "pads_end": "0,0", "exclude-pad": "true"}
SLICE = {"begin_mask": "0", "end_mask": "0"}


def data(*shape: int | None) -> SourceValue:
    return SourceValue(f"data{shape}", ir.DataType.FLOAT, shape)


def ints(*values: int) -> SourceValue:
    tensor = ir.tensor(np.array(values, np.int64))
    return SourceValue(f"constant {values}", ir.DataType.INT64, (len(values),), tensor)


def floats(*values: float) -> SourceValue:
    tensor = ir.tensor(np.array(values, np.float32))
    return SourceValue(f"constant {values}", ir.DataType.FLOAT, (len(values),), tensor)


SCALE = floats(1)

NODES: Sequence[tuple[str, int, Sequence[SourceValue | None], Mapping[str, str], str]] = [
    ("Broadcast", 1, [SCALE, ints(*[1] * 33)], {}, "target_shape has shape [33]"),
    ("Broadcast", 3, [DATA, ints(*[1] * 33)], {"mode": "bidirectional"}, "target_shape has shape [33]"),
    ("Tile", 1, [SCALE, ints(*[1] * 33)], {}, "output result has 33 axes; allowed: at most 32"),
    ("Reshape", 1, [SCALE, ints(*[1] * 33)], {}, "output result has 33 axes; allowed: at most 32"),
    ("Unsqueeze", 1, [DATA, ints(*range(29))], {}, "output result has 33 axes; allowed: at most 32"),
    ("Pad", 1, [DATA, ints(1), ints(1)], {"pad_mode": "edge"}, "pads_begin has shape [1]"),
    ("Pad", 1, [DATA, ints(1, 1, 1, 1), ints(1)], {"pad_mode": "edge"}, "pads_end has shape [1]"),
    ("Pad", 1, [DATA, ints(1, 1, 1, 1), ints(1, 1, 1, 1)], {"pad_mode": "wrap"}, "pad_mode = 'wrap'"),
    ("Gather", 8, [DATA, ints(0), ints(7)], {}, "axis = [7] is out of range"),
    ("Gather", 8, [DATA, ints(0), ints(0, 1)], {}, "it must be one number"),
    ("EmbeddingSegmentsSum", 3, [DATA, ints(0), ints(0), ints(2), ints(0, 1)], {}, "default_index has shape [2]"),
    ("EmbeddingBagOffsetsSum", 3, [DATA, ints(0), ints(0), ints(0, 1)], {}, "default_index has shape [2]"),
    ("Gather", 8, [DATA, ints(0), ints(1)], {"batch_dims": "3"}, "batch_dims = 3"),
    ("Split", 1, [DATA, ints(1)], {"num_splits": "0"}, "num_splits = 0"),
    ("VariadicSplit", 1, [DATA, ints(1), VECTOR], {}, "its length must be known"),
    ("VariadicSplit", 1, [DATA, ints(1), HUGE], {}, "at most 65536"),
    ("Split", 1, [DATA, ints(1)], {"num_splits": "999999999"}, "num_splits = 999999999"),
    ("Split", 1, [DATA, ints(2)], {"num_splits": "2"}, "a divisor of the axis' size, 5"),
    ("Tile", 1, [DATA, HUGE], {}, "at most 32"),
    ("Broadcast", 1, [DATA, HUGE, ints(0)], {"mode": "explicit"}, "at most 32"),
    ("StridedSlice", 1, [DATA, HUGE, HUGE], SLICE, "at most 32"),
    ("Slice", 8, [DATA, HUGE, HUGE, HUGE], {}, "at most 32"),
    ("Squeeze", 1, [DATA, ints(9)], {}, "axes = [9] is out of range"),
    ("MVN", 6, [DATA, ints(1)], {}, "eps is missing"),
    ("Transpose", 1, [DATA, ints(0, 0, 1, 2)], {}, "input_order = [0, 0, 1, 2]"),
    ("Transpose", 1, [DATA, ints(0, 2, 1)], {}, "a permutation of 0 to 3"),
    ("Transpose", 1, [RANKLESS, ints(2, 1)], {}, "input_order = [2, 1]"),
    ("Concat", 1, [None, DATA], {"axis": "0"}, "input inputs (number 0) is missing; it is required"),
    ("Einsum", 7, [DATA, None], {"equation": "abcd,abcd->a"}, "input inputs (number 1) is missing; it is required"),
    ("StridedSlice", 1, [DATA, VECTOR, VECTOR], SLICE, "its length must be known"),
    ("StridedSlice", 1, [DATA, ints(0), ints(1), ints(0)], SLICE, "strides that are not 0"),
    ("StridedSlice", 1, [DATA, *[ints(0, 0, 0, 0, 0)] * 2], SLICE, "begin slices 5 axes"),
    ("StridedSlice", 1, [DATA, *[ints(0, 0)] * 2], SLICE | {"ellipsis_mask": "1,1"}, "ellipsis_mask"),
    ("StridedSlice", 1, [DATA, ints(0, 0), ints(1)], SLICE, "end has shape [1]"),
    ("StridedSlice", 1, [DATA, ints(0, 0), ints(1, 1), ints(1)], SLICE, "stride has shape [1]"),
    ("RDFT", 9, [DATA, ints(3), ints(0)], {}, "a transform of length 0; allowed: at least 1"),
    ("IRDFT", 9, [BINS, ints(1)], {}, "a transform of length 0; allowed: at least 1"),
    ("ISTFT", 16, [BINS, WINDOW, ints(8), ints(2)], {}, "axis 0 must have 5 entries"),
    ("Broadcast", 1, [DATA, ints(1, 1)], {"mode": "explicit"}, "axes_mapping is missing"),
    ("Broadcast", 3, [DATA, ints(1, 1), ints(1, 0)], {"mode": "explicit"}, "ascending axes"),
    ("AvgPool", 1, [DATA], POOL | {"kernel": "2"}, "kernel = [2]"),
    ("AvgPool", 1, [DATA], POOL | {"strides": "0,1"}, "strides = [0, 1]"),
    ("AvgPool", 1, [RANKLESS], POOL, "its rank must be known"),
    ("AvgPool", 1, [DATA], POOL | {"exclude-pad": "maybe"}, "exclude-pad = 'maybe'"),
    ("MVN", 2, [RANKLESS], {"eps": "0.1", "across_channels": "true"}, "its rank must be known"),
    ("MVN", 6, [DATA, ints(1)], {"eps": "0.1", "normalize_variance": "true", "eps_mode": "nowhere"}, "eps_mode"),
    (
        "Interpolate",
        11,
        [DATA, ints(9), ints(2, 3)],
        {"mode": "nearest", "shape_calculation_mode": "sizes"},
        "one entry per axis",
    ),
    (
        "Interpolate",
        11,
        [DATA, floats(2, 2), ints(2, 9)],
        {"mode": "nearest", "shape_calculation_mode": "scales"},
        "out of range",
    ),
    (
        "Interpolate",
        4,
        [DATA, ints(9, 9), floats(2, 2), VECTOR],
        {"mode": "linear", "shape_calculation_mode": "sizes", "antialias": "true"},
        "antialias",
    ),
    ("LRN", 1, [DATA, VECTOR], {"alpha": "1", "beta": "1", "bias": "1", "size": "1"}, "computed at run time"),
    ("Interpolate", 1, [DATA, ints(9, 9)], {"mode": "linear", "axes": "2,3", "pads_begin": "1"}, "than it declares"),
    ("DepthToSpace", 1, [DATA], {"mode": "blocks_first", "block_size": "0"}, "block_size = 0"),
    ("DepthToSpace", 1, [DATA], {"mode": "sideways"}, "mode = 'sideways'"),
    ("DepthToSpace", 1, [data(None, 10, 2, 2, 2)], {"block_size": "2"}, "axis 1 must have a multiple of 8 entries"),
    ("SpaceToDepth", 1, [data(None, 3, 5, 4)], {"block_size": "2"}, "axis 2 must have a multiple of 2 entries"),
    ("Einsum", 7, [data(3), data(3, 4)], {"equation": "...ij,...jk"}, "term ...ij needs at least 2 axes"),
    (
        "GroupNormalization",
        12,
        [data(None, 5, 1), floats(*range(5)), floats(*range(5))],
        {"num_groups": "2", "epsilon": "1"},
        "num_groups = 2 is not supported; allowed: a divisor of the 5 channels",
    ),
    (
        "GroupNormalization",
        12,
        [data(None, None), floats(1), floats(1)],
        {"num_groups": "0", "epsilon": "1"},
        "num_groups = 0 is not supported; allowed: an integer of at least 1",
    ),
    ("Clamp", 1, [DATA], {"min": "nan", "max": "1"}, "min = 'nan'"),
    ("Clamp", 1, [DATA], {"min": "2", "max": "1"}, "at most max"),
    ("Clamp", 1, [FLAG], {"min": "0", "max": "1"}, "data has type boolean"),
    ("LogicalAnd", 1, [DATA, FLAG], {}, "input 0 has type f32"),
    ("Select", 1, [DATA, DATA, DATA], {}, "cond has type f32"),
    ("Add", 1, [DATA, VECTOR], {}, "f32, i64"),
    ("Add", 1, [DATA, floats(1, 2)], {"auto_broadcast": "none"}, "auto_broadcast is none"),
    (
        "Add",
        1,
        [DATA, floats(1, 2)],
        {"auto_broadcast": "pdpd", "auto_broadcast.auto_broadcast_axis": "4"},
        "does not fit",
    ),
    ("Add", 1, [DATA, floats(*range(5))], {"auto_broadcast": "pdpd"}, "does not fit"),
    ("FakeQuantize", 1, [DATA, *[floats(1)] * 4], {"levels": "1"}, "levels = 1"),
    ("Convert", 1, [DATA], {"destination_type": "f7"}, "destination_type = 'f7'"),
    ("Range", 4, [floats(1), floats(2), floats(1)], {"output_type": "string"}, "output_type = 'string'"),
    ("ReduceLogicalAnd", 1, [DATA, ints(1)], {}, "data has type f32"),
    ("Elu", 1, [DATA], {}, "alpha is missing"),
    ("Relu6", 1, [DATA], {}, "Relu6 is not supported"),
    ("PReLU", 1, [RANKLESS, floats(1, 2)], {}, "its rank must be known"),
    ("DetectionOutput", 8, [LOGITS, SCORES, DATA], DETECTION, "its rank must be 3"),
    ("DetectionOutput", 8, [LOGITS, SCORES, RANKLESS], DETECTION, "its rank must be known"),
    ("DetectionOutput", 8, [LOGITS, SCORES], DETECTION, "proposals (number 2) is missing"),
    ("DetectionOutput", 8, [LOGITS, LOGITS, PRIORS], DETECTION | {"share_location": "false"}, "48 entries"),
    ("DetectionOutput", 1, [LOGITS, SCORES, PRIORS], DETECTION | {"num_classes": "5"}, "15 entries"),
    ("DetectionOutput", 8, [LOGITS, SCORES, PRIORS, SCORES], DETECTION, "none, or both"),
    ("DetectionOutput", 8, [LOGITS, SCORES, PRIORS], DETECTION | {"code_type": "CORNER_SIZE"}, "CENTER_SIZE"),
    ("MulticlassNms", 9, [DATA, DATA], {"nms_eta": "-0.5"}, "0 to 1"),
    ("MulticlassNms", 9, [DATA, DATA], {"nms_eta": "1.5"}, "0 to 1"),
    ("MaxPool", 1, [FLAG], {"kernel": "2,2", "strides": "2,2"}, "data has type boolean"),
    ("MaxPool", 8, [FLAG], {"kernel": "2,2", "strides": "2,2"}, "data has type boolean"),
    ("NMSRotated", 13, [DATA, DATA, ints(1), floats(0), floats(0)], {}, "its rank must be 3"),
    ("ExperimentalDetectronTopKROIs", 6, [SCORES, floats(1)], {"max_rois": "1"}, "axis 1 must have 4 entries"),
    ("ExperimentalDetectronPriorGridGenerator", 6, [SCORES, DATA, DATA], {}, "axis 1 must have 4 entries"),
]


@pytest.mark.parametrize(
    ("op_type", "version", "inputs", "attributes", "text"),
    NODES,
    ids=[f"{op_type}-{version} {text}" for op_type, version, _, _, text in NODES],
)
def test_refused(
    op_type: str, version: int, inputs: Sequence[SourceValue | None], attributes: Mapping[str, str], text: str
) -> None:
    result = SourceValue("result", ir.DataType.FLOAT, None)
    node = SourceNode(NodeRef("model.xml", op_type, "node", "7"), tuple(inputs), (result,), attributes, version)
    given = tuple({value: None for value in inputs if value is not None and value.constant is None})
    graph = SourceGraph("model.xml", "openvino", "g", given, (SourceOutput("result", result),), (node,))
    with pytest.raises(ConversionErrors) as caught:
        lower(graph, FRONTEND.registry, Options())
    (error,) = caught.value.exceptions
    assert text in str(error)
    assert error.node == node.ref

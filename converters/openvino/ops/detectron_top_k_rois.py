"""ExperimentalDetectronTopKROIs."""

from __future__ import annotations

import numpy as np
import onnx_ir as ir

from ortconv.converters.openvino.lib.compute_types import FLOATS, in_single, require
from ortconv.converters.openvino.lib.sizes import Size, require_sizes, size_of
from ortconv.converters.openvino.parity.sort import IN_ORDER, fully_sorted
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.errors import UnsupportedAttributeError
from ortconv.graph.builder import Builder

_I64 = ir.DataType.INT64
_CORNERS = 4
_END = np.iinfo(np.int64).max


@REGISTRY.lowering("ExperimentalDetectronTopKROIs", since=6)
def top_k_rois(b: Builder, rois: ir.Value, probabilities: ir.Value, /, *, max_rois: int = 0) -> ir.Value:
    """TopK, and a Gather of the boxes; equal ones in the order of OpenVINO's CPU plugin."""
    require(rois, "rois", FLOATS)
    require_sizes(rois, "rois", None, _CORNERS)
    require_sizes(probabilities, "probabilities", size_of(b, rois, 0))
    count = size_of(b, rois, 0)
    if max_rois < 0:
        raise UnsupportedAttributeError("max_rois", max_rois, "0 or a positive number")
    if isinstance(count, int) and count < max_rois:
        raise UnsupportedAttributeError(
            "max_rois", max_rois, f"at most {count}, the number of boxes: OpenVINO leaves the other rows unset"
        )
    if not isinstance(count, int):
        b.warn("max_rois: of fewer boxes OpenVINO leaves the other rows unset; here they are zeros")

    def formula(boxes: ir.Value, scores: ir.Value) -> ir.Value:
        most = b.constant([max_rois])
        kept = most if isinstance(count, int) else b.op("Min", most, count)
        best = b.op("Gather", boxes, _likeliest(b, scores, count, kept), axis=0)
        if isinstance(count, int):
            return best
        pads = b.op("Concat", b.constant([0, 0]), b.op("Sub", most, kept), b.constant([0]), axis=0)
        return b.op("Pad", best, pads)

    return in_single(b, formula, rois, probabilities)


def _likeliest(b: Builder, scores: ir.Value, count: Size, most: ir.Value) -> ir.Value:
    """Returns the indices of the highest scores."""
    if isinstance(count, int) and count <= IN_ORDER:
        return b.op("TopK", scores, most, outputs=2, axis=0)[1]
    first, one = b.constant([0]), b.constant([1])
    looked = b.op("Min", b.op("Add", most, one), b.op("Shape", scores))
    values, order = b.op("TopK", scores, looked, outputs=2, axis=0)
    pairs = b.op("Slice", values, first, b.constant([-1])), b.op("Slice", values, one, b.constant([_END]))
    equal = b.op("ReduceSum", b.op("Cast", b.op("Equal", *pairs), to=int(_I64)), keepdims=0)
    with b.body() as slow:
        as_there = slow.graph([b.op("Slice", fully_sorted(b, scores), first, most)])
    with b.body() as fast:
        as_found = fast.graph([b.op("Slice", order, first, most)])
    return b.op("If", b.op("Greater", equal, b.constant(0)), then_branch=as_there, else_branch=as_found)

"""Ops that propose regions: how they are built, and their data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import openvino
from openvino import opset1, opset4, opset9
from openvino.utils.node_factory import NodeFactory

from ortconv.api import conversion
from tests.converters.openvino.live import Feed, assert_close, run_onnx, run_openvino

__all__ = [
    "ANCHORS",
    "GENERATED",
    "PROPOSAL",
    "check_proposal",
    "generate",
    "generate_single",
    "generated_feed",
    "proposal_feed",
    "propose",
    "single_feed",
]

F32 = np.float32
BOUND = 4
Attributes = dict[str, Any]

PROPOSAL: Attributes = {
    "base_size": 16,
    "pre_nms_topn": 60,
    "post_nms_topn": 20,
    "nms_thresh": 0.6,
    "feat_stride": 8,
    "min_size": 4,
    "ratio": [0.5, 1.0, 2.67],
    "scale": [1.0, 2.0],
}
ANCHORS = len(PROPOSAL["ratio"]) * len(PROPOSAL["scale"])
GENERATED: Attributes = {"min_size": 2.0, "nms_threshold": 0.5, "pre_nms_count": 60, "post_nms_count": 20}

_UNSIGNED = ("base_size", "pre_nms_topn", "post_nms_topn", "feat_stride", "min_size")


def _spelled(attributes: Attributes) -> Attributes:
    """Returns Proposal's attributes in the types that OpenVINO's Python API asks for."""
    return {
        name: np.uint32(value % 2**32)
        if name in _UNSIGNED
        else np.bool_(value)
        if isinstance(value, bool)
        else value
        if isinstance(value, str)
        else np.asarray(value, F32)[()]
        for name, value in attributes.items()
    }


def propose(attributes: Attributes, version: int = 4) -> Callable[..., Any]:
    made = opset1 if version == 1 else opset4
    return lambda *inputs: made.proposal(*inputs, _spelled(attributes)).outputs()


def generate(attributes: Attributes) -> Callable[..., Any]:
    return lambda *inputs: opset9.generate_proposals(*inputs, **attributes).outputs()


def generate_single(attributes: Attributes) -> Callable[..., Any]:
    op_type = "ExperimentalDetectronGenerateProposalsSingleImage"
    return lambda *inputs: NodeFactory("opset6").create(op_type, [i.output(0) for i in inputs], attributes).outputs()


def scores_of(shape: Sequence[int], steps: int, seed: int = 0) -> np.ndarray:
    """Returns scores that are all different, or of so many steps."""
    generator = np.random.default_rng(seed)
    count = int(np.prod(shape))
    scores = (generator.permutation(count) + 1) / count
    return (np.ceil(scores * steps) / steps if steps else scores).reshape(shape).astype(F32)


def proposal_feed(
    images: int = 2,
    rows: int = 3,
    columns: int = 4,
    anchors: int = ANCHORS,
    steps: int = 0,
    info: Sequence[float] = (50, 70, 1),
    moved: float = 0.5,
    seed: int = 0,
) -> list[np.ndarray]:
    generator = np.random.default_rng([seed, 1])
    deltas = generator.normal(0, moved, (images, 4 * anchors, rows, columns)).astype(F32)
    return [scores_of((images, 2 * anchors, rows, columns), steps, seed), deltas, np.array(info, F32)]


def generated_feed(
    images: int = 2,
    rows: int = 3,
    columns: int = 4,
    anchors: int = 5,
    steps: int = 0,
    info: Sequence[float] = (50, 70, 1),
    moved: float = 0.5,
    seed: int = 0,
) -> list[np.ndarray]:
    generator = np.random.default_rng([seed, 2])
    corner = generator.uniform(-5, 50, (rows, columns, anchors, 2))
    boxes = np.concatenate([corner, corner + generator.uniform(0, 25, corner.shape)], axis=-1)
    deltas = generator.normal(0, moved, (images, 4 * anchors, rows, columns))
    sizes = np.array([info] * images) * np.linspace(1, 0.8, images)[:, None]
    scores = scores_of((images, anchors, rows, columns), steps, seed)
    return [sizes.astype(F32), boxes.astype(F32), deltas.astype(F32), scores]


def single_feed(**given: Any) -> list[np.ndarray]:
    info, boxes, deltas, scores = generated_feed(images=1, **given)
    return [info[0, :3], boxes.reshape(-1, 4), deltas[0], scores[0]]


def check_proposal(model: openvino.Model, feeds: Sequence[Feed], each: int, bound: float = BOUND) -> None:
    """Compares as `check` does, except for scores behind the last box: the plugin leaves there what was in memory."""
    converted = conversion(model)
    actual, expected = run_onnx(converted, feeds), run_openvino(model, feeds)
    for ours, theirs in zip(actual, expected, strict=True):
        assert_close(ours[0], theirs[0], bound, "regions")
        if len(theirs) == 1:
            continue
        owners = theirs[0][:, 0].reshape(-1, each)
        behind = (np.cumsum(owners < 0, axis=1) > 0).reshape(-1)
        assert_close(ours[1][~behind], theirs[1][~behind], 0, "probs")
        assert not ours[1][behind].any()

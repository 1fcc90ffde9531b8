"""DetectionOutput against OpenVINO's CPU plugin."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset8
from openvino.utils.node_factory import NodeFactory

from ortconv.api import conversion
from ortconv.errors import ConversionError, UnsupportedAttributeError
from tests.converters.openvino.live import (
    Feed,
    Refusal,
    Row,
    assert_close,
    assert_refused,
    check,
    check_row,
    model_of,
    run_onnx,
    run_openvino,
)

F32 = np.float32
DEFAULTS: dict[str, Any] = {
    "background_label_id": 0,
    "top_k": -1,
    "variance_encoded_in_target": False,
    "keep_top_k": [-1],
    "code_type": "caffe.PriorBoxParameter.CORNER",
    "share_location": True,
    "nms_threshold": 0.45,
    "confidence_threshold": 0.0,
    "clip_after_nms": False,
    "clip_before_nms": False,
    "decrease_label_id": False,
    "normalized": True,
    "input_height": 1,
    "input_width": 1,
    "objectness_score": 0.0,
}
CENTERS = {"code_type": "caffe.PriorBoxParameter.CENTER_SIZE"}
PIXELS = {"normalized": False, "input_height": 20, "input_width": 30}


def detect(attributes: dict[str, Any], opset: int = 8) -> Any:
    """Returns a builder of the op over three or five inputs."""
    op = opset8.detection_output if opset == 8 else opset1.detection_output
    return lambda *inputs: op(*inputs[:3], attributes, *inputs[3:])


@dataclasses.dataclass(frozen=True)
class Data:
    """What data for a node looks like.

    Attributes:
        images: Number of images.
        priors: Number of priors of each.
        classes: Number of classes.
        own_priors: Whether each image has priors of its own.
        additional: Whether there are additional predictions.
        spread: How far predictions move boxes.
        steps: Into how many steps values are rounded, so that scores, corners and overlaps are equal now and then.
        lowest: The smallest score.
        apart: Whether classes differ in their scores all the same: which of them are kept is open otherwise.
        ordered: Whether the corners of each prior are in order.
        ends: Whether some priors that are not normalized are of image -1.
    """

    images: int = 2
    priors: int = 12
    classes: int = 3
    own_priors: bool = False
    additional: bool = False
    spread: float = 0.3
    steps: int = 0
    lowest: float = 0.0
    apart: bool = False
    ordered: bool = True
    ends: bool = False

    def feed(self, attributes: dict[str, Any], seed: int = 0) -> list[np.ndarray]:
        """Returns the inputs of a node."""
        random = np.random.default_rng([seed, self.images, self.priors, self.classes])
        batches = self.images if self.own_priors else 1
        places = 1 if attributes["share_location"] else self.classes

        def rounded(values: np.ndarray) -> np.ndarray:
            return np.round(values * self.steps) / self.steps if self.steps else values

        logits = rounded(random.normal(0, self.spread, (self.images, self.priors * places * 4)))
        scores = rounded(random.uniform(self.lowest, 1, (self.images, self.priors * self.classes)))
        if self.apart:
            scores = scores + np.tile(np.arange(self.classes) / 1024, self.priors)
        boxes = rounded(random.uniform(0, 1, (batches, self.priors, 2, 2)))
        boxes = (np.sort(boxes, axis=2) if self.ordered else boxes).reshape(batches, self.priors, 4)
        entries = 4
        if not attributes["normalized"]:
            entries = 5
            sizes = [attributes["input_width"], attributes["input_height"]] * 2
            owners = random.choice([0, 0, 0, 0, 0, 0, -1] if self.ends else [0], (batches, self.priors, 1))
            boxes = np.concatenate([owners, boxes * sizes], axis=2)
        priors = boxes.reshape(batches, 1, -1)
        if not attributes["variance_encoded_in_target"]:
            variances = random.choice([0.1, 0.2, 0.5, 1], (batches, 1, self.priors * entries))
            priors = np.concatenate([priors, variances], axis=1)
        feed = [logits, scores, priors]
        if self.additional:
            feed += [random.uniform(0, 1, (self.images, self.priors * 2)), random.normal(0, 0.3, logits.shape)]
        return [array.astype(F32) for array in feed]


VARIANTS: dict[str, tuple[dict[str, Any], Data]] = {
    "with all defaults": ({}, Data()),
    "of centers": (CENTERS, Data()),
    "of centers, variance in target": (CENTERS | {"variance_encoded_in_target": True}, Data()),
    "variance in target": ({"variance_encoded_in_target": True}, Data()),
    "boxes by class": ({"share_location": False}, Data()),
    "boxes by class, of centers": (CENTERS | {"share_location": False}, Data()),
    "boxes by class, without background": ({"share_location": False, "background_label_id": -1}, Data()),
    "without background": ({"background_label_id": -1}, Data()),
    "background 2": ({"background_label_id": 2}, Data()),
    "background out of range": ({"background_label_id": 9}, Data()),
    "best of each class": ({"top_k": 4}, Data()),
    "best of each class, of more than there are": ({"top_k": 40}, Data()),
    "none of each class": ({"top_k": 0}, Data()),
    "best of each image": ({"keep_top_k": [5]}, Data()),
    "best of each image, of more than there are": ({"keep_top_k": [100]}, Data()),
    "best of each image and class": ({"keep_top_k": [5], "top_k": 4}, Data()),
    "a second keep_top_k": ({"keep_top_k": [5, 2]}, Data()),
    "labels decreased": ({"decrease_label_id": True}, Data()),
    "labels decreased, best": ({"decrease_label_id": True, "keep_top_k": [4], "top_k": 6}, Data()),
    "labels decreased, boxes by class": ({"decrease_label_id": True, "share_location": False}, Data()),
    "labels decreased, scores up to -1": ({"decrease_label_id": True, "confidence_threshold": -3.0}, Data(lowest=-3)),
    "labels decreased, one class": ({"decrease_label_id": True}, Data(classes=1)),
    "clipped before": ({"clip_before_nms": True}, Data(spread=2)),
    "clipped after": ({"clip_after_nms": True}, Data(spread=2)),
    "clipped before, of centers": (CENTERS | {"clip_before_nms": True}, Data(spread=2)),
    "of pixels": (PIXELS, Data()),
    "of pixels, of centers": (PIXELS | CENTERS, Data()),
    "of pixels, variance in target": (PIXELS | {"variance_encoded_in_target": True}, Data()),
    "of pixels, some images -1": (PIXELS, Data(ends=True)),
    "of pixels, some images -1, priors by image": (PIXELS, Data(ends=True, own_priors=True)),
    "priors by image": ({}, Data(own_priors=True)),
    "priors by image, of centers": (CENTERS, Data(own_priors=True)),
    "confidence": ({"confidence_threshold": 0.4}, Data()),
    "confidence that nothing reaches": ({"confidence_threshold": 2.0}, Data()),
    "confidence that nothing reaches, best": ({"confidence_threshold": 2.0, "keep_top_k": [4]}, Data()),
    "confidence below zero": ({"confidence_threshold": -1.0}, Data()),
    "overlap 0": ({"nms_threshold": 0.0}, Data()),
    "overlap below 0": ({"nms_threshold": -0.5}, Data()),
    "overlap 1": ({"nms_threshold": 1.0}, Data(steps=2)),
    "overlap above 1": ({"nms_threshold": 1.5}, Data()),
    "additional predictions": ({"objectness_score": 0.4}, Data(additional=True)),
    "additional predictions, of centers": (CENTERS | {"objectness_score": 0.4}, Data(additional=True)),
    "additional predictions, of pixels": (PIXELS | {"objectness_score": 0.4}, Data(additional=True)),
    "additional predictions, boxes by class": (
        {"objectness_score": 0.4, "share_location": False, "background_label_id": 1},
        Data(additional=True),
    ),
    "additional predictions, labels decreased": (
        {"objectness_score": 0.4, "decrease_label_id": True},
        Data(additional=True),
    ),
    "corners out of order": ({}, Data(ordered=False)),
    "corners out of order, of centers": (CENTERS, Data(ordered=False)),
    "equal scores and overlaps": ({"keep_top_k": [5], "nms_threshold": 0.25}, Data(steps=4)),
    "equal scores, top_k": ({"top_k": 5, "nms_threshold": 0.5}, Data(steps=3)),
    "equal scores, labels decreased": ({"top_k": 5, "decrease_label_id": True}, Data(steps=3)),
    "one image, prior and class": ({"background_label_id": -1}, Data(1, 1, 1)),
}


def bound_of(attributes: dict[str, Any]) -> float:
    """Returns how far results may be off: corners are exact, and sizes as the C library rounds exponentials."""
    return 4 if attributes["code_type"].endswith("CENTER_SIZE") else 0


ROWS = [
    Row(
        f"detection_output-8 {name}",
        detect(DEFAULTS | variant),
        [
            data.feed(DEFAULTS | variant),
            dataclasses.replace(data, images=data.images + 1, priors=data.priors + 5).feed(DEFAULTS | variant),
        ],
        bound_of(DEFAULTS | variant),
    )
    for name, (variant, data) in VARIANTS.items()
]
ROWS += [
    Row(
        f"detection_output-1 {name}",
        detect(DEFAULTS | variant | {"num_classes": 3}, 1),
        [Data(images, priors).feed(DEFAULTS | variant) for images, priors in ((2, 12), (3, 7))],
        bound_of(DEFAULTS | variant),
    )
    for name, variant in {
        "of centers": CENTERS | {"keep_top_k": [10], "top_k": 6},
        "boxes by class": {"share_location": False},
    }.items()
]
ROWS += [
    Row(
        f"detection_output-8 with {name} number of classes",
        detect(DEFAULTS | {"share_location": False}),
        [Data(2, priors, classes).feed(DEFAULTS | {"share_location": False}) for priors, classes in sizes],
        0,
    )
    for name, sizes in {"an open": ((12, 3), (12, 5)), "priors and an open": ((12, 3), (6, 5))}.items()
]
ROWS += [
    Row(
        f"detection_output-8 {dtype}",
        detect(DEFAULTS | {"keep_top_k": [8]}),
        [[array.astype(dtype) for array in Data().feed(DEFAULTS)]],
        1,
    )
    for dtype in ("float16", "float64")
]
ROWS += [
    Row(
        f"detection_output-8 of {' and '.join(dtypes)}",
        detect(DEFAULTS | {"keep_top_k": [8]}),
        [[array.astype(dtype) for array, dtype in zip(Data().feed(DEFAULTS), dtypes, strict=True)]],
        1,
    )
    for dtypes in (("float16", "float16", "float32"), ("float32", "float32", "float16"))
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


def drawn(seed: int) -> tuple[dict[str, Any], openvino.Model, list[Feed]]:
    """Returns random attributes, a model with them, and data for it."""
    random = np.random.default_rng(seed)

    def flag(often: float = 0.5) -> bool:
        return bool(random.random() < often)

    decrease = flag(0.3)
    attributes = {
        "background_label_id": 0 if decrease else int(random.choice([-1, 0, 1, 7])),
        "top_k": int(random.choice([-1, -1, 0, 1, 3, 10, 50])),
        "variance_encoded_in_target": flag(),
        "keep_top_k": [int(random.choice([-1, -1, 1, 4, 20, 200]))],
        "code_type": "caffe.PriorBoxParameter." + str(random.choice(["CENTER_SIZE", "CORNER"])),
        "share_location": flag(),
        "nms_threshold": float(random.choice([-0.5, 0, 0.2, 0.45, 0.45, 0.7, 1, 1.5])),
        "confidence_threshold": float(random.choice([-0.5, 0, 0.01, 0.04, 0.3, 0.5, 0.9, 2])),
        "clip_after_nms": flag(),
        "clip_before_nms": flag(),
        "decrease_label_id": decrease,
        "normalized": flag(),
        "input_height": int(random.choice([1, 7, 300])),
        "input_width": int(random.choice([1, 13, 300])),
        "objectness_score": float(random.choice([0, 0.3, 0.5, 1])),
    }
    fixed: dict[str, Any] = {
        "classes": int(random.integers(1, 6)),
        "own_priors": flag(0.3),
        "additional": flag(0.3),
        "spread": float(random.choice([0.1, 0.5, 2])),
        "steps": int(random.choice([0, 0, 2, 4, 5])),
        "ordered": flag(0.7),
        "ends": flag(),
        "apart": attributes["keep_top_k"] != [-1],
    }
    feeds = [
        Data(images=int(random.integers(1, 4)), priors=int(random.integers(1, 25)), **fixed).feed(attributes, seed)
        for _ in range(int(random.integers(1, 3)))
    ]
    opset = int(random.choice([1, 8]))
    own = attributes | {"num_classes": fixed["classes"]} if opset == 1 else attributes
    return attributes, model_of(detect(own, opset), feeds), feeds


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(200))
def test_sweep_matches_openvino(seed: int) -> None:
    attributes, model, feeds = drawn(seed)
    check(model, *feeds, bound=bound_of(attributes))


def test_sizes_of_a_real_detector() -> None:
    attributes = DEFAULTS | CENTERS | {"keep_top_k": [200], "top_k": 400, "confidence_threshold": 0.01}
    feed = Data(1, 3000, 21).feed(attributes)
    feed[1] = feed[1] ** 8
    model = model_of(detect(attributes), [feed])
    check(model, feed, bound=4)
    assert run_openvino(model, [feed])[0][0][0, 0, -1, 0] == 0, "there are 200 detections"


def refused(name: str, attributes: dict[str, Any], error: type[ConversionError], fields: dict[str, object]) -> Refusal:
    return Refusal(name, detect(DEFAULTS | attributes), Data().feed(DEFAULTS), error, fields)


def test_result_of_float32_in_an_old_model_of_float16(tmp_path: pathlib.Path) -> None:
    """Model Optimizer wrote so; OpenVINO computes all of a file of version 10 in float32."""
    boxes, scores, priors = (array.astype(np.float16) for array in Data().feed(DEFAULTS))
    model = model_of(detect(DEFAULTS | {"keep_top_k": [8], "num_classes": 3}, 1), [[boxes, scores, priors]])
    path = tmp_path / "old.xml"
    openvino.save_model(model, path, compress_to_fp16=False)
    text = path.read_text().replace('version="11"', 'version="10"')
    head, found, tail = text.rpartition('type="DetectionOutput"')
    path.write_text(head + found + tail.replace('<port id="3" precision="FP16"', '<port id="3" precision="FP32"', 1))
    feed = [array.astype(np.float32) for array in (boxes, scores, priors)]
    ((actual,),) = run_onnx(conversion(path), [feed])
    ((expected,),) = run_openvino(openvino.Core().read_model(path), [feed])
    assert_close(actual, expected, 4)
    ((in_halves,),) = run_onnx(conversion(path, io="source", compute="f16"), [[boxes, scores, priors]])
    assert_close(in_halves, expected, 4)


REFUSALS = [
    refused("keep_top_k 0", {"keep_top_k": [0]}, UnsupportedAttributeError, {"attribute": "keep_top_k", "value": (0,)}),
    refused("keep_top_k -2", {"keep_top_k": [-2]}, UnsupportedAttributeError, {"attribute": "keep_top_k"}),
    refused("top_k -2", {"top_k": -2}, UnsupportedAttributeError, {"attribute": "top_k", "value": -2}),
    refused(
        "labels decreased with another background",
        {"decrease_label_id": True, "background_label_id": 1},
        UnsupportedAttributeError,
        {"attribute": "background_label_id", "value": 1, "allowed": "0 with decrease_label_id"},
    ),
    Refusal(
        "pixels of an image without a size",
        lambda *inputs: NodeFactory("opset8").create(
            "DetectionOutput", [i.output(0) for i in inputs], DEFAULTS | PIXELS | {"input_width": 0}
        ),
        Data().feed(DEFAULTS | PIXELS),
        UnsupportedAttributeError,
        {"attribute": "input_width", "value": 0},
    ),
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refused(refusal: Refusal) -> None:
    assert_refused(refusal)


@pytest.mark.parametrize(
    ("attributes", "additional", "note"),
    [
        ({"top_k": 3}, False, "takes the best of each class before suppression"),
        ({"top_k": 3, "decrease_label_id": True}, False, "takes the best of each image before suppression"),
        (PIXELS, True, "divides by the image's size again"),
        (PIXELS, False, None),
        ({}, True, None),
    ],
)
def test_differences_from_the_page_are_told(attributes: dict[str, Any], additional: bool, note: str | None) -> None:
    feed = Data(additional=additional).feed(DEFAULTS | attributes)
    converted = check(model_of(detect(DEFAULTS | attributes), [feed]), feed, bound=0)
    told = [text for step in converted.steps for text in step.notes if "as OpenVINO's CPU plugin" in text]
    assert [note in text for text in told] == [True] if note else not told
    assert not converted.warnings

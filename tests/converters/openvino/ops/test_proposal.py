"""Ops that propose regions against OpenVINO's CPU plugin: the same boxes in the same order, equal scores included."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np
import openvino
import pytest

from ortconv.api import conversion
from ortconv.errors import ConversionErrors, UnsupportedAttributeError
from tests.converters.openvino.live import (
    Feed,
    Refusal,
    assert_close,
    assert_refused,
    check,
    model_of,
    run_onnx,
    run_openvino,
)
from tests.converters.openvino.regions import (
    ANCHORS,
    GENERATED,
    PROPOSAL,
    check_proposal,
    generate,
    generate_single,
    generated_feed,
    proposal_feed,
    propose,
    single_feed,
)

F32 = np.float32
BOUND = 4
Attributes = dict[str, Any]

PROPOSALS: dict[str, tuple[Attributes, dict[str, Any]]] = {
    "plain": ({}, {}),
    "equal scores": ({}, {"steps": 5}),
    "all scores equal": ({}, {"steps": 1}),
    "equal scores, a few looked at": ({"pre_nms_topn": 25}, {"steps": 4}),
    "equal scores, all looked at": ({"pre_nms_topn": -1}, {"steps": 4}),
    "equal scores behind the last box": ({"post_nms_topn": 2}, {"steps": 40}),
    "anchors as they are": ({}, {"moved": 0.0, "steps": 7}),
    "few boxes left, many rows": ({"nms_thresh": 0.05, "post_nms_topn": 90}, {}),
    "nothing overlaps too much": ({"nms_thresh": 1.0, "post_nms_topn": 100}, {}),
    "any overlap is too much": ({"nms_thresh": 1e-6, "post_nms_topn": 100}, {"steps": 9}),
    "one box": ({"post_nms_topn": 1}, {}),
    "one box, equal scores": ({"post_nms_topn": 1}, {"steps": 3}),
    "not clipped": ({"clip_before_nms": False}, {}),
    "clipped later": ({"clip_before_nms": False, "clip_after_nms": True}, {}),
    "parts of the image": ({"normalize": True}, {}),
    "parts of the image, clipped twice": ({"normalize": True, "clip_after_nms": True}, {}),
    "scaled offsets": ({"box_size_scale": 5.0, "box_coordinate_scale": 10.0}, {}),
    "boxes too small": ({"min_size": 20, "post_nms_topn": 50}, {}),
    "all boxes too small": ({"min_size": 200, "post_nms_topn": 50}, {}),
    "a scale": ({"min_size": 8}, {"info": (50, 70, 1.5)}),
    "two scales": ({"min_size": 8}, {"info": (50, 70, 0.5, 2.5)}),
    "another base": ({"base_size": 9, "feat_stride": 16}, {}),
}


@pytest.mark.parametrize("framework", ["", "tensorflow"])
@pytest.mark.parametrize("name", PROPOSALS)
def test_proposal_matches_openvino(name: str, framework: str) -> None:
    changed, given = PROPOSALS[name]
    attributes = PROPOSAL | changed | ({"framework": framework} if framework else {})
    each = attributes["post_nms_topn"]
    first, second = (proposal_feed(rows=rows, **given) for rows in (3, 5))
    check_proposal(model_of(propose(attributes, 1), [first]), [first], each)
    check_proposal(model_of(propose(attributes), [first, second]), [first, second], each)


@pytest.mark.parametrize("framework", ["", "tensorflow"])
def test_proposal_of_sizes_that_are_all_dynamic(framework: str) -> None:
    attributes = PROPOSAL | ({"framework": framework} if framework else {})
    feeds = [
        proposal_feed(images=images, rows=rows, columns=columns, info=info, steps=steps)
        for images, rows, columns, info, steps in (
            (2, 3, 4, (50, 70, 1), 0),
            (1, 1, 2, (30, 30, 1, 2), 3),
            (3, 5, 1, (80, 20, 0.5, 1), 9),
        )
    ]
    model = model_of(propose(attributes), feeds[:1], [[-1] * 4, [-1] * 4, [-1]])
    check_proposal(model, feeds, attributes["post_nms_topn"])


@pytest.mark.parametrize("framework", ["", "tensorflow"])
@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_proposal_of_other_types(dtype: str, framework: str) -> None:
    attributes = PROPOSAL | {"framework": framework} if framework else PROPOSAL
    feed = [array.astype(dtype) for array in proposal_feed()]
    check_proposal(model_of(propose(attributes), [feed]), [feed], attributes["post_nms_topn"])


@pytest.mark.parametrize("framework", ["", "tensorflow"])
def test_proposal_of_few_boxes(framework: str) -> None:
    """With fewer than eight boxes the plugin fails; they are the first of those that it gives with more."""
    attributes = PROPOSAL | ({"framework": framework} if framework else {}) | {"min_size": 1}
    feed = proposal_feed(images=1, steps=0)
    converted = conversion(model_of(propose(attributes | {"pre_nms_topn": 5}), [feed]))
    ours, our_probs = run_onnx(converted, [feed])[0]
    theirs, probs = run_openvino(model_of(propose(attributes), [feed]), [feed])[0]
    fifth = np.sort(feed[0][0, ANCHORS:].ravel())[-5]
    count = int((probs[: attributes["post_nms_topn"]] >= fifth).sum())
    assert 1 < count < 6
    assert_close(ours[:count], theirs[:count], BOUND)
    assert_close(our_probs[:count], probs[:count], 0)
    assert ours[count].tolist() == [-1, 0, 0, 0, 0]
    assert not ours[count + 1 :].any()
    assert any("fewer than 8 boxes" in warning for warning in converted.warnings)


GENERATIONS: dict[str, tuple[Attributes, dict[str, Any]]] = {
    "plain": ({}, {}),
    "equal scores": ({}, {"steps": 5}),
    "all scores equal": ({}, {"steps": 1}),
    "equal scores, a few looked at": ({"pre_nms_count": 11}, {"steps": 4}),
    "three looked at": ({"pre_nms_count": 3}, {"steps": 4}),
    "equal scores behind the last box": ({"post_nms_count": 2}, {"steps": 40}),
    "anchors as they are": ({"nms_threshold": 0.0}, {"moved": 0.0, "steps": 7}),
    "nothing overlaps too much": ({"nms_threshold": 1.0, "post_nms_count": 100}, {}),
    "beyond all overlaps": ({"nms_threshold": 1.5, "post_nms_count": 100}, {"moved": 0.0}),
    "one box": ({"post_nms_count": 1}, {}),
    "one box, equal scores": ({"post_nms_count": 1}, {"steps": 3}),
    "boxes too small": ({"min_size": 15.0}, {"steps": 6}),
    "all boxes too small": ({"min_size": 150.0}, {}),
    "no smallest size": ({"min_size": 0.0, "post_nms_count": 100}, {"moved": 1.5}),
    "two scales": ({"min_size": 6.0}, {"info": (50, 70, 0.5, 2.5)}),
    "32-bit numbers": ({"roi_num_type": "i32"}, {}),
}


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("name", GENERATIONS)
def test_generate_proposals_matches_openvino(name: str, normalized: bool) -> None:
    changed, given = GENERATIONS[name]
    attributes = GENERATED | changed | {"normalized": normalized}
    first, second = (generated_feed(rows=rows, **given) for rows in (3, 5))
    check(model_of(generate(attributes), [first]), first, bound=BOUND)
    check(model_of(generate(attributes), [first, second]), first, second, bound=BOUND)


@pytest.mark.parametrize("normalized", [False, True])
def test_generate_proposals_of_sizes_that_are_all_dynamic(normalized: bool) -> None:
    feeds = [
        generated_feed(images=images, rows=rows, columns=columns, anchors=anchors, info=info, steps=steps)
        for images, rows, columns, anchors, info, steps in (
            (2, 3, 4, 5, (50, 70, 1), 0),
            (1, 1, 2, 1, (30, 30, 1, 2), 3),
            (3, 5, 1, 2, (80, 20, 0.5), 9),
        )
    ]
    shapes = [[-1, -1], [-1, -1, -1, 4], [-1] * 4, [-1] * 4]
    model = model_of(generate(GENERATED | {"normalized": normalized}), feeds[:1], shapes)
    check(model, *feeds, bound=BOUND)


@pytest.mark.parametrize("name", GENERATIONS)
def test_single_image_matches_openvino(name: str) -> None:
    changed, given = GENERATIONS[name]
    kept = {key: value for key, value in changed.items() if key != "roi_num_type"}
    attributes = GENERATED | kept
    first, second = (single_feed(rows=rows, **given) for rows in (3, 5))
    check(model_of(generate_single(attributes), [first]), first, bound=BOUND)
    check(model_of(generate_single(attributes), [first, second]), first, second, bound=BOUND)


def test_single_image_of_which_all_boxes_are_looked_at() -> None:
    first, second = (single_feed(rows=rows, steps=4) for rows in (3, 5))
    model = model_of(generate_single(GENERATED | {"pre_nms_count": -1}), [first, second])
    check(model, first, second, bound=BOUND)


@pytest.mark.parametrize("dtype", ["float16", "float64"])
@pytest.mark.parametrize(
    ("build", "feed"),
    [(generate(GENERATED), generated_feed()), (generate_single(GENERATED), single_feed())],
    ids=["batch", "single"],
)
def test_generation_of_other_types(build: Callable[..., Any], feed: Feed, dtype: str) -> None:
    own = [array.astype(dtype) for array in feed]
    check(model_of(build, [own]), own, bound=BOUND)


@pytest.mark.parametrize("normalized", [False, True])
def test_no_images(normalized: bool) -> None:
    """The plugin may crash."""
    info, boxes, deltas, scores = generated_feed()
    feed = [info[:0], boxes, deltas[:0], scores[:0]]
    model = model_of(
        generate(GENERATED | {"normalized": normalized}), [feed], [[-1, 3], [-1, -1, -1, 4], [-1] * 4, [-1] * 4]
    )
    regions, found, counts = run_onnx(conversion(model), [feed])[0]
    assert (regions.shape, found.shape, counts.shape) == ((0, 4), (0,), (0,))


@pytest.mark.parametrize("framework", ["", "tensorflow"])
def test_no_elements(framework: str) -> None:
    """There is no box, and each image has a row that says so; the plugin leaves what was in memory."""
    attributes = PROPOSAL | ({"framework": framework} if framework else {})
    scores, deltas, info = proposal_feed(images=2)
    feed = [scores[:, :, :0], deltas[:, :, :0], info]
    regions, probs = run_onnx(conversion(model_of(propose(attributes), [feed], [[-1] * 4, [-1] * 4, [-1]])), [feed])[0]
    expected = np.zeros((2, attributes["post_nms_topn"], 5), F32)
    expected[:, 0, 0] = -1
    assert_close(regions, expected.reshape(-1, 5), 0)
    assert_close(probs, np.zeros(2 * attributes["post_nms_topn"], F32), 0)


def test_scores_below_zero() -> None:
    """Boxes that are too small get a zero, which is better then."""
    info, boxes, deltas, scores = single_feed(steps=6)
    feed = [info, boxes, deltas, scores - F32(0.5)]
    check(model_of(generate_single(GENERATED | {"min_size": 15.0}), [feed]), feed, bound=BOUND)


@pytest.mark.parametrize("framework", ["", "tensorflow"])
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_sizes_of_a_real_detector(framework: str, dtype: str) -> None:
    attributes = PROPOSAL | {
        "pre_nms_topn": 2000,
        "post_nms_topn": 100,
        "feat_stride": 16,
        "min_size": 16,
        "nms_thresh": 0.7,
        "ratio": [0.5, 1.0, 2.0],
        "scale": [8.0, 16.0, 32.0],
    }
    attributes |= {"framework": framework} if framework else {}
    scores, deltas, info = proposal_feed(1, 24, 32, 9, info=(384, 512, 1), moved=0.3)
    feed = [(scores**4).astype(dtype).astype(F32), deltas, info]
    check_proposal(model_of(propose(attributes), [feed]), [feed], attributes["post_nms_topn"])


@pytest.mark.parametrize(
    ("build", "feed", "written"),
    [(propose(PROPOSAL), proposal_feed(), "opset4"), (generate_single(GENERATED), single_feed(), "opset6")],
    ids=["Proposal", "single image"],
)
@pytest.mark.parametrize("version", ["experimental", "extension"])
def test_versions_of_older_files(
    build: Callable[..., Any], feed: Feed, written: str, version: str, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "model.xml"
    openvino.save_model(model_of(build, [feed]), path, compress_to_fp16=False)
    text = path.read_text()
    assert text.count(f'version="{written}"') == 1
    path.write_text(text.replace(f'version="{written}"', f'version="{version}"'))
    expected = run_openvino(openvino.Core().read_model(path), [feed])[0][0]
    assert_close(run_onnx(conversion(path), [feed])[0][0], expected, BOUND)


def drawn_proposal(seed: int) -> tuple[Attributes, list[np.ndarray]]:
    random = np.random.default_rng([seed, 3])
    attributes: Attributes = {
        "base_size": int(random.choice([4, 16])),
        "pre_nms_topn": int(random.choice([8, 10, 30, 1000])),
        "post_nms_topn": int(random.choice([1, 5, 20, 100])),
        "nms_thresh": float(random.choice([0.05, 0.1, 0.5, 0.7, 1.0])),
        "feat_stride": int(random.choice([1, 4, 16])),
        "min_size": int(random.choice([1, 4, 16])),
        "ratio": random.choice([0.5, 1, 2, 2.67], random.integers(1, 4), replace=False).tolist(),
        "scale": random.choice([0.5, 1, 2, 4, 8], random.integers(1, 4), replace=False).tolist(),
    }
    for name in ("clip_before_nms", "clip_after_nms", "normalize"):
        if random.random() < 0.5:
            attributes[name] = bool(random.integers(2))
    if random.random() < 0.5:
        attributes |= {"box_size_scale": float(random.choice([2, 5])), "box_coordinate_scale": 10.0}
    if random.random() < 0.5:
        attributes["framework"] = "tensorflow"
    rows, columns = (int(size) for size in random.integers(3, 6, 2))
    feed = proposal_feed(
        int(random.integers(1, 3)),
        rows,
        columns,
        len(attributes["ratio"]) * len(attributes["scale"]),
        int(random.choice([0, 1, 4, 8])),
        [*random.integers(10, 90, 2), *random.choice([0.5, 1, 2], random.integers(1, 3))],
        float(random.choice([0, 0.3, 0.7])),
        seed,
    )
    return attributes, feed


def drawn_generation(seed: int) -> tuple[Attributes, dict[str, Any]]:
    random = np.random.default_rng([seed, 4])
    attributes: Attributes = {
        "min_size": float(random.choice([0, 2, 8])),
        "nms_threshold": float(random.choice([0, 0.1, 0.5, 0.7, 1])),
        "pre_nms_count": int(random.choice([3, 10, 30, 1000])),
        "post_nms_count": int(random.choice([1, 5, 20, 50])),
    }
    rows, columns, anchors = (int(size) for size in random.integers(1, 6, 3))
    given = {
        "rows": rows,
        "columns": columns,
        "anchors": anchors,
        "steps": int(random.choice([0, 1, 4, 8])),
        "info": [*random.integers(10, 60, 2), *random.choice([0.5, 1, 2], random.integers(1, 3))],
        "moved": float(random.choice([0, 0.3, 0.7, 1.5])),
        "seed": seed,
    }
    return attributes, given


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100))
def test_sweep_of_proposals(seed: int) -> None:
    attributes, feed = drawn_proposal(seed)
    model = model_of(propose(attributes, (1, 4)[seed % 2]), [feed])
    check_proposal(model, [feed], attributes["post_nms_topn"])


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100))
def test_sweep_of_generations(seed: int) -> None:
    attributes, given = drawn_generation(seed)
    batch = generated_feed(images=1 + seed % 2, **given)
    normalized = attributes | {"normalized": bool(seed % 3)}
    check(model_of(generate(normalized), [batch]), batch, bound=BOUND)
    single = single_feed(**given)
    check(model_of(generate_single(attributes), [single]), single, bound=BOUND)


REFUSALS = [
    Refusal(
        name,
        generate_single(GENERATED | {attribute: value}),
        single_feed(),
        UnsupportedAttributeError,
        {"attribute": attribute, "value": value, "allowed": allowed},
    )
    for name, attribute, value, allowed in (
        ("no room for boxes", "post_nms_count", 0, "a positive number"),
        ("a threshold below zero", "nms_threshold", -0.5, "0 or a positive number"),
        ("fewer than none", "pre_nms_count", -2, "-1, 0 or a positive number"),
    )
]


@pytest.mark.parametrize("refusal", REFUSALS, ids=str)
def test_refused(refusal: Refusal) -> None:
    assert_refused(refusal)


@pytest.mark.parametrize(
    ("build", "feed", "written", "changed"),
    [
        (propose(PROPOSAL), proposal_feed(), 'post_nms_topn="20"', 'post_nms_topn="0"'),
        (propose(PROPOSAL), proposal_feed(), 'framework=""', 'framework="caffe"'),
        (generate(GENERATED), generated_feed(), 'nms_eta="1"', 'nms_eta="0.5"'),
        (generate(GENERATED), generated_feed(), 'post_nms_count="20"', 'post_nms_count="0"'),
    ],
)
def test_refused_as_openvino_does(
    build: Callable[..., Any], feed: Feed, written: str, changed: str, tmp_path: pathlib.Path
) -> None:
    path = tmp_path / "model.xml"
    openvino.save_model(model_of(build, [feed]), path, compress_to_fp16=False)
    text = path.read_text()
    assert written in text
    path.write_text(text.replace(written, changed))
    with pytest.raises(ConversionErrors) as group:
        conversion(path)
    (error,) = group.value.exceptions
    assert isinstance(error, UnsupportedAttributeError)
    assert error.attribute == written.partition("=")[0]


@pytest.mark.parametrize(("min_size", "told"), [(0.0, False), (8.0, True)])
def test_what_becomes_of_small_boxes_is_told_where_there_are_any(min_size: float, told: bool) -> None:
    model = model_of(generate_single(GENERATED | {"min_size": min_size}), [single_feed()])
    assert any("min_size" in warning for warning in conversion(model).warnings) == told
    assert not any("min_size" in warning for warning in conversion(model, semantics="runtime").warnings)

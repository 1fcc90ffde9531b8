"""Attributes that a file does not state: what the pages say, and a warning where OpenVINO takes something else."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import openvino
import pytest
from openvino import opset1, opset2, opset3, opset4, opset6, opset8, opset11, opset12, opset13
from openvino.utils.node_factory import NodeFactory

from ortconv.api import conversion
from tests.converters.openvino.live import assert_close, model_of, numbers, run_onnx, run_openvino

I32 = np.int32


def without(model: openvino.Model, attribute: str, folder: pathlib.Path) -> pathlib.Path:
    """Returns the file of a model whose nodes do not state an attribute."""
    path = folder / "model.xml"
    openvino.save_model(model, path, compress_to_fp16=False)
    text = path.read_text()
    bare = re.sub(rf' {attribute}="[^"]*"', "", text)
    assert bare != text
    path.write_text(bare)
    return path


CASES: dict[str, tuple[str, Callable[..., Any], list[np.ndarray]]] = {
    "CTCLoss": (
        "ctc_merge_repeated",
        lambda x: opset4.ctc_loss(
            x,
            np.array([5, 4], I32),
            np.array([[0, 0, 1, 0, 0], [2, 1, 1, 0, 0]], I32),
            np.array([3, 2], I32),
            np.array(3, I32),
        ),
        [numbers(2, 5, 4)],
    ),
    "PriorGridGenerator": (
        "flatten",
        lambda *inputs: NodeFactory("opset6").create(
            "ExperimentalDetectronPriorGridGenerator",
            [value.output(0) for value in inputs],
            {"flatten": True, "h": 0, "w": 0, "stride_x": 4.0, "stride_y": 4.0},
        ),
        [numbers(3, 4), numbers(1, 1, 2, 3), numbers(1, 3, 8, 12)],
    ),
    "MVN": ("normalize_variance", lambda x: opset2.mvn(x, True, True, 1e-3), [numbers(1, 3, 4, 5)]),
    "PriorBoxClustered": (
        "clip",
        lambda x: opset1.prior_box_clustered(
            opset1.constant(np.array([2, 3])),
            opset1.convert(x, "i64"),
            {"width": [9.0], "height": [7.0], "offset": 0.5, "step": 4.0, "clip": False},
        ),
        [np.array([8, 12], np.float32)],
    ),
}


@pytest.mark.parametrize("op", CASES)
def test_the_page_is_followed(op: str, tmp_path: pathlib.Path) -> None:
    attribute, build, feed = CASES[op]
    model = model_of(build, [feed])
    path = without(model, attribute, tmp_path)
    (stated,) = run_openvino(model, [feed])[0]
    (unstated,) = run_openvino(openvino.Core().read_model(path), [feed])[0]
    assert stated.shape != unstated.shape or not np.allclose(stated, unstated)
    converted = conversion(path)
    assert any(f"{attribute} is missing" in text for text in converted.warnings)
    assert_close(run_onnx(converted, [feed])[0][0], stated, 256)
    assert not any("is missing" in text for text in conversion(model).warnings)


def test_a_pool_without_dilations(tmp_path: pathlib.Path) -> None:
    """OpenVINO's CPU plugin reads other memory, and may crash."""
    feed = [numbers(1, 2, 6, 7)]
    model = model_of(lambda x: opset8.max_pool(x, [1, 1], [1, 1], [0, 0], [0, 0], [2, 2]).output(0), [feed])
    converted = conversion(without(model, "dilations", tmp_path))
    assert any("dilations is missing" in text for text in converted.warnings)
    assert_close(run_onnx(converted, [feed])[0][0], run_openvino(model, [feed])[0][0], 0)


def test_regions_without_do_softmax(tmp_path: pathlib.Path) -> None:
    feed = [numbers(1, 14, 2, 3)]
    model = model_of(
        lambda x: opset1.region_yolo(x, 4, 2, 2, True, [0, 1], 1, 3, [1.0, 2.0, 3.0, 4.0]),
        [feed],
    )
    converted = conversion(without(model, "do_softmax", tmp_path))
    assert any("do_softmax is missing" in text for text in converted.warnings)
    assert_close(run_onnx(converted, [feed])[0][0], run_openvino(model, [feed])[0][0], 64)


def test_pdpd_without_an_axis(tmp_path: pathlib.Path) -> None:
    """OpenVINO takes the first axis, and not the one from which on both shapes end together."""
    feed = [numbers(3, 2, 3), numbers(3, seed=1)]
    model = model_of(lambda x, y: opset1.add(x, y, "PDPD"), [feed])
    path = without(model, "auto_broadcast.auto_broadcast_axis", tmp_path)
    converted = conversion(path)
    assert any("axis is missing" in text for text in converted.warnings)
    (expected,) = run_openvino(openvino.Core().read_model(path), [feed])[0]
    np.testing.assert_array_equal(expected, feed[0] + feed[1][:, None, None])
    assert_close(run_onnx(converted, [feed])[0][0], expected, 0)


AREAS = np.array([[0, 0, 3, 3], [1, 1, 4, 3.5]], np.float32)
PLACES = np.array([0, 0], I32)
REQUIRED: dict[str, tuple[str, Callable[..., Any], np.ndarray]] = {
    "TopK axis": ("axis", lambda x: opset3.topk(x, np.array(2), 0, "min", "value").output(0), numbers(4, 5)),
    "TopK mode": ("mode", lambda x: opset3.topk(x, np.array(2), 1, "max", "value").output(0), numbers(4, 5)),
    "TopK-11 sort": ("sort", lambda x: opset11.topk(x, np.array(5), 1, "max", "none").output(0), numbers(4, 5)),
    "SpaceToDepth": ("mode", lambda x: opset1.space_to_depth(x, "blocks_first", 2), numbers(1, 2, 4, 6)),
    "DepthToSpace": ("mode", lambda x: opset1.depth_to_space(x, "blocks_first", 2), numbers(1, 8, 2, 3)),
    "GRN": ("bias", lambda x: opset1.grn(x, 1.0), numbers(2, 3, 4)),
    "AvgPool": (
        "exclude-pad",
        lambda x: opset1.avg_pool(x, [1, 1], [1, 1], [1, 1], [3, 3], True),
        numbers(1, 2, 5, 6),
    ),
    "ROIAlign mode": ("mode", lambda x: opset3.roi_align(x, AREAS, PLACES, 2, 2, 2, 1.0, "avg"), numbers(1, 2, 5, 6)),
    "ROIAlign sampling_ratio": (
        "sampling_ratio",
        lambda x: opset3.roi_align(x, AREAS, PLACES, 2, 2, 0, 1.0, "max"),
        numbers(1, 2, 5, 6),
    ),
    "Reshape": ("special_zero", lambda x: opset1.reshape(x, np.array([10, -1]), False), numbers(4, 5)),
    "MVN eps_mode": (
        "eps_mode",
        lambda x: opset6.mvn(x, np.array([1]), True, 0.5, "inside_sqrt"),
        numbers(4, 5),
    ),
    "MVN normalize_variance": (
        "normalize_variance",
        lambda x: opset6.mvn(x, np.array([1]), False, 0.5, "inside_sqrt"),
        numbers(4, 5),
    ),
    "NormalizeL2": ("eps_mode", lambda x: opset1.normalize_l2(x, np.array([1]), 0.5, "add"), numbers(4, 5)),
    "Pad": ("pad_mode", lambda x: opset1.pad(x, np.array([1, 0]), np.array([0, 2]), "constant"), numbers(4, 5)),
    "Pad-12": ("pad_mode", lambda x: opset12.pad(x, np.array([-1, 0]), np.array([0, 2]), "constant"), numbers(4, 5)),
    "Reverse": (
        "mode",
        lambda x: NodeFactory("opset1").create(
            "Reverse", [x.output(0), opset1.constant(np.array([1])).output(0)], {"mode": "index"}
        ),
        numbers(4, 5),
    ),
    "Multinomial log_probs": (
        "log_probs",
        lambda x: opset13.multinomial(x, np.array([7]), "i32", True, False, 3, 5),
        numbers(4, 5, low=0),
    ),
    "Multinomial with_replacement": (
        "with_replacement",
        lambda x: opset13.multinomial(x, np.array([4]), "i32", False, False, 3, 5),
        numbers(4, 5, low=0),
    ),
}


@pytest.mark.parametrize("case", REQUIRED)
def test_what_openvino_takes(case: str, tmp_path: pathlib.Path) -> None:
    """The pages require these attributes; OpenVINO does without."""
    attribute, build, data = REQUIRED[case]
    model = model_of(build, [[data]])
    path = without(model, attribute, tmp_path)
    (stated,) = run_openvino(model, [[data]])[0]
    (unstated,) = run_openvino(openvino.Core().read_model(path), [[data]])[0]
    np.testing.assert_array_equal(stated, unstated)
    (actual,) = run_onnx(conversion(path), [[data]])[0]
    if case == "TopK-11 sort":
        actual, stated = np.sort(actual), np.sort(stated)
    assert_close(actual, stated, 64)


def test_a_broadcast_of_given_axes_without_mode(tmp_path: pathlib.Path) -> None:
    """OpenVINO takes it for explicit."""
    feed = [numbers(3, 3)]
    model = model_of(
        lambda x: NodeFactory("opset1").create(
            "Broadcast",
            [x.output(0), *(opset1.constant(np.array(value)).output(0) for value in ([3, 3, 3], [0, 1]))],
            {"mode": "explicit"},
        ),
        [feed],
    )
    path = without(model, "mode", tmp_path)
    (theirs,) = run_openvino(openvino.Core().read_model(path), [feed])[0]
    np.testing.assert_array_equal(theirs, np.broadcast_to(feed[0][:, :, None], (3, 3, 3)))
    converted = conversion(path)
    np.testing.assert_array_equal(run_onnx(converted, [feed])[0][0], np.broadcast_to(feed[0], (3, 3, 3)))
    assert any("mode is missing" in text for text in converted.warnings)


def test_bins_that_are_not_stated(tmp_path: pathlib.Path) -> None:
    """The page says one; OpenVINO takes none, and refuses that."""
    feed = [numbers(1, 2, 5, 6), np.array([[0, 0, 0, 3, 3]], np.float32)]
    model = model_of(lambda x, boxes: opset1.psroi_pooling(x, boxes, 2, 2, 1.0, 1, 1, "bilinear"), [feed])
    path = without(model, "spatial_bins_x", tmp_path)
    with pytest.raises(RuntimeError, match="spatial_bins_x"):
        openvino.Core().read_model(path)
    converted = conversion(path)
    assert any("spatial_bins_x is missing" in text for text in converted.warnings)
    assert_close(run_onnx(converted, [feed])[0][0], run_openvino(model, [feed])[0][0], 16)

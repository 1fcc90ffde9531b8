"""NonMaxSuppression against OpenVINO's CPU plugin."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import openvino
import pytest
from openvino import opset1, opset3, opset4, opset5, opset9

from ortconv.api import conversion
from tests.converters.openvino.live import Row, check_row, model_of, numbers, run_onnx

VERSIONS: dict[str, Callable[..., openvino.Node]] = {
    "1": opset1.non_max_suppression,
    "3": opset3.non_max_suppression,
    "4": opset4.non_max_suppression,
    "5": opset5.non_max_suppression,
    "9": opset9.non_max_suppression,
}


def boxes(batches: int, count: int, encoding: str = "corner") -> np.ndarray:
    """Returns random boxes that overlap in part."""
    corner = numbers(batches, count, 2, low=0, high=4)
    size = numbers(batches, count, 2, low=1, high=3, seed=1)
    return np.concatenate([corner, size if encoding == "center" else corner + size], axis=2)


def scores(*shape: int) -> np.ndarray:
    """Returns random scores, all different."""
    count = int(np.prod(shape))
    return (np.random.default_rng(count).permutation(count).reshape(shape) / count).astype(np.float32)


def suppress(
    version: str, most: int = 3, overlap: float = 0.4, least: float = 0.1, *more: object, sigma: float | None = None
) -> Callable[..., list[openvino.Output]]:
    """Returns a builder of the op over boxes and scores."""
    limits = [np.array(most), np.float32(overlap), np.float32(least)]
    if sigma is not None:
        limits.append(np.float32(sigma))
    return lambda b, s: list(VERSIONS[version](b, s, *limits, *more).outputs())


ROWS = [
    Row(
        f"non_max_suppression-{version} {encoding}, sorted {in_order}",
        lambda b, s, v=version, e=encoding, o=in_order: VERSIONS[v](
            b,
            s,
            np.array(3),
            np.float32(0.4),
            np.float32(0.1),
            **({"box_encoding": e, "sort_result_descending": o}),
        ).outputs(),
        [[boxes(2, n, encoding), scores(2, 3, n)] for n in (8, 12)],
    )
    for version in VERSIONS
    for encoding in ("corner", "center")
    for in_order in (True, False)
]
ROWS += [
    Row(
        f"non_max_suppression-9 of at most {most}, overlap {overlap}, score {least}, sigma {sigma}",
        suppress("9", most, overlap, least, sigma=sigma),
        [[boxes(2, 9), scores(2, 2, 9)]],
        bound=8,
    )
    for most, overlap, least, sigma in (
        (100, 0.5, 0.0, None),
        (100, 0.2, 0.5, 0.0),
        (1, 0.5, -1.0, None),
        (5, 0.0, 0.0, None),
        (5, 1.0, 0.2, None),
        (5, 1.5, 0.2, None),
        (5, 0.5, 2.0, None),
        (4, 1.0, 0.1, 0.5),
        (100, 0.4, 0.3, 0.5),
        (100, 0.4, 0.0, 0.1),
    )
]
ROWS += [
    Row(
        "non_max_suppression-5 by a sigma, without order",
        suppress("5", 4, 0.6, 0.2, "corner", False, sigma=0.3),
        [[boxes(2, n), scores(2, 2, n)] for n in (7, 9)],
        bound=8,
    ),
    Row(
        "non_max_suppression-5 by a sigma, center",
        suppress("5", 4, 0.6, 0.2, "center", sigma=0.3),
        [[boxes(1, 7, "center"), scores(1, 2, 7)]],
        bound=8,
    ),
    Row(
        "non_max_suppression-5 into i32",
        suppress("5", 4, 0.6, 0.2, "corner", True, "i32", sigma=0.0),
        [[boxes(1, 7), scores(1, 2, 7)]],
    ),
    Row(
        "an overlap that is the threshold",
        suppress("9", 4, 0.5, 0.0),
        [[np.array([[[0, 0, 1, 1], [0, 0, 1, 0.5], [0, 0, 1, 0.25]]], np.float32), scores(1, 1, 3)]],
    ),
    Row("corners the other way round", suppress("9"), [[boxes(1, 8)[..., [2, 3, 0, 1]], scores(1, 2, 8)]]),
    Row(
        "limits of the run",
        lambda b, s, n, o, t: list(opset9.non_max_suppression(b, s, n, o, t).outputs()),
        [
            [boxes(1, 8), scores(1, 2, 8), np.array(most), np.array(overlap, np.float32), np.array(least, np.float32)]
            for most, overlap, least in ((3, 0.4, 0.1), (9, 0, 0), (9, 1, 0.3))
        ],
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_matches_openvino(row: Row) -> None:
    check_row(row)


@pytest.mark.parametrize("version", ["5", "9"])
@pytest.mark.parametrize("most", [None, 0, 3])
def test_selections_of_no_box_are_warned_about(version: str, most: int | None) -> None:
    """OpenVINO's CPU plugin does not write how many boxes it has selected then."""
    feed = [boxes(1, 4), scores(1, 2, 4)]
    given = () if most is None else (np.array(most),)
    converted = conversion(model_of(lambda x, s: list(VERSIONS[version](x, s, *given).outputs()), [feed]))
    assert any("does not write valid_outputs" in text for text in converted.warnings) == (not most)
    fewer = conversion(model_of(lambda x, s: list(VERSIONS[version](x, s, *given).outputs())[:2], [feed]))
    assert not any("does not write valid_outputs" in text for text in fewer.warnings)
    chosen, _, count = run_onnx(converted, [feed])[0]
    assert count.tolist() == [len(chosen)]
    assert bool(len(chosen)) == bool(most)

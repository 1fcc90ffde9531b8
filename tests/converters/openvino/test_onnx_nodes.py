"""The onnx package's own node tests, as IR: what is converted gives OpenVINO's numbers, the rest is refused."""

from __future__ import annotations

import pytest
from onnx.backend.test.case.test_case import TestCase

from tests.converters.openvino.onnx_nodes import judge, judge_all, known, load

QUICK = ("clip", "concat", "convtranspose", "gather", "gru", "nonmaxsuppression", "pad", "scatternd", "slice", "topk")
"""Modules whose tests OpenVINO reads without dying; all of their tests must match."""

ALLOWED = ("matched", "refused", "openvino-cannot")


@pytest.mark.parametrize("case", load(QUICK).values(), ids=lambda case: case.name)
def test_quick(case: TestCase) -> None:
    outcome = judge(case)
    if (reason := known(case.name)) is not None:
        assert outcome.verdict != "matched", f"it matches, though known not to: {reason}"
        pytest.xfail(reason)
    assert outcome.verdict in ("matched", "openvino-cannot"), outcome.detail


@pytest.mark.sweep
def test_all() -> None:
    """Every test is matched or refused, unless it is known why not."""
    outcomes = list(judge_all(load().values()))
    wrong = [each for each in outcomes if each.verdict not in ALLOWED and known(each.test) is None]
    assert not wrong, "\n".join(f"{each.verdict}: {each.test}: {each.detail}" for each in wrong)
    stale = [each.test for each in outcomes if each.verdict == "matched" and known(each.test) is not None]
    assert not stale, f"these match, though known not to: {stale}"
    assert sum(each.verdict == "matched" for each in outcomes) > 1500

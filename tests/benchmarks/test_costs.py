"""The fit of the costs by which implementations are chosen. No time is asserted."""

from __future__ import annotations

import numpy as np

from benchmarks.costs import TERMS, fit, measure, predicted
from benchmarks.shapes import Shape


def test_costs_that_explain_the_times_are_found() -> None:
    random = np.random.default_rng(0)
    work = np.exp(random.uniform(0, 12, (300, len(TERMS))))
    work[:, 0] = 1
    right = np.array([5000, 40, 3, 60, 0.02, 0.1, 0.3, 0.5, 0.02])
    noise = np.exp(random.normal(0, 0.02, 300))
    noise[::50] = 3  # turns in which others used the core
    costs = fit(work, work @ right * noise)
    assert np.all(costs >= 0)
    assert np.median(np.abs(np.log(work @ costs / (work @ right)))) < 0.02


def test_a_shape_is_computed_by_all_that_can() -> None:
    found = measure(Shape("small", 1, 8, 6, (5, 7), 3, 2), "f32", rounds=2, seconds=0.0001)
    assert {"phases", "gemm_col2im"} <= found.work.keys() == found.nanoseconds.keys()
    assert all(len(counts) == len(TERMS) and counts[0] == 1 for counts in found.work.values())
    assert min(*found.nanoseconds.values(), found.peer) > 0
    costs = dict.fromkeys(found.work, [1.0] + [0.0] * (len(TERMS) - 1))
    assert set(predicted({**costs, "winograd": costs["phases"]}, found).values()) == {1.0}

"""The fit of the costs by which implementations are chosen. No time is asserted."""

from __future__ import annotations

import numpy as np

from benchmarks.costs import TERMS, Measured, fit, measure, predicted, refine
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


def test_costs_move_where_choices_lose() -> None:
    """One time is the square of the steps, which no sum of costs can say: the choice can still be right."""

    def work(steps: float, products: float) -> tuple[float, ...]:
        return tuple({"run": 1.0, "steps": steps, "products": products}.get(term, 0.0) for term in TERMS)

    found = [
        Measured(
            str(i),
            {"columns": work(0, 1000), "col2im": work(steps, 0)},
            {"columns": 100.0, "col2im": steps**2},
            peer=100.0,
        )
        for i, steps in enumerate(np.geomspace(2, 500, 60))
    ]

    def lost(costs: dict[str, list[float]]) -> float:
        chosen = [min(times := predicted(costs, each), key=lambda name: times[name]) for each in found]
        return sum(
            np.log(each.nanoseconds[name] / min(each.nanoseconds.values()))
            for each, name in zip(found, chosen, strict=True)
        )

    fitted = {
        name: fit(np.array([m.work[name] for m in found]), np.array([m.nanoseconds[name] for m in found])).tolist()
        for name in ("columns", "col2im")
    }
    refined = refine(fitted, found)
    assert lost(refined) < 0.5 * lost(fitted)
    assert [cost == 0 for cost in fitted["col2im"]] == [cost == 0 for cost in refined["col2im"]]


def test_a_shape_is_computed_by_all_that_can() -> None:
    found = measure(Shape("small", 1, 8, 6, (5, 7), 3, 2), "f32", rounds=2, seconds=0.0001)
    assert {"phases", "gemm_col2im"} <= found.work.keys() == found.nanoseconds.keys()
    assert all(len(counts) == len(TERMS) and counts[0] == 1 for counts in found.work.values())
    assert min(*found.nanoseconds.values(), found.peer) > 0
    # Implementations of one kernel have one row.
    costs = dict.fromkeys((*found.work, "winograd", "sliding_rows"), [1.0] + [0.0] * (len(TERMS) - 1))
    assert set(predicted(costs, found).values()) == {1.0}

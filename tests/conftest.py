"""Settings of all tests."""

from __future__ import annotations

import collections
import zlib

import hypothesis
import pytest

hypothesis.settings.register_profile("ortconv", deadline=None)  # no test is about time
hypothesis.settings.load_profile("ortconv")

QUICK_CASES = 4
"""Cases of one test function that the quick run executes; the others are marked slow."""

USUAL_CASES = 12
"""Cases of one test function that a run of all tests executes; the others are marked as sweeps."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks cases of each test function beyond these numbers: the same ones in every run, evenly spread."""
    functions = collections.defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    for cases in functions.values():
        in_order = sorted(cases, key=lambda item: zlib.crc32(item.nodeid.encode()))
        for item in in_order[QUICK_CASES:]:
            item.add_marker(pytest.mark.slow)
        for item in in_order[USUAL_CASES:]:
            item.add_marker(pytest.mark.sweep)

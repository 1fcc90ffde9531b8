"""Settings of all tests."""

from __future__ import annotations

import collections
import zlib

import hypothesis
import pytest

hypothesis.settings.register_profile("ortconv", deadline=None)  # no test is about time
hypothesis.settings.load_profile("ortconv")

QUICK_CASES = 12
"""Cases of one test function that the quick run executes; the others are marked slow."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks all but `QUICK_CASES` cases of each test function as slow: the same ones in every run, evenly spread."""
    functions = collections.defaultdict(list)
    for item in items:
        functions[item.nodeid.partition("[")[0]].append(item)
    for cases in functions.values():
        for item in sorted(cases, key=lambda item: zlib.crc32(item.nodeid.encode()))[QUICK_CASES:]:
            item.add_marker(pytest.mark.slow)

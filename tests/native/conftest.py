"""Fixtures with cases of the convolution operators."""

from __future__ import annotations

from tests.operators.convolutions import cases, define, library, make_case, pytest_generate_tests

__all__ = ["cases", "define", "library", "make_case", "pytest_generate_tests"]

"""Vectors and graphs that the real libraries gave, in a folder beside the checkout where it is at hand."""

from __future__ import annotations

import os
import pathlib

SHARED = pathlib.Path(os.environ.get("ORTCONV_SHARED", pathlib.Path(__file__).parents[2] / "shared"))

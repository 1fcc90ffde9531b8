"""Integer types of outputs that hold indices, as attributes name them."""

from __future__ import annotations

from typing import Literal

import onnx_ir as ir

__all__ = ["INDEX_TYPES", "IndexType"]

IndexType = Literal["i64", "i32"]
INDEX_TYPES = {"i64": ir.DataType.INT64, "i32": ir.DataType.INT32}

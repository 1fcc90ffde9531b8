"""What the tests of the Python ops share."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from ortconv.opset.ops import BY_NAME
from ortconv.runtime.session import InferenceSession

__all__ = ["FLOAT32", "bad_weights", "expected", "run"]

FLOAT32 = np.dtype(np.float32)


def expected(case: Any, inputs: list[np.ndarray | None]) -> np.ndarray:
    return BY_NAME[case.op].reference(*inputs, **case.attributes)


def run(model: onnx.ModelProto, feeds: dict[str, np.ndarray], **more: Any) -> list[Any]:
    return InferenceSession(model, backend="python", **more).run(None, feeds)


def bad_weights(case: Any) -> dict[str, np.ndarray]:
    """Inputs of a case of Conv, whose weights have other channels than X."""
    feeds = case.feeds(case.inputs(FLOAT32))
    return dict(feeds) | {"W": np.zeros((2, 9, 3, 2), np.float32)}

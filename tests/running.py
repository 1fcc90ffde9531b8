"""Running a converted model in every way it can be run, and comparing with what is expected."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import ml_dtypes
import numpy as np
import onnx
import onnxruntime

import ortconv
from ortconv.runtime.choices import IMPLEMENTATION_ENTRY

WAYS = ("native", "python", "none")
"""Our native kernels; the Python ops; the function bodies on an ONNX Runtime that does not know our domain."""


PROVIDER = "ep"
"""Our native kernels as an execution provider, which takes all that it can."""


def run(
    model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], way: str, implementation: str | None = None
) -> list[np.ndarray]:
    """Runs a model on the CPU, by an implementation if one is named, and returns its outputs."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if implementation is not None:
        options.add_session_config_entry(IMPLEMENTATION_ENTRY, implementation)
    if way == PROVIDER:
        ortconv.register_ep(options, {"claim_all": "1"})
        return list(ortconv.InferenceSession(model, options, backend=way).run(None, dict(feeds)))
    session = ortconv.InferenceSession(model, options, providers=["CPUExecutionProvider"], backend=way)
    return list(session.run(None, dict(feeds)))


@dataclasses.dataclass(frozen=True)
class Bound:
    """How far a result may be off: absolutely, and relative to the expected value. Zero means equal."""

    absolute: float = 0.0
    relative: float = 0.0


EXACT = Bound()


def assert_matches(actual: np.ndarray, expected: np.ndarray, bound: Bound, what: str) -> None:
    """Asserts dtype, shape and values; `what` is shown when it fails."""
    assert actual.dtype == expected.dtype, f"{what}: type {actual.dtype}, expected {expected.dtype}"
    assert actual.shape == expected.shape, f"{what}: shape {actual.shape}, expected {expected.shape}"
    if actual.dtype.kind in "iu" or bound == EXACT:
        np.testing.assert_array_equal(actual, expected, err_msg=what)
        return
    got, right = actual.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_allclose(got, right, rtol=bound.relative, atol=bound.absolute, err_msg=what)


def rounding_bound(x: np.ndarray, w: np.ndarray) -> Bound:
    """Returns how far two evaluations of a convolution of x by w may be apart, sums in float (double for double).

    A sum has at most `terms` products of at most `largest`, and each addition rounds within epsilon of the running sum.
    The sum is then rounded to the tensors' type.
    """
    if x.size == 0 or w.size == 0 or x.dtype.kind in "iu":
        return EXACT
    terms = w.size // min(w.shape[:2])
    largest = float(np.max(np.abs(x.astype(np.float64)))) * float(np.max(np.abs(w.astype(np.float64))))
    accumulated = np.finfo(np.float64 if x.dtype == np.float64 else np.float32).eps
    return Bound(2 * terms * largest * accumulated, 2 * float(ml_dtypes.finfo(x.dtype).eps))

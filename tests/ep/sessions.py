"""Sessions with our execution provider, and what it claims in them."""

from __future__ import annotations

import os
import pathlib
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime

import ortconv
from ortconv.runtime.provider import REPORT_OPTION, Claim, read_report

__all__ = ["claims", "options", "plain", "session", "with_provider"]


def options(threads: int = 2, **given: str) -> onnxruntime.SessionOptions:
    """Returns options with the provider, which claims all that it can unless `given` says otherwise."""
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 4
    made.intra_op_num_threads = threads
    ortconv.register_ep(made, {"claim_all": "1", **given})
    return made


def session(
    model: onnx.ModelProto | str | os.PathLike[str], made: onnxruntime.SessionOptions | None = None, **given: str
) -> ortconv.InferenceSession:
    """Returns a session with the provider."""
    return ortconv.InferenceSession(model, made or options(**given), backend="ep")


def plain(model: onnx.ModelProto, feeds: Mapping[str, np.ndarray]) -> list[Any]:
    """Returns the outputs of a session without the provider."""
    made = onnxruntime.SessionOptions()
    made.log_severity_level = 4
    return list(onnxruntime.InferenceSession(model.SerializeToString(), made).run(None, dict(feeds)))


def claims(model: onnx.ModelProto, **given: str) -> list[Claim]:
    """Returns what became of the nodes that the provider looked at in a session."""
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "report")
        session(model, **{REPORT_OPTION: os.fspath(file), **given})
        return read_report(file)


def with_provider(
    model: onnx.ModelProto, feeds: Mapping[str, np.ndarray], *claimed: str, **given: str
) -> list[np.ndarray]:
    """Returns the outputs of a session with the provider, and asserts what it claims.

    Args:
        model: The model.
        feeds: Its inputs.
        *claimed: The nodes it claims, in order: names, and behind each the types of what is fused, as "c Relu".
        **given: Options of the provider.
    """
    found = claims(model, **given)
    names = [" ".join([each.node, *(other.split()[0] for other in each.fused)]) for each in found if not each.reason]
    assert sorted(names) == sorted(claimed), found
    return list(session(model, **given).run(None, dict(feeds)))

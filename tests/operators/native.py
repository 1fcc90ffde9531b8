"""Sessions of the native library, and the errors that they provoke."""

from __future__ import annotations

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper

import ortconv
from ortconv.opset.domain import DOMAIN

__all__ = ["FLOAT", "OPS", "quiet", "refusal", "session", "with_constants"]

FLOAT = np.dtype(np.float32)
OPS = {
    "TransposedConvolution": "transposed_plain",
    "TransposedConvolutionToShape": "to_shape_fixed_begin",
    "Convolution": "conv_plain",
    "TransposedConvolutionAdd": "add_plain",
}


def quiet(threads: int = 2) -> onnxruntime.SessionOptions:
    """Session options whose session does not log the errors that a test provokes."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = threads
    return options


def session(model: onnx.ModelProto, options: onnxruntime.SessionOptions | None = None) -> ortconv.InferenceSession:
    return ortconv.InferenceSession(model, options or quiet(), providers=["CPUExecutionProvider"])


def with_constants(model: onnx.ModelProto, feeds: dict[str, np.ndarray], *names: str) -> onnx.ModelProto:
    """Turns the named inputs into initializers, and takes them out of `feeds`."""
    for name in names:
        model.graph.initializer.append(numpy_helper.from_array(feeds.pop(name), name))
        model.graph.input.remove(next(value for value in model.graph.input if value.name == name))
    return model


def refusal(model: onnx.ModelProto, feeds: dict[str, np.ndarray] | None = None) -> str:
    """The message of the session that cannot be made, or with `feeds` of the run that fails."""
    if feeds is None:
        with pytest.raises(Exception, match=DOMAIN) as caught:
            session(model)
    else:
        made = session(model)
        with pytest.raises(Exception, match=DOMAIN) as caught:
            made.run(None, feeds)
    return str(caught.value)

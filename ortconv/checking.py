"""``onnx.checker`` with full check, in the words of our errors."""

from __future__ import annotations

import os

import onnx
import onnx.checker
import onnx.shape_inference
import onnx_ir as ir

from ortconv.errors import CheckError, in_utf8
from ortconv.schemas import register_schemas
from ortconv.serialization import weights_as_inputs

__all__ = ["check", "check_file"]


def check(model: ir.Model, name: str) -> None:
    """Checks a model: ``onnx.checker.check_model`` with ``full_check``, and our schemas.

    Args:
        model: The model.
        name: How messages call it.

    Raises:
        CheckError: The checker refuses it.
    """
    _run(weights_as_inputs(model), name)


def check_file(path: str | os.PathLike[str]) -> onnx.ModelProto:
    """Checks a model file and returns the model without its external data.

    Raises:
        CheckError: The file cannot be read as a model, or the checker refuses it.
    """
    name = os.fspath(path)
    if in_utf8(name) != name:
        raise CheckError(name, "cannot be read: its name is not UTF-8, as onnx wants it.")
    try:
        model = onnx.load(name, load_external_data=False)
    except OSError as error:
        raise CheckError(name, f"cannot be read: {error.strerror or error}") from error
    except Exception as error:
        raise CheckError(name, f"is not an ONNX model: {str(error) or type(error).__name__}") from error
    _run(name, name)
    return model


def _run(model: onnx.ModelProto | str, name: str) -> None:
    register_schemas()
    try:
        onnx.checker.check_model(model, full_check=True)
    except (onnx.checker.ValidationError, onnx.shape_inference.InferenceError, ValueError) as error:
        raise CheckError(name, f"onnx.checker refuses the model: {error}") from error

"""Runs ``onnx.checker`` with full check, and raises its findings as ``CheckError``."""

from __future__ import annotations

import logging
import os

import onnx
import onnx.checker
import onnx_ir as ir
import onnx_ir.passes.common

from ortconv.errors import CheckError, in_utf8, shown
from ortconv.model_io import inference_process, loading, protos
from ortconv.model_io.writer import weights_as_inputs, without_weights
from ortconv.opset.schemas import register_schemas

__all__ = ["check", "check_file", "check_proto", "infer_shapes", "require_inferable"]


def check(model: ir.Model, name: str) -> None:
    """Checks a model: ``onnx.checker.check_model`` with ``full_check``, and our schemas.

    Args:
        model: The model.
        name: The model's name in messages.

    Raises:
        CheckError: The checker refuses it.
    """
    _run(weights_as_inputs(model), name)


def check_proto(model: onnx.ModelProto, name: str) -> None:
    """Checks a model that `loading` has validated, as `check` does, before anything reads it.

    Args:
        model: The model. Nothing but initializers of its main graph refers to external data.
        name: The model's name in messages.

    Raises:
        CheckError: The checker refuses it.
    """
    _run(without_weights(model), name)


def check_file(path: str | os.PathLike[str]) -> onnx.ModelProto:
    """Checks a model file and returns the model without its external data.

    Raises:
        CheckError: The file cannot be read as a model, is malformed, or the checker refuses it.
    """
    name = os.fspath(path)
    if in_utf8(name) != name:
        raise CheckError(name, "cannot be read: its name is not UTF-8, as onnx requires.")
    model = loading.load(name)
    full = loading.with_inner_weights(model, name)
    require_inferable(full, name)
    check_proto(full, name)
    return model


def require_inferable(model: onnx.ModelProto, name: str) -> None:
    """Checks that ONNX's shape inference, which the checker runs, does not end the process.

    Only a Slice makes it do so; models with one go through it in a child process first.

    Args:
        model: The model. Nothing but initializers of its main graph refers to external data.
        name: The model's name in messages.

    Raises:
        CheckError: The inference ends the process, or the child process cannot be started.
    """
    if any(node.op_type == "Slice" for node in protos.all_nodes(model)):
        light = without_weights(model)
        protos.clear_negative_dims(light)
        inference_process.require_inferable(light, name)


def infer_shapes(model: ir.Model, *, check_type: bool = True) -> None:
    """Adds inferred shapes to a model; none if the model contradicts itself, which the checker reports."""
    register_schemas()
    log = logging.getLogger(onnx_ir.passes.common.ShapeInferencePass.__module__)
    silent, log.disabled = log.disabled, True  # It logs a traceback.
    try:
        onnx_ir.passes.common.ShapeInferencePass(check_type=check_type, strict_mode=check_type)(model)
    finally:
        log.disabled = silent


def _run(model: onnx.ModelProto, name: str) -> None:
    """Checks a copy of a model."""
    register_schemas()
    protos.clear_negative_dims(model)
    wrong = protos.node_with_negative_shape(model)
    if wrong is not None:
        raise CheckError(name, f"node {shown(wrong.name)} ({wrong.op_type}) has a negative size; allowed: 0 or more.")
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # its exceptions have no common base
        raise CheckError(name, f"onnx.checker refuses the model: {error}") from error

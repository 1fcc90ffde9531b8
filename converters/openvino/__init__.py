"""OpenVINO IR: reader and lowerings."""

from __future__ import annotations

import os
import pathlib

from ortconv.converters.openvino.reader.openvino_model import is_model, read_model
from ortconv.converters.openvino.reader.source_graph import read_ir
from ortconv.converters.openvino.registry import REGISTRY
from ortconv.frontend.source_format import Frontend, Tensors
from ortconv.frontend.source_graph import SourceGraph
from ortconv.options import Options

__all__ = ["FRONTEND"]


def _detect(source: object) -> bool:
    if isinstance(source, str | os.PathLike):
        return pathlib.Path(source).suffix.lower() == ".xml"
    return is_model(source)


def _read(source: object, tensors: Tensors, options: Options | None = None, /) -> SourceGraph:
    """Reads a path or a model; an IR holds its own constants, so that `tensors` has nothing to add."""
    if isinstance(source, str | os.PathLike):
        return read_ir(pathlib.Path(source), options)
    return read_model(source, options)


FRONTEND = Frontend(
    name="openvino", title="OpenVINO IR (.xml) or openvino.Model", detect=_detect, read=_read, registry=REGISTRY
)

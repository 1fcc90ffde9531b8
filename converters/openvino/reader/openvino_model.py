"""Accepts ``openvino.Model`` objects; imports OpenVINO only when it is given one."""

from __future__ import annotations

import pathlib
import tempfile

from ortconv.converters.openvino.reader.source_graph import read_ir
from ortconv.errors import ModelFormatError
from ortconv.frontend.source_graph import SourceGraph
from ortconv.options import Options

__all__ = ["is_model", "read_model"]


def is_model(source: object) -> bool:
    """Tells whether an object is an ``openvino.Model``, without importing OpenVINO."""
    return any(
        base.__name__ == "Model" and base.__module__.partition(".")[0] == "openvino" for base in type(source).__mro__
    )


def read_model(model: object, options: Options | None = None) -> SourceGraph:
    """Reads an ``openvino.Model`` by way of the IR that OpenVINO writes for it.

    Args:
        model: The model; it is not changed, and nothing of it is referenced afterwards.
        options: What the user asked for.

    Raises:
        ModelFormatError: OpenVINO cannot write the model.
        UnsupportedTypeError: See `read_ir`.
    """
    import openvino

    label = f"<Model {model.get_friendly_name()}>"  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory(prefix="ortconv-") as folder:
        path = pathlib.Path(folder) / "model.xml"
        try:
            openvino.save_model(model, path, compress_to_fp16=False)
        except (RuntimeError, OSError) as error:
            raise ModelFormatError(label, "", f"OpenVINO cannot write the model: {error}") from error
        return read_ir(path, options, label=label, in_memory=True)

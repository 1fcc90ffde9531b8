"""Handwritten IR files for the tests of the reader."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import pytest

Port = tuple[int, str, str]
"""Id, attributes, dims: ``(0, 'precision="FP32"', "1,3")``."""


def port(number: int, attributes: str, dims: str) -> str:
    """Returns a port element."""
    inside = "".join(f"<dim>{dim}</dim>" for dim in dims.split(",") if dim)
    return f'<port id="{number}" {attributes}>{inside}</port>'


def layer(
    number: int,
    type: str,
    *,
    name: str | None = None,
    opset: str = "opset1",
    data: str = "",
    inputs: Sequence[Port] = (),
    outputs: Sequence[Port] = (),
    extra: str = "",
) -> str:
    """Returns a layer element on a line of its own."""
    label = f"{type.lower()}{number}" if name is None else name
    body = f"<data {data}/>" if data else ""
    body += f"<input>{''.join(port(*each) for each in inputs)}</input>" if inputs else ""
    body += f"<output>{''.join(port(*each) for each in outputs)}</output>" if outputs else ""
    return f'<layer id="{number}" name="{label}" type="{type}" version="{opset}" {extra}>{body}</layer>\n'


def edge(source: int, source_port: int, target: int, target_port: int) -> str:
    """Returns an edge element on a line of its own."""
    return f'<edge from-layer="{source}" from-port="{source_port}" to-layer="{target}" to-port="{target_port}"/>\n'


class IrWriter:
    """Writes IR files into a folder; the pieces come from `layer` and `edge`."""

    layer = staticmethod(layer)
    edge = staticmethod(edge)

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    def __call__(
        self, layers: Sequence[str], edges: Sequence[str], weights: bytes | None = None, *, version: int = 11
    ) -> pathlib.Path:
        """Writes the files and returns the path of the ``.xml``; without `weights` there is no ``.bin``."""
        text = (
            f'<?xml version="1.0"?>\n<net name="net" version="{version}">\n'
            f"<layers>\n{''.join(layers)}</layers>\n<edges>\n{''.join(edges)}</edges>\n</net>\n"
        )
        return self.text(text, weights)

    def text(self, text: str | bytes, weights: bytes | None = None) -> pathlib.Path:
        """Writes the ``.xml`` as given."""
        path = self.folder / "model.xml"
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        if weights is not None:
            path.with_suffix(".bin").write_bytes(weights)
        return path


@pytest.fixture
def write_ir(tmp_path: pathlib.Path) -> IrWriter:
    return IrWriter(tmp_path)

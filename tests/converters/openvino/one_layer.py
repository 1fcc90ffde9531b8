"""IR files of one layer, written by hand: OpenVINO itself would not build some of them."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

__all__ = ["Declared", "write"]

Declared = tuple[str, Sequence[int]]
"""Element type and shape of an input."""

_PORTS = {"f32": "FP32", "f16": "FP16", "i64": "I64", "i32": "I32", "boolean": "BOOL"}
_TYPES = {"float32": "f32", "int64": "i64", "int32": "i32", "bool": "boolean"}


def write(
    path: pathlib.Path,
    kind: str,
    inputs: Sequence[Declared | np.ndarray],
    attributes: Mapping[str, object],
    outputs: Sequence[Declared],
    opset: str = "opset1",
) -> pathlib.Path:
    """Writes a model of one layer.

    Args:
        path: The ``.xml`` file.
        kind: The layer's op type.
        inputs: Parameters, as type and shape, and constants, as arrays.
        attributes: Its attributes.
        outputs: Type and shape of its outputs, each of which is a result of the model.
        opset: Its opset.
    """
    layers, edges, weights = [], [], bytearray()
    own = len(inputs)
    for number, given in enumerate(inputs):
        if isinstance(given, np.ndarray):
            declared: Declared = _TYPES[given.dtype.name], given.shape
            raw = given.tobytes()
            data = f'offset="{len(weights)}" size="{len(raw)}" '
            weights += raw
        else:
            declared, data = given, ""
        shape = ",".join(map(str, declared[1]))
        type_ = "Const" if data else "Parameter"
        layers.append(
            f'<layer id="{number}" name="input{number}" type="{type_}" version="opset1">'
            f'<data element_type="{declared[0]}" shape="{shape}" {data}/><output>{_port(0, declared)}</output></layer>'
        )
        edges.append(f'<edge from-layer="{number}" from-port="0" to-layer="{own}" to-port="{number}"/>')
    stated = " ".join(f'{name}="{value}"' for name, value in attributes.items())
    ports = "".join(f'<port id="{number}"/>' for number in range(own))
    results = "".join(_port(own + number, declared) for number, declared in enumerate(outputs))
    layers.append(
        f'<layer id="{own}" name="layer" type="{kind}" version="{opset}"><data {stated}/>'
        f"<input>{ports}</input><output>{results}</output></layer>"
    )
    for number in range(len(outputs)):
        result = own + 1 + number
        layers.append(f'<layer id="{result}" name="result{number}" type="Result" version="opset1">')
        layers.append('<input><port id="0"/></input></layer>')
        edges.append(f'<edge from-layer="{own}" from-port="{own + number}" to-layer="{result}" to-port="0"/>')
    path.write_text(
        f'<net name="net" version="11"><layers>{"".join(layers)}</layers><edges>{"".join(edges)}</edges></net>'
    )
    path.with_suffix(".bin").write_bytes(weights)
    return path


def _port(number: int, declared: Declared) -> str:
    dims = "".join(f"<dim>{size}</dim>" for size in declared[1])
    return f'<port id="{number}" precision="{_PORTS[declared[0]]}">{dims}</port>'

"""oneDNN Graph JSON made by hand, as benchdnn's files have it."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence
from typing import Any

UNKNOWN = -(2**63)

Json = dict[str, Any]


def tensor(id: int, shape: Sequence[int] = (2, 3), dtype: str = "f32", **fields: object) -> Json:
    """A logical tensor, dense unless a stride is given."""
    stride = [1] * len(shape)
    for axis in reversed(range(len(shape) - 1)):
        stride[axis] = stride[axis + 1] * max(shape[axis + 1], 1)
    return {
        "id": id,
        "dtype": dtype,
        "shape": list(shape),
        "stride": stride,
        "layout_type": "strided",
        "property_type": "undef",
        **fields,
    }


def op(
    id: int,
    op_kind: str,
    inputs: Sequence[Json],
    outputs: Sequence[Json],
    attrs: Mapping[str, tuple[str, object]] | None = None,
    **fields: object,
) -> Json:
    """An operation; attributes are pairs of type and value."""
    attributes = {name: {"type": kind, "value": value} for name, (kind, value) in (attrs or {}).items()}
    return {
        "id": id,
        "name": f"{op_kind}_{id}",
        "kind": op_kind,
        "attrs": attributes,
        "inputs": list(inputs),
        "outputs": list(outputs),
        **fields,
    }


def graph(*ops: Json, **fields: object) -> Json:
    """A whole document."""
    return {"version": "3.7.0", "engine_kind": "cpu", "fpmath_mode": "strict", **fields, "graph": list(ops)}


def write(folder: pathlib.Path, document: object, name: str = "model.json") -> pathlib.Path:
    """Writes a document, or text or bytes as they are."""
    path = folder / name
    if isinstance(document, bytes):
        path.write_bytes(document)
    else:
        path.write_text(document if isinstance(document, str) else json.dumps(document))
    return path


def backward_data() -> Json:
    """A ConvolutionBackwardData as benchdnn's conv_bwd_d_2d.json has it, twelve zeros included."""
    return graph(
        op(
            0,
            "ConvolutionBackwardData",
            [tensor(0, (1, 4, 3, 3)), tensor(1, (4, 2, 3, 3), property_type="constant")],
            [tensor(2, (1, 2, 7, 7))],
            {
                "strides": ("s64[]", [2, 2]),
                "pads_begin": ("s64[]", [0, 0]),
                "pads_end": ("s64[]", [0, 0]),
                "dilations": ("s64[]", [1, 1]),
                "auto_pad": ("string", "None"),
                "groups": ("s64", 1),
                "data_format": ("string", "NCX"),
                "weights_format": ("string", "OIX"),
                "output_padding": ("s64[]", [0] * 12),
                "dst_shape": ("s64[]", [1, 2, 7, 7]),
            },
        ),
        op(1, "ReLU", [tensor(2, (1, 2, 7, 7))], [tensor(3, (1, 2, 7, 7))]),
        input_ports=[0, 1],
        output_ports=[3],
    )

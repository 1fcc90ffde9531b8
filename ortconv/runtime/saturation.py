"""Prevents saturation in ONNX Runtime's int8 kernels on x86-64 CPUs without dot-product instructions (VNNI).

These kernels add two products of uint8 and int8 in 16 bits. A session config entry avoids that. The native library sets
it when it is registered on such a CPU; for sessions without the library, this module runs a product and looks.
"""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
import onnx.parser

__all__ = ["are_exact", "config_entry", "make_products_exact", "saturate"]

_ENTRY = "session.x64quantprecision"
"""ONNX Runtime's session config entry: "1" converts int8 weights to uint8, whose products with uint8 are exact."""

_DATA, _WEIGHT = 255, 127
"""The sum of two products of these does not fit into 16 bits."""


def make_products_exact(session_options: Any) -> None:
    """Sets the entry if products saturate, unless it is already set to any value."""
    if config_entry(session_options, _ENTRY) is None and saturate():
        session_options.add_session_config_entry(_ENTRY, "1")


def are_exact(session_options: Any) -> bool:
    """Returns whether the entry is "1"."""
    return config_entry(session_options, _ENTRY) == "1"


def config_entry(session_options: Any, name: str) -> str | None:
    """Returns a session config entry, or None if it is not set."""
    try:
        return str(session_options.get_session_config_entry(name))
    except RuntimeError:  # There is no such entry.
        return None


@functools.cache
def saturate() -> bool:
    """Returns whether ONNX Runtime's products of uint8 and int8 saturate on this machine by default."""
    import onnxruntime

    data = np.full((1, 2), _DATA, np.uint8)
    probe = onnx.parser.parse_model(f"""
        <ir_version: 8, opset_import: ["": 13]>
        probe (uint8[1, 2] data) => (int32[1, 1] sum) <int8[2, 1] weights = {{{_WEIGHT}, {_WEIGHT}}}> {{
            sum = MatMulInteger(data, weights)
        }}
    """).SerializeToString()
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(probe, options, providers=["CPUExecutionProvider"])
    return int(session.run(None, {"data": data})[0].item()) != 2 * _DATA * _WEIGHT

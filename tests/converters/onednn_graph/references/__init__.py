"""oneDNN's ops written from their specification, in NumPy and float64. Nothing here imports ortconv.

One module per family; each has a table ``OPS`` from op kind to a function that takes a `Call` and returns one array or
a tuple of them, in float64 (or exact integers). Rounding to the declared type is `evaluate`'s work.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence

import numpy as np

from tests.converters.onednn_graph.references.call import Call, stored

Reference = Callable[[Call], "np.ndarray | tuple[np.ndarray, ...]"]

_FAMILIES = (
    "convolution",
    "elementwise",
    "gradients",
    "interpolation",
    "matmul",
    "movement",
    "normalization",
    "pooling",
    "quantization",
    "reduction",
    "softmax",
)


def _collect() -> dict[str, Reference]:
    table: dict[str, Reference] = {}
    for family in _FAMILIES:
        for kind, function in importlib.import_module(f"tests.converters.onednn_graph.references.{family}").OPS.items():
            assert kind not in table, f"{kind} has two references"
            table[kind] = function
    return table


REFERENCES = _collect()
"""Op kind -> its reference."""


def evaluate(call: Call) -> Sequence[np.ndarray]:
    """Returns an op's results in their declared types."""
    with np.errstate(all="ignore"):
        results = REFERENCES[call.kind](call)
    arrays = results if isinstance(results, tuple) else (results,)
    return [stored(array, slot.dtype) for array, slot in zip(arrays, call.outputs, strict=False)]

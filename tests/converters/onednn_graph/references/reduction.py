"""Reductions."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.converters.onednn_graph.references.call import Call


def _reduce(function: Callable[..., np.ndarray]) -> Callable[[Call], np.ndarray]:
    def apply(call: Call) -> np.ndarray:
        axes = call.inputs[1].tolist() if call.has(1) else call.attributes["axes"]
        x = call.x()
        return function(x, axis=tuple(axes), keepdims=call.get("keep_dims", False)) if axes else x

    return apply


OPS: dict[str, Callable[[Call], np.ndarray]] = {
    "ReduceL1": _reduce(lambda x, **how: np.abs(x).sum(**how)),
    "ReduceL2": _reduce(lambda x, **how: np.sqrt(np.square(x).sum(**how))),
    "ReduceMax": _reduce(np.max),
    "ReduceMean": _reduce(np.mean),
    "ReduceMin": _reduce(np.min),
    "ReduceProd": _reduce(np.prod),
    "ReduceSum": _reduce(np.sum),
}

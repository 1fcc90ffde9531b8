"""The matmul family."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tests.onednn_graph.references.call import Call

OPS: dict[str, Callable[[Call], "np.ndarray | tuple[np.ndarray, ...]"]] = {}

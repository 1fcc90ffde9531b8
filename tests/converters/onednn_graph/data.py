"""Random data for the inputs of a whole graph, in ranges that make sense for the ops that use them."""

from __future__ import annotations

import numpy as np

from tests.converters.onednn_graph.references.call import DTYPES
from tests.converters.onednn_graph.references.interpreter import Program

POSITIVE = {
    ("BatchNormForwardTraining", 2),
    ("BatchNormInference", 4),
    ("BatchNormTrainingBackward", 3),
    ("Divide", 1),
    ("LayerNormBackward", 3),
    ("Log", 0),
    ("Pow", 0),
    ("Sqrt", 0),
    ("SqrtBackward", 0),
}
"""Arguments that are divided by, or of which a root or logarithm is taken."""

SCALES = {("DynamicDequantize", 1), ("DynamicQuantize", 1)}
"""Arguments that bring integers to the size of other data."""

SHARES = {("SoftMaxBackward", 1), ("Dropout", 3)}
"""Arguments between 0 and 1."""


def feeds(program: Program, seed: int = 0) -> dict[int, np.ndarray]:
    """Returns data for every input, by id."""
    uses: dict[int, set[tuple[str, int]]] = {}
    for node in program.nodes:
        for position, identity in enumerate(node.inputs):
            uses.setdefault(identity, set()).add((node.kind, position))
    random = np.random.default_rng(seed)
    made = {}
    for identity in program.inputs:
        slot = program.slots[identity]
        assert slot.shape is not None
        made[identity] = _data(random, slot.dtype, slot.shape, uses[identity])
    return made


def _data(random: np.random.Generator, dtype: str, shape: tuple[int, ...], uses: set[tuple[str, int]]) -> np.ndarray:
    wanted = DTYPES[dtype]
    if dtype == "boolean":
        return np.asarray(random.random(shape) < 0.8)
    if dtype == "s64":
        return np.asarray(random.integers(1, 1 << 40, shape))
    if dtype == "s32":
        return np.asarray(random.integers(0, 8, shape)).astype(wanted)
    if dtype in ("s8", "u8", "s4", "u4"):
        low, high = {"s8": (-9, 10), "u8": (0, 20), "s4": (-8, 8), "u4": (0, 16)}[dtype]
        return random.integers(low, high, shape).astype(wanted)
    if uses & SHARES:
        return np.asarray(random.uniform(0.1, 0.6, shape)).astype(wanted)
    if uses & SCALES:
        return np.asarray(random.uniform(0.02, 0.1, shape)).astype(wanted)
    if uses & POSITIVE:
        return np.asarray(random.uniform(0.5, 2, shape)).astype(wanted)
    return np.asarray(0.5 * random.standard_normal(shape)).astype(wanted)
